r"""Exact sums over clipped rows.

Entries are integers of at most b bits, so every partial sum BLAS can form over at most
2^(53 - 2b) rows is an integer below 2^53 and exact in float64, whatever the order, blocking
or number of threads. Across such groups sums are added in int64. The result is bit-identical
under permutation of rows, chunking, threads and source.

A BLAS that computes products by other means (Strassen, lower precision) would break this; a
self-test at first use looks for it, and sums are then no longer declared exact.
"""

import math
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from eigenveil.data.bounded import Bounded, Norm
from eigenveil.data.clip import BLOCK_BYTES, FRACTION_BITS, Clip
from eigenveil.data.source import ArraySource, ParquetSource, RowSource, ScaledSource, tables
from eigenveil.exceptions import InvalidDataError
from eigenveil.numerics.fixedpoint import FixedPoint
from eigenveil.privacy.adjacency import Adjacency

__all__ = [
    "blas_is_exact",
    "count",
    "integer_blocks",
    "limit_rows",
    "moment_sensitivities",
    "public_rows",
    "require_rows",
    "second_moment",
    "total",
    "trace",
]

_EXACT_ROWS = 1 << (53 - 2 * FRACTION_BITS)
_MAX_ROWS = 1 << (63 - 2 * FRACTION_BITS)


def _accumulate(rows: NDArray[np.float64], sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Upper triangle of ``sums + rows' rows``, in place (Fortran order)."""
    return blas.dsyrk(1.0, rows.T, beta=1.0, c=sums, overwrite_c=True)  # type: ignore[no-any-return]


def integer_blocks(
    source: RowSource, clip: Clip, *, at_least: int = 256
) -> Iterator[tuple[NDArray[np.float64], int]]:
    """Integer rows in a buffer that is used again, and how many of them were valid.

    As many at a time as stay in cache, or ``at_least`` so many if their source has them.
    """
    width = clip.width(source.n_columns)
    size = min(_EXACT_ROWS, max(at_least, BLOCK_BYTES // (8 * width)))
    buffer = np.empty((size, width))
    seen = 0
    for chunk in tables(source):
        for start in range(0, chunk.shape[0], size):
            rows = chunk[start : start + size]
            integers = buffer[: len(rows)]
            valid = clip.to_integers(rows, integers)
            seen = limit_rows(seen + len(rows))
            yield integers, valid


def moment_sensitivities(d: int, adjacency: Adjacency) -> dict[Norm, float]:
    """How far one row in the unit ball moves the sum of x x' in d dimensions.

    Replace-one: sqrt(2) in Frobenius norm and 2 in nuclear norm, attained by orthogonal rows on
    the sphere; add/remove: 1 and 1. The upper triangle of x x' has l1 norm at most (d + 1)/2, that
    of a difference of two at most sqrt(2) sqrt((d^2 + 3d)/4), by Cauchy-Schwarz.
    """
    if adjacency is Adjacency.ADD_REMOVE:
        return {"frobenius": 1.0, "nuclear": 1.0, "l1": (d + 1) / 2}
    l1 = math.nextafter(math.sqrt((d * d + 3 * d) / 2), math.inf)
    return {"frobenius": math.sqrt(2), "nuclear": 2.0, "l1": l1}  # the float above sqrt(2)


def second_moment(source: RowSource, clip: Clip, adjacency: Adjacency) -> Bounded:
    """Sum of x x' over clipped rows in units of R^2; its `unit` makes it the mean of x x' where
    the number of rows is public, and leaves it a sum where it is not.

    Sensitivities: `moment_sensitivities`.
    """
    d = clip.width(source.n_columns)
    group: NDArray[np.float64] = np.zeros((d, d), order="F")
    sums = np.zeros((d, d), dtype=np.int64)
    rows = pending = 0
    for integers, _ in integer_blocks(source, clip):
        if pending + len(integers) > _EXACT_ROWS:
            _move(group, sums)
            pending = 0
        group = _accumulate(integers, group)
        pending += len(integers)
        rows += len(integers)
    _move(group, sums)
    for i in range(d):  # dsyrk fills one triangle; mirrored in place, for want of memory
        sums[i, i + 1 :] = sums[i + 1 :, i]
    replace = adjacency is Adjacency.REPLACE_ONE
    return Bounded(
        value=FixedPoint(sums, -2 * FRACTION_BITS),
        sensitivities=moment_sensitivities(d, adjacency),
        adjacency=adjacency,
        unit=clip.radius**2 / (require_rows(rows) if replace else 1),
        count=rows if replace else None,
        # The rounding of a product with a transform depends on the rows around it.
        exact=clip.transform is None and blas_is_exact(_accumulate),
        spike=clip.spike,
        trace_bound=clip.radius**2 if replace else math.inf,
    )


def trace(source: RowSource, clip: Clip, adjacency: Adjacency) -> Bounded:
    """Sum of squared norms of clipped rows in units of R^2: one row moves it by at most 1."""
    squares = rows = 0
    for integers, _ in integer_blocks(source, clip):
        squares += int(np.einsum("ij,ij->", integers, integers))  # below 2**53: exact
        rows += len(integers)
    replace = adjacency is Adjacency.REPLACE_ONE
    return Bounded(
        value=FixedPoint(np.array([squares]), -2 * FRACTION_BITS),
        sensitivities={"l1": 1.0, "l2": 1.0},
        adjacency=adjacency,
        unit=clip.radius**2 / (require_rows(rows) if replace else 1),
        count=rows if replace else None,
        exact=clip.transform is None,
        trace_bound=clip.radius**2 if replace else math.inf,
    )


def _move(group: NDArray[np.float64], sums: NDArray[np.int64]) -> None:
    """Add exact float sums to the int64 ones and start the group afresh."""
    for i, row in enumerate(group.T):
        sums[i] += row.astype(np.int64)
    group[:] = 0.0


def count(source: RowSource, clip: Clip) -> Bounded:
    """Number of valid rows, for add/remove neighbours: sensitivity 1."""
    rows = sum(valid for _, valid in integer_blocks(source, clip))
    return Bounded(
        value=FixedPoint(np.array([rows << FRACTION_BITS]), -FRACTION_BITS),
        sensitivities={"l1": 1.0, "l2": 1.0},
        adjacency=Adjacency.ADD_REMOVE,
        unit=clip.row_norm,
        count=None,
        exact=clip.transform is None,
    )


def total(source: RowSource, clip: Clip, adjacency: Adjacency) -> Bounded:
    """Sum of clipped rows in units of R; under add/remove a last entry counts the valid rows.

    Euclidean sensitivity: 2 for replace-one, attained by antipodal rows on the sphere; sqrt(2)
    for add/remove, where a row brings a unit vector and a count of one. The l1 norm of a row is
    at most sqrt(d).
    """
    sums = np.zeros(source.n_columns, dtype=np.int64)
    rows = valid_rows = 0
    for integers, valid in integer_blocks(source, clip):
        sums += integers.sum(axis=0).astype(np.int64)  # below 2**53: exact
        rows += len(integers)
        valid_rows += valid
    replace = adjacency is Adjacency.REPLACE_ONE
    if not replace:
        sums = np.append(sums, valid_rows << FRACTION_BITS)
    length = math.nextafter(math.sqrt(source.n_columns), math.inf)
    bounds: dict[Norm, float] = (
        {"l2": 2.0, "l1": 2 * length}
        if replace
        else {"l2": math.sqrt(2), "l1": math.nextafter(length + 1, math.inf)}
    )
    return Bounded(
        value=FixedPoint(sums, -FRACTION_BITS),
        sensitivities=bounds,
        adjacency=adjacency,
        unit=clip.row_norm / (require_rows(rows) if replace else 1),
        count=rows if replace else None,
        exact=clip.transform is None,
    )


def limit_rows(rows: int) -> int:
    """A number of rows that exact sums can hold."""
    if rows > _MAX_ROWS:
        raise InvalidDataError(f"exact sums hold at most {_MAX_ROWS} rows: split the table")
    return rows


def public_rows(source: RowSource) -> int:
    """Number of rows, for neighbours that share it; read only where the source does not know."""
    source = source.base if isinstance(source, ScaledSource) else source
    if isinstance(source, (ArraySource, ParquetSource)):
        return require_rows(limit_rows(source.n_rows))
    return require_rows(limit_rows(sum(chunk.shape[0] for chunk in tables(source))))


def require_rows(rows: int) -> int:
    """The number of rows where it is public, which must not be zero."""
    if rows == 0:
        raise InvalidDataError("the table has no rows: check the file, the filter or the path")
    return rows


@lru_cache(maxsize=4)
def blas_is_exact(accumulate: Callable[..., NDArray[np.float64]]) -> bool:
    """Whether sums of the largest integers that occur come out exact to the last bit."""
    one = 1 << FRACTION_BITS
    for n, d in ((4096, 3), (600, 97), (300, 260), (24, 1100)):
        scrambled = np.arange(n * d, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        wide = (scrambled >> np.uint64(40)).astype(np.int64)
        integers = (wide % (2 * one + 1) - one).reshape(n, d)
        integers[0] = one  # odd and even extremes side by side
        integers[1] = one - 1
        start = np.full((d, d), float((1 << 52) + 1), order="F")
        floats = accumulate(integers.astype(np.float64), start)
        expected = integers.T @ integers + (1 << 52) + 1  # numpy multiplies integers itself
        upper = np.triu_indices(d)
        if not np.array_equal(floats[upper], expected[upper].astype(np.float64)):
            return False
    return products_are_exact()


def products_are_exact() -> bool:
    """Whether products of unit vectors of 26 bits come out exact, as stretched rows need them."""
    scrambled = np.arange(40 * 900, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    wide = (scrambled >> np.uint64(38)).astype(np.int64).reshape(40, 900) - (1 << 25)
    units = wide // 10  # rows of Euclidean norm just below 2**26
    floats = units.astype(np.float64)
    expected = (units @ units.T).astype(np.float64)
    alone = all(np.array_equal(row @ floats.T, expected[i]) for i, row in enumerate(floats[:8]))
    return alone and bool(np.array_equal(floats @ floats.T, expected))
