"""From a messy CSV file to a release by the commands that `plan` prints, with no charge lost."""

import csv
import shlex

import numpy as np
import pytest

from eigenveil import Ledger, Release
from tests.cli.conftest import fails, invoke

ROWS = 4000
BUDGET = ["--epsilon", 1, "--delta", 1e-6]
CATEGORIES = ["--encode", "sex", "--encode", "ward", "--encode", "admitted=2024-01-01"]


@pytest.fixture(autouse=True)
def messy(tmp_path, monkeypatch):
    """A table of persons with several rows, two units, limits of detection and missing values."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    with open("clinic.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["patient_id", "age", "bmi", "crp", "income", "sex", "ward", "admitted"])
        for row in range(ROWS):
            cells = [
                f"P{row // 2:05d}",
                str(rng.integers(18, 90)),
                f"{rng.normal(26, 4):.1f}",
                "<0.5" if rng.random() < 0.1 else f"{rng.exponential(5):.2f}",
                str(int(rng.normal(30000, 9000))),
                str(rng.choice(["f", "m"])),
                str(rng.choice(["north", "south", "east"])),
                f"2024-03-{rng.integers(1, 28):02d}",
            ]
            for place in (2, 3, 5, 6):
                if rng.random() < 0.03:
                    cells[place] = str(rng.choice(["", "NA"]))
            writer.writerow(cells)


def planned(*words):
    """Return the commands that a plan ends with, in their order."""
    result = invoke("plan", "clinic.csv", *BUDGET, *words)
    assert result.exit_code == 0, result.output
    lines = [line for line in result.stdout.splitlines() if line.startswith(("first ", "next "))]
    return [shlex.split(line[13:], comments=True)[1:] for line in lines]


@pytest.mark.parametrize(
    ("asked", "charges"),
    [
        (["--unit", "patient_id", *CATEGORIES], 2),
        (["--drop", "patient_id", *CATEGORIES, "--scale", "private", "--censored", "half"], 2),
        (["--drop", "patient_id", *CATEGORIES, "--of", "covariance"], 2),
        (["--drop", "patient_id", *CATEGORIES, "--k", 0.8, "--show-scores-by", "sex"], 2),
        (["--columns", "age,bmi,crp,income", "--k", 2], 1),
        (["--columns", "age,bmi,crp,income", "--of", "regression", "--target", "income"], 1),
    ],
)
def test_the_commands_of_a_plan_lead_to_a_release(asked, charges):
    start, release = planned(*asked)
    assert invoke(*start).exit_code == 0
    (name,) = (word for word in start if word.endswith(".ledger"))
    ledger = Ledger(name)
    message = fails(3, *release)  # cells are missing, which the plan could only hint at
    assert "--on-missing centre" in message
    assert "--on-invalid zero" in message
    assert ledger.entries == ()
    ((release),) = planned(*asked, "--on-missing", "centre")  # the ledger is there
    result = invoke(*release)
    assert result.exit_code == 0, result.output
    assert len(ledger.entries) == charges
    assert not any(entry.is_note for entry in ledger.entries)  # none is marked as failed
    assert ledger.entries[-1].label == Release.verify(release[-1]).mechanism
    assert ledger.balance().spent == pytest.approx(1.0, abs=1e-3)


def test_a_plan_asks_about_columns_before_it_names_commands():
    message = fails(3, "plan", "clinic.csv", *BUDGET)
    for word in ("--unit patient_id", "--drop patient_id,sex,ward,admitted", "--encode sex"):
        assert word in message


def test_a_plan_refuses_what_its_command_would():
    words = ["--columns", "age,bmi,income", "--k", "private", "--show-scores"]
    assert "state --k" in fails(2, "plan", "clinic.csv", *BUDGET, *words)
