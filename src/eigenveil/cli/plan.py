"""``eigenveil plan [DATA]``: what to expect, before anything is spent."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eigenveil.cli.options import (
    CONFIG,
    COUNT,
    JSON,
    PATH,
    SCALE_OF_PLAN,
    SHOW_SCORES,
    SHOW_SCORES_BY,
    VARIANCES,
    K,
    asked,
    beware,
    default_scale,
    stated_budget,
    with_options,
)
from eigenveil.cli.printing import say, say_json
from eigenveil.cli.values import Names, per_column
from eigenveil.exceptions import EigenveilError, InvalidParameterError
from eigenveil.text import percent, plural

if TYPE_CHECKING:
    from eigenveil.planning.prediction import Needed, Prediction, Recommendation
    from eigenveil.planning.request import Situation


_LOST = 0.5  # of the variance within reach
_DROWNED = 0.9  # relative error; that of the zero matrix is 1
_AS_ASKED = "as asked for"
_UNITS = "hint: columns in different units drown one another: --scale private standardises them"
_UNITS_STATED = "hint: columns in different units drown one another: state --scale or --bounds"
_ONE_UNIT = "--scale same, where all columns share one unit, spends nothing on them"
_EMPTY_CELLS = "hint: if cells may be empty, add --on-missing centre"

_PRIVATE_RANK = (
    "components   planned for {k}: --k private finds the number with a tenth of the budget, which "
    "the prediction leaves out"
)

_UNIT_ROWS = (
    "directions of rows scaled to unit length; --row-norm private asks for those of the covariance"
)

_STANDARDISED = (
    "components of standardised columns (correlations), of rows pulled in to the released limits; "
    "--scale same asks for those of columns as they are"
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
        type=click.Choice(["components", "covariance", "regression"]),
        default="components",
        show_default=True,
        help="What to release.",
    ),
    click.option(
        "--target",
        type=Names(),
        metavar="Y",
        help="Column to predict, with --of regression.",
    ),
    click.option(
        "--r2", type=float, help="Share of variance explained that a regression assumes; 0.5."
    ),
    click.option(
        "--correlation",
        type=float,
        help="Correlation of neighbouring features that a regression assumes; 0.3.",
    ),
    click.option("--rows", type=COUNT, help="Number of rows, instead of counting those of DATA."),
    click.option("--columns-count", type=COUNT, help="Number of columns, where DATA is not given."),
    K,
    VARIANCES,
    SHOW_SCORES,
    SHOW_SCORES_BY,
    *asked(SCALE_OF_PLAN),
    click.option(
        "-o", "--output", type=PATH, metavar="FOLDER", help="Folder that the release would go to."
    ),
    click.option(
        "--spectrum",
        type=click.Choice(["flat", "decaying", "steep"]),
        help="Assumed eigenvalues: equal, 1/j (the default) or 1/j^2.",
    ),
    click.option(
        "--spread",
        type=float,
        help="Typical length of a row that is assumed, as a share of the bound.",
    ),
    click.option(
        "--error",
        type=float,
        help="Find the epsilon, or the number of rows, that this error takes.",
    ),
    click.option(
        "--figure",
        type=PATH,
        metavar="FILE.png|svg",
        help="Draw predicted errors over a range of budgets into a new file.",
    ),
    CONFIG,
    JSON,
)
@click.pass_context
def plan(ctx: click.Context, /, data: str | None, **options: Any) -> None:
    """Predict the error of every mechanism and recommend one, from public numbers.

    Nothing is charged. Only the number of rows and the names of columns are read from DATA. Takes
    every option of fit, and ends with the command that releases as planned. Under add-remove
    neighbours the number of rows is private: give --rows, a guess that is public.
    """
    from eigenveil.cli.next_command import release_command, start_of_ledger, tell_commands
    from eigenveil.cli.rows import by_levels
    from eigenveil.planning.prediction import needed_epsilon, needed_rows
    from eigenveil.planning.reference_rates import reference

    options = by_levels(options)
    if options["of"] == "regression":
        from eigenveil.cli.plan_regression import plan_regression

        plan_regression(ctx, data, options)
        return
    if any(options[name] is not None for name in ("target", "r2", "correlation")):
        raise InvalidParameterError(
            "--target, --r2 and --correlation are those of a regression: --of regression"
        )
    if options["show_scores"] and options["k"] == "private":
        raise InvalidParameterError("scores are shown on a plane: state --k of 2 or more")
    figure = options["figure"]
    if figure is not None:
        _require_picture(figure)
    situation = situation_of(ctx, data, **options)
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
    advice = _advice(situation, options["mechanism"], options["mechanism_options"])
    following = release_command(ctx, data, situation, advice)
    first = start_of_ledger(ctx, data, situation)
    if figure is not None:
        from eigenveil.cli.plan_figure import draw

        draw(situation, advice, figure)
    if options["as_json"]:
        document = {
            "situation": str(situation),
            "mechanism": advice.mechanism,
            "reason": advice.reason,
            "unit_rows": advice.unit_rows,
            "standardised": advice.standardised,
            "prediction": _as_dict(advice.prediction),
            "predictions": [_as_dict(one) for one in advice.predictions],
            **{name: asdict(answer) for name, answer in answers.items()},
            "rates": [asdict(rate) for rate in reference(situation)],
            "figure": None if figure is None else str(figure),
            "first": first,
            "next": following,
        }
        say_json(document)
        return
    _tell(situation, advice, list(answers.values()), error)
    _tell_scales(situation, advice, options)
    if figure is not None:
        say(f"figure       {figure}")
    if options["k"] == "private":
        say(_PRIVATE_RANK.format(k=situation.k))
    if options["mechanism_options"]:
        say("options      predicted with the mechanism's own: those of --set are not looked at")
    tell_commands(first, following)
    beware(situation.budget.as_dict())
    mixed = options["of"] == "components" and not situation.private_scale
    if data is not None and situation.d > 1 and mixed and _free(options, "scale"):
        affordable = isinstance(_scale_share(situation, options["mechanism"]), float)
        say(_UNITS if affordable else _UNITS_STATED, err=True)
    if data is not None and options["on_missing"] is None and options["on_invalid"] is None:
        say(_EMPTY_CELLS, err=True)


def _advice(
    situation: "Situation", mechanism: str, options: Sequence[tuple[str, str]]
) -> "Recommendation":
    """Return what to use: the mechanism that was asked for, or the recommended one."""
    from eigenveil.cli.values import configured
    from eigenveil.mechanisms.registry import entry
    from eigenveil.planning.prediction import Recommendation, predict, predictions, recommend

    configured(situation.releases, mechanism, options)  # refuses what does not exist
    if mechanism == "auto":
        return recommend(situation)
    wanted = entry(situation.releases, mechanism)
    found = predict(situation, mechanism)
    if found.refusal is not None:
        raise found.refusal
    return Recommendation(
        mechanism=mechanism,
        reason=_AS_ASKED,
        rule=_AS_ASKED,
        prediction=found,
        predictions=predictions(situation, standardised=wanted.standardises),
        unit_rows=situation.request(wanted).normalises,
        private_radius=False,
        standardised=wanted.standardises,
    )


def _require_picture(figure: Path) -> None:
    """Refuse a taken name before a minute of predictions."""
    from eigenveil.storage.paths import require_new

    if figure.suffix.lower() not in (".png", ".svg"):
        raise InvalidParameterError(f"{figure}: give --figure a name in .png or .svg")
    require_new(figure, "choose a new file with --figure")
    if not figure.parent.is_dir():
        raise InvalidParameterError(f"no folder {figure.parent}: create it first")


def _affording(situation: "Situation", needed: "Needed") -> "Situation":
    """Return the situation with the budget that the wanted error takes."""
    from eigenveil.privacy.budget import Budget

    if needed.value is None:
        raise InvalidParameterError(f"{needed.words}: ask for a larger --error")
    return replace(situation, budget=Budget(epsilon=needed.value, delta=situation.budget.delta))


def _tell(
    situation: "Situation", advice: "Recommendation", answers: "list[Needed]", error: float | None
) -> None:
    say(situation, "")
    say(f"{'mechanism':<18}{'error':>8}  {'8 of 10 releases':<24}how")
    without: dict[str, list[str]] = {}
    for one in advice.predictions:
        if one.error is None:
            without.setdefault(_why(one), []).append(one.mechanism)
            continue
        band = f"{one.low:.3g} to {one.high:.3g}"
        say(f"{one.mechanism:<18}{one.error:>8.3g}  {band:<24}{one.how}")
    if without:
        say("")
    for why, names in without.items():
        say(f"without      {', '.join(names)}: {why}")
    if _exact(situation):
        say("", "error        none: all components keep all variance; give --k for fewer")
    else:
        if_so = (
            "as measured on real tables" if advice.standardised else "if the table is as assumed"
        )
        say("", f"error        {advice.prediction.measure}, {if_so}")
        if advice.standardised:
            say(f"captured     {_captured(situation, advice.prediction)}")
    for answer in answers:
        say(f"for {error:<8g} {answer.words}")
    expected = advice.prediction.error or 0.0
    if situation.task == "covariance" and expected > _DROWNED:
        say("beware       hardly better than the zero matrix: noise would drown the table")
    if situation.task == "pca" and expected > _LOST:
        say("beware       most of the variance would be lost to noise")
    title = "mechanism" if advice.reason == _AS_ASKED else "recommended"
    shown = "" if advice.prediction.error is None else f" ({advice.prediction.error:.3g})"
    say(f"{title:<13}{advice.mechanism}{shown}: {advice.rule}")
    if title == "recommended" and (better := _better(advice)) is not None:
        say(
            f"             {better.mechanism} ({better.error:.3g}) is ahead on the assumed table; "
            f"the rule was measured on real ones; --mechanism {better.mechanism} asks for it"
        )
    if advice.prediction.shares:
        parts = ", ".join(f"{name} {share:.3g}" for name, share in advice.prediction.shares)
        say(f"budget       {parts}")
    if situation.task == "pca":
        own = _STANDARDISED if advice.standardised else _OWN
        say(f"target       {_UNIT_ROWS if advice.unit_rows else own}")


def _captured(situation: "Situation", found: "Prediction") -> str:
    """Return how much of the variance the components are expected to hold."""
    count = f"{situation.k} {plural('component', situation.k or 1)}"
    any_other = "one" if situation.k == 1 else str(situation.k)
    assert found.error is not None  # simulated
    assert found.low is not None
    assert found.high is not None
    share, low, high = (percent(1 - error, 1) for error in (found.error, found.high, found.low))
    return (
        f"{count} should hold {share} of the variance of standardised columns that any {any_other} "
        f"could ({low} to {high} in 8 of 10 releases of real tables)"
    )


def _tell_scales(
    situation: "Situation", advice: "Recommendation", options: Mapping[str, Any]
) -> None:
    """Say what scales cost, or would cost."""
    if situation.task == "covariance":
        _tell_default_scales(situation, advice, options["scale"])
        return
    known = situation.known_scales
    need = "column of 0 and 1 needs" if known == 1 else "columns of 0 and 1 need"
    rest = f"; {known:,} {need} none" * bool(known)
    if situation.private_scale:
        share = dict(advice.prediction.shares).get("scale", 0.0)
        say(f"scales       found with {share:.0%} of the budget{rest}; {_ONE_UNIT}")
    elif situation.d > max(1, known) and not situation.variances and _free(options):
        found = _scale_share(situation, options["mechanism"])
        if isinstance(found, float):
            told = f"finds them with {found:.0%} of the budget"
        else:
            told = f"would be refused: {found.said('shell')}"
        say(f"scales       none are looked for; --scale private {told}{rest}")


def _tell_default_scales(situation: "Situation", advice: "Recommendation", scale: Any) -> None:
    """Say what the scales of a covariance cost, which looks for them by default."""
    from eigenveil.planning.prediction import default_scale_share

    share = default_scale_share(situation, advice.mechanism)
    if share is not None and scale in (None, "private"):
        say(f"scales       found with {share:.0%} of the budget; {_ONE_UNIT}")
    elif share is not None and scale == "same":
        say(
            "scales       none are looked for; without --scale same they would be found with "
            f"{share:.0%} of the budget"
        )


def _free(options: Mapping[str, Any], *more: str) -> bool:
    """Return whether no unit or bound of columns is stated."""
    return all(options[name] is None for name in ("bounds", "row_norm", *more))


def _scale_share(situation: "Situation", mechanism: str) -> "float | EigenveilError":
    """Return the share of the budget that private scales would take, or why they are refused."""
    from eigenveil.planning.prediction import private_scale_share

    try:
        return private_scale_share(situation, mechanism)
    except EigenveilError as error:
        return error


def _better(advice: "Recommendation") -> "Prediction | None":
    """Return the prediction that is better than the recommended one, if its mechanism serves."""
    best = advice.predictions[0]
    expected = advice.prediction.error
    ahead = expected is not None and best.error is not None and best.error < expected
    return best if ahead and best.serves else None


def _why(one: "Prediction") -> str:
    return one.why if one.refusal is None else one.refusal.said("shell")


def _as_dict(one: "Prediction") -> dict[str, Any]:
    """Return a prediction as JSON has it."""
    known = {name: value for name, value in asdict(one).items() if name != "refusal"}
    return {**known, "why": _why(one), "serves": one.serves}


def _exact(situation: "Situation") -> bool:
    return situation.k == situation.d


_COMPONENTS = 5  # planned for where none are asked for


def situation_of(ctx: click.Context, data: str | None, **options: Any) -> "Situation":
    """Return the public numbers of a release, and what is assumed about its table."""
    from eigenveil.planning.request import Situation
    from eigenveil.privacy.adjacency import Adjacency
    from eigenveil.privacy.budget import Budget

    neighbours = Adjacency.parse(options["adjacency"] or Adjacency.REPLACE_ONE)
    wanted = stated_budget(ctx)
    if options["error"] is not None and not wanted.keys() & {"epsilon", "rho"}:
        wanted["epsilon"] = 1.0  # to begin with: the question is which one it takes
    rows, columns, width = options["rows"], None, options["columns_count"]
    known = 0
    if data is not None:
        rows, columns, width, known = size_of(data, options, rows, neighbours)
    if rows is None or width is None:
        raise InvalidParameterError(
            "give DATA, or --rows and --columns-count; under add-remove neighbours always --rows"
        )
    reach = _reach(columns, width, options)
    scale = options["scale"]
    if scale is None and options["of"] == "components":
        # A table that is only counted is taken for one whose columns have names.
        scale = default_scale(width, options, named=columns is not None or data is None)
    optional = {name: options[name] for name in ("spectrum", "spread")}
    row_norm, centring = options["row_norm"], options["centring"]
    return Situation(
        task="pca" if options["of"] == "components" else "covariance",
        n=rows,
        d=width,
        k=_components(options, width, None if options["unit"] else rows),
        budget=Budget(**wanted),
        adjacency=neighbours,
        row_norm=None if row_norm == "private" else row_norm,
        private_radius=row_norm == "private",
        bounded=options["bounds"] is not None,
        per_column=isinstance(options["bounds"], dict),
        reach=reach,
        assume_centered=centring == "none",
        centring=None if centring == "none" else centring,
        private_scale=scale == "private" and known < width,
        known_scales=known,
        same_units=scale not in (None, "private"),
        variances=options["variances"],
        show_scores=bool(options["show_scores"]),
        missing=options["on_missing"] == "centre",
        unit="row" if options["unit"] is None else "person",
        **{name: value for name, value in optional.items() if value is not None},
    )


def _components(options: Mapping[str, Any], width: int, rows: int | None) -> int | None:
    """Return the number of components; a few where it is not stated, or to be found privately."""
    k = options["k"]
    if options["of"] == "covariance":
        return k if isinstance(k, int) else None
    if not isinstance(k, int):
        fewer = width if rows is None else min(width, rows)
        return max(1, min(_COMPONENTS, fewer - 1))
    return int(k)


def _reach(columns: Sequence[str] | None, width: int, options: Mapping[str, Any]) -> float | None:
    """Return what a covariance must know of ranges beside a row norm; bounds and scales are
    checked as in fit.
    """
    from eigenveil.planning.bounds import box_of, reach_of
    from eigenveil.planning.request import public_scale

    scale = public_scale(_expanded("scale", columns, width, options), width)
    bounds = _expanded("bounds", columns, width, options)
    if bounds is None:
        return None
    reach = reach_of(box_of(bounds, width), scale, centred=options["centring"] == "none")
    both = isinstance(options["row_norm"], float) and options["of"] == "covariance"
    return reach if both else None


def _expanded(
    name: str, columns: Sequence[str] | None, width: int, options: Mapping[str, Any]
) -> Any:
    """Return the numbers of an option in the order of columns, which may be counted only."""
    value = options[name]
    if columns is not None or not isinstance(value, dict):
        return per_column(f"--{name}", value, columns)
    if len(value) != width:
        raise InvalidParameterError(
            f"--{name} names {len(value)} and --columns-count says {width}: make them agree"
        )
    return per_column(f"--{name}", value, tuple(value))


def size_of(
    data: str, options: Mapping[str, Any], rows: int | None, neighbours: Any
) -> tuple[int | None, tuple[str, ...] | None, int, int]:
    """Return rows, where their number is public and was not given, and columns of a file.

    With a unit, it is persons that are counted. The last number is that of columns that are 0 or 1
    for a level.
    """
    from eigenveil.cli.progress import watched
    from eigenveil.cli.rows import ROW_OPTIONS, open_table
    from eigenveil.exact.gram import public_rows
    from eigenveil.planning.request import encoded_scale
    from eigenveil.rows.base import with_one_level_each

    text: Any = "invalid" if options["on_invalid"] == "zero" else "refused"
    source = open_table(data, text=text, **{name: options[name] for name in ROW_OPTIONS})
    source = with_one_level_each(source)
    if rows is None and neighbours.count_is_public:
        with watched(source, count_is_public=options["unit"] is None) as counted:
            rows = public_rows(counted)
    known = encoded_scale(source.schema.feature_names, source.schema.encoding)
    encoded = 0 if known is None else int((known > 0).sum())
    return rows, source.schema.feature_names, source.n_columns, encoded
