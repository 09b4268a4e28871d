"""Tables in memory with cells of any kind: data frames, and sheets of workbooks."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.sources import frames
from eigenveil.data.sources.arrays import ArraySource
from eigenveil.data.sources.asking import TextColumns
from eigenveil.data.sources.base import chunk_rows
from eigenveil.data.sources.column_rows import ColumnRows
from eigenveil.data.sources.columns import Reading
from eigenveil.data.sources.features import level_of
from eigenveil.exceptions import InvalidDataError

__all__ = ["CellsSource", "frame_rows"]


class CellsSource(ColumnRows):
    """Named columns of cells in memory.

    Parameters
    ----------
    names : sequence of str
        The columns.
    n_rows : int
        Number of rows.
    cells : function
        Gives the cells of a column by its name.
    reading : Reading
        What becomes of them.
    text : function
        Gives the columns that hold text or dates.

    """

    def __init__(
        self,
        names: Sequence[str],
        n_rows: int,
        cells: Callable[[str], Sequence[Any]],
        reading: Reading,
        text: Callable[[], TextColumns],
    ) -> None:
        self._n_rows = n_rows
        self._table_columns = tuple(names)
        self._cells = cells
        self._take(reading.select(names, wordy=text), reading)

    def decided(self, levels: Mapping[str, Sequence[str]]) -> Self:
        """Return the same table, with these levels for undecided columns."""
        other = super().decided(levels)
        other.__dict__.pop("_table", None)
        return other

    @cached_property
    def _table(self) -> ArraySource:
        return ArraySource(self._columns.rows(self._cells), self.feature_names)

    @property
    def table_columns(self) -> tuple[str, ...]:
        """All columns of the table."""
        return self._table_columns

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._n_rows

    @property
    def in_memory(self) -> ArraySource:
        """The features, as an array."""
        return self._table

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Yield views of consecutive rows."""
        return self._table.chunks()

    def whole(self) -> NDArray[Any]:
        """Return all rows as one array."""
        return self._table.whole()

    def rows_at(self, places: NDArray[np.intp]) -> NDArray[Any]:
        """Return the rows at these places."""
        return self._table.rows_at(places)

    def labels(self) -> Iterator[list[Hashable]]:
        """Yield whose rows they are."""
        assert self._reading.unit is not None  # one was named
        yield list(self._cells(self._reading.unit))

    def labelled_chunks(self) -> Iterator[tuple[NDArray[Any], list[Hashable]]]:
        """Yield rows, and whose they are."""
        (labels,) = self.labels()
        size = chunk_rows(self.n_columns)
        for i, rows in enumerate(self.chunks()):
            yield rows, labels[i * size : i * size + len(rows)]

    def labelled_levels(self, column: str) -> Iterator[tuple[list[str | None], list[Hashable]]]:
        """Yield the level of each row in a column, and its label; no labels without a unit."""
        (labels,) = ([],) if self._reading.unit is None else self.labels()
        yield [level_of(cell) for cell in self._cells(column)], labels


def frame_rows(frame: Any, reading: Reading) -> CellsSource:
    """Return the rows of a data frame; which columns hold text is said by their types."""
    columns = frames.names(frame)
    if columns is None:
        raise InvalidDataError("the columns of this frame have no names: name them by text first")
    text = frames.text_columns(frame)
    source = CellsSource(columns, len(frame), frames.cells(frame), reading, lambda: text)
    source._refuse(text)
    return source
