"""From cells to numbers: parse numbers, and encode categories and dates as features.

``1,000`` is a thousand in one country and one in another. Where either mark may be the decimal one,
a number of that form is none until somebody states the mark: guessing from other cells would use
their values.

A column of numbers is one feature. A category is one feature for each of its levels, 1 where a row
has that level and 0 where it has another; a date is a number of days since a public one. A cell
that is empty, or none of this, is NaN in all features of its column. Each row becomes numbers by
itself, from what is public or was released, so neighbouring tables stay neighbours.

Levels are stated, or still ``"private"``: then the column has no features yet, and whoever releases
something finds its levels first, at a cost.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidParameterError
from eigenveil.messages import ENCODE
from eigenveil.text import listed, plural, printable

# Their conversion to a float would drop a part, or count from a date.
_NO_FLOATS = (complex, np.complexfloating, np.datetime64, np.timedelta64)


def as_floats(array: NDArray[np.object_]) -> NDArray[np.float64]:
    """Convert each entry by itself; all at once where that is the same."""
    if not any(issubclass(kind, _NO_FLOATS) for kind in set(map(type, array.flat))):
        try:
            return array.astype(np.float64)
        except Exception:  # which entry it was, the next line finds
            pass
    return np.asarray(np.vectorize(_as_float, otypes=[np.float64])(array))


def _as_float(entry: Any) -> float:
    """Return what numpy makes of the entry; NaN where it is no number."""
    if isinstance(entry, _NO_FLOATS):
        return math.nan
    cell = np.empty(1, dtype=object)
    cell[0] = entry
    try:
        return float(cell.astype(np.float64)[0])
    except OverflowError:
        return math.inf
    except Exception:  # whatever the entry is, only its row becomes invalid
        return math.nan


Decimal = Literal[".", ","]

_AMBIGUOUS = re.compile(r"[-+]?(?!0)\d{1,3}[.,]\d{3}")

_GROUPED = {
    ".": re.compile(r"[-+]?(?!0)\d{1,3}(?:,\d{3})+(?:\.\d*)?"),
    ",": re.compile(r"[-+]?(?!0)\d{1,3}(?:\.\d{3})+(?:,\d*)?"),
}

_UNIT = (
    "[A-Z]{3}|[$\u00a2-\u00a5\u058f\u060b\u09f2\u09f3\u0e3f\u20a0-\u20cf\ufdfc\uff04\uffe1\uffe5]"
)

_SIGNED = re.compile(  # in parentheses or not, and with a unit on either side of either
    rf"(?:(?:{_UNIT})?\s*(?P<open>\())?\s*(?P<sign>[-+\u2212]?)\s*(?:{_UNIT})?\s*"
    rf"(?P<inner>[-+\u2212]?)\s*(?P<digits>[\d.,](?:[\d.,\s'\u2019]*[\d.,])?)\s*"
    rf"(?:{_UNIT}|[%\u2030])?\s*(?:(?P<close>\))\s*(?:{_UNIT}|[%\u2030])?)?"
)

_SPACED = re.compile(r"(?<=\d)[\s'\u2019](?=\d{3}(?!\d))")


def number(cell: str, decimal: Decimal | Literal["either"] | None = None) -> float:
    """Return the number that a cell holds; NaN where it holds none.

    With a stated ``decimal`` mark the other one separates thousands. Without one the point is
    decimal; where it may be ``"either"``, 1,000 and 1.000 are no numbers.
    """
    text = cell
    if decimal is not None:
        text = cell.strip()
        if decimal == "either":
            if _AMBIGUOUS.fullmatch(text):
                return math.nan
        elif _GROUPED[decimal].fullmatch(text):
            text = text.replace("." if decimal == "," else ",", "")
        elif decimal == "," and "." in text:
            return math.nan
        if decimal != "." and "." not in text:
            text = text.replace(",", ".")
    try:
        return float(text)
    except ValueError:
        return math.nan


def without_signs(cell: str) -> str:
    """Return a number without percent or currency signs and spaces; any other cell as it is.

    ``13.5%`` becomes 13.5, and an amount in parentheses is negative.
    """
    found = _SIGNED.fullmatch(cell.strip())
    if found is None or bool(found["open"]) != bool(found["close"]):
        return cell
    signs = found["sign"] + found["inner"] + ("-" if found["open"] else "")
    if len(signs) > 1:
        return cell
    return signs.replace("\u2212", "-") + _SPACED.sub("", found["digits"])


Censored = Literal["missing", "limit", "half"]
CENSORED_RULES: tuple[Censored, ...] = ("missing", "limit", "half")

_MISSING = frozenset(["", "nan", "na", "n/a", "#n/a", "<na>", "null", "nat"])
_LIMIT = re.compile(r"\s*([<>])=?\s*([-+.\d][-+.,\deE]*)\s*")
_DAY_FIRST = re.compile(r"\s*(\d{1,2})\.(\d{1,2})\.(\d{4})\s*")
_YEAR_FIRST = re.compile(r"\s*\d{4}-\d{2}-\d{2}(?:[T ][\d:.]+(?:Z|[+-]\d{2}:?\d{2})?)?\s*")
_DAY_SECONDS = 86_400.0


class Feature(Protocol):
    """How the cells of one column become numbers."""

    def titles(self, column: str) -> tuple[str, ...]:
        """Return the names of its features."""
        ...

    def numbers(self, cells: Sequence[Any]) -> NDArray[np.float64]:
        """Return the features of each cell, as rows."""
        ...

    def remark(self, column: str) -> str | None:
        """Return what a release says of it, in words."""
        ...


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers as they are.

    Attributes
    ----------
    decimal : {".", ",", "either"}, optional
        The decimal mark, if it is stated; ``"either"`` where 1,5 is a number as well as 1.5.
    censored : {"missing", "limit", "half"}
        What a cell such as ``<0.5`` counts as: as an empty cell, as 0.5, or as half of it (a value
        above a limit, ``>200``, then counts as the limit).
    signs : bool
        Whether cells may have percent or currency signs.

    """

    decimal: Decimal | Literal["either"] | None = None
    censored: Censored = "missing"
    signs: bool = False

    def titles(self, column: str) -> tuple[str, ...]:
        """Return the name of the column."""
        return (column,)

    def numbers(self, cells: Sequence[Any]) -> NDArray[np.float64]:
        """Return one number for each cell."""
        if isinstance(cells, np.ndarray) and cells.dtype.kind in "fiub":
            return cells.astype(np.float64).reshape(-1, 1)
        if not all(isinstance(cell, str) for cell in cells):
            entries = np.empty(len(cells), dtype=object)
            entries[:] = [self.number(c) if isinstance(c, str) else c for c in cells]
            return as_floats(entries)[:, None]
        return np.array([self.number(cell) for cell in cells], dtype=np.float64).reshape(-1, 1)

    def remark(self, column: str) -> str | None:
        """Return that signs are left out; what is done to all columns is said once."""
        if not self.signs:
            return None
        return f"{printable(column)!r} is read without percent and currency signs"

    def number(self, cell: str) -> float:
        """Return the number that a cell holds; NaN where it is none."""
        value = number(without_signs(cell) if self.signs else cell, self.decimal)
        if math.isnan(value) and self.censored != "missing":
            return self._limit(cell)
        return value

    def _limit(self, cell: str) -> float:
        """Return what a value beyond a limit of detection counts as."""
        found = _LIMIT.fullmatch(cell)
        if found is None:
            return math.nan
        limit = replace(self, censored="missing").number(found[2])
        return limit / 2 if self.censored == "half" and found[1] == "<" else limit


@dataclass(frozen=True, slots=True)
class Levels:
    """One feature for each of the levels of a category, stated or released."""

    levels: tuple[str, ...]
    found: bool = False

    def titles(self, column: str) -> tuple[str, ...]:
        """Return ``column=level`` for each."""
        return tuple(f"{column}={level}" for level in self.levels)

    def numbers(self, cells: Sequence[Any]) -> NDArray[np.float64]:
        """Return 1 for the level of each cell; no 1 for another level, NaN for an empty cell."""
        places = {level: j for j, level in enumerate(self.levels)}
        rows = np.zeros((len(cells), len(self.levels)))
        for i, cell in enumerate(cells):
            j = places.get(cell if isinstance(cell, str) else "")
            if j is None:
                level = level_of(cell)
                if level is None:
                    rows[i] = math.nan
                    continue
                j = places.get(level)
            if j is not None:
                rows[i, j] = 1.0
        return rows

    def remark(self, column: str) -> str:
        """Return the levels and how they were chosen.

        The levels are named, as one that no cell has would pass unseen in a number of levels.
        """
        how = "found privately" if self.found else "stated by the caller"
        number = f"{len(self.levels)} {plural('level', len(self.levels))}"
        named = listed([repr(level) for level in self.levels])
        return f"{printable(column)!r} is 0 or 1 for each of {number} {how}: {named}"


@dataclass(frozen=True, slots=True)
class DaysSince:
    """A date as the number of days since a public one."""

    origin: date

    def titles(self, column: str) -> tuple[str, ...]:
        """Return the name of the column."""
        return (column,)

    def numbers(self, cells: Sequence[Any]) -> NDArray[np.float64]:
        """Return a number of days for each cell; NaN for one that is no date."""
        start = datetime.combine(self.origin, time())
        return np.array([_days(cell, start) for cell in cells], dtype=np.float64).reshape(-1, 1)

    def remark(self, column: str) -> str:
        """Return what is counted."""
        return f"{printable(column)!r} counts days since {self.origin.isoformat()}"


@dataclass(frozen=True, slots=True)
class UnknownLevels:
    """A category whose levels are not known yet; it has no features."""

    def titles(self, column: str) -> tuple[str, ...]:
        """Return no name."""
        return ()

    def numbers(self, cells: Sequence[Any]) -> NDArray[np.float64]:
        """Refuse: a table without this column would be another one."""
        raise InvalidParameterError(
            "the levels of a category are to be found privately, which this does not do: state "
            "them, ",
            ENCODE,
            " with a list",
        )

    def remark(self, column: str) -> None:
        """Return None: nothing is known yet."""


def level_of(cell: Any) -> str | None:
    """Return the level that a cell names, without space around it; None for an empty cell."""
    if isinstance(cell, str):
        level = cell.strip()
        return None if level.lower() in _MISSING else level
    if cell is None or cell != cell:
        return None
    if isinstance(cell, (float, np.floating)) and float(cell).is_integer():
        return str(int(cell))  # whole numbers beside missing ones are stored as floats
    level = str(cell)
    return None if level.lower() in _MISSING else level


def text_columns(
    cells: Mapping[str, Sequence[Any]],
    decimal: Decimal | Literal["either"] | None,
    as_number: Collection[str] = (),
    encode: Mapping[str, Any] | None = None,
) -> dict[str, bool]:
    """Return the columns of which some of the first cells are filled, and none is a number.

    For each, whether a cell is an amount: a number once its signs or its decimal mark are said.
    Columns of ``as_number`` are read without signs, as the table will be, and those whose days
    are counted by ``encode`` as dates.
    """
    found = {}
    for name, column in cells.items():
        feature = (encode or {}).get(name)
        if isinstance(feature, DaysSince):
            filled = any(level_of(cell) is not None for cell in column)
            if filled and np.isnan(feature.numbers(column)).all():
                found[name] = False
            continue
        plain = Numbers(decimal, "limit", signs=name in as_number)
        texts = [cell.strip() for cell in column if isinstance(cell, str)]
        filled = any(texts) or any(not isinstance(c, str) and c is not None for c in column)
        if (
            filled
            and not any(map(_is_number, column))
            and not any(
                text.lower() == "nan" or not math.isnan(plain.number(text)) for text in texts
            )
        ):
            found[name] = any(map(_is_amount, texts))
    return found


def hold_text_alone(cells: Iterable[Any]) -> bool:
    """Return whether some cells are filled, and none is a number, however it is written."""
    filled = False
    for cell in cells:
        text = cell.strip() if isinstance(cell, str) else ""
        if _is_number(cell) or (text and _is_amount(text)):
            return False
        filled = filled or bool(text)
    return filled


def _is_number(cell: Any) -> bool:
    return isinstance(cell, (int, float))


def _is_amount(text: str) -> bool:
    marks: tuple[Decimal, ...] = (".", ",")
    return any(not math.isnan(Numbers(mark, "limit", signs=True).number(text)) for mark in marks)


def _days(cell: Any, start: datetime) -> float:
    """Return the days from ``start`` to a date, or to a time of a day; NaN for anything else."""
    try:
        if isinstance(cell, str):
            moment = _moment(cell)
        elif isinstance(cell, datetime):
            moment = cell
        elif isinstance(cell, date):
            moment = datetime.combine(cell, time())
        else:
            return math.nan
        return (moment.replace(tzinfo=None) - start).total_seconds() / _DAY_SECONDS
    except (ValueError, OverflowError):
        return math.nan


def _moment(cell: str) -> datetime:
    """Read 2024-01-31, with a time or without, or 31.1.2024."""
    if found := _DAY_FIRST.fullmatch(cell):
        return datetime(int(found[3]), int(found[2]), int(found[1]))
    if _YEAR_FIRST.fullmatch(cell) is None:
        raise ValueError
    return datetime.fromisoformat(cell.strip())
