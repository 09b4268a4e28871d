"""The first sheet of an Excel workbook, through openpyxl: names in its first row, records below."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eigenveil.data.sources.cells_source import CellsSource
from eigenveil.data.sources.columns import Reading
from eigenveil.data.sources.features import looks_like_number
from eigenveil.data.sources.headers import check_header
from eigenveil.data.sources.stored import StoredFile
from eigenveil.exceptions import InvalidDataError, MissingExtraError

__all__ = ["WorkbookSource"]

_SNIFFED_ROWS = 100  # to tell text from numbers
_MAX_BYTES = 1 << 30  # unpacked


class WorkbookSource(CellsSource):
    """A sheet, held in memory; a row of empty cells is no record, formulas count as values."""

    def __init__(self, path: Path, reading: Reading | None = None) -> None:
        names, records = _sheet(StoredFile(path))
        self._sniffed = records[:_SNIFFED_ROWS]
        self._names = names
        super().__init__(
            names,
            len(records),
            lambda name: [record[names.index(name)] for record in records],
            reading or Reading(),
            self._text_columns,
        )

    def refuse_text(self) -> None:
        """Refuse columns that hold no number in the first hundred rows, but something."""
        self._refuse(self._text_columns())

    def _text_columns(self) -> list[str]:
        columns = zip(*self._sniffed, strict=True)
        return [name for name, cells in zip(self._names, columns, strict=False) if _is_text(cells)]


def _is_text(cells: Sequence[Any]) -> bool:
    filled = [cell for cell in cells if not (cell is None or (isinstance(cell, str) and not cell))]
    return bool(filled) and not any(
        looks_like_number(cell.strip()) if isinstance(cell, str) else isinstance(cell, (int, float))
        for cell in filled
    )


def _sheet(file: StoredFile) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the names and the records of the first sheet."""
    try:
        import openpyxl
    except ImportError:
        raise MissingExtraError(
            "reading .xlsx needs openpyxl: pip install 'eigenveil[excel]'"
        ) from None
    with file.one_pass("is not a readable .xlsx workbook: save it anew, or as CSV"):
        with zipfile.ZipFile(file.path) as archive:
            if sum(member.file_size for member in archive.infolist()) > _MAX_BYTES:
                raise InvalidDataError(f"{file.name} is too large: save it as CSV or parquet")
        book = openpyxl.load_workbook(file.path, read_only=True, data_only=True)
        try:
            rows = [tuple(row) for row in book.worksheets[0].iter_rows(values_only=True)]
        finally:
            book.close()
    header, records = (rows[0], rows[1:]) if rows else ((), [])
    while header and header[-1] is None:
        header = header[:-1]
    check_header(["" if name is None else str(name) for name in header], file.name)
    names = ["" if name is None else str(name).strip() for name in header]
    width = len(names)
    padded = [(*record[:width], *(None,) * (width - len(record))) for record in records]
    return names, [record for record in padded if any(cell is not None for cell in record)]
