"""Why somebody did not contribute to a federation: a word, and nothing else."""

from enum import StrEnum

from eigenveil.exceptions import EigenveilError


class Code(StrEnum):
    """Why somebody did not contribute: the only words that a failure sends."""

    # What an owner answers.
    AGREEMENT = "agreement"
    BUDGET = "budget"
    BUSY = "busy"
    COLUMNS = "columns"
    DATA = "data"
    FEDERATION = "federation"
    INTERNAL = "internal"
    INTERRUPTED = "interrupted"
    NOTHING_FOUND = "nothing-found"
    OTHER_QUESTION = "other-question"
    ROLL = "roll"
    SETTINGS = "settings"
    # What is found in a message.
    MALFORMED = "malformed"
    NOT_FINITE = "not-finite"
    NOT_ORTHONORMAL = "not-orthonormal"
    OUT_OF_RANGE = "out-of-range"
    SHAPE = "shape"
    SIGNATURE = "signature"
    VERSION = "version"
    # What the coordinator sees.
    CONTRADICTION = "contradiction"
    LATE = "late"
    LIMITS = "limits"
    LOST = "lost"
    MECHANISM = "mechanism"
    NO_ANSWER = "no-answer"
    UNKNOWN = "unknown"

    @property
    def explanation(self) -> str:
        """The reason in words for people."""
        return _EXPLANATIONS[self]


_EXPLANATIONS = {
    Code.AGREEMENT: "it has agreed on something else",
    Code.BUDGET: "its ledger does not cover the charge",
    Code.BUSY: "another process of it is at work on its answers",
    Code.COLUMNS: "its table has other columns",
    Code.DATA: "its table cannot be used as it is",
    Code.FEDERATION: "it belongs to another federation",
    Code.INTERNAL: "it failed inside; its own log says more",
    Code.INTERRUPTED: "it was interrupted after the charge and does not spend again",
    Code.NOTHING_FOUND: "a private search found nothing to go on with",
    Code.OTHER_QUESTION: "it has answered another question in this round, or none in the last",
    Code.ROLL: "it was shown a set of owners that it does not answer in",
    Code.SETTINGS: "it cannot do what was asked with its settings",
    Code.MALFORMED: "its message cannot be read",
    Code.NOT_FINITE: "its message holds NaN or infinity",
    Code.NOT_ORTHONORMAL: "its basis is not orthonormal",
    Code.OUT_OF_RANGE: "its message holds an impossible number",
    Code.SHAPE: "its message has the wrong shape",
    Code.SIGNATURE: "its signature, or one that it was shown, is not what it should be",
    Code.VERSION: "it speaks another version",
    Code.CONTRADICTION: "it says something else than when it joined, or than its key",
    Code.LATE: "its answer came after the deadline",
    Code.LIMITS: "it claims a larger budget, or another mechanism, than was agreed on",
    Code.LOST: "the connection to it was lost",
    Code.MECHANISM: "no error can be predicted for its mechanism, so it has no weight",
    Code.NO_ANSWER: "it did not answer in time",
    Code.UNKNOWN: "nobody of its name is expected",
}


class ProtocolError(EigenveilError):
    """A message that cannot be used; all that is said of it is a code."""

    exit_code = 3

    def __init__(self, code: Code, owner: str | None = None) -> None:
        super().__init__(f"a message was refused ({code}): {code.explanation}")
        self.code = code
        self.owner = owner  # who refused, where somebody did

    def __reduce__(self) -> tuple[type["ProtocolError"], tuple[Code, str | None]]:
        return type(self), (self.code, self.owner)  # a copy is made of these, not of the words
