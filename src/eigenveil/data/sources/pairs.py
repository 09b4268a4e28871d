"""Differences of random pairs, of rows or of persons: they have no centre.

The pairing is random and has nothing to do with the rows, so that one replaced row, or person,
replaces one pair, however the table is sorted. Proof: docs/proofs/paired.md, docs/proofs/groups.md.
"""

from collections.abc import Callable, Iterator
from copy import copy

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.sources.base import RowSource, Statistic, chunk_rows
from eigenveil.data.sources.units import UnitSource
from eigenveil.exceptions import InvalidDataError, InvalidParameterError, UnsupportedNotionError
from eigenveil.privacy.adjacency import Adjacency, Unit
from eigenveil.wording import REPLACE_ONE, option

__all__ = [
    "PairedSource",
    "PairedUnits",
    "check_pairs",
    "half_differences",
    "paired",
    "require_public_count",
]

_GATHERED_BYTES, _LEAST_PAIRS = 1 << 20, 256  # at a time: rows that stay in cache
Order = Callable[[int], NDArray[np.intp]]


def paired(source: RowSource, adjacency: Adjacency, order: Order) -> RowSource:
    """Return differences of random pairs of rows, or of persons where they may own several.

    ``order`` gives a random order of so many of them.
    """
    kind = PairedUnits if source.protects.owns_many else PairedSource
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
        self.feature_names = source.feature_names
        self._base = source
        n, self._lookup = source.lookup()
        check_pairs(n, persons=False)
        half = n // 2
        self._drawn = order(n)[: 2 * half].reshape(2, half).T
        self._pairs = self._drawn[np.argsort(self._drawn[:, 0])]  # read in the order of memory

    @property
    def n_rows(self) -> int:
        """Number of pairs."""
        return len(self._pairs)

    @property
    def protects(self) -> Unit:
        """What neighbouring tables of the rows differ in."""
        return self._base.protects

    @property
    def records(self) -> range | None:
        """Positions of the records of a batch, all of which may be in a pair."""
        return self._base.records

    def represented(self, statistic: Statistic) -> Statistic:
        """Return a statistic of these pairs as it is of those of the table the rows stand for."""
        return self._base.represented(statistic)

    def in_random_order(self) -> "PairedSource":
        """Return the same pairs as they were drawn, so that a batch of them is a random one."""
        other = copy(self)
        other._pairs = self._drawn
        return other

    def chunks(self) -> Iterator[NDArray[np.float64]]:
        """Yield differences in chunks, in memory that is used again; halved: none overflows."""
        size = max(_LEAST_PAIRS, _GATHERED_BYTES // (8 * max(1, self.n_columns)))
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
        sizes = source.unit_sizes
        if sizes is None:
            raise InvalidParameterError("rows that are units of their own need PairedSource")
        super().__init__(source, source.protects)
        self.rereadable = True  # the table is held
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
        self._lengths = np.maximum(*self._sizes)

    @property
    def unit_sizes(self) -> NDArray[np.int64]:
        """Number of differences of each pair. Private."""
        return np.asarray(self._lengths)

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
