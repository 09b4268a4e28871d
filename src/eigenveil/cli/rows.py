"""From a file or standard input to a source of rows, with mistakes about columns explained.

Names and kinds of columns are schema, not records. Parquet states both. Of a CSV file the first
hundred lines are looked at: a column is text if it has a cell there and none of them is a number.
No cell is ever shown.
"""

import io
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TextIO

from eigenveil.cli.values import did_you_mean, joined, listed
from eigenveil.data.sources import CSVSource, RowSource, open_rows
from eigenveil.data.sources.csv import open_csv, read_records
from eigenveil.data.sources.headers import check_header
from eigenveil.data.sources.parquet import holds_numbers, parquet_schema
from eigenveil.data.sources.stored import StoredFile
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.wording import Phrase, option

__all__ = ["open_table"]

_STDIN = "standard input"
_SNIFFED_LINES = 100  # of a CSV file, to tell text from numbers


class StdinSource(CSVSource):
    """A CSV table from standard input, held in memory as text: most releases read rows twice."""

    def __init__(self, text: str, columns: Sequence[str] | None = None) -> None:
        self._text = text
        self._begin(_STDIN, columns, None)

    def _opened(self) -> TextIO:
        return io.StringIO(self._text, newline="")

    @property
    def _is_small(self) -> bool:
        return True  # the text is in memory already


class _Schema(NamedTuple):
    names: list[str]
    text: list[str]  # those that do not hold numbers


def open_table(
    data: str,
    columns: Sequence[str] | None = None,
    unit: str | None = None,
    *,
    text: Literal["refused", "invalid"] = "refused",
) -> RowSource:
    """Open a file, or standard input for ``-``.

    Columns of text are refused by name, which only words what would happen anyway. Where rows with
    text contribute nothing, ``text="invalid"``, a look at some lines must not decide over a run.
    """
    path = Path(data)
    if unit is not None and (data == "-" or path.suffix.lower() == ".npy"):
        raise InvalidParameterError(
            option("unit"), " names a column of a file: save the table as CSV or parquet first"
        )
    if data == "-":
        read = _standard_input()
        schema = _csv_schema(io.StringIO(read, newline=""), _STDIN)
        return StdinSource(read, _choose(schema, columns, unit, text))
    match path.suffix.lower():
        case ".csv":
            file = StoredFile(path)
            with open_csv(file) as lines:
                columns = _choose(_csv_schema(lines, file.name), columns, unit, text)
        case ".parquet":
            columns = _choose(_parquet_schema(StoredFile(path)), columns, unit, "refused")
    return open_rows(path, columns, unit)


def _standard_input() -> str:
    return sys.stdin.buffer.read().decode("utf-8-sig", errors="replace")


def _choose(
    schema: _Schema, columns: Sequence[str] | None, unit: str | None, text: str
) -> Sequence[str] | None:
    if len(set(schema.names)) < len(schema.names):
        return columns  # of which `open_rows` says that two have the same name
    for name in (*(columns or ()), *((unit,) if unit is not None else ())):
        if name not in schema.names:
            raise InvalidDataError(f"no column {name!r}: {did_you_mean(name, schema.names)}")
    wanted = columns or [name for name in schema.names if name != unit]
    wordy = [name for name in wanted if name in schema.text]
    if not wordy or text == "invalid":
        return columns if unit is None else wanted
    which = f"columns {listed(wordy)} hold" if len(wordy) > 1 else f"column {wordy[0]!r} holds"
    rest = [name for name in schema.names if name and name not in schema.text and name != unit]
    if not rest:
        raise InvalidDataError(f"{which} text and no other is there: encode them as numbers first")
    chosen = Phrase(
        python=f"columns={rest!r}",
        shell=f"--columns {shlex.quote(joined(rest))}",
        file=f"columns = {json.dumps(rest, ensure_ascii=False)}",
    )
    raise InvalidDataError(f"{which} text: choose from the others, ", chosen)


def _csv_schema(lines: TextIO, file: str) -> _Schema:
    header, *records = next(read_records(lines, file, _SNIFFED_LINES + 1), [[]])
    check_header(header, file)
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


def _parquet_schema(file: StoredFile) -> _Schema:
    schema = parquet_schema(file)
    text = [field.name for field in schema.fields if not holds_numbers(field.type)]
    return _Schema([name for name in schema.fields.names if name not in schema.index_names], text)
