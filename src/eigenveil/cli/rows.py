"""From a file or standard input to a source of rows, with mistakes about columns explained.

Names and kinds of columns are schema, not records. Parquet states both. Of a CSV file the first
hundred lines are looked at: a column is text if it has a cell there and none of them is a number.
No cell is ever shown.
"""

import csv
import io
import itertools
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from eigenveil.cli.values import did_you_mean, joined, listed
from eigenveil.data.files import check_header
from eigenveil.data.source import CSVSource, RowSource, open_rows
from eigenveil.exceptions import InvalidDataError, InvalidParameterError

__all__ = ["open_table"]

_LINES = 100  # of a CSV file, to tell text from numbers


class StdinSource(CSVSource):
    """A CSV table from standard input, held in memory as text: most releases read rows twice."""

    def __init__(self, text: str, *arguments: Any, **options: Any) -> None:
        self._text = text
        super().__init__(Path("standard input"), *arguments, **options)

    def _open(self) -> TextIO:
        return io.StringIO(self._text, newline="")


class _Schema(NamedTuple):
    names: list[str]
    text: list[str]  # those that do not hold numbers


def open_table(
    data: str, columns: Sequence[str] | None = None, unit: str | None = None
) -> RowSource:
    """The rows of a file, or of standard input for ``-``."""
    path = Path(data)
    if unit is not None and (data == "-" or path.suffix.lower() == ".npy"):
        raise InvalidParameterError(
            "--unit names a column of a file: save the table as CSV or parquet first"
        )
    text = _standard_input() if data == "-" else None
    schema = None
    if text is not None:
        schema = _csv_schema(io.StringIO(text, newline=""))
    elif path.is_file() and path.suffix.lower() == ".csv":
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as lines:
            schema = _csv_schema(lines)
    elif path.is_file() and path.suffix.lower() == ".parquet":
        schema = _parquet_schema(path)
    if schema is not None:
        columns = _choose(schema, columns, unit)
    options: dict[str, Any] = {} if unit is None else {"unit": unit}
    if text is not None:
        return StdinSource(text, columns)
    return open_rows(path, columns, **options)


def _standard_input() -> str:
    return sys.stdin.buffer.read().decode("utf-8-sig", errors="replace")


def _choose(
    schema: _Schema, columns: Sequence[str] | None, unit: str | None
) -> Sequence[str] | None:
    for name in (*(columns or ()), *((unit,) if unit is not None else ())):
        if name not in schema.names:
            raise InvalidDataError(f"no column {name!r}: {did_you_mean(name, schema.names)}")
    wanted = columns or [name for name in schema.names if name != unit]
    text = [name for name in wanted if name in schema.text]
    if not text:
        return columns if unit is None else wanted
    which = f"columns {listed(text)} hold" if len(text) > 1 else f"column {text[0]!r} holds"
    rest = [name for name in schema.names if name and name not in schema.text and name != unit]
    if not rest:
        raise InvalidDataError(f"{which} text and no other is there: encode them as numbers first")
    raise InvalidDataError(
        f"{which} text: choose from the others, --columns {shlex.quote(joined(rest))}"
    )


def _csv_schema(lines: TextIO) -> _Schema | None:
    """None where the first line has no names: then `open_rows` says so, and shows none of it."""
    try:
        header, *records = itertools.islice(csv.reader(lines), _LINES + 1)
        check_header(header, "")
    except (csv.Error, ValueError):  # InvalidDataError among them
        return None
    if len(set(header)) < len(header):
        return None
    whole = [record for record in records if len(record) == len(header)]
    cells = [[record[j].strip() for record in whole] for j in range(len(header))]
    text = [
        name
        for name, column in zip(header, cells, strict=True)
        if any(column) and not any(map(_is_number, column))
    ]
    return _Schema(header, text)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _parquet_schema(path: Path) -> _Schema | None:
    """None where the file cannot be read: then `open_rows` says so."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return None
    try:
        schema = pyarrow.parquet.read_schema(path)
    except (pyarrow.ArrowException, OSError, ValueError):
        return None
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    types = pyarrow.types
    numeric = (types.is_integer, types.is_floating, types.is_boolean)
    text = [field.name for field in schema if not any(test(field.type) for test in numeric)]
    return _Schema([name for name in schema.names if name not in index], text)
