"""What a coordinator asks and does with answers; how it asks and hears is the same for all."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from eigenveil.federated.codes import Code
from eigenveil.federated.messages import Message
from eigenveil.release.artefact import Release


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """What is in the journal.

    Attributes
    ----------
    questions : mapping of str to bytes
        By round, as they were asked.
    answers : mapping of str to mapping of str to bytes
        By round and owner; owners in the order of the agreement: who was first changes no bit.
    left_out : mapping of (str, str) to Code
        Who was left out of which round, and why.

    """

    questions: Mapping[str, bytes]
    answers: Mapping[str, Mapping[str, bytes]]
    left_out: Mapping[tuple[str, str], Code]


class Script(Protocol):
    """The rounds of a federation; the first is ``join``."""

    @property
    def rounds(self) -> tuple[str, ...]:
        """Names of the rounds, in order."""
        ...

    def awaited(self, name: str, heard: Heard) -> Collection[str]:
        """Return whose presence is waited for before a round's question is made."""
        ...

    def question(self, name: str, heard: Heard, here: Collection[str]) -> Message:
        """Return what a round asks; ``here`` are the owners who are connected."""
        ...

    def among(self, name: str, heard: Heard) -> tuple[str, ...]:
        """Return whom a round asks whose question is known."""
        ...

    def needed(self, name: str, heard: Heard) -> int:
        """Return how many of them must answer."""
        ...

    def join(self, reply: bytes) -> str:
        """Return who says that it takes part, or raise `ProtocolError`."""
        ...

    def check(self, name: str, owner: str, reply: bytes, heard: Heard) -> None:
        """Raise `ProtocolError` unless an answer is one that the owner may give."""
        ...

    def release(self, heard: Heard) -> Release:
        """Return what all answers make."""
        ...
