"""A coordinator that starts again, and owners that go and come back."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigenveil.exceptions import InvalidParameterError, QuorumLostError, StateError
from eigenveil.federated import Code, Coordinator, Event, Happening, Journal, Limits, Refusal
from eigenveil.release import Release
from tests.federated.coordinating import left_out, run, weights, wire
from tests.federated.stubs import NAMES, Clock, Stub, Wire, agreement


def test_an_owner_that_comes_back_under_another_node_is_asked_there() -> None:
    transport = wire(keys=False)
    transport.silent.add("n-west")  # it joined nowhere yet

    def appear(kind: str, answer: Any) -> Any:
        transport.owners["n-new"] = Stub("west")
        return answer

    transport.owners["n-east"].spoil = appear
    release = run(transport)
    assert set(weights(release)) == set(NAMES)


def test_an_answer_from_where_an_owner_was_before_is_not_needed() -> None:
    transport = wire(keys=False)
    replies, held = transport.replies, []

    def appear(kind: str, answer: Any) -> Any:
        if kind == "basis-question":
            transport.owners["n-new"] = Stub("west")
        return answer

    def late() -> Any:  # from the old node, once the new one has joined
        arrived = [*replies(), *held]
        moved = "n-new" in transport.owners
        held[:] = [each for each in arrived if moved and each[0] == "n-west" and each not in held]
        return [each for each in arrived if each not in held]

    transport.owners["n-west"].spoil = appear
    transport.replies = late  # type: ignore[method-assign]
    release = run(transport)
    assert set(weights(release)) == set(NAMES)
    assert release.settings["federation"]["left_out"] == []


@pytest.mark.parametrize("crash", ["basis-question", "values-question"])
@pytest.mark.parametrize("keys", [True, False])
def test_a_coordinator_that_crashed_goes_on(tmp_path: Path, crash: str, keys: bool) -> None:
    path = tmp_path / "journal"
    transport = wire(keys, east=Stub("east", angle=0.1))
    questions: list[tuple[str, bytes]] = []
    send = transport.send

    def noting(asked: Any, seconds: float) -> None:
        questions.extend(asked.items())
        send(asked, seconds)

    transport.send = noting  # type: ignore[method-assign]

    def fall(kind: str, answer: Any) -> Any:
        if kind == crash:
            raise KeyboardInterrupt
        return answer

    transport.owners["n-west"].spoil = fall
    with Journal(path) as journal, pytest.raises(KeyboardInterrupt):
        run(transport, journal)
    before = dict(questions)
    transport.owners["n-west"].spoil = lambda kind, answer: answer
    transport.queue.clear()
    with Journal(path) as journal:
        release = run(transport, journal)
        events = journal.events
    assert set(weights(release)) == set(NAMES)
    assert left_out(release) == set()
    again = {node: q for node, q in questions if crash.encode() in q}
    assert again["n-west"] == before["n-west"]  # the same bytes
    heard = [(e.round, e.owner) for e in events if e.happening is Happening.ANSWERED]
    assert len(heard) == len(set(heard)) == 6
    uncut = run(wire(keys, east=Stub("east", angle=0.1)))
    for name, array in uncut.arrays.items():
        np.testing.assert_array_equal(release.arrays[name], array)


def test_who_was_away_may_come_back_after_a_restart(tmp_path: Path) -> None:
    transport = wire()
    transport.silent |= {"n-west", "n-east"}
    with Journal(tmp_path / "journal") as journal, pytest.raises(QuorumLostError):
        run(transport, journal)
    transport.silent.clear()
    with Journal(tmp_path / "journal") as journal:
        assert set(weights(run(transport, journal))) == set(NAMES)


def test_a_journal_belongs_to_its_agreement(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        run(wire(), journal)
        with pytest.raises(StateError, match="another agreement"):
            run(wire(), journal, quorum=3)
        run(wire(), journal, answer_seconds=5.0)  # patience may change


def test_an_invitation_that_was_withdrawn_is_sent_again(tmp_path: Path) -> None:
    """It was open when the round of others ended, and so would be for long."""

    def interrupt(kind: str, answer: Any) -> Any:
        if kind == "basis-question":
            raise KeyboardInterrupt
        return answer

    with Journal(tmp_path / "journal") as journal, pytest.raises(KeyboardInterrupt):
        run(wire(north=Stub("north", spoil=interrupt)), journal, again_seconds=10.0)
    with Journal(tmp_path / "journal") as journal:
        question = journal.events[-1].data
        for owner in ("east", "west"):
            answer = Stub(owner).answer(question)
            done = Event(happening=Happening.ANSWERED, round="basis", owner=owner, data=answer)
            journal.note(done)

    class Slow(Wire):
        """East is still at work on its invitation when the first round it is in ends."""

        def send(self, questions: Any, seconds: float) -> None:
            held = {n for n, q in questions.items() if n == "n-east" and b'"invitation"' in q}
            self.silent = held if not self.withdrawn else set()
            super().send(questions, seconds)

    transport = Slow(wire().owners)
    with Journal(tmp_path / "journal") as journal:
        release = run(transport, journal, again_seconds=10.0)
    assert left_out(release) == set()


def test_a_busy_owner_is_asked_again() -> None:
    said: list[str] = []

    def busy_once(kind: str, answer: Any) -> Any:
        said.append(kind)
        if said == ["invitation", "basis-question"]:
            return Refusal(federation="test", owner="west", code=Code.BUSY)
        return answer

    release = run(wire(west=Stub("west", spoil=busy_once)))
    assert set(weights(release)) == set(NAMES)
    assert left_out(release) == set()


@pytest.mark.parametrize("code", [Code.BUDGET, Code.COLUMNS, Code.SETTINGS, Code.DATA])
def test_what_an_owner_lacked_can_be_mended(tmp_path: Path, code: Code) -> None:
    """While others are waited for, or before the next start."""
    refusal = Refusal(federation="test", owner="west", code=code)
    said: list[str] = []

    def at_first(kind: str, answer: Any) -> Any:
        said.append(kind)
        return refusal if len(said) == 1 else answer

    transport = wire(west=Stub("west", spoil=at_first))
    transport.silent.add("n-east")  # keeps the round open
    assert set(weights(run(transport))) == {"north", "west"}
    assert said[:2] == ["invitation", "invitation"]

    with Journal(tmp_path / "journal") as journal:
        transport = wire(west=Stub("west", spoil=lambda kind, a: refusal))
        with pytest.raises(QuorumLostError):
            run(transport, journal, quorum=3)
    with Journal(tmp_path / "journal") as journal:
        release = run(wire(), journal, quorum=3)
        assert set(weights(release)) == set(NAMES)
        assert left_out(release) == set()
        refused = [e for e in journal.events if e.happening is Happening.LEFT_OUT]
    assert len(refused) == 1  # said once, however often it was asked


@pytest.mark.parametrize("restart", [True, False])
def test_who_comes_back_after_a_round_is_closed_was_left_out_of_it(
    tmp_path: Path, restart: bool
) -> None:
    refusal = Refusal(federation="test", owner="west", code=Code.INTERNAL)
    broken = Stub("west", spoil=lambda kind, a: refusal if kind == "basis-question" else a)
    transport = wire(west=broken)

    def interrupt(kind: str, answer: Any) -> Any:
        if kind == "values-question":
            transport.owners["n-new"] = transport.owners.pop("n-west")
            transport.silent.add("n-north")  # keeps the round open
            if restart:
                raise KeyboardInterrupt
        return answer

    transport.owners["n-east"].spoil = interrupt
    with Journal(tmp_path / "journal") as journal:
        if restart:
            with pytest.raises(KeyboardInterrupt):
                run(transport, journal, quorum=1)
            transport = wire(west=broken)
        release = run(transport, journal, quorum=1)
    assert broken.asked.count("invitation") == 2
    assert ("basis", "west", Code.INTERNAL) in left_out(release)


@pytest.mark.parametrize("code", list(Code))
@pytest.mark.parametrize("kind", ["invitation", "basis-question", "values-question"])
def test_a_new_start_asks_everybody_whose_round_is_open(
    tmp_path: Path, kind: str, code: Code
) -> None:
    """Whatever was wrong may have been mended, and what was answered is sent again."""
    refusal = Refusal(federation="test", owner="west", code=code)
    spoiled = Stub("west", spoil=lambda k, a: refusal if k == kind else a)
    with Journal(tmp_path / "journal") as journal, pytest.raises(QuorumLostError):
        run(wire(west=spoiled), journal, quorum=3)
    with Journal(tmp_path / "journal") as journal:
        release = run(wire(), journal, quorum=3)
    assert set(weights(release)) == set(NAMES)
    assert left_out(release) == set()


def test_who_has_answered_everything_is_not_left_out(tmp_path: Path) -> None:
    """Asked to join again by a server that was started again, it says something else."""
    transport = wire()

    def interrupt(kind: str, answer: Any) -> Any:
        if kind == "values-question":
            raise KeyboardInterrupt
        return answer

    transport.owners["n-west"].spoil = interrupt
    with Journal(tmp_path / "journal") as journal, pytest.raises(KeyboardInterrupt):
        run(transport, journal)
    with Journal(tmp_path / "journal") as journal:
        for node, question, reply in transport.queue:  # what east and north had sent by then
            owner = node.removeprefix("n-")
            happened = Event(happening=Happening.ANSWERED, round="values", owner=owner, data=reply)
            assert b"values-question" in question
            journal.note(happened)
        release = run(wire(east=Stub("east", records=5)), journal)
    assert left_out(release) == set()
    assert set(weights(release)) == set(NAMES)


def test_a_node_that_has_left_keeps_its_name() -> None:
    """Else its last words could be those of any owner."""

    class Leaving(Wire):
        away = False

        def nodes(self) -> Any:
            there = super().nodes()
            return {n: k for n, k in there.items() if not (self.away and n == "n-north")}

        def replies(self) -> Any:
            self.away = True  # before it is heard
            return super().replies()

    class Speaking(Stub):
        """With the key of north, as west."""

        def answer(self, question: bytes) -> bytes:
            self.name, kept = "west", self.name
            said = super().answer(question)
            self.name = kept
            return said

    stubs = {"n-east": Stub("east"), "n-north": Speaking("north")}
    release = run(Leaving(stubs), owners=dict.fromkeys(NAMES, Limits()), quorum=1)
    assert left_out(release) == {
        ("join", "north", Code.CONTRADICTION),
        ("join", "west", Code.NO_ANSWER),
    }
    assert set(weights(release)) == {"east"}


def test_why_an_owner_that_had_joined_did_not_answer(tmp_path: Path) -> None:
    """It refuses to join again after a restart: that is no silence."""

    def interrupt(kind: str, answer: Any) -> Any:
        if kind == "basis-question":
            raise KeyboardInterrupt
        return answer

    with Journal(tmp_path / "journal") as journal, pytest.raises(KeyboardInterrupt):
        run(wire(west=Stub("west", spoil=interrupt)), journal)
    refusal = Refusal(federation="test", owner="west", code=Code.COLUMNS)
    with Journal(tmp_path / "journal") as journal:
        release = run(wire(west=Stub("west", spoil=lambda kind, a: refusal)), journal)
    assert left_out(release) == {("basis", "west", Code.COLUMNS)}


def test_an_answer_belongs_to_its_question() -> None:
    """One that comes when another question to its node is open is not taken for that one's."""
    transport = wire(keys=False)
    replies = transport.replies

    def mixed() -> Any:
        arrived = list(replies())
        stray = [(n, b"another", r) for n, _, r in arrived]
        return [*stray, *arrived, *arrived]

    transport.replies = mixed  # type: ignore[method-assign]
    release = run(transport)
    assert set(weights(release)) == set(NAMES)
    assert left_out(release) == set()
    assert transport.withdrawn == 3


def test_a_release_that_was_saved_is_not_saved_again(tmp_path: Path) -> None:
    """The process was stopped between the release and the note of it."""
    with Journal(tmp_path / "journal") as journal:
        coordinator = Coordinator(agreement(), journal)
        assert not coordinator.complete
        coordinator.run(wire()).save(tmp_path / "release")
    before = Release.fingerprint(tmp_path / "release")
    with Journal(tmp_path / "journal") as journal:
        coordinator = Coordinator(agreement(), journal)
        assert coordinator.complete
        release = coordinator.run(wire())
        coordinator.save(release, tmp_path / "release")
        assert journal.events[-1].data.decode() == before
        changed = replace(release, arrays={**release.arrays, "mean": np.ones(6)})
        with pytest.raises(InvalidParameterError, match="exists already"):
            coordinator.save(changed, tmp_path / "release")


def test_who_comes_back_as_somebody_else_does_not_hold_up_the_others(tmp_path: Path) -> None:
    def fall(kind: str, answer: Any) -> Any:
        if kind == "basis-question":
            raise KeyboardInterrupt
        return answer

    with Journal(tmp_path / "journal") as journal, pytest.raises(KeyboardInterrupt):
        run(wire(north=Stub("north", spoil=fall)), journal)
    clock = Clock()
    with Journal(tmp_path / "journal") as journal:
        coordinator = Coordinator(agreement(), journal, clock=clock, sleep=clock.sleep)
        release = coordinator.run(wire(west=Stub("west", records=5)))
    assert left_out(release) == {("basis", "west", Code.CONTRADICTION)}
    assert clock.now < 1


def test_events_are_told_as_they_happen() -> None:
    told: list[Event] = []
    clock = Clock()
    coordinator = Coordinator(
        agreement(), Journal(), clock=clock, sleep=clock.sleep, tell=told.append
    )
    coordinator.run(wire())
    assert [event.happening for event in told].count(Happening.CLOSED) == 3


def test_journals_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no journal at"):
        Journal.read(tmp_path / "journal")
    (tmp_path / "journal").touch()  # a server is about to begin
    assert Journal.read(tmp_path / "journal") == []
    (tmp_path / "journal").write_bytes(b"something else, at some length " * 50)
    with pytest.raises(StateError, match="damaged"):
        Journal.read(tmp_path / "journal")
    with pytest.raises(StateError, match="use a new folder"):
        Journal(tmp_path / "journal")
