"""What owners of a secure sum sign, byte for byte, and with which keys.

Every signature is Ed25519 over one typed, length-prefixed list: a label with the purpose, the
agreement, the step, the question, the roll, the sender and a hash of the body. Nothing that was
signed for one of these can be taken for another. Keys are made for this purpose alone: sign
nothing else with them.
"""

import hashlib
import struct
from dataclasses import dataclass
from typing import Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from eigenveil.federated.codes import Code, ProtocolError

__all__ = ["LABEL", "Statement", "listed"]

LABEL = "eigenveil-secure-sum/1"
_LENGTH = struct.Struct(">Q")


def listed(*fields: str | bytes | int) -> bytes:
    """Return an encoding of a list that no other list has."""
    parts = [_LENGTH.pack(len(fields))]
    for field in fields:
        match field:
            case str():
                kind, data = b"s", field.encode()
            case bytes():
                kind, data = b"b", field
            case int():
                kind, data = b"i", field.to_bytes(9, "big", signed=True)
        parts += [kind, _LENGTH.pack(len(data)), data]
    return b"".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What one owner says at one moment of one step.

    Attributes
    ----------
    purpose : {"agreed", "ready", "upload"}
        What it is said for.
    agreement, question, roll : bytes
        Digests of what it is said under; empty before there is any.
    step : int
        Its number, -1 before the first.
    sender : str
        Name of the owner.
    body : bytes
        What is said: the agreement, a fresh key, or a masked sum.

    """

    purpose: Literal["agreed", "ready", "upload"]
    agreement: bytes
    step: int
    question: bytes
    roll: bytes
    sender: str
    body: bytes

    def encode(self) -> bytes:
        """Return the bytes that are signed."""
        return listed(
            f"{LABEL}/{self.purpose}",
            self.agreement,
            self.step,
            self.question,
            self.roll,
            self.sender,
            hashlib.sha256(self.body).digest(),
        )

    def sign(self, key: Ed25519PrivateKey) -> str:
        """Return the signature, in hexadecimal digits."""
        return key.sign(self.encode()).hex()

    def check(self, signature: str, key: bytes) -> None:
        """Raise `ProtocolError` unless the owner of the key has signed this."""
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(bytes.fromhex(signature), self.encode())
        except (InvalidSignature, ValueError):
            raise ProtocolError(Code.SIGNATURE, self.sender) from None
