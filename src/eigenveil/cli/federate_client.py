"""``eigenveil federate client``: one line for every question, with what it cost.

What is printed is for the owner's eyes. The server gets answers and codes.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from eigenveil.cli.balance import balance
from eigenveil.cli.options import beware, bewaring
from eigenveil.cli.printing import say, say_json
from eigenveil.cli.rows import open_table
from eigenveil.cli.stopping import stoppable
from eigenveil.cli.summary import headed
from eigenveil.exceptions import FederationConnectionError
from eigenveil.federated.configuration import ClientConfiguration
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
    decode,
    readable_size,
)
from eigenveil.federated.owner import Owner
from eigenveil.privacy.accounting import compose, epsilon_of
from eigenveil.privacy.guarantee import Guarantee, guarantee_from_dict
from eigenveil.privacy.ledger import Entry, Ledger
from eigenveil.storage.durable import alone
from eigenveil.text import plural

if TYPE_CHECKING:
    from eigenveil.federated.secure.configuration import SecureClientConfiguration

__all__ = ["answer_all", "run", "standing"]

_QUESTIONS = {
    Invitation.kind: "who takes part",
    BasisQuestion.kind: "for directions",
    ValuesQuestion.kind: "for values inside the common directions",
}


class _Told:
    """An owner whose terminal says what it was asked and what that cost."""

    def __init__(self, owner: Owner, ledger: Ledger) -> None:
        self._owner, self._ledger = owner, ledger
        self.promise: Guarantee | None = None  # of what was sent; the newest covers all
        self.refused: Code | None = None  # the newest answer, if it was none
        self._said = ""

    def answer(self, question: bytes) -> bytes:
        before = len(self._ledger.entries)
        answer = self._owner.answer(question)
        spent = self._ledger.entries[before:]
        try:
            sent = decode(answer, Declaration, BasisAnswer, ValuesAnswer)
        except ProtocolError as refused:
            outcome = f"refused ({refused.code})"
            if refused.code not in (Code.MALFORMED, Code.VERSION):  # which say more of the server
                self.refused = refused.code
        else:
            self.refused = None
            outcome = _outcome(sent, bool(spent))
            if isinstance(sent, (BasisAnswer, ValuesAnswer)):
                self.promise = guarantee_from_dict(dict(sent.guarantee))
        charged = self._charge(spent) if spent else "nothing charged"
        line = f"asked {_asked(question)}: {outcome}; {charged}"
        if line != self._said:  # a server may ask the same for as long as it likes
            say(line, err=True)
        self._said = line
        return answer

    def _charge(self, spent: Sequence[Entry]) -> str:
        """Return what was charged just now, at the owner's delta, and in all."""
        if all(entry.is_note for entry in spent):
            return "paid for with the first answer"
        delta = self._owner.settings.delta
        epsilon = epsilon_of(compose(*(entry.cost for entry in spent)), delta)
        return f"charged epsilon = {epsilon:.3g} at delta = {delta:g}; {self._ledger.summary()}"


def _asked(question: bytes) -> str:
    try:
        kinds = (Invitation, BasisQuestion, ValuesQuestion)
        return _QUESTIONS[decode(question, *kinds).kind]
    except ProtocolError:
        return "something unreadable"


def _outcome(sent: Message, paid: bool) -> str:
    if isinstance(sent, Declaration):
        return (
            f"declared {sent.n_records:,} {plural('record', sent.n_records)}, "
            f"epsilon = {sent.epsilon:g}"
        )
    return "answered" if paid else "sent the stored answer again"


def run(chosen: ClientConfiguration, *, insecure: bool, as_json: bool) -> None:
    """Answer until the server says that it is done, and say what was spent."""
    settings = chosen.settings
    ledger = Ledger(chosen.ledger)
    # Its mistakes are explained. Of a .npy the columns are names, which the owner looks at.
    columns = None if chosen.data.suffix.lower() == ".npy" else settings.columns
    n_columns = open_table(str(chosen.data), columns=columns, unit=settings.unit).n_columns
    with stoppable(standing(ledger)), alone(chosen.folder, "client", mode=0o700):
        owner = Owner(
            settings,
            chosen.data,
            ledger,
            chosen.folder,
            log=_say,
            face="file",
        )
        beware(settings.budget.as_dict())
        told = _Told(owner, ledger)
        answer_all(told, settings.owner, chosen, insecure=insecure, n_columns=n_columns)
        _close(chosen, told, ledger, as_json=as_json)
        if told.refused is not None:
            click.get_current_context().exit(4 if told.refused is Code.BUDGET else 3)


def standing(ledger: Ledger) -> Callable[[], str]:
    """Return what says, when asked, what the ledger has spent by then."""
    return lambda: (
        f"the ledger has {ledger.summary()}; started again, nothing that was answered is spent "
        "twice"
    )


def answer_all(
    told: Any,
    name: str,
    chosen: "ClientConfiguration | SecureClientConfiguration",
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


def _close(chosen: ClientConfiguration, told: _Told, ledger: Ledger, *, as_json: bool) -> None:
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
