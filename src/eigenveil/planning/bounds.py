"""Turn the bounds a caller states into clips, and into words."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import LARGEST_NORM, Clip
from eigenveil.exceptions import BoundsRequiredError, InvalidDataError, InvalidParameterError
from eigenveil.mechanisms.centre import CentredResult
from eigenveil.messages import BOUNDS, Part, option
from eigenveil.privacy.budget import as_float
from eigenveil.privacy.clauses import (
    CENTRE_CLAUSES,
    MODEL_CLAUSE,
    UNIT_LENGTH_CLAUSE,
    ZEROED_CLAUSE,
    changed_clause,
    clamping_clause,
    clipping_clause,
    drawn_clause,
    entries_clause,
    further_clipping_clause,
    with_unit_distance,
)
from eigenveil.text import listed

if TYPE_CHECKING:
    from eigenveil.mechanisms.linear import LinearModel
    from eigenveil.planning.linear_plan import RegressionPlan
    from eigenveil.planning.plans import Plan

RowNorm = float | Literal["private"]
OnInvalid = Literal["raise", "zero"]
OnMissing = Literal["invalid", "centre"]
Box = tuple[NDArray[np.float64], NDArray[np.float64]]
_LARGEST = 1e50  # squares of bounds must not overflow


@dataclass(frozen=True, slots=True, eq=False)
class StatedBounds:
    """Public bounds on rows, resolved for a number of columns.

    Attributes
    ----------
    start : Clip
        How rows are bounded before a centre is known.
    clip : Clip
        How rows are bounded about the origin, once they are assumed centred.
    words : tuple of str
        The bounds and their origin, for the guarantee.
    stated : bool
        Whether ``clip`` has a length that rows are clipped at.
    private : bool
        Whether that length is chosen privately.
    box : pair of arrays, optional
        The stated range in the units of the columns; that of ``clip`` is in scaled ones.

    """

    start: Clip
    clip: Clip
    words: tuple[str, ...]
    stated: bool = True
    private: bool = False
    box: Box | None = None

    @classmethod
    def by_model(cls, on_invalid: OnInvalid) -> "StatedBounds":
        """Return the bounds of rows whose assumed law bounds them."""
        clip = Clip(row_norm=1.0, on_invalid=on_invalid)
        return cls(clip, clip, (MODEL_CLAUSE,), stated=False)

    @classmethod
    def unit_rows(
        cls, on_invalid: OnInvalid, on_missing: OnMissing, *, components: bool = True
    ) -> "StatedBounds":
        """Return the bounds of rows that are scaled to unit length: they need none.

        Those of a covariance are clipped as well, where a private search says.
        """
        norm = 1.0 if components else LARGEST_NORM
        clip = Clip(row_norm=norm, on_invalid=on_invalid, on_missing=on_missing)
        words = f"none needed: {UNIT_LENGTH_CLAUSE}"
        return cls(clip, clip, (words,), stated=False)

    @classmethod
    def resolve(
        cls,
        row_norm: RowNorm | None,
        stated: Box | None,
        *,
        scale: NDArray[np.float64] | None,
        centred: bool,
        on_invalid: OnInvalid,
        on_missing: OnMissing,
        subject: str,
        trace_bound: float | None = None,
    ) -> "StatedBounds":
        """Validate what the caller gave; refuse where nothing bounds a row.

        Without ``row_norm``, rows are clipped at the reach of the box. ``scale`` divides columns,
        and with them the box.
        """
        if row_norm is None and stated is None:
            raise BoundsRequiredError(
                f"{subject} needs a bound: give ",
                BOUNDS,
                " for the entries or ",
                option("row_norm", "R"),
                " for the length of a row, never taken from the data, or ",
                option("row_norm", "private"),
                " to pay for one",
            )
        box, centre = stated, None
        words = []
        if stated is not None:
            words.append(clamping_clause(*stated))
            box = stated if scale is None else _divided(stated, scale)
            centre = None if centred else (box[0] + box[1]) / 2
        private = isinstance(row_norm, str)
        if private:
            if row_norm != "private":
                raise InvalidParameterError(
                    option("row_norm"), " must be a positive number or 'private'"
                )
            norm = LARGEST_NORM if box is None else _reach(box, centre)
        elif row_norm is not None:
            norm = _number(option("row_norm"), row_norm)
            words.append(clipping_clause(norm, "stated by the caller"))
        else:
            norm = _reach(box, centre)
            words.append(clipping_clause(norm, "a public rule from the stated range"))
        if trace_bound is not None:
            most = _trace(trace_bound, norm)
            words.append(
                f"total variance held at {most:.6g} after the noise (stated by the caller)"
            )
        clip = Clip(row_norm=norm, box=box, on_invalid=on_invalid, on_missing=on_missing)
        # Before the centre is known, a row is bounded by the box or else by the same norm.
        reach = norm if box is None else _reach(box, centre)
        start = replace(clip, row_norm=reach, centre=centre)
        return cls(start, clip, tuple(words), not private, private, stated)

    def of_unit_rows(self) -> "StatedBounds":
        """Return the same for rows that are scaled to unit length, within the stated range."""
        return replace(self, words=(self.words[0], UNIT_LENGTH_CLAUSE), stated=False)

    def chosen(self, radius: float | None, words: tuple[str, ...]) -> "StatedBounds":
        """Return the same with the length that was chosen privately, where it was to be."""
        if not self.private or radius is None:
            return replace(self, words=words)
        clip = replace(self.clip, row_norm=radius)
        return replace(self, clip=clip, stated=True, words=words)

    def words_with(self, chosen: float | None) -> tuple[str, ...]:
        """Return the bounds with one that was chosen privately, within the stated one."""
        if chosen is None:
            return self.words
        if self.private or not self.stated:
            return (*self.words, clipping_clause(chosen, "chosen privately"))
        return (*self.words, further_clipping_clause(chosen))

    def as_dict(self) -> dict[str, Any]:
        """Return the bounds as settings of a release."""
        box = self.box
        return {
            "row_norm": self.clip.row_norm if self.stated else None,
            "bounds": None if box is None else {"low": box[0].tolist(), "high": box[1].tolist()},
        }


def ranges_by_name(
    bounds: Mapping[Any, Any], names: Sequence[str] | NDArray[Any] | None
) -> tuple[list[Any], list[Any]]:
    """Lows and highs in the order of the columns, from ``{name: (low, high)}``."""
    if names is None:
        raise InvalidParameterError(
            "bounds by name need a table with names: pass a frame or a file, or give two arrays"
        )
    if unknown := [name for name in bounds if name not in names]:
        raise InvalidDataError(f"bounds name a column that is not there: {unknown[0]!r}")
    if missing := [name for name in names if name not in bounds]:
        raise InvalidDataError(f"bounds have no range for the column {missing[0]!r}: add one")
    try:
        low, high = zip(*(bounds[name] for name in names), strict=True)
    except (TypeError, ValueError):
        raise InvalidParameterError("bounds by name are {name: (low, high), ...}") from None
    return list(low), list(high)


def by_column(bounds: Any) -> bool:
    """Return whether ranges are stated column by column; no range is refused here."""
    try:
        return any(np.ndim(bound) > 0 for bound in bounds)
    except (TypeError, ValueError):
        return False


def _divided(box: Box, scale: NDArray[np.float64]) -> Box:
    with np.errstate(over="ignore"):
        low, high = box[0] / scale, box[1] / scale
    if not max(np.abs(low).max(), np.abs(high).max()) <= _LARGEST:
        raise InvalidParameterError(f"bounds divided by the scales must lie within {_LARGEST:g}")
    if not (high - low).max() > 1 / _LARGEST:
        raise InvalidParameterError("bounds divided by the scales leave no room")
    return low, high


def _number(name: Part, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidParameterError(name, " must be a positive number")
    number = as_float(value)
    if not number > 0:
        raise InvalidParameterError(name, " must be positive")
    return number


def _trace(trace_bound: Any, row_norm: float) -> float:
    number = _number("trace_bound", trace_bound)
    if number > row_norm**2:
        raise InvalidParameterError(
            f"trace_bound allows more than the bound on rows does: rows within {row_norm:g} have a "
            f"trace of at most {row_norm**2:g}; lower trace_bound or leave it out"
        )
    return number


def _are_pairs(bounds: Any) -> bool:
    """Return whether bounds are written column by column."""
    try:
        listed = isinstance(bounds, (list, np.ndarray)) and len(bounds) > 0
        return listed and np.ndim(bounds[0]) > 0
    except (TypeError, ValueError):  # what they are, is said later
        return False


def box_of(bounds: Any, n_columns: int) -> Box:
    """Lowest and highest values, one for each column."""
    if _are_pairs(bounds):
        raise InvalidParameterError(  # of two columns, pairs would be taken for lows and highs
            "write bounds as a tuple, ([low, ...], [high, ...]), or by name, {name: (low, high)}"
        )
    try:
        low, high = (np.broadcast_to(np.asarray(b, dtype=np.float64), (n_columns,)) for b in bounds)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameterError(
            "bounds must be (low, high), each one number or one number per column, or "
            "{name: (low, high)}"
        ) from None
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()):
        raise InvalidParameterError("bounds must be finite, with low not above high")
    if max(np.abs(low).max(), np.abs(high).max()) > _LARGEST:
        raise InvalidParameterError(f"bounds must lie within {_LARGEST:g} of zero")
    if not (high - low).max() > 1 / _LARGEST:
        raise InvalidParameterError("bounds leave no room: low equals high in every column")
    return low, high


def reach_of(box: Box, scale: NDArray[np.float64] | None, *, centred: bool) -> float:
    """Return the distance from the public start to the farthest corner of a box, once scaled."""
    box = box if scale is None else _divided(box, scale)
    return _reach(box, None if centred else (box[0] + box[1]) / 2)


def _reach(box: Box | None, centre: NDArray[np.float64] | None) -> float:
    """Distance from the public start to the farthest corner of the box."""
    assert box is not None  # resolve() was given row_norm or bounds
    start = 0.0 if centre is None else centre
    corner = np.maximum(np.abs(box[0] - start), np.abs(box[1] - start))
    return math.sqrt(float(corner @ corner))


def bounds_of(
    plan: "Plan", result: CentredResult[Any], names: Sequence[str] | None
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


def further_words(plan: "Plan") -> tuple[str, ...]:
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


def _bound_words(plan: "Plan", result: CentredResult[Any]) -> tuple[str, ...]:
    stated, chosen = plan.stated, getattr(result.inner, "row_norm", None)
    chooses = plan.tightens or not plan.components
    words = stated.words_with(chosen if chooses else None)
    return with_unit_distance(words, result.unit_distance)


def centre_words(plan: "Plan", *, differences: bool) -> str:
    """Return how the centre is found."""
    if differences:
        return CENTRE_CLAUSES["paired"]
    if plan.centring != "located":
        return CENTRE_CLAUSES[plan.centring]
    within = "within the stated range" if plan.request.box is not None else "without a bound"
    return f"{CENTRE_CLAUSES['located']} {within}"


def _scale_words(
    plan: "Plan", result: CentredResult[Any], names: Sequence[str] | None
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
    plan: "Plan", result: CentredResult[Any], names: Sequence[str] | None
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
    plan: "Plan", result: CentredResult[Any], names: Sequence[str] | None
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
    plan: "RegressionPlan", released: "LinearModel", names: Sequence[str] | None
) -> tuple[str, ...]:
    """Describe what bounds records, and its origin."""
    request, words = plan.request, []
    joined = plan.procedure is plan.joined
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


def _alone_words(plan: "RegressionPlan") -> str:
    why = "public numbers allow no coefficients"
    procedure: Any = plan.procedure  # `LinearStages`, which alone release means
    block = getattr(procedure.targets[0].offset, "block", None)  # of a median of means
    if block is None or block == 1:
        return f"only {'means' if block is None else 'medians'}: {why}"
    return f"only medians of means of {block:.3g} rows each on average: {why}"


def _feature_words(
    plan: "RegressionPlan", released: "LinearModel", names: Sequence[str] | None
) -> list[str]:
    if released.gram is None:
        return []
    if plan.procedure is plan.joined:  # which refines known scales, too
        return [private_scale_words("features", released.scale, names, known=False)]
    if plan.shares.scale:
        known = plan.request.known_scale is not None
        return [private_scale_words("features", released.scale, names, known=known)]
    if plan.request.scale is not None:
        return ["features divided by scales stated by the caller"]
    ranges = plan.request.box is not None
    return ["features divided by half their stated ranges"] if ranges else []
