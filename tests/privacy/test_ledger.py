"""The ledger never forgets: crashes, copies, forks, rivals and tampering."""

import copy
import json
import math
import multiprocessing
import pickle
import subprocess
import sys
import threading
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from eigenveil.exceptions import (
    BudgetExceededError,
    InvalidParameterError,
    LedgerError,
    StateError,
    UnfinishedLineWarning,
)
from eigenveil.privacy import (
    GROUP,
    ROW,
    Adjacency,
    Approx,
    Gaussian,
    Ledger,
    Pure,
    Unit,
    accounting,
    epsilon_of,
    ledger_file,
    whole_strength,
)

REPLACE = Adjacency.REPLACE_ONE
KILLS = 40


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
        match=r"spent rho = 0\.5 of 0\.5; with this release it would be rho",
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
    rivals = [worker(target=_spend, args=(ledger.path, granted)) for _ in range(3)]
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


@pytest.mark.audit  # `tests.kill` does it at every change of a file; a slice of that stays
def test_a_killed_process_never_releases_uncharged(tmp_path):
    """80 kills: every release is charged; the other order is seen to lose charges."""
    safe = _kill(tmp_path / "safe", "charge-first")
    assert safe["released"] <= safe["charged"]
    assert safe["released"] > KILLS / 10  # the child really worked
    unsafe = _kill(tmp_path / "unsafe", "release-first")
    assert unsafe["released"] > unsafe["charged"]


def lines_of(ledger):
    return ledger.path.read_bytes().splitlines(keepends=True)


def rewritten(line, old, new):
    """A line with another text and the hash of that: a forger who forgets the chain."""
    text = line.rpartition(b"\t")[0]
    assert old in text
    return ledger_file._line(json.loads(text.replace(old, new)))[0]


@pytest.mark.parametrize(
    "forged",
    [
        lambda terms, first, second: [terms, second],
        lambda terms, first, second: [terms, second, first],
        lambda terms, first, second: [terms, first, first],
        lambda terms, first, second: [first, second],
        lambda terms, first, second: [terms, first.replace(b"0.1", b"0.0"), second],
        lambda terms, first, second: [terms, rewritten(first, b"0.1", b"0.0"), second],
        lambda terms, first, second: [rewritten(terms, b"0.5", b"9.5"), first, second],
        lambda terms, first, second: [terms, b"\n", first, second],
        lambda *lines: [line.replace(b"\n", b"\r\n") for line in lines],
    ],
    ids=["cut", "swapped", "twice", "no terms", "altered", "rehashed", "budget", "blank", "crlf"],
)
def test_tampering_breaks_the_chain(ledger, forged):
    charge(ledger)
    charge(ledger)
    ledger.path.write_bytes(b"".join(forged(*lines_of(ledger))))
    with pytest.raises(LedgerError, match=r"altered|intact"):
        Ledger(ledger.path)
    with pytest.raises(LedgerError, match=r"altered|intact"):
        _ = ledger.entries


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"rho":0.5', b'"rho":-1'),
        (b'"rho":0.5', b'"rho":{}'),
        (b'{"rho":0.5}', b"[]"),
        (b'"replace-one"', b'"remove-all"'),
        (b'"unit":"row"', b'"unit":"table"'),
        (b'"unit":"row"', b'"unit":7'),
    ],
)
def test_impossible_terms_are_refused(ledger, old, new):
    ledger.path.write_bytes(rewritten(*lines_of(ledger), old, new))
    for act in (lambda: Ledger(ledger.path), lambda: charge(ledger), lambda: ledger.id):
        with pytest.raises(LedgerError, match="altered"):
            act()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"mu":0.1', b'"mu":null'),
        (b'"kind":"gaussian"', b'"kind":"none"'),
        (b'"number":1', b'"number":"1"'),
        (b'"label":"test"', b'"label":[]'),
        (b'"charges":1', b'"charges":"many"'),
        (b'"currency":"rho"', b'"curency":"rho"'),
    ],
)
def test_impossible_entries_are_refused(ledger, old, new):
    charge(ledger)
    terms, entry = lines_of(ledger)
    ledger.path.write_bytes(terms + rewritten(entry, old, new))
    for act in (lambda: Ledger(ledger.path), lambda: charge(ledger)):
        with pytest.raises(LedgerError, match="altered"):
            act()


def test_flipped_bits_are_noticed(ledger):
    for _ in range(2):
        charge(ledger)
    whole = ledger.path.read_bytes()
    for place in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        ledger.path.write_bytes(damaged)
        with pytest.raises(LedgerError):
            Ledger(ledger.path)


def test_a_damaged_file_is_refused(ledger):
    ledger.path.write_bytes(b"not a ledger, long enough to look like one" * 40)
    with pytest.raises(LedgerError, match="intact"):
        charge(ledger)
    ledger.path.write_bytes(b"")
    with pytest.raises(LedgerError):
        Ledger(ledger.path)


def test_a_line_that_was_cut_off_was_never_charged_for(ledger):
    """Wherever its process died, the next charge goes on from the line before."""
    charge(ledger)
    before = ledger.path.read_bytes()
    charge(ledger)
    whole = ledger.path.read_bytes()
    for cut in range(len(before), len(whole) - 1):  # with all but its line end it counts
        ledger.path.write_bytes(whole[:cut])
        assert len(ledger.entries) == 1
        assert ledger.unfinished == (cut > len(before))
        with pytest.warns(UnfinishedLineWarning) if ledger.unfinished else nullcontext():
            assert charge(ledger, 0.2).number == 2
        assert [entry.cost for entry in Ledger(ledger.path).entries] == [
            Gaussian(0.1),
            Gaussian(0.2),
        ]
        assert ledger.path.read_bytes().startswith(before)


@pytest.mark.parametrize("charges", [0, 1, 3])
def test_a_last_line_counts_without_its_line_end(ledger, charges):
    """As after an edit, or a copy by a program that drops it."""
    for _ in range(charges):
        charge(ledger)
    ledger.advance("s", 0, 10)
    whole = ledger.path.read_bytes()
    before = ledger.entries
    ledger.path.write_bytes(whole.rstrip(b"\n"))
    assert Ledger(ledger.path).entries == before
    assert not ledger.unfinished
    assert ledger.spent_to("s") == 10
    with pytest.raises(StateError):
        ledger.require_unspent("s", 9)
    assert charge(ledger).number == len(before) + 1
    assert ledger.path.read_bytes().startswith(whole)
    assert Ledger(ledger.path).entries[:-1] == before


def test_terms_count_without_their_line_end(ledger):
    whole = ledger.path.read_bytes()
    ledger.path.write_bytes(whole.rstrip(b"\n"))
    with pytest.raises(LedgerError, match="exists already"):
        Ledger.create(ledger.path, rho=9.0)
    assert Ledger(ledger.path).budget.rho == 0.5
    charge(ledger)
    assert ledger.path.read_bytes().startswith(whole)
    assert [entry.number for entry in Ledger(ledger.path).entries] == [1]


def test_a_line_that_goes_on_behind_its_hash_is_refused(ledger):
    """No write that is cut off leaves it."""
    charge(ledger)
    whole = ledger.path.read_bytes()
    ledger.path.write_bytes(whole[:-1] + b"x")
    for act in (lambda: Ledger(ledger.path), lambda: charge(ledger)):
        with pytest.raises(LedgerError, match="altered"):
            act()
    assert ledger.path.read_bytes() == whole[:-1] + b"x"


@pytest.mark.parametrize("charges", [0, 1])
def test_a_failed_charge_behind_a_lost_line_end_changes_nothing(ledger, monkeypatch, charges):
    for _ in range(charges):
        charge(ledger)
    before = ledger.path.read_bytes().rstrip(b"\n")
    ledger.path.write_bytes(before)

    def full(file):
        raise OSError(28, "no space left")

    monkeypatch.setattr(ledger_file, "sync", full)
    with pytest.raises(LedgerError):
        charge(ledger)
    assert ledger.path.read_bytes() == before
    assert len(ledger.entries) == charges


def test_a_creation_that_was_cut_off_can_be_done_again(tmp_path, ledger):
    whole = ledger.path.read_bytes()
    for cut in range(len(whole) - 1):
        path = tmp_path / f"cut{cut}"
        path.write_bytes(whole[:cut])
        with pytest.raises(LedgerError):
            Ledger(path)
        assert Ledger.create(path, rho=0.25).budget.rho == 0.25
    (tmp_path / "notes").write_bytes(b"other")
    with pytest.raises(LedgerError, match="exists already"):
        Ledger.create(tmp_path / "notes", rho=1.0)
    assert (tmp_path / "notes").read_bytes() == b"other"


def test_a_ledger_of_the_first_format_is_named(tmp_path):
    (tmp_path / "old").write_bytes(b"SQLite format 3\0" + bytes(4000))
    with pytest.raises(LedgerError, match="of the first format"):
        Ledger(tmp_path / "old")
    with pytest.raises(LedgerError, match="exists already"):
        Ledger.create(tmp_path / "old", rho=1.0)


@pytest.mark.parametrize("second", ["hard link", "symbolic link"])
def test_a_second_name_is_the_same_ledger(ledger, tmp_path, second):
    """One process dies in the middle of a charge under one name, others go on under another."""
    other = tmp_path / "other name"
    if second == "hard link":
        other.hardlink_to(ledger.path)
    else:
        other.symlink_to(ledger.path)
    charge(ledger, 0.5)
    with ledger.path.open("ab") as file:  # cut off
        file.write(b'{"cost":{"kind":"gaussian","mu":0.5},"label"')
    twin = Ledger(other)
    for one in (twin, ledger, twin):  # rho = 1/8 each: four are the budget
        charge(one, 0.5)
    for one in (twin, ledger):
        assert len(one.entries) == 4
        with pytest.raises(BudgetExceededError):
            charge(one, 0.01)


def test_a_file_put_in_its_place_is_another_ledger(ledger, tmp_path, monkeypatch):
    """A copy of the same bytes, as programs that save by renaming leave it."""
    charge(ledger)
    whole = ledger.path.read_bytes()

    def replaced():
        (tmp_path / "copy").write_bytes(whole)
        (tmp_path / "copy").replace(ledger.path)

    inner = ledger_file.lock

    @contextmanager
    def waiting(file, **options):
        replaced()  # while the lock is waited for
        with inner(file, **options):
            yield

    with monkeypatch.context() as patched:
        patched.setattr(ledger_file, "lock", waiting)
        with pytest.raises(LedgerError, match="moved or replaced while in use"):
            charge(ledger)
    synced = ledger_file.sync

    def swapped(file):
        synced(file)
        replaced()  # while the line is written

    monkeypatch.setattr(ledger_file, "sync", swapped)
    with pytest.raises(LedgerError, match="moved or replaced while in use"):
        charge(ledger)
    assert len(ledger.entries) == 1


def test_nothing_is_written_once_the_lock_is_gone(ledger, monkeypatch):
    """An interrupt at any moment of a charge leaves nothing behind that is written later."""

    def interrupted(file):
        raise KeyboardInterrupt

    monkeypatch.setattr(ledger_file, "sync", interrupted)
    before = ledger.path.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        charge(ledger)
    assert ledger.path.read_bytes() == before


def test_a_creation_that_was_cut_off_is_named(ledger, tmp_path):
    whole = ledger.path.read_bytes()
    for cut in (0, 5, len(whole) - 2):
        (tmp_path / "cut").write_bytes(whole[:cut])
        with pytest.raises(LedgerError, match="create it again"):
            Ledger(tmp_path / "cut")


def test_a_refusal_says_when_the_part_for_failures_is_spent(tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=10.0, delta=1e-6)
    ledger.charge(Gaussian(0.1), label="a", adjacency=REPLACE)
    with pytest.raises(BudgetExceededError, match="the part of its delta for releases that may"):
        ledger.charge(Approx(0.1, 5e-7), label="b", adjacency=REPLACE)
    pure = Ledger.create(tmp_path / "p", epsilon=10.0, delta=1e-6)
    pure.charge(Pure(0.01), label="a", adjacency=REPLACE)
    for _ in range(16):
        pure.charge(Gaussian(0.01), label="b", adjacency=REPLACE)
    with pytest.raises(BudgetExceededError, match="or a pure epsilon"):
        pure.charge(Gaussian(0.01), label="b", adjacency=REPLACE)
    pure.charge(Pure(1.0), label="c", adjacency=REPLACE)


def test_a_refusal_after_a_note_states_what_was_spent(tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=1.0, delta=1e-6)
    whole = whole_strength(ledger.budget, pure=False)
    ledger.charge(Gaussian(whole), label="a", adjacency=REPLACE)
    ledger.advance("x", 0, 10)
    with pytest.raises(BudgetExceededError, match="has spent epsilon = 1 of 1 at"):
        charge(ledger)
    assert ledger.summary().startswith("spent epsilon = 1 of 1")


def test_a_charge_is_marked_as_failed_once_and_stays_spent(ledger):
    first, second = charge(ledger), charge(ledger)
    for _ in range(2):
        ledger.mark_failed(first)
    mark = ledger.entries[-1]
    assert (mark.number, mark.is_note, mark.failed) == (3, True, 1)
    assert ledger.spent.mu == pytest.approx(math.hypot(0.1, 0.1))
    assert charge(ledger).number == 4
    other = Ledger.create(ledger.path.with_name("other"), rho=0.5)
    for entry, place in ((mark, ledger), (second, other)):
        with pytest.raises(LedgerError, match="no such charge"):
            place.mark_failed(entry)


@pytest.mark.parametrize("failed", [b"0", b"-1", b"2", b"3", b"4", b"true", b'"1"', b"1.0"])
def test_a_mark_of_no_earlier_charge_is_refused(ledger, failed):
    entry = charge(ledger)
    ledger.advance("x", 0, 1)
    ledger.mark_failed(entry)
    *before, mark = lines_of(ledger)
    ledger.path.write_bytes(
        b"".join(before) + rewritten(mark, b'"failed":1', b'"failed":' + failed)
    )
    with pytest.raises(LedgerError, match="altered"):
        Ledger(ledger.path)


def test_a_charge_of_nothing_is_a_note(ledger):
    charge(ledger)
    assert charge(ledger, 0.0).is_note
    assert ledger.summary() == "spent rho = 0.005 of 0.5"


def test_a_full_disk_charges_nothing(ledger, monkeypatch):
    charge(ledger)
    before = ledger.path.read_bytes()

    def full(file):
        raise OSError(28, "no space left")

    monkeypatch.setattr(ledger_file, "sync", full)
    with pytest.raises(LedgerError, match="check the file and its disk"):
        charge(ledger)
    assert ledger.path.read_bytes() == before


def test_a_charge_waits_for_the_disk(ledger, monkeypatch):
    waited = []
    monkeypatch.setattr(ledger_file, "sync", lambda file: waited.append(file.name))
    charge(ledger)
    assert waited == [str(ledger.path)]


def test_a_charge_reads_the_ends_of_the_file_alone(ledger, monkeypatch):
    """However many entries there are: it takes constant time."""
    charge(ledger, 0.01)
    lines = lines_of(ledger)
    # What lies between is not looked at: a charge does not see that it is no ledger.
    ledger.path.write_bytes(lines[0] + b"x\n" * 200_000 + lines[1])
    assert charge(ledger, 0.01).number == 2
    with pytest.raises(LedgerError):  # who opens it does
        Ledger(ledger.path)


def test_notes_cost_nothing_and_are_kept(ledger):
    charge(ledger, 0.5)
    note = ledger.advance("x", 0, 1024)
    assert (note.number, note.is_note, note.label) == (2, True, "stream x spent to 1,024 records")
    assert ledger.balance() == ledger.balance(2)
    assert (ledger.balance().spent, ledger.left()) == (0.125, ("rho", 0.375))
    assert [entry.is_note for entry in Ledger(ledger.path).entries] == [False, True]


def test_no_name_and_no_kind_of_file_escapes_the_tree_of_errors(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path in (loop, tmp_path, tmp_path / "nul\0", tmp_path / ("x" * 300), "/dev/null"):
        with pytest.raises(LedgerError):
            Ledger(path)
    for path in (loop, tmp_path, tmp_path / "nul\0", tmp_path / ("x" * 300)):
        with pytest.raises(LedgerError):
            Ledger.create(path, rho=1.0)


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


def test_balances_are_those_of_each_entry_whatever_it_is(tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=10.0, delta=1e-6)
    ledger.advance("x", 0, 1)
    for i in range(3):
        charge(ledger, 0.1 + i / 10)
        ledger.advance("x", 10 * i + 1, 10 * i + 11)
    assert ledger.balances() == tuple(ledger.balance(i + 1) for i in range(7))


def test_a_balance_of_many_entries_takes_a_moment_each(tmp_path, monkeypatch):
    """Counted, not timed: evaluations of the curve, which are what takes long."""
    monkeypatch.setattr(ledger_file, "sync", lambda file: None)
    ledger = Ledger.create(tmp_path / "l", epsilon=10.0, delta=1e-6)
    for i in range(60):
        charge(ledger, 0.01 + i * 1e-4)
    asked, curve = [], accounting.gaussian_delta

    def counted(mu, epsilon):
        asked.append(epsilon)
        return curve(mu, epsilon)

    ledger.balance()  # computes the limits, which are kept
    monkeypatch.setattr(accounting, "gaussian_delta", counted)
    assert len(ledger.balances()) == 60
    assert len(asked) < 60 * 2 * 40


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


@pytest.mark.parametrize("unit", ["rows", "patient", None])
def test_a_ledger_is_of_rows_or_of_persons(tmp_path, unit):
    with pytest.raises(InvalidParameterError, match="'row' or 'person'"):
        Ledger.create(tmp_path / "l", rho=0.5, unit=unit)
    assert not (tmp_path / "l").exists()


def test_a_ledger_of_a_later_version_is_refused(ledger):
    ledger.path.write_bytes(rewritten(*lines_of(ledger), b"ledger/3", b"ledger/4"))
    with pytest.raises(LedgerError, match="later version"):
        Ledger(ledger.path)


def test_a_receipt_can_be_read_whatever_the_file_is_called(tmp_path):
    ledger = Ledger.create(tmp_path / "a\u202eb\nc", rho=1.0)
    assert str(ledger) == "ledger a\\u202eb\\nc"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"charges":2', b'"charges":7'),
        (b'"charges":2', b'"charges":true'),
        (b'"charges":2', b'"charges":-1'),
        (b'"currency":"rho"', b'"currency":"gold"'),
        (b'"currency":"rho"', b'"currency":"epsilon"'),
        (b'"amount":"', b'"amount":"-'),
        (b'"amount":"', b'"amount":"' + b"9" * 400),
    ],
)
def test_totals_that_cannot_follow_are_refused(ledger, old, new):
    """Whoever rewrites the last line alone leaves the chain whole."""
    charge(ledger)
    charge(ledger)
    terms, first, second = lines_of(ledger)
    ledger.path.write_bytes(terms + first + rewritten(second, old, new))
    with pytest.raises(LedgerError, match="altered"):
        _ = ledger.entries


@pytest.mark.parametrize("new", [b"40 records\\n", b"-40 records", b"many records", b"4 x"])
def test_a_note_that_no_stream_has_written_is_refused(ledger, new):
    ledger.advance("0123", 0, 40)
    terms, note = lines_of(ledger)
    ledger.path.write_bytes(terms + rewritten(note, b"40 records", new))
    for ask in (lambda: ledger.advance("0123", 40, 80), lambda: ledger.require_unspent("0123", 40)):
        with pytest.raises(LedgerError, match="altered"):
            ask()


def test_a_file_with_a_long_first_line_is_not_written_over(tmp_path):
    path, whole = tmp_path / "other", ledger_file._START + b" " * (1 << 20) + b"\n"
    path.write_bytes(whole)
    with pytest.raises(LedgerError, match="exists already"):
        Ledger.create(path, rho=1.0)
    assert path.read_bytes() == whole
