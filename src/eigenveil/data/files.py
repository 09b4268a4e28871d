"""Rows of files: CSV and parquet, a batch at a time, and the column that says whose they are."""

import csv
import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.headers import are_positions, check_header, check_names
from eigenveil.data.stored import StoredFile, changed
from eigenveil.exceptions import InvalidDataError, InvalidParameterError, MissingExtraError
from eigenveil.text import printable

__all__ = [
    "CSVSource",
    "ParquetSource",
    "holds_numbers",
    "open_csv",
    "parquet_schema",
    "read_records",
]

_BATCH_BYTES = 1 << 22  # of parquet, beside pages of every column
_DAMAGED = "is damaged or truncated"
_CSV_LINES, _CSV_CELLS = 1 << 14, 1 << 20  # read at a time, whichever is less
_CSV_BLOCK = 1 << 20  # characters, looked through for NULs at a time


class CSVSource:
    """A comma-separated file with a header line; constant memory.

    A record is a line. A cell that runs over a line break would make one record of several, and
    change their number without a word: it is refused.
    """

    rereadable = True

    def __init__(
        self, path: Path, columns: Sequence[str] | None = None, unit: str | None = None
    ) -> None:
        self._file = StoredFile(path)
        self._begin(self._file.name, columns, unit)

    def _begin(self, name: str, columns: Sequence[str] | None, unit: str | None) -> None:
        """Read the first line."""
        self._name = name
        self._rows_read: int | None = None  # by the first full pass
        with self._opened() as lines:
            (header,) = next(read_records(lines, name, 1), [[]])
        check_header(header, name)
        self._width = len(header)
        self.feature_names = _select(header, columns, unit)
        self._positions = [header.index(name) for name in self.feature_names]
        self._label = None if unit is None else header.index(unit)

    @property
    def n_columns(self) -> int:
        """Number of selected columns."""
        return len(self.feature_names)

    @property
    def n_rows(self) -> int:
        """Number of records, counted once without parsing their cells."""
        if self._rows_read is None:
            return sum(map(len, self._batches()))
        return self._rows_read

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Parse a fixed number of lines at a time."""
        return map(self._rows, self._batches())

    def labels(self) -> Iterator[list[Hashable]]:
        """Whose rows they are, without the rows; empty text where a record does not say."""
        return map(self._labels, self._batches())

    def labelled_chunks(self) -> Iterator[tuple[NDArray[Any], list[Hashable]]]:
        """Rows, and whose they are."""
        return ((self._rows(batch), self._labels(batch)) for batch in self._batches())

    def _batches(self) -> Iterator[list[list[str]]]:
        size = max(1, min(_CSV_LINES, _CSV_CELLS // self._width))
        read, header = 0, 1
        with self._opened() as lines:
            for batch in read_records(lines, self._name, size):
                batch = batch[header:]
                if self._width > 1:  # a blank line is no record, unless records are one cell
                    batch = [record for record in batch if record]
                read, header = read + len(batch), 0
                yield batch
        if self._rows_read is None:
            self._rows_read = read
        if read != self._rows_read:
            raise changed()

    def _opened(self) -> AbstractContextManager[TextIO]:
        return open_csv(self._file)

    def _rows(self, batch: list[list[str]]) -> NDArray[Any]:
        return np.array([self._row(record) for record in batch]).reshape(-1, self.n_columns)

    def _labels(self, batch: list[list[str]]) -> list[Hashable]:
        """An uneven line does not say."""
        label = self._label
        assert label is not None  # a unit was named
        return [record[label] if len(record) == self._width else "" for record in batch]

    def _row(self, record: list[str]) -> list[float]:
        """Numbers; a cell that is none, and every cell of an uneven line, becomes NaN.

        What happens to such a row is the clip's decision, so that it depends on this record
        alone.
        """
        if len(record) != self._width:
            return [math.nan] * self.n_columns
        return [_number(record[i]) for i in self._positions]


@contextmanager
def open_csv(file: StoredFile) -> Iterator[TextIO]:
    """A stray byte is the affair of its row: it becomes a character that is no number."""
    with (
        file.one_pass("is not a readable CSV file"),
        file.path.open(newline="", encoding="utf-8-sig", errors="replace") as lines,
    ):
        yield lines


def read_records(lines: TextIO, file: str, size: int) -> Iterator[list[list[str]]]:
    """Yield the records of a CSV file, ``size`` at a time; refuse any that is not one line."""
    reader = csv.reader(itertools.chain.from_iterable(_blocks(lines)), strict=True)
    read = 0
    try:
        while batch := list(itertools.islice(reader, size)):
            read += len(batch)
            if reader.line_num != read:  # a cell runs over a line break
                raise csv.Error
            yield batch
    except csv.Error:  # its message could quote a cell
        raise InvalidDataError(
            f"{file} has a line that is not one record, line {_first_damaged(lines)}: remove "
            "stray quotes, line breaks and NUL bytes, or save the table as parquet"
        ) from None


def _blocks(lines: TextIO) -> Iterator[list[str]]:
    """Lines, many at a time; a NUL is left by a damaged disk, and no one knows in place of what."""
    while block := lines.readlines(_CSV_BLOCK):
        if "\0" in "".join(block):
            raise csv.Error
        yield block


def _first_damaged(lines: TextIO) -> int:
    """Return the number of the line on which the first record starts that is not one line."""
    lines.seek(0)
    reader = csv.reader(lines, strict=True)
    line = 1
    with suppress(csv.Error):
        for record in reader:
            if reader.line_num > line or any("\0" in cell for cell in record):
                break
            line += 1
    return line


class ParquetSource:
    """Row groups of a parquet file, through pyarrow."""

    rereadable = True

    def __init__(
        self, path: Path, columns: Sequence[str] | None = None, unit: str | None = None
    ) -> None:
        self._file = StoredFile(path)
        schema = parquet_schema(self._file)
        self.n_rows = schema.n_rows
        self._label = unit
        self.feature_names = _select(
            [
                name
                for name in schema.fields.names
                if name not in schema.index_names or name in (*(columns or ()), unit)
            ],
            columns,
            unit,
        )
        if not self.feature_names:
            raise InvalidDataError(f"{self._file.name} has no columns")
        for name in self.feature_names:
            if not holds_numbers(schema.fields.field(name).type):
                raise InvalidDataError(
                    f"column {name!r} does not hold numbers: choose others with "
                    "open_rows(path, columns=[...])"
                )
        if unit is not None and not _tells_apart(schema.fields.field(unit).type):
            raise InvalidDataError(
                f"column {unit!r} cannot tell persons apart: store it as text or whole numbers"
            )

    @property
    def n_columns(self) -> int:
        """Number of selected columns."""
        return len(self.feature_names)

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Batches inside each row group; a missing value becomes NaN."""
        return map(self._rows, self._batches(self.feature_names))

    def labels(self) -> Iterator[list[Hashable]]:
        """Whose rows they are, without the rows; None where a record does not say."""
        return map(self._labels, self._batches((self._label,)))

    def labelled_chunks(self) -> Iterator[tuple[NDArray[Any], list[Hashable]]]:
        """Rows, and whose they are."""
        batches = self._batches((*self.feature_names, self._label))
        return ((self._rows(batch), self._labels(batch)) for batch in batches)

    def _rows(self, batch: Any) -> NDArray[np.float64]:
        # Columns lie apart: copy them into rows so that products are contiguous.
        rows = np.empty((batch.num_rows, self.n_columns))
        for j, name in enumerate(self.feature_names):
            rows[:, j] = batch.column(name).to_numpy(zero_copy_only=False)
        return rows

    def _labels(self, batch: Any) -> list[Hashable]:
        return list(batch.column(self._label).to_pylist())

    def _batches(self, columns: Sequence[str | None]) -> Iterator[Any]:
        import pyarrow.parquet

        size = max(1, _BATCH_BYTES // (8 * self.n_columns))
        read = 0
        # A small read buffer, one for each column: a file of one row group would otherwise be
        # held as a whole.
        with (
            self._file.one_pass(_DAMAGED),
            pyarrow.parquet.ParquetFile(
                self._file.path, buffer_size=1 << 16, pre_buffer=False
            ) as file,
        ):
            for batch in file.iter_batches(size, columns=list(columns)):
                read += batch.num_rows
                yield batch
        if read != self.n_rows:
            raise InvalidDataError(f"{self._file.name} {_DAMAGED}")


class ParquetSchema(NamedTuple):
    """What a parquet file says of itself."""

    fields: Any  # a pyarrow.Schema
    index_names: list[Any]  # columns in which pandas stored an index: they are no features
    n_rows: int


def parquet_schema(file: StoredFile) -> ParquetSchema:
    """Read names, types and number of rows; refuse names that may be a first record."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(
            "reading parquet needs pyarrow: pip install 'eigenveil[parquet]'"
        ) from None
    with file.one_pass("is not a readable parquet file"):
        stored = pyarrow.parquet.read_metadata(file.path)
        groups = [stored.row_group(i).num_rows for i in range(stored.num_row_groups)]
        fields = stored.schema.to_arrow_schema()
        noted = fields.pandas_metadata or {}
        index = list(noted.get("index_columns") or [])
        names = (name for name in fields.names if name not in index)
        check_names(names, file.name, numbered=are_positions(noted))
    if sum(groups) != stored.num_rows or min(groups, default=0) < 0:
        raise InvalidDataError(f"{file.name} {_DAMAGED}")
    return ParquetSchema(fields, index, stored.num_rows)


def holds_numbers(kind: Any) -> bool:
    """Whether a column of this type of pyarrow may be a feature."""
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _tells_apart(kind: Any) -> bool:
    """Whether values of this type of pyarrow may be ids."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    known = (types.is_integer, types.is_string, types.is_large_string, types.is_floating)
    return any(is_kind(kind) for is_kind in known)


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


def _select(
    available: Sequence[str], columns: Sequence[str] | None, unit: str | None
) -> tuple[str, ...]:
    if len(set(available)) < len(available):
        raise InvalidDataError("two columns have the same name: rename one")
    if unit is not None and unit not in available:
        raise InvalidDataError(f"no column {unit!r}: choose from {_listed(available)}")
    if unit is not None and columns is not None and unit in columns:
        raise InvalidParameterError(
            f"{unit!r} says whose row it is and is no feature: leave it out of columns"
        )
    available = [name for name in available if name != unit]
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
            raise InvalidDataError(f"no column {name!r}: choose from {_listed(available)}")
    if len(set(columns)) < len(columns):
        raise InvalidParameterError("columns names one column twice: name each once")
    return tuple(columns)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(printable, names))
