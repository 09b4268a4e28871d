"""What bounds rows in a release, and where that comes from, in words: one place for all tasks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.mechanisms.centre import CentredResult
from eigenveil.mechanisms.joined import JoinedRegression
from eigenveil.mechanisms.linear import LinearModel, LinearStages
from eigenveil.mechanisms.median_of_means import MedianOfMeans
from eigenveil.planning.linear_plan import RegressionPlan
from eigenveil.planning.plans import Plan
from eigenveil.privacy.clauses import (
    CENTRE_CLAUSES,
    ZEROED_CLAUSE,
    changed_clause,
    drawn_clause,
    entries_clause,
    with_unit_distance,
)
from eigenveil.text import listed


def bounds_of(
    plan: Plan, result: CentredResult[Any], names: Sequence[str] | None
) -> tuple[str, ...]:
    """Return what bounds rows, and where that comes from."""
    centre = centre_words(plan, differences=result.differences)
    drawn = () if result.drawn_rows is None else (drawn_clause(result.drawn_rows),)
    if result.drawn_rows == 0:
        return (*drawn, *_bound_words(plan, result), *further_words(plan))
    words = [*drawn, *_bound_words(plan, result), centre, *_scale_words(plan, result, names)]
    if result.turn is not None:
        assert result.column_limit is not None  # both come together
        shortest = float(result.turn.min())
        words.append(entries_clause(result.column_limit, shortest))
    spread = getattr(result.inner, "spread", None)
    if spread is not None:
        persons = plan.request.unit.owns_many
        words.append(changed_clause(spread.changed, spread.changed_noise, of_persons=persons))
    chosen = result.inner.row_norm if plan.components and not plan.tightens else None
    if chosen is not None:
        words.append(
            f"rows pulled in to {chosen * result.pair_factor:.6g} for the variances (chosen "
            "privately)"
        )
    return (*words, *further_words(plan))


def further_words(plan: Plan) -> tuple[str, ...]:
    """Return what becomes of cells that hold no numbers, and of several rows of one person."""
    request = plan.request
    words = [
        *invalid_words(
            request.on_invalid,
            request.on_missing,
            corrects=plan.corrects_missing,
            pairs="pairs" in plan.shares,
            counted=request.adjacency.count_is_public or plan.counted,
        )
    ]
    if request.unit.owns_many:
        words.append(f"all rows of one {request.unit.name} together weigh as one row")
    if plan.entry.batches and not request.rereadable:
        words.append("rows used in the order in which they came: a sorted table misleads")
    return tuple(words)


def _bound_words(plan: Plan, result: CentredResult[Any]) -> tuple[str, ...]:
    stated, chosen = plan.stated, getattr(result.inner, "row_norm", None)
    chooses = plan.tightens or not plan.components
    words = stated.words_with(chosen if chooses else None)
    return with_unit_distance(words, result.unit_distance)


def centre_words(plan: Plan, *, differences: bool) -> str:
    """Return how the centre is found."""
    if differences:
        return CENTRE_CLAUSES["paired"]
    if plan.centring != "located":
        return CENTRE_CLAUSES[plan.centring]
    within = "within the stated range" if plan.request.box is not None else "without a bound"
    return f"{CENTRE_CLAUSES['located']} {within}"


def _scale_words(
    plan: Plan, result: CentredResult[Any], names: Sequence[str] | None
) -> tuple[str, ...]:
    """Return what columns were divided by, in words."""
    if plan.entry.standardises:
        return _deviation_words(plan, result, names)
    if result.scale is not None:
        known = plan.request.known_scale is not None
        words = private_scale_words("columns", result.scale, names, known=known)
        return (words,) if plan.components else (words, *_hidden_words(plan, result, names))
    if plan.request.divides_by_ranges:
        hidden = _hidden_words(plan, result, names)
        return ("columns divided by half their stated ranges", *hidden)
    stated = ("columns divided by scales stated by the caller",)
    return stated if plan.request.scale is not None else ()


def _deviation_words(
    plan: Plan, result: CentredResult[Any], names: Sequence[str] | None
) -> tuple[str, ...]:
    """Return that columns were divided by released standard deviations, and which are guesses."""
    d = plan.request.n_columns
    kept = np.arange(d) if result.scale is None else np.flatnonzero(np.isfinite(result.scale))
    known = np.isfinite(result.inner.deviations)
    guessed = kept[result.inner.hidden].tolist()
    left = np.setdiff1d(np.arange(d), kept[known]).tolist()
    told = "columns divided by released standard deviations"
    if guessed:
        told += f"; noise hides those of {listed(_named(guessed, names))}, taken as large as noise"
    if left:
        told += f"; left out, as no variance was found for them: {listed(_named(left, names))}"
    return (told,)


def _hidden_words(
    plan: Plan, result: CentredResult[Any], names: Sequence[str] | None
) -> tuple[str, ...]:
    """Return which variances are zero, by name, but for columns that are constant as stated."""
    matrix, box = result.inner.matrix, plan.request.box
    found = np.ones(len(matrix)) if result.scale is None else result.scale
    zero = np.zeros(found.size, dtype=bool)
    zero[np.isfinite(found)] = matrix.diagonal() == 0
    if box is not None:
        zero &= box[0] < box[1]
    hidden = np.flatnonzero(zero).tolist()
    told = f"variances that noise hides are zero: {listed(_named(hidden, names))}"
    return (told,) if hidden and result.inner.noise_scale > 0 else ()


def private_scale_words(
    what: str, scale: NDArray[np.float64], names: Sequence[str] | None, *, known: bool
) -> str:
    """Return that columns were divided by scales, and which were left out, by name."""
    left = np.flatnonzero(np.isinf(scale)).tolist()
    found = scale[np.isfinite(scale)]
    if found.size > 1 and (found == found[0]).all() and not (known or left):
        return f"{what} divided by one private scale, as all seem to share a unit"
    but = ", those that are 0 or 1 by 1" * known
    without = f"; left out, as no scale was found for them: {listed(_named(left, names))}"
    return f"{what} divided by private scales{but}{without * bool(left)}"


def _named(columns: Sequence[int], names: Sequence[str] | None) -> list[str]:
    return [f"x{j}" if names is None else names[j] for j in columns]


def invalid_words(
    on_invalid: str,
    on_missing: str,
    *,
    corrects: bool,
    pairs: bool = False,
    counted: bool = True,
) -> tuple[str, ...]:
    """Return what happens to rows and cells that hold no numbers.

    ``pairs`` says whether shares of pairs of present cells correct products, and ``counted``
    whether invalid rows are among those that sums are divided by.
    """
    filled: tuple[str, ...] = ()
    if on_missing == "centre":
        shares = "private shares of pairs of cells" if pairs else "private shares"
        how = "for reasons unrelated to their values" if pairs else "at random"
        allowed = f", and moments corrected for them by {shares}, as if missing {how}"
        filled = (f"empty cells taken as the centre's{allowed if corrects else ''}",)
    still = ", but are counted: variances shrink by their share" if counted else ""
    invalid = (f"{ZEROED_CLAUSE}{still}",)
    return (*filled, *(invalid if on_invalid == "zero" else ()))


def regression_bounds(
    plan: RegressionPlan, released: LinearModel, names: Sequence[str] | None
) -> tuple[str, ...]:
    """Describe what bounds records, and its origin."""
    request, words = plan.request, []
    joined = isinstance(plan.procedure, JoinedRegression)
    if plan.targets.boxes is None and (plan.means_alone or released.gram is None):
        words.append("none needed for the target: its ranks alone count")
    elif plan.targets.boxes is None:
        where = "lengths" if joined else "quantiles"
        words.append(f"none needed for the target: residuals clipped at private {where}")
    else:
        words.append("targets clamped to stated ranges before their means are taken")
    if plan.means_alone:
        words.append(_alone_words(plan))
    elif released.gram is None:
        words.append("only medians of means: no scale was found for the target")
    elif joined:
        words.append("rows and residuals clipped about a private centre at private lengths")
    elif request.row_norm is not None:
        words.append(
            f"records longer than {released.row_norm:.6g} pulled in to that length (stated by "
            "the caller)"
        )
    elif released.row_norm is not None:
        words.append(
            f"records longer than {released.row_norm:.6g} pulled in to that length (chosen "
            "privately)"
        )
    else:
        words.append("every record scaled to unit length, whatever its length")
    words += _feature_words(plan, released, names)
    if request.on_missing == "centre":
        words.append("empty cells taken as the centre's")
    if request.on_invalid == "zero":
        words.append(ZEROED_CLAUSE)
    if request.unit.owns_many:
        words.append(f"all rows of one {request.unit.name} together weigh as one row")
    return tuple(words)


def _alone_words(plan: RegressionPlan) -> str:
    why = "public numbers allow no coefficients"
    assert isinstance(plan.procedure, LinearStages)  # which alone releases means
    found = plan.procedure.targets[0].offset
    if not isinstance(found, MedianOfMeans) or found.block == 1:
        middle = "medians" if isinstance(found, MedianOfMeans) else "means"
        return f"only {middle}: {why}"
    return f"only medians of means of {found.block:.3g} rows each on average: {why}"


def _feature_words(
    plan: RegressionPlan, released: LinearModel, names: Sequence[str] | None
) -> list[str]:
    if released.gram is None:
        return []
    if isinstance(plan.procedure, JoinedRegression):  # which refines known scales, too
        return [private_scale_words("features", released.scale, names, known=False)]
    if plan.shares.scale:
        known = plan.request.known_scale is not None
        return [private_scale_words("features", released.scale, names, known=known)]
    if plan.request.scale is not None:
        return ["features divided by scales stated by the caller"]
    ranges = plan.request.box is not None
    return ["features divided by half their stated ranges"] if ranges else []
