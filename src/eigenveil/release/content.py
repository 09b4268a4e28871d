"""From the bytes of ``release.json`` and ``arrays.npz`` to a statement and arrays.

Both may come from anybody: whatever they hold, they are read or refused in one line.
"""

import io
import json
import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import AlteredReleaseError, InvalidParameterError
from eigenveil.privacy.contribution import Contribution, promise_from_dict
from eigenveil.privacy.federated_guarantee import FederatedGuarantee
from eigenveil.privacy.guarantee import Guarantee
from eigenveil.release import schema
from eigenveil.storage.archive import unzip

__all__ = [
    "decode_arrays",
    "encode_arrays",
    "largest_arrays",
    "read_statement",
    "without_sentences",
]

_MOST_DIGITS = 16
_HEADER_BYTES = 2**12  # bytes that an array takes in a zip beside its numbers, at most
# numpy itself reads more, by handing what it finds to a parser of Python.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(?P<length>[\s\S]{2})\{'descr': '<f8', 'fortran_order': "
    rb"(?P<columns>True|False), 'shape': \((?P<shape>|\d{1,16},|\d{1,16}(?:, \d{1,16})+)\), \} *\n"
)
_UNREADABLE = "arrays.npz cannot be read, damaged or truncated: ask its sender for it again"
Statement = tuple[dict[str, Any], Guarantee, tuple[Contribution, ...]]


def read_statement(data: bytes) -> Statement:
    """Return what ``release.json`` says, the promise in it, and the owners who made it."""
    try:
        document = _document(data)
        if "owners" not in document:
            return document, promise_from_dict(document["guarantee"]), ()
        owners = tuple(map(Contribution.from_dict, document["owners"]))
        return document, FederatedGuarantee.of(owner.guarantee for owner in owners), owners
    except InvalidParameterError:
        raise AlteredReleaseError("release.json states an impossible guarantee") from None
    except RecursionError:
        raise AlteredReleaseError("release.json is nested too deeply") from None


def without_sentences(document: dict[str, Any]) -> dict[str, Any]:
    """Return a statement without the sentences, which every version words in its own way."""
    plain = {**document, "guarantee": _without_sentence(document["guarantee"])}
    if "owners" in document:
        plain["owners"] = [
            {**owner, "guarantee": _without_sentence(owner["guarantee"])}
            for owner in document["owners"]
        ]
    return plain


def _without_sentence(guarantee: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in guarantee.items() if name != "sentence"}


def largest_arrays(data: bytes) -> int:
    """Return how many bytes ``arrays.npz`` may have by what ``release.json`` says of it."""
    try:
        stated = _document(data)["arrays"].values()
    except RecursionError:
        raise AlteredReleaseError("release.json is nested too deeply") from None
    sizes: list[int] = [8 * math.prod(array["shape"]) for array in stated]
    return sum(sizes) + _HEADER_BYTES * (1 + len(sizes))


def _integer(digits: str) -> int:
    """Return a whole number that is as good as a float."""
    if len(digits) > _MOST_DIGITS:
        raise ValueError("too large")
    return int(digits)


def _document(data: bytes) -> Any:
    """Return a document that follows the schema.

    Names that are there twice, numbers that are none and half characters would mislead.
    """

    def once(members: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(members)) < len(members):
            raise AlteredReleaseError("release.json has two members of one name")
        return dict(members)

    try:
        document = json.loads(data, object_pairs_hook=once, parse_int=_integer)
        json.dumps(document, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        raise AlteredReleaseError("release.json is not JSON") from None
    schema.check_version(document)
    schema.check(document)
    return document


def encode_arrays(arrays: dict[str, NDArray[np.float64]]) -> bytes:
    """Return the content of ``arrays.npz``."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def decode_arrays(data: bytes) -> dict[str, NDArray[np.float64]]:
    """Return the arrays of ``arrays.npz``: 64-bit floats and nothing else."""
    stored = unzip(data, "arrays.npz")
    if not all(name.endswith(".npy") for name in stored):
        raise AlteredReleaseError("arrays.npz holds other things than arrays")
    return {name.removesuffix(".npy"): _array(member) for name, member in stored.items()}


def _array(member: bytes) -> NDArray[np.float64]:
    """Return the numbers of one file, whose header is as numpy writes it, word for word."""
    header = _HEADER.match(member)
    if header is None or header.end() != 10 + int.from_bytes(header["length"], "little"):
        raise AlteredReleaseError(_UNREADABLE)
    shape = [int(size) for size in header["shape"].split(b",") if size]
    # What a header claims is compared before anything is made of it.
    if 8 * math.prod(shape) != len(member) - header.end():
        raise AlteredReleaseError(f"{_UNREADABLE}, or more than its numbers")
    numbers = np.frombuffer(member, np.float64, count=math.prod(shape), offset=header.end())
    return numbers.reshape(shape, order="F" if header["columns"] == b"True" else "C")
