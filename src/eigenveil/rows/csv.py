"""Rows of CSV files, some lines at a time, and the column that identifies their owners.

It gives the same numbers as Python's ``float``, or none: whatever it does not take for a table of
numbers of the right width is left to the strict reader, line by line.

Cells are separated by what separates the names in the first line: commas, semicolons or tabs. Where
it is no comma, 1,5 is a number as well as 1.5, and 1,000 is none until the decimal mark is stated.
"""

import csv
import gzip
import io
import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidDataError
from eigenveil.rows.cells import ColumnRows
from eigenveil.rows.column_names import TextColumns, check_encoding, check_first_line, check_header
from eigenveil.rows.columns import Reading
from eigenveil.rows.features import level_of, number, text_columns
from eigenveil.rows.file_guard import Readings, StoredFile, changed


class PlainLines(NamedTuple):
    """A parser of plain lines; all of it is public.

    Attributes
    ----------
    width : int
        Number of cells of a line.
    positions : tuple of int
        Which of them are features.
    separator : str
        What stands between two cells.

    """

    width: int
    positions: tuple[int, ...]
    separator: str = ","

    def rows(self, text: str) -> NDArray[np.float64] | None:
        """Return the numbers of whole lines, blank ones left out; None if they are not plain."""
        if '"' in text or "\0" in text or not text:
            return None
        if text.startswith("\ufeff"):  # which pyarrow would skip at the start of any block
            return None
        if text.count("\r") != text.count("\r\n"):
            return None
        data = text.encode()
        if self._has_odd_lines(data):
            return None
        import pyarrow
        import pyarrow.csv

        names = [str(i) for i in range(self.width)]
        wanted = [names[i] for i in self.positions]
        try:
            table = pyarrow.csv.read_csv(
                pyarrow.BufferReader(data),
                read_options=pyarrow.csv.ReadOptions(
                    column_names=names, use_threads=False, block_size=len(data) + 1
                ),
                parse_options=pyarrow.csv.ParseOptions(delimiter=self.separator, quote_char=False),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(wanted, pyarrow.float64()),
                    include_columns=wanted,
                    null_values=[""],
                ),
            )
        except pyarrow.ArrowInvalid:  # its message may quote a cell
            return None
        return _stacked(table, wanted)

    def _has_odd_lines(self, data: bytes) -> bool:
        """Return whether a line is longer than a cell may be, or blank where that is a record."""
        ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
        lengths = np.diff(ends, prepend=-1, append=len(data))
        if lengths.max() > csv.field_size_limit():
            return True
        return self.width == 1 and bool((lengths[:-1] <= 2).any()) and _has_blank(data)


def _has_blank(data: bytes) -> bool:
    return any(not line.strip(b"\r\n") for line in data.splitlines())


def _stacked(table: Any, names: Sequence[str]) -> NDArray[np.float64]:
    rows = np.empty((table.num_rows, len(names)))
    for j, name in enumerate(names):
        rows[:, j] = table.column(name).to_numpy()
    return rows


def plain_reader(width: int, positions: Sequence[int], separator: str = ",") -> PlainLines | None:
    """Return a parser of plain lines; None where pyarrow is not installed."""
    try:
        import pyarrow.csv  # noqa: F401
    except ImportError:
        return None
    return PlainLines(width, tuple(positions), separator)


_MAX_LINES, _MAX_CELLS = 1 << 14, 1 << 20  # read at a time, whichever is less
_MAX_KEPT_BYTES = 1 << 28  # of numbers that are parsed once only
_BLOCK_CHARACTERS = 1 << 20  # looked through for NULs at a time
_SNIFFED_LINES = 100  # to tell text from numbers
_SEPARATORS = (",", ";", "\t")


class CSVSource(ColumnRows):
    """A file of lines with a header, one record each; compressed if its name ends in ``.gz``.

    Up to 256 MiB of numbers are kept once they are parsed, which takes longer than all else; of
    more, one chunk at a time. A record is a line. A cell that runs over a line break would make
    one record of several, and change their number without a word: it is refused.
    """

    def __init__(self, path: Path, reading: Reading | None = None) -> None:
        self._file = StoredFile(path)
        self._begin(self._file.name, reading or Reading())

    def _begin(self, name: str, reading: Reading) -> None:
        """Read the first line."""
        self._name = name
        self._reading = reading
        self._rows_read: int | None = None  # by the first full pass
        self._readings = Readings()
        self._parsed: list[NDArray[Any]] | None = None
        with self._opened() as lines:
            self._comma_is_free = separator(lines) != ","
            (header,) = next(read_records(lines, name, 1), [[]])
        check_header(header, name)
        self._header = header
        self._width = len(header)
        chosen = reading.select(header, wordy=self._text_columns, comma_is_free=self._comma_is_free)
        if not reading.names_columns:
            check_first_line(header, itertools.chain.from_iterable(self._first_records()), name)
        self._take(chosen, reading, header)
        self._places = {name: place for place, name in enumerate(header)}
        self._positions = [self._places[name] for name in chosen.names]
        self._label = None if reading.unit is None else self._places[reading.unit]

    def decided(self, levels: Mapping[str, Sequence[str]]) -> "CSVSource":
        """Return the same file, with these levels for undecided columns."""
        other = super().decided(levels)
        other._parsed = None
        return other

    def refuse_text(self) -> None:
        """Refuse columns that hold no number in the first hundred lines, but something."""
        self._refuse(self._text_columns())

    def _first_records(self) -> list[list[str]]:
        """Return the first hundred records, but for uneven lines."""
        with self._opened() as lines:
            _, *records = next(read_records(lines, self._name, _SNIFFED_LINES + 1), [[]])
        return [record for record in records if len(record) == self._width]

    def _text_columns(self) -> TextColumns:
        """Return the columns of which the first hundred lines hold text."""
        whole = self._first_records()
        cells = {n: [record[j] for record in whole] for j, n in enumerate(self._header)}
        decimal = self._reading.decimal_where(self._comma_is_free)
        return text_columns(cells, decimal, self._reading.as_number, self._reading.encode)

    @property
    def n_rows(self) -> int | None:
        """Number of records; None before the first full pass."""
        return self._rows_read

    def count_rows(self) -> int:
        """Return the number of records; of a large file without parsing their cells."""
        known = self.n_rows
        if known is not None:
            return known
        return sum(map(len, self._watched() if self._is_small else self._read()))

    @property
    def _is_small(self) -> bool:
        """Whether its numbers will be kept, as text takes as much room as they do."""
        return self._file.size <= _MAX_KEPT_BYTES

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Yield the rows of a fixed number of lines at a time."""
        if self._parsed is not None:
            yield from self._parsed
            return
        kept: list[NDArray[Any]] | None = []
        size = 0
        for rows in self._read():
            size += rows.nbytes
            if size > _MAX_KEPT_BYTES:
                kept = None
            if kept is not None:
                kept.append(rows)
            yield rows
        self._parsed = kept

    def _read(self) -> Iterator[NDArray[Any]]:
        """Yield rows, many lines at a time: plain ones at once, all others record by record."""
        plain = plain_reader(self._width, self._positions) if self._are_plain else None
        with self._opened() as lines:
            if plain is None or not lines.readline().endswith("\n"):
                yield from map(self._rows, self._batches())
                return
            read = 0
            while block := lines.readlines(_BLOCK_CHARACTERS):
                rows = plain.rows("".join(block))
                if rows is None:
                    rows = self._rows(self._records(block))
                read += len(rows)
                yield rows
        self._note(read)

    def _records(self, block: list[str]) -> list[list[str]]:
        """Return the records of some lines; of damaged ones the whole file tells where they are."""
        try:
            records = list(csv.reader(_sound(block, "\r"), strict=True))
        except csv.Error:
            records = []
        if len(records) != len(block):  # a cell runs over a line break
            for _ in self._batches():
                pass
            raise changed()
        return self._without_blanks(records)

    def _without_blanks(self, records: list[list[str]]) -> list[list[str]]:
        """Return records without blank lines; where records are one cell, such a line is one."""
        if self._width > 1:
            return [record for record in records if record]
        return [record or [""] for record in records]

    def _note(self, read: int) -> None:
        """Refuse a pass over another number of records than the first one."""
        if self._rows_read is None:
            self._rows_read = read
        if read != self._rows_read:
            raise changed()

    def labelled_levels(self, column: str) -> Iterator[tuple[list[str | None], list[Hashable]]]:
        """Yield the level of each record in a column, and its label; no labels without a unit."""
        for batch in self._batches():
            levels = [level_of(cell) for cell in self._cells(batch, self._places[column])]
            yield levels, [] if self._label is None else self._labels(batch)

    def labels(self) -> Iterator[list[Hashable]]:
        """Yield whose rows they are, without the rows; empty text where a record does not say."""
        return map(self._labels, self._batches())

    def labelled_chunks(self) -> Iterator[tuple[NDArray[Any], list[Hashable]]]:
        """Yield rows, and whose they are."""
        return ((self._rows(batch), self._labels(batch)) for batch in self._batches())

    def _batches(self) -> Iterator[list[list[str]]]:
        size = max(1, min(_MAX_LINES, _MAX_CELLS // self._width))
        read, header = 0, 1
        with self._opened() as lines:
            for batch in read_records(lines, self._name, size):
                batch = self._without_blanks(batch[header:])
                read, header = read + len(batch), 0
                yield batch
        self._note(read)

    def _opened(self) -> AbstractContextManager[TextIO]:
        return open_csv(self._file, self._reading.encoding)

    def _rows(self, batch: list[list[str]]) -> NDArray[Any]:
        if self._are_plain:
            return np.array([self._row(record) for record in batch]).reshape(-1, self.n_columns)
        rows = self._columns.rows(lambda name: self._cells(batch, self._places[name]))
        rows[[len(record) != self._width for record in batch]] = math.inf
        return rows

    def _cells(self, batch: list[list[str]], position: int) -> list[str]:
        """Return the cells of a column; that of an uneven line is empty."""
        return [record[position] if len(record) == self._width else "" for record in batch]

    def _labels(self, batch: list[list[str]]) -> list[Hashable]:
        """Return whose the records are; an uneven line does not say."""
        assert self._label is not None  # a unit was named
        return list(self._cells(batch, self._label))

    def _row(self, record: list[str]) -> list[float]:
        """Return numbers; a cell that is none becomes NaN.

        An uneven line is no row with missing values: every cell of it is infinite. What happens to
        such a row is the clip's decision, so that it depends on this record alone.
        """
        if len(record) != self._width:
            return [math.inf] * self.n_columns
        return [number(record[i]) for i in self._positions]


@contextmanager
def open_csv(file: StoredFile, encoding: str = "utf-8") -> Iterator[TextIO]:
    """Open a CSV file; a stray byte becomes a character that is no number, in its row alone."""
    if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        encoding = "utf-8-sig"  # with a mark in front or without
    with (
        file.one_pass("is not a readable CSV file"),
        file.path.open("rb") as stored,
        gzip.open(stored) if is_gzip(file.path) else nullcontext(stored) as unpacked,
        io.TextIOWrapper(unpacked, encoding, errors="replace", newline="") as lines,
    ):
        yield lines


def is_gzip(path: Path) -> bool:
    """Return whether a file is compressed, by its name."""
    return path.suffix.lower() == ".gz"


def separator(lines: TextIO) -> str:
    """Return what separates the names in the first line: that which makes most of them."""
    first = lines.readline(_BLOCK_CHARACTERS)
    lines.seek(0)
    try:
        counts = [len(next(csv.reader([first], delimiter=each), ())) for each in _SEPARATORS]
    except csv.Error:  # which whoever reads the lines will find
        return ","
    return _SEPARATORS[counts.index(max(counts))]


def read_records(lines: TextIO, file: str, size: int) -> Iterator[list[list[str]]]:
    """Yield the records of a CSV file, ``size`` at a time; refuse any that is not one line."""
    between = separator(lines)
    reader = csv.reader(
        itertools.chain.from_iterable(_blocks(lines)), delimiter=between, strict=True
    )
    read = 0
    try:
        while batch := list(itertools.islice(reader, size)):
            read += len(batch)
            if reader.line_num != read:  # a cell runs over a line break
                raise csv.Error
            yield batch
    except csv.Error:  # its message could quote a cell
        lines.seek(0)
        check_encoding(lines.read(5), file)  # as two bytes a character have NULs everywhere
        line = _first_damaged(lines, between)
        raise InvalidDataError(
            f"{file} has a line that is not one record, line {line}: remove stray quotes, "
            "line breaks and NUL bytes, or save the table as parquet"
        ) from None


def _blocks(lines: TextIO, characters: int = _BLOCK_CHARACTERS) -> Iterator[list[str]]:
    """Yield lines, many at a time; refuse what a cell cannot hold.

    A NUL stands where a damaged disk lost something. A carriage return alone ends a line only if
    it ends the first one: inside a cell it would make two records of one.
    """
    other = ""  # the end that no line may have
    while block := lines.readlines(characters):
        other = other or ("\n" if block[0].endswith("\r") else "\r")
        yield _sound(block, other)


def _sound(block: list[str], other: str) -> list[str]:
    """Return lines as they are; refuse a NUL, and a line that ends in ``other``."""
    text = "".join(block)
    if "\0" in text or (other in text and any(line.endswith(other) for line in block)):
        raise csv.Error
    return block


def _first_damaged(lines: TextIO, between: str) -> int:
    """Return the number of the line on which the first record starts that is not one line."""
    lines.seek(0)
    reader = csv.reader(
        itertools.chain.from_iterable(_blocks(lines, 1)), delimiter=between, strict=True
    )
    line = 1
    with suppress(csv.Error):
        for _ in reader:
            if reader.line_num > line:
                break
            line += 1
    return line
