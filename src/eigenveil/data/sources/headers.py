"""Names of columns, which are published: a first record must not pass for them."""

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from eigenveil.data.sources.asking import TextColumns, ask_about, is_named_like_an_id
from eigenveil.data.sources.features import hold_text_alone
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.text import did_you_mean
from eigenveil.wording import COLUMNS, DROP, LATIN, UTF_16, option

__all__ = [
    "are_positions",
    "check_encoding",
    "check_first_line",
    "check_header",
    "check_names",
    "refuse_twins",
    "select_columns",
]

# What files of other kinds start with, read as text: a byte that is none is replaced.
_OTHER_KINDS = {
    "PK\x03\x04": "an Excel workbook: rename it to end in .xlsx, or export it as CSV",
    "\ufffd\ufffd\x11": "an old Excel workbook: save it as .xlsx or CSV",
    "PAR1\x15": "a parquet file: rename it to end in .parquet",
    "\x1f\ufffd\x08": "a compressed file: rename it to end in .csv.gz",
}
_MISSING = frozenset(["NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "NaT"])
_EXPONENT = re.compile(r"(?<=[\d.])[eE](?=[-+\u2212]?\d)")


def check_header(header: Sequence[str], file: str) -> None:
    """Refuse a first line that may be a record, and quote none of it.

    Whatever passes is taken for public names and shown in messages.
    """
    check_encoding("".join(header), file)
    if any(unicodedata.category(character) == "Cc" for name in header for character in name) or (
        len(header) == 1 and "|" in header[0]
    ):
        raise InvalidDataError(
            f"{file} has no first line of names between commas, semicolons or tabs: save it so"
        )
    if not header or any(map(_is_value, header)):
        raise InvalidDataError(f"{file} needs a first line with the names of its columns")


def check_first_line(header: Sequence[str], below: Iterable[Any], file: str) -> None:
    """Refuse a first line that may be a record of a table of text, and quote none of it.

    A missing value in it shows that, or cells ``below`` it, if none is a number. A name that is one
    of an id is no cell of a record. Whoever names a column has said that there are names.
    """
    has_no_names = any(name.strip() in _MISSING for name in header)
    if has_no_names or (not any(map(is_named_like_an_id, header)) and hold_text_alone(below)):
        raise InvalidDataError(
            f"the first line of {file} may be a record: put a line with the names of the columns "
            "first; if there is one, choose columns by name, ",
            COLUMNS,
        )


def check_encoding(start: str, file: str) -> None:
    """Refuse a file of another kind, and one whose first characters are in another encoding.

    There a byte was replaced, or is one of two of each character.
    """
    for mark, advice in _OTHER_KINDS.items():
        if start.startswith(mark):
            raise InvalidDataError(f"{file} is no text but looks like {advice}")
    if start.startswith("\ufffd\ufffd") or "\0" in start:
        raise InvalidDataError(f"{file} is not in UTF-8 but perhaps in UTF-16: pass ", UTF_16)
    if "\ufffd" in start:
        raise InvalidDataError(f"{file} is not in UTF-8: save it so, or pass ", LATIN)


def check_names(names: Iterable[Any], table: str, *, numbered: bool = False) -> None:
    """Refuse names that may be values of a first record, and quote none of them.

    Whoever read a file without a header line has them in a frame, or stored them in a parquet file.
    Labels that are not text are no names: they are not published. Of columns that were ``numbered``
    a whole number is the name.
    """
    texts = (name for name in names if isinstance(name, str))
    if any(_is_value(name) and not (numbered and _is_position(name)) for name in texts):
        raise InvalidDataError(
            f"{table} has a column named like a value, perhaps of a first record: read the file "
            "with header=None, or name all columns"
        )


def refuse_twins(names: Sequence[str]) -> None:
    """Refuse a name that two columns have; names were checked before, as it is shown."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidDataError(f"two columns have the same name, {name!r}: rename one")
        seen.add(name)


def are_positions(metadata: Mapping[str, Any] | None) -> bool:
    """Return whether pandas has noted that it numbered the columns: text stores numbers as text."""
    levels = (metadata or {}).get("column_indexes") or []
    return bool(levels) and all(
        level["pandas_type"].startswith(("int", "uint")) for level in levels
    )


def select_columns(
    available: Sequence[str],
    columns: Sequence[str] | None,
    unit: str | None,
    *,
    drop: Sequence[str] = (),
    encoded: Sequence[str] = (),
    wordy: Callable[[], TextColumns] = dict,
) -> tuple[str, ...]:
    """Return the names of the columns that are taken: those asked for, or all that are not dropped.

    The one of the ``unit`` is no feature. Of those that nobody named, an id is asked about, and
    with it what holds text, as ``wordy`` says.
    """
    refuse_twins(available)
    known, dropped, explained = set(available), set(drop), set(encoded)
    for name in (*drop, *encoded, *((unit,) if unit is not None else ())):
        if name not in known:
            raise InvalidDataError(f"no column {name!r}: {did_you_mean(name, available)}")
    if columns is None:
        left = [name for name in available if name != unit and name not in dropped]
        if not left:
            raise InvalidParameterError(DROP, " leaves no column: drop fewer")
        if ids := [n for n in left if n not in explained and is_named_like_an_id(n)]:
            asked = set(ids) | explained
            taken = known - dropped - {unit}
            text = {n: kind for n, kind in wordy().items() if n in taken and n not in asked}
            ask_about(ids, text, [n for n in left if n and n not in text and n not in asked])
        if "" in left:
            raise InvalidDataError(
                "a column has no name; if it is a row index, choose the others with ", COLUMNS
            )
        columns = left
    elif drop:
        raise InvalidParameterError(
            option("columns"), " names those that are taken: leave ", DROP, " out"
        )
    elif unit is not None and unit in columns:
        raise InvalidParameterError(
            f"{unit!r} says whose row it is and is no feature: leave it out of columns"
        )
    elif not columns:
        raise InvalidParameterError("columns is empty: name at least one")
    for name in columns:
        if name not in known:
            raise InvalidDataError(f"no column {name!r}: {did_you_mean(name, available)}")
    chosen = set(columns)
    if len(chosen) < len(columns):
        raise InvalidParameterError("columns names one column twice: name each once")
    prefixes = {n[:place] for n in available for place, mark in enumerate(n) if mark == "="}
    for name in encoded:
        if name not in chosen:
            raise InvalidParameterError(
                f"{name!r} is encoded, but not taken: add it to columns, or do not drop it"
            )
        if name in prefixes:
            twin = next(n for n in available if n.startswith(f"{name}="))
            raise InvalidDataError(f"{twin!r} is named like a level of {name!r}: rename one")
    return tuple(columns)


def _is_position(name: str) -> bool:
    return name.isascii() and name.isdecimal()


def _is_value(cell: str) -> bool:
    """Return whether it may be a number, a date, a telephone number: digits and no letter.

    The e of 7.3e4 is none, whatever stands around the number: a currency, a mark that nobody sees.
    """
    try:
        if not math.isnan(float(cell)):
            return True
    except ValueError:
        pass
    return any(map(str.isdigit, cell)) and not any(map(str.isalpha, _EXPONENT.sub("", cell)))
