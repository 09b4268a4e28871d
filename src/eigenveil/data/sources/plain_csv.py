"""Lines of numbers without quotes, parsed by pyarrow where it is installed.

It gives the same numbers as Python's ``float``, or none: whatever it does not take for a table of
numbers of the right width is left to the strict reader, line by line.
"""

import csv
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["PlainLines", "plain_reader"]


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
