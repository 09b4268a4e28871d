"""``eigenveil plan --of regression``: what to expect of a regression."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from eigenveil.cli.options import beware, stated_budget
from eigenveil.cli.printing import say, say_json
from eigenveil.exceptions import InvalidParameterError

if TYPE_CHECKING:
    from eigenveil.planning.predict_regression import RegressionSituation
    from eigenveil.planning.prediction import Needed, Prediction
    from eigenveil.privacy.adjacency import Adjacency


_EMPTY_CELLS = (
    "hint: if cells may be empty, add --on-missing centre, and --on-invalid zero if those of the "
    "target may be"
)


def plan_regression(ctx: click.Context, data: str | None, options: Mapping[str, Any]) -> None:
    """Say what a regression would be like, and the command that releases it."""
    from eigenveil.cli.next_command import regress_command, start_of_ledger, tell_commands
    from eigenveil.planning.predict_regression import (
        needed_regression_epsilon,
        needed_regression_rows,
        predict_regression,
    )

    situation = _situation(ctx, data, options)
    error, answers = options["error"], {}
    if error is not None:
        answers["needed_epsilon"] = needed_regression_epsilon(situation, error)
        if stated_budget(ctx).keys() & {"epsilon", "rho"}:
            answers["needed_rows"] = needed_regression_rows(situation, error)
        else:
            situation = _affording(situation, answers["needed_epsilon"])
    expected = predict_regression(situation)
    alone = expected.error is not None and bool(expected.why)
    following = regress_command(ctx, data, situation.budget, means_alone=alone)
    first = start_of_ledger(ctx, data, situation)
    if options["as_json"]:
        known = {name: value for name, value in asdict(expected).items() if name != "refusal"}
        say_json(
            {
                "situation": str(situation),
                "prediction": {**known, "why": _why(expected), "serves": expected.serves},
                **{name: asdict(answer) for name, answer in answers.items()},
                "first": first,
                "next": following,
            }
        )
        return
    say(situation, "")
    if expected.error is None:
        say(f"without      {_why(expected)}")
    else:
        band = f"{expected.low:.3g} to {expected.high:.3g}"
        say(f"error        {expected.error:.3g} (8 of 10 releases: {band})")
        say(f"             {expected.measure}, if the table is as assumed")
        say(f"             the mean of the target alone loses {situation.r2:g}")
        if alone:
            more = f"more {situation.unit}s, a larger budget or stated --scale help"
            say(f"beware       {expected.why}: {more}")
    for answer in answers.values():
        say(f"for {error:<8g} {answer.words}")
    if expected.shares:
        parts = ", ".join(f"{name} {share:.3g}" for name, share in expected.shares)
        say(f"budget       {parts}")
    tell_commands(first, following)
    beware(situation.budget.as_dict())
    if data is not None and options["on_missing"] is None and options["on_invalid"] is None:
        say(_EMPTY_CELLS, err=True)


def _situation(
    ctx: click.Context, data: str | None, options: Mapping[str, Any]
) -> "RegressionSituation":
    from eigenveil.planning.predict_regression import RegressionSituation
    from eigenveil.privacy.adjacency import Adjacency
    from eigenveil.privacy.budget import Budget

    neighbours = Adjacency.parse(options["adjacency"] or Adjacency.REPLACE_ONE)
    wanted = stated_budget(ctx)
    if options["error"] is not None and not wanted.keys() & {"epsilon", "rho"}:
        wanted["epsilon"] = 1.0  # to begin with: the question is which one it takes
    rows, width = options["rows"], options["columns_count"]
    if any(levels == "private" for _, levels in options["encode"]):
        raise InvalidParameterError(
            "a regression finds no levels of categories: state them, --encode NAME=LEVEL,LEVEL"
        )
    if data is not None:
        rows, width = _size(data, options, rows, neighbours)
    if rows is None or width is None:
        raise InvalidParameterError(
            "give DATA, or --rows and --columns-count; under add-remove neighbours always --rows"
        )
    targets = 1 if options["target"] is None else len(options["target"])
    if targets != 1:
        raise InvalidParameterError(
            "a plan is for one --target: several share the budget among their stages"
        )
    if width < 2:
        raise InvalidParameterError("a regression needs a target and at least one other column")
    given = {name: options[name] for name in ("r2", "correlation") if options[name] is not None}
    known = isinstance(options["scale"], (tuple, dict)) or options["bounds"] is not None
    return RegressionSituation(
        n=rows,
        p=width - 1,
        budget=Budget(**wanted),
        adjacency=neighbours,
        scaled=known,
        unit="row" if options["unit"] is None else "person",
        **given,
    )


def _size(
    data: str, options: Mapping[str, Any], rows: int | None, neighbours: "Adjacency"
) -> tuple[int | None, int]:
    """Return the number of rows, if it is public or given, and that of columns, targets too."""
    from eigenveil.cli.plan import size_of
    from eigenveil.mechanisms.linear_rows import named_targets
    from eigenveil.rows.column_names import asking_for_regression

    target, columns = options["target"] or (), options["columns"]
    taken = None if columns is None else (*dict.fromkeys((*columns, *target)),)
    with asking_for_regression(target):
        sizes = size_of(data, {**options, "columns": taken}, rows, neighbours)
    rows, names, width, _ = sizes
    if target:
        named_targets(names, target)
    return rows, width


def _affording(situation: "RegressionSituation", needed: "Needed") -> "RegressionSituation":
    """Return the situation with the budget that the wanted error takes."""
    from eigenveil.privacy.budget import Budget

    if needed.value is None:
        raise InvalidParameterError(f"{needed.words}: ask for a larger --error")
    return replace(situation, budget=Budget(epsilon=needed.value, delta=situation.budget.delta))


def _why(one: "Prediction") -> str:
    return one.why if one.refusal is None else one.refusal.said("shell")
