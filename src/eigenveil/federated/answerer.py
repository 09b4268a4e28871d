"""Whoever answers the questions of a server: a failure is an answer too, a code and no more."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable

from eigenveil.exceptions import (
    BudgetExceededError,
    BusyError,
    EigenveilError,
    InvalidDataError,
    InvalidParameterError,
    LedgerError,
    NothingFoundError,
)
from eigenveil.federated.codes import Code, ProtocolError
from eigenveil.federated.messages import Refusal, encode
from eigenveil.wording import Face

__all__ = ["LOG", "Answerer", "ColumnsError"]

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
    log : callable
        Hears one line about every refusal, for the owner's own eyes.
    face : {"python", "shell", "file"}
        In whose words the line says what to do.

    """

    def __init__(self, federation: str, owner: str, log: Callable[[str], None], face: Face) -> None:
        self._names = (federation, owner)
        self._log, self._face = log, face
        self._said = ""  # of the last question, if it was refused

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
