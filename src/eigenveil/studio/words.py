"""From what is chosen on the page to words of the command line.

This is the one place where a choice becomes an option. The words are parsed as on a terminal, so
that predictions, promise and release are those of `eigenveil plan` and `eigenveil fit`, and the
command that the page shows is the one that runs.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eigenveil.data.sources.schema import columns_of
from eigenveil.exceptions import InvalidParameterError
from eigenveil.studio.server import Asked, Studio
from eigenveil.text import joined

__all__ = ["TASKS", "command_words", "number"]

TASKS = {"components": "fit", "covariance": "covariance"}  # the command that releases each
_ABOUT = ("title", "purpose", "owner", "approver")
_LETTERS = 2000  # of one of them


def command_words(studio: Studio, asked: Asked, *, complete: bool) -> list[str]:
    """Return the words of the command that does what is chosen; ``complete`` with its folder."""
    folder = studio.folder
    path = folder.existing(asked.get("table"))
    of = asked.get("of", "components")
    if not (isinstance(of, str) and of in TASKS):
        raise InvalidParameterError("choose components or covariance")
    words = [TASKS[of], folder.name(path), *_column_words(asked, path)]
    if of == "components":
        if asked.get("k") is not None:
            words += ["--k", number(asked, "k")]
        words += ["--show-scores"] if asked.get("show_scores") is True else []
    words += ["--epsilon", number(asked, "epsilon")]
    if asked.get("delta") is not None:
        words += ["--delta", number(asked, "delta")]
    if asked.get("scale") == "private":
        words += ["--scale", "private"]
    if isinstance(asked.get("bounds"), Mapping) and asked["bounds"]:
        words += ["--bounds", _ranges(asked["bounds"])]
    if asked.get("adjacency") == "add-remove":
        words += ["--adjacency", "add-remove"]
    if asked.get("missing") == "centre":
        words += ["--on-missing", "centre"]
    elif asked.get("missing") == "zero":
        words += ["--on-invalid", "zero"]
    words += ["--ledger", folder.name(folder.place(asked.get("ledger")))]
    if not complete:
        return words
    if asked.get("sign"):
        words += ["--sign", folder.name(folder.existing(asked["sign"]))]
    for each in _ABOUT:
        if text := _text(asked, each):
            words += [f"--{each}", text]
    return [*words, "-o", folder.name(folder.place(asked.get("output")))]


def _column_words(asked: Asked, path: Path) -> list[str]:
    """Return which columns are taken, whose rows are one person's, and what text becomes."""
    known = [column.name for column in columns_of(path)]
    unit, encode = asked.get("unit"), asked.get("encode") or {}
    kept = asked.get("columns")
    named = unit is None or isinstance(unit, str)
    if not (named and isinstance(kept, list) and isinstance(encode, Mapping)):
        raise InvalidParameterError("choose at least one column")
    strange = [name for name in (*kept, *encode, *([unit] if unit else [])) if name not in known]
    if strange:
        raise InvalidParameterError("the table has other columns by now: choose them again")
    dropped = [name for name in known if name not in (*kept, unit)]
    words = ["--unit", unit] if unit else []
    words += ["--drop", joined(dropped)] if dropped else []
    for name, how in encode.items():
        if name in kept:
            levels = "" if how == "private" else f"={how}"
            words += ["--encode", f"{name}{levels}"]
    if not [name for name in known if name in kept and name != unit]:
        raise InvalidParameterError("choose at least one column")
    return words


def number(asked: Asked, name: str) -> str:
    """Return a number as it is typed."""
    value = asked.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidParameterError(f"{name} must be a number")
    return f"{value:.12g}"


def _ranges(bounds: Mapping[str, Any]) -> str:
    """Return ranges by name, as the command line takes them."""
    parts = []
    for name, pair in bounds.items():
        if not (isinstance(pair, list) and len(pair) == 2):
            raise InvalidParameterError(f"give {name!r} a smallest and a largest value")
        low, high = (number({name: value}, name) for value in pair)
        parts.append(f"{name}={low}:{high}")
    return ",".join(parts)


def _text(asked: Asked, name: str) -> str:
    text = asked.get(name) or ""
    if not isinstance(text, str) or len(text) > _LETTERS:
        raise InvalidParameterError(f"the {name} has at most {_LETTERS:,} letters")
    return text.strip()
