"""What a coordinator and the owners of tables say to each other.

One message is ``EIGENVEIL``, a version byte, the length of a header, the header in JSON, and the
arrays it names, little-endian and in rows: d k float64 numbers for a basis and k^2 + k for values,
whole numbers of 64 bits for a masked sum, plus a header of less than 700 bytes. Nothing is pickled,
and nothing is read beyond the bytes that came. A message is checked for everything that can be
checked without knowing the federation; a refusal carries a `Code` and no text.
"""

import hashlib
import json
import math
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidBudgetError, InvalidParameterError
from eigenveil.federated.codes import Code, ProtocolError
from eigenveil.privacy.budget import Budget

_MAGIC = b"EIGENVEIL"
_VERSION = 1
_HEADER = struct.Struct("<BI")  # version, length of the header
_LONGEST_HEADER = 1 << 16
_MOST_DIGITS = 16  # of an integer: as good as a float
_LARGEST_COUNT = 10**12
_READABLE = 64 << 20  # bytes of a message: d = 100,000 with k = 80
_READABLE_DIRECTIONS = 200  # of still wider tables
_LARGEST_VALUE = 1e100  # squares and sums of such are ordinary floats
WEAKEST = 2.0**-10  # a direction that is sent counts for something
_UNITS = ("shares", "variances")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_ORTHONORMAL_WITHIN, _REPAIRED_WITHIN = 1e-12, 1e-6  # how far B'B may be from the identity

Array = NDArray[np.float64]
Words = NDArray[np.uint64]
Octets = NDArray[np.uint8]
_DTYPES: dict[Any, str] = {Array: "<f8", Words: "<u8", Octets: "|u1"}  # by the type of a field


def columns_digest(names: Iterable[str] | None, scale: Iterable[float] | None = None) -> str:
    """Return one hash for the agreed columns: their names in order, what they are divided by.

    Both are public, and may be left out.
    """
    listed = None if names is None else [str(name) for name in names]
    scales = None if scale is None else [float(number).hex() for number in scale]
    return hashlib.sha256(json.dumps([listed, scales]).encode()).hexdigest()


def check_name(what: str, name: object) -> str:
    """Return a name that is safe in a message, a file name and a line of a log."""
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise InvalidParameterError(
            f"{what} must be a name of 1 to 64 letters, digits, dots, dashes and underscores that "
            "begins with a letter or a digit"
        )
    return name


def largest_size(n_columns: int, n_directions: int) -> int:
    """Return the most bytes of a message of a federation, header included; at least 1 MiB."""
    numbers = n_columns * n_directions + n_directions**2 + n_directions
    return max(1 << 20, 8 * numbers + _LONGEST_HEADER)


def readable_size(n_columns: int) -> int:
    """Return bytes of the largest message that an owner of so many columns reads or sends."""
    return max(_READABLE, largest_size(n_columns, min(n_columns, _READABLE_DIRECTIONS)))


def orthonormal(basis: Array) -> Array:
    """Return the basis if it is orthonormal, the nearest such basis if it nearly is."""
    d, k = basis.shape
    if not 1 <= k <= d:
        raise ProtocolError(Code.SHAPE)
    if not np.isfinite(basis).all():
        raise ProtocolError(Code.NOT_FINITE)
    if np.abs(basis).max() > 1 + _REPAIRED_WITHIN:
        raise ProtocolError(Code.NOT_ORTHONORMAL)
    error = float(np.abs(basis.T @ basis - np.eye(k)).max())
    if error <= _ORTHONORMAL_WITHIN:
        return basis
    if error > _REPAIRED_WITHIN:
        raise ProtocolError(Code.NOT_ORTHONORMAL)
    left, _, right = np.linalg.svd(basis, full_matrices=False)
    return np.asarray(left @ right)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Message:
    """What all have in common; fields are public numbers, words and released arrays."""

    kind: ClassVar[str]
    federation: str

    def __post_init__(self) -> None:
        _require(_NAME.fullmatch(self.federation))
        self._check()

    def _check(self) -> None:
        """Raise `ProtocolError` for values that nobody may send."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Invitation(Message):
    """Coordinator: what will be asked for. It costs nothing to answer.

    ``unit`` of the values: "shares" of variance of rows scaled to unit length, for which no bound
    is needed, or "variances" in the units of the data. They cost differently, and what an answer
    costs must not depend on an earlier one: so it is said before the first.
    """

    kind: ClassVar[str] = "invitation"
    n_columns: int
    n_components: int
    n_directions: int  # of each owner's basis: as many as components, or more
    share: float  # of mu^2, for the basis
    columns: str  # `columns_digest`
    unit: str

    def _check(self) -> None:
        _require(1 <= self.n_components <= self.n_directions <= self.n_columns <= _LARGEST_COUNT)
        _require(_DIGEST.fullmatch(self.columns) and self.unit in _UNITS)
        _require(0 < self.share < 1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Declaration(Message):
    """Owner: the public numbers that its weights will be computed from."""

    kind: ClassVar[str] = "declaration"
    owner: str
    n_records: int
    epsilon: float
    delta: float
    mechanism: str

    def _check(self) -> None:
        _require(_NAME.fullmatch(self.owner) and _NAME.fullmatch(self.mechanism))
        _require(1 <= self.n_records <= _LARGEST_COUNT)
        try:
            Budget(epsilon=self.epsilon, delta=self.delta)
        except InvalidBudgetError:
            raise ProtocolError(Code.OUT_OF_RANGE) from None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BasisQuestion(Invitation):
    """Coordinator: the leading directions, please."""

    kind: ClassVar[str] = "basis-question"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BasisAnswer(Message):
    """Owner: its private basis, and the promise it was made under."""

    kind: ClassVar[str] = "basis-answer"
    owner: str
    guarantee: Mapping[str, Any]
    basis: Array  # d x n_directions
    strengths: Array  # of the directions, n_directions: at most 1, so that they add no weight

    def _check(self) -> None:
        _require(_NAME.fullmatch(self.owner))
        if self.basis.ndim != 2 or self.strengths.shape != self.basis.shape[1:]:
            raise ProtocolError(Code.SHAPE)
        _require(((self.strengths >= WEAKEST) & (self.strengths <= 1)).all())
        object.__setattr__(self, "basis", orthonormal(self.basis))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ValuesQuestion(Message):
    """Coordinator: the aggregate basis; the second moment inside it, please."""

    kind: ClassVar[str] = "values-question"
    basis: Array  # d x k

    def _check(self) -> None:
        if self.basis.ndim != 2:
            raise ProtocolError(Code.SHAPE)
        object.__setattr__(self, "basis", orthonormal(self.basis))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ValuesAnswer(Message):
    """Owner: its private second moment inside the basis about its centre, and that centre.

    ``guarantee`` covers both answers.
    """

    kind: ClassVar[str] = "values-answer"
    owner: str
    rest: float  # mean squared length of its rows beside the basis, in the same units
    noise_scale: float  # standard deviation on the diagonal of the matrix
    centred: bool  # whether the centre is known: differences of pairs have none
    guarantee: Mapping[str, Any]
    matrix: Array  # k x k
    centre: Array  # k

    def _check(self) -> None:
        _require(_NAME.fullmatch(self.owner))
        k = self.centre.size
        if self.matrix.shape != (k, k) or self.centre.shape != (k,) or k == 0:
            raise ProtocolError(Code.SHAPE)
        numbers = max(self.noise_scale, abs(self.rest))
        largest = max(np.abs(self.matrix).max(), np.abs(self.centre).max(), numbers)
        _require(largest <= _LARGEST_VALUE and self.noise_scale >= 0)
        _require(np.array_equal(self.matrix, self.matrix.T))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Refusal(Message):
    """Owner: no answer, and why, in one of few words."""

    kind: ClassVar[str] = "refusal"
    owner: str
    code: Code

    def _check(self) -> None:
        _require(_NAME.fullmatch(self.owner))


Kind = TypeVar("Kind", bound=Message)


def encode(message: Message) -> bytes:
    """Return the same bytes for the same message, always."""
    header: dict[str, Any] = {"kind": message.kind}
    arrays = []
    for field in fields(message):
        value = getattr(message, field.name)
        if field.type in _DTYPES:
            arrays.append(np.ascontiguousarray(value, dtype=_DTYPES[field.type]))
            value = list(arrays[-1].shape)
        header[field.name] = value
    words = json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    if len(words) > _LONGEST_HEADER:
        raise ProtocolError(Code.MALFORMED)
    parts = [_MAGIC, _HEADER.pack(_VERSION, len(words)), words]
    return b"".join([*parts, *(array.tobytes() for array in arrays)])


def decode(data: bytes, *expected: type[Kind]) -> Kind:
    """Return the message in ``data``, of one of the expected kinds, or `ProtocolError`.

    A refusal in its place raises the error with the code that it carries.
    """
    header, rest = _split(data)
    allowed: tuple[type[Message], ...] = (*expected, Refusal)
    kinds = {each.kind: each for each in allowed}
    kind = kinds.get(str(header.pop("kind", None)))
    if kind is None:
        raise ProtocolError(Code.MALFORMED)
    known = {field.name: field.type for field in fields(kind)}
    if known.keys() != header.keys():
        raise ProtocolError(Code.MALFORMED)
    dtypes = {name: _DTYPES[wanted] for name, wanted in known.items() if wanted in _DTYPES}
    values = {name: _typed(header[name], known[name]) for name in known if name not in dtypes}
    values |= _arrays({name: header[name] for name in dtypes}, dtypes, rest)
    message = kind(**values)
    if isinstance(message, Refusal):
        raise ProtocolError(message.code, message.owner)
    assert isinstance(message, expected)  # none but these and refusals are let in
    return message


def _split(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return header and numbers."""
    start = len(_MAGIC) + _HEADER.size
    if not isinstance(data, bytes) or len(data) < start or not data.startswith(_MAGIC):
        raise ProtocolError(Code.MALFORMED)
    version, length = _HEADER.unpack_from(data, len(_MAGIC))
    if version != _VERSION:
        raise ProtocolError(Code.VERSION)
    if length > _LONGEST_HEADER or start + length > len(data):
        raise ProtocolError(Code.MALFORMED)
    try:
        header = json.loads(
            data[start : start + length],
            object_pairs_hook=_once,
            parse_int=_integer,
            parse_constant=_constant,
        )
    except (ValueError, RecursionError):
        raise ProtocolError(Code.MALFORMED) from None
    if not isinstance(header, dict):
        raise ProtocolError(Code.MALFORMED)
    return header, data[start + length :]


def _once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members as a dict; names that are there twice would mislead."""
    if len(dict(members)) < len(members):
        raise ValueError("twice")
    return dict(members)


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError("too large")
    return int(digits)


def _constant(word: str) -> float:
    raise ValueError(word)


def _typed(value: Any, wanted: Any) -> Any:
    """Return a value of the header as its field wants it, without guessing."""
    if wanted is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise ProtocolError(Code.NOT_FINITE)
        return float(value)
    if wanted is Code and isinstance(value, str) and value in set(Code):
        return Code(value)
    plain = {int: int, str: str, bool: bool, Mapping[str, Any]: dict}.get(wanted)
    if plain is None or type(value) is not plain:
        raise ProtocolError(Code.MALFORMED)
    return value


def _arrays(
    shapes: Mapping[str, Any], dtypes: Mapping[str, str], data: bytes
) -> dict[str, NDArray[Any]]:
    """Return the arrays behind the header, whose sizes must add up to what came."""
    sizes = {}
    for name, shape in shapes.items():
        whole = isinstance(shape, list) and 1 <= len(shape) <= 2
        if not whole or not all(type(size) is int and size > 0 for size in shape):
            raise ProtocolError(Code.SHAPE)
        sizes[name] = np.dtype(dtypes[name]).itemsize * math.prod(shape)
    if sum(sizes.values()) != len(data):
        raise ProtocolError(Code.SHAPE)
    arrays, start = {}, 0
    for name, size in sizes.items():
        numbers = np.frombuffer(data[start : start + size], dtype=dtypes[name])
        if not np.isfinite(numbers).all():
            raise ProtocolError(Code.NOT_FINITE)
        arrays[name] = numbers.astype(numbers.dtype.newbyteorder("=")).reshape(shapes[name])
        start += size
    return arrays


def _require(condition: object) -> None:
    if not condition:
        raise ProtocolError(Code.OUT_OF_RANGE)
