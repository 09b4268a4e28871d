"""``eigenveil plan [DATA]``: what to expect, before anything is spent."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eigenveil.cli.options import (
    ADJACENCY,
    BOUNDS,
    BUDGET,
    CENTRING,
    CONFIG,
    COUNT,
    JSON,
    NAMES,
    PATH,
    ROW_NORM,
    K,
    beware,
    stated_budget,
    with_options,
)
from eigenveil.cli.printing import say, say_json
from eigenveil.cli.values import per_column
from eigenveil.exceptions import InvalidParameterError
from eigenveil.text import joined

if TYPE_CHECKING:
    from eigenveil.planner import Needed, Prediction, Recommendation, Situation

__all__ = ["command"]

_LOST = 0.5  # of the variance within reach
_DROWNED = 0.9  # relative error; that of the zero matrix is 1
_UNITS = (
    "hint: columns in different units drown one another: --scale private finds scales with a part "
    "of the budget"
)
_UNIT_ROWS = (
    "directions of rows scaled to unit length; --row-norm private asks for those of the covariance"
)
_OWN = (
    "directions of the covariance, of clipped rows; --mechanism spherical asks for those of unit "
    "rows, with less noise"
)


@click.command("plan")
@click.argument("data", required=False)
@with_options(
    click.option(
        "--of",
        type=click.Choice(["components", "covariance"]),
        default="components",
        show_default=True,
        help="What to release.",
    ),
    NAMES,
    click.option("--rows", type=COUNT, help="Number of rows, instead of that of DATA."),
    click.option("--columns-count", type=COUNT, help="Number of columns, without DATA."),
    K,
    *BUDGET,
    ROW_NORM,
    BOUNDS,
    ADJACENCY,
    CENTRING,
    click.option(
        "--spectrum",
        type=click.Choice(["flat", "decaying", "steep"]),
        help="Assumed eigenvalues: equal, 1/j (the default) or 1/j^2.",
    ),
    click.option(
        "--spread", type=float, help="Assumed typical length of a row, as a share of the bound."
    ),
    click.option("--error", type=float, help="An error wanted: which epsilon, how many rows?"),
    click.option(
        "--figure",
        type=PATH,
        metavar="FILE.png|svg",
        help="Draw errors over a decade of budgets into a new file.",
    ),
    CONFIG,
    JSON,
)
@click.pass_context
def command(ctx: click.Context, /, data: str | None, **options: Any) -> None:
    """Predict the error of every mechanism and recommend one, from public numbers.

    Of DATA, only the number of rows and the columns are looked at; nothing is charged. Under
    add-remove neighbours the number of rows is private: give --rows, a guess that is public.
    """
    from eigenveil.planner import needed_epsilon, needed_rows, recommend, reference

    figure = options["figure"]
    if figure is not None:
        _require_picture(figure)
    columns, situation = _situation(ctx, data, **options)
    error, answers = options["error"], {}
    if _exact(situation) and (error is not None or figure is not None):
        raise InvalidParameterError(
            "there is no error to plan for, as all components keep all variance: give --k"
        )
    if error is not None:
        answers["needed_epsilon"] = needed_epsilon(situation, error)
        if stated_budget(ctx).keys() & {"epsilon", "rho"}:
            answers["needed_rows"] = needed_rows(situation, error)
        else:
            situation = _affording(situation, answers["needed_epsilon"])
    advice = recommend(situation)
    following = _next(ctx.params, data, columns, situation, advice)
    if figure is not None:
        from eigenveil.cli.figure import draw

        draw(situation, advice, figure)
    if options["as_json"]:
        document = {
            "situation": str(situation),
            "mechanism": advice.mechanism,
            "reason": advice.reason,
            "unit_rows": advice.unit_rows,
            "private_scales": advice.scales,
            "prediction": _as_dict(advice.prediction),
            "predictions": [_as_dict(one) for one in advice.predictions],
            **{name: asdict(answer) for name, answer in answers.items()},
            "rates": [asdict(rate) for rate in reference(situation)],
            "figure": None if figure is None else str(figure),
            "next": following,
        }
        say_json(document)
        return
    _tell(situation, advice, list(answers.values()), error)
    if figure is not None:
        say(f"figure       {figure}")
    say(f"next         {following}")
    beware(situation.budget.as_dict())
    bounded = options["bounds"] is not None or options["row_norm"] is not None
    if data is not None and situation.d > 1 and not bounded:
        say(_UNITS, err=True)


def _require_picture(figure: Path) -> None:
    """Refuse a taken name before a minute of predictions."""
    from eigenveil.storage.places import require_new

    if figure.suffix.lower() not in (".png", ".svg"):
        raise InvalidParameterError(f"{figure}: give --figure a name in .png or .svg")
    require_new(figure, "choose a new file with --figure")
    if not figure.parent.is_dir():
        raise InvalidParameterError(f"no folder {figure.parent}: create it first")


def _situation(
    ctx: click.Context, data: str | None, **options: Any
) -> tuple[tuple[str, ...] | None, "Situation"]:
    """Return names of the columns, where there are any, and the public numbers."""
    from eigenveil.planner import Situation
    from eigenveil.privacy.adjacency import Adjacency
    from eigenveil.privacy.budget import Budget

    neighbours = Adjacency.parse(options["adjacency"] or Adjacency.REPLACE_ONE)
    wanted = stated_budget(ctx)
    if options["error"] is not None and not wanted.keys() & {"epsilon", "rho"}:
        wanted["epsilon"] = 1.0  # to begin with: the question is which one it takes
    bounded = options["bounds"] is not None
    for name in ("k", "row_norm"):
        if options[name] == "private":
            raise InvalidParameterError(
                f"what is found privately cannot be planned with: guess a number for "
                f"--{name.replace('_', '-')}"
            )
    rows, columns, width = options["rows"], None, options["columns_count"]
    if data is not None:
        rows, columns, width = _size(data, options["columns"], rows, neighbours)
    if rows is None or width is None:
        raise InvalidParameterError(
            "give DATA, or --rows and --columns-count; under add-remove neighbours always --rows"
        )
    reach = _reach(columns, width, options)
    optional = {name: options[name] for name in ("spectrum", "spread", "row_norm")}
    return columns, Situation(
        task="pca" if options["of"] == "components" else "covariance",
        n=rows,
        d=width,
        k=options["k"],
        budget=Budget(**wanted),
        adjacency=neighbours,
        bounded=bounded,
        per_column=isinstance(options["bounds"], dict),
        reach=reach,
        assume_centered=options["centring"] == "none",
        **{name: value for name, value in optional.items() if value is not None},
    )


def _reach(columns: Sequence[str] | None, width: int, options: Mapping[str, Any]) -> float | None:
    """Return what a covariance must know of ranges beside a row norm; any bounds are checked as in
    fit.
    """
    from eigenveil.mechanisms.bounds import box_of, reach_of

    bounds, row_norm = options["bounds"], options["row_norm"]
    if bounds is None:
        return None
    if columns is not None or not isinstance(bounds, dict):
        bounds = per_column("--bounds", bounds, columns)
    elif len(bounds) != width:
        raise InvalidParameterError(
            f"--bounds names {len(bounds)} and --columns-count says {width}: make them agree"
        )
    else:
        bounds = tuple(zip(*bounds.values(), strict=True))
    if isinstance(bounds, dict):
        bounds = tuple(zip(*bounds.values(), strict=True))
    reach = reach_of(box_of(bounds, width), None, centred=options["centring"] == "none")
    both = row_norm is not None and options["of"] == "covariance"
    return reach if both else None


def _affording(situation: "Situation", needed: "Needed") -> "Situation":
    """Return the situation with the budget that the wanted error takes."""
    from eigenveil.privacy.budget import Budget

    if needed.value is None:
        raise InvalidParameterError(f"{needed.words}: ask for a larger --error")
    return replace(situation, budget=Budget(epsilon=needed.value, delta=situation.budget.delta))


def _size(
    data: str, chosen: tuple[str, ...] | None, rows: int | None, neighbours: Any
) -> tuple[int | None, tuple[str, ...] | None, int]:
    """Return rows, where their number is public and was not given, and columns of a file."""
    from eigenveil.cli.progress import watched
    from eigenveil.cli.rows import open_table
    from eigenveil.data.gram import public_rows

    source = open_table(data, columns=chosen)
    if rows is None and neighbours.count_is_public:
        with watched(source, count_is_public=True) as counted:
            rows = public_rows(counted)
    return rows, source.feature_names, source.n_columns


def _tell(
    situation: "Situation", advice: "Recommendation", answers: "list[Needed]", error: float | None
) -> None:
    say(situation, "")
    say(f"{'mechanism':<18}{'error':>8}  {'8 of 10 releases':<24}how")
    for one in advice.predictions:
        if one.error is None:
            say(f"{one.mechanism:<18}{'-':>8}  {'':<24}{_why(one)}")
            continue
        band = f"{one.low:.3g} to {one.high:.3g}"
        say(f"{one.mechanism:<18}{one.error:>8.3g}  {band:<24}{one.how}")
    if _exact(situation):
        say("", "error        none: all components keep all variance; give --k for fewer")
    else:
        say("", f"error        {advice.prediction.measure}, if the table is as assumed")
    for answer in answers:
        say(f"for {error:<8g} {answer.words}")
    expected = advice.prediction.error or 0.0
    if situation.task == "covariance" and expected > _DROWNED:
        say("beware       hardly better than the zero matrix: noise would drown the table")
    if situation.task == "pca" and expected > _LOST:
        say("beware       most of the variance would be lost to noise")
    say(f"recommended  {advice.mechanism}: {advice.reason}")
    if advice.prediction.shares:
        parts = ", ".join(f"{name} {share:.3g}" for name, share in advice.prediction.shares)
        say(f"budget       {parts}")
    if situation.task == "pca":
        say(f"target       {_UNIT_ROWS if advice.unit_rows else _OWN}")
    if situation.n is not None and situation.adjacency.count_is_public and situation.d > 1:
        found = (
            f"one for each of {situation.d:,} columns" if advice.scales else "one for all, at most"
        )
        say(f"scales       --scale private would find {found}")


def _why(one: "Prediction") -> str:
    return one.why if one.refusal is None else one.refusal.said("shell")


def _as_dict(one: "Prediction") -> dict[str, Any]:
    """Return a prediction as JSON has it."""
    known = {name: value for name, value in asdict(one).items() if name != "refusal"}
    return {**known, "why": _why(one), "serves": one.serves}


def _exact(situation: "Situation") -> bool:
    return situation.k == situation.d


def _next(
    given: Mapping[str, Any],
    data: str | None,
    columns: Sequence[str] | None,
    situation: "Situation",
    advice: "Recommendation",
) -> str:
    """Return the command that releases as planned."""
    from eigenveil.planner import choose

    # A release knows no more than this; a guess at the table may have tipped the scales.
    known = situation.n if situation.adjacency.count_is_public else None
    automatic = choose(replace(situation, n=known, spread=None, spectrum="decaying"))
    chosen = (advice.mechanism, advice.private_radius)
    as_is = chosen == (automatic.mechanism, automatic.private_radius)
    bought = "private" if advice.private_radius and not as_is else None
    words = ["eigenveil", "fit" if given["of"] == "components" else "covariance", data or "DATA"]
    stated = {
        "--columns": None if columns is None else joined(columns),
        "--k": given["k"],
        **{f"--{name}": size for name, size in situation.budget.as_dict().items()},
        "--row-norm": given["row_norm"] if bought is None else bought,
        "--bounds": given["bounds"],
        "--adjacency": given["adjacency"],
        "--mechanism": None if as_is else advice.mechanism,
    }
    for option, value in stated.items():
        if value is not None:
            words += [option, _written(value)]
    centred = ["--centring", "none"] if given["centring"] == "none" else []
    return shlex.join([*words, *centred, "-o", "FOLDER"])


def _written(value: Any) -> str:
    """Return an option's value as it is typed."""
    if isinstance(value, dict):
        return ",".join(f"{name}={':'.join(map(_written, pair))}" for name, pair in value.items())
    if isinstance(value, tuple):
        return ",".join(map(_written, value))
    return f"{value:.12g}" if isinstance(value, float) else str(value)
