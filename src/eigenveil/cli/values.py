"""Parse the values of options and JSON from elsewhere."""

import csv
import json
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from typing import Any, NoReturn

import click

from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.text import did_you_mean, listed


class Names(click.ParamType):  # type: ignore[type-arg]
    """``a,b``, with quotes around a name that holds a comma; a list in TOML."""

    name = "names"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        """Read one value."""
        if isinstance(value, str):
            try:
                value = next(csv.reader([value], skipinitialspace=True), [])
            except csv.Error:  # a line break, among others
                value = None
        named = isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value)
        if not (named and value):
            self.fail("give names separated by commas", param, ctx)
        if len(set(value)) < len(value):
            self.fail("a name is there twice: name each column once", param, ctx)
        return tuple(value)


class OrPrivate(click.ParamType):  # type: ignore[type-arg]
    """A number, or the word ``private``; ``shares`` are numbers between 0 and 1 beside integers."""

    def __init__(self, kind: type[int] | type[float], *, shares: bool = False) -> None:
        self._kind = kind
        self._shares = shares
        self.name = "integer" if kind is int else "number"

    def convert(self, value: Any, param: Any, ctx: Any) -> int | float | str:
        """Read one value."""
        if value == "private":
            return "private"
        number = _number(value)
        if self._shares and number is not None and 0 < number < 1:
            return number
        if number is None or (self._kind is int and number != int(number)):
            self.fail(f"give a{'n' * (self._kind is int)} {self.name} or 'private'", param, ctx)
        return self._kind(number)


class PerColumn(click.ParamType):  # type: ignore[type-arg]
    """Reads one value for all columns, or ``name=...`` for each; an array or a table in TOML.

    ``parts`` is how many numbers belong to one column: two bounds, one scale.
    """

    name = "numbers"

    def __init__(self, parts: int, form: str, *words: str) -> None:
        self._parts = parts
        self._form = form
        self._words = words

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Read one value."""
        if isinstance(value, str) and value in self._words:
            return value
        if isinstance(value, str):
            cells = _cells(value)
            if "=" in value:
                value = dict(map(_named, cells))
                if len(value) < len(cells):
                    self.fail("a name is there twice: name each column once", param, ctx)
            else:
                value = cells
        if isinstance(value, dict):
            columns = {name: _numbers(cells, self._parts) for name, cells in value.items()}
            if columns and None not in columns.values():
                return columns
        # Scales may be one number for each column, in their order.
        numbers = _numbers(value, self._parts if self._parts > 1 else None)
        if numbers is None:
            self.fail(f"write it as {self._form}", param, ctx)
        return numbers


_QUOTED = re.compile(r'\s*"((?:[^"]|"")*)"\s*(?=[=,]|$)')
_CELL = re.compile(r"[^,]*")


def _cells(text: str) -> list[str]:
    """Split a text at its commas, except those of a name in double quotes."""
    cells, start = [], 0
    while True:
        name = _QUOTED.match(text, start)
        end = _CELL.match(text, start if name is None else name.end()).end()  # type: ignore[union-attr]
        cells.append(text[start:end])
        if end == len(text):
            return cells
        start = end + 1


def _named(cell: str) -> tuple[str, list[str]]:
    """Return the name of one column and its numbers."""
    if (found := _QUOTED.match(cell)) is not None:
        return _unquoted(found), cell[found.end() :].removeprefix("=").split(":")
    name, _, numbers = cell.rpartition("=")
    return name.strip(), numbers.split(":")


def _unquoted(name: re.Match[str]) -> str:
    return name[1].replace('""', '"')


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) < float("inf") else None


def _numbers(value: Any, count: int | None) -> tuple[float, ...] | None:
    cells = value if isinstance(value, (list, tuple)) else [value]
    numbers = tuple(map(_number, cells))
    if not numbers or (count is not None and len(numbers) != count):
        return None
    return None if None in numbers else tuple(n for n in numbers if n is not None)


def per_column(option: str, value: Any, names: Sequence[str] | None) -> Any:
    """Return the numbers of ``--bounds`` or ``--scale`` in the order of the columns."""
    if isinstance(value, tuple) and len(value) == 1:
        return value[0]
    if not isinstance(value, dict):
        return value
    if names is None:
        raise InvalidParameterError(
            f"the columns of this table have no names: write {option} as numbers without names"
        )
    for name in value:
        if name not in names:
            raise InvalidDataError(f"{option} names {name!r}: {did_you_mean(name, names)}")
    if missing := [name for name in names if name not in value]:
        raise InvalidParameterError(
            f"{option} leaves out {listed(missing)}: add them, or leave them out of --columns"
        )
    parts = tuple(zip(*(value[name] for name in names), strict=True))
    return parts if len(parts) > 1 else parts[0]


def single_numbers(value: Any) -> Any:
    """Return a value of ``--scale`` as Python takes it: one number, several, or one by name."""
    if isinstance(value, dict):
        return {name: number for name, (number,) in value.items()}
    return value[0] if isinstance(value, tuple) and len(value) == 1 else value


_LIKE_A_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}")
_OTHERWISE_A_DATE = re.compile(r"\d{1,4}([-./])\d{1,2}\1\d{1,4}")


class Encoded(click.ParamType):  # type: ignore[type-arg]
    """``name``, ``name=level,level`` or ``name=2024-01-31``: how a column becomes numbers.

    A name that holds ``=`` is in double quotes. A file of options may give a pair instead: the name
    and a list of levels, a date or ``"private"``.
    """

    name = "encoding"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, Any]:
        """Read one value."""
        if isinstance(value, (list, tuple)):
            return self._pair(value, param, ctx)
        if (found := _QUOTED.match(str(value))) is not None:
            name, rest = _unquoted(found), str(value)[found.end() :]
            stated, text = rest[:1], rest[1:]
        else:
            name, stated, text = str(value).partition("=")
            name = name.strip()
        if not name.strip() or stated == ",":
            self.fail("write NAME, NAME=LEVEL,LEVEL or NAME=2024-01-31", param, ctx)
        if not stated:
            return name, "private"
        try:
            return name, date.fromisoformat(text.strip())
        except ValueError:
            if _LIKE_A_DATE.fullmatch(text.strip()):
                self.fail("no such day: write the date as 2024-01-31", param, ctx)
            if _OTHERWISE_A_DATE.fullmatch(text.strip()):
                self.fail(
                    "write the first day as 2024-01-31; cells are dates if written so, or as "
                    "31.1.2024, and empty otherwise",
                    param,
                    ctx,
                )
            return name, list(Names().convert(text, param, ctx))

    def _pair(self, value: Sequence[Any], param: Any, ctx: Any) -> tuple[str, Any]:
        """Read a name and how its column becomes numbers, as a file of options has them."""
        name, how = value if len(value) == 2 else (None, None)
        if isinstance(name, str) and name.strip():
            if how == "private":
                return name, how
            if isinstance(how, list):
                return name, list(Names().convert(how, param, ctx))
            if type(how) is date:
                return name, how
            with suppress(TypeError, ValueError):
                return name, date.fromisoformat(how)  # type: ignore[arg-type]
        self.fail('write ["NAME", ["LEVEL", "LEVEL"]] or ["NAME", 2024-01-31]', param, ctx)


class Limited(click.ParamType):  # type: ignore[type-arg]
    """``rule`` or ``name=rule``: what cells such as <0.5 count as."""

    name = "rule"
    _rules = ("missing", "limit", "half")

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        """Read one value; a rule for all columns has no name."""
        name, _, rule = str(value).rpartition("=")
        if rule not in self._rules:
            self.fail("write missing, limit or half, or NAME=limit", param, ctx)
        found = _QUOTED.fullmatch(name)
        return (name.strip() if found is None else _unquoted(found)), rule


def by_name(given: Sequence[tuple[str, Any]], option: str) -> dict[str, Any]:
    """Return pairs of a repeated option as one mapping; refuse a name that is there twice."""
    found = dict(given)
    if len(found) < len(given):
        raise InvalidParameterError(f"{option} names a column twice: name each once")
    return found


class Assignment(click.ParamType):  # type: ignore[type-arg]
    """An option of a mechanism, NAME=VALUE."""

    name = "assignment"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        """Split at the first equals sign."""
        name, found, text = str(value).partition("=")
        if not (found and name.strip() and text.strip()):
            self.fail("write NAME=VALUE, such as passes=6", param, ctx)
        return name.strip().replace("-", "_"), text.strip()


def configured(releases: Any, mechanism: str, options: Sequence[tuple[str, str]]) -> Any:
    """Return a mechanism by name, with options where any are given."""
    from eigenveil.mechanisms import registry

    if not options:
        return mechanism
    if mechanism == "auto":
        raise InvalidParameterError("--set gives options of one mechanism: add --mechanism NAME")
    plain = registry.entry(releases, mechanism)
    known = registry.options(plain)
    given: dict[str, Any] = {}
    for name, text in options:
        if name not in known:
            raise InvalidParameterError(
                f"{mechanism!r} has no option {name!r}: {did_you_mean(name, list(known))}"
                if known
                else f"{mechanism!r} has no options: leave --set out"
            )
        given[name] = _literal(text)
    return type(plain)(**given)


def _literal(text: str) -> Any:
    """Return a number, a truth value or a word."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


_LARGEST_INTEGER = 2**53  # beyond, JSON written by a browser means a float


def strict_json(data: bytes) -> dict[str, Any]:
    """Return a JSON object in UTF-8; raise `ValueError` or `RecursionError` for anything else.

    Python's parser also reads infinities, integers of any size, UTF-16 and half characters, which
    fail later wherever they are used.
    """
    found = json.loads(
        data.decode("utf-8"), parse_int=_integer, parse_float=_finite, parse_constant=_refuse
    )
    if not isinstance(found, dict):
        raise ValueError("not an object")
    json.dumps(found, ensure_ascii=False).encode("utf-8")  # refuses half characters
    return found


def _integer(digits: str) -> int | float:
    number = _finite(digits)
    return int(digits) if abs(number) <= _LARGEST_INTEGER else number


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number too large")
    return number


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")
