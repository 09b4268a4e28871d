import csv
import json

import pytest

from eigenveil import Ledger
from eigenveil.privacy import Adjacency, Gaussian, Pure
from tests.cli.conftest import fails, invoke

REPLACE = Adjacency.REPLACE_ONE


@pytest.fixture
def ledger(tmp_path):
    result = invoke("ledger", "init", tmp_path / "a.ledger", "--epsilon", 2, "--delta", 1e-6)
    assert result.exit_code == 0
    assert "spent epsilon = 0 of 2" in result.stdout
    ledger = Ledger(tmp_path / "a.ledger")
    ledger.charge(Gaussian(0.1), label="first, with a comma", adjacency=REPLACE)
    ledger.charge(Gaussian(0.2), label="second", adjacency=REPLACE)
    return ledger


def test_init_states_all_terms(tmp_path):
    words = ["--rho", 0.5, "--adjacency", "add-remove", "--unit", "person"]
    invoke("ledger", "init", tmp_path / "b.ledger", *words)
    ledger = Ledger(tmp_path / "b.ledger")
    assert ledger.budget.as_dict() == {"rho": 0.5}
    assert ledger.adjacency is Adjacency.ADD_REMOVE
    assert ledger.unit == "person"
    assert json.loads(invoke("ledger", "show", ledger.path, "--json").stdout)["unit"] == "person"


def test_show_and_history(ledger):
    shown = invoke("ledger", "show", ledger.path).stdout
    assert ledger.summary() in shown
    assert "protecting one row under replace-one" in shown
    assert ledger.entries[-1].hash in shown
    lines = invoke("ledger", "history", ledger.path).stdout.splitlines()
    assert len(lines) == 2
    assert "second" in lines[1]
    assert "mu = 0.2" in lines[1]
    entries = json.loads(invoke("ledger", "history", ledger.path, "--json").stdout)
    assert [entry["hash"] for entry in entries] == [entry.hash for entry in ledger.entries]


def test_export(ledger, tmp_path):
    for form in ("csv", "json"):
        result = invoke("ledger", "export", ledger.path, "-o", tmp_path / f"x.{form}")
        assert result.exit_code == 0
        assert result.stdout == ""
    with (tmp_path / "x.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    document = json.loads((tmp_path / "x.json").read_text())
    assert [row["label"] for row in rows] == ["first, with a comma", "second"]
    assert [entry["label"] for entry in document["history"]] == [row["label"] for row in rows]
    assert document["budget"] == {"epsilon": 2.0, "delta": 1e-6}
    assert "exists already" in fails(2, "ledger", "export", ledger.path, "-o", tmp_path / "x.csv")


@pytest.mark.parametrize(
    ("terms", "cost", "expected"),
    [
        ({"epsilon": 2.0}, Pure(0.5), ("epsilon", 1.5)),
        ({"rho": 1.0}, Gaussian(1.0), ("rho", 0.5)),
        ({"rho": 0.5}, Gaussian(1.0), ("rho", 0.0)),
        ({"epsilon": 1.0}, Pure(1.0), ("epsilon", 0.0)),
    ],
)
def test_what_is_left(terms, cost, expected, tmp_path):
    ledger = Ledger.create(tmp_path / "c.ledger", **terms)
    ledger.charge(cost, label="x", adjacency=REPLACE)
    balance = ledger.balance()
    assert (balance.notion, balance.largest_next) == expected


def test_an_untouched_ledger_has_everything_left(tmp_path):
    ledger = Ledger.create(tmp_path / "d.ledger", epsilon=2.0, delta=1e-6)
    notion, amount = ledger.balance().notion, ledger.balance().largest_next
    assert notion == "epsilon"
    assert 1.999 <= amount <= 2


def test_labels_are_neither_formulas_nor_orders_to_a_terminal(tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", rho=1)
    ledger.charge(Gaussian(0.1), label="=1+1\x1b[2K", adjacency=REPLACE)
    assert "name in .json" in fails(2, "ledger", "export", ledger.path, "-o", tmp_path / "a.csv")
    assert not (tmp_path / "a.csv").exists()
    assert invoke("ledger", "export", ledger.path, "-o", tmp_path / "a.json").exit_code == 0
    assert "=1+1\\x1b[2K" in invoke("ledger", "history", ledger.path).stdout


def test_labels_in_csv_are_spelled_out(tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", rho=1)
    ledger.charge(Gaussian(0.1), label="x\x1b[2K\r\ny\u202e", adjacency=REPLACE)
    assert invoke("ledger", "export", ledger.path, "-o", tmp_path / "a.csv").exit_code == 0
    text = (tmp_path / "a.csv").read_text("utf-8")
    assert text.replace("\n", "").isprintable()
    (row,) = csv.DictReader(text.splitlines())
    assert row["label"] == "x\\x1b[2K\\r\\ny\\u202e"


def test_the_column_of_persons_is_not_the_ledgers(tmp_path):
    result = invoke("ledger", "init", tmp_path / "l", "--epsilon", 1, "--unit", "patient_id")
    assert result.exit_code == 2
    assert "write row or person" in result.stderr
    assert "--unit COLUMN" in result.stderr
    assert not (tmp_path / "l").exists()
