"""Where rows come from: arrays, memory-mapped files, CSV, parquet, any iterable of chunks.

A source yields two-dimensional chunks and keeps no more than one of them in memory.
"""

import csv
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TextIO, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from eigenveil.exceptions import (
    InvalidDataError,
    InvalidParameterError,
    MissingExtraError,
    UnsupportedNotionError,
)
from eigenveil.privacy.adjacency import Adjacency

__all__ = [
    "ArraySource",
    "CSVSource",
    "IterableSource",
    "PairedSource",
    "ParquetSource",
    "RowSource",
    "ScaledSource",
    "as_table",
    "is_streamed",
    "open_rows",
    "tables",
]

_CHUNK_BYTES = 1 << 24
_MOST = 1e300  # of a scaled entry
_CSV_LINES, _CSV_CELLS = 1 << 14, 1 << 20  # read at a time, whichever is less


@runtime_checkable
class RowSource(Protocol):
    """A table that can be read chunk by chunk."""

    @property
    def n_columns(self) -> int:
        """Number of columns; public."""
        ...

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns, where the source has them; public."""
        ...

    @property
    def rereadable(self) -> bool:
        """Whether `chunks` may be called more than once."""
        ...

    def chunks(self) -> Iterator[Any]:
        """Two-dimensional arrays of rows."""
        ...


def open_rows(data: Any, columns: Sequence[str] | None = None) -> RowSource:
    """The source for a table in memory, a ``.npy``, ``.csv`` or ``.parquet`` file, or chunks.

    An iterable without a length is taken for chunks; wrap a list of chunks in `IterableSource`.
    ``columns`` selects columns of a CSV or parquet file by name.
    """
    if isinstance(data, (str, Path)):
        return _open_file(Path(data), columns)
    if columns is not None:
        raise InvalidParameterError(
            "columns selects from a CSV or parquet file: slice arrays yourself"
        )
    if isinstance(data, RowSource):
        return data
    if isinstance(data, Iterable) and not hasattr(data, "__len__"):
        return IterableSource(data)
    return ArraySource(data)


def is_streamed(data: Any) -> bool:
    """Whether rows come chunk by chunk: a path, a source, or an iterable without a length."""
    return isinstance(data, (str, Path, RowSource)) or (
        isinstance(data, Iterable) and not hasattr(data, "__len__")
    )


def _open_file(path: Path, columns: Sequence[str] | None) -> RowSource:
    try:
        found = path.is_file()
    except OSError:
        found = False
    if not found:
        raise InvalidDataError(f"no file at {path}: check the path")
    match path.suffix.lower():
        case ".npy":
            if columns is not None:
                raise InvalidParameterError("a .npy file has no column names: slice it yourself")
            try:
                stored = np.load(path, mmap_mode="r", allow_pickle=False)
            except (ValueError, EOFError, OSError):
                raise InvalidDataError(f"{path.name} is not a readable .npy array") from None
            return ArraySource(stored)
        case ".csv":
            return CSVSource(path, columns)
        case ".parquet":
            return ParquetSource(path, columns)
    raise InvalidDataError(f"{path.name}: give a .npy, .csv or .parquet file")


def as_table(data: Any) -> NDArray[Any]:
    """A two-dimensional array of real numbers, or an error that shows no entry."""
    if issparse(data):
        raise InvalidDataError("sparse rows are not supported: pass a dense array, X.toarray()")
    try:
        array = _as_array(data)
    except MemoryError:
        raise
    except Exception:  # whatever numpy or a data frame raises may quote an entry
        array = np.empty(0, dtype=object)
    if array.dtype.kind == "c":
        raise InvalidDataError("Complex data not supported: rows must be real numbers")
    if array.dtype.kind not in "fiub":
        raise InvalidDataError(
            "rows must be numbers in a rectangular table: encode or drop text and date columns, "
            "and check that all rows have the same length"
        )
    if array.ndim != 2:
        raise InvalidDataError("rows must form a two-dimensional table. Reshape your data")
    if array.shape[1] == 0:
        raise InvalidDataError("the table has no columns")
    return array


def _as_array(data: Any) -> NDArray[Any]:
    """Missing entries of masked arrays and nullable frames become NaN."""
    if np.ma.isMaskedArray(data):
        return np.asarray(np.ma.filled(data.astype(np.float64), np.nan))
    array = np.asarray(data)
    if array.dtype.kind != "O":
        return array
    if any(getattr(dtype, "kind", "") in "mM" for dtype in getattr(data, "dtypes", ())):
        return array  # dates are objects, not numbers of nanoseconds
    if hasattr(data, "to_numpy"):
        return np.asarray(data.to_numpy(dtype=np.float64, na_value=np.nan))
    return array.astype(np.float64)


def tables(source: RowSource) -> Iterator[NDArray[Any]]:
    """The chunks of any source, each checked to be numbers of the right width."""
    for chunk in map(as_table, source.chunks()):
        if chunk.shape[1] != source.n_columns:
            raise InvalidDataError("every chunk must have the same number of columns")
        yield chunk


class ArraySource:
    """An array in memory or memory-mapped."""

    rereadable = True
    feature_names = None

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = as_table(array)

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.array.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows, without reading them."""
        return int(self.array.shape[0])

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Views of consecutive rows."""
        size = max(1, _CHUNK_BYTES // (8 * self.n_columns))
        for start in range(0, self.array.shape[0], size):
            yield self.array[start : start + size]


class IterableSource:
    """Chunks from any iterable; read once if it is an iterator."""

    feature_names = None

    def __init__(self, chunks: Iterable[Any]) -> None:
        stream = iter(chunks)
        self.rereadable = iter(chunks) is not stream
        try:
            first = as_table(next(stream))
        except StopIteration:
            raise InvalidDataError("the table has no rows") from None
        self.n_columns = int(first.shape[1])
        self._chunks = chunks if self.rereadable else itertools.chain([first], stream)
        self._read = False

    def chunks(self) -> Iterator[Any]:
        """The chunks as they come; whoever sums them checks them."""
        if self._read and not self.rereadable:
            raise InvalidDataError("these rows were read already and cannot be read again")
        self._read = True
        yield from self._chunks


class PairedSource:
    """Half differences of disjoint pairs of rows; of an odd number one row is left out.

    ``order`` gives a random order of so many rows, which decides who is paired with whom whatever
    the rows are; so replacing one row replaces one difference, and how the table is sorted does not
    matter. Adding one would pair all others anew: there is no such source for add/remove. The table
    is held in memory unless it is an array.
    """

    rereadable = True

    def __init__(
        self, source: RowSource, adjacency: Adjacency, order: Callable[[int], NDArray[np.intp]]
    ) -> None:
        if not adjacency.count_is_public:
            raise UnsupportedNotionError(
                "pairs of rows need a public number of rows: choose adjacency='replace-one', or "
                "another centring"
            )
        self.n_columns = source.n_columns
        self.feature_names = source.feature_names
        # Dividing differences is dividing rows, without a copy of the table.
        self._scaled = source.scaled if isinstance(source, ScaledSource) else None
        base = source.base if isinstance(source, ScaledSource) else source
        if not isinstance(base, ArraySource):
            base = ArraySource(np.concatenate([np.empty((0, base.n_columns)), *tables(base)]))
        self._rows = base.array
        self.unpaired = base.n_rows
        if self.unpaired < 2:
            raise InvalidDataError(
                "pairs of rows need two rows at least, not one sample: choose another centring"
            )
        half = self.unpaired // 2
        self._pairs = np.sort(order(self.unpaired)[: 2 * half].reshape(2, half), axis=0).T
        self._pairs = self._pairs[np.argsort(self._pairs[:, 0])]  # read in the order of memory

    def chunks(self) -> Iterator[NDArray[np.float64]]:
        """Differences in chunks; halved, so that none overflows."""
        size = max(1, _CHUNK_BYTES // (8 * self._rows.shape[1]))
        for start in range(0, len(self._pairs), size):
            first, second = self._pairs[start : start + size].T
            with np.errstate(all="ignore"):  # a warning would depend on the records
                difference = np.multiply(self._rows[first], 0.5, dtype=np.float64)
                difference -= np.multiply(self._rows[second], 0.5, dtype=np.float64)
            # A cell is missing where it is in either row, but not where one is infinite.
            lost = np.isnan(difference)
            if lost.any():
                lost &= np.isinf(self._rows[first]) | np.isinf(self._rows[second])
                difference[lost] = np.inf
            yield difference if self._scaled is None else self._scaled(difference)


class ScaledSource:
    """Columns divided by public or released scales; a column of infinite scale is left out."""

    def __init__(self, source: RowSource, scale: NDArray[np.float64]) -> None:
        self._kept = np.flatnonzero(np.isfinite(scale))
        self._scale = scale[self._kept]
        self.base = source
        self.n_columns = self._kept.size
        names = source.feature_names
        self.feature_names = None if names is None else tuple(names[j] for j in self._kept)
        self.rereadable = source.rereadable

    def scaled(self, chunk: NDArray[Any]) -> NDArray[np.float64]:
        """Rows of ``base``, with the columns that are kept divided by their scales."""
        kept = chunk if self.n_columns == chunk.shape[1] else chunk[:, self._kept]
        rows = kept.astype(np.float64)
        with np.errstate(all="ignore"):  # a warning would depend on the records
            scaled = rows / self._scale
        # Only what was not finite before may be so now: a row of numbers stops no run.
        np.clip(scaled, -_MOST, _MOST, out=scaled, where=np.isfinite(rows))
        return np.asarray(scaled)

    def chunks(self) -> Iterator[NDArray[np.float64]]:
        """Scaled chunks."""
        return map(self.scaled, tables(self.base))


class CSVSource:
    """A comma-separated file with a header line; constant memory."""

    rereadable = True

    def __init__(self, path: Path, columns: Sequence[str] | None = None) -> None:
        self._path = path
        try:
            with self._open() as lines:
                header = next(csv.reader(lines), [])
        except (OSError, csv.Error):
            raise InvalidDataError(f"{path.name} is not a readable CSV file") from None
        if any("\ufffd" in name for name in header):
            raise InvalidDataError(f"{path.name} is not in UTF-8: save it so")
        if not header or not all(math.isnan(_number(name)) for name in header):
            raise InvalidDataError(f"{path.name} needs a first line with the names of its columns")
        self._width = len(header)
        self.feature_names = _select(header, columns)
        self._positions = [header.index(name) for name in self.feature_names]

    @property
    def n_columns(self) -> int:
        """Number of selected columns."""
        return len(self.feature_names)

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Parse a fixed number of lines at a time."""
        size = max(1, min(_CSV_LINES, _CSV_CELLS // self._width))
        with self._open() as lines:
            records = csv.reader(lines)
            next(records, None)
            try:
                while batch := list(itertools.islice(records, size)):
                    if self._width > 1:  # a blank line is no record, unless records are one cell
                        batch = [record for record in batch if record]
                    yield np.array([self._row(record) for record in batch]).reshape(
                        -1, self.n_columns
                    )
            except csv.Error:  # its message could quote a cell
                raise InvalidDataError(f"{self._path.name} is not a readable CSV file") from None

    def _open(self) -> TextIO:
        """A stray byte is the affair of its row: it becomes a character that is no number."""
        return self._path.open(newline="", encoding="utf-8-sig", errors="replace")

    def _row(self, record: list[str]) -> list[float]:
        """Numbers; a cell that is none, and every cell of an uneven line, becomes NaN.

        What happens to such a row is the clip's decision, so that it depends on this record
        alone. (An unbalanced quote makes one record of the lines after it.)
        """
        if len(record) != self._width:
            return [math.nan] * self.n_columns
        return [_number(record[i]) for i in self._positions]


class ParquetSource:
    """Row groups of a parquet file, through pyarrow."""

    rereadable = True

    def __init__(self, path: Path, columns: Sequence[str] | None = None) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise MissingExtraError(
                "reading parquet needs pyarrow: pip install 'eigenveil[parquet]'"
            ) from None
        self._path = path
        self._errors = (pyarrow.ArrowException, OSError, ValueError)
        try:
            schema = pyarrow.parquet.read_schema(path)
        except self._errors:
            raise InvalidDataError(f"{path.name} is not a readable parquet file") from None
        # An index that pandas stored as a column is no feature.
        index = (schema.pandas_metadata or {}).get("index_columns", [])
        self.feature_names = _select(
            [name for name in schema.names if name not in index or name in (columns or ())], columns
        )
        if not self.feature_names:
            raise InvalidDataError(f"{path.name} has no columns")
        types = pyarrow.types
        for name in self.feature_names:
            kind = schema.field(name).type
            if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
                raise InvalidDataError(
                    f"column {name!r} does not hold numbers: choose others with "
                    "open_rows(path, columns=[...])"
                )

    @property
    def n_columns(self) -> int:
        """Number of selected columns."""
        return len(self.feature_names)

    @property
    def n_rows(self) -> int:
        """Number of rows, as the file says."""
        import pyarrow.parquet

        return int(pyarrow.parquet.read_metadata(self._path).num_rows)

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Batches inside each row group; a missing value becomes NaN."""
        import pyarrow.parquet

        size = max(1, _CHUNK_BYTES // (8 * self.n_columns))
        try:
            # A small read buffer: a file of one row group would otherwise be held as a whole.
            with pyarrow.parquet.ParquetFile(
                self._path, buffer_size=1 << 20, pre_buffer=False
            ) as file:
                for batch in file.iter_batches(size, columns=list(self.feature_names)):
                    # Columns lie apart: copy them into rows so that products are contiguous.
                    rows = np.empty((batch.num_rows, self.n_columns))
                    for j, name in enumerate(self.feature_names):
                        rows[:, j] = batch.column(name).to_numpy(zero_copy_only=False)
                    yield rows
        except self._errors:
            raise InvalidDataError(f"{self._path.name} is damaged or truncated") from None


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


def _select(available: Sequence[str], columns: Sequence[str] | None) -> tuple[str, ...]:
    if len(set(available)) < len(available):
        raise InvalidDataError("two columns have the same name: rename one")
    if columns is None:
        columns = available
        if "" in columns:
            raise InvalidDataError(
                "a column has no name; if it is a row index, choose the others with "
                "open_rows(path, columns=[...])"
            )
    elif not columns:
        raise InvalidParameterError("columns is empty: name at least one")
    for name in columns:
        if name not in available:
            raise InvalidParameterError(f"no column {name!r}: choose from {', '.join(available)}")
    return tuple(columns)
