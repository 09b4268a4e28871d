r"""Exact sums over clipped rows (second moments, squares, counts, means), with sensitivities.

Entries are integers of at most b bits, so every partial sum BLAS can form over at most
2^(53 - 2b) rows is an integer of at most 2^53 and exact in float64, whatever the order, blocking
or number of threads. Across such groups sums are added in int64, and beyond it in integers of any
size. The result is bit-identical under permutation of rows, chunking, threads and source.

Rows that share a unit, such as those of one person, share its ball: a unit of m rows brings their
mean to a sum and the mean of their x x' to a second moment (docs/proofs/groups.md).

A BLAS that computes products by other means (Strassen, lower precision) would break this; a
self-test at first use looks for it, and sums are then no longer declared exact.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from eigenveil.exact.bounded import Bounded, Norm
from eigenveil.exact.clip import BLOCK_BYTES, FRACTION_BITS, SHARE_BITS, Clip
from eigenveil.exceptions import InvalidDataError
from eigenveil.numerics.integers import ExactSum, FixedPoint, Integers, fitted, widened
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.rows.base import RowSource, count_units

_EXACT_ROWS = 1 << (53 - 2 * FRACTION_BITS)
_FEW_COLUMNS = 512
_ALWAYS_ROWS, _MOST_NUMBERS = 1 << 27, 1 << 39  # of any width, and of a table of more rows


def _accumulate(rows: NDArray[np.float64], sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Upper triangle of ``sums + rows' rows``, in place (Fortran order)."""
    if len(sums) <= _FEW_COLUMNS:  # numpy's BLAS is the faster one, unless the product is large
        sums += rows.T @ rows
        return sums
    return blas.dsyrk(1.0, rows.T, beta=1.0, c=sums, overwrite_c=True)  # type: ignore[no-any-return]


class Block(NamedTuple):
    """Some rows, ready to be summed."""

    integers: NDArray[np.float64]
    invalid: NDArray[np.intp]  # which of them
    units: NDArray[np.intp] | None  # whose they are, where units may own several


class Tally:
    """Number of units that were read, and of those in valid rows."""

    def __init__(self, source: RowSource) -> None:
        self._sizes = source.units.sizes
        self._columns = source.n_columns
        self._rows = self._valid = 0
        self._valid_rows = None if self._sizes is None else np.zeros_like(self._sizes)

    def add(self, block: Block) -> None:
        """Count a block."""
        if self._valid_rows is None:
            self.add_rows(len(block.integers), len(block.invalid))
            return
        assert block.units is not None  # of a source of units
        np.add.at(self._valid_rows, block.units, 1)
        np.subtract.at(self._valid_rows, block.units[block.invalid], 1)

    def add_rows(self, rows: int, invalid: int) -> None:
        """Count rows that are units of their own."""
        self._rows = limit_rows(self._rows + rows, self._columns)
        self._valid += rows - invalid

    @property
    def units(self) -> int:
        """Rows, or persons."""
        if self._sizes is None:
            return self._rows
        return limit_rows(len(self._sizes), self._columns)

    @property
    def valid(self) -> int:
        """Valid rows, or for each person the share of his that are; in units of 2^-b."""
        if self._sizes is None or self._valid_rows is None:
            return self._valid << FRACTION_BITS
        return int(((self._valid_rows << FRACTION_BITS) // self._sizes).sum())

    @property
    def counts(self) -> NDArray[np.int64]:
        """Return both, which add up over parts of a table."""
        return np.array([self.units, self.valid])


def integer_blocks(
    source: RowSource, clip: Clip, *, at_least: int = 256, linear: bool = False
) -> Iterator[Block]:
    """Yield integer rows in a buffer that is used again, as many at a time as stay in cache.

    Or ``at_least`` so many if their source has them. The squared norms of all rows of a unit add up
    to at most 2^2b, as a second moment needs it; for ``linear`` sums see `Clip.to_shares`.
    """
    prepare = _prepared(source, clip, at_least, linear)
    for chunk, owners in source.unit_tables():
        yield from prepare(chunk, owners)


def _prepared(
    source: RowSource, clip: Clip, at_least: int = 256, linear: bool = False
) -> Callable[[NDArray[Any], NDArray[np.intp] | None], Iterator[Block]]:
    """Return what yields the blocks of one chunk, all in the same buffer."""
    width = clip.width(source.n_columns)
    size = min(_EXACT_ROWS, max(at_least, BLOCK_BYTES // (8 * width)))
    buffer = np.empty((size, width))
    sizes = source.units.sizes

    def blocks(chunk: NDArray[Any], owners: NDArray[np.intp] | None) -> Iterator[Block]:
        for start in range(0, chunk.shape[0], size):
            rows = chunk[start : start + size]
            units = None if owners is None else owners[start : start + size]
            integers = buffer[: len(rows)]
            each = None if sizes is None or units is None else sizes[units]
            yield Block(integers, clip.to_shares(rows, integers, each, linear=linear), units)

    return blocks


def moment_sensitivities(d: int, adjacency: Adjacency) -> dict[Norm, float]:
    """Return how far one row in the unit ball moves the sum of x x' in d dimensions.

    Replace-one: sqrt(2) in Frobenius norm and 2 in nuclear norm, attained by orthogonal rows on
    the sphere; add/remove: 1 and 1. The upper triangle of x x' has l1 norm at most (d + 1)/2, that
    of a difference of two at most sqrt(2) sqrt((d^2 + 3d)/4), by Cauchy-Schwarz.
    """
    if adjacency is Adjacency.ADD_REMOVE:
        return {"frobenius": 1.0, "nuclear": 1.0, "l1": (d + 1) / 2}
    l1 = math.nextafter(math.sqrt((d * d + 3 * d) / 2), math.inf)
    return {"frobenius": math.sqrt(2), "nuclear": 2.0, "l1": l1}  # the float above sqrt(2)


class _GrowingMoment:
    """Sum of x x' over blocks of integer rows, and how many units there are and are valid."""

    def __init__(self, source: RowSource, clip: Clip) -> None:
        self._d = d = clip.width(source.n_columns)
        self._group: NDArray[np.float64] = np.zeros((d, d), order="F")
        self._total = ExactSum(d, d)
        self._tally = Tally(source)
        self._pending = 0

    def add(self, block: Block) -> None:
        """Add a block."""
        self._tally.add(block)
        if self._pending + len(block.integers) > _EXACT_ROWS:
            _move(self._group, self._pending, self._total)
            self._pending = 0
        self._group = _accumulate(block.integers, self._group)
        self._pending += len(block.integers)

    def sums(self) -> tuple[Integers, ...]:
        """Return the sum and the counts, at the end. Private."""
        _move(self._group, self._pending, self._total)
        sums = self._total.total()
        for i in range(self._d):  # dsyrk fills one triangle; mirrored in place, to save memory
            sums[i, i + 1 :] = sums[i + 1 :, i]
        return sums, self._tally.counts


@dataclass(frozen=True, slots=True)
class MomentSum:
    """Sum of x x' over integer rows, and how many units there are and are valid."""

    clip: Clip

    def of(self, source: RowSource) -> tuple[Integers, ...]:
        """Return both over all rows of ``source``. Private."""
        return MomentSums((self,)).of(source)


@dataclass(frozen=True, slots=True)
class MomentSums:
    """Several `MomentSum`, one after the other, in one pass over the rows."""

    each: tuple[MomentSum, ...]

    def of(self, source: RowSource) -> tuple[Integers, ...]:
        """Return all of them over all rows of ``source``. Private."""
        clips = [one.clip for one in self.each]
        growing = [(_prepared(source, clip), _GrowingMoment(source, clip)) for clip in clips]
        for chunk, owners in source.unit_tables():
            for prepare, moment in growing:
                for block in prepare(chunk, owners):
                    moment.add(block)
        return tuple(part for _, moment in growing for part in moment.sums())


def second_moment(source: RowSource, clip: Clip, adjacency: Adjacency) -> Bounded:
    """Sum of x x' over clipped rows in units of R^2; its `unit` makes it the mean of x x' where
    the number of rows is public, and leaves it a sum where it is not.

    Sensitivities: `moment_sensitivities`.
    """
    return _moment(source, clip, adjacency, *source.summed(MomentSum(clip)))


def second_moments(
    source: RowSource, clips: tuple[Clip, ...], adjacency: Adjacency
) -> tuple[Bounded, ...]:
    """Return `second_moment` for each way to bound the rows, which are read once."""
    found = source.summed(MomentSums(tuple(map(MomentSum, clips))))
    pairs = zip(clips, found[::2], found[1::2], strict=True)
    return tuple(_moment(source, clip, adjacency, *pair) for clip, *pair in pairs)


def _moment(
    source: RowSource, clip: Clip, adjacency: Adjacency, sums: Integers, counts: Integers
) -> Bounded:
    """Return the statistic of rows with these sums."""
    d = clip.width(source.n_columns)
    units = limit_rows(int(counts[0]), source.n_columns)
    replace = adjacency is Adjacency.REPLACE_ONE
    return Bounded.over(
        source,
        value=FixedPoint(sums, -2 * FRACTION_BITS),
        sensitivities=moment_sensitivities(d, adjacency),
        adjacency=adjacency,
        unit=clip.radius**2 / (require_rows(units) if replace else 1),
        count=units if replace else None,
        # The rounding of a product with a transform depends on the rows around it.
        exact=clip.transform is None and sums_are_exact(),
        centre_error=clip.centre_error,
        trace_bound=clip.radius**2 if replace else math.inf,
    )


@dataclass(frozen=True, slots=True)
class SquareSum:
    """Sum of squared norms of integer rows, and how many units there are and are valid."""

    clip: Clip

    def of(self, source: RowSource) -> tuple[Integers, ...]:
        """Return both over all rows of ``source``. Private."""
        tally = Tally(source)
        squares = 0
        for block in integer_blocks(source, self.clip):
            tally.add(block)
            squares += int(np.einsum("ij,ij->", block.integers, block.integers))  # 2**53 at most
        return fitted(np.array([squares], dtype=object)), tally.counts


def trace(source: RowSource, clip: Clip, adjacency: Adjacency) -> Bounded:
    """Sum of squared norms of clipped rows in units of R^2: one row moves it by at most 1."""
    squares, counts = source.summed(SquareSum(clip))
    units = limit_rows(int(counts[0]), source.n_columns)
    replace = adjacency is Adjacency.REPLACE_ONE
    return Bounded.over(
        source,
        value=FixedPoint(squares, -2 * FRACTION_BITS),
        sensitivities={"l1": 1.0, "l2": 1.0},
        adjacency=adjacency,
        unit=clip.radius**2 / (require_rows(units) if replace else 1),
        count=units if replace else None,
        exact=clip.transform is None,
        trace_bound=clip.radius**2 if replace else math.inf,
    )


@dataclass(frozen=True, slots=True)
class ColumnSquareSum:
    """Sum of the squared entries of integer rows by column, and how many units there are."""

    clip: Clip

    def of(self, source: RowSource) -> tuple[Integers, ...]:
        """Return both over all rows of ``source``. Private."""
        tally = Tally(source)
        sums = ExactSum(1, self.clip.width(source.n_columns))
        for block in integer_blocks(source, self.clip):
            tally.add(block)
            here = sums.holding(1 << 53)  # of at most _EXACT_ROWS rows
            here += np.einsum("ij,ij->j", block.integers, block.integers).astype(np.int64)
        return sums.total().ravel(), tally.counts


def column_squares(source: RowSource, clip: Clip, adjacency: Adjacency) -> Bounded:
    """Sum of squared entries of clipped rows by column, in units of R^2; its `unit` makes it the
    mean.

    Squares of a row in the unit ball are a non-negative vector q with |q|_1 <= 1. Two of them are
    at most sqrt(2) apart in l2 norm, as |q - p|^2 <= |q|^2 + |p|^2, and 2 in l1 norm; unit vectors
    attain both.
    """
    sums, counts = source.summed(ColumnSquareSum(clip))
    units = limit_rows(int(counts[0]), source.n_columns)
    replace = adjacency is Adjacency.REPLACE_ONE
    return Bounded.over(
        source,
        value=FixedPoint(sums, -2 * FRACTION_BITS),
        sensitivities=(
            {"l1": 2.0, "l2": math.sqrt(2)} if replace else {"l1": 1.0, "l2": 1.0}
        ),  # the float above sqrt(2)
        adjacency=adjacency,
        unit=clip.radius**2 / (require_rows(units) if replace else 1),
        count=units if replace else None,
        exact=clip.transform is None and sums_are_exact(),
        trace_bound=clip.radius**2 if replace else math.inf,
    )


def _move(group: NDArray[np.float64], rows: int, total: ExactSum) -> None:
    """Add exact float sums over so many rows to the integers, and start the group afresh."""
    sums = total.holding(rows << 2 * FRACTION_BITS)
    for i, row in enumerate(group.T):
        sums[i] += row.astype(np.int64)
    group[:] = 0.0


@dataclass(frozen=True, slots=True)
class UnitCount:
    """How many units there are and are valid."""

    clip: Clip

    def of(self, source: RowSource) -> tuple[Integers, ...]:
        """Return both over all rows of ``source``. Private."""
        tally = Tally(source)
        for block in integer_blocks(source, self.clip):
            tally.add(block)
        return (tally.counts,)


def count(source: RowSource, clip: Clip) -> Bounded:
    """Return the number of valid rows, for add/remove neighbours: sensitivity 1.

    A person counts as the share of his rows that are valid.
    """
    (counts,) = source.summed(UnitCount(clip))
    limit_rows(int(counts[0]), source.n_columns)
    return Bounded.over(
        source,
        value=FixedPoint(counts[1:], -FRACTION_BITS),
        sensitivities={"l1": 1.0, "l2": 1.0},
        adjacency=Adjacency.ADD_REMOVE,
        unit=clip.row_norm,
        count=None,
        exact=clip.transform is None,
    )


@dataclass(frozen=True, slots=True)
class VectorSum:
    """Sum of rows in units of 2^-(b + SHARE_BITS), and how many units there are and are valid."""

    clip: Clip

    def of(self, source: RowSource) -> tuple[Integers, ...]:
        """Return both over all rows of ``source``. Private."""
        sums = ExactSum(source.n_columns)
        tally = Tally(source)
        prepare = _prepared(source, self.clip, linear=True)
        for rows, units, known in source.summed_tables(self.clip):
            if known is not None:
                tally.add_rows(len(rows), 0)
                here = sums.holding(len(rows) << (FRACTION_BITS + SHARE_BITS))
                here += known.astype(np.int64) << SHARE_BITS
                continue
            for block in prepare(rows, units):
                tally.add(block)
                shares = np.ldexp(block.integers.sum(axis=0), SHARE_BITS)  # 2**51 at most
                here = sums.holding(len(block.integers) << (FRACTION_BITS + SHARE_BITS))
                here += shares.astype(np.int64)
        return sums.total(), tally.counts


def total(
    source: RowSource,
    clip: Clip,
    adjacency: Adjacency,
    *,
    counted: bool = True,
    valid: bool = False,
) -> Bounded:
    """Sum of clipped rows in units of R; under add/remove a last entry counts the valid rows,
    unless ``counted`` is False, and under replace-one where ``valid`` asks for it.

    Euclidean sensitivity: 2 for replace-one, attained by antipodal rows on the sphere, whether
    valid rows are counted or not; sqrt(2) for add/remove, where a row brings a unit vector and a
    count of one, and 1 without the count. The l1 norm of a row is at most sqrt(d).
    """
    sums, counts = source.summed(VectorSum(clip))
    units = limit_rows(int(counts[0]), source.n_columns)
    half = 1 << (SHARE_BITS - 1)
    sums = fitted((widened(sums, 1) + half) >> SHARE_BITS)  # without effect on whole rows
    replace = adjacency is Adjacency.REPLACE_ONE
    length = math.nextafter(math.sqrt(source.n_columns), math.inf)
    bounds: dict[Norm, float] = {"l2": 2.0, "l1": 2 * length}
    if not replace:
        bounds = {"l2": 1.0, "l1": length}
        if counted:
            bounds = {"l2": math.sqrt(2), "l1": math.nextafter(length + 1, math.inf)}
    counts_valid = valid if replace else counted
    if counts_valid:
        sums = np.append(sums, counts[1])
    return Bounded.over(
        source,
        value=FixedPoint(sums, -FRACTION_BITS),
        sensitivities=bounds,
        adjacency=adjacency,
        unit=clip.row_norm / (require_rows(units) if replace else 1),
        count=units if replace else None,
        exact=clip.transform is None,
        counts_valid=counts_valid,
    )


def most_rows(columns: int) -> int:
    """Return the number of rows that a table of so many columns may have.

    Sums of integers hold any number. What floating point computes before the noise, such as
    eigenvalues, is off by about rows times columns in units of 2^-53 of what one row can move: up
    to 2^39 numbers, far less than one. See docs/proofs/exact_sums.md.
    """
    return max(_ALWAYS_ROWS, _MOST_NUMBERS // max(1, columns))


def limit_rows(rows: int, columns: int) -> int:
    """Return a number of rows that a table of so many columns may have."""
    most = most_rows(columns)
    if rows > most:
        raise InvalidDataError(
            f"a table of {columns:,} columns may have {most:,} rows at most: split it"
        )
    return rows


def public_rows(source: RowSource) -> int:
    """Return the number of rows, or of persons who may own several, where it is public.

    Rows are read only where the source does not know.
    """
    return require_rows(limit_rows(count_units(source), source.n_columns))


def require_rows(rows: int) -> int:
    """Return the number of rows where it is public, which must not be zero."""
    if rows == 0:
        raise InvalidDataError("the table has no rows: check the file, the filter or the path")
    return rows


def sums_are_exact() -> bool:
    """Return whether this machine's BLAS adds up as it should."""
    return blas_is_exact(_accumulate)


@lru_cache(maxsize=4)
def blas_is_exact(accumulate: Callable[..., NDArray[np.float64]]) -> bool:
    """Return whether sums of the largest integers that occur come out exact to the last bit."""
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
    """Return whether products of unit vectors of 26 bits come out exact, as stretched rows need
    them.
    """
    scrambled = np.arange(40 * 900, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    wide = (scrambled >> np.uint64(38)).astype(np.int64).reshape(40, 900) - (1 << 25)
    units = wide // 10  # rows of Euclidean norm just below 2**26
    floats = units.astype(np.float64)
    expected = (units @ units.T).astype(np.float64)
    alone = all(np.array_equal(row @ floats.T, expected[i]) for i, row in enumerate(floats[:8]))
    return alone and bool(np.array_equal(floats @ floats.T, expected))
