"""Names of columns, which are published: a first record must not pass for them."""

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.text import printable
from eigenveil.wording import COLUMNS

__all__ = ["are_positions", "check_encoding", "check_header", "check_names", "select_columns"]

_EXPONENT = re.compile(r"(?<=[\d.])[eE](?=[-+\u2212]?\d)")


def check_header(header: Sequence[str], file: str) -> None:
    """Refuse a first line that may be a record, and quote none of it.

    Whatever passes is taken for public names and shown in messages.
    """
    check_encoding("".join(header), file)
    if (
        any(unicodedata.category(character) == "Cc" for name in header for character in name)
        or (header and all(";" in name for name in header))
        or (len(header) == 1 and "|" in header[0])
    ):
        raise InvalidDataError(
            f"{file} is not comma-separated with a first line of names: save it so"
        )
    if not header or any(map(_is_value, header)):
        raise InvalidDataError(f"{file} needs a first line with the names of its columns")


def check_encoding(start: str, file: str) -> None:
    """Refuse a file in whose first characters a byte was replaced."""
    if "\ufffd" in start:
        raise InvalidDataError(f"{file} is not in UTF-8: save it so")


def check_names(names: Iterable[Any], table: str, *, numbered: bool = False) -> None:
    """Refuse names that may be values of a first record, and quote none of them.

    Whoever read a file without a header line has them in a frame, or stored them in a parquet file.
    Labels that are not text are no names: they are not published. Of columns that were ``numbered``
    a whole number is the name.
    """
    texts = (name for name in names if isinstance(name, str))
    if any(_is_value(name) and not (numbered and _is_position(name)) for name in texts):
        raise InvalidDataError(
            f"{table} has a column named like a value, which may be one of a first record: read "
            "the file with header=None, or give all columns names of their own"
        )


def are_positions(metadata: Mapping[str, Any] | None) -> bool:
    """Return whether pandas has noted that it numbered the columns: text stores numbers as text."""
    levels = (metadata or {}).get("column_indexes") or []
    return bool(levels) and all(
        level["pandas_type"].startswith(("int", "uint")) for level in levels
    )


def select_columns(
    available: Sequence[str], columns: Sequence[str] | None, unit: str | None
) -> tuple[str, ...]:
    """Return the names of the features: those asked for, or all but the one of the ``unit``."""
    if len(set(available)) < len(available):
        raise InvalidDataError("two columns have the same name: rename one")
    if unit is not None and unit not in available:
        raise InvalidDataError(f"no column {unit!r}: choose from {_listed(available)}")
    if unit is not None and columns is not None and unit in columns:
        raise InvalidParameterError(
            f"{unit!r} says whose row it is and is no feature: leave it out of columns"
        )
    available = [name for name in available if name != unit]
    if columns is None:
        columns = available
        if "" in columns:
            raise InvalidDataError(
                "a column has no name; if it is a row index, choose the others with ", COLUMNS
            )
    elif not columns:
        raise InvalidParameterError("columns is empty: name at least one")
    for name in columns:
        if name not in available:
            raise InvalidDataError(f"no column {name!r}: choose from {_listed(available)}")
    if len(set(columns)) < len(columns):
        raise InvalidParameterError("columns names one column twice: name each once")
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


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(printable, names))
