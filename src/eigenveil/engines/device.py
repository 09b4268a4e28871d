r"""Rows that lie on an accelerator, summed where they are.

A tensor of PyTorch, an array of CuPy or any array of the array API standard is read in its own
namespace: clipped, rounded to the integers of `Clip` and added up on its device. What leaves the
device are integer sums, which get their noise where all others do.

Each row becomes integers by operations on single numbers, and its squared norm is added up pair by
pair, in an order that its width alone decides: so it depends on no other row, nor on where it lies,
and all devices get the same integers. Their sums are exact: products of float64 up to 2^53, or on
tensor cores of int8, where an integer of 18 bits is three signed digits,

.. math:: k = 2^{16} h + 2^8 m + l, \qquad h, m, l \in [-128, 127],

and the sum of :math:`k k'` six sums of products of digits, each exact in int32 over 2^16 rows. A
device that adds up otherwise (a self-test at first use tells) is not asked; nothing is ever summed
in float32. Rows are read on the host instead wherever a sum is asked for that has no form here.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.engines.host_to_device import Brought, room
from eigenveil.exact.clip import (
    FRACTION_BITS,
    NO_EXPONENT,
    NO_LENGTH,
    SHARE_BITS,
    Clip,
    ball_radius,
    octave_brackets,
)
from eigenveil.exact.gram import MomentSum, MomentSums, SquareSum, UnitCount, VectorSum
from eigenveil.exact.histograms import DistanceCounts, ExponentCounts
from eigenveil.exact.products import fingerprint_weights, row_hashes
from eigenveil.exceptions import InvalidDataError, MissingExtraError
from eigenveil.numerics.array_backend import Place
from eigenveil.numerics.integers import Integers, add
from eigenveil.rows.base import HeldRows, RowSource, RowSum, chunk_rows
from eigenveil.rows.derived import CheckedRows

_ENTRIES = 1 << 27  # prepared at a time: a gigabyte in float64, of which a few are in use
_HELD_ENTRIES = 1 << 33  # 32 GiB
_EXACT_ROWS = 1 << (53 - 2 * FRACTION_BITS)  # in float64
_INT64_PARTS = 512  # of so many rows each, whose sums are added in int64 there
_DIGIT_ROWS = 1 << 16  # of int8 products in int32
_DIGIT_COLUMNS = 2048  # fewer are as fast in float64
_BIAS = 0x808080


class DeviceSource(RowSource):
    """Rows on a device, or brought to one part by part.

    Parameters
    ----------
    rows : array
        Of PyTorch, CuPy or the array API standard; or of numpy, a memory map too, with ``device``.
    device : str, optional
        A device of PyTorch, such as "cuda", to which parts of a numpy array are brought. A GPU
        keeps those that fill half of its free memory; others are brought whenever they are read.

    """

    def __init__(self, rows: Any, device: str | None = None) -> None:
        self._xp = _namespace("torch" if device is not None else rows)
        self._rows, self._to = rows, device
        if not (device is None or isinstance(rows, np.ndarray)):
            raise InvalidDataError("device is for numpy arrays: move other ones yourself")
        if len(rows.shape) != 2 or rows.shape[1] == 0:
            raise InvalidDataError("rows must form a two-dimensional table. Reshape your data")
        if device is None and not self._xp.isdtype(rows.dtype, ("real floating", "integral")):
            raise InvalidDataError("rows on a device must be real numbers: convert other types")
        self.n_columns = int(rows.shape[1])
        self._brought = None if device is None else Brought(rows, device)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self._rows.shape[0])

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Yield rows on the host."""
        size = chunk_rows(self.n_columns)
        for start in range(0, self.n_rows, size):
            yield _on_host(self._between(start, start + size))

    def rows_at(self, places: NDArray[np.intp]) -> NDArray[Any]:
        """Return the rows at these places, on the host."""
        if self._to is not None:
            return np.asarray(self._rows[places])
        where = self._xp.asarray(places, device=_device(self._rows))
        return _on_host(self._xp.take(self._rows, where, axis=0))

    def summed(self, what: RowSum) -> tuple[Integers, ...]:
        """Return a sum over all rows, on the device where it has a form there. Private."""
        if isinstance(what, MomentSums):
            return tuple(part for one in what.each for part in self.summed(one))
        form = _FORMS.get(type(what))
        if form is None or not _has_form(what) or not self._exact:
            return what.of(self)
        with np.errstate(all="ignore"):  # a warning would depend on the records
            groups: list[tuple[Any, ...]] = []
            for number, part in enumerate(self._parts()):
                sums = form(self._xp, part, what)
                if number % _INT64_PARTS == 0:
                    groups.append(sums)
                else:
                    pairs = zip(groups[-1], sums, strict=True)
                    groups[-1] = tuple(total + one for total, one in pairs)
            return tuple(add(*map(_on_host, sums)) for sums in zip(*groups, strict=True))

    def held(self, clip: Clip) -> HeldRows | None:
        """Return integer rows, held on the device: as float32, exact for 18 bits, or as they are.

        Products are of float64: on a GPU with room for it, they need not be widened every time.

        None where they do not fit beside the table, or are not read here. Private.
        """
        if self._to is not None or clip.lift or not _has_form(VectorSum(clip)) or not self._exact:
            return None
        if self.n_rows * self.n_columns > _HELD_ENTRIES:
            return None
        xp, place = self._xp, Place(self._xp, _device(self._rows))
        weights = place.there(fingerprint_weights(self.n_columns))
        squares: Integers = np.zeros(self.n_columns, dtype=np.int64)
        fingerprint = squares
        kept = []
        is_tensor = hasattr(self._rows, "detach")
        as_they_are = is_tensor and 8 * self.n_rows * self.n_columns <= room(place.device)
        with np.errstate(all="ignore"):
            for part in self._parts():
                integers, _ = _integers(xp, part, clip)
                # 2**53 at most, as a part has 2**17 rows at most: exact.
                more = place.host(xp.sum(integers * integers, axis=0)).astype(np.int64)
                squares = add(squares, more)
                hashes = place.there(row_hashes(place.host(integers @ weights)))
                fingerprint = fingerprint + place.host(hashes @ integers).astype(np.int64)
                kept.append(integers if as_they_are else xp.astype(integers, xp.float32))
        return HeldRows(
            squares,
            fingerprint,
            self.n_rows,
            lambda: (xp.astype(rows, xp.float64, copy=False) for rows in kept),
            place,
        )

    def _parts(self) -> Iterator[Any]:
        size = max(1, min(_EXACT_ROWS, _ENTRIES // self.n_columns))
        for start in range(0, max(1, self.n_rows), size):  # one of no rows, if there are none
            stop = min(start + size, self.n_rows)
            if self._brought is None:
                yield self._between(start, stop)
            else:
                yield self._brought.between(start, stop)

    def _between(self, start: int, stop: int) -> Any:
        return self._rows[start : min(stop, self.n_rows), :]

    @property
    def _exact(self) -> bool:
        return adds_exactly(self._xp, _device(self._rows) if self._to is None else self._to)


# Sums over one part, in integers of the device or of numpy.


def _moment(xp: Any, rows: Any, what: Any) -> tuple[Any, ...]:
    integers, counts = _integers(xp, rows, what.clip)
    return _gram(xp, integers), counts


def _squares(xp: Any, rows: Any, what: Any) -> tuple[Any, ...]:
    integers, counts = _integers(xp, rows, what.clip)
    return np.array([int(xp.sum(integers * integers))]), counts  # 2**53 at most: exact


def _vector(xp: Any, rows: Any, what: Any) -> tuple[Any, ...]:
    integers, counts = _integers(xp, rows, what.clip)
    return _on_host(xp.sum(integers, axis=0)).astype(np.int64) << SHARE_BITS, counts


def _units(xp: Any, rows: Any, what: Any) -> tuple[Any, ...]:
    _, valid, _ = _about_centre(xp, rows, what.clip)
    return (_counts(xp, valid),)


def _exponents(xp: Any, rows: Any, what: Any) -> tuple[Any, ...]:
    _, valid, squares = _about_centre(xp, rows, what.clip)
    relative = np.sqrt(_on_host(squares)) / what.clip.row_norm
    # Squares that lost their digits or overflowed are taken again on the host, of a scaled row.
    far = valid & ~((squares > NO_LENGTH) & xp.isfinite(squares))
    per_octave = getattr(what, "per_octave", 2)
    exponents = octave_brackets(relative, per_octave)
    exponents[_on_host(far)] = what.clip.norm_exponents(_picked(xp, rows, far), per_octave)
    return (np.bincount(exponents, minlength=NO_EXPONENT // 2 * per_octave + 1),)


def _distances(xp: Any, rows: Any, what: Any) -> tuple[Any, ...]:
    (counts,) = _exponents(xp, rows, what)
    return (counts << DistanceCounts.BITS,)


def _checked(xp: Any, rows: Any, what: Any) -> tuple[Any, ...]:
    what.check(_picked(xp, rows, ~xp.all(xp.isfinite(rows), axis=1)))  # no other stops a run
    return (np.array([rows.shape[0]]),)


_FORMS: dict[type, Callable[[Any, Any, Any], tuple[Any, ...]]] = {
    CheckedRows: _checked,
    MomentSum: _moment,
    SquareSum: _squares,
    VectorSum: _vector,
    UnitCount: _units,
    ExponentCounts: _exponents,
    DistanceCounts: _distances,
}


# Rows, as `Clip` has them.


def _has_form(what: Any) -> bool:
    """Return whether rows are read here as its clip says."""
    clip = getattr(what, "clip", None)
    return clip is None or not (clip.lift or clip.transform is not None or clip.stretch is not None)


def _integers(xp: Any, rows: Any, clip: Clip) -> tuple[Any, NDArray[np.int64]]:
    """Return integer rows, scaled by 2**b, in float64, and how many there are and are valid."""
    one = float(1 << FRACTION_BITS)
    radius = ball_radius(rows.shape[1])
    moved, valid, there = _about_centre(xp, rows, clip)
    squares = _on_host(there)  # roots are taken on the host: those of some devices are a bit off
    shrink = radius * clip.reach / np.sqrt(squares)
    if clip.scales_all:
        shrink[squares < NO_LENGTH] = 0.0
    else:  # a row at the centre divides by zero: the minimum is then 1
        np.minimum(1.0, shrink, out=shrink)
    factor = shrink * (one / clip.reach)
    huge = ~np.isfinite(squares)
    if huge.any():  # such a row lies outside the ball: only its direction counts
        largest = xp.where(~xp.isfinite(there), xp.max(xp.abs(moved), axis=1), xp.ones_like(there))
        moved = moved / largest[:, None]
        factor[huge] = radius * one / np.sqrt(_on_host(_squared_norms(xp, moved))[huge])
    integers = xp.round(moved * xp.asarray(factor, device=_device(moved))[:, None])
    # Whole numbers: exact within 2**53, and never rounded down from beyond. Not a number fails too.
    inside = xp.sum(integers * integers, axis=1) <= one * one
    return xp.where(inside[:, None], integers, xp.zeros_like(integers)), _counts(xp, valid)


def _about_centre(xp: Any, rows: Any, clip: Clip) -> tuple[Any, Any, Any]:
    """Return clamped rows about the centre, which are valid, and their squared norms.

    Invalid rows are zero; squared norms may have overflowed.
    """
    device = _device(rows)

    def public(numbers: Any) -> Any:
        return xp.asarray(numbers, dtype=xp.float64, device=device)

    moved = xp.astype(rows, xp.float64)
    fills = clip.on_missing == "centre"
    broken = xp.any(xp.isinf(rows) if fills else ~xp.isfinite(rows), axis=1)
    if clip.on_invalid == "raise" and bool(xp.any(broken)):
        clip.check(_picked(xp, rows, broken))
    if clip.box is not None:
        low, high = map(public, clip.box)
        moved = xp.where(moved < low, low, xp.where(moved > high, high, moved))
    if clip.centre is not None:
        moved = moved - public(clip.centre)
    if fills:
        moved = xp.where(xp.isnan(rows), xp.zeros_like(moved), moved)
    if bool(xp.any(broken)):
        moved = xp.where(broken[:, None], xp.zeros_like(moved), moved)
    return moved, ~broken, _squared_norms(xp, moved)


def _squared_norms(xp: Any, rows: Any) -> Any:
    """Row by row, pair by pair: in an order that the number of columns decides."""
    sums = rows * rows
    while sums.shape[1] > 1:
        half = sums.shape[1] // 2
        rest = sums[:, 2 * half :]  # a last column without a partner
        sums = sums[:, :half] + sums[:, half : 2 * half]
        if rest.shape[1]:
            sums = xp.concat([sums, rest], axis=1)
    return sums[:, 0]


def _counts(xp: Any, valid: Any) -> NDArray[np.int64]:
    return np.array([valid.shape[0], int(xp.sum(xp.astype(valid, xp.int64))) << FRACTION_BITS])


# Products.


def _gram(xp: Any, integers: Any) -> Any:
    """Return the sum of k k' over at most 2**17 integer rows, exactly, in int64."""
    n, d = integers.shape
    if n and d >= _DIGIT_COLUMNS and _has_tensor_cores(integers):
        return _gram_of_digits(integers)
    return _gram_of_floats(xp, integers)


def _gram_of_floats(xp: Any, integers: Any) -> Any:
    return xp.astype(xp.matmul(xp.permute_dims(integers, (1, 0)), integers), xp.int64)


def _has_tensor_cores(integers: Any) -> bool:
    """Return whether PyTorch multiplies int8 there: NVIDIA cards of capability 7.5 or more."""
    if not getattr(integers, "is_cuda", False):
        return False
    import torch

    capable = torch.cuda.get_device_capability(integers.device) >= (7, 5)
    return torch.version.cuda is not None and capable


def _gram_of_digits(integers: Any) -> Any:
    import torch

    d = integers.shape[1]
    width = -(-d // 32) * 32  # tensor cores read whole tiles
    half = -(-d // 64) * 32
    alike = torch.zeros((width, width), dtype=torch.int64, device=integers.device)
    mixed = torch.zeros_like(alike)
    for rows in torch.split(integers, _DIGIT_ROWS):
        digits = _digits(rows, width)
        for i, first in enumerate(digits):
            top, rest, unit = first[:half], first[half:], 1 << 16 * i
            alike[:half, :half].add_(torch._int_mm(top, top.T), alpha=unit)
            if len(rest):  # below it, and mirrored at the end
                alike[half:].add_(torch._int_mm(rest, first.T), alpha=unit)
            for j, second in enumerate(digits[:i]):
                mixed.add_(torch._int_mm(first, second.T), alpha=1 << 8 * (i + j))
    alike[:half, half:] = alike[half:, :half].T
    return (alike + mixed + mixed.T)[:d, :d]


def _digits(rows: Any, width: int) -> list[Any]:
    """Return the digits of integers, lowest first, with columns side by side: read fastest so.

    A digit is a byte of k + (2^7 + 2^15 + 2^23), less 128: its highest bit turned, as int8.
    """
    import torch

    n, d = rows.shape
    whole = torch.zeros((width, -(-n // 32) * 32), dtype=torch.int32, device=rows.device)
    whole[:d, :n] = rows.T
    whole.add_(_BIAS).bitwise_xor_(_BIAS)
    return [whole.view(torch.int8)[:, i::4].contiguous() for i in range(3)]


def adds_exactly(xp: Any, device: Any) -> bool:
    """Return whether sums on a device are exact: of the largest integers that occur."""
    return _self_test(xp, str(device), device if not isinstance(device, str) else None)


@lru_cache(maxsize=8)
def _self_test(xp: Any, name: str, device: Any) -> bool:
    one = 1 << FRACTION_BITS
    try:
        for n, d in ((4096, 3), (600, 97), (300, 260)):
            scrambled = np.arange(n * d, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            wide = (scrambled >> np.uint64(40)).astype(np.int64)
            integers = (wide % (2 * one + 1) - one).reshape(n, d)
            integers[0], integers[1], integers[2] = one, one - 1, -one
            there = xp.asarray(
                integers.astype(np.float64), device=name if device is None else device
            )
            grams = [_gram_of_floats(xp, there)]
            if _has_tensor_cores(there):
                grams.append(_gram_of_digits(there))
            expected = integers.T @ integers  # numpy multiplies integers itself
            if not all(np.array_equal(_on_host(gram), expected) for gram in grams):
                return False
            sums = _on_host(xp.sum(there, axis=0)).astype(np.int64)
            if not np.array_equal(sums, integers.sum(axis=0)):
                return False
    except (RuntimeError, TypeError, ValueError):  # of a device without float64
        return False
    return True


# Libraries.


def _namespace(rows: Any) -> Any:
    try:
        import array_api_compat
    except ImportError:
        raise MissingExtraError(
            "rows on a device need array-api-compat: pip install 'eigenveil[device]'"
        ) from None
    if isinstance(rows, str):
        import array_api_compat.torch as namespace

        return namespace
    return array_api_compat.array_namespace(rows)


def _device(rows: Any) -> Any:
    import array_api_compat

    return array_api_compat.device(rows)


def _picked(xp: Any, rows: Any, mask: Any) -> NDArray[Any]:
    """Return some rows, on the host."""
    return _on_host(xp.take(rows, xp.nonzero(mask)[0], axis=0))


def _on_host(rows: Any) -> NDArray[Any]:
    """Return an array of numpy."""
    if isinstance(rows, np.ndarray):
        return rows
    if hasattr(rows, "get"):  # CuPy
        return np.asarray(rows.get())
    if hasattr(rows, "detach"):  # PyTorch
        rows = rows.detach().cpu()
        return np.asarray(rows.double() if str(rows.dtype).endswith("float16") else rows)
    return np.asarray(rows)
