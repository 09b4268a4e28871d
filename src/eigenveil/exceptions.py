"""One tree of errors. No message carries a value derived from records.

A message may name what others chose, a path or a column: `str` of an error is one printable line.
What to type differs between Python, the command line and files: `said` has the words of each.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from eigenveil.messages import Face, Part, said
from eigenveil.text import printable

__all__ = [
    "AlteredReleaseError",
    "BoundsRequiredError",
    "BudgetExceededError",
    "BusyError",
    "ColumnsLeftOutWarning",
    "ComponentsWarning",
    "DuplicateBatchError",
    "EigenveilError",
    "EmptyCellsWarning",
    "FederationConnectionError",
    "GapTooSmallError",
    "InvalidBudgetError",
    "InvalidDataError",
    "InvalidParameterError",
    "LedgerError",
    "MissingExtraError",
    "MissingTogetherWarning",
    "NothingFoundError",
    "QuorumLostError",
    "StateError",
    "TooFewRowsError",
    "UncheckedPageError",
    "UnexplainedColumnsError",
    "UnfinishedLineWarning",
    "UnsupportedNotionError",
    "VerificationError",
    "WeakPromiseWarning",
    "WholeTurnsWarning",
]


class EigenveilError(Exception):
    """Everything this library raises on purpose; ``exit_code`` is for the command line.

    Parameters
    ----------
    *parts : str or Phrase
        The message, with a phrase for whatever faces write in different ways.

    """

    exit_code = 1

    def __init__(self, *parts: Part) -> None:
        super().__init__(*parts)

    def said(self, face: Face) -> str:
        """Return the message in the words of a face, as one printable line."""
        return printable(said(self.args, face))

    def __str__(self) -> str:
        return self.said("python")


class InvalidParameterError(EigenveilError, ValueError):
    """A public argument is impossible."""

    exit_code = 2


class InvalidBudgetError(InvalidParameterError):
    """The privacy budget is not one of (epsilon, delta), epsilon alone, or rho."""


class UnsupportedNotionError(InvalidParameterError):
    """The mechanism cannot give the kind of guarantee that was asked for."""


class BoundsRequiredError(InvalidParameterError):
    """The mechanism needs a public bound and none was stated."""

    exit_code = 3


class TooFewRowsError(InvalidParameterError):
    """Public numbers tell that a private search would mostly fail, or nothing useful come of it."""


class InvalidDataError(EigenveilError, ValueError):
    """The records cannot be used as they are."""

    exit_code = 3


class UnexplainedColumnsError(InvalidDataError):
    """Columns are named like ids or hold text, and nobody has said what becomes of them."""

    ids: Sequence[str] = ()
    text: Mapping[str, bool | None] = MappingProxyType({})  # and whether it holds amounts
    others: Sequence[str] = ()  # which can be analysed as they are
    named = False  # whether all of them were chosen by name


class DuplicateBatchError(InvalidDataError):
    """The records arrived before; nothing of this arrival was taken."""


class BudgetExceededError(EigenveilError):
    """The charge would exceed what is left; nothing was released."""

    exit_code = 4


class NothingFoundError(EigenveilError):
    """A private search found nothing to go on with; the budget is spent."""

    exit_code = 4


class GapTooSmallError(NothingFoundError):
    """A private test found the eigengap too small to release directions."""


class LedgerError(EigenveilError):
    """The ledger file is missing, damaged or was altered."""

    exit_code = 3


class StateError(EigenveilError):
    """The state of a stream is damaged, in use, or of another stream."""

    exit_code = 3


class QuorumLostError(EigenveilError):
    """Too few owners of a federation answered; what the others released is kept."""

    exit_code = 6


class BusyError(StateError):
    """Another process is at it; nothing was done."""


class FederationConnectionError(EigenveilError):
    """A server and an owner do not reach or do not accept each other."""

    exit_code = 3


class VerificationError(EigenveilError):
    """A stored release is damaged or was altered."""

    exit_code = 5


class AlteredReleaseError(VerificationError):
    """What a stored release holds cannot be what eigenveil has written."""

    def said(self, face: Face) -> str:
        """Return the message, and what to do about it."""
        return f"{super().said(face)}: damaged or altered, so ask its sender for it again"


class UncheckedPageError(VerificationError):
    """The page of a release is of another version, and no key or fingerprint vouches for it."""

    exit_code = 7


class MissingExtraError(EigenveilError, ImportError):
    """An optional dependency is not installed."""

    exit_code = 3


class ColumnsLeftOutWarning(UserWarning):
    """Columns that a release has nothing about: noise hides their scale or their variance."""


class EmptyCellsWarning(UserWarning):
    """Empty cells that errors and intervals do not account for in full."""


class MissingTogetherWarning(EmptyCellsWarning):
    """Cells of two columns are missing together more often, or less often, than by chance."""


class WholeTurnsWarning(UserWarning):
    """Means that are known up to multiples of a stated number only, as rows are few."""


class ComponentsWarning(UserWarning):
    """Components that say little: none is clear, or the unit of one column decides them.

    Parameters
    ----------
    *parts : str or Phrase
        The message, with a phrase for whatever faces write in different ways.

    """

    def __init__(self, *parts: Part) -> None:
        super().__init__(*parts)

    def said(self, face: Face) -> str:
        """Return the message in the words of a face, as one printable line."""
        return printable(said(self.args, face))

    def __str__(self) -> str:
        return self.said("python")


class UnfinishedLineWarning(UserWarning):
    """The last line of a ledger was cut off by the death of its writer, and is written over."""


class WeakPromiseWarning(UserWarning):
    """A budget that hardly promises anything: a large epsilon, or a delta above 1 over the rows."""
