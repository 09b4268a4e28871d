"""Rows derived in secret random order: samples, shuffles and differences of pairs.

The pairing is random and has nothing to do with the rows, so that one replaced row, or person,
replaces one pair, however the table is sorted. Proof: docs/proofs/paired.md, docs/proofs/groups.md.

Both are drawn in secret and have nothing to do with the rows, so that neighbouring tables differ in
one record of one part at most, however they are sorted. Proof: docs/proofs/order.md.
"""

import math
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidDataError, InvalidParameterError, UnsupportedNotionError
from eigenveil.messages import REPLACE_ONE, option
from eigenveil.numerics.integers import Integers
from eigenveil.privacy.adjacency import Adjacency, Unit
from eigenveil.rows.base import MappedRows, RowSource, RowSum, Schema, Units, chunk_rows
from eigenveil.rows.maps import Unchanged
from eigenveil.rows.memory import ArraySource, Batch
from eigenveil.rows.units import UnitSource

_PAIRED_BYTES, _LEAST_PAIRS = 1 << 20, 256  # at a time: rows that stay in cache

Order = Callable[[int], NDArray[np.intp]]


def paired(source: RowSource, adjacency: Adjacency, order: Order) -> RowSource:
    """Return differences of random pairs of rows, or of persons where they may own several.

    ``order`` gives a random order of so many of them.
    """
    kind = PairedUnits if source.units.protects.owns_many else PairedSource
    # Dividing differences is dividing rows.
    return source.before_scaling(lambda rows: kind(rows, adjacency, order))


def check_pairs(n: int, *, persons: bool) -> None:
    """Refuse so many rows, or persons, if no two can be paired; how many they are is public."""
    if n >= 2:
        return
    if persons:
        raise InvalidDataError("pairs need two persons at least, not one: give more of them")
    raise InvalidDataError("pairs of rows need two rows at least, not one sample: give more rows")


def require_public_count(adjacency: Adjacency, *, persons: bool) -> None:
    """Refuse pairs where their number is private: one record more would pair all others anew."""
    if not adjacency.count_is_public:
        what = "persons" if persons else "rows"
        raise UnsupportedNotionError(
            f"pairs of {what} need a public number of {what}: choose ",
            REPLACE_ONE,
            ", or another ",
            option("centring"),
        )


class PairedSource(RowSource):
    """Half differences of disjoint pairs of rows; of an odd number one row is left out.

    ``order`` gives a random order of so many rows, which decides who is paired with whom whatever
    the rows are; so replacing one row replaces one difference, and how the table is sorted does not
    matter. Adding one would pair all others anew: there is no such source for add/remove. The table
    is held in memory.
    """

    def __init__(self, source: RowSource, adjacency: Adjacency, order: Order) -> None:
        require_public_count(adjacency, persons=False)
        self.n_columns = source.n_columns
        self.schema, self.units = source.schema, source.units
        n, self._lookup = source.lookup()
        check_pairs(n, persons=False)
        half = n // 2
        self._drawn = order(n)[: 2 * half].reshape(2, half).T
        self._pairs = self._drawn[np.argsort(self._drawn[:, 0])]  # read in the order of memory

    @property
    def n_rows(self) -> int:
        """Number of pairs."""
        return len(self._pairs)

    def in_random_order(self) -> "PairedSource":
        """Return the same pairs as they were drawn, so that a batch of them is a random one."""
        other = copy(self)
        other._pairs = self._drawn
        return other

    def chunks(self) -> Iterator[NDArray[np.float64]]:
        """Yield differences in chunks, in memory that is used again; halved: none overflows."""
        size = max(_LEAST_PAIRS, _PAIRED_BYTES // (8 * max(1, self.n_columns)))
        held = np.empty((2, min(size, len(self._pairs)), self.n_columns))
        for start in range(0, len(self._pairs), size):
            pairs = self._pairs[start : start + size]
            first, second = held[:, : len(pairs)]
            with np.errstate(all="ignore"):  # a wider float may become infinite
                self._lookup(pairs[:, 0], first)
                self._lookup(pairs[:, 1], second)
            yield half_differences(first, second)


class PairedUnits(UnitSource):
    """Half differences of rows of disjoint random pairs of persons; an odd one is left out.

    A pair of persons with m and k rows is a unit of max(m, k) differences, in which the rows of
    the one with fewer come again and again. ``order`` decides who is paired with whom, as in
    `PairedSource`, and which row of the one with which of the other: how a person's rows are sorted
    does not matter either. A replaced person replaces one pair. The table is held in memory.
    """

    def __init__(self, source: RowSource, adjacency: Adjacency, order: Order) -> None:
        require_public_count(adjacency, persons=True)
        sizes = source.units.sizes
        if sizes is None:
            raise InvalidParameterError("rows that are units of their own need PairedSource")
        self._table, units = source.whole_units()
        check_pairs(len(sizes), persons=True)
        mixed = order(len(units))
        # Rows person by person, each one's in an order that nobody knows.
        self._owned = mixed[np.argsort(units[mixed], kind="stable")]
        starts = np.cumsum(sizes) - sizes
        half = len(sizes) // 2
        pairs = order(len(sizes))[: 2 * half].reshape(2, half)
        pairs = pairs[:, np.argsort(pairs[0])]
        self._starts, self._sizes = starts[pairs], sizes[pairs]
        self._lengths = np.maximum(*self._sizes)  # number of differences of each pair
        super().__init__(source, Units(source.units.protects, self._lengths))
        self.rereadable = True  # the table is held

    def unit_chunks(self) -> Iterator[tuple[NDArray[np.float64], NDArray[np.intp]]]:
        """Yield differences in chunks, halved so that none overflows, and the pair of each."""
        ends = np.cumsum(self._lengths)
        size = chunk_rows(self.n_columns)
        for start in range(0, int(ends[-1]), size):
            places = np.arange(start, min(start + size, int(ends[-1])))
            pairs = np.searchsorted(ends, places, side="right")
            within = places - (ends - self._lengths)[pairs]
            first, second = self._owned[self._starts[:, pairs] + within % self._sizes[:, pairs]]
            rows = self._table[first].astype(np.float64), self._table[second].astype(np.float64)
            yield half_differences(*rows), pairs


def half_differences(
    first: NDArray[np.float64], second: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return (x - y)/2 of rows in place of x, each halved before, so that none overflows.

    A cell is missing where it is in either row, but not where one is infinite.
    """
    with np.errstate(all="ignore"):  # a warning would depend on the records
        infinite = not np.isfinite(first.sum() + second.sum())  # or missing; or so is the sum alone
        lost = np.isinf(first) | np.isinf(second) if infinite else None
        first *= 0.5
        second *= 0.5
        first -= second
    if lost is not None:
        first[np.isnan(first) & lost] = np.inf
    return first


Check = Callable[[NDArray[Any]], None]


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """Number of rows, all of which ``check`` has seen; it raises at one that stops a run."""

    check: Check

    def of(self, source: RowSource) -> tuple[NDArray[np.int64], ...]:
        """Return the number of rows of ``source``."""
        rows = 0
        for chunk, _ in source.unit_tables():
            self.check(chunk)
            rows += len(chunk)
        return (np.array([rows]),)


def count_checked(source: RowSource, check: Check) -> int:
    """Return the number of rows, all of which ``check`` has seen where they lie."""
    (rows,) = source.summed(CheckedRows(check))
    return int(rows[0])


_GATHERED_BYTES, _MIN_GATHERED_ROWS = 1 << 20, 64  # at a time: rows that stay in cache


def sampled(
    source: RowSource,
    share: float,
    adjacency: Adjacency,
    sample: Callable[[int, int], NDArray[np.intp]],
    check: Check,
) -> RowSource:
    """Return ``share`` of the rows, held in memory; ``check`` sees every row before they are drawn.

    ``sample`` gives so many of n places, in secret and uniformly: neighbours then differ in one of
    the sampled rows at most, however their rows are sorted. Of persons with several rows all are
    kept.
    """
    if share >= 1 or source.units.protects.owns_many:
        return source
    if not adjacency.count_is_public:  # the size of a sample would tell the number of rows
        raise UnsupportedNotionError("a sample of rows needs ", REPLACE_ONE)

    def drawn(rows: RowSource) -> RowSource:
        table = rows.schema.stands_for
        if table is not None and rows.in_memory is not None:
            return table.sample(rows, share)
        n = count_checked(rows, check)
        return ArraySource(rows.rows_at(sample(n, math.ceil(share * n))), rows.schema.feature_names)

    return source.before_scaling(drawn)


def shuffled(
    source: RowSource, order: Callable[[int], NDArray[np.intp]], check: Check
) -> RowSource:
    """Return the rows in a secret random order; those that can be read once only as they come.

    A batch is then a random part of the table, whatever that is sorted by, and neighbours differ in
    one record of one batch. ``check`` sees every row before anything random is drawn, which
    charges. The table is held in memory.
    """

    def mixed(rows: RowSource) -> RowSource:
        known = rows.in_random_order()
        if known is not None:
            return known
        table = ArraySource(rows.whole(), rows.schema.feature_names)
        return ShuffledSource(table, order(count_checked(table, check)))

    return source.before_scaling(mixed)


class DrawnRow(Unit):
    """A row of one particular sequence of drawn rows."""

    __slots__ = ()


class DrawnRows(MappedRows):
    """A public number of rows, drawn at random in secret from a table with a private number.

    What they protect is an object of its own, so that statistics of these rows can be told from all
    others. Proof: docs/proofs/counted.md.
    """

    def __init__(self, rows: RowSource) -> None:
        super().__init__(rows, Unchanged())
        self._units = Units(DrawnRow())

    @property
    def units(self) -> Units:  # type: ignore[override]
        """The drawn rows, each by itself."""
        return self._units

    def summed(self, what: RowSum) -> tuple[Integers, ...]:
        """Return a sum over the drawn rows, by reading them here. Private."""
        return what.of(self)


def drawn_rows(
    source: RowSource, size: int, order: Callable[[int], NDArray[np.intp]], check: Check
) -> RowSource:
    """Return a uniformly random sequence of ``size`` rows, held in memory.

    A table with fewer rows is filled up with rows of zeros first. ``size`` must be public or
    released; ``order`` gives a secret random order. ``check`` sees every row once more.
    """

    def drawn(rows: RowSource) -> RowSource:
        table = rows.schema.stands_for
        if table is not None and rows.in_memory is not None:
            return DrawnRows(table.drawn(rows, size))
        n = count_checked(rows, check)
        places = order(max(n, size))[:size]
        increasing = np.argsort(places)
        within = increasing[: int((places < n).sum())]  # zeros come after all rows of the table
        found = rows.rows_at(places[within])
        sequence = np.zeros((size, rows.n_columns), dtype=found.dtype)
        sequence[within] = found
        return DrawnRows(ArraySource(sequence, rows.schema.feature_names))

    return source.before_scaling(drawn)


class ShuffledSource(RowSource):
    """The rows of a table in memory, in another order."""

    def __init__(self, table: ArraySource, order: NDArray[np.intp]) -> None:
        self.n_columns = table.n_columns
        self.schema = table.schema
        self._rows, self._order = table.array, order

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self._order)

    @property
    def in_memory(self) -> "ShuffledSource":
        """The table itself, which is gathered when a batch of it is read."""
        return self

    def part(self, start: int, stop: int) -> "ShuffledSource":
        """Return rows ``start`` up to ``stop``, not yet gathered."""
        part = copy(self)
        part._order = self._order[start:stop]
        return part

    def batch(self, start: int, stop: int) -> "ShuffledBatch":
        """Return a batch of rows ``start`` up to ``stop``, not yet gathered."""
        return ShuffledBatch(self.part(start, stop), start)

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Yield rows gathered into the same memory again and again, which stays in cache."""
        size = max(_MIN_GATHERED_ROWS, _GATHERED_BYTES // (8 * self.n_columns))
        held = np.empty((min(size, self.n_rows), self.n_columns), dtype=self._rows.dtype)
        for start in range(0, self.n_rows, size):
            places = self._order[start : start + size]
            if self._rows.flags.c_contiguous:
                # Its own mode, "raise", would copy what it writes; no place is out of range.
                yield np.take(self._rows, places, axis=0, out=held[: len(places)], mode="clip")
            else:  # of which it would copy all rows first
                held[: len(places)] = self._rows[places]
                yield held[: len(places)]

    def gathered(self) -> NDArray[Any]:
        """Return all rows at once."""
        return np.asarray(self._rows[self._order])


class ShuffledBatch(Batch):
    """A batch whose rows are gathered as they are read, so that they are never written out."""

    def __init__(self, rows: ShuffledSource, first: int) -> None:
        self._rows = rows
        self.n_columns = rows.n_columns
        self.schema = Schema(records=range(first, first + rows.n_rows))

    @cached_property
    def array(self) -> NDArray[Any]:  # type: ignore[override]
        """All rows, for what goes back and forth among them."""
        return self._rows.gathered()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._rows.n_rows

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Yield some rows at a time, in memory that is used again."""
        return self._rows.chunks()

    def slice(self, start: int, stop: int) -> "ShuffledBatch":
        """Return records ``start`` up to ``stop`` of the batch."""
        self._check_part(start, stop)
        return ShuffledBatch(self._rows.part(start, stop), self.records.start + start)
