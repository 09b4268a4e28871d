"""The commands that release as planned: whole, with a ledger and a folder, ready to be run."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from eigenveil.cli import command
from eigenveil.cli.printing import say
from eigenveil.text import joined, quoted, typed

if TYPE_CHECKING:
    from eigenveil.planning.choice import Choice
    from eigenveil.planning.predict_regression import RegressionSituation
    from eigenveil.planning.prediction import Recommendation
    from eigenveil.planning.request import Situation
    from eigenveil.privacy.budget import Budget


_FOLDER = "release"
_RELEASES = 2  # that a new ledger is granted for


def release_command(
    ctx: click.Context, data: str | None, situation: "Situation", advice: "Recommendation | Choice"
) -> str:
    """Return the command that releases as planned: every option that was given, and what is new."""
    name = "fit" if ctx.params["of"] == "components" else "covariance"
    release = command(name)
    stated = {
        option.name: ctx.params[option.name]
        for option in release.params
        if option.name in ctx.params and _was_given(ctx, option.name)
    }
    stated |= _found(ctx.params, situation, advice)
    stated["ledger"] = str(_ledger(ctx.params["ledger"], data))
    stated["output"] = ctx.params["output"] or _new_folder()
    return command_line(release, data, stated)


def regress_command(
    ctx: click.Context, data: str | None, budget: "Budget", *, means_alone: bool
) -> str:
    """Return the command that releases a regression, or means alone, as planned."""
    release = command("regress")
    stated = {
        option.name: ctx.params[option.name]
        for option in release.params
        if option.name in ctx.params and _was_given(ctx, option.name)
    }
    stated |= dict.fromkeys(("epsilon", "delta", "rho")) | budget.as_dict()
    stated["target"] = ctx.params["target"] or ("TARGET",)
    stated["means_alone"] = means_alone
    stated["ledger"] = str(_ledger(ctx.params["ledger"], data))
    stated["output"] = ctx.params["output"] or _new_folder()
    return command_line(release, data, stated)


def command_line(called: click.Command, data: str | None, stated: Mapping[str, Any]) -> str:
    """Return a command with its options as they are typed."""
    options = ((option, stated.get(option.name or "")) for option in called.params)
    words = chain.from_iterable(_typed(option, value) for option, value in options)
    return typed(["eigenveil", called.name or "", data or "DATA", *words])


def start_of_ledger(
    ctx: click.Context, data: str | None, situation: "Situation | RegressionSituation"
) -> str | None:
    """Return the command that starts the ledger of the next one; None where there is one."""
    ledger = _ledger(ctx.params["ledger"], data)
    if ledger.exists():
        return None
    words = ["eigenveil", "ledger", "init", str(ledger)]
    for notion, size in situation.budget.as_dict().items():
        total = size if notion == "delta" else _RELEASES * size
        words += [f"--{notion}", _written(total)]
    if not situation.adjacency.count_is_public:
        words += ["--adjacency", situation.adjacency.value]
    if situation.unit != "row":
        words += ["--unit", "person"]
    return typed(words)


def tell_commands(first: str | None, following: str) -> None:
    """Print the commands that release as planned, in the order in which to run them."""
    if first is not None:
        say(f"first        {first}  # a total for all releases of this table: choose yours")
    say(f"next         {following}")


def _was_given(ctx: click.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source in (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP)


def _found(
    given: Mapping[str, Any], situation: "Situation", advice: "Recommendation | Choice"
) -> dict[str, Any]:
    """Return what the plan decided: a budget, a number of components, a mechanism that auto would
    not choose by itself.
    """
    from eigenveil.planning.choice import choose

    # A release knows no more than this; a guess at the table may have tipped the scales.
    known = situation.n if situation.adjacency.count_is_public else None
    automatic = choose(replace(situation, n=known, spread=None, spectrum="decaying"))
    chosen = (advice.mechanism, advice.private_radius)
    as_is = chosen == (automatic.mechanism, automatic.private_radius)
    found: dict[str, Any] = dict.fromkeys(("epsilon", "delta", "rho"))
    found |= situation.budget.as_dict()
    if given["k"] is None and situation.k != situation.d:
        found["k"] = situation.k
    if given["scale"] is None and situation.private_scale:
        found["scale"] = "private"
    if given["mechanism"] == "auto":
        found["mechanism"] = None if as_is else advice.mechanism
        if advice.private_radius and not as_is:
            found["row_norm"] = "private"
    return found


def _ledger(given: Path | None, data: str | None) -> Path:
    """Return the ledger that was named, or one named like the table."""
    if given is not None:
        return given
    stem = "table" if data in (None, "-") else Path(str(data)).name.split(".")[0]
    return Path(f"{stem or 'table'}.ledger")


def _new_folder() -> str:
    """Return a folder that does not exist."""
    names = (_FOLDER if i == 1 else f"{_FOLDER}-{i}" for i in count(1))
    return next(name for name in names if not Path(name).exists())


def _typed(option: click.Parameter, value: Any) -> Iterator[str]:
    """Yield an option as it is typed; nothing where it is not."""
    if value is None or value is False or not isinstance(option, click.Option):
        return
    name = option.opts[0]
    if value is True:
        yield name
    elif option.multiple:
        for column, setting in value:
            yield from (name, _assigned(column, setting))
    elif option.name == "show_scores_by":
        yield from (name, _assigned(*value))
    elif option.name in ("columns", "drop", "target"):
        yield from (name, joined(value))
    else:
        yield from (name, _written(value))


def _assigned(name: str, setting: Any) -> str:
    """Return a setting as it is typed: a rule for all columns has no name, levels to be found are
    none.
    """
    if not name:
        return str(setting)
    if setting == "private":
        return joined([name])
    if isinstance(setting, list):
        # Without quotes a single level such as 2024-01-31 would be read as a date.
        levels = quoted(*setting) if len(setting) == 1 else joined(setting)
        return f"{joined([name])}={levels}"
    return f"{joined([name])}={setting}"


def _written(value: Any) -> str:
    """Return an option's value as it is typed."""
    if isinstance(value, dict):
        return ",".join(
            f"{joined([name])}={':'.join(map(_written, pair))}" for name, pair in value.items()
        )
    if isinstance(value, tuple):
        return ",".join(map(_written, value))
    if isinstance(value, float):
        short = f"{value:.12g}"
        return short if float(short) == value else repr(value)
    return str(value)
