"""Rows of CSV files, some lines at a time, and the column that says whose they are."""

import csv
import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.sources.headers import check_encoding, check_header, select_columns
from eigenveil.data.sources.plain_csv import plain_reader
from eigenveil.data.sources.stored import StoredFile, changed
from eigenveil.data.sources.units import LabelledRows
from eigenveil.exceptions import InvalidDataError

__all__ = ["CSVSource", "open_csv", "read_records"]

_MAX_LINES, _MAX_CELLS = 1 << 14, 1 << 20  # read at a time, whichever is less
_MAX_KEPT_BYTES = 1 << 28  # of numbers that are parsed once only
_BLOCK_CHARACTERS = 1 << 20  # looked through for NULs at a time


class CSVSource(LabelledRows):
    """A comma-separated file with a header line.

    Up to 256 MiB of numbers are kept once they are parsed, which takes longer than all else; of
    more, one chunk at a time. A record is a line. A cell that runs over a line break would make
    one record of several, and change their number without a word: it is refused.
    """

    feature_names: tuple[str, ...]

    def __init__(
        self, path: Path, columns: Sequence[str] | None = None, unit: str | None = None
    ) -> None:
        self._file = StoredFile(path)
        self._begin(self._file.name, columns, unit)

    def _begin(self, name: str, columns: Sequence[str] | None, unit: str | None) -> None:
        """Read the first line."""
        self._name = name
        self._rows_read: int | None = None  # by the first full pass
        self._parsed: list[NDArray[Any]] | None = None
        with self._opened() as lines:
            (header,) = next(read_records(lines, name, 1), [[]])
        check_header(header, name)
        self._width = len(header)
        self.feature_names = select_columns(header, columns, unit)
        self.n_columns = len(self.feature_names)
        self._positions = [header.index(name) for name in self.feature_names]
        self._label = None if unit is None else header.index(unit)

    @property
    def n_rows(self) -> int | None:
        """Number of records; None before the first full pass."""
        return self._rows_read

    def count_rows(self) -> int:
        """Return the number of records; of a large file without parsing their cells."""
        known = self.n_rows
        if known is not None:
            return known
        return sum(map(len, self.chunks() if self._is_small else self._read()))

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
        plain = plain_reader(self._width, self._positions)
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
        """A blank line is no record, unless records are one cell."""
        return [record for record in records if record] if self._width > 1 else records

    def _note(self, read: int) -> None:
        """Refuse a pass over another number of records than the first one."""
        if self._rows_read is None:
            self._rows_read = read
        if read != self._rows_read:
            raise changed()

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
        return open_csv(self._file)

    def _rows(self, batch: list[list[str]]) -> NDArray[Any]:
        return np.array([self._row(record) for record in batch]).reshape(-1, self.n_columns)

    def _labels(self, batch: list[list[str]]) -> list[Hashable]:
        """Return whose the records are; an uneven line does not say."""
        label = self._label
        assert label is not None  # a unit was named
        return [record[label] if len(record) == self._width else "" for record in batch]

    def _row(self, record: list[str]) -> list[float]:
        """Return numbers; a cell that is none, and every cell of an uneven line, becomes NaN.

        What happens to such a row is the clip's decision, so that it depends on this record
        alone.
        """
        if len(record) != self._width:
            return [math.nan] * self.n_columns
        return [_number(record[i]) for i in self._positions]


@contextmanager
def open_csv(file: StoredFile) -> Iterator[TextIO]:
    """Open a CSV file; a stray byte becomes a character that is no number, in its row alone."""
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
        lines.seek(0)
        check_encoding(lines.read(1), file)  # as two bytes a character have NULs everywhere
        raise InvalidDataError(
            f"{file} has a line that is not one record, line {_first_damaged(lines)}: remove "
            "stray quotes, line breaks and NUL bytes, or save the table as parquet"
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


def _first_damaged(lines: TextIO) -> int:
    """Return the number of the line on which the first record starts that is not one line."""
    lines.seek(0)
    reader = csv.reader(itertools.chain.from_iterable(_blocks(lines, 1)), strict=True)
    line = 1
    with suppress(csv.Error):
        for _ in reader:
            if reader.line_num > line:
                break
            line += 1
    return line


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan
