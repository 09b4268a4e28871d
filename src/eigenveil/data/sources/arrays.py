"""Rows in memory: whole tables, and batches of consecutive rows."""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.sources.base import RowSource, chunk_rows
from eigenveil.data.sources.tables import as_table
from eigenveil.exceptions import InvalidParameterError

__all__ = ["ArraySource", "Batch"]


class ArraySource(RowSource):
    """An array in memory or memory-mapped; ``feature_names`` for one that has them."""

    def __init__(self, array: NDArray[Any], feature_names: tuple[str, ...] | None = None) -> None:
        self.array = as_table(array)
        self.n_columns = int(self.array.shape[1])
        self.feature_names = feature_names

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.array.shape[0])

    @property
    def in_memory(self) -> "ArraySource":
        """The table itself."""
        return self

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Yield views of consecutive rows."""
        size = chunk_rows(self.n_columns)
        for start in range(0, self.array.shape[0], size):
            yield self.array[start : start + size]

    def whole(self) -> NDArray[Any]:
        """Return the array itself."""
        return self.array

    def rows_at(self, places: NDArray[np.intp]) -> NDArray[Any]:
        """Return the rows at these places."""
        if self.array.flags.c_contiguous:
            return np.take(self.array, places, axis=0)
        return np.asarray(self.array[places])  # of which `take` would copy all rows first

    def batch(self, start: int, stop: int) -> "Batch":
        """Return a view of rows ``start`` up to ``stop``."""
        return Batch(self.array[start:stop], start)


class Batch(ArraySource):
    """Rows at consecutive positions of a table or a stream: a table of its own.

    Whatever is summed over it says which records those are, so that steps on different batches
    need not be added up.
    """

    holds_matrices: ClassVar[Literal[False]] = False
    records: range = range(0)

    def __init__(self, rows: NDArray[Any], first: int) -> None:
        super().__init__(rows)
        self.records = range(first, first + self.n_rows)

    def slice(self, start: int, stop: int) -> "Batch":
        """Return records ``start`` up to ``stop`` of the batch."""
        self._check_part(start, stop)
        return Batch(self.array[start:stop], self.records.start + start)

    @staticmethod
    def _check_part(start: int, stop: int) -> None:
        if not 0 <= start <= stop:  # counted from the end, they would get others' positions
            raise InvalidParameterError("part of a batch starts at 0 or later and ends after it")
