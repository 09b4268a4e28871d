"""The ledger never forgets: crashes, copies, forks, rivals and tampering."""

import copy
import json
import multiprocessing
import pickle
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from eigenveil.exceptions import BudgetExceededError, InvalidParameterError, LedgerError
from eigenveil.privacy import ledger as ledgers
from eigenveil.privacy.accounting import epsilon_of
from eigenveil.privacy.adjacency import GROUP, ROW, Adjacency, Unit
from eigenveil.privacy.cost import Approx, Gaussian, Pure
from eigenveil.privacy.ledger import Ledger, _connect

REPLACE = Adjacency.REPLACE_ONE
KILLS = 220


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "table.ledger", rho=0.5)


def charge(ledger, mu=0.1, adjacency=REPLACE):
    return ledger.charge(Gaussian(mu), label="test", adjacency=adjacency)


def test_charges_add_up_and_the_last_one_is_refused(ledger):
    for _ in range(4):
        charge(ledger, 0.5)  # rho = 1/8 each: exactly the budget
    with pytest.raises(
        BudgetExceededError,
        match=r"of 0\.5; with this release it would be rho",
    ):
        charge(ledger, 1e-3)
    assert len(ledger.entries) == 4
    assert ledger.spent == Gaussian(1.0)
    assert [entry.number for entry in ledger.entries] == [1, 2, 3, 4]


def test_gaussian_charges_compose_exactly_under_epsilon_and_delta(tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=1.0, delta=1e-6)
    charge(ledger, 0.15)
    charge(ledger, 0.18)  # sqrt(.15^2 + .18^2) = .2343, the budget is mu = .2367
    assert epsilon_of(ledger.spent, 1e-6) <= 1.0
    with pytest.raises(BudgetExceededError):
        charge(ledger, 0.1)


def test_a_pure_ledger_sums_epsilon_and_refuses_gaussian_noise(tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=1.0)
    ledger.charge(Pure(0.75), label="a", adjacency=REPLACE)
    with pytest.raises(BudgetExceededError, match="cannot pay for Gaussian noise"):
        charge(ledger, 1e-6)
    ledger.charge(Pure(0.25), label="b", adjacency=REPLACE)
    with pytest.raises(BudgetExceededError):
        ledger.charge(Approx(0.0, 1e-12), label="c", adjacency=REPLACE)
    assert ledger.summary() == "spent epsilon = 1 of 1"


@pytest.mark.parametrize(
    ("mu", "adjacency", "unit"),
    [(1.1, REPLACE, ROW), (0.1, Adjacency.ADD_REMOVE, ROW), (0.1, REPLACE, GROUP)],
)
def test_a_check_refuses_in_the_words_of_a_charge_and_spends_nothing(ledger, mu, adjacency, unit):
    cost, terms = Gaussian(mu), {"adjacency": adjacency, "unit": unit}
    with pytest.raises((BudgetExceededError, InvalidParameterError)) as charged:
        ledger.charge(cost, label="test", **terms)
    with pytest.raises(type(charged.value)) as checked:
        ledger.check(cost, **terms)
    assert str(checked.value) == str(charged.value)
    ledger.check(Gaussian(1.0), adjacency=REPLACE)
    assert ledger.entries == ()


def test_no_two_ledgers_share_a_hash(tmp_path):
    first, second = (Ledger.create(tmp_path / name, rho=1.0) for name in "ab")
    assert charge(first).hash != charge(second).hash


def test_neighbours_must_match(ledger):
    with pytest.raises(InvalidParameterError, match="same adjacency"):
        charge(ledger, adjacency=Adjacency.ADD_REMOVE)
    assert ledger.entries == ()


def test_opening_never_creates_and_creating_never_overwrites(tmp_path, ledger):
    with pytest.raises(LedgerError, match="no ledger at"):
        Ledger(tmp_path / "mistyped.ledger")
    assert not (tmp_path / "mistyped.ledger").exists()
    with pytest.raises(LedgerError, match="exists already"):
        Ledger.create(ledger.path, rho=100.0)
    with pytest.raises(LedgerError, match="cannot create"):
        Ledger.create(tmp_path / "missing" / "l", rho=1.0)
    assert ledger.budget.rho == 0.5


@pytest.mark.parametrize(
    "copier", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_share_what_was_spent(ledger, copier):
    charge(ledger, 0.5)
    twin = copier(ledger)
    charge(twin, 0.5)
    charge(ledger, 0.5)
    assert twin == ledger
    assert len(twin.entries) == len(ledger.entries) == 3
    charge(twin, 0.5)
    for one in (twin, ledger):
        with pytest.raises(BudgetExceededError):
            charge(one, 0.5)


def test_a_pickle_without_its_file_is_worthless(ledger):
    stored = pickle.dumps(ledger)
    ledger.path.unlink()
    with pytest.raises(LedgerError):
        pickle.loads(stored)


def _spend(path, granted):
    ledger = Ledger(path)
    count = 0
    for _ in range(8):
        try:
            charge(ledger, 0.25)  # rho = 1/32: the budget of 0.5 covers 16
            count += 1
        except BudgetExceededError:
            break
    granted.put(count)


@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_rivals_cannot_overspend(ledger, kind):
    if kind == "processes":
        context = multiprocessing.get_context("spawn")
        granted, worker = context.Queue(), context.Process
    else:
        granted, worker = multiprocessing.get_context("spawn").Queue(), threading.Thread
    rivals = [worker(target=_spend, args=(ledger.path, granted)) for _ in range(5)]
    for rival in rivals:
        rival.start()
    counts = [granted.get(timeout=120) for _ in rivals]
    for rival in rivals:
        rival.join()
    granted.close()
    assert sum(counts) == len(ledger.entries) == 16


def _kill(path, order):
    script = Path(__file__).with_name("kill_ledger.py")
    done = subprocess.run(
        [sys.executable, str(script), str(path), str(KILLS), order],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_killed_process_never_releases_uncharged(tmp_path):
    """220 kills: every release is charged; the other order is seen to lose charges."""
    safe = _kill(tmp_path / "safe", "charge-first")
    assert safe["released"] <= safe["charged"]
    assert safe["released"] > KILLS / 10  # the child really worked
    unsafe = _kill(tmp_path / "unsafe", "release-first")
    assert unsafe["released"] > unsafe["charged"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET record = '{}' WHERE number = 1",
        "DELETE FROM entries",
        "UPDATE header SET terms = '{}'",
        "DELETE FROM header",
        "INSERT INTO header VALUES ('{}', '')",
        "INSERT OR REPLACE INTO entries VALUES (1, '{}', 'x')",
        "INSERT INTO entries VALUES (5, '{}', 'x')",
        "INSERT OR REPLACE INTO entries SELECT 1, '{}', hash FROM entries",
    ],
)
def test_rows_cannot_be_changed_through_sql(ledger, statement):
    charge(ledger)
    connection = sqlite3.connect(ledger.path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "statements",
    [
        ["DROP TRIGGER entries_DELETE", "DELETE FROM entries WHERE number = 1"],
        [
            "DROP TRIGGER entries_UPDATE",
            "UPDATE entries SET record = replace(record, '0.1', '0.0')",
        ],
        ["DROP TRIGGER entries_UPDATE", "UPDATE entries SET number = 7 WHERE number = 2"],
        ["DROP TRIGGER header_UPDATE", "UPDATE header SET terms = replace(terms, '0.5', '9.5')"],
    ],
)
def test_tampering_breaks_the_chain(ledger, statements):
    charge(ledger)
    charge(ledger)
    connection = sqlite3.connect(ledger.path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match="altered"):
        charge(ledger)


def test_a_damaged_file_is_refused(ledger):
    ledger.path.write_bytes(b"not a database, long enough to look like one" * 40)
    with pytest.raises(LedgerError, match="intact"):
        charge(ledger)
    ledger.path.write_bytes(b"")
    with pytest.raises(LedgerError):
        Ledger(ledger.path)


def test_durability_settings_are_in_force(ledger):
    with _connect(ledger.path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA


def test_another_program_s_journal_is_put_back(ledger):
    connection = sqlite3.connect(ledger.path)
    assert connection.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
    connection.close()
    charge(ledger)
    with _connect(ledger.path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert len(ledger.entries) == 1


def test_a_copy_of_the_file_is_a_copy_of_the_ledger(ledger, tmp_path):
    """Nothing committed waits in a side file, even while someone reads."""
    with _connect(ledger.path) as reader:
        reader.execute("SELECT count(*) FROM entries").fetchone()
        charge(ledger)
        charge(ledger)
        (tmp_path / "copy").write_bytes(ledger.path.read_bytes())
    assert len(Ledger(tmp_path / "copy").entries) == 2


def test_a_vanished_file_is_not_created_anew(ledger, monkeypatch):
    ledger.path.unlink()
    monkeypatch.setattr(Path, "is_file", lambda self: True)
    with pytest.raises(LedgerError):
        charge(ledger)
    assert not ledger.path.exists()


def test_a_balance_is_that_of_its_entry(ledger):
    assert (ledger.balance().spent, ledger.balance().granted) == (0.0, 0.5)
    assert ledger.balances() == ()
    for mu in (0.4, 0.2):
        charge(ledger, mu)
    first, second = ledger.balances()
    assert (first.notion, first.delta, first.spent_before) == ("rho", None, 0.0)
    assert (first.spent, second.spent) == (pytest.approx(0.08), pytest.approx(0.1))
    assert second.spent_before == first.spent
    assert (ledger.balance(1), ledger.balance()) == (first, second)
    for number in (0, 3):
        with pytest.raises(InvalidParameterError, match="entries 1 to 2"):
            ledger.balance(number)


PATIENTS = Unit("person", "patient")


def test_a_ledger_of_persons_pays_for_persons_and_says_which(tmp_path):
    cost = Gaussian(0.1)
    for unit in (GROUP, PATIENTS):
        ledger = Ledger.create(tmp_path / unit.name, rho=0.5, unit="person")
        assert ledger.charge(cost, label="x", adjacency=REPLACE, unit=unit).unit == unit
        with pytest.raises(InvalidParameterError, match="pass groups to fit"):
            ledger.charge(cost, label="x", adjacency=REPLACE)
        assert [entry.unit for entry in Ledger(ledger.path).entries] == [unit]
        assert ledger.unit == "person"


def test_costs_under_other_ids_do_not_add_up(tmp_path):
    ledger = Ledger.create(tmp_path / "l", rho=0.5, unit="person")
    for _ in range(2):
        ledger.charge(Gaussian(0.1), label="x", adjacency=REPLACE, unit=PATIENTS)
    for other in (GROUP, Unit("person", "visit")):
        with pytest.raises(InvalidParameterError, match=r"the column 'patient'.*the same ids"):
            ledger.charge(Gaussian(0.1), label="x", adjacency=REPLACE, unit=other)
    assert len(ledger.entries) == 2


def test_a_ledger_of_rows_does_not_pay_for_persons(ledger):
    assert ledger.unit == "row"
    for unit in (GROUP, PATIENTS):
        with pytest.raises(InvalidParameterError, match="unit='person'"):
            ledger.charge(Gaussian(0.1), label="x", adjacency=REPLACE, unit=unit)
    assert charge(ledger).unit == ROW


def test_a_ledger_of_rows_is_written_as_it_was_before_there_were_units(ledger):
    """So that ledgers of earlier versions are read, and read these."""
    charge(ledger)
    with sqlite3.connect(ledger.path) as connection:
        (terms,) = connection.execute("SELECT terms FROM header").fetchone()
        (record,) = connection.execute("SELECT record FROM entries").fetchone()
    assert json.loads(terms).keys() == {"adjacency", "budget", "id", "version"}
    assert json.loads(terms)["version"] == 1
    assert json.loads(record).keys() == {"cost", "label", "number", "time"}


@pytest.mark.parametrize("unit", ["rows", "patient", None])
def test_a_ledger_is_of_rows_or_of_persons(tmp_path, unit):
    with pytest.raises(InvalidParameterError, match="'row' or 'person'"):
        Ledger.create(tmp_path / "l", rho=0.5, unit=unit)
    assert not (tmp_path / "l").exists()


def test_a_ledger_of_a_later_version_is_refused(tmp_path, monkeypatch):
    canonical = ledgers._canonical
    monkeypatch.setattr(ledgers, "_canonical", lambda terms: canonical(terms | {"version": 3}))
    with pytest.raises(LedgerError, match="later version"):
        Ledger.create(tmp_path / "l", rho=0.5)


def test_a_receipt_can_be_read_whatever_the_file_is_called(tmp_path):
    ledger = Ledger.create(tmp_path / "a\u202eb\nc", rho=1.0)
    assert str(ledger) == "ledger a\\u202eb\\nc"
