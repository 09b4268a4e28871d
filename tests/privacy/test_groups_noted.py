"""An entry says how many groups a release by person had, where that number is public."""

import numpy as np
import pytest

from eigenveil import Ledger, PrivateCovariance, PrivatePCA, PrivateRegression
from eigenveil.cli.ledger import as_csv, history
from eigenveil.exceptions import LedgerError
from eigenveil.privacy import GROUP, ROW, Adjacency, Gaussian, ledger_file
from eigenveil.rows import IterableSource
from tests.cli.conftest import invoke

ROWS = np.random.default_rng(0).standard_normal((600, 3)) * 2.0
OF_ONE_ROW, OF_SIX = np.arange(600), np.arange(600) // 6


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "by-person.ledger", rho=1000.0, unit="person")


def private(cls, ledger, **options):
    first = {"n_components": 1} if cls is PrivatePCA else {}
    return cls(**first, rho=200.0, ledger=ledger, **options)


@pytest.mark.parametrize("cls", [PrivatePCA, PrivateCovariance])
@pytest.mark.parametrize(("ids", "groups"), [(OF_ONE_ROW, 600), (OF_SIX, 100)])
def test_an_entry_notes_how_many_groups_there_are(cls, ids, groups, ledger):
    """As many groups as an officer knows rows: each is a single row."""
    private(cls, ledger).fit(ROWS, groups=ids)
    (entry,) = ledger.entries
    assert (entry.unit, entry.groups) == (GROUP, groups)
    assert history(ledger)[0]["groups"] == groups
    assert f",group,{groups}," in as_csv(history(ledger))
    assert f"; {groups:,} groups" in invoke("ledger", "history", ledger.path).stdout


def test_chunks_that_are_read_once_are_noted_too(ledger):
    source = IterableSource(iter([ROWS]), n_columns=3)
    options = {"mechanism": "cleaned", "centring": "none", "row_norm": 9.0}
    private(PrivateCovariance, ledger, **options).fit(source, groups=OF_SIX)
    assert ledger.entries[0].groups == 100


def test_a_regression_notes_them_too(ledger):
    model = PrivateRegression(rho=200.0, ledger=ledger, bounds=(-9, 9), target_bounds=(-9, 9))
    model.fit(ROWS[:, :2], ROWS[:, 2], groups=OF_SIX)
    assert ledger.entries[0].groups == 100


def test_a_private_number_of_groups_is_not_noted(tmp_path):
    hidden = {"adjacency": "add-remove"}
    ledger = Ledger.create(tmp_path / "l", rho=1000.0, unit="person", **hidden)
    for options in ({"scale": "same"}, {"row_norm": 5.0}):
        private(PrivateCovariance, ledger, **hidden, **options).fit(ROWS, groups=OF_SIX)
    assert [entry.groups for entry in ledger.entries] == [None, None]
    assert b"groups" not in ledger.path.read_bytes()


def test_rows_have_no_groups(tmp_path):
    ledger = Ledger.create(tmp_path / "l", rho=1000.0)
    private(PrivateCovariance, ledger, row_norm=5.0).fit(ROWS)
    assert ledger.entries[0].groups is None
    assert history(ledger)[0]["groups"] is None


@pytest.mark.parametrize(("unit", "groups"), [(GROUP, -1), (GROUP, "7"), (GROUP, True), (ROW, 7)])
def test_an_impossible_number_of_groups_is_noticed(unit, groups, tmp_path):
    kind = "person" if unit is GROUP else "row"
    ledger = Ledger.create(tmp_path / "l", rho=1000.0, unit=kind)
    terms = {"adjacency": Adjacency.REPLACE_ONE, "unit": unit, "label": "x"}
    ledger.charge(Gaussian(1.0), **terms)
    with ledger_file.opened(ledger.path, exclusive=True) as file:
        ends = ledger_file.ends(file)
        line = ledger.path.read_bytes().splitlines(keepends=True)[-1]
        document, _ = ledger_file._parsed(line)
        document |= {"number": 2, "previous": ends.hash, "groups": groups}
        ledger_file.append(file, ends.end, ledger_file._line(document)[0])
    with pytest.raises(LedgerError, match="altered or is damaged"):
        _ = ledger.entries
