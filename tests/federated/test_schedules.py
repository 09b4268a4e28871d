"""Random schedules: owners come, go, fail and lie, and the coordinator is killed and started again.

A seed makes a schedule. Whatever happens in it, the journal, the status and the release tell the
same, everybody is accounted for, and once all are well the federation comes to its end.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from eigenveil.cli.federate_status import standing
from eigenveil.exceptions import QuorumLostError
from eigenveil.federated import (
    Agreement,
    BasisAnswer,
    BasisQuestion,
    Code,
    Coordinator,
    Declaration,
    Event,
    Happening,
    Invitation,
    Journal,
    Refusal,
    ValuesAnswer,
    ValuesQuestion,
    decode,
)
from eigenveil.release import Release
from tests.federated.stubs import NAMES, Clock, Stub, Wire, agreement

ROUNDS = ("join", "basis", "values")
HONEST, *OTHERS = NAMES
MANNERS = ("broken", "garbled", "impostor", "changed")
LIVES = 4  # of the coordinator, before everybody is well
Heard = dict[str, dict[str, bytes]]  # by round and owner


class Killed(BaseException):
    """The coordinator's process is gone."""


class Schedule:
    """A transport and the owners behind it.

    One owner is honest and answers every question, though its node is there only every other time
    that somebody looks, and never when its answer is heard. The others are as chance has it, until
    they are ``well``. A node may leave, and its owner come back as another one.
    """

    pause = 0.1

    def __init__(self, seed: int, *, keys: bool) -> None:
        self.chance, self.keys, self.clock = random.Random(seed), keys, Clock()
        self.well = False
        self.owners = {
            name: Stub(name, records=100 + 50 * i, angle=0.1 * i, spoil=self.spoiler(name))
            for i, name in enumerate(NAMES)
        }
        self.said: dict[str, set[bytes]] = {name: set() for name in NAMES}  # by key
        self.asked: set[bytes] = set()

    def begin(self) -> None:
        """Another life of the coordinator, and how often others fail, are silent and leave."""
        self.failing, self.silent, self.leaving = (
            {name: self.chance.choice(often) for name in OTHERS}
            for often in ([0.0, 0.5, 1.0], [0.0, 0.2, 0.7], [0.0, 0.2, 0.7])
        )
        self.manner = {name: self.chance.choice(MANNERS) for name in OTHERS}
        self.flying: list[tuple[float, str, bytes, bytes | Code]] = []
        self.open: set[str] = set()  # nodes with a question
        self.nodes_of = {name: f"{name}-0" for name in NAMES}
        self.looks, self.left = 0, self.chance.choice([10**6, self.chance.randint(1, 80)])
        for name in OTHERS:
            if not self.well and self.chance.random() < 0.3:
                del self.nodes_of[name]

    def spoiler(self, name: str) -> Any:
        def spoil(kind: str, answer: Any) -> Any:
            if not self.does(self.failing, name):
                return answer
            match self.manner[name]:
                case "broken":
                    code = self.chance.choice(list(Code))
                    return Refusal(federation="test", owner=name, code=code)
                case "garbled":
                    return b"garbage"
                case "impostor" if self.keys:  # else anybody can be anybody
                    self.nodes_of.pop(name, None)  # gone before it is heard
                    return replace(answer, owner=self.chance.choice(OTHERS))
                case "changed" if self.keys and kind == "invitation":
                    return replace(answer, n_records=7)
            return answer

        return spoil

    def does(self, often: Mapping[str, float], name: str) -> bool:
        return not self.well and self.chance.random() < often.get(name, 0.0)

    def step(self, event: Event | None = None) -> None:
        """The coordinator does something, and may be killed instead."""
        self.left -= 1
        if self.left == 0 and not self.well:
            raise Killed

    def nodes(self) -> Mapping[str, str | None]:
        self.step()
        self.looks += 1
        for name in OTHERS:
            if self.does(self.leaving, name) and self.nodes_of.pop(name, None) is None:
                self.nodes_of[name] = f"{name}-{self.chance.randrange(3)}"
        there = [name for name in self.nodes_of if name != HONEST or self.looks % 2]
        return {self.nodes_of[name]: name if self.keys else None for name in there}

    def send(self, questions: Mapping[str, bytes], seconds: float) -> None:
        self.step()
        for node, question in questions.items():
            name = node.partition("-")[0]
            assert self.nodes_of.get(name) == node
            self.asked.add(question)
            self.open.add(node)
            late = 0.05 if name == HONEST or self.well else self.chance.choice([0, 0.05, 0.5, 1.2])
            if self.does(self.silent, name):
                if self.chance.random() < 0.1:
                    self.flying.append((self.clock.now + late, node, question, Code.LOST))
                continue
            said = self.owners[name].answer(question)
            self.said[name].add(said)
            self.flying.append((self.clock.now + late, node, question, said))

    def replies(self) -> Iterable[tuple[str, bytes, bytes | Code]]:
        self.step()
        arrived = [reply for reply in self.flying if reply[0] <= self.clock.now]
        self.flying = [reply for reply in self.flying if reply[0] > self.clock.now]
        self.chance.shuffle(arrived)
        return [(node, question, reply) for _, node, question, reply in arrived]

    def withdraw(self) -> None:
        self.flying, self.open = [], set()


def heard_in(events: Sequence[Event]) -> Heard:
    """What was taken; every question is put once, and of what is closed nothing more is said."""
    heard: Heard = {name: {} for name in ROUNDS}
    put: set[str] = set()
    closed: list[str] = []
    for event in events:
        if event.happening in (Happening.JOINED, Happening.ANSWERED):
            assert event.owner not in heard[event.round]
            heard[event.round][event.owner] = event.data
        if event.owner in NAMES:
            assert event.round not in closed
        if event.happening is Happening.ASKED:
            assert event.round not in put
            put.add(event.round)
        if event.happening is Happening.CLOSED:
            closed.append(event.round)
    assert closed == list(ROUNDS[: len(closed)])
    return heard


@cache
def at_once(said: tuple[tuple[str, str, bytes], ...]) -> Release:
    """The release of the same answers, without any trouble and in another order."""

    class Repeating(Wire):
        def send(self, questions: Mapping[str, bytes], seconds: float) -> None:
            for node, question in questions.items():
                kind = decode(question, Invitation, BasisQuestion, ValuesQuestion).kind
                name = "join" if kind == "invitation" else kind.removesuffix("-question")
                self.queue += [(node, question, a) for r, o, a in said if (r, o) == (name, node)]

    clock = Clock()
    coordinator = Coordinator(agreement(quorum=1), Journal(), clock=clock, sleep=clock.sleep)
    return coordinator.run(Repeating({name: Stub(name) for name in reversed(NAMES)}))


def contributors(release: Release) -> set[str]:
    return {owner.name for owner in release.owners if owner.values_weight}


def same_bits(one: Release, other: Release) -> bool:
    return all(np.array_equal(array, other.arrays[name]) for name, array in one.arrays.items())


def check(release: Release, events: Sequence[Event], schedule: Schedule) -> None:
    heard = heard_in(events)
    status = standing(events)["owners"]
    named: dict[str, dict[str, str]] = {name: {} for name in NAMES}
    for each in release.settings["federation"]["left_out"]:
        named[each["owner"]][each["round"]] = each["code"]
    for owner in NAMES:
        lacks = [name for name in ROUNDS if owner not in heard[name]]
        assert list(named[owner]) == lacks[:1]
        assert lacks == list(ROUNDS[3 - len(lacks) :])
        told = {name: did and (did["left_out"] or "yes") for name, did in status[owner].items()}
        expected = {name: named[owner].get(name) if name in lacks else "yes" for name in ROUNDS}
        assert told == expected
    assert HONEST in heard["values"]
    assert contributors(release) == {*heard["values"]}
    answers = tuple((name, o, data) for name in ROUNDS for o, data in heard[name].items())
    for _, owner, data in answers:  # nobody is heard as another
        assert data in schedule.said[owner]
        assert decode(data, Declaration, BasisAnswer, ValuesAnswer).owner == owner
    # Everybody is asked the same in every life.
    assert schedule.asked == {e.data for e in events if e.happening is Happening.ASKED}
    again = at_once(answers)
    assert same_bits(release, again)


def live(agreed: Agreement, journal: Journal, schedule: Schedule) -> Release | None:
    """One life of the coordinator; nothing but a lost quorum ends it before the release."""
    schedule.begin()
    clock, missing = schedule.clock, ""
    try:
        release = Coordinator(
            agreed, journal, clock=clock, sleep=clock.sleep, tell=schedule.step
        ).run(schedule)
    except Killed:
        return None
    except QuorumLostError as error:
        release, missing = None, str(error).partition("missing")[2]
    assert HONEST not in missing
    assert not schedule.open  # nobody is at work for nothing
    return release


@pytest.mark.parametrize("seed", range(80))
def test_everybody_is_accounted_for(seed: int) -> None:
    agreed, journal = agreement(quorum=1 + seed % 3), Journal()
    schedule = Schedule(seed, keys=seed % 4 > 0)
    lives = (live(agreed, journal, schedule) for _ in range(LIVES))
    release = next((release for release in lives if release is not None), None)
    if release is None:
        heard, schedule.well = heard_in(journal.events), True
        closed = [e.round for e in journal.events if e.happening is Happening.CLOSED]
        for owner, said in heard["join"].items():  # whose settings are as they were
            schedule.owners[owner].records = decode(said, Declaration).n_records
        release = live(agreed, journal, schedule)
        assert release is not None
        assert contributors(release) == set(heard[closed[-1]] if closed else NAMES)
    check(release, journal.events, schedule)
    restarted = Coordinator(agreed, journal).run(Wire({}))
    assert restarted.settings == release.settings
    assert same_bits(restarted, release)
