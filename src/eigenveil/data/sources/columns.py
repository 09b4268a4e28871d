"""From cells to features: which columns of a table are taken, and how each becomes numbers.

A column of numbers is one feature. A category is one feature for each of its levels, 1 where a row
has that level and 0 where it has another; a date is a number of days since a public one. A cell
that is empty, or none of this, is NaN in all features of its column. Each row becomes numbers by
itself, from what is public or was released, so neighbouring tables stay neighbours.

Levels are stated, or still ``"private"``: then the column has no features yet, and whoever releases
something finds its levels first, at a cost.
"""

import codecs
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.sources.cells import as_floats
from eigenveil.data.sources.headers import select_columns
from eigenveil.exceptions import InvalidParameterError
from eigenveil.text import printable
from eigenveil.wording import CENSORED, ENCODE, ENCODING

__all__ = [
    "Censored",
    "Columns",
    "DaysSince",
    "Encode",
    "Feature",
    "Levels",
    "Numbers",
    "Reading",
    "UnknownLevels",
    "level_of",
    "looks_like_number",
    "noted_reading",
    "parsed_encode",
]

Censored = Literal["missing", "limit", "half"]
_CENSORED: tuple[Censored, ...] = ("missing", "limit", "half")
Encode: TypeAlias = Mapping[str, "Sequence[str] | Literal['private'] | date"]

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
    decimal_comma : bool
        Whether 1,5 is a number.
    censored : {"missing", "limit", "half"}
        What a cell such as ``<0.5`` counts as: as an empty cell, as 0.5, or as half of it (a value
        above a limit, ``>200``, then counts as the limit).

    """

    decimal_comma: bool = False
    censored: Censored = "missing"

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
        """Return None: what is done to all columns is said once."""
        return None

    def number(self, cell: str) -> float:
        """Return the number that a cell holds; NaN where it is none."""
        try:
            return float(cell)
        except ValueError:
            pass
        if self.decimal_comma and "." not in cell and cell.count(",") == 1:
            try:
                return float(cell.replace(",", "."))
            except ValueError:
                pass
        if self.censored == "missing":
            return math.nan
        return self._limit(cell)

    def _limit(self, cell: str) -> float:
        """Return what a value beyond a limit of detection counts as."""
        found = _LIMIT.fullmatch(cell)
        if found is None:
            return math.nan
        limit = replace(self, censored="missing").number(found[2])
        return limit / 2 if self.censored == "half" and found[1] == "<" else limit


_ANY_NUMBER = Numbers(decimal_comma=True, censored="limit")


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
        """Return how the levels were chosen."""
        how = "found privately" if self.found else "stated by the caller"
        return f"{printable(column)!r} is 0 or 1 for each of {len(self.levels)} levels {how}"


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


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table that are taken, in their order, and what becomes of each."""

    features: tuple[tuple[str, Feature], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns in the table."""
        return tuple(name for name, _ in self.features)

    @property
    def titles(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(title for name, feature in self.features for title in feature.titles(name))

    @property
    def undecided(self) -> tuple[str, ...]:
        """Columns whose levels are to be found."""
        return tuple(n for n, feature in self.features if isinstance(feature, UnknownLevels))

    @property
    def encoding(self) -> dict[str, Any]:
        """What a release notes, so that other rows become the same features."""
        noted: dict[str, Any] = {}
        for name, feature in self.features:
            if isinstance(feature, Levels):
                noted[name] = {"levels": list(feature.levels)}
            elif isinstance(feature, DaysSince):
                noted[name] = {"days_since": feature.origin.isoformat()}
        return noted

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was done to cells, in words."""
        single = [feature.remark(name) for name, feature in self.features]
        limits = {f.censored for _, f in self.features if isinstance(f, Numbers)} - {"missing"}
        what = {"limit": "that limit", "half": "half that limit, or the limit from above"}
        said = [f"cells such as <0.5 count as {what[kind]}" for kind in sorted(limits)]
        return tuple([remark for remark in single if remark is not None] + said)

    def decided(self, levels: Mapping[str, Sequence[str]]) -> "Columns":
        """Return the same columns with levels for those that had none."""
        return Columns(
            tuple(
                (name, Levels(tuple(levels[name]), found=True))
                if isinstance(feature, UnknownLevels) and name in levels
                else (name, feature)
                for name, feature in self.features
            )
        )

    def rows(self, cells: Callable[[str], Sequence[Any]]) -> NDArray[np.float64]:
        """Return the features of rows; ``cells`` gives those of a column by its name."""
        return np.concatenate([f.numbers(cells(name)) for name, f in self.features], axis=1)


def parsed_encode(encode: Encode | None) -> dict[str, Feature]:
    """Return how the columns of ``encode`` become numbers; refuse what is no such thing."""
    if encode is None:
        return {}
    wrong = InvalidParameterError(
        ENCODE,
        " gives for the name of a column a list of levels, 'private', or a date to count days from",
    )
    if not isinstance(encode, Mapping):
        raise wrong
    parsed: dict[str, Feature] = {}
    for name, how in encode.items():
        if not isinstance(name, str):
            raise wrong
        if isinstance(how, date):
            parsed[name] = DaysSince(how.date() if isinstance(how, datetime) else how)
        elif isinstance(how, str):
            if how != "private":
                raise wrong
            parsed[name] = UnknownLevels()
        else:
            parsed[name] = Levels(_stated_levels(how, wrong))
    return parsed


def _stated_levels(how: Any, wrong: InvalidParameterError) -> tuple[str, ...]:
    if not isinstance(how, Iterable):
        raise wrong
    levels = tuple(level_of(level) for level in how)
    if not levels or None in levels:
        raise wrong
    stated = tuple(level for level in levels if level is not None)
    if len(set(stated)) < len(stated):
        raise InvalidParameterError(ENCODE, " names a level twice: name each once")
    return stated


def noted_reading(
    names: Sequence[str] | None, encoding: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the arguments of `open_rows` that make features of these names as a release noted."""
    if names is None or not encoding:
        return {"columns": None if names is None else list(names)}
    encode: dict[str, Any] = {}
    owners: dict[str, str] = {}
    for column, noted in encoding.items():
        if "days_since" in noted:
            encode[column] = date.fromisoformat(noted["days_since"])
        elif noted["levels"]:
            encode[column] = noted["levels"]
            owners |= dict.fromkeys(Levels(tuple(noted["levels"])).titles(column), column)
    return {"columns": list(dict.fromkeys(owners.get(n, n) for n in names)), "encode": encode}


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


def looks_like_number(cell: str) -> bool:
    """Return whether a cell may stand in a column of numbers: 1.5, 1,5 or <0.5."""
    return cell.lower() == "nan" or not math.isnan(_ANY_NUMBER.number(cell))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a table is read: which of its columns, and what becomes of their cells.

    Attributes
    ----------
    columns : sequence of str, optional
        Those that are taken; by default all that are not dropped.
    unit : str, optional
        The column that says whose row it is.
    drop : sequence of str
        Those that are left out.
    encode : dict
        How columns of text become numbers.
    censored : {"missing", "limit", "half"} or {name: ...}
        What cells such as ``<0.5`` count as, in all columns of numbers or in those named.
    encoding : str
        That of a text file.

    """

    columns: Sequence[str] | None = None
    unit: str | None = None
    drop: Sequence[str] = ()
    encode: Mapping[str, Feature] = field(default_factory=dict)
    censored: Censored | Mapping[str, Censored] = "missing"
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        stated = self.censored
        rules = list(stated.values()) if isinstance(stated, Mapping) else [stated]
        if not all(isinstance(rule, str) and rule in _CENSORED for rule in rules):
            raise InvalidParameterError(
                CENSORED, " must be 'missing', 'limit' or 'half', for all or by name"
            )
        if isinstance(self.drop, str) or isinstance(self.columns, str):
            raise InvalidParameterError("columns are named by a list: ['a', 'b']")
        try:
            codecs.lookup(self.encoding)
        except (LookupError, TypeError, ValueError):
            raise InvalidParameterError(
                ENCODING, " is none that Python knows: try 'latin-1' or 'utf-8'"
            ) from None

    @property
    def is_plain(self) -> bool:
        """Whether all columns are taken as they are."""
        return self == Reading()

    @property
    def explained(self) -> frozenset[str]:
        """Columns that may hold text, as it is said how it becomes numbers."""
        named = self.censored if isinstance(self.censored, Mapping) else ()
        return frozenset([*self.encode, *named])

    def select(
        self,
        available: Sequence[str],
        *,
        wordy: Callable[[], Sequence[str]] = tuple,
        decimal_comma: bool = False,
    ) -> Columns:
        """Return the columns of a table with these names; ``wordy`` says which hold text."""
        taken = select_columns(
            available,
            self.columns,
            self.unit,
            drop=self.drop,
            encoded=tuple(self.encode),
            wordy=lambda: [name for name in wordy() if name not in self.explained],
        )
        return Columns(tuple((name, self._feature(name, decimal_comma)) for name in taken))

    def _feature(self, name: str, decimal_comma: bool) -> Feature:
        rules = self.censored
        rule = rules.get(name, "missing") if isinstance(rules, Mapping) else rules
        return self.encode.get(name) or Numbers(decimal_comma, rule)
