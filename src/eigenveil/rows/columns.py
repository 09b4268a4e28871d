"""Which columns of a table are taken, in their order, and what becomes of each."""

import codecs
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.messages import AS_NUMBER, CENSORED, DECIMAL, ENCODE, ENCODING
from eigenveil.rows.column_names import TextColumns, select_columns
from eigenveil.rows.features import (
    CENSORED_RULES,
    Censored,
    DaysSince,
    Decimal,
    Feature,
    Levels,
    Numbers,
    UnknownLevels,
    level_of,
)
from eigenveil.text import did_you_mean

Encode: TypeAlias = Mapping[str, "Sequence[str] | Literal['private'] | date"]


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
        " gives for the name of a column a list of levels, 'private', or a date to count days "
        "from, such as date(2024, 1, 31)",
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
    as_number : sequence of str
        Those that are read without percent and currency signs.
    decimal : {".", ","}, optional
        The decimal mark; the other one separates thousands.
    encoding : str
        That of a text file.

    """

    columns: Sequence[str] | None = None
    unit: str | None = None
    drop: Sequence[str] = ()
    encode: Mapping[str, Feature] = field(default_factory=dict)
    censored: Censored | Mapping[str, Censored] = "missing"
    as_number: Sequence[str] = ()
    decimal: Decimal | None = None
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        stated = self.censored
        rules = list(stated.values()) if isinstance(stated, Mapping) else [stated]
        if not all(isinstance(rule, str) and rule in CENSORED_RULES for rule in rules):
            raise InvalidParameterError(
                CENSORED, " must be 'missing', 'limit' or 'half', for all or by name"
            )
        if self.decimal not in (None, ".", ","):
            raise InvalidParameterError(DECIMAL, " must be '.' or ','")
        if any(isinstance(names, str) for names in (self.drop, self.columns, self.as_number)):
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
    def names_columns(self) -> bool:
        """Whether a column is named, as only somebody does who knows the names."""
        named = (self.columns, self.unit, self.drop, self.encode, self.as_number)
        return any(map(bool, named)) or (isinstance(self.censored, Mapping) and any(self.censored))

    def undated(self, text: TextColumns) -> list[str]:
        """Return the columns whose days are to be counted and whose first cells are no dates."""
        days = {name for name, feature in self.encode.items() if isinstance(feature, DaysSince)}
        return [name for name, kind in text.items() if name in days and kind is not None]

    def unexplained(self, text: TextColumns) -> TextColumns:
        """Return the columns of text that nobody has said how to read as numbers.

        Where cells were looked at, a column of numbers without any is read wrongly.
        """
        limited = self.censored if isinstance(self.censored, Mapping) else ()
        numbers = {*self.as_number, *limited}
        return {
            name: kind
            for name, kind in text.items()
            if name not in self.encode and not (kind is None and name in numbers)
        }

    def select(
        self,
        available: Sequence[str],
        *,
        wordy: Callable[[], TextColumns] = dict,
        comma_is_free: bool = False,
    ) -> Columns:
        """Return the columns of a table with these names; ``wordy`` says which hold text.

        A comma that does not separate cells may be the decimal mark.
        """
        known = set(available)
        limited = self.censored if isinstance(self.censored, Mapping) else ()
        for name in (*limited, *self.as_number):
            if name not in known:
                raise InvalidDataError(f"no column {name!r}: {did_you_mean(name, available)}")
        for name in self.as_number:
            if name in self.encode:
                raise InvalidParameterError(
                    f"{name!r} is encoded and a number: name it in ", ENCODE, " or ", AS_NUMBER
                )
        taken = select_columns(
            available,
            self.columns,
            self.unit,
            drop=self.drop,
            encoded=tuple(self.encode),
            wordy=lambda: self.unexplained(wordy()),
        )
        decimal, signed, rules = self.decimal_where(comma_is_free), {*self.as_number}, self.censored
        features = (
            self.encode.get(name)
            or Numbers(
                decimal,
                rules.get(name, "missing") if isinstance(rules, Mapping) else rules,
                name in signed,
            )
            for name in taken
        )
        return Columns(tuple(zip(taken, features, strict=True)))

    def decimal_where(self, comma_is_free: bool) -> Decimal | Literal["either"] | None:
        """Return the stated decimal mark, or what it may be where none is."""
        return self.decimal or ("either" if comma_is_free else None)
