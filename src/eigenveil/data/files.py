"""Rows of files: CSV and parquet, a batch at a time, and the column that says whose they are."""

import csv
import itertools
import math
import unicodedata
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidDataError, InvalidParameterError, MissingExtraError
from eigenveil.text import printable

__all__ = ["CSVSource", "ParquetSource", "check_header"]

_BATCH_BYTES = 1 << 22  # of parquet, beside pages of every column
_CSV_LINES, _CSV_CELLS = 1 << 14, 1 << 20  # read at a time, whichever is less


class CSVSource:
    """A comma-separated file with a header line; constant memory."""

    rereadable = True

    def __init__(
        self, path: Path, columns: Sequence[str] | None = None, unit: str | None = None
    ) -> None:
        self._path = path
        try:
            with self._open() as lines:
                header = next(csv.reader(lines), [])
        except (OSError, csv.Error):
            raise InvalidDataError(f"{path.name} is not a readable CSV file") from None
        check_header(header, path.name)
        self._width = len(header)
        self.feature_names = _select(header, columns, unit)
        self._positions = [header.index(name) for name in self.feature_names]
        self._label = None if unit is None else header.index(unit)

    @property
    def n_columns(self) -> int:
        """Number of selected columns."""
        return len(self.feature_names)

    @cached_property
    def n_rows(self) -> int:
        """Number of records, counted once without parsing their cells."""
        return sum(map(len, self._batches()))

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
        with self._open() as lines:
            records = csv.reader(lines)
            next(records, None)
            try:
                while batch := list(itertools.islice(records, size)):
                    if self._width > 1:  # a blank line is no record, unless records are one cell
                        batch = [record for record in batch if record]
                    yield batch
            except csv.Error:  # its message could quote a cell
                raise InvalidDataError(f"{self._path.name} is not a readable CSV file") from None

    def _open(self) -> TextIO:
        """A stray byte is the affair of its row: it becomes a character that is no number."""
        return self._path.open(newline="", encoding="utf-8-sig", errors="replace")

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
        alone. (An unbalanced quote makes one record of the lines after it.)
        """
        if len(record) != self._width:
            return [math.nan] * self.n_columns
        return [_number(record[i]) for i in self._positions]


class ParquetSource:
    """Row groups of a parquet file, through pyarrow."""

    rereadable = True

    def __init__(
        self, path: Path, columns: Sequence[str] | None = None, unit: str | None = None
    ) -> None:
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
        self._label = unit
        self.feature_names = _select(
            [
                name
                for name in schema.names
                if name not in index or name in (*(columns or ()), unit)
            ],
            columns,
            unit,
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
        if unit is not None:
            kind = schema.field(unit).type
            kind = kind.value_type if types.is_dictionary(kind) else kind
            known = (types.is_integer, types.is_string, types.is_large_string, types.is_floating)
            if not any(is_kind(kind) for is_kind in known):
                raise InvalidDataError(
                    f"column {unit!r} cannot tell persons apart: store it as text or whole numbers"
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
        try:
            # A small read buffer, one for each column: a file of one row group would otherwise be
            # held as a whole.
            with pyarrow.parquet.ParquetFile(
                self._path, buffer_size=1 << 16, pre_buffer=False
            ) as file:
                yield from file.iter_batches(size, columns=list(columns))
        except self._errors:
            raise InvalidDataError(f"{self._path.name} is damaged or truncated") from None


def check_header(header: Sequence[str], file: str) -> None:
    """Refuse a first line that may be a record, and quote none of it.

    Whatever passes is taken for public names and shown in messages.
    """
    if any("\ufffd" in name for name in header):
        raise InvalidDataError(f"{file} is not in UTF-8: save it so")
    # An unbalanced quote makes one name of many lines.
    if (
        any(unicodedata.category(character) == "Cc" for name in header for character in name)
        or (header and all(";" in name for name in header))
        or (len(header) == 1 and "|" in header[0])
    ):
        raise InvalidDataError(
            f"{file} is not comma-separated with a first line of names: save it so"
        )
    if not header or any(map(_is_value, header)):
        raise InvalidDataError(f"{file} needs a first line with the names of its columns")


def _is_value(cell: str) -> bool:
    """A number, a date, a telephone number: digits and no letter."""
    if not math.isnan(_number(cell)):
        return True
    return any(map(str.isdigit, cell)) and not any(map(str.isalpha, cell))


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
