"""The coordinator: asks owners, hears them, leaves out who fails, and goes on after a crash.

Three rounds: who takes part (free), bases, values. Everything that decides the result is in the
`Journal` before anything follows from it, so that a coordinator that is started again with the same
journal asks the rest the same questions, byte for byte, and owners send what they have stored.

An owner is named by its key where the transport knows it, and by its own word on a loopback
address. One that answers with anything that cannot be used is left out of the rest, by a `Code`.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from eigenveil.exceptions import QuorumLostError, StateError
from eigenveil.federated.agreement import Agreement
from eigenveil.federated.journal import Event, Happening, Journal
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

__all__ = ["Coordinator", "Transport"]

_ROUNDS = ("join", "basis", "values")
_MOST_NAMED = 5  # owners in a message
# Who was away, or refused by itself, may be asked again: that costs an owner nothing, and what it
# lacked may be there now. Who sent something unusable is not.
_MENDABLE = frozenset(
    {
        Code.BUDGET,
        Code.BUSY,
        Code.COLUMNS,
        Code.DATA,
        Code.FEDERATION,
        Code.INTERNAL,
        Code.INTERRUPTED,
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

    def replies(self) -> Iterable[tuple[str, bytes | Code]]:
        """What came since the last call: answers, or why there will be none from a node."""
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
        self._answers: dict[str, dict[str, bytes]] = {name: {} for name in _ROUNDS}
        self._left_out: dict[tuple[str, str], Code] = {}  # by round and owner
        self._closed: set[str] = set()
        self._questions: dict[str, bytes] = {}
        self._named: Mapping[str, str | None] = {}  # nodes, and owners by their keys
        self._place: dict[str, str] = {}  # the node of an owner
        self._pending: dict[str, str] = {}  # the round a node was asked in
        self._asked: dict[tuple[str, str], float] = {}  # when, by node and round
        self._sent_away: set[str] = set()  # nodes that need not try again
        self._recall()

    def run(self, transport: Transport) -> Release:
        """All rounds; the release, or `QuorumLostError`."""
        self._round("join", tuple(self.agreement.owners), transport)
        self._round("basis", tuple(self._answers["join"]), transport)
        self._round("values", tuple(self._answers["basis"]), transport)
        basis = decode(self._questions["values"], ValuesQuestion).basis
        return combine(self.agreement, self._contributions(), basis)

    def released(self, fingerprint: str) -> None:
        """The release lies where it should."""
        self._note(Event(happening=Happening.RELEASED, data=fingerprint.encode()))

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
        for owner in among:  # who failed when an earlier run ended may be better now
            if self._left_out.get((name, owner)) in _MENDABLE:
                del self._left_out[name, owner]
        seconds = self.agreement.join_seconds if name == "join" else self.agreement.answer_seconds
        deadline = self._clock() + seconds
        while self._waiting(name, among) and (left := deadline - self._clock()) > 0:
            self._ask(name, among, transport, left)
            heard = False
            for node, reply in transport.replies():
                self._hear(name, node, reply)
                heard = True
            if not heard:
                self._sleep(transport.pause)
        for owner in self._waiting(name, among):
            if (name, owner) not in self._left_out:
                self._leave_out(name, owner, Code.NO_ANSWER)
        answered = len(self._answers[name])
        if answered < self.agreement.quorum:
            left_out = self._left_out.items()
            missing = [f"{owner} ({code})" for (each, owner), code in left_out if each == name]
            shown = ", ".join(missing[:_MOST_NAMED]) + ", ..." * (len(missing) > _MOST_NAMED)
            raise QuorumLostError(
                f"{answered} of {len(self.agreement.owners)} owners answered in the round "
                f"{name!r}, the quorum is {self.agreement.quorum}; missing: {shown}; mend that, "
                "then start the server again to go on"
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
        self._named = transport.nodes()
        wanted = {self._place[o]: name for o in self._waiting(name, among) if o in self._place}
        known = set(self._place.values()) | self._sent_away
        wanted |= {node: "join" for node in self._named if node not in known}
        now, again = self._clock(), self.agreement.again_seconds
        asked = {
            node: which
            for node, which in wanted.items()
            if node in self._named and now - self._asked.get((node, which), -math.inf) >= again
        }
        if asked:
            self._asked |= dict.fromkeys(asked.items(), now)
            self._pending |= asked
            transport.send({n: self._questions[which] for n, which in asked.items()}, left)

    def _hear(self, current: str, node: str, reply: bytes | Code) -> None:
        """One reply: noted, or its owner left out."""
        key = self._named.get(node)
        owner = key or next((o for o, place in self._place.items() if place == node), None)
        name = self._pending.get(node)
        told = [answers.get(owner or "") for answers in self._answers.values()]
        if name is None or (name != "join" and reply in told):
            return  # nobody asked, or an earlier question was asked twice
        del self._pending[node]
        if name != "join" and owner is None:
            return  # its owner has come back as another node, and was asked there
        try:
            if isinstance(reply, Code):
                raise ProtocolError(reply)
            if name == "join":
                self._join(node, reply)
                return
            if name != current:
                raise ProtocolError(Code.LATE)
            assert owner is not None  # as above
            self._check(name, owner, reply)
            self._note(Event(happening=Happening.ANSWERED, round=name, owner=owner, data=reply))
        except ProtocolError as error:
            if error.code is Code.BUSY and name == current != "join":
                return  # another process of the owner is at work: it will be asked again
            if name == "join":
                self._refuse(current, node, error)
            else:
                self._leave_out(name, owner or f"node-{node}", error.code)

    def _refuse(self, current: str, node: str, error: ProtocolError) -> None:
        """Somebody who did not join, or came back as somebody else."""
        if error.code not in _MENDABLE:
            self._sent_away.add(node)
        key = self._named.get(node)
        if key is None:  # anybody can use any name: nobody is left out in the name of another
            self._leave_out("join", f"node-{node}", error.code)
        elif key not in self._answers["join"]:
            self._leave_out("join", key, error.code)
        elif error.code not in _MENDABLE:
            lacking = (name for name in _ROUNDS if key not in self._answers[name])
            self._leave_out(next(lacking, current), key, error.code)

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
