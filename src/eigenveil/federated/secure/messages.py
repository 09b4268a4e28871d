"""Messages of a secure sum: who agrees, then for every step who is ready, and masked sums."""

import hashlib
import re
import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Self

import numpy as np

from eigenveil.exact.clip import LARGEST_NORM, SMALLEST_NORM
from eigenveil.federated.codes import Code, ProtocolError
from eigenveil.federated.messages import Array, Message, Octets, Words, decode
from eigenveil.federated.secure.masks import Statement

_DIGEST = re.compile(r"[0-9a-f]{64}")
_SIGNATURE = re.compile(r"[0-9a-f]{128}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MOST_STEPS = 64
_LENGTH = struct.Struct("<I")
_LARGEST_VALUE = 1e100


def digest(message: bytes) -> bytes:
    """Return the hash by which later messages name this one."""
    return hashlib.sha256(message).digest()


def _require(condition: object) -> None:
    if not condition:
        raise ProtocolError(Code.OUT_OF_RANGE)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SumInvitation(Message):
    """Server: here is the agreement that it goes by. It costs nothing to answer."""

    kind: ClassVar[str] = "sum-invitation"
    agreement: str  # its digest

    def _check(self) -> None:
        _require(_DIGEST.fullmatch(self.agreement))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Agreed(Message):
    """Owner: it has agreed on the same, signed."""

    kind: ClassVar[str] = "agreed"
    owner: str
    agreement: str
    signature: str

    def _check(self) -> None:
        _require(_NAME.fullmatch(self.owner) and _DIGEST.fullmatch(self.agreement))
        _require(_SIGNATURE.fullmatch(self.signature))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SumQuestion(Message):
    """Server: the numbers that one step depends on. They follow from earlier totals alone.

    ``radius``: where rows about the centre are clipped, as far as the step clips.
    """

    kind: ClassVar[str] = "sum-question"
    agreement: str
    step: int
    radius: float
    centre: Array  # d

    def _check(self) -> None:
        _require(_DIGEST.fullmatch(self.agreement) and 0 <= self.step < _MOST_STEPS)
        _require(SMALLEST_NORM <= self.radius <= LARGEST_NORM)
        if self.centre.ndim != 1:
            raise ProtocolError(Code.SHAPE)
        _require(np.abs(self.centre).max() <= _LARGEST_VALUE)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ready(Message):
    """Owner: a fresh key for this step and this question, signed."""

    kind: ClassVar[str] = "ready"
    owner: str
    agreement: str
    step: int
    question: str
    key: str  # X25519, in hexadecimal digits
    signature: str

    def _check(self) -> None:
        _require(_NAME.fullmatch(self.owner) and 0 <= self.step < _MOST_STEPS)
        _require(all(map(_DIGEST.fullmatch, (self.agreement, self.question, self.key))))
        _require(_SIGNATURE.fullmatch(self.signature))

    @property
    def statement(self) -> Statement:
        """What the owner has signed."""
        return Statement(
            purpose="ready",
            agreement=bytes.fromhex(self.agreement),
            step=self.step,
            question=bytes.fromhex(self.question),
            roll=b"",
            sender=self.owner,
            body=bytes.fromhex(self.key),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Roll(Message):
    """Server: everybody who is ready, in their own words; all of them must upload now."""

    kind: ClassVar[str] = "roll"
    agreement: str
    step: int
    members: Octets  # the ready messages, each behind its length

    def _check(self) -> None:
        _require(_DIGEST.fullmatch(self.agreement) and 0 <= self.step < _MOST_STEPS)
        if self.members.ndim != 1:
            raise ProtocolError(Code.SHAPE)

    @classmethod
    def of(cls, federation: str, agreement: str, step: int, ready: list[bytes]) -> Self:
        """Return the roll of those who sent these messages."""
        data = b"".join(_LENGTH.pack(len(each)) + each for each in ready)
        members = np.frombuffer(data, dtype=np.uint8)
        return cls(federation=federation, agreement=agreement, step=step, members=members)

    def ready(self) -> list[Ready]:
        """Return the messages on the roll; names must increase, and no key may be there twice."""
        data, found = self.members.tobytes(), []
        while data:
            if len(data) < _LENGTH.size:
                raise ProtocolError(Code.MALFORMED)
            (length,) = _LENGTH.unpack_from(data)
            one, data = data[_LENGTH.size :][:length], data[_LENGTH.size + length :]
            try:
                found.append(decode(one, Ready))
            except ProtocolError:
                raise ProtocolError(Code.MALFORMED) from None
        names = [each.owner for each in found]
        if any(first >= second for first, second in pairwise(names)):
            raise ProtocolError(Code.ROLL)
        if len({each.key for each in found}) < len(found):
            raise ProtocolError(Code.ROLL)
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Upload(Message):
    """Owner: its masked numbers, signed."""

    kind: ClassVar[str] = "upload"
    owner: str
    agreement: str
    step: int
    question: str
    roll: str
    signature: str
    masked: Words

    def _check(self) -> None:
        _require(_NAME.fullmatch(self.owner) and 0 <= self.step < _MOST_STEPS)
        _require(all(map(_DIGEST.fullmatch, (self.agreement, self.question, self.roll))))
        _require(_SIGNATURE.fullmatch(self.signature))
        if self.masked.ndim != 1:
            raise ProtocolError(Code.SHAPE)

    @property
    def statement(self) -> Statement:
        """What the owner has signed."""
        return Statement(
            purpose="upload",
            agreement=bytes.fromhex(self.agreement),
            step=self.step,
            question=bytes.fromhex(self.question),
            roll=bytes.fromhex(self.roll),
            sender=self.owner,
            body=self.masked.astype("<u8").tobytes(),
        )
