"""The first sheet of an Excel workbook, through openpyxl: names in its first row, records below."""

import itertools
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eigenveil.data.sources.asking import TextColumns
from eigenveil.data.sources.cells_source import CellsSource
from eigenveil.data.sources.columns import Reading
from eigenveil.data.sources.features import text_columns
from eigenveil.data.sources.headers import check_first_line, check_header
from eigenveil.data.sources.stored import StoredFile
from eigenveil.exceptions import InvalidDataError, MissingExtraError

__all__ = ["WorkbookSource"]

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
