"""From what is chosen on the page to the options of a command.

This is the one place where a choice becomes an option. Options keep their structure, as in a file
of options, so that no name of a column is taken for anything else. They are parsed as those of
`eigenveil plan` and `eigenveil fit`.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from eigenveil.exceptions import InvalidParameterError
from eigenveil.rows.open import Column, columns_of
from eigenveil.studio.server import Asked, Studio

__all__ = ["TASKS", "Options", "number", "one_of", "release_options", "table_of"]

TASKS = {"components": "fit", "covariance": "covariance"}  # the command that releases each
_ABOUT = ("title", "purpose", "owner", "approver")
_LETTERS = 2000  # of one of them
_MISSING = {
    "raise": {},
    "centre": {"on_missing": "centre"},
    "zero": {"on_invalid": "zero"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A command with its options.

    Attributes
    ----------
    command : str
        Name of the command.
    table : str
        Name of the table in the folder.
    terms : mapping
        Options that decide what is released and what it costs.
    record : mapping
        Options that decide where it goes and who is named in it.

    """

    command: str
    table: str
    terms: Mapping[str, Any]
    record: Mapping[str, Any]

    @property
    def all(self) -> dict[str, Any]:
        """All options by name, as a file of options has them."""
        return {**self.terms, **self.record}


def release_options(studio: Studio, asked: Asked, *, complete: bool) -> Options:
    """Return the command that does what is chosen; ``complete`` with its folder."""
    folder = studio.folder
    path = table_of(studio, asked)
    of = one_of(asked, "of", TASKS) or "components"
    terms = _column_options(asked, columns_of(path))
    if of == "components":
        if asked.get("k") is not None:
            terms["k"] = number(asked, "k")
        if asked.get("show_scores") is True:
            terms["show_scores"] = True
    terms["epsilon"] = number(asked, "epsilon")
    if asked.get("delta") is not None:
        terms["delta"] = number(asked, "delta")
    scale = one_of(asked, "scale", ("private", "same"))
    if asked.get("bounds"):  # they replace private scales
        terms["bounds"] = _ranges(asked["bounds"])
        scale = None if scale == "private" else scale
    if scale is not None:
        terms["scale"] = scale
    if adjacency := one_of(asked, "adjacency", ("replace-one", "add-remove")):
        terms["adjacency"] = adjacency
    terms |= _MISSING[one_of(asked, "missing", _MISSING) or "raise"]
    terms["ledger"] = folder.name(folder.place(asked.get("ledger")))
    return Options(
        command=TASKS[of],
        table=folder.name(path),
        terms=terms,
        record=_record_options(studio, asked) if complete else {},
    )


def table_of(studio: Studio, asked: Asked) -> Path:
    """Return the path of the table: a file, as a folder may hold links that lead elsewhere."""
    path = studio.folder.existing(asked.get("table"))
    if not path.is_file():
        raise InvalidParameterError("the table is not a file: choose one file of this folder")
    return path


def _record_options(studio: Studio, asked: Asked) -> dict[str, Any]:
    folder = studio.folder
    options = {each: text for each in _ABOUT if (text := _text(asked, each))}
    if asked.get("sign"):
        options["sign"] = folder.name(folder.existing(asked["sign"]))
    options["output"] = folder.name(folder.place(asked.get("output")))
    return options


def _column_options(asked: Asked, columns: Sequence[Column]) -> dict[str, Any]:
    """Return which columns are taken, whose rows are one person's, and what text becomes."""
    known = {column.name: column.kind for column in columns}
    unit, encode = asked.get("unit"), asked.get("encode") or {}
    kept = asked.get("columns")
    if not (
        (unit is None or isinstance(unit, str))
        and isinstance(kept, list)
        and all(isinstance(name, str) for name in kept)
        and isinstance(encode, Mapping)
    ):
        raise InvalidParameterError("choose at least one column")
    if not {*kept, *encode, *([unit] if unit else [])} <= known.keys():
        raise InvalidParameterError("the table has other columns by now: choose them again")
    taken = {name: None for name in known if name in set(kept) and name != unit}
    if not taken:
        raise InvalidParameterError("choose at least one column")
    encoded = [[name, _encoding(name, how)] for name, how in encode.items() if name in taken]
    options: dict[str, Any] = {"unit": unit} if unit else {}
    dropped = [name for name in known if name not in taken and name != unit]
    if any(known[name] == "id" and name not in encode for name in taken):
        options["columns"] = list(taken)  # an id is analysed only where it is named
    elif dropped:
        options["drop"] = dropped
    return {**options, "encode": encoded} if encoded else options


def _encoding(name: str, how: Any) -> str | list[str]:
    """Return how a column of text becomes numbers, as a file of options has it."""
    match how:
        case "private":
            return "private"
        case {"levels": list(levels)} if all(isinstance(each, str) for each in levels):
            stated = [level for each in levels if (level := each.strip())]
            if stated:
                return stated
            raise InvalidParameterError(
                f"name the levels of {name!r}, one in each line: none are filled in for you"
            )
        case {"date": str(day)}:
            with suppress(ValueError):
                return date.fromisoformat(day.strip()).isoformat()
            raise InvalidParameterError(f"write the first day of {name!r} as 2024-01-31")
    raise InvalidParameterError(f"choose again what becomes of {name!r}")


def one_of(asked: Asked, name: str, known: Sequence[str] | Mapping[str, Any]) -> str | None:
    """Return one of the known words; None where nothing was chosen."""
    value = asked.get(name)
    if value is None or (isinstance(value, str) and value in known):
        return value
    raise InvalidParameterError(f"{name} must be one of: {', '.join(known)}")


def number(asked: Asked, name: str) -> int | float:
    """Return a number."""
    value = asked.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidParameterError(f"{name} must be a number")
    return value


def _ranges(bounds: Any) -> dict[str, list[float]]:
    """Return ranges by name."""
    if not isinstance(bounds, Mapping):
        raise InvalidParameterError("give ranges by the names of columns")
    ranges = {}
    for name, pair in bounds.items():
        if not (isinstance(pair, list) and len(pair) == 2):
            raise InvalidParameterError(f"give {name!r} a smallest and a largest value")
        ranges[name] = [float(number({name: value}, name)) for value in pair]
    return ranges


def _text(asked: Asked, name: str) -> str:
    text = asked.get(name) or ""
    if not isinstance(text, str) or len(text) > _LETTERS:
        raise InvalidParameterError(f"the {name} has at most {_LETTERS:,} letters")
    return text.strip()
