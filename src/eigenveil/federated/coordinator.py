"""The coordinator: asks owners, hears them, leaves out who fails, and goes on after a crash.

Rounds follow a `Script`: who takes part (free), then bases and values of owners with noise of their
own, or the steps of secure sums. Everything that decides the result is in the `Journal` before
anything follows from it, so that a coordinator that is started again with the same journal asks the
rest the same questions, byte for byte, and owners send what they have stored.

An owner is named by its key where the transport knows it, and by its own word on a loopback
address. One that answers with anything that cannot be used is left out of the rest, by a `Code`.
"""

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from eigenveil.exceptions import EigenveilError, QuorumLostError, StateError
from eigenveil.federated.agreement import Agreement
from eigenveil.federated.codes import Code, ProtocolError
from eigenveil.federated.journal import Event, Happening, Journal
from eigenveil.federated.messages import encode
from eigenveil.federated.own_noise import OwnNoise
from eigenveil.federated.script import Heard, Script
from eigenveil.release.artefact import Release
from eigenveil.text import plural

if TYPE_CHECKING:
    from eigenveil.federated.secure.agreement import SecureAgreement


_MOST_NAMED = 5  # owners in a message
_ROUNDING = 1e-9
# Who was away, or refused by itself, may be asked again: that costs an owner nothing, and what it
# lacked may be there now. Who sent something unusable is not, before the coordinator starts again.
_MENDABLE = frozenset(
    {
        Code.BUDGET,
        Code.BUSY,
        Code.COLUMNS,
        Code.DATA,
        Code.FEDERATION,
        Code.INTERNAL,
        Code.INTERRUPTED,
        Code.LIMITS,
        Code.LOST,
        Code.NOTHING_FOUND,
        Code.NO_ANSWER,
        Code.OTHER_QUESTION,
        Code.SETTINGS,
    }
)


class Transport(Protocol):
    """How messages travel. A node is a connection; an owner may come back as another one."""

    pause: float  # seconds between two looks

    def nodes(self) -> Mapping[str, str | None]:
        """Return ids of the nodes that are there; the owner whose key a node has, None without
        keys.
        """
        ...

    def send(self, questions: Mapping[str, bytes], seconds: float) -> None:
        """Send one question to each node, worthless after so many seconds."""
        ...

    def replies(self) -> Iterable[tuple[str, bytes, bytes | Code]]:
        """Return what came since the last call: node, question, and its answer or why there is
        none.
        """
        ...

    def withdraw(self) -> None:
        """Whatever is still open needs no answer any more; who comes back is not asked it."""
        ...


class Coordinator:
    """The server's side of a federation.

    Parameters
    ----------
    agreement : Agreement or SecureAgreement
        What the owners have agreed on; public.
    journal : Journal
        A new one, or that of the run that is to go on.
    clock, sleep : callables
        Time, for tests.
    tell : callable
        Hears every event as it is noted.

    """

    def __init__(
        self,
        agreement: "Agreement | SecureAgreement",
        journal: Journal,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        tell: Callable[[Event], None] = lambda event: None,
    ) -> None:
        self.agreement = agreement
        self._script = _script(agreement)
        self._rounds = self._script.rounds
        self._journal, self._clock, self._sleep, self._tell = journal, clock, sleep, tell
        self._answers: dict[str, dict[str, bytes]] = {name: {} for name in self._rounds}
        self._left_out: dict[tuple[str, str], Code] = {}  # by round and owner
        self._closed: set[str] = set()
        self._questions: dict[str, bytes] = {}
        self._named: dict[str, str | None] = {}  # nodes that were seen, and owners by their keys
        self._place: dict[str, str] = {}  # the node of an owner
        self._asked: dict[tuple[str, str], float] = {}  # when, by node and round
        self._lacks: dict[tuple[str, str], Code] = {}  # the last word of who is asked again
        self._sent_away: set[str] = set()  # nodes that need not try again
        self._recall()

    def run(self, transport: Transport) -> Release:
        """Run all rounds; return the release, or raise `QuorumLostError`."""
        for name in self._rounds:
            self._round(name, transport)
        return self._script.release(self._heard())

    @property
    def complete(self) -> bool:
        """Whether everybody was heard, so that nothing but the release is missing."""
        return self._rounds[-1] in self._closed

    def save(self, release: Release, place: Path) -> None:
        """Put the release where it should lie, unless an earlier run did and was stopped then."""
        if not (os.path.lexists(place) and _lies_at(place, release)):
            release.save(place)
        fingerprint = Release.fingerprint(place)
        self._note(Event(happening=Happening.RELEASED, data=fingerprint.encode()))

    def dismissed(self) -> None:
        """Note that the owners know that nothing more will be asked."""
        self._note(Event(happening=Happening.DISMISSED))

    def _recall(self) -> None:
        """Take up what the journal knows."""
        events = self._journal.events
        if not events:
            self._note(Event(happening=Happening.BEGUN, data=self.agreement.encode()))
            return
        if events[0].data != self.agreement.encode():
            raise StateError(
                "the journal belongs to another agreement: use a new folder, or the old settings"
            )
        try:
            for event in events:
                self._apply(event)
            possible = self._is_possible()
        except (KeyError, ProtocolError):  # a round of another script, or a roll that is none
            possible = False
        if not possible:
            raise StateError(
                "the journal contradicts itself, so it was altered or is damaged: use a new folder"
            )
        # Whoever failed in a round that is open may be better now, and is asked again.
        for failed in [each for each in self._left_out if each[0] not in self._closed]:
            self._lacks[failed] = self._left_out.pop(failed)

    def _is_possible(self) -> bool:
        """Return whether each round was asked and closed in its turn, and heard who was in the
        last.
        """
        heard, open_before = self._heard(), False
        for name in self._rounds:
            answered, asked = self._answers[name].keys(), name in self._questions
            closed = name in self._closed
            if not asked:
                if answered or closed:
                    return False
            elif open_before or not answered <= set(self._script.among(name, heard)):
                return False
            if closed and len(answered) < self._script.needed(name, heard):
                return False
            open_before = not closed
        return True

    def _note(self, event: Event) -> None:
        self._journal.note(event)
        self._apply(event)
        self._tell(event)

    def _apply(self, event: Event) -> None:
        match event.happening:
            case Happening.JOINED | Happening.ANSWERED:
                self._answers[event.round][event.owner] = event.data
                self._left_out.pop((event.round, event.owner), None)
            case Happening.ASKED:
                self._questions[event.round] = event.data
            case Happening.LEFT_OUT:
                assert event.code is not None  # `_leave_out` alone writes these
                self._left_out[event.round, event.owner] = event.code
            case Happening.CLOSED:
                self._closed.add(event.round)

    def _round(self, name: str, transport: Transport) -> None:
        """Ask until all have answered or failed, or the time is over."""
        if name in self._closed:
            return
        if name not in self._questions:
            here = self._mustered(name, transport)
            question = encode(self._script.question(name, self._heard(), here))
            self._note(Event(happening=Happening.ASKED, round=name, data=question))
        among = self._script.among(name, self._heard())
        seconds = self.agreement.join_seconds if name == "join" else self.agreement.answer_seconds
        deadline = self._clock() + seconds
        while self._waiting(name, among) and (left := deadline - self._clock()) > 0:
            self._ask(name, among, transport, left)
            heard = False
            for node, question, reply in transport.replies():
                self._hear(name, node, question, reply)
                heard = True
            if not heard:
                self._sleep(transport.pause)
        transport.withdraw()
        self._asked.clear()  # an invitation that was withdrawn is sent again
        for owner in self._waiting(name, among):
            if (name, owner) not in self._left_out:
                self._leave_out(name, owner, self._lacks.get((name, owner), Code.NO_ANSWER))
        answered = len(self._answers[name])
        needed = self._script.needed(name, self._heard())
        if answered < needed:
            left_out = self._left_out.items()
            missing = [f"{owner} ({code})" for (each, owner), code in left_out if each == name]
            shown = ", ".join(missing[:_MOST_NAMED]) + ", ..." * (len(missing) > _MOST_NAMED)
            owners = len(self.agreement.owners)
            raise QuorumLostError(
                f"{answered} of {owners} {plural('owner', owners)} answered in the round "
                f"{name!r}, the quorum is {needed}; missing: {shown}; mend that, then start again "
                "to go on"
            )
        self._note(Event(happening=Happening.CLOSED, round=name))

    def _mustered(self, name: str, transport: Transport) -> set[str]:
        """Return who is connected, once everybody is whom the round's question will be about."""
        awaited = set(self._script.awaited(name, self._heard()))
        deadline = self._clock() + self.agreement.answer_seconds
        while True:
            there = transport.nodes()
            here = {owner for owner, node in self._place.items() if node in there}
            if awaited <= here or (left := deadline - self._clock()) <= 0:
                return here
            self._ask(name, (), transport, left)  # an invitation to nodes that are new
            for node, question, reply in transport.replies():
                self._hear(name, node, question, reply)
            self._sleep(transport.pause)

    def _waiting(self, name: str, among: tuple[str, ...]) -> list[str]:
        """Return who has not answered; of joining, also who may mend what it lacks."""
        out = {owner for (each, owner), code in self._left_out.items() if each == name}
        if name == "join":
            out = {owner for owner in out if self._left_out[name, owner] not in _MENDABLE}
        return [o for o in among if o not in self._answers[name] and o not in out]

    def _ask(self, name: str, among: tuple[str, ...], transport: Transport, left: float) -> None:
        """Send the round's question to owners whose node is known, an invitation to others.

        Who is silent is asked again now and then: it may have been started anew. That costs it
        nothing, as it sends the same answer.
        """
        there = transport.nodes()
        # A node that leaves keeps its name: what it sent before comes from who it was.
        self._named |= there
        wanted = {self._place[o]: name for o in self._waiting(name, among) if o in self._place}
        known = set(self._place.values()) | self._sent_away
        wanted |= {node: "join" for node in there if node not in known}
        now, again = self._clock(), self.agreement.again_seconds
        asked = {
            node: which
            for node, which in wanted.items()
            if node in there and now - self._asked.get((node, which), -math.inf) >= again
        }
        if asked:
            self._asked |= dict.fromkeys(asked.items(), now)
            transport.send({n: self._questions[which] for n, which in asked.items()}, left)

    def _hear(self, current: str, node: str, question: bytes, reply: bytes | Code) -> None:
        """Note one reply, or leave its owner out."""
        name = next((name for name, asked in self._questions.items() if asked == question), None)
        if name is None or node not in self._named:
            return  # nobody asked
        if name == "join":
            try:
                self._join(node, _said(reply))
            except ProtocolError as error:
                self._refuse(node, error)
            return
        at = (owner for owner, place in self._place.items() if place == node)
        owner = self._named[node] or next(at, None)
        # Its owner has come back as another node, and was asked there; or was asked twice; or was
        # not to be asked at all.
        if owner is None or owner in self._answers[name] or owner not in self._answers["join"]:
            return
        try:
            if name != current:
                raise ProtocolError(Code.LATE)
            answer = _said(reply)
            self._script.check(name, owner, answer, self._heard())
            self._note(Event(happening=Happening.ANSWERED, round=name, owner=owner, data=answer))
        except ProtocolError as error:
            if error.code is Code.BUSY:  # another process of the owner is at work: asked again
                self._lacks[name, owner] = error.code
            else:
                self._leave_out(name, owner, error.code)

    def _refuse(self, node: str, error: ProtocolError) -> None:
        """Somebody who did not join, or came back as somebody else."""
        mendable = error.code in _MENDABLE
        if not mendable:
            self._sent_away.add(node)
        key = self._named[node]
        if key is None:  # anybody can use any name: nobody is left out in the name of another
            self._leave_out("join", f"node-{node}", error.code)
            return
        lacking = next((name for name in self._rounds if key not in self._answers[name]), None)
        if lacking is None or lacking in self._closed:
            return  # it has done its part, or is known to have missed it
        if mendable and lacking != "join":
            self._lacks[lacking, key] = error.code
        else:
            self._leave_out(lacking, key, error.code)

    def _join(self, node: str, reply: bytes) -> None:
        """Somebody says who it is: who has joined before may come back, as the same."""
        owner, key = self._script.join(reply), self._named.get(node)
        if key is not None and key != owner:
            raise ProtocolError(Code.CONTRADICTION)
        before = self._answers["join"].get(owner)
        if before is not None and before != reply:
            raise ProtocolError(Code.CONTRADICTION, owner)
        if before is None and "join" in self._closed:
            raise ProtocolError(Code.LATE, owner)
        self._place[owner] = node
        for name in self._rounds[1:]:
            if name not in self._closed and self._left_out.get((name, owner)) in _MENDABLE:
                del self._left_out[name, owner]
        if before is None:
            self._note(Event(happening=Happening.JOINED, round="join", owner=owner, data=reply))

    def _leave_out(self, name: str, owner: str, code: Code) -> None:
        if self._left_out.get((name, owner)) is code:
            return  # as before
        self._note(Event(happening=Happening.LEFT_OUT, round=name, owner=owner, code=code))

    def _heard(self) -> Heard:
        """Return what the journal knows by now."""
        answers = {
            name: {owner: each[owner] for owner in self.agreement.owners if owner in each}
            for name, each in self._answers.items()
        }
        return Heard(self._questions, answers, self._left_out)


def _script(agreement: "Agreement | SecureAgreement") -> Script:
    if isinstance(agreement, Agreement):
        return OwnNoise(agreement)
    from eigenveil.federated.secure.script import SumScript

    return SumScript(agreement)


def _lies_at(place: Path, release: Release) -> bool:
    """Return whether a release is there already, up to the rounding of other machines."""
    try:
        found = Release.verify(place)
    except EigenveilError:
        return False
    first, second = (
        (
            each.kind,
            each.guarantee,
            (each.settings.get("federation") or each.settings.get("secure") or {}).get("name"),
            [owner.name for owner in each.owners],
            {name: array.shape for name, array in each.arrays.items()},
        )
        for each in (found, release)
    )
    return first == second and all(
        np.allclose(array, found.arrays[name], rtol=0, atol=_ROUNDING * np.abs(array).max())
        for name, array in release.arrays.items()
    )


def _said(reply: bytes | Code) -> bytes:
    """Return what an owner said; that it did not is an error like others."""
    if isinstance(reply, Code):
        raise ProtocolError(reply)
    return reply
