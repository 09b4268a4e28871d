r"""Masks that cancel in the sum over all owners, and the signatures of messages.

Every signature is Ed25519 over one typed, length-prefixed list: a label with the purpose, the
agreement, the step, the question, the roll, the sender and a hash of the body. Nothing that was
signed for one of these can be taken for another. Keys are made for this purpose alone: sign
nothing else with them.

.. math:: y_u = m_u + \sum_{v > u} \mathrm{PRG}(k_{uv}) - \sum_{v < u} \mathrm{PRG}(k_{uv})
          \bmod 2^{64}

Each pair of owners on a roll has one key for one step,

.. math:: k_{uv} = \mathrm{HKDF}(\mathrm{X25519}(u, v);
          \text{agreement, step, question, roll, both names}),

and one key makes one pad, by AES-256 in counter mode from zero. Owners who were shown different
rolls have different keys, and their pads do not cancel.

Source: Bonawitz et al. 2017, the pairwise pads alone. The set of owners is agreed on before anybody
uploads, so that there is nobody whose pads have to be removed.
"""

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from eigenveil.federated.codes import Code, ProtocolError
from eigenveil.federated.messages import Words

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


_LARGEST = 1 << 32  # bytes of one pad: far below what a counter of 128 bits allows


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a pad belongs to: digests, and the number of the step."""

    agreement: bytes
    step: int
    question: bytes
    roll: bytes


def pair_key(
    secret: X25519PrivateKey, public: bytes, context: Context, names: tuple[str, str]
) -> bytes:
    """Return the key that two owners share for one step; names in increasing order.

    A point of low order, whose product anybody knows, is refused.
    """
    try:
        product = secret.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise ProtocolError(Code.ROLL) from None
    bound = (context.agreement, context.step, context.question, context.roll, *names)
    info = listed(f"{LABEL}/pad", *bound)
    return HKDF(algorithm=SHA256(), length=32, salt=context.agreement, info=info).derive(product)


def pad(key: bytes, count: int) -> Words:
    """Return so many words of the key stream. One key is used for one pad."""
    if 8 * count > _LARGEST:
        raise ProtocolError(Code.SHAPE)
    stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(stream.update(bytes(8 * count)), dtype="<u8").astype(np.uint64)


def pair_keys(
    name: str, secret: X25519PrivateKey, public: Mapping[str, bytes], context: Context
) -> dict[str, bytes]:
    """Return the keys that an owner shares with every other one on the roll, by their names."""
    return {
        other: pair_key(secret, key, context, (min(name, other), max(name, other)))
        for other, key in public.items()
        if other != name
    }


def masked(values: NDArray[np.int64], name: str, keys: Mapping[str, bytes]) -> Words:
    """Return an owner's numbers with a pad for every other owner on the roll."""
    total = values.astype(np.uint64)
    for other, key in keys.items():
        mask = pad(key, values.size)
        total = total + mask if name < other else total - mask
    return np.asarray(total)


def unmasked(uploads: list[Words]) -> NDArray[np.int64]:
    """Return the sum of what all owners on a roll have sent, in which the pads cancel."""
    total = np.zeros_like(uploads[0])
    for upload in uploads:
        total += upload
    return total.astype(np.int64)
