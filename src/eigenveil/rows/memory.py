"""Rows in memory: arrays, sparse matrices, NumPy archives and chunks of an iterable.

scipy writes an entry to the place its index names, unchecked: an index beyond the last column lands
in the row of another record, or outside the array. So every index is checked before rows are read.
Entries at the same place are added, as everywhere in scipy; a row depends on its own entries alone.
"""

import itertools
import zipfile
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.rows.base import RowSource, Schema, chunk_rows, fingerprint
from eigenveil.rows.file_guard import Readings, StoredFile
from eigenveil.rows.frames import as_table, check_table


class ArraySource(RowSource):
    """An array in memory or memory-mapped; ``feature_names`` for one that has them."""

    def __init__(self, array: NDArray[Any], feature_names: tuple[str, ...] | None = None) -> None:
        self.array = as_table(array)
        self.n_columns = int(self.array.shape[1])
        self.schema = Schema(feature_names=feature_names)

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

    def __init__(self, rows: NDArray[Any], first: int) -> None:
        super().__init__(rows)
        self.schema = Schema(records=range(first, first + self.n_rows))

    @property
    def records(self) -> range:
        """Positions of the records."""
        assert self.schema.records is not None  # of a batch
        return self.schema.records

    def slice(self, start: int, stop: int) -> "Batch":
        """Return records ``start`` up to ``stop`` of the batch."""
        self._check_part(start, stop)
        return Batch(self.array[start:stop], self.records.start + start)

    @staticmethod
    def _check_part(start: int, stop: int) -> None:
        if not 0 <= start <= stop:  # counted from the end, they would get others' positions
            raise InvalidParameterError("part of a batch starts at 0 or later and ends after it")


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
        rows = _checked_rows(matrix)
        if not rows.dtype.isnative:  # of which scipy cuts no chunks
            data = rows.data.astype(rows.dtype.newbyteorder("="))
            rows = sparse.csr_matrix((data, rows.indices, rows.indptr), shape=rows.shape)
        self._rows = rows
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


_MAX_BYTES = 1 << 33  # unpacked: it is held in memory
_SPARSE = {"format", "shape", "data"}  # what scipy.sparse.save_npz writes, whatever the format
_UNREADABLE = "is not a readable .npz archive: write it again with np.savez or save_npz"


def open_npz(path: Path) -> RowSource:
    """Return the rows of the one table in an archive."""
    file = StoredFile(path)
    with file.one_pass(_UNREADABLE, header=True):
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > _MAX_BYTES:
                raise InvalidDataError(f"{file.name} is too large for memory: save it as .npy")
        with np.load(path, allow_pickle=False) as stored:
            names = set(stored.files)
            if names >= _SPARSE:
                return SparseSource(_parts({name: stored[name] for name in names}))
            if len(names) != 1:
                raise InvalidDataError(
                    f"{file.name} holds {len(names)} arrays: save the one table by itself"
                )
            (table,) = (stored[name] for name in names)
    return ArraySource(table)


def _parts(stored: dict[str, NDArray[Any]]) -> SimpleNamespace:
    """Return the parts of a sparse matrix as they are stored.

    scipy would make integers of indices of another type before anybody could look at them.
    """
    form, shape = stored["format"].item(), stored["shape"]
    if shape.dtype.kind not in "iu" or shape.ndim != 1:
        raise ValueError
    if "coords" in stored:
        stored["row"], stored["col"] = stored["coords"]
    return SimpleNamespace(
        **{name: stored[name] for name in stored.keys() - _SPARSE},
        format=form if isinstance(form, str) else form.decode("ascii"),
        shape=tuple(shape.tolist()),
        data=stored["data"],
        dtype=stored["data"].dtype,
    )


class ChunkedRows(RowSource):
    """Chunks that a caller makes, each time anew unless he can make them only once."""

    def keep_order(self) -> None:
        """Refuse readings in another order than a first one, which is made now.

        What lies beside the rows would be of others already if they were read once, in any order.
        """
        super().keep_order()
        if self.rereadable:
            fingerprint(self)


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
        # A table without rows would be refused, unless its width is stated.
        self.schema = Schema(hides_count=n_columns is not None)
        self._n_columns = n_columns
        self._chunks = chunks if self.rereadable else self._stream
        self._read = False
        self._readings = Readings() if self.rereadable else None

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

    def chunks(self) -> Iterator[Any]:
        """Yield the chunks as they come; whoever sums them checks them."""
        if self._read and not self.rereadable:
            raise InvalidDataError("these rows were read already and cannot be read again")
        self._read = True
        _ = self.n_columns  # before the chunks, as it may put the first one back
        yield from self._chunks


def require_hidden_count(source: RowSource, adjacency: Adjacency) -> None:
    """Refuse a source that shows whether it has rows, where that is private."""
    if not (source.schema.hides_count or adjacency.count_is_public):
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
        self.schema = Schema(feature_names=rows.feature_names)
        self.rereadable = rows.rereadable
        self._rows = rows
        self._readings = Readings() if self.rereadable else None

    def chunks(self) -> Iterator[Any]:
        """Yield the chunks as they come; whoever sums them checks them."""
        return self._rows.chunks()
