"""Sparse matrices of scipy, made dense a chunk at a time: memory stays that of the matrix.

scipy writes an entry to the place its index names, unchecked: an index beyond the last column lands
in the row of another record, or outside the array. So every index is checked before rows are read.
Entries at the same place are added, as everywhere in scipy; a row depends on its own entries alone.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from eigenveil.data.sources.base import RowSource, chunk_rows
from eigenveil.data.sources.tables import check_table
from eigenveil.exceptions import InvalidDataError

__all__ = ["SparseSource"]

_MAX_ROWS, _MAX_COLUMNS = 1 << 30, 1 << 27  # 8 GiB where rows start, and 1 GiB in a dense row
_INDEX_TYPES = (np.dtype(np.int32), np.dtype(np.int64))


class SparseSource(RowSource):
    """Rows of a sparse matrix, such as categories that are encoded already."""

    def __init__(self, matrix: Any) -> None:
        check_table(matrix.dtype, matrix.shape)
        if matrix.shape[0] > _MAX_ROWS or matrix.shape[1] > _MAX_COLUMNS:
            raise InvalidDataError(
                "the sparse matrix is too large for memory: choose fewer of its columns or rows"
            )
        self._rows = _checked_rows(matrix)
        self.n_columns = int(self._rows.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self._rows.shape[0])

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Yield consecutive rows, each chunk in memory of its own."""
        size = chunk_rows(self.n_columns)
        for start in range(0, self.n_rows, size):
            yield np.asarray(self._rows[start : start + size].toarray())

    def rows_at(self, places: NDArray[np.intp]) -> NDArray[Any]:
        """Return the rows at these places."""
        return np.asarray(self._rows[places].toarray())


def _checked_rows(matrix: Any) -> Any:
    """Return the matrix in compressed rows; refuse one with an index outside its shape."""
    try:
        match matrix.format:
            case "csr" | "csc" | "bsr":
                _check_compressed(matrix)
                # Made anew, so that what scipy noted of the indices before is not relied on.
                arrays = (matrix.data, matrix.indices, matrix.indptr)
                container = getattr(sparse, f"{matrix.format}_matrix")
                rows = container(arrays, shape=matrix.shape).tocsr()
            case "lil":
                rows = _from_entries(*_listed_entries(matrix), matrix.shape)
            case "dia":
                rows = _from_entries(*_diagonal_entries(matrix), matrix.shape)
            case "coo":
                rows = _from_entries(matrix.row, matrix.col, matrix.data, matrix.shape)
            case _:
                entries = matrix.tocoo()
                rows = _from_entries(entries.row, entries.col, entries.data, matrix.shape)
    except MemoryError:
        raise
    except Exception:  # whatever numpy or scipy raise may quote an entry
        raise InvalidDataError(
            "the sparse matrix has an index outside its shape, or arrays that do not fit together: "
            "make it again, and check it with check_format(full_check=True)"
        ) from None
    check_table(rows.dtype, rows.shape)
    return rows


def _check_compressed(matrix: Any) -> None:
    """Check the indices of compressed rows, columns or blocks."""
    height, width = matrix.data.shape[1:] if matrix.format == "bsr" else (1, 1)
    if matrix.shape[0] % height or matrix.shape[1] % width:
        raise ValueError
    rows, columns = matrix.shape[0] // height, matrix.shape[1] // width
    lines, most = (columns, rows) if matrix.format == "csc" else (rows, columns)
    starts = matrix.indptr
    if starts.dtype not in _INDEX_TYPES or starts.shape != (lines + 1,):
        raise ValueError
    if starts[0] != 0 or (starts[1:] < starts[:-1]).any():
        raise ValueError
    if starts[-1] > min(len(matrix.indices), len(matrix.data)):
        raise ValueError
    _check_places(matrix.indices[: starts[-1]], most)


def _check_places(places: NDArray[Any], most: int) -> None:
    if places.dtype not in _INDEX_TYPES or places.ndim != 1:
        raise ValueError
    if places.size and not 0 <= places.min() <= places.max() < most:
        raise ValueError


def _from_entries(
    rows: NDArray[Any], columns: NDArray[Any], data: NDArray[Any], shape: tuple[int, int]
) -> Any:
    """Return compressed rows of single entries."""
    _check_places(rows, shape[0])
    _check_places(columns, shape[1])
    if not rows.shape == columns.shape == data.shape:
        raise ValueError
    return sparse.coo_matrix((data, (rows, columns)), shape=shape).tocsr()


def _listed_entries(matrix: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the entries of a matrix whose rows are lists; scipy would not compare lengths."""
    lengths = [len(places) for places in matrix.rows]
    if lengths != [len(entries) for entries in matrix.data] or len(lengths) != matrix.shape[0]:
        raise ValueError
    columns = np.fromiter(chain.from_iterable(matrix.rows), np.int64, sum(lengths))
    data = np.fromiter(chain.from_iterable(matrix.data), matrix.dtype, sum(lengths))
    return np.repeat(np.arange(len(lengths)), lengths), columns, data


def _diagonal_entries(matrix: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the entries of a matrix of diagonals, of which some may begin or end outside."""
    offsets, data = matrix.offsets.astype(np.int64), matrix.data
    if (
        matrix.offsets.dtype not in _INDEX_TYPES
        or data.ndim != 2
        or offsets.shape != data.shape[:1]
    ):
        raise ValueError
    columns = np.broadcast_to(np.arange(data.shape[1]), data.shape)
    rows = columns - offsets[:, None]
    inside = (rows >= 0) & (rows < matrix.shape[0]) & (columns < matrix.shape[1])
    return rows[inside], columns[inside], data[inside]
