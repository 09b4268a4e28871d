"""From choices on the page to the options of a command, a script and a notebook.

This is the one place where a choice becomes an option. Options keep their structure, as in a file
of options, so that no name of a column is taken for anything else. They are parsed as those of
`eigenveil plan` and `eigenveil fit`.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from eigenveil.exceptions import InvalidParameterError
from eigenveil.rows.open import Column, columns_of
from eigenveil.studio.server import Asked, Studio
from eigenveil.text import printable

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


_ROWS = ("columns", "unit", "drop", "encode", "censored", "as_number", "decimal", "encoding")

_SCRIPT_ABOUT = ("title", "purpose", "owner", "approver")

_MODELS = {"fit": "PrivatePCA", "covariance": "PrivateCovariance"}

_OPTIONS = (
    "epsilon",
    "delta",
    "rho",
    "mechanism",
    "row_norm",
    "bounds",
    "centring",
    "scale",
    "variances",
    "show_scores",
    "adjacency",
    "on_invalid",
    "on_missing",
)

_WIDTH = 88


def script(command: str, options: Mapping[str, Any]) -> str:
    """Return a Python script that does what a command with these options does."""
    return "\n".join(code for _, code in _parts(command, options)) + "\n"


def notebook(command: str, options: Mapping[str, Any]) -> str:
    """Return the same as a Jupyter notebook, each step with a sentence before it."""
    cells: list[dict[str, Any]] = []
    for words, code in _parts(command, options):
        cells.append({"cell_type": "markdown", "metadata": {}, "source": words})
        cells.append(
            {
                "cell_type": "code",
                "metadata": {},
                "execution_count": None,
                "outputs": [],
                "source": code,
            }
        )
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {
        "cells": cells,
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, indent=1) + "\n"


def _parts(command: str, options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the steps of a release, each in words and in code."""
    model = _MODELS[command]
    reading: dict[str, Any] = {
        name: options.get(name) for name in _ROWS if options.get(name) not in (None, ())
    }
    for name in ("encode", "censored"):
        if name in reading:
            reading[name] = dict(reading[name])
    if "censored" in reading and "" in reading["censored"]:
        reading["censored"] = reading["censored"][""]
    dates = any(isinstance(how, date) for how in reading.get("encode", {}).values())
    imports = [f"from eigenveil import {model}, open_rows"]
    imports[:0] = ["from datetime import date", ""] if dates else []
    chosen = {
        name: options.get(name)
        for name in _OPTIONS
        if options.get(name) not in (None, False, "auto")
    }
    chosen["ledger"] = str(options["ledger"])
    first = [] if options.get("k") is None else [_code(options["k"])]
    about = {name: options[name] for name in _SCRIPT_ABOUT if options.get(name)}
    release = "model.release_"
    if about:
        release = _call(f"{release}.described", [], about)
    key = {} if options.get("sign") is None else {"key": str(options["sign"])}
    saved = _call(f"{release}.save", [_code(str(options["output"]))], key)
    return [
        ("What is needed.", "\n".join(imports)),
        (
            "The table; no row is shown.",
            f"rows = {_call('open_rows', [_code(options['data'])], reading)}",
        ),
        (
            "The release. Running this spends from the ledger, and cannot be undone.",
            f"model = {_call(model, first, chosen)}\nmodel.fit(rows)",
        ),
        (
            "What is promised, and where the release lies.",
            f"print(model.privacy_.sentence())\n{saved}",
        ),
    ]


def _call(name: str, first: list[str], named: Mapping[str, Any]) -> str:
    """Return a call, over several lines where it is long."""
    given = [*first, *(f"{key}={_code(value)}" for key, value in named.items())]
    line = f"{name}({', '.join(given)})"
    if len(line) <= _WIDTH:
        return line
    inside = "".join(f"    {each},\n" for each in given)
    return f"{name}(\n{inside})"


def _code(value: Any) -> str:
    """Return a value as Python writes it."""
    if isinstance(value, date):
        return f"date({value.year}, {value.month}, {value.day})"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_code(key)}: {_code(each)}" for key, each in value.items())
        return f"{{{inside}}}"
    if isinstance(value, (list, tuple)):
        inside = ", ".join(map(_code, value))
        return f"[{inside}]" if isinstance(value, list) or len(value) != 2 else f"({inside})"
    return printable(repr(value))
