"""Sparse matrices of scipy, made dense a chunk at a time: memory stays that of the matrix."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.sources.base import RowSource, chunk_rows
from eigenveil.data.sources.tables import check_table

__all__ = ["SparseSource"]


class SparseSource(RowSource):
    """Rows of a sparse matrix, such as categories that are encoded already."""

    def __init__(self, matrix: Any) -> None:
        check_table(matrix.dtype, matrix.shape)
        self._rows = matrix.tocsr()
        self.n_columns = int(matrix.shape[1])

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
