"""Options that several commands share, and how their values are written."""

import csv
import difflib
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from eigenveil.exceptions import InvalidDataError, InvalidParameterError

__all__ = [
    "ADJACENCY",
    "BOUNDS",
    "BUDGET",
    "CENTERED",
    "CONFIG",
    "JSON",
    "LEDGER",
    "NAMES",
    "PATH",
    "RELEASE",
    "ROW_NORM",
    "K",
    "did_you_mean",
    "joined",
    "listed",
    "per_column",
    "stated_budget",
    "with_options",
]

PATH = click.Path(path_type=Path)
Function = TypeVar("Function", bound=Callable[..., Any])


class _Names(click.ParamType):  # type: ignore[type-arg]
    """``a,b``, with quotes around a name that holds a comma; a list in TOML."""

    name = "names"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        if isinstance(value, str):
            value = next(csv.reader([value], skipinitialspace=True), [])
        named = isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value)
        if not (named and value):
            self.fail("give names separated by commas", param, ctx)
        return tuple(value)


class _OrPrivate(click.ParamType):  # type: ignore[type-arg]
    """A number, or the word ``private``."""

    def __init__(self, kind: type[int] | type[float]) -> None:
        self._kind = kind
        self.name = "integer" if kind is int else "number"

    def convert(self, value: Any, param: Any, ctx: Any) -> int | float | str:
        if value == "private":
            return "private"
        number = _number(value)
        if number is None or (self._kind is int and number != int(number)):
            self.fail(f"give a{'n' * (self._kind is int)} {self.name} or 'private'", param, ctx)
        return self._kind(number)


class _PerColumn(click.ParamType):  # type: ignore[type-arg]
    """The same for all columns, or ``name=...`` for each; an array or a table in TOML.

    ``parts`` is how many numbers belong to one column: two bounds, one scale.
    """

    name = "numbers"

    def __init__(self, parts: int, form: str, word: str | None = None) -> None:
        self._parts = parts
        self._form = form
        self._word = word

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if self._word is not None and value == self._word:
            return value
        if isinstance(value, str):
            cells = value.split(",")
            value = cells if "=" not in value else dict(map(_named, cells))
        if isinstance(value, dict):
            columns = {name: _numbers(cells, self._parts) for name, cells in value.items()}
            if columns and None not in columns.values():
                return columns
        # Scales may be one number for each column, in their order.
        numbers = _numbers(value, self._parts if self._parts > 1 else None)
        if numbers is None:
            self.fail(f"write it as {self._form}", param, ctx)
        return numbers


def _named(cell: str) -> tuple[str, list[str]]:
    name, _, numbers = cell.rpartition("=")
    return name.strip(), numbers.split(":")


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if abs(number) < float("inf") else None


def _numbers(value: Any, count: int | None) -> tuple[float, ...] | None:
    cells = value if isinstance(value, (list, tuple)) else [value]
    numbers = tuple(map(_number, cells))
    if not numbers or (count is not None and len(numbers) != count):
        return None
    return None if None in numbers else tuple(n for n in numbers if n is not None)


def per_column(option: str, value: Any, names: Sequence[str] | None) -> Any:
    """The numbers of ``--bounds`` or ``--scale`` in the order of the columns."""
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


def joined(names: Sequence[str]) -> str:
    """Names as ``--columns`` takes them."""
    return ",".join(map(_quoted, names))


def _quoted(name: str) -> str:
    """A space before a name is no part of it, unless it is in quotes."""
    if name == name.lstrip() and not set(name) & set(',"\n'):
        return name
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def listed(names: Sequence[str], most: int = 20) -> str:
    """Names as one line; no more than fit."""
    more = len(names) - most
    shown = ", ".join(name or "(no name)" for name in names[:most])
    return f"{shown} and {more} more" if more > 0 else shown


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """The nearest of the names that exist, and all of them."""
    close = difflib.get_close_matches(name, names, n=1)
    guess = f"did you mean {close[0]!r}? " if close else ""
    return f"{guess}choose from {listed(names)}"


def _read_config(ctx: click.Context, param: click.Parameter, path: Path | None) -> None:
    """Options from a file become defaults, so that those on the command line win."""
    if path is None:
        return
    try:
        stored = tomllib.loads(path.read_text("utf-8"))
    except OSError:
        raise InvalidDataError(f"no readable file at {path}: check --config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise InvalidParameterError(
            f"{path.name} is not TOML: write one option per line, such as epsilon = 1"
        ) from None
    known = {
        opt.removeprefix("--"): option.name
        for option in ctx.command.params
        for opt in option.opts
        if opt.startswith("--") and opt not in ("--config", "--help")
    }
    for key in stored:
        if key.replace("_", "-") not in known:
            raise InvalidParameterError(
                f"{path.name} holds the unknown option {key!r}: {did_you_mean(key, list(known))}"
            )
    ctx.default_map = {known[key.replace("_", "-")]: value for key, value in stored.items()}


def with_options(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Add options to a command, in their order."""

    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


BUDGET = (
    click.option("--epsilon", type=float, help="Budget; alone, a pure guarantee."),
    click.option("--delta", type=float, help="Failure probability, with --epsilon."),
    click.option("--rho", type=float, help="Budget of zero-concentrated privacy instead."),
)
ADJACENCY = click.option(
    "--adjacency",
    type=click.Choice(["replace-one", "add-remove"]),
    help="Which tables are neighbours; under add-remove the number of rows is private.",
)
NAMES = click.option(
    "--columns", type=_Names(), metavar="A,B,...", help="Columns of a CSV or parquet file."
)
K = click.option(
    "--k",
    type=_OrPrivate(int),
    metavar="INTEGER|private",
    help="Number of components; all by default.",
)
LEDGER = click.option("--ledger", type=PATH, metavar="FILE", help="The ledger to charge.")
JSON = click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
KEY = click.option(
    "--key", type=PATH, metavar="PUB.pem", help="Ask for a signature by this public key."
)
CONFIG = click.option(
    "--config",
    type=PATH,
    metavar="FILE.toml",
    is_eager=True,
    expose_value=False,
    callback=_read_config,
    help="Options by their names; the command line wins.",
)
ROW_NORM = click.option(
    "--row-norm",
    type=_OrPrivate(float),
    metavar="R|private",
    help="Distance from the centre that rows are clipped to.",
)
BOUNDS = click.option(
    "--bounds",
    type=_PerColumn(2, "LOW,HIGH or name=low:high,name=low:high"),
    metavar="LOW,HIGH|name=low:high,...",
    help="Public range of the entries.",
)
CENTERED = click.option("--assume-centered", is_flag=True, help="Take the origin as the centre.")
RELEASE = (
    NAMES,
    *BUDGET,
    ROW_NORM,
    BOUNDS,
    click.option(
        "--scale",
        type=_PerColumn(1, "private, numbers or name=number,name=number", "private"),
        metavar="private|NUMBERS|name=number,...",
        help="What columns are divided by.",
    ),
    click.option("--mechanism", help="See: eigenveil mechanisms."),
    ADJACENCY,
    CENTERED,
    click.option(
        "--unit", metavar="COLUMN", help="Protect all rows with the same value here together."
    ),
    click.option(
        "--on-invalid",
        type=click.Choice(["raise", "zero"]),
        help="Whether a row with a missing value stops the run or contributes nothing.",
    ),
    click.option(
        "--on-missing",
        type=click.Choice(["invalid", "centre"]),
        help="Whether a missing value makes its row invalid or is put at the centre.",
    ),
    LEDGER,
    click.option(
        "-o", "--output", type=PATH, metavar="FOLDER", required=True, help="A new folder."
    ),
    CONFIG,
    JSON,
)


def stated_budget(ctx: click.Context) -> dict[str, float]:
    """The budget as stated; one notion on the command line replaces another of a file."""
    given = {name: ctx.params[name] for name in ("epsilon", "delta", "rho")}
    typed = {
        name for name in given if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    if typed == {"rho"}:
        given = {"rho": given["rho"]}
    elif typed and "rho" not in typed:
        given["rho"] = None
    return {name: value for name, value in given.items() if value is not None}
