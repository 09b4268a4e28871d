"""One state, whatever it is called, and only the newest of it."""

import math
import os
import shutil
import threading

import pytest

from eigenveil import Ledger, StreamingPCA
from eigenveil.estimators import State, StreamProgress, StreamRun
from eigenveil.exceptions import (
    BudgetExceededError,
    StateError,
)
from eigenveil.mechanisms import Gate
from eigenveil.numerics import SystemSource
from eigenveil.storage import unchanged
from tests.estimators.streams import BUDGET, charges, label, table


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "ledger", rho=1000.0)


SMALL = {**BUDGET, "centring": "none", "batch_size": 40}


@pytest.fixture
def draws(monkeypatch):
    """The records of every draw."""
    seen, inner = [], Gate.draw

    def draw(gate, step, query):
        seen.append((query.records.start, query.records.stop))
        return inner(gate, step, query)

    monkeypatch.setattr(Gate, "draw", draw)
    return seen


def begun(path, **options):
    """A state with 39 records, one fewer than a batch."""
    StreamingPCA(1, **SMALL, state=path, **options).partial_fit(table(39), batch=label())
    return lambda: StreamingPCA(1, **SMALL, state=path, **options)


def meanwhile(happens, seed):
    """One more record, which comes after something else has happened."""
    happens()
    yield table(1, seed=seed)


def test_a_lock_that_is_removed_lets_no_record_into_two_batches(tmp_path, draws):
    stream = begun(tmp_path / "state")

    def other():
        (tmp_path / "state.lock").unlink()
        thread = threading.Thread(
            target=stream().partial_fit, args=[table(1, seed=1)], kwargs={"batch": label()}
        )
        thread.start()
        thread.join()

    with pytest.raises(StateError, match="was moved, removed or replaced while in use"):
        stream().partial_fit(meanwhile(other, seed=2), batch=label())
    assert draws == [(0, 40)]
    assert stream().restore().n_samples_ == 40


def test_who_lost_the_lock_stops_though_the_state_is_as_it_was(tmp_path, draws):
    """The other one has read the state and not yet written."""
    stream = begun(tmp_path / "state")
    inside, onwards, failures = threading.Event(), threading.Event(), []

    def first():
        def happens():
            inside.set()
            onwards.wait()

        try:
            stream().partial_fit(meanwhile(happens, seed=1), batch=label())
        except StateError as error:
            failures.append(str(error))

    thread = threading.Thread(target=first, daemon=True)
    thread.start()
    inside.wait()
    (tmp_path / "state.lock").unlink()

    def happens():
        onwards.set()
        thread.join()

    stream().partial_fit(meanwhile(happens, seed=2), batch=label())
    (failure,) = failures
    assert failure.startswith("state.lock was moved or removed while in use")
    assert draws == [(0, 40)]
    assert len(list(tmp_path.iterdir())) == 2  # and it wrote nothing


def test_a_stolen_lock_may_waste_a_budget_and_nothing_is_drawn_unpaid(
    tmp_path, draws, ledger, monkeypatch
):
    """The thief opens the state between the note of the first call and its charge."""
    stream, charge, words = begun(tmp_path / "state", ledger=ledger), Ledger.charge, []
    bits, robberies = SystemSource.words, []

    def other():
        stream().partial_fit(table(40, seed=1), batch="other")

    def robbed(*arguments, **terms):
        if not robberies:
            robberies.append("robbed")
            (tmp_path / "state.lock").unlink()
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
        return charge(*arguments, **terms)

    def watched(source, count):
        words.append(len(charges(ledger)))
        return bits(source, count)

    monkeypatch.setattr(Ledger, "charge", robbed)
    monkeypatch.setattr(SystemSource, "words", watched)
    pca = stream()
    with pytest.raises(StateError, match="replaced while in use, and nothing more was drawn"):
        pca.partial_fit(table(1, seed=2), batch="first")
    assert not hasattr(pca, "components_")  # what it drew is shown to nobody
    assert sorted(draws) == [(0, 40), (40, 80)]
    assert words == sorted(words)
    assert set(words) == {1, 2}  # no random bit of either call before its own charge
    one, wasted = charges(ledger)
    assert (one.label, one.cost) == (wasted.label, wasted.cost)
    again = stream().restore()
    assert (again.n_samples_, again.n_lost_) == (40, 40)
    assert again.privacy_.ledger.startswith(f"entry {one.number} of")


@pytest.mark.parametrize("event", ["moved", "removed", "older", "folder", "linked"])
def test_a_state_that_changes_during_a_call_is_left_alone(tmp_path, draws, ledger, event):
    folder = tmp_path / "folder"
    folder.mkdir()
    state = folder / "state"
    stream = begun(state, ledger=ledger)
    before = state.read_bytes()
    stream().partial_fit(table(1, seed=5), batch=label()).partial_fit(
        table(39, seed=6), batch=label()
    )
    del draws[:]

    def happens():
        if event == "moved":
            state.rename(tmp_path / "elsewhere")
        elif event == "removed":
            state.unlink()
        elif event == "older":
            state.write_bytes(before)
        elif event == "folder":
            folder.rename(tmp_path / "renamed")
        else:
            state.rename(tmp_path / "elsewhere")
            state.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StateError):
        stream().partial_fit(meanwhile(happens, seed=2), batch=label())
    assert draws == []


def test_a_state_stays_where_the_call_found_it(tmp_path, monkeypatch, draws):
    """Neither another present folder nor another goal of a link takes a call elsewhere."""
    real, other = tmp_path / "real", tmp_path / "other"
    real.mkdir(), other.mkdir()
    monkeypatch.chdir(real)
    stream = begun("state")
    stream().partial_fit(meanwhile(lambda: os.chdir(other), seed=1), batch=label())
    assert list(other.iterdir()) == []
    assert State.load(real / "state", StreamProgress).progress.spent == 40
    link = tmp_path / "link"
    link.symlink_to(real / "state")

    def happens():
        link.unlink()
        link.symlink_to(other / "state")

    StreamingPCA(1, **SMALL, state=link).partial_fit(meanwhile(happens, seed=2), batch=label())
    assert list(other.iterdir()) == []
    assert State.load(real / "state", StreamProgress).progress.buffered == 1


def test_a_state_that_cannot_be_replaced_draws_nothing(tmp_path, ledger, monkeypatch):
    """As where it is mounted alone, from a folder elsewhere."""
    stream = begun(tmp_path / "state", ledger=ledger)

    def busy(*arguments):
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(os, "replace", busy)
    with pytest.raises(StateError, match="cannot write"):
        stream().partial_fit(table(1, seed=1), batch=label())
    assert ledger.entries == ()
    assert not list(tmp_path.glob("*.new"))


def test_rows_of_a_save_that_is_going_on_are_not_removed(tmp_path):
    """Of a process whose lock was removed: its state would name rows that are gone."""
    stream, rows = begun(tmp_path / "state"), tmp_path / "state.0123abcd.rows"
    rows.touch()
    with unchanged(tmp_path / "state", State.load(tmp_path / "state", StreamProgress).found):
        with pytest.raises(StateError, match="while in use"):
            stream().restore()
        assert rows.exists()
    assert stream().restore().n_buffered_ == 39
    assert not rows.exists()


def test_a_state_under_a_new_name_takes_its_rows_along(tmp_path):
    begun(tmp_path / "old")
    (tmp_path / "old").rename(tmp_path / "new")
    pca = StreamingPCA(1, **SMALL, state=tmp_path / "new").partial_fit(
        table(40, seed=1), batch=label()
    )
    assert (pca.n_samples_, pca.n_buffered_) == (40, 39)
    names = {path.name.split(".")[0] for path in tmp_path.glob("*.rows")}
    assert names == {"new"}


def test_a_forked_process_draws_nothing_from_the_stream_of_its_parent(monkeypatch):
    pca = StreamingPCA(1, **SMALL).partial_fit(table(39), batch=label())
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(BudgetExceededError, match="forked process"):
        pca.partial_fit(table(1, seed=1), batch=label())
    assert not hasattr(pca, "components_")


# An older copy of a state.


def copy_of(state, folder):
    folder.mkdir()
    for path in state.parent.glob(f"{state.name}*"):
        shutil.copy(path, folder)
    return folder


@pytest.mark.parametrize("again", ["partial_fit", "finish", "restore"])
def test_an_older_copy_of_a_state_is_noticed_by_the_ledger(tmp_path, ledger, draws, again):
    state = tmp_path / "state"
    stream = begun(state, ledger=ledger)
    old = copy_of(state, tmp_path / "old")
    stream().partial_fit(table(3, seed=1), batch=label())
    newest = state.read_bytes()
    for path in old.iterdir():
        shutil.copy(path, tmp_path)
    arguments = {"X": table(1, seed=2), "batch": label()} if again == "partial_fit" else {}
    with pytest.raises(StateError, match="is an older copy") as caught:
        getattr(stream(), again)(**arguments)
    assert "\n" not in str(caught.value)
    assert draws == [(0, 40)]
    state.write_bytes(newest)  # its rows are still there
    assert stream().partial_fit(table(38, seed=2), batch=label()).n_samples_ == 80


def test_of_two_copies_of_a_state_one_draws(tmp_path, ledger, draws):
    """Under two names at the same time: both have opened before either has noted anything."""
    begun(tmp_path / "state", ledger=ledger)
    folder = copy_of(tmp_path / "state", tmp_path / "copy")
    one, other = (
        StreamingPCA(1, **SMALL, ledger=ledger, state=place / "state")
        for place in (tmp_path, folder)
    )
    with pytest.raises(StateError, match="is an older copy"):
        one.partial_fit(
            meanwhile(lambda: other.partial_fit(table(1, seed=1), batch=label()), seed=2),
            batch=label(),
        )
    assert draws == [(0, 40)]


def test_the_ledger_refuses_a_position_that_it_has(ledger):
    for stream in "ab":
        ledger.advance(stream, 0, 1024)
    for start, stop in ((0, 1024), (0, 2048), (1023, 2048)):
        with pytest.raises(StateError, match="is an older copy"):
            ledger.advance("a", start, stop)
    with pytest.raises(StateError, match="is an older copy"):
        ledger.require_unspent("a", 1023)
    for stream, start in (("a", 1024), ("b", 1024), ("c", 0)):
        ledger.require_unspent(stream, start)
    ledger.advance("a", 1024, 1_234_567)
    with pytest.raises(StateError, match="is an older copy"):
        ledger.advance("a", 1_234_566, 2_000_000)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_call_that_ends_about_its_note_locks_nobody_out(tmp_path, ledger, monkeypatch, moment):
    stream = begun(tmp_path / "state", ledger=ledger)

    note = Ledger.advance

    def dies(*arguments):
        if moment == "after":
            note(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "advance", dies)
        with pytest.raises(KeyboardInterrupt):
            stream().partial_fit(table(1, seed=1), batch=label())
    pca = stream().partial_fit(table(40, seed=2), batch=label())
    assert (pca.n_samples_, pca.n_lost_) == (40, 40)
    notes = [entry.label for entry in ledger.entries if entry.is_note]
    assert notes[-1].endswith(" spent to 80 records")


def test_notes_cost_nothing_and_are_for_states_only(tmp_path, ledger):
    StreamingPCA(1, **SMALL, ledger=ledger).partial_fit(table(100), batch=label())
    assert len(ledger.entries) == 1
    state = tmp_path / "state"
    pca = StreamingPCA(1, **SMALL, ledger=ledger, state=state).partial_fit(
        table(100, seed=1), batch=label()
    )
    name = State.load(state, StreamProgress).name
    labels = [entry.label for entry in ledger.entries]
    assert labels[1:] == [
        f"stream {name} spent to 40 records",
        f"oja stream {name}",
        f"stream {name} spent to 80 records",
    ]
    assert ledger.spent.mu == pytest.approx(math.sqrt(2) * pca.privacy_.cost.mu)
    assert pca.privacy_.ledger.startswith("entry 3 of")


def test_a_fit_that_was_cut_off_takes_no_further_records(tmp_path, ledger, draws, monkeypatch):
    """Its rows came in a random order, so nobody knows which of them were used."""
    stream = StreamingPCA(1, **SMALL, state=tmp_path / "state", ledger=ledger)
    step = StreamRun.step

    def cut_off(run, size):
        step(run, size)
        if len(draws) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(StreamRun, "step", cut_off)
        with pytest.raises(KeyboardInterrupt):
            stream.fit(table(400))
    again = StreamingPCA(1, **SMALL, state=tmp_path / "state", ledger=ledger)
    with pytest.raises(StateError, match="begun by fit, which was cut off"):
        again.partial_fit(table(100, seed=1), batch=label())
    assert not again.finish().privacy_.arrival
    assert len(charges(ledger)) == 1


@pytest.mark.parametrize("state", ["loop", "loop/x", "nul\0", "."])
def test_odd_paths_of_a_state_are_one_line(tmp_path, monkeypatch, state):
    monkeypatch.chdir(tmp_path)
    os.symlink("other", "loop")
    os.symlink("loop", "other")
    with pytest.raises(StateError):
        StreamingPCA(1, **SMALL, state=state).partial_fit(table(10), batch=label())
