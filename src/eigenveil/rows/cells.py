"""Tables in memory with cells of any kind: data frames and Excel workbooks."""

import itertools
import warnings
import zipfile
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidDataError, MissingExtraError
from eigenveil.rows import frames
from eigenveil.rows.base import Schema, chunk_rows
from eigenveil.rows.column_names import TextColumns, ask_about, check_first_line, check_header
from eigenveil.rows.columns import Columns, Reading
from eigenveil.rows.features import Numbers, level_of, text_columns
from eigenveil.rows.file_guard import Readings, StoredFile
from eigenveil.rows.memory import ArraySource
from eigenveil.rows.units import LabelledRows


class ColumnRows(LabelledRows):
    """A table whose columns become features as a `Reading` says."""

    def _take(self, columns: Columns, reading: Reading, table: Sequence[str]) -> None:
        """Set what follows from the columns that are taken, of all those of a table."""
        self._columns = columns
        self._reading = reading
        self.schema = Schema(
            feature_names=columns.titles,
            encoding=columns.encoding,
            remarks=columns.remarks,
            table_columns=tuple(table),
            undecided=columns.undecided,
        )
        self.n_columns = len(columns.titles)
        self._are_plain = all(feature == Numbers() for _, feature in columns.features)

    def decided(self, levels: Mapping[str, Sequence[str]]) -> Self:
        """Return the same table, with these levels for undecided columns."""
        other = copy(self)
        other._readings = None if self._readings is None else Readings()
        other._take(self._columns.decided(levels), self._reading, self.schema.table_columns)
        if other.n_columns == 0:
            raise InvalidDataError("no column is left: no level of a category is known")
        return other

    def _refuse(self, text: TextColumns) -> None:
        """Refuse those of the columns of text that are taken as numbers or dates."""
        if undated := [n for n in self._reading.undated(text) if n in self._columns.names]:
            raise InvalidDataError(
                f"column {undated[0]!r} holds no dates such as 2024-01-31 or 31.1.2024: rewrite it "
                "in one of these forms, or leave it out"
            )
        names, unread = self._columns.names, self._reading.unexplained(text)
        wordy = {name: unread[name] for name in names if name in unread}
        others = [name for name in names if name not in wordy]
        ask_about([], wordy, others, named=self._reading.columns is not None)


class CellsSource(ColumnRows):
    """Named columns of cells in memory.

    Parameters
    ----------
    names : sequence of str
        The columns.
    n_rows : int
        Number of rows.
    cells : function
        Gives the cells of a column by its name.
    reading : Reading
        What becomes of them.
    text : function
        Gives the columns that hold text or dates.

    """

    def __init__(
        self,
        names: Sequence[str],
        n_rows: int,
        cells: Callable[[str], Sequence[Any]],
        reading: Reading,
        text: Callable[[], TextColumns],
    ) -> None:
        self._n_rows = n_rows
        self._cells = cells
        self._take(reading.select(names, wordy=text), reading, names)

    def decided(self, levels: Mapping[str, Sequence[str]]) -> Self:
        """Return the same table, with these levels for undecided columns."""
        other = super().decided(levels)
        other.__dict__.pop("_table", None)
        return other

    @cached_property
    def _table(self) -> ArraySource:
        return ArraySource(self._columns.rows(self._cells), self.schema.feature_names)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._n_rows

    @property
    def in_memory(self) -> ArraySource:
        """The features, as an array."""
        return self._table

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Yield views of consecutive rows."""
        return self._table.chunks()

    def whole(self) -> NDArray[Any]:
        """Return all rows as one array."""
        return self._table.whole()

    def rows_at(self, places: NDArray[np.intp]) -> NDArray[Any]:
        """Return the rows at these places."""
        return self._table.rows_at(places)

    def labels(self) -> Iterator[list[Hashable]]:
        """Yield whose rows they are."""
        assert self._reading.unit is not None  # one was named
        yield list(self._cells(self._reading.unit))

    def labelled_chunks(self) -> Iterator[tuple[NDArray[Any], list[Hashable]]]:
        """Yield rows, and whose they are."""
        (labels,) = self.labels()
        size = chunk_rows(self.n_columns)
        for i, rows in enumerate(self.chunks()):
            yield rows, labels[i * size : i * size + len(rows)]

    def labelled_levels(self, column: str) -> Iterator[tuple[list[str | None], list[Hashable]]]:
        """Yield the level of each row in a column, and its label; no labels without a unit."""
        (labels,) = ([],) if self._reading.unit is None else self.labels()
        yield [level_of(cell) for cell in self._cells(column)], labels


def frame_rows(frame: Any, reading: Reading) -> CellsSource:
    """Return the rows of a data frame; which columns hold text is said by their types."""
    columns = frames.names(frame)
    if columns is None:
        raise InvalidDataError("the columns of this frame have no names: name them by text first")
    text = frames.text_columns(frame)
    source = CellsSource(columns, len(frame), frames.cells(frame), reading, lambda: text)
    source._refuse(text)
    return source


_SNIFFED_ROWS = 100  # to tell text from numbers
_MAX_BYTES = 1 << 30  # unpacked
_SAVE_ANEW = "save it anew, or as CSV"
_UNREADABLE = f"is not a readable .xlsx workbook: {_SAVE_ANEW}"


class WorkbookSource(CellsSource):
    """A sheet, held in memory; a row of empty cells is no record, formulas count as values."""

    def __init__(self, path: Path, reading: Reading | None = None) -> None:
        file = StoredFile(path)
        names, records = _sheet(file)
        self._reading = reading = reading or Reading()
        self._sniffed = records[:_SNIFFED_ROWS]
        self._names = names
        places = {name: place for place, name in enumerate(names)}
        super().__init__(
            names,
            len(records),
            lambda name: [record[places[name]] for record in records],
            reading,
            self._text_columns,
        )
        if not reading.names_columns:
            check_first_line(names, itertools.chain.from_iterable(self._sniffed), file.name)

    def refuse_text(self) -> None:
        """Refuse columns that hold no number in the first hundred rows, but something."""
        self._refuse(self._text_columns())

    def _text_columns(self) -> TextColumns:
        columns = zip(*self._sniffed, strict=True)
        cells = dict(zip(self._names, columns, strict=False))
        reading = self._reading
        return text_columns(cells, reading.decimal, reading.as_number, reading.encode)


def _sheet(file: StoredFile) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the names and the records of the first sheet."""
    try:
        import openpyxl
    except ImportError:
        raise MissingExtraError(
            "reading .xlsx needs openpyxl: pip install 'eigenveil[excel]'"
        ) from None
    with file.one_pass(_UNREADABLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one may quote a cell
        with zipfile.ZipFile(file.path) as archive:
            if sum(member.file_size for member in archive.infolist()) > _MAX_BYTES:
                raise InvalidDataError(f"{file.name} is too large: save it as CSV or parquet")
        book = openpyxl.load_workbook(file.path, read_only=True, data_only=True)
        try:
            sheet = book.worksheets[0]
            if sheet.sheet_state != "visible":
                raise InvalidDataError(
                    f"the first sheet of {file.name} is hidden: unhide it, or save the table as a "
                    "workbook of its own"
                )
            rows = dict(_rows(sheet))
        finally:
            book.close()
    header = rows.pop(1, {})
    records = [record for record in rows.values() if record]
    width = max(header, default=0)
    names = ["" if header.get(j) is None else str(header[j]) for j in range(1, width + 1)]
    check_header(names, file.name)
    if any(max(record) > width for record in records):
        raise InvalidDataError(
            f"{file.name} has cells right of its last column name: name every column, or delete "
            "what stands there"
        )
    cells = [tuple(record.get(j) for j in range(1, width + 1)) for record in records]
    return [name.strip() for name in names], cells


def _rows(sheet: Any) -> Iterator[tuple[int, dict[int, Any]]]:
    """Yield the number of each row, and its filled cells by the number of their column.

    openpyxl's own rows end where the file says that the sheet does, and leave out what does not
    stand in order.
    """
    from openpyxl.worksheet._reader import WorkSheetParser

    book, above = sheet.parent, 0
    with sheet._get_source() as source:
        parser = WorkSheetParser(
            source,
            sheet._shared_strings,
            data_only=True,
            epoch=book.epoch,
            date_formats=book._date_formats,
            timedelta_formats=book._timedelta_formats,
        )
        for number, row in parser.parse():
            columns = [cell["column"] for cell in row]
            if number <= above or columns != sorted(set(columns)):
                raise InvalidDataError(f"a sheet has rows or cells out of order: {_SAVE_ANEW}")
            if any(cell["row"] != number for cell in row):
                raise InvalidDataError(f"a sheet has cells outside their row: {_SAVE_ANEW}")
            above = number
            cells = {cell["column"]: cell["value"] for cell in row}
            yield number, {place: cell for place, cell in cells.items() if cell is not None}
