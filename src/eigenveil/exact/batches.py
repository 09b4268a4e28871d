"""A table or a stream, read once, in batches of consecutive records."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.gram import public_rows
from eigenveil.exceptions import UnsupportedNotionError
from eigenveil.messages import REPLACE_ONE, SINGLE_ROWS
from eigenveil.privacy.adjacency import Adjacency, Unit
from eigenveil.rows.base import RowSource, tables
from eigenveil.rows.matrices import MatrixBatch
from eigenveil.rows.memory import Batch

Records = Batch | MatrixBatch


class _Chunk(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, rows: slice) -> Any: ...


def check_batches(unit: Unit, adjacency: Adjacency) -> None:
    """Refuse neighbours that differ in more than one batch."""
    if not adjacency.count_is_public:  # a further record would move all others
        raise UnsupportedNotionError(
            "batches are taken by position, which a further row would change: use ", REPLACE_ONE
        )
    if unit.owns_many:
        raise UnsupportedNotionError(
            "the rows of one person may fall into several batches: ",
            SINGLE_ROWS,
            ", or choose a mechanism that reads whole tables",
        )


def count_records(source: RowSource) -> int:
    """Return the number of records of a source that can be read again; public under replace-one."""
    if source.schema.holds_matrices:
        return sum(len(chunk) for chunk in source.chunks())
    return public_rows(source)


class Batches:
    """Records in their order, as many at a time as are asked for; each is handed out once."""

    def __init__(self, source: RowSource, adjacency: Adjacency) -> None:
        check_batches(source.units.protects, adjacency)
        self._held = source.in_memory
        self._holds_matrices = source.schema.holds_matrices
        self.position = 0  # records handed out so far
        if self._held is None:
            chunks: Iterator[_Chunk]
            chunks = source.chunks() if source.schema.holds_matrices else tables(source)
            self._chunks = (chunk for chunk in chunks if len(chunk))
            self._chunk: _Chunk | None = next(self._chunks, None)
            self._offset = 0  # in the chunk

    def take(self, size: int) -> Records | None:
        """Return the next ``size`` records, fewer at the end, None after it."""
        first = self.position
        if self._held is not None:
            self.position = min(first + size, self._held.n_rows)
            held: Batch = self._held.batch(first, self.position)
            return held if len(held.records) else None
        taken = list(self._read(size))
        if not taken:
            return None
        self.position += sum(map(len, taken))
        if self._holds_matrices:
            return MatrixBatch(taken, first)
        return Batch(taken[0] if len(taken) == 1 else _stacked(taken), first)

    def _read(self, size: int) -> Iterator[Any]:
        """Yield parts of chunks that hold the next ``size`` records."""
        while self._chunk is not None and size > 0:
            some = self._chunk[self._offset : self._offset + size]
            # Whoever makes chunks may fill the same memory again: a record would be handed out
            # twice. Matrices stay as they are.
            yield some if self._holds_matrices else np.array(some)
            size -= len(some)
            self._offset += len(some)
            if self._offset == len(self._chunk):
                self._chunk, self._offset = next(self._chunks, None), 0


def _stacked(parts: list[NDArray[Any]]) -> NDArray[Any]:
    with np.errstate(all="ignore"):  # a warning would depend on the records
        return np.concatenate(parts)
