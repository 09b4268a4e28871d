"""A table or a stream, read once, in batches of consecutive records."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.gram import public_rows
from eigenveil.data.matrices import MatrixBatch, MatrixSource
from eigenveil.data.source import (
    ArraySource,
    Batch,
    RowSource,
    ShuffledBatch,
    ShuffledSource,
    protected,
    tables,
)
from eigenveil.exceptions import UnsupportedNotionError
from eigenveil.privacy.adjacency import ROW, Adjacency, Unit

__all__ = ["Batches", "Records", "check_batches", "count_records"]

Records = Batch | MatrixBatch


class _Chunk(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, rows: slice) -> Any: ...


def check_batches(unit: Unit, adjacency: Adjacency) -> None:
    """Refuse neighbours that differ in more than one batch."""
    if not adjacency.count_is_public:  # a further record would move all others
        raise UnsupportedNotionError(
            "batches are taken by position, which a further row would change: use "
            "adjacency='replace-one'"
        )
    if unit.owns_many:
        raise UnsupportedNotionError(
            "the rows of one person may fall into several batches: leave groups and unit out, or "
            "choose a mechanism that reads whole tables"
        )


def count_records(source: RowSource | MatrixSource) -> int:
    """Of a source that can be read again; public under replace-one."""
    if isinstance(source, MatrixSource):
        return sum(len(chunk) for chunk in source.chunks())
    return public_rows(source)


class Batches:
    """Records in their order, as many at a time as are asked for; each is handed out once."""

    def __init__(self, source: RowSource | MatrixSource, adjacency: Adjacency) -> None:
        unit = ROW if isinstance(source, MatrixSource) else protected(source)
        check_batches(unit, adjacency)
        self._of_rows = not isinstance(source, MatrixSource)
        # Whoever makes chunks may fill the same memory again: a record would be handed out twice.
        self._stays = isinstance(source, (ArraySource, ShuffledSource))
        chunks: Iterator[_Chunk]
        if isinstance(source, MatrixSource):
            chunks = source.chunks()
        elif isinstance(source, ArraySource):
            chunks = iter((source.array,))  # of which batches are views: nothing is copied
        elif isinstance(source, ShuffledSource):
            chunks = iter((source,))  # gathered when they are read
        else:
            chunks = tables(source)
        self._chunks = (chunk for chunk in chunks if len(chunk))
        self._chunk: _Chunk | None = next(self._chunks, None)
        self._offset = 0  # in the chunk
        self.position = 0  # records handed out so far

    def take(self, size: int) -> Records | None:
        """The next ``size`` records, fewer at the end, None after it."""
        taken: list[Any] = []
        count = 0
        while self._chunk is not None and count < size:
            some = self._chunk[self._offset : self._offset + size - count]
            taken.append(np.array(some) if self._of_rows and not self._stays else some)
            count += len(some)
            self._offset += len(some)
            if self._offset == len(self._chunk):
                self._chunk, self._offset = next(self._chunks, None), 0
        if not taken:
            return None
        first, self.position = self.position, self.position + count
        if isinstance(taken[0], ShuffledSource):
            return ShuffledBatch(taken[0], first)  # all of it is one chunk
        if self._of_rows:
            return Batch(taken[0] if len(taken) == 1 else _stacked(taken), first)
        return MatrixBatch(taken, first)


def _stacked(parts: list[NDArray[Any]]) -> NDArray[Any]:
    with np.errstate(all="ignore"):  # a warning would depend on the records
        return np.concatenate(parts)
