"""From a request to its plan; what public numbers rule out is refused before anything is read."""

from collections.abc import Callable
from dataclasses import replace
from numbers import Real
from typing import Any

from eigenveil.exact.batches import check_batches
from eigenveil.exceptions import (
    BoundsRequiredError,
    EigenveilError,
    InvalidParameterError,
    TooFewRowsError,
    UnsupportedNotionError,
)
from eigenveil.mechanisms.bounds import StatedBounds
from eigenveil.mechanisms.pca.correlation import needed_strength
from eigenveil.mechanisms.registry import ComponentEntry, Entry, entries
from eigenveil.mechanisms.request import Centring, Request
from eigenveil.mechanisms.scalars.column_scale import enough_for_scales
from eigenveil.mechanisms.scalars.distances import SEARCHABLE_STRENGTH
from eigenveil.mechanisms.stages import Plan, free_centring
from eigenveil.mechanisms.sufficient import what_would_do
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import whole_strength
from eigenveil.privacy.cost import Gaussian
from eigenveil.rows.derived import check_pairs, require_public_count
from eigenveil.text import plural
from eigenveil.wording import (
    BOUNDS,
    REPLACE_ONE,
    SAME_UNIT,
    SHOW_SCORES,
    Part,
    Phrase,
    option,
)

__all__ = ["plan"]

_SUBJECT = {"components": "clipping", "covariance": "a covariance of clipped rows"}
_ONE_PASS = {"components": "spherical", "covariance": "cleaned"}
_LEAST_LEFT = 0.05  # of the budget, for what is released in the end


Other = Callable[[int, Budget], Request]


class _TooFewError(Exception):
    """Public numbers rule a plan out: too few rows for something.

    ``instead`` is what else would help.
    """

    def __init__(self, what: str, *instead: Part) -> None:
        super().__init__(what)
        self.what, self.instead = what, instead


def plan(request: Request, other: Other | None = None) -> Plan:
    """Return the stages of a release, calibrated; refuse what public numbers rule out.

    A refusal names a number of rows and a budget that would do. ``other`` returns the request for
    other ones, where the mechanism would be chosen anew; by default it stays.
    """
    try:
        return _plan(request)
    except _TooFewError as refused:
        raise _too_few(refused, request, other or _same_mechanism(request)) from None


def _same_mechanism(request: Request) -> Other:
    return lambda rows, budget: replace(request, n_rows=rows, budget=budget)


def _too_few(refused: _TooFewError, request: Request, other: Other) -> TooFewRowsError:
    """Return the error about a plan, with what would do."""

    def accepts(rows: int, budget: Budget) -> bool:
        try:
            _plan(other(rows, budget))
        except (_TooFewError, EigenveilError):
            return False
        return True

    assert request.n_rows is not None  # nothing is ruled out by a private number
    enough = what_would_do(accepts, request.n_rows, request.budget, request.unit.name)
    return TooFewRowsError(
        f"too few rows for {refused.what} at this budget: ",
        enough or "give more rows or a larger budget",
        *(("; or ", *refused.instead) if refused.instead else ()),
    )


def _plan(request: Request) -> Plan:
    entry = request.mechanism
    if entry.standardises:
        request = _with_radius(request)
    pure = request.budget.is_pure or not entry.has_gaussian
    if pure and not entry.has_pure:
        raise _not_pure(entry)
    _check_together(request, entry)
    entry.check(request)
    found = Plan(
        request=request,
        pure=pure,
        normalise=request.normalises,
        stated=_stated(request),
        centring=_centring(request, pure),
        n_components=request.wanted_components() if request.releases == "components" else 0,
        lazy=_lazy(request),
    )
    if not (request.rereadable or found.reads_once):
        raise request.read_once(_ONE_PASS[request.releases])
    if request.show_scores:
        _check_scores(found)
    if found.centring == "paired":
        require_public_count(request.adjacency, persons=request.unit.owns_many)
    # Where no centre is found, pairs have to do.
    if found.centring in ("paired", "located") and found.n_rows is not None:
        check_pairs(found.n_rows, persons=request.unit.owns_many)
    _check_searches(found)
    if entry.batches:
        method: Any = found.inner(found.strength)
        method.check_records(request.n_columns, found.n_differences, found.rows_each)
    return found


def _with_radius(request: Request) -> Request:
    """Return the request with a private radius for a pure budget; the front finds its own."""
    stated = isinstance(request.row_norm, Real) or request.box is not None
    if stated:
        return request
    return replace(request, row_norm="private" if request.budget.is_pure else None)


def _check_scores(found: Plan) -> None:
    """Refuse to show scores of what has no plane, no centre or no frame."""
    request = found.request
    if request.private_rank or found.n_components < 2:
        raise InvalidParameterError(
            "scores are shown on a plane: state ", option("n_components"), " of 2 or more"
        )
    if not request.adjacency.count_is_public:
        raise UnsupportedNotionError(
            "showing scores needs a public number of rows: choose ", REPLACE_ONE
        )
    if found.entry.batches:
        raise InvalidParameterError(
            f"{found.entry.name!r} reads rows once, and scores are counted afterwards: choose "
            "another mechanism, or leave ",
            SHOW_SCORES,
            " out",
        )
    if request.centring == "paired":
        raise InvalidParameterError(
            "scores lie about a centre, and differences of pairs of rows have none: choose "
            "another ",
            option("centring"),
            ", or leave ",
            SHOW_SCORES,
            " out",
        )
    if found.centring == "paired":
        raise _TooFewError("the centre that a map of scores needs", "leave ", SHOW_SCORES, " out")


def _not_pure(entry: Entry) -> UnsupportedNotionError:
    others = (e.name for e in entries(entry.releases) if e.auto and not e.has_gaussian)
    choices: list[Part] = []
    for name in others:
        choices += [", or choose ", option("mechanism", name)]
    return UnsupportedNotionError(
        f"{entry.name!r} adds Gaussian noise and cannot give a pure epsilon guarantee: give delta "
        "as well, or rho",
        *choices,
    )


def _check_together(request: Request, entry: Entry) -> None:
    """Refuse options that do not go together."""
    if entry.batches:
        check_batches(request.unit, request.adjacency)
    if request.row_norm is not None and not entry.uses_lengths:
        raise InvalidParameterError(
            f"{entry.name!r} uses directions of rows and no length: leave ",
            option("row_norm"),
            " out, or choose ",
            option("mechanism", "analyze-gauss"),
        )
    if request.variances and not request.normalises:
        units = "standardised columns" if entry.standardises else "the data already"
        raise InvalidParameterError(
            f"explained_variance_ is in the units of {units}: leave variances out"
        )
    if request.private_rank or request.variance_share is not None:
        request.wanted_components()
        if entry.pays_per_component:
            raise InvalidParameterError(
                f"the cost of {entry.name!r} depends on the number of components: state it, or "
                "leave the mechanism out"
            )


def _lazy(request: Request) -> bool:
    entry = request.mechanism
    if not isinstance(entry, ComponentEntry):
        return False
    lazy = entry.is_lazy(request.n_columns, request.wanted_components())
    if lazy and (request.private_rank or request.variance_share is not None):
        raise InvalidParameterError(
            "a private number of components needs the whole matrix: state ",
            option("n_components"),
            ", or pass ",
            Phrase(
                python=f"mechanism={type(entry).__name__}(lazy=False)",
                shell="--set lazy=false",
                file="a mechanism that forms it",
            ),
        )
    return lazy


def _stated(request: Request) -> StatedBounds:
    """Return how rows are bounded, and in words."""
    if request.mechanism.assumption is not None:
        return StatedBounds.by_model(request.on_invalid)
    nothing = request.box is None and request.row_norm is None
    if nothing and (request.normalises or request.mechanism.unit_rows):
        return StatedBounds.unit_rows(
            request.on_invalid, request.on_missing, components=not request.of_matrix
        )
    stated = StatedBounds.resolve(
        request.row_norm,
        request.box,
        scale=request.column_scale,
        centred=request.centred,
        on_invalid=request.on_invalid,
        on_missing=request.on_missing,
        subject=_SUBJECT[request.releases],
        trace_bound=getattr(request.mechanism, "trace_bound", None),
    )
    return stated.of_unit_rows() if request.normalises else stated


def _centring(request: Request, pure: bool) -> Centring:
    """Return how the centre is found, from public numbers."""
    centring = request.centring
    bounded = request.clips and (request.box is not None or isinstance(request.row_norm, Real))
    if centring == "mean" and not bounded:
        raise BoundsRequiredError(
            option("centring", "mean"),
            " is for rows clipped at a stated ",
            BOUNDS,
            " or ",
            option("row_norm"),
            ": state one, or leave ",
            option("centring"),
            " out",
        )
    if centring is not None:
        return centring
    return free_centring(
        request.budget,
        pure=pure,
        n_rows=request.n_rows,
        n_columns=request.n_columns,
        ranges=request.clips and request.box is not None,
        scaled=request.private_scale and request.of_matrix,
    )


def _check_searches(found: Plan) -> None:
    """Refuse searches that would mostly fail, before anything is charged."""
    request = found.request
    if found.counted:
        return  # too few rows are found out by the count, after the charge
    if found.front:
        if found.entry.standardises:
            _check_standardised(found)
        elif not found.searchable():
            raise _no_radius()
        return
    mixed = request.private_scale or (request.unstated and request.n_columns > 1)
    if mixed and not request.adjacency.count_is_public:
        raise request.private_count()
    if request.private_scale and not enough_for_scales(found.whole, found.n_rows, request.n_sought):
        raise _TooFewError(
            f"private scales of {request.n_sought} {plural('column', request.n_sought)}",
            "state ",
            SAME_UNIT,
            ", or state ",
            option("scale"),
            " or ",
            option("bounds"),
            *((", or analyse fewer columns",) if request.n_sought > 1 else ()),
        )
    if list(found.shares.values())[-1] < _LEAST_LEFT:
        raise _TooFewError(
            "all that is searched for",
            "state scales or the number of components, or leave variances out",
        )
    free = request.box is None and not isinstance(request.row_norm, Real)
    matrix = free and not found.components and found.entry.unit_rows and not found.pure
    if matrix and not found.searchable(found.shares["matrix"]):
        raise _no_radius()
    if found.searchable():
        return
    if found.variances:
        raise _TooFewError("variances", "leave variances out, or state ", option("row_norm"))
    if found.stated.private and request.box is None:
        raise _TooFewError(
            "a private radius", "state ", option("row_norm"), " or ", option("bounds")
        )


def _check_standardised(found: Plan) -> None:
    """Refuse components that noise would drown or no search would find."""
    request, d = found.request, found.request.n_columns
    assert request.n_rows is not None  # the front is for a public number
    mu = whole_strength(request.budget, pure=False)
    assert isinstance(found.whole, Gaussian)  # the front is for Gaussian budgets
    needed = max(needed_strength(d), SEARCHABLE_STRENGTH * mu / found.whole.mu)
    if request.n_rows * mu >= needed:
        return
    raise _TooFewError(
        f"components of {d} standardised {plural('column', d)}",
        "state ",
        SAME_UNIT,
        *((", or analyse fewer columns",) if d > 1 else ()),
    )


def _no_radius() -> _TooFewError:
    return _TooFewError(
        "a covariance without bounds", "state ", option("row_norm"), " or ", option("bounds")
    )
