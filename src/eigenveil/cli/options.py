"""Options that several commands share."""

import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

import click
from click.core import ParameterSource

from eigenveil.cli.printing import say
from eigenveil.cli.values import (
    Assignment,
    Encoded,
    Limited,
    Names,
    OrPrivate,
    PerColumn,
    strict_json,
)
from eigenveil.exceptions import (
    ColumnsLeftOutWarning,
    ComponentsWarning,
    EmptyCellsWarning,
    InvalidDataError,
    InvalidParameterError,
    UnfinishedLineWarning,
    WeakPromiseWarning,
    WholeTurnsWarning,
)
from eigenveil.storage.paths import read_regular
from eigenveil.text import did_you_mean

Option = Callable[[Any], Any]
_LARGEST_CONFIG = 1 << 24  # bytes
_DEEPEST = 200  # folders in a path: Python makes them one inside the other


class _FilePath(click.Path):
    """A path; a configuration file could hold other things."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Read one value."""
        if not isinstance(value, (str, Path)) or "\0" in str(value):
            self.fail("give the path of a file", param, ctx)
        if len(Path(value).parts) > _DEEPEST:
            self.fail(f"give a path of at most {_DEEPEST} folders", param, ctx)
        return super().convert(value, param, ctx)


PATH = _FilePath(path_type=Path)
COUNT = click.IntRange(max=10**15)  # beyond, nothing can be said about a table
_LARGEST = 1e300  # integers may be larger than any float
Function = TypeVar("Function", bound=Callable[..., Any])


def _read_config(ctx: click.Context, param: click.Parameter, path: Path | None) -> None:
    """Make options from a file defaults, so that those on the command line win."""
    if path is None:
        return
    stored = _document(path)
    known = {
        opt.removeprefix("--"): option
        for option in ctx.command.params
        for opt in option.opts
        if opt.startswith("--") and opt not in ("--config", "--help")
    }
    defaults = {}
    for key, value in stored.items():
        option = known.get(key.replace("_", "-"))
        if option is None:
            raise InvalidParameterError(
                f"{path.name} holds the unknown option {key!r}: {did_you_mean(key, list(known))}"
            )
        if (wanted := _wanted(option, value)) is not None:
            raise InvalidParameterError(f"{path.name} holds no {wanted} for {key}: give one")
        defaults[option.name] = value
    ctx.default_map = defaults


def _document(path: Path) -> dict[str, Any]:
    """Return the options in a TOML file, or in a JSON file, by name."""
    as_json = path.suffix.lower() == ".json"
    try:
        data = read_regular(path, _LARGEST_CONFIG)
        return strict_json(data) if as_json else tomllib.loads(data.decode())
    except OSError:
        raise InvalidDataError(f"no readable file at {path}: check --config") from None
    except (ValueError, RecursionError):  # another format, not UTF-8, numbers of too many digits
        advice = (
            'is not a JSON object: write options by name, such as {"epsilon": 1}'
            if as_json
            else "is not TOML: write one option per line, such as epsilon = 1"
        )
        raise InvalidParameterError(f"{path.name} {advice}") from None


def _wanted(option: click.Parameter, value: Any) -> str | None:
    """Return what an option wants instead of a value of another kind: click knows words alone."""
    if isinstance(option, click.Option) and option.is_flag:
        return None if isinstance(value, bool) else "true or false"
    if isinstance(option, click.Option) and option.multiple and not isinstance(value, list):
        return "list"
    number = type(value) in (int, float) and abs(value) < _LARGEST  # true is an int to Python
    match option.type:
        case click.types.FloatParamType():
            return None if number or isinstance(value, str) else "number"
        case click.types.IntParamType():
            whole = number and isinstance(value, int)
            return None if whole or isinstance(value, str) else "whole number"
        case click.types.StringParamType() | click.Choice() | click.Path():
            return None if isinstance(value, str) else "text"
    return None  # our own kinds look for themselves


def with_options(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Add options to a command, in their order."""

    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


BUDGET = (
    click.option(
        "--epsilon", type=float, help="Privacy budget; without --delta, a pure guarantee."
    ),
    click.option("--delta", type=float, help="Failure probability that goes with --epsilon."),
    click.option(
        "--rho", type=float, help="Budget of zero-concentrated privacy, instead of --epsilon."
    ),
)
ADJACENCY = click.option(
    "--adjacency",
    type=click.Choice(["replace-one", "add-remove"]),
    help="Which tables count as neighbours. Under add-remove the number of rows is private.",
)
NAMES = click.option(
    "--columns", type=Names(), metavar="A,B,...", help="Columns to analyse, by name."
)
AS_WRITTEN = (
    click.option(
        "--censored",
        type=Limited(),
        multiple=True,
        metavar="[NAME=]RULE",
        help="Rule for cells such as <0.5: count them as missing, limit or half.",
    ),
    click.option(
        "--as-number",
        type=Names(),
        metavar="A,B,...",
        help="Columns to read without percent and currency signs: 13.5% as 13.5.",
    ),
    click.option(
        "--decimal",
        type=click.Choice([".", ","]),
        help="Decimal mark; the other one separates thousands. If it is not stated, cells such as "
        "1,000 are invalid.",
    ),
    click.option(
        "--encoding", default=None, metavar="NAME", help="Encoding of a text file, such as latin-1."
    ),
)
DROP = click.option("--drop", type=Names(), metavar="A,B,...", help="Columns to leave out.")
CELLS = (
    DROP,
    click.option(
        "--encode",
        type=Encoded(),
        multiple=True,
        metavar="NAME[=LEVEL,LEVEL|=DATE]",
        help="Turn a column of text into numbers: 0 or 1 for each level, or days since a date. "
        "Levels are found privately if none are given.",
    ),
    *AS_WRITTEN,
)
STATED_LEVELS = click.option(
    "--encode",
    type=Encoded(),
    multiple=True,
    metavar="NAME=LEVEL,LEVEL|=DATE",
    help="Turn a column of text into numbers: 0 or 1 for each stated level, or days since a date.",
)
K = click.option(
    "--k",
    type=OrPrivate(int, shares=True),
    metavar="INTEGER|SHARE|private",
    help="Number of components, or the share of variance they should hold. All by default.",
)
LEDGER = click.option("--ledger", type=PATH, metavar="FILE", help="Ledger to charge.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
KEY = click.option(
    "--key", type=PATH, metavar="PUB.pem", help="Ask for a signature by this public key."
)
CONFIG = click.option(
    "--config",
    type=PATH,
    metavar="FILE.toml|.json",
    is_eager=True,
    expose_value=False,
    callback=_read_config,
    help="File of options by name. Those on the command line win.",
)
ROW_NORM = click.option(
    "--row-norm",
    type=OrPrivate(float),
    metavar="R|private",
    help="Clip rows at this distance from the centre; private finds it.",
)
BOUNDS = click.option(
    "--bounds",
    type=PerColumn(2, "LOW,HIGH or name=low:high,name=low:high"),
    metavar="LOW,HIGH|name=low:high,...",
    help="Public range of the columns. Never take it from the data.",
)


def _centring(*ways: str, more: str = "") -> Option:
    help = f"How to find the centre; none takes the origin.{more}"
    return click.option("--centring", type=click.Choice(["none", *ways]), help=help)


CENTRING = _centring("mean", "located", "paired", more=" Chosen for you by default.")
LOCATED = _centring("located")


def numbers(name: str, help: str, *words: str) -> Option:
    """Return an option of numbers for columns, or of one of some words."""
    kinds = ", ".join((*words, "numbers or name=number,name=number"))
    metavar = "|".join((*words, "NUMBERS", "name=number,..."))
    return click.option(name, type=PerColumn(1, kinds, *words), metavar=metavar, help=help)


def _scale(default: str) -> Option:
    """Return the option for scales; ``default`` says what happens without it."""
    told = (
        "Divide columns by these numbers. private finds them; same takes columns as they are, in "
        "one unit."
    )
    return numbers("--scale", f"{told} {default}", "private", "same")


SCALE_OF_COMPONENTS = _scale(
    "Where columns have names, the default is private unless --bounds, --row-norm, --variances or "
    "another --mechanism is given."
)
SCALE_OF_COVARIANCE = _scale(
    "By default scales are found where neither --bounds nor --row-norm is given. The matrix is in "
    "the units of the data."
)
SCALE_OF_STREAM = _scale("By default columns are taken as they are.")
SCALE_OF_PLAN = _scale("The default is that of fit, or of covariance with --of covariance.")
UNIT = click.option(
    "--unit", metavar="COLUMN", help="Protect all rows that share a value of this column together."
)
INVALID = (
    click.option(
        "--on-invalid",
        type=click.Choice(["raise", "zero"]),
        help="Let a row with an invalid value stop the run, or contribute nothing.",
    ),
    click.option(
        "--on-missing",
        type=click.Choice(["invalid", "centre"]),
        help="Take a row with a missing value as invalid, or put the value at the centre.",
    ),
)
SIGN = click.option(
    "--sign", type=PATH, metavar="KEY.pem", help="Sign the folder with this private key."
)
OUTPUT = click.option(
    "-o", "--output", type=PATH, metavar="FOLDER", required=True, help="New folder for the release."
)
ABOUT = (
    click.option("--title", metavar="TEXT", help="Title of the release, for its page."),
    click.option("--purpose", metavar="TEXT", help="Purpose of the release."),
    click.option("--owner", metavar="TEXT", help="Name of whoever answers for the data."),
    click.option("--approver", metavar="TEXT", help="Name of whoever approves the release."),
)
VARIANCES = click.option(
    "--variances", is_flag=True, help="Buy variances in the units of the data."
)
SHOW_SCORES = click.option(
    "--show-scores",
    is_flag=True,
    help="Buy a map of where rows lie on the first two components, with a tenth of the budget.",
)
SHOW_SCORES_BY = click.option(
    "--show-scores-by",
    type=Encoded(),
    metavar="NAME[=LEVEL,LEVEL]",
    help="Buy such a map for each level of a column. Levels are found privately if none are given. "
    "The column is not analysed unless it is encoded.",
)
CLUSTER = click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Address of a Dask scheduler, such as tcp://host:8786. Its workers read the files.",
)
PROGRESS = click.option(
    "--progress", is_flag=True, help="Report progress on standard error, as lines of JSON."
)
TABLE_VERSION = click.option(
    "--table-version", hidden=True, help="Refuse DATA unless it is this version of the file."
)
_BEFORE_SCALE = (NAMES, *CELLS, *BUDGET, ROW_NORM, BOUNDS)
_AFTER_SCALE = (
    click.option(
        "--mechanism",
        default="auto",
        show_default=True,
        help="Name from eigenveil mechanisms. auto takes what eigenveil plan recommends.",
    ),
    click.option(
        "--set",
        "mechanism_options",
        type=Assignment(),
        multiple=True,
        metavar="NAME=VALUE",
        help="Set an option of the mechanism, such as passes=6 for power.",
    ),
    ADJACENCY,
    CENTRING,
    UNIT,
    *INVALID,
    LEDGER,
    SIGN,
    *ABOUT,
    CLUSTER,
    PROGRESS,
)


def asked(scale: Option) -> tuple[Option, ...]:
    """Return the options of a release, beside where it goes."""
    return (*_BEFORE_SCALE, scale, *_AFTER_SCALE)


def of_release(scale: Option) -> tuple[Option, ...]:
    """Return all options of a release."""
    return (*asked(scale), OUTPUT, TABLE_VERSION, CONFIG, JSON)


def beware(budget: Mapping[str, Any], rows: int | None = None) -> None:
    """Say on standard error what a budget of this size hardly promises."""
    from eigenveil.privacy.budget import Budget

    notions = {name: budget[name] for name in ("epsilon", "delta", "rho") if name in budget}
    for weakness in Budget(**notions).weaknesses(rows):
        say(f"beware: {weakness}", err=True)


@contextmanager
def bewaring() -> Iterator[None]:
    """Say on standard error what Python warns of, such as a weak promise or columns left out."""

    def shown(message: Warning | str, category: type[Warning], *args: Any, **more: Any) -> None:
        if issubclass(category, ours):
            told = message.said("shell") if isinstance(message, ComponentsWarning) else message
            say(f"beware: {told}", err=True)
        else:
            usual(message, category, *args, **more)

    ours = (
        WeakPromiseWarning,
        ColumnsLeftOutWarning,
        EmptyCellsWarning,
        UnfinishedLineWarning,
        WholeTurnsWarning,
        ComponentsWarning,
    )
    with warnings.catch_warnings():
        usual = warnings.showwarning
        for category in ours:
            warnings.simplefilter("always", category)
        warnings.showwarning = shown
        yield


def stated_budget(ctx: click.Context) -> dict[str, float]:
    """Return the budget as stated; one notion on the command line replaces another of a file."""
    given = {name: ctx.params[name] for name in ("epsilon", "delta", "rho")}
    typed = {
        name for name in given if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    if typed == {"rho"}:
        given = {"rho": given["rho"]}
    elif typed and "rho" not in typed:
        given["rho"] = None
    return {name: value for name, value in given.items() if value is not None}


_AS_THEY_ARE = ("bounds", "row_norm", "variances")
_STANDARDISING = ("auto", "correlation")
_SAME_KIND = 1000  # columns: so many are mostly genes, words or pixels, of one kind


def default_scale(
    n_columns: int, options: Mapping[str, Any], *, named: bool
) -> Literal["private"] | None:
    """Return the scale of components where none is stated: columns with names have units.

    Columns without names, of one kind (a thousand and more) or a single one are taken as they are,
    and so is whatever is stated about rows as they are. All of this is public.
    """
    stated = any(options.get(name) for name in _AS_THEY_ARE)
    free = not stated and options["mechanism"] in _STANDARDISING
    return "private" if named and 1 < n_columns < _SAME_KIND and free else None
