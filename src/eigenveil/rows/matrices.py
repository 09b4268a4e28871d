"""Records that are symmetric matrices, of which only products with a few columns are needed."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.rows.base import RowSource, Schema, Units


@runtime_checkable
class MatrixChunk(Protocol):
    """Some symmetric matrices A_i, however they are stored.

    They must stay as they are, and no product may depend on the other matrices.
    """

    def __len__(self) -> int:
        """Return the number of matrices."""
        ...

    def __getitem__(self, which: slice) -> "MatrixChunk":
        """Return some of the matrices."""
        ...

    def times(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the products with the columns of a (d, k) array: (len, d, k)."""
        ...


class _Dense:
    """Matrices as an array of shape (m, d, d), of which the symmetric part counts."""

    def __init__(self, array: NDArray[np.float64]) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, which: slice) -> "_Dense":
        return _Dense(self._array[which])

    def times(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        one, other = self._array @ columns, self._array.transpose(0, 2, 1) @ columns
        return np.asarray(one / 2 + other / 2)


class MatrixSource(RowSource):
    """Symmetric matrices, one for each record: arrays of shape (m, d, d), or `MatrixChunk`.

    Parameters
    ----------
    chunks : iterable
        Read once if it is an iterator.
    n_columns : int
        Size d of the matrices; public.

    """

    schema = Schema(holds_matrices=True)

    def __init__(self, chunks: Iterable[Any], n_columns: int) -> None:
        self.n_columns = n_columns
        stream = iter(chunks)
        self.rereadable = iter(chunks) is not stream
        self._chunks = chunks if self.rereadable else stream
        self._read = False

    def in_random_order(self) -> "MatrixSource":
        """Return the matrices as they come: they are not held in memory."""
        return self

    def chunks(self) -> Iterator[MatrixChunk]:
        """Yield the matrices, checked for their shape."""
        if self._read and not self.rereadable:
            raise InvalidDataError("these matrices were read already and cannot be read again")
        self._read = True
        for chunk in self._chunks:
            yield chunk if isinstance(chunk, MatrixChunk) else _Dense(self._matrices(chunk))

    def _matrices(self, chunk: Any) -> NDArray[np.float64]:
        try:
            with np.errstate(all="ignore"):
                array = np.array(chunk, dtype=np.float64)  # the caller may use his again
        except (TypeError, ValueError):
            array = np.empty(0)
        if array.ndim != 3 or array.shape[1:] != (self.n_columns, self.n_columns):
            d = self.n_columns
            raise InvalidDataError(f"matrices must come as arrays of shape (m, {d}, {d})")
        return array


class MatrixBatch:
    """Matrices of consecutive records."""

    holds_matrices: ClassVar[Literal[True]] = True

    def __init__(self, parts: Sequence[MatrixChunk], first: int) -> None:
        self._parts = parts
        self.units = Units()
        self.schema = Schema(records=range(first, first + sum(map(len, parts))))

    @property
    def records(self) -> range:
        """Positions of the records."""
        assert self.schema.records is not None  # of a batch
        return self.schema.records

    def products(
        self, columns: NDArray[np.float64], at_a_time: int
    ) -> Iterator[NDArray[np.float64]]:
        """Yield A_i times the columns, (m, d, k), some at a time."""
        for part in self._parts:
            for start in range(0, len(part), at_a_time):
                yield part[start : start + at_a_time].times(columns)

    def slice(self, start: int, stop: int) -> "MatrixBatch":
        """Return records ``start`` up to ``stop`` of the batch."""
        if not 0 <= start <= stop:  # counted from the end, they would get others' positions
            raise InvalidParameterError("part of a batch starts at 0 or later and ends after it")
        parts, seen = [], 0
        for part in self._parts:
            some = part[max(0, start - seen) : max(0, stop - seen)]
            seen += len(part)
            if len(some):
                parts.append(some)
        return MatrixBatch(parts, self.records.start + start)
