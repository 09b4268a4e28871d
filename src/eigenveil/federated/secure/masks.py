r"""Pads that hide one owner's numbers and cancel in the sum of all.

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

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from eigenveil.federated.codes import Code, ProtocolError
from eigenveil.federated.messages import Words
from eigenveil.federated.secure.signing import LABEL, listed

__all__ = ["Context", "masked", "pad", "pair_key", "pair_keys", "unmasked"]

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
