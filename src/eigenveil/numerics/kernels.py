"""Passes over rows in C (`rows.c`) or numpy, with the same bits.

They are faster and no different: what they return is what numpy would, to the last bit. A self-test
at first use compares the order of additions, so that another numpy, or another processor, is never
mixed with them; then, and for rows that they do not know, callers go on with numpy. With
``EIGENVEIL_COMPILED=0`` in the environment they are left alone.
"""

import ctypes
import math
import os
from ctypes import c_double, c_int, c_ssize_t, c_void_p
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.numerics.build_rows import library_path
from eigenveil.numerics.circles import (
    COSINE,
    EIGHTH,
    FIRST_DOUBLINGS,
    SINE,
    Circles,
    points_on_circles,
)
from eigenveil.numerics.column_limits import ColumnLimits, limited_rows

_COLUMNS = 4096  # summed at a time


def squared_norms(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Row by row, in an order of additions that does not depend on the other rows.

    On more columns than numpy buffers, its order depends on the number of rows.
    """
    total = np.zeros(rows.shape[0])
    for start in range(0, rows.shape[1], _COLUMNS):
        part = rows[:, start : start + _COLUMNS]
        total += np.einsum("ij,ij->i", part, part)
    return total


_TYPES = {np.dtype(np.float64): "f64", np.dtype(np.float32): "f32"}
_ROWS = [c_void_p, c_ssize_t, c_ssize_t, c_ssize_t, c_void_p]
_CIRCLES: list[Any] = [*_ROWS, c_void_p, c_void_p]
_CIRCLE_SUM: list[Any] = [*_ROWS, c_void_p, c_double, c_double, c_void_p]
_LIMITS: list[Any] = [*_ROWS, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]
_BLOCK = 16  # as in rows.c
_INTEGERS = [c_double, c_double, c_int, c_double, c_double, c_void_p, c_ssize_t, c_void_p]


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    """Return the compiled passes; None where there are none, or they add in another order."""
    if os.environ.get("EIGENVEIL_COMPILED") == "0":
        return None
    try:
        found = ctypes.CDLL(str(library_path()))
        for name in _TYPES.values():
            squares = getattr(found, f"row_squares_{name}")
            integers = getattr(found, f"row_integers_{name}")
            squares.argtypes, squares.restype = [*_ROWS, c_void_p], None
            integers.argtypes, integers.restype = [*_ROWS, *_INTEGERS], c_int
            bits = getattr(found, f"row_bits_{name}")
            bits.argtypes, bits.restype = [*_ROWS, c_void_p], None
        found.row_limits.argtypes, found.row_limits.restype = _LIMITS, None
        found.row_circles.argtypes, found.row_circles.restype = _CIRCLES, None
        found.circle_sum.argtypes, found.circle_sum.restype = _CIRCLE_SUM, c_int
    except (OSError, AttributeError):  # there is none, or another one
        return None
    same = _adds_as_numpy(found) and _turns_as_numpy(found) and _limits_as_numpy(found)
    return found if same else None


def row_squares(
    rows: NDArray[Any], centre: NDArray[np.float64] | None
) -> NDArray[np.float64] | None:
    """Return squared norms about ``centre``, or None where numpy has to take them."""
    known = library()
    return None if known is None or not _readable(rows) else _squares(known, rows, centre)


def row_bits(rows: NDArray[Any], weights: NDArray[np.uint64]) -> NDArray[np.uint64] | None:
    """Return sums of the folded bits of entries, times weights; None where numpy has to add up."""
    known = library()
    if known is None or not _readable(rows):
        return None
    out = np.empty(len(rows), dtype=np.uint64)
    run = getattr(known, f"row_bits_{_TYPES[rows.dtype]}")
    run(*_where(rows), weights.ctypes.data, out.ctypes.data)
    return out


def circled(rows: NDArray[Any], circles: Circles) -> NDArray[np.float64]:
    """Return `points_on_circles`."""
    known = library()
    return points_on_circles(rows, circles) if known is None else _circled(known, rows, circles)


def circle_sum(
    rows: NDArray[Any], circles: Circles, scaling: "Scaling"
) -> NDArray[np.float64] | None:
    """Return the sum of integers of points on circles, or None where `row_sum` has to take it."""
    known = library()
    if known is None or scaling.normalise or scaling.centre is not None:
        return None
    return _circle_sum(known, rows, circles, scaling)


def limited(
    rows: NDArray[Any], limits: ColumnLimits
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return `limited_rows`."""
    known = library()
    return limited_rows(rows, limits) if known is None else _limited(known, rows, limits)


@dataclass(frozen=True, slots=True)
class Scaling:
    """How rows about ``centre`` become integers.

    A row is multiplied by ``scale`` and by the factor that takes its length to ``ball``: where it
    is longer, or always to ``normalise`` it. Squares of its integers add up to at most ``most``.
    """

    centre: NDArray[np.float64] | None
    ball: float
    scale: float
    normalise: bool
    most: float

    def well_inside(self, d: int) -> float:
        """Return what squares of integers add up to at most if no row of d columns is clipped.

        Rounding adds sqrt(d)/2 to a length at most, and floats far less than the rest of it.
        """
        length = self.ball * self.scale * (1 - 2.0**-28) - math.sqrt(d) / 2 - 1
        return max(0.0, length) ** 2


def row_integers(rows: NDArray[Any], scaling: Scaling, out: NDArray[np.float64]) -> bool:
    """Write integer rows to ``out`` and return True, or return False where numpy has to."""
    known = library()
    if known is None or not _readable(rows) or out.strides[1] != out.itemsize:
        return False
    return _integers(known, rows, scaling, out, out.strides[0] // out.itemsize, None)


def row_sum(rows: NDArray[Any], scaling: Scaling) -> NDArray[np.float64] | None:
    """Return the sum of integer rows, or None where numpy has to take it."""
    known = library()
    if known is None or not _readable(rows):
        return None
    row, total = np.empty((2, rows.shape[1]))
    total[:] = 0.0
    return total if _integers(known, rows, scaling, row, 0, total.ctypes.data) else None


def _integers(
    known: ctypes.CDLL,
    rows: NDArray[Any],
    scaling: Scaling,
    out: NDArray[np.float64],
    step: int,
    total: int | None,
) -> bool:
    run = getattr(known, f"row_integers_{_TYPES[rows.dtype]}")
    about = _point(scaling.centre, rows.shape[1])
    well = scaling.well_inside(rows.shape[1])
    numbers = scaling.ball, scaling.scale, scaling.normalise, scaling.most, well
    return bool(run(*_where(rows), about.ctypes.data, *numbers, out.ctypes.data, step, total))


def _readable(rows: NDArray[Any]) -> bool:
    """Return whether rows are floats that lie one beside the other."""
    one = rows.itemsize
    in_order = rows.strides[1] == one and rows.strides[0] % one == 0 and rows.flags.aligned
    return rows.dtype in _TYPES and in_order


def _point(centre: NDArray[np.float64] | None, d: int) -> NDArray[np.float64]:
    return np.zeros(d) if centre is None else np.ascontiguousarray(centre, dtype=np.float64)


def _where(rows: NDArray[Any]) -> tuple[int, int, int, int]:
    return rows.ctypes.data, *rows.shape, rows.strides[0] // rows.itemsize


def _squares(
    known: ctypes.CDLL, rows: NDArray[Any], centre: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    about, out = _point(centre, rows.shape[1]), np.empty(len(rows))
    run = getattr(known, f"row_squares_{_TYPES[rows.dtype]}")
    run(*_where(rows), about.ctypes.data, out.ctypes.data)
    return out


class _Angles(ctypes.Structure):
    """`angles` of rows.c."""

    _fields_: ClassVar = [
        *((name, c_int) for name in ("circles", "doublings", "terms", "first")),
        ("eighth", c_double),
        *((name, c_void_p) for name in ("longest", "cosine", "sine")),
    ]

    @classmethod
    def of(cls, circles: Circles) -> "_Angles":
        counts = circles.number, circles.doublings, COSINE.size, FIRST_DOUBLINGS
        arrays = circles.longest, COSINE, SINE
        return cls(*counts, EIGHTH, *(array.ctypes.data for array in arrays))


def _circled(known: ctypes.CDLL, rows: NDArray[Any], circles: Circles) -> NDArray[np.float64]:
    rows, about = _as_floats(rows), _Angles.of(circles)
    parts, out = np.zeros(_padded(rows)), np.empty((len(rows), circles.number, 2, rows.shape[1]))
    where = *_where(rows), ctypes.addressof(about), parts.ctypes.data
    known.row_circles(*where, out.ctypes.data)
    return out


def _circle_sum(
    known: ctypes.CDLL, rows: NDArray[Any], circles: Circles, scaling: Scaling
) -> NDArray[np.float64] | None:
    rows, about = _as_floats(rows), _Angles.of(circles)
    halves, d = 2 * circles.number, rows.shape[1]
    parts, total = np.zeros(_padded(rows)), np.zeros((halves, _padded(rows)))
    where = *_where(rows), ctypes.addressof(about), parts.ctypes.data
    numbers = scaling.scale, scaling.well_inside(halves * d)
    whole = known.circle_sum(*where, *numbers, total.ctypes.data)
    return total[:, :d].ravel() if whole else None


def _padded(rows: NDArray[np.float64]) -> int:
    """Return the number of columns in whole blocks, as passes over circles work on them."""
    return -(-int(rows.shape[1]) // _BLOCK) * _BLOCK


def _limited(
    known: ctypes.CDLL, rows: NDArray[Any], limits: ColumnLimits
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    rows = _as_floats(rows)
    out, changed = np.empty(rows.shape), np.empty(len(rows), dtype=np.bool_)
    d = rows.shape[1]
    scale, turn, centre = (_point(x, d) for x in (limits.scale, limits.turn, limits.centre))
    ends = np.concatenate(limits.ends())
    fill = centre.ctypes.data if limits.fills else None
    numbers = scale.ctypes.data, ends.ctypes.data, turn.ctypes.data, fill
    known.row_limits(*_where(rows), *numbers, out.ctypes.data, changed.ctypes.data)
    return out, changed


def _as_floats(rows: NDArray[Any]) -> NDArray[np.float64]:
    if rows.dtype == np.float64 and _readable(rows):
        return rows
    with np.errstate(all="ignore"):  # a warning would depend on the records
        return np.require(rows, np.float64, ["C", "A"])


def _adds_as_numpy(known: ctypes.CDLL) -> bool:
    """Return whether squares add up to those of numpy for rows of many lengths."""
    numbers = np.cos(np.arange(5 * 4099) ** 2.0).reshape(5, 4099)
    for d in (*range(1, 20), 97, 4099):
        centre = numbers[0, -d:]
        for rows in (numbers[:, :d], numbers[:, :d].astype(np.float32)):
            if not np.array_equal(_squares(known, rows, centre), squared_norms(rows - centre)):
                return False
    return True


def _turns_as_numpy(known: ctypes.CDLL) -> bool:
    """Return whether points on circles, and sums of their integers, are those of numpy."""
    for d in (*range(1, 10), 16, 97):
        rows, circles = _rows_of_all_sizes(d), Circles(1 + np.arange(d) / 7, 3, 2)
        points, found = points_on_circles(rows, circles), _circled(known, rows, circles)
        if not np.array_equal(found, points, equal_nan=True):
            return False
        scaling = Scaling(None, ball=9.0 * d, scale=2.0**12, normalise=False, most=math.inf)
        finite = np.isfinite(rows).all(axis=1)
        whole = np.rint(points[finite] * scaling.scale).sum(axis=0).ravel()
        added = _circle_sum(known, rows[finite], circles, scaling)
        if added is None or not np.array_equal(added, whole):
            return False
    return True


def _limits_as_numpy(known: ctypes.CDLL) -> bool:
    """Return whether limited rows are those of numpy."""
    for d, limit, fills in ((1, 0.2, False), (7, math.inf, True), (97, 0.9, True)):
        rows, about = _rows_of_all_sizes(d), 1 + np.arange(d) / 7
        limits = ColumnLimits(scale=about, centre=-about, turn=about, limit=limit, fills=fills)
        found, expected = _limited(known, rows, limits), limited_rows(rows, limits)
        if not all(map(partial(np.array_equal, equal_nan=True), found, expected)):
            return False
    return True


def _rows_of_all_sizes(d: int) -> NDArray[np.float64]:
    sizes = np.array([[1e-3], [1.0], [9.0], [1e6], [1e15], [1e301], [1.0]])
    rows = np.asarray(np.cos(np.arange(sizes.size * d) ** 2.0).reshape(-1, d) * sizes)
    rows[-1] = np.resize([math.nan, 0.0, -0.0, -1e308, 1e-300, math.inf, -math.inf], d)
    return rows
