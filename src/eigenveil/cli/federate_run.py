"""``eigenveil federate client`` and ``federate server``.

What is printed is for the owner's eyes. The server gets answers and codes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import click

from eigenveil.cli.federate_status import line, standing
from eigenveil.cli.options import beware, bewaring
from eigenveil.cli.printing import say, say_json
from eigenveil.cli.progress import stoppable
from eigenveil.cli.releasing import balance, expected_size, place_for, tell
from eigenveil.cli.rows import open_table
from eigenveil.cli.summary import headed, owners
from eigenveil.exceptions import FederationConnectionError, InvalidParameterError
from eigenveil.federated.agreement import Agreement
from eigenveil.federated.codes import Code, ProtocolError
from eigenveil.federated.configuration import ClientConfiguration, Connection, ServerConfiguration
from eigenveil.federated.coordinator import Coordinator
from eigenveil.federated.journal import Event, Happening, Journal
from eigenveil.federated.messages import (
    BasisAnswer,
    BasisQuestion,
    Declaration,
    Invitation,
    Message,
    ValuesAnswer,
    ValuesQuestion,
    decode,
    largest_size,
    readable_size,
)
from eigenveil.federated.owner import Answerer, Owner
from eigenveil.privacy.accounting import compose, epsilon_of
from eigenveil.privacy.guarantee import Guarantee, guarantee_from_dict
from eigenveil.privacy.ledger import Ledger
from eigenveil.privacy.ledger_file import Entry
from eigenveil.release.artefact import Release
from eigenveil.release.content import about_settings
from eigenveil.storage.durable import alone
from eigenveil.storage.paths import private_folder
from eigenveil.storage.reservation import abandon
from eigenveil.text import plural, typed

if TYPE_CHECKING:
    from eigenveil.federated.secure.agreement import SecureAgreement


_QUESTIONS = {
    Invitation.kind: "who takes part",
    BasisQuestion.kind: "for directions",
    ValuesQuestion.kind: "for values inside the common directions",
}


class Told(ABC):
    """An owner whose terminal says what it was asked and what that cost."""

    kinds: ClassVar[tuple[type[Message], ...]]  # of answers

    def __init__(self, owner: Answerer, ledger: Ledger) -> None:
        self._owner, self._ledger = owner, ledger
        self.refused: Code | None = None  # the newest answer, if it was none
        self._said = ""

    def answer(self, question: bytes) -> bytes:
        """Answer, and say what was asked, what was sent and what was charged."""
        before = len(self._ledger.entries)
        answer = self._owner.answer(question)
        spent = self._ledger.entries[before:]
        try:
            sent: Any = decode(answer, *self.kinds)
        except ProtocolError as refused:
            outcome = f"refused ({refused.code})"
            if refused.code not in (Code.MALFORMED, Code.VERSION):  # which say more of the server
                self.refused = refused.code
        else:
            self.refused = None
            outcome = self._outcome(sent, bool(spent))
        charged = self._charge(spent) if spent else "nothing charged"
        line = f"asked {self._asked(question)}: {outcome}; {charged}"
        if line != self._said:  # a server may ask the same for as long as it likes
            say(line, err=True)
        self._said = line
        return answer

    @abstractmethod
    def _asked(self, question: bytes) -> str:
        """Return what a question is about."""

    @abstractmethod
    def _outcome(self, sent: Any, paid: bool) -> str:
        """Return what was sent."""

    @abstractmethod
    def _charge(self, spent: Sequence[Entry]) -> str:
        """Return what was charged just now, and in all."""


class _ToldOwner(Told):
    """An owner whose noise is its own."""

    kinds = (Declaration, BasisAnswer, ValuesAnswer)

    def __init__(self, owner: Owner, ledger: Ledger) -> None:
        super().__init__(owner, ledger)
        self._delta = owner.settings.delta
        self.promise: Guarantee | None = None  # of what was sent; the newest covers all

    def _asked(self, question: bytes) -> str:
        try:
            kinds = (Invitation, BasisQuestion, ValuesQuestion)
            return _QUESTIONS[decode(question, *kinds).kind]
        except ProtocolError:
            return "something unreadable"

    def _outcome(self, sent: Any, paid: bool) -> str:
        if isinstance(sent, Declaration):
            return (
                f"declared {sent.n_records:,} {plural('record', sent.n_records)}, "
                f"epsilon = {sent.epsilon:g}"
            )
        self.promise = guarantee_from_dict(dict(sent.guarantee))
        return "answered" if paid else "sent the stored answer again"

    def _charge(self, spent: Sequence[Entry]) -> str:
        if all(entry.is_note for entry in spent):
            return "paid for with the first answer"
        epsilon = epsilon_of(compose(*(entry.cost for entry in spent)), self._delta)
        charged = f"charged epsilon = {epsilon:.3g} at delta = {self._delta:g}"
        return f"{charged}; {self._ledger.summary()}"


def run_client(chosen: ClientConfiguration, *, insecure: bool, as_json: bool) -> None:
    """Answer until the server says that it is done, and say what was spent."""
    settings = chosen.settings
    ledger = Ledger(chosen.ledger)
    # Its mistakes are explained. Of a .npy the columns are names, which the owner looks at.
    columns = None if chosen.data.suffix.lower() == ".npy" else settings.columns
    n_columns = open_table(str(chosen.data), columns=columns, unit=settings.unit).n_columns
    with stoppable(ledger_standing(ledger)), alone(chosen.folder, "client", mode=0o700):
        owner = Owner(
            settings,
            chosen.data,
            ledger,
            chosen.folder,
            log=_say,
            face="file",
        )
        beware(settings.budget.as_dict())
        told = _ToldOwner(owner, ledger)
        answer_all(told, settings.owner, chosen, insecure=insecure, n_columns=n_columns)
        _close(chosen, told, ledger, as_json=as_json)
        if told.refused is not None:
            click.get_current_context().exit(4 if told.refused is Code.BUDGET else 3)


def ledger_standing(ledger: Ledger) -> Callable[[], str]:
    """Return what says, when asked, what the ledger has spent by then."""
    return lambda: (
        f"the ledger has {ledger.summary()}; started again, nothing that was answered is spent "
        "twice"
    )


def answer_all(
    told: Told,
    name: str,
    chosen: Connection,
    *,
    insecure: bool,
    n_columns: int,
) -> None:
    """Answer until the server has no more questions; ``told.refused`` says whether it did."""
    from eigenveil.federated.flower.client import serve

    if insecure:
        say(
            "insecure: no encryption, and nobody's identity is checked; this machine only",
            err=True,
        )
    say(f"{name}: waiting for questions of {chosen.server}", err=True)
    try:
        with bewaring():
            serve(
                told,
                chosen.server,
                root_certificate=chosen.certificate,
                key=chosen.key,
                insecure=insecure,
                patience=chosen.patience,
                largest=readable_size(n_columns),
                tell=_say,
            )
    except FederationConnectionError as error:
        if told.refused is None:
            raise
        _say(f"error: {error.said('file')}")  # what was refused comes first


def _say(line: str) -> None:
    say(line, err=True)


def _close(chosen: ClientConfiguration, told: _ToldOwner, ledger: Ledger, *, as_json: bool) -> None:
    """Say what the owner has promised, what it refused, and what its ledger has left."""
    promise, refused = told.promise, told.refused
    if as_json:
        document = {
            "owner": chosen.settings.owner,
            "federation": chosen.settings.federation,
            "promise": None if promise is None else promise.sentence(),
            "refused": refused,
            "balance": balance(ledger),
        }
        say_json(document)
        return
    if promise is None:
        say("answered     nothing in this run")
    else:
        say(*headed("guarantee", promise.lines()))
    if refused is not None:
        say(f"refused      the last question: {refused.explanation} ({refused})")
    say(f"ledger       {ledger.balance().reading()}")


_RETURNING = 5.0  # s


def run_server(
    chosen: ServerConfiguration,
    *,
    insecure: bool,
    as_json: bool,
    about: Mapping[str, Any] | None = None,
) -> None:
    """Ask everybody, save the release and say what happened; ``about`` are words for its page."""
    from eigenveil.federated.flower.server import superlink

    about_settings({}, **(about or {}))  # refused before anybody is asked
    agreed = chosen.agreement
    kept = f"what was answered is in {typed([str(chosen.folder)])}"
    again = f"{kept}; start the server again to go on"
    private_folder(chosen.folder)
    with (
        alone(chosen.folder, "server"),
        Journal(chosen.journal) as journal,
        stoppable(again),
        ExitStack() as stack,
    ):
        before = journal.events
        # Whose journal it is, before anything else; a new one begins when all is well.
        earlier = Coordinator(agreed, journal) if before else None
        happened = {event.happening: event for event in before}
        released = happened.get(Happening.RELEASED)
        if released is not None:
            found = released.data.decode()
            say(
                f"released already, fingerprint {found}: nothing is asked; for another release "
                "change name, folder and output",
                err=True,
            )
            if as_json:
                say_json({"fingerprint": found, "already": True})
            if Happening.DISMISSED in happened:
                return
        else:
            if before:
                abandon(chosen.output)  # reserved by a run of this server that was killed
            if earlier is None or not earlier.complete:
                place = stack.enter_context(place_for(chosen.output))
                place.make_room(_size(agreed))
            if before:
                say(f"going on after: {line(before[-1], agreed)}", err=True)
            if insecure:
                say(
                    "insecure: no encryption, and owners are who they say they are; this machine "
                    "only",
                    err=True,
                )
        with superlink(
            chosen.address,
            chosen.keys,
            certificate=chosen.certificate,
            private_key=chosen.private_key,
            insecure=insecure,
            largest=_largest(agreed),
        ) as transport:
            say(f"listening on {transport.address}", err=True)
            coordinator = Coordinator(agreed, journal, tell=partial(_told, agreed))
            if released is None:
                release = coordinator.run(transport).described(**(about or {}))
                stack.close()  # the name is free for it
                try:
                    coordinator.save(release, chosen.output)
                except InvalidParameterError as error:
                    raise InvalidParameterError(*error.args, f"; {again}") from None
                details = _details(release, standing(journal.events))
                tell(release, chosen.output, None, None, as_json=as_json, details=details)
            # Who waits for a server that was stopped then needs a moment to find this one.
            transport.dismiss(least=0.0 if released is None else _RETURNING)
            coordinator.dismissed()


def _largest(agreed: "Agreement | SecureAgreement") -> int:
    """Return bytes of the largest answer."""
    if isinstance(agreed, Agreement):
        return largest_size(agreed.n_columns, agreed.n_directions)
    return (1 << 20) + 8 * max(step.size for step in agreed.steps)


def _size(agreed: "Agreement | SecureAgreement") -> int:
    d, k, owners = agreed.n_columns, agreed.n_components, len(agreed.owners)
    return expected_size(agreed.kind, d, k, agreed.columns, owners)


def _told(agreed: "Agreement | SecureAgreement", event: Event) -> None:
    say(f"{datetime.now():%H:%M:%S}  {line(event, agreed)}", err=True)


def _details(release: Release, state: Mapping[str, Any]) -> Sequence[str]:
    """Say who made it, who claims too much, whose weight was cut, and who is missing."""
    lines = owners(release)
    if "secure" in release.settings:
        return [*lines, *_sums(release.settings["secure"])]
    about = release.settings["federation"]
    if state["beyond"]:
        lines.append(
            f"claims       {', '.join(state['beyond'])} more records than agreed: as many "
            "as agreed are counted and stated"
        )
    if about["cut"]:
        lines.append(
            f"cut          {', '.join(about['cut'])} to a weight of {about['largest_weight']:g}, "
            "the most that was agreed on, or of an owner without complete limits"
        )
    return [*lines, *_left_out(about["left_out"])]


def _sums(about: Mapping[str, Any]) -> list[str]:
    """Say which agreement it was, who was left out of a sum, and whether one is doubtful."""
    lines = [f"agreement    {about['agreement']}", *_left_out(about["left_out"])]
    return [*lines, f"doubt        {about['doubt']}"] if about["doubt"] else lines


def _left_out(missing: Sequence[Mapping[str, str]]) -> list[str]:
    return [
        f"left out     {each['owner']} of {each['round']}: "
        f"{Code(each['code']).explanation} ({each['code']})"
        for each in missing
    ]
