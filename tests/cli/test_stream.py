"""Rows that arrive over days, from the command line."""

import numpy as np
import pytest

from eigenveil import Ledger, Release
from tests.cli.conftest import invoke

BUDGET = ["--k", "1", "--epsilon", "1", "--delta", "1e-6"]


@pytest.fixture
def days(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((6000, 3)) * [5.0, 1.0, 1.0] + 10
    for day, part in enumerate(np.array_split(rows, 3)):
        np.savetxt(f"day{day}.csv", part, delimiter=",", header="a,b,c", comments="")
    Ledger.create("visits.ledger", epsilon=1, delta=1e-6)
    return ["stream", *BUDGET, "--state", "visits.state", "--ledger", "visits.ledger"]


def test_days_are_charged_once_and_released(days):
    for day in range(3):
        done = invoke(*days, f"day{day}.csv", "--batch", f"day {day}")
        assert done.exit_code == 0
        assert "rows used" in done.stdout
    assert invoke(*days, "--finish", "-o", "release").exit_code == 0
    assert Release.load("release").settings["n_rows"] == 6000
    assert abs(Release.load("release").arrays["components"][0, 0]) > 0.9
    assert len(Ledger("visits.ledger").entries) == 1


@pytest.mark.parametrize(
    ("options", "words", "code"),
    [
        ([], "nothing to do", 2),
        (["day0.csv", "--batch", "day 0"], "a batch of this label arrived before", 3),
        (["day0.csv"], "these rows arrived before", 3),
        (["day1.csv", "--epsilon", "0.5"], "began with another epsilon", 3),
        (["--finish", "-o", "day1.csv"], "exists already", 2),
    ],
)
def test_mistakes_are_one_line(days, options, words, code):
    assert invoke(*days, "day0.csv", "--batch", "day 0").exit_code == 0
    done = invoke(*days, *options)
    assert done.exit_code == code
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert len(Ledger("visits.ledger").entries) == 1


def test_what_waits_is_no_release(days):
    np.savetxt("few.csv", np.ones((5, 3)) * [1, 2, 3], delimiter=",", header="a,b,c", comments="")
    done = invoke(*days, "few.csv", "-o", "release")
    assert done.exit_code == 2
    assert "no batch is full yet" in done.stderr
    assert Ledger("visits.ledger").entries == ()
