"""Rows of parquet files, a batch at a time, and the column that says whose they are."""

import itertools
from collections.abc import Hashable, Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidDataError, MissingExtraError
from eigenveil.rows.base import RowSource
from eigenveil.rows.cells import ColumnRows
from eigenveil.rows.column_names import are_positions, check_names
from eigenveil.rows.columns import Reading
from eigenveil.rows.features import level_of
from eigenveil.rows.file_guard import Readings, StoredFile

_BATCH_BYTES = 1 << 22  # of numbers, besides pages of every column
_DAMAGED = "is damaged or truncated: copy or write it again"


class ParquetSource(ColumnRows):
    """Row groups of a parquet file, or of several that are one table, through pyarrow.

    Parameters
    ----------
    files : path, or list of StoredFile
        One file, or several with the same columns, whose rows follow one another.
    reading : Reading, optional
        What becomes of the columns.

    """

    def __init__(self, files: Path | Sequence[StoredFile], reading: Reading | None = None) -> None:
        stored = [StoredFile(files)] if isinstance(files, Path) else list(files)
        self._name = stored[0].name
        self._readings = Readings()
        reading = reading or Reading()
        schema, *others = map(parquet_schema, stored)
        for file, other in zip(stored[1:], others, strict=True):
            if _columns(other) != _columns(schema):
                raise InvalidDataError(
                    f"{file.name} has other columns than {self._name}: give them as two tables"
                )
        self._groups = [
            _Group(file, i, rows)
            for file, each in zip(stored, (schema, *others), strict=True)
            for i, rows in enumerate(each.groups)
        ]
        unit = self._label = reading.unit
        named = (*(reading.columns or ()), unit)
        hidden = {name for name in schema.index_names if isinstance(name, str)} - {*named}
        fields = [name for name in schema.fields.names if name not in hidden]
        kinds = dict(zip(schema.fields.names, schema.fields.types, strict=True))
        self._numeric = {name for name in fields if holds_numbers(kinds[name])}
        text = dict.fromkeys(name for name in fields if name not in self._numeric)
        if not fields:
            raise InvalidDataError(f"{self._name} has no columns")
        self._take(reading.select(fields, wordy=lambda: text), reading, schema.fields.names)
        self._refuse(text)
        if unit is not None and not _tells_apart(schema.fields.field(unit).type):
            raise InvalidDataError(
                f"column {unit!r} cannot tell persons apart: store it as text or whole numbers"
            )

    @property
    def n_rows(self) -> int:
        """Number of rows that the files state."""
        return sum(group.rows for group in self._groups)

    def parts(self) -> "list[RowSource]":
        """Return a source for each row group, which other machines that see the files may read."""
        return [self._of_group(group) for group in self._groups]

    def _of_group(self, group: "_Group") -> "ParquetSource":
        part = copy(self)
        part._groups = [group._replace(file=group.file.elsewhere())]
        part._readings = Readings()
        return part

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Yield batches inside each row group; a missing value becomes NaN."""
        return map(self._rows, self._batches(self._columns.names))

    def labels(self) -> Iterator[list[Hashable]]:
        """Yield whose rows they are, without the rows; None where a record does not say."""
        return map(self._labels, self._batches((self._label,)))

    def labelled_chunks(self) -> Iterator[tuple[NDArray[Any], list[Hashable]]]:
        """Yield rows, and whose they are."""
        batches = self._batches((*self._columns.names, self._label))
        return ((self._rows(batch), self._labels(batch)) for batch in batches)

    def labelled_levels(self, column: str) -> Iterator[tuple[list[str | None], list[Hashable]]]:
        """Yield the level of each row in a column, and its label; no labels without a unit."""
        wanted = (column,) if self._label is None else (column, self._label)
        for batch in self._batches(wanted):
            levels = [level_of(cell) for cell in batch.column(column).to_pylist()]
            yield levels, [] if self._label is None else self._labels(batch)

    def _rows(self, batch: Any) -> NDArray[np.float64]:
        # Columns lie apart: copy them into rows so that products are contiguous.
        if self._are_plain:
            rows = np.empty((batch.num_rows, self.n_columns))
            for j, name in enumerate(self._columns.titles):
                rows[:, j] = batch.column(name).to_numpy(zero_copy_only=False)
            return rows
        return self._columns.rows(lambda name: self._cells(batch.column(name), name))

    def _cells(self, column: Any, name: str) -> Any:
        if name in self._numeric and name not in self._reading.encode:
            return column.to_numpy(zero_copy_only=False).astype(np.float64)
        return column.to_pylist()

    def _labels(self, batch: Any) -> list[Hashable]:
        return list(batch.column(self._label).to_pylist())

    def _batches(self, columns: Sequence[str | None]) -> Iterator[Any]:
        import pyarrow.parquet

        size = max(1, _BATCH_BYTES // (8 * max(1, self.n_columns)))
        for file, some in itertools.groupby(self._groups, lambda group: group.file):
            groups = list(some)
            read = 0
            # A small read buffer, one for each column: a file of one row group would otherwise be
            # held as a whole.
            with (
                file.one_pass(_DAMAGED),
                file.opened() as opened,
                pyarrow.parquet.ParquetFile(
                    opened, buffer_size=1 << 16, pre_buffer=False
                ) as stored,
            ):
                numbers = [group.number for group in groups]
                for batch in stored.iter_batches(size, numbers, columns=list(columns)):
                    read += batch.num_rows
                    yield batch
            if read != sum(group.rows for group in groups):
                raise InvalidDataError(f"{file.name} {_DAMAGED}")


class _Group(NamedTuple):
    """A row group."""

    file: StoredFile
    number: int  # in the file
    rows: int


class ParquetSchema(NamedTuple):
    """What a parquet file says of itself."""

    fields: Any  # a pyarrow.Schema
    index_names: list[Any]  # columns in which pandas stored an index: they are no features
    groups: list[int]  # number of rows of each row group


def _columns(schema: ParquetSchema) -> list[tuple[str, str]]:
    """Return names and types of the columns."""
    return [(field.name, str(field.type)) for field in schema.fields]


def parquet_schema(file: StoredFile) -> ParquetSchema:
    """Read names, types and number of rows; refuse names that may be a first record."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError(
            "reading parquet needs pyarrow: pip install 'eigenveil[parquet]'"
        ) from None
    with file.one_pass("is not a readable parquet file"), file.opened() as opened:
        stored = pyarrow.parquet.read_metadata(opened)
        groups = [stored.row_group(i).num_rows for i in range(stored.num_row_groups)]
        fields = stored.schema.to_arrow_schema()
        noted = fields.pandas_metadata or {}
        index = list(noted.get("index_columns") or [])
        names = (name for name in fields.names if name not in index)
        check_names(names, file.name, numbered=are_positions(noted))
    if sum(groups) != stored.num_rows or min(groups, default=0) < 0:
        raise InvalidDataError(f"{file.name} {_DAMAGED}")
    return ParquetSchema(fields, index, groups)


def holds_numbers(kind: Any) -> bool:
    """Return whether a column of this type of pyarrow may be a feature."""
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _tells_apart(kind: Any) -> bool:
    """Return whether values of this type of pyarrow may be ids."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    known = (types.is_integer, types.is_string, types.is_large_string, types.is_floating)
    return any(is_kind(kind) for is_kind in known)
