"""Arrays in ``.npy`` files, read by explicit reads.

A memory map of a file that is cut short meanwhile would end the process without a word.
"""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidDataError
from eigenveil.rows.base import Lookup, RowSource, chunk_rows
from eigenveil.rows.file_guard import Fingerprint, Readings, StoredFile, changed, row_hashes
from eigenveil.rows.frames import check_table

_MAX_HEADER_BYTES = 1 << 14  # more than numpy accepts
_MAX_HELD_BYTES = 1 << 30  # of an array that is held in memory, and of one row

# Version 3 differs in the encoding of names, which numbers do not have.
_HEADERS = {(1, 0): npy.read_array_header_1_0} | dict.fromkeys(
    [(2, 0), (3, 0)], npy.read_array_header_2_0
)

_LONG_ROW_BYTES = 1 << 18  # read one by one where pairs of rows are wanted
_ENDS = "cannot be read to its end"
_UNREADABLE = "is not a readable .npy array: write it again with np.save"


class NpySource(RowSource):
    """The rows of a ``.npy`` file; no more than a chunk is held."""

    def __init__(self, path: Path) -> None:
        self._file = StoredFile(path)
        with self._file.one_pass(_UNREADABLE, header=True), path.open("rb") as stream:
            head = io.BytesIO(stream.read(_MAX_HEADER_BYTES))
            read_header = _HEADERS[npy.read_magic(head)]
            shape, self._by_columns, self._dtype = read_header(head)
        check_table(self._dtype, shape)
        self._n_rows, self.n_columns = map(int, shape)
        row = self.n_columns * self._dtype.itemsize
        if min(shape) < 0 or row > _MAX_HELD_BYTES:
            raise InvalidDataError(f"{self._file.name} {_UNREADABLE}")
        self._readings = Readings()
        self._start = head.tell()
        if self._start + self.n_rows * row > self._file.size:
            raise InvalidDataError(
                f"{self._file.name} is damaged or truncated: write it again with np.save"
            )

    @property
    def n_rows(self) -> int:
        """Number of rows that the header states."""
        return self._n_rows

    @property
    def is_small(self) -> bool:
        """Whether the whole array may be held in memory."""
        return self.n_rows * self.n_columns * self._dtype.itemsize <= _MAX_HELD_BYTES

    def load(self) -> NDArray[Any]:
        """Return the array as it is stored."""
        parts = [*self._read(max(1, self.n_rows))]
        return parts[0] if parts else np.empty((0, self.n_columns), self._dtype)

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Yield consecutive rows, in memory that is used again."""
        return self._read(chunk_rows(self.n_columns))

    def whole(self) -> NDArray[Any]:
        """Return the array as it is stored."""
        rows, found = self.load(), Fingerprint()
        found.add(rows)
        assert self._readings is not None  # set above
        self._readings.compare(found.numbers)
        return rows

    def lookup(self) -> tuple[int, Lookup]:
        """Return the number of rows, and what reads those at any places, where they are long."""
        if self._by_columns or self.n_columns * self._dtype.itemsize < _LONG_ROW_BYTES:
            return super().lookup()
        one = np.empty((1, self.n_columns), self._dtype)
        hashes: dict[int, int] = {}  # of rows that were read before

        def copied(places: NDArray[np.intp], out: NDArray[np.float64]) -> None:
            with self._file.one_pass(_ENDS), self._file.path.open("rb") as stream:
                for row, place in zip(out, places, strict=True):
                    self._fill(one[0], stream, int(place) * self.n_columns)
                    found = int(row_hashes(one)[0])
                    if hashes.setdefault(int(place), found) != found:
                        raise changed()
                    row[...] = one[0]

        return self.n_rows, copied

    def _read(self, size: int) -> Iterator[NDArray[Any]]:
        with self._file.one_pass(_ENDS), self._file.path.open("rb") as stream:
            order: Literal["C", "F"] = "F" if self._by_columns else "C"
            rows = np.empty((min(size, self.n_rows), self.n_columns), self._dtype, order)
            for first in range(0, self.n_rows, size):
                part = rows[: self.n_rows - first]
                self._read_rows(stream, first, part)
                yield part

    def _read_rows(self, stream: io.BufferedReader, first: int, rows: NDArray[Any]) -> None:
        if self._by_columns:
            for j in range(self.n_columns):
                self._fill(rows[:, j], stream, j * self.n_rows + first)
        else:
            self._fill(rows.reshape(-1), stream, first * self.n_columns)

    def _fill(self, entries: NDArray[Any], stream: io.BufferedReader, first: int) -> None:
        """Read the entries that lie in the file from number ``first`` on."""
        stream.seek(self._start + first * self._dtype.itemsize)
        if stream.readinto(entries.view(np.uint8).data) < entries.nbytes:
            raise changed()
