"""The coordinator: asks owners, hears them, leaves out who fails, and goes on after a crash.

Three rounds: who takes part (free), bases, values. Everything that decides the result is in the
`Journal` before anything follows from it, so that a coordinator that is started again with the same
journal asks the rest the same questions, byte for byte, and owners send what they have stored.

An owner is named by its key where the transport knows it, and by its own word on a loopback
address. One that answers with anything that cannot be used is left out of the rest, by a `Code`.
"""

import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Protocol

import numpy as np

from eigenveil.exceptions import EigenveilError, QuorumLostError, StateError
from eigenveil.federated.agreement import Agreement
from eigenveil.federated.journal import ROUNDS, Event, Happening, Journal
from eigenveil.federated.messages import (
    BasisAnswer,
    BasisQuestion,
    Code,
    Declaration,
    Invitation,
    Message,
    ProtocolError,
    ValuesAnswer,
    ValuesQuestion,
    columns_digest,
    decode,
    encode,
)
from eigenveil.federated.result import (
    Contributions,
    aggregate,
    check_values,
    check_weight,
    combine,
    promised,
)
from eigenveil.federated.weights import MECHANISMS
from eigenveil.release.artefact import Release
from eigenveil.text import plural

__all__ = ["Coordinator", "Transport"]

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
        """Ids of the nodes that are there; the owner whose key a node has, None without keys."""
        ...

    def send(self, questions: Mapping[str, bytes], seconds: float) -> None:
        """One question to each node, worthless after so many seconds."""
        ...

    def replies(self) -> Iterable[tuple[str, bytes, bytes | Code]]:
        """What came since the last call: node, question, and its answer or why there is none."""
        ...

    def withdraw(self) -> None:
        """Whatever is still open needs no answer any more; who comes back is not asked it."""
        ...


class Coordinator:
    """The server's side of a federation.

    Parameters
    ----------
    agreement : Agreement
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
        agreement: Agreement,
        journal: Journal,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        tell: Callable[[Event], None] = lambda event: None,
    ) -> None:
        self.agreement = agreement
        self._journal, self._clock, self._sleep, self._tell = journal, clock, sleep, tell
        self._answers: dict[str, dict[str, bytes]] = {name: {} for name in ROUNDS}
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
        """All rounds; the release, or `QuorumLostError`."""
        self._round("join", tuple(self.agreement.owners), transport)
        self._round("basis", tuple(self._answers["join"]), transport)
        self._round("values", tuple(self._answers["basis"]), transport)
        basis = decode(self._questions["values"], ValuesQuestion).basis
        return combine(self.agreement, self._contributions(), basis)

    @property
    def complete(self) -> bool:
        """Whether everybody was heard, so that nothing but the release is missing."""
        return ROUNDS[-1] in self._closed

    def save(self, release: Release, place: Path) -> None:
        """Put the release where it should lie, unless an earlier run did and was stopped then."""
        if not (os.path.lexists(place) and _lies_at(place, release)):
            release.save(place)
        fingerprint = Release.fingerprint(place)
        self._note(Event(happening=Happening.RELEASED, data=fingerprint.encode()))

    def dismissed(self) -> None:
        """The owners know that nothing more will be asked."""
        self._note(Event(happening=Happening.DISMISSED))

    def _recall(self) -> None:
        """What the journal knows."""
        events = self._journal.events
        if not events:
            self._note(Event(happening=Happening.BEGUN, data=self.agreement.encode()))
            return
        if events[0].data != self.agreement.encode():
            raise StateError(
                "the journal belongs to another agreement: use a new folder, or the old settings"
            )
        for event in events:
            self._apply(event)
        if not self._is_possible():
            raise StateError(
                "the journal contradicts itself, so it was altered or is damaged: use a new folder"
            )
        # Whoever failed in a round that is open may be better now, and is asked again.
        for failed in [each for each in self._left_out if each[0] not in self._closed]:
            self._lacks[failed] = self._left_out.pop(failed)

    def _is_possible(self) -> bool:
        """Whether each round was asked and closed in its turn, and heard who was in the last."""
        among: Collection[str] = self.agreement.owners
        open_before = False
        for name in ROUNDS:
            answered, asked = self._answers[name].keys(), name in self._questions
            closed = name in self._closed
            if not answered <= set(among) or ((answered or closed) and not asked):
                return False
            if (asked and open_before) or (closed and len(answered) < self.agreement.quorum):
                return False
            among, open_before = answered, not closed
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

    def _round(self, name: str, among: tuple[str, ...], transport: Transport) -> None:
        """Ask until all have answered or failed, or the time is over."""
        if name in self._closed:
            return
        if name not in self._questions:
            question = encode(self._question(name))
            self._note(Event(happening=Happening.ASKED, round=name, data=question))
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
        if answered < self.agreement.quorum:
            left_out = self._left_out.items()
            missing = [f"{owner} ({code})" for (each, owner), code in left_out if each == name]
            shown = ", ".join(missing[:_MOST_NAMED]) + ", ..." * (len(missing) > _MOST_NAMED)
            owners = len(self.agreement.owners)
            raise QuorumLostError(
                f"{answered} of {owners} {plural('owner', owners)} answered in the round "
                f"{name!r}, the quorum is {self.agreement.quorum}; missing: {shown}; mend that, "
                "then start again to go on"
            )
        self._note(Event(happening=Happening.CLOSED, round=name))

    def _question(self, name: str) -> Message:
        agreed = self.agreement
        if name == "values":
            basis = aggregate(agreed, self._contributions())
            return ValuesQuestion(federation=agreed.federation, basis=basis)
        kind = Invitation if name == "join" else BasisQuestion
        return kind(
            federation=agreed.federation,
            n_columns=agreed.n_columns,
            n_components=agreed.n_components,
            n_directions=agreed.n_directions,
            share=agreed.share,
            columns=columns_digest(agreed.columns, agreed.scale),
            unit=agreed.unit,
        )

    def _waiting(self, name: str, among: tuple[str, ...]) -> list[str]:
        """Who has not answered; of joining, which is free, also who may mend what it lacks."""
        out = {owner for (each, owner), code in self._left_out.items() if each == name}
        if name == "join":
            out = {owner for owner in out if self._left_out[name, owner] not in _MENDABLE}
        return [o for o in among if o not in self._answers[name] and o not in out]

    def _ask(self, name: str, among: tuple[str, ...], transport: Transport, left: float) -> None:
        """The round's question to owners whose node is known, an invitation to others.

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
        """One reply: noted, or its owner left out."""
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
            self._check(name, owner, answer)
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
        lacking = next((name for name in ROUNDS if key not in self._answers[name]), None)
        if lacking is None or lacking in self._closed:
            return  # it has done its part, or is known to have missed it
        if mendable and lacking != "join":
            self._lacks[lacking, key] = error.code
        else:
            self._leave_out(lacking, key, error.code)

    def _join(self, node: str, reply: bytes) -> None:
        """Somebody says who it is: who has joined before may come back, as the same."""
        declared = decode(reply, Declaration)
        owner, key = declared.owner, self._named.get(node)
        if declared.federation != self.agreement.federation:
            raise ProtocolError(Code.FEDERATION, owner)
        if owner not in self.agreement.owners:
            raise ProtocolError(Code.UNKNOWN, owner)
        if key is not None and key != owner:
            raise ProtocolError(Code.CONTRADICTION)
        if not self.agreement.owners[owner].allow(declared):
            raise ProtocolError(Code.LIMITS, owner)
        if self.agreement.weights == "predicted" and declared.mechanism not in MECHANISMS:
            raise ProtocolError(Code.MECHANISM, owner)
        check_weight(self.agreement, declared)
        before = self._answers["join"].get(owner)
        if before is not None and before != reply:
            raise ProtocolError(Code.CONTRADICTION, owner)
        if before is None and "join" in self._closed:
            raise ProtocolError(Code.LATE, owner)
        self._place[owner] = node
        for name in ("basis", "values"):
            if name not in self._closed and self._left_out.get((name, owner)) in _MENDABLE:
                del self._left_out[name, owner]
        if before is None:
            self._note(Event(happening=Happening.JOINED, round="join", owner=owner, data=reply))

    def _check(self, name: str, owner: str, reply: bytes) -> None:
        """Whether an answer is one that the owner may give."""
        d, k = self.agreement.n_columns, self.agreement.n_components
        declared = decode(self._answers["join"][owner], Declaration)
        answer: BasisAnswer | ValuesAnswer
        if name == "basis":
            answer = decode(reply, BasisAnswer)
            fits = answer.basis.shape == (d, self.agreement.n_directions)
        else:
            answer = decode(reply, ValuesAnswer)
            fits = answer.centre.shape == (k,)
        if not fits:
            raise ProtocolError(Code.SHAPE)
        if (answer.federation, answer.owner) != (declared.federation, owner):
            raise ProtocolError(Code.CONTRADICTION)
        if isinstance(answer, ValuesAnswer):
            check_values(self.agreement, declared, answer)
        guarantee = promised(answer)
        stated = guarantee.budget
        if (stated.epsilon, stated.delta) != (declared.epsilon, declared.delta):
            raise ProtocolError(Code.CONTRADICTION)
        if guarantee.simulated and not self.agreement.simulated:
            raise ProtocolError(Code.CONTRADICTION)

    def _leave_out(self, name: str, owner: str, code: Code) -> None:
        if self._left_out.get((name, owner)) is code:
            return  # as before
        self._note(Event(happening=Happening.LEFT_OUT, round=name, owner=owner, code=code))

    def _told(self, name: str) -> list[tuple[str, bytes]]:
        """Answers of a round in the order of the agreement: who was first changes no bit."""
        return [
            (o, self._answers[name][o]) for o in self.agreement.owners if o in self._answers[name]
        ]

    def _contributions(self) -> Contributions:
        """What was heard so far, decoded."""
        return Contributions(
            declarations={o: decode(m, Declaration) for o, m in self._told("join")},
            bases={o: decode(m, BasisAnswer) for o, m in self._told("basis")},
            values={o: decode(m, ValuesAnswer) for o, m in self._told("values")},
            left_out=dict(self._left_out),
        )


def _lies_at(place: Path, release: Release) -> bool:
    """Whether a release is there already, as far as another machine would round as this one."""
    try:
        found = Release.verify(place)
    except EigenveilError:
        return False
    first, second = (
        (
            each.kind,
            each.guarantee,
            each.settings.get("federation", {}).get("name"),
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
    """What an owner said; that it did not is an error like others."""
    if isinstance(reply, Code):
        raise ProtocolError(reply)
    return reply
