"""Chunks that somebody else makes: any iterable of tables, or any object that yields them."""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from eigenveil.data.sources.base import RowSource
from eigenveil.data.sources.readings import Readings
from eigenveil.data.sources.tables import as_table
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.privacy.adjacency import Adjacency

__all__ = ["ForeignRows", "ForeignSource", "IterableSource", "require_hidden_count"]


class ChunkedRows(RowSource):
    """Chunks that a caller makes, each time anew unless he can make them only once."""

    def keep_order(self) -> None:
        """Refuse readings in another order than a first one, which is made now.

        What lies beside the rows would be of others already if they were read once, in any order.
        """
        super().keep_order()
        if self.rereadable:
            self.fingerprint()


class IterableSource(ChunkedRows):
    """Chunks from any iterable; read once if it is an iterator.

    Parameters
    ----------
    chunks : iterable
        Two-dimensional tables of the same columns.
    n_columns : int, optional
        Their number. By default that of the first chunk: then there must be one, which shows that
        the table has rows. So add/remove neighbours, who hide that, need it stated.

    """

    def __init__(self, chunks: Iterable[Any], n_columns: int | None = None) -> None:
        if n_columns is not None and n_columns < 1:
            raise InvalidParameterError("n_columns must be a positive number of columns")
        self._stream = iter(chunks)
        self.rereadable = iter(chunks) is not self._stream
        self._stated = n_columns is not None
        self._n_columns = n_columns
        self._chunks = chunks if self.rereadable else self._stream
        self._read = False
        self.readings = Readings() if self.rereadable else None

    @property
    def n_columns(self) -> int:  # type: ignore[override]
        """Number of columns, for which the first chunk is read where it is not stated.

        No `cached_property`: before Python 3.12 its lock is that of the class, and a chunk that
        does not come would keep every other table from being read.
        """
        if self._n_columns is None:
            self._n_columns = self._first_width()
        return self._n_columns

    def _first_width(self) -> int:
        try:
            first = as_table(next(self._stream))
        except StopIteration:
            raise InvalidDataError("the table has no rows") from None
        if not self.rereadable:
            self._chunks = itertools.chain([first], self._stream)
        return int(first.shape[1])

    @property
    def hides_count(self) -> bool:
        """Whether a table without rows would not have been refused."""
        return self._stated

    def chunks(self) -> Iterator[Any]:
        """Yield the chunks as they come; whoever sums them checks them."""
        if self._read and not self.rereadable:
            raise InvalidDataError("these rows were read already and cannot be read again")
        self._read = True
        _ = self.n_columns  # before the chunks, as it may put the first one back
        yield from self._chunks


def require_hidden_count(source: RowSource, adjacency: Adjacency) -> None:
    """Refuse a source that shows whether it has rows, where that is private."""
    if not (source.hides_count or adjacency.count_is_public):
        raise InvalidParameterError(
            "chunks without a stated number of columns show whether there are rows, which is "
            "private here: pass IterableSource(chunks, n_columns=d)"
        )


@runtime_checkable
class ForeignRows(Protocol):
    """An object of another library that can be read chunk by chunk."""

    @property
    def n_columns(self) -> int:
        """Number of columns; public."""
        ...

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns, where it has them; public."""
        ...

    @property
    def rereadable(self) -> bool:
        """Whether `chunks` may be called more than once."""
        ...

    def chunks(self) -> Iterator[Any]:
        """Yield two-dimensional arrays of rows."""
        ...


class ForeignSource(ChunkedRows):
    """Rows of an object that has the four members of `ForeignRows` and answers nothing else."""

    def __init__(self, rows: ForeignRows) -> None:
        self.n_columns = rows.n_columns
        self.feature_names = rows.feature_names
        self.rereadable = rows.rereadable
        self._rows = rows
        self.readings = Readings() if self.rereadable else None

    def chunks(self) -> Iterator[Any]:
        """Yield the chunks as they come; whoever sums them checks them."""
        return self._rows.chunks()
