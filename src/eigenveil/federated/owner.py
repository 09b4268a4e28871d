"""An owner of records in a federation: answers two questions, each once, and pays for them.

What a coordinator can do to an owner: it is not trusted. It can ask for anything, and what that
releases is private for every question (`Records`). It can ask again, and gets the same bytes; it
can ask something else in the same round, and gets none; it can leave the second question out, for
which the owner has paid then. Of a failure it learns a `Code`. That of bad rows
(``on_invalid="raise"``) depends on the records and is not protected, as in any fit; no question has
an influence on it. How long an answer takes is not protected either. Proof: docs/proofs/owner.md.
"""

import hashlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from eigenveil.exceptions import (
    BudgetExceededError,
    BusyError,
    EigenveilError,
    InvalidDataError,
    InvalidParameterError,
    LedgerError,
    NothingFoundError,
)
from eigenveil.federated.answers import Answers
from eigenveil.federated.codes import Code, ProtocolError
from eigenveil.federated.messages import (
    BasisQuestion,
    Declaration,
    Invitation,
    Refusal,
    ValuesQuestion,
    columns_digest,
    decode,
    encode,
    largest_size,
    readable_size,
)
from eigenveil.federated.records import Answer, Records
from eigenveil.federated.settings import OwnerSettings
from eigenveil.messages import Face
from eigenveil.privacy.ledger import Ledger
from eigenveil.storage.paths import real_path
from eigenveil.text import plural

LOG = logging.getLogger(__name__)


class ColumnsError(InvalidParameterError):
    """Other columns than agreed."""


# The first that fits; of whatever else happens nobody is told more than that it did.
_CODES: tuple[tuple[type[Exception], Code], ...] = (
    (BudgetExceededError, Code.BUDGET),
    (LedgerError, Code.BUDGET),
    (NothingFoundError, Code.NOTHING_FOUND),
    (InvalidDataError, Code.DATA),
    (ColumnsError, Code.COLUMNS),
    (InvalidParameterError, Code.SETTINGS),
    (BusyError, Code.BUSY),
)


class Answerer(ABC):
    """An owner, as far as a server sees it: one message for another.

    Parameters
    ----------
    federation, owner : str
        Names in a refusal.
    ledger : Ledger, optional
        Charged before every answer. Left out in a simulation, and only there.
    folder : path, optional
        Where answers are kept, readable by nobody else; in memory in a simulation without one.
    log : callable
        Hears one line about every refusal, for the owner's own eyes.
    face : {"python", "shell", "file"}
        In whose words the line says what to do.

    """

    def __init__(
        self,
        federation: str,
        owner: str,
        ledger: Ledger | None,
        folder: str | Path | None,
        log: Callable[[str], None],
        face: Face,
    ) -> None:
        if folder is None and ledger is not None:
            raise InvalidParameterError("an owner needs a state folder, so as not to spend twice")
        if ledger is not None and ledger.budget.delta is None:
            # Answers are sure to fit in a ledger of their own notion only.
            raise InvalidParameterError(
                "the ledger of an owner must grant epsilon and delta: create such a one"
            )
        self._names = (federation, owner)
        self._ledger, self._folder = ledger, folder
        self._log, self._face = log, face
        self._said = ""  # of the last question, if it was refused

    def _stored(self, **terms: Any) -> Answers:
        """Return the answers that are kept under these terms; another folder is noticed now."""
        terms["ledger"] = None if self._ledger is None else self._ledger.id
        answers = Answers(None if self._folder is None else real_path(self._folder), terms)
        with answers.opened():
            return answers

    def answer(self, question: bytes) -> bytes:
        """Return the answer to a question, or a refusal, which is a code; never raise."""
        try:
            answer = self._answer(question)
        except Exception as error:  # whatever it is, nothing of it leaves
            return encode(self._refusal(error))
        self._said = ""
        return answer

    @abstractmethod
    def _answer(self, question: bytes) -> bytes:
        """Return the answer, or raise."""

    def _refusal(self, error: Exception) -> Refusal:
        code = next((code for kind, code in _CODES if isinstance(error, kind)), Code.INTERNAL)
        if isinstance(error, ProtocolError):
            code = error.code
        # Messages of the library hold nothing of records; those of others might.
        said = error.said(self._face) if isinstance(error, EigenveilError) else type(error).__name__
        line = f"refused ({code}): {said}"
        if line != self._said:  # who is asked again and again says it once
            self._log(line)
        self._said = line
        federation, owner = self._names
        return Refusal(federation=federation, owner=owner, code=code)


class Owner(Answerer):
    """Answers the questions of a coordinator.

    Parameters
    ----------
    settings : OwnerSettings
        What is public.
    rows : path, array, frame or RowSource
        The records; read again in every round.
    ledger, folder, log, face
        As in `Answerer`.

    """

    def __init__(
        self,
        settings: OwnerSettings,
        rows: Any,
        ledger: Ledger | None = None,
        folder: str | Path | None = None,
        *,
        log: Callable[[str], None] = LOG.warning,
        face: Face = "python",
    ) -> None:
        if (ledger is None) != (settings.random_state is not None):
            raise InvalidParameterError(
                "an owner has a ledger, a simulation has none: give a ledger or a random_state"
            )
        super().__init__(settings.federation, settings.owner, ledger, folder, log, face)
        self.settings = settings
        self._records = Records(settings, rows, ledger)
        self._answers = self._stored(settings=settings.as_dict())

    def _answer(self, question: bytes) -> bytes:
        asked: Any = decode(question, Invitation, BasisQuestion, ValuesQuestion)
        if asked.federation != self.settings.federation:
            raise ProtocolError(Code.FEDERATION)
        if isinstance(asked, (BasisQuestion, ValuesQuestion)):
            return self._once(asked, question)
        self._check_terms(asked)
        return encode(self._declaration(asked))

    def _check_terms(self, asked: Invitation) -> None:
        """Refuse other columns, another order, other scales, another part for the basis."""
        if asked.share != self.settings.share:
            raise InvalidParameterError(
                f"the federation has share = {asked.share:g} and these settings "
                f"{self.settings.share:g}: agree on one"
            )
        if asked.n_columns != self._records.n_columns:
            raise ColumnsError(
                f"the federation has {asked.n_columns} {plural('column', asked.n_columns)} and "
                f"this table {self._records.n_columns}: compare columns with the agreement"
            )
        if largest_size(asked.n_columns, asked.n_directions) > readable_size(asked.n_columns):
            raise InvalidParameterError(
                f"{asked.n_directions} directions are a larger message than is read or sent here: "
                "agree on fewer"
            )
        agreed = (
            columns_digest(names, self._records.scale) for names in (self._records.names, None)
        )
        if asked.columns not in agreed:
            named = "names, their order" if self._records.names else "columns, which have no names,"
            raise ColumnsError(
                f"the federation has as many columns, but {named} or scale differ from what was "
                "agreed: compare columns and scale"
            )

    def _declaration(self, asked: Invitation) -> Declaration:
        """Refuse what would fail later, before the first answer is paid for."""
        settings = self.settings
        if self._records.charged("basis") is None:
            self._records.check(asked)
        return Declaration(
            federation=settings.federation,
            owner=settings.owner,
            n_records=self._records.n_records,
            epsilon=settings.epsilon,
            delta=settings.delta,
            mechanism=settings.mechanism,
        )

    def _once(self, asked: BasisQuestion | ValuesQuestion, question: bytes) -> bytes:
        """Answer a round's question, or send what was answered before."""
        name = "basis" if isinstance(asked, BasisQuestion) else "values"
        digest = hashlib.sha256(question).hexdigest()
        with self._answers.opened():
            kept = self._answers.find(name)
            if kept is not None:
                if kept.question != digest:
                    raise ProtocolError(Code.OTHER_QUESTION)
                if kept.answer is not None:
                    return kept.answer
            if self._records.charged(name) is not None or (
                kept is not None and self._ledger is None
            ):
                raise ProtocolError(Code.INTERRUPTED)  # for what came of that, nothing is known
            work = self._prepared(asked)
            self._answers.begin(name, digest)
            notes: dict[str, Any] = {}
            try:
                message, notes = work()
            except Exception as error:
                message = self._refusal(error)
                if self._ledger is not None and self._records.charged(name) is None:
                    self._answers.forget(name)  # nothing was charged: it may be asked again
                    return encode(message)
            answer = encode(message)
            self._answers.keep(name, digest, answer, notes)
            return answer

    def _prepared(self, asked: BasisQuestion | ValuesQuestion) -> Callable[[], Answer]:
        """Return what is to be done, unless public numbers tell that it cannot be."""
        if isinstance(asked, BasisQuestion):
            self._check_terms(asked)
            self._records.check(asked)
            return partial(self._records.basis, asked)
        before = self._answers.find("basis")
        if before is None or "guarantee" not in before.notes:
            raise ProtocolError(Code.OTHER_QUESTION)  # this one comes second
        if asked.basis.shape != (self._records.n_columns, before.notes["n_components"]):
            raise ProtocolError(Code.SHAPE)
        return partial(self._records.values, asked.basis, before.notes)
