"""Random parts of a table, and its rows in a random order.

Both are drawn in secret and have nothing to do with the rows, so that neighbouring tables differ in
one record of one part at most, however they are sorted. Proof: docs/proofs/order.md.
"""

import math
from collections.abc import Callable, Iterator
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.sources.arrays import ArraySource, Batch
from eigenveil.data.sources.base import RowSource
from eigenveil.data.sources.checked import Check, count_checked
from eigenveil.data.sources.rowwise import RowwiseSource
from eigenveil.exceptions import UnsupportedNotionError
from eigenveil.privacy.adjacency import Adjacency, Unit
from eigenveil.wording import REPLACE_ONE

__all__ = [
    "DrawnRow",
    "DrawnRows",
    "ShuffledBatch",
    "ShuffledSource",
    "drawn_rows",
    "sampled",
    "shuffled",
]

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
    if share >= 1 or source.protects.owns_many:
        return source
    if not adjacency.count_is_public:  # the size of a sample would tell the number of rows
        raise UnsupportedNotionError("a sample of rows needs ", REPLACE_ONE)

    def drawn(rows: RowSource) -> RowSource:
        known = rows.sample_of(share)
        if known is not None:
            return known
        n = count_checked(rows, check)
        return ArraySource(rows.rows_at(sample(n, math.ceil(share * n))))

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
        table = ArraySource(rows.whole(), rows.feature_names)
        return ShuffledSource(table, order(count_checked(table, check)))

    return source.before_scaling(mixed)


class DrawnRow(Unit):
    """A row of one particular sequence of drawn rows."""

    __slots__ = ()


class DrawnRows(RowwiseSource):
    """A public number of rows, drawn at random in secret from a table with a private number.

    ``protects`` is an object of its own, so that statistics of these rows can be told from all
    others. Proof: docs/proofs/counted.md.
    """

    def __init__(self, rows: RowSource) -> None:
        super().__init__(rows, rows.n_columns, rows.feature_names)
        self._unit = DrawnRow()

    @property
    def protects(self) -> Unit:
        """One of the drawn rows."""
        return self._unit

    def of_rows(self, chunk: NDArray[Any]) -> NDArray[Any]:
        """Return the rows as they are."""
        return chunk


def drawn_rows(
    source: RowSource, size: int, order: Callable[[int], NDArray[np.intp]], check: Check
) -> RowSource:
    """Return a uniformly random sequence of ``size`` rows, held in memory.

    A table with fewer rows is filled up with rows of zeros first. ``size`` must be public or
    released; ``order`` gives a secret random order. ``check`` sees every row once more.
    """

    def drawn(rows: RowSource) -> RowSource:
        known = rows.standing_for(size)
        if known is not None:
            return DrawnRows(known)
        n = count_checked(rows, check)
        places = order(max(n, size))[:size]
        increasing = np.argsort(places)
        within = increasing[: int((places < n).sum())]  # zeros come after all rows of the table
        found = rows.rows_at(places[within])
        sequence = np.zeros((size, rows.n_columns), dtype=found.dtype)
        sequence[within] = found
        return DrawnRows(ArraySource(sequence, rows.feature_names))

    return source.before_scaling(drawn)


class ShuffledSource(RowSource):
    """The rows of a table in memory, in another order."""

    def __init__(self, table: ArraySource, order: NDArray[np.intp]) -> None:
        self.n_columns = table.n_columns
        self.feature_names = table.feature_names
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
        self.records = range(first, first + rows.n_rows)

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
