"""From a request to its plan: stages, their strength, and refusals by public numbers."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from eigenveil.exact.batches import check_batches
from eigenveil.exact.clip import Clip
from eigenveil.exceptions import (
    BoundsRequiredError,
    EigenveilError,
    InvalidParameterError,
    TooFewRowsError,
    UnsupportedNotionError,
)
from eigenveil.mechanisms.additive import PrivateMean, VectorNoise, vector_noise
from eigenveil.mechanisms.captured import CAPTURED_SHARE, CapturedVariance, captured_pays
from eigenveil.mechanisms.centre import (
    Centred,
    CentredResult,
    LocatedCentre,
    Paired,
    Uncentred,
    enough_rows,
)
from eigenveil.mechanisms.column_scale import ColumnScale, Scaled, enough_for_scales
from eigenveil.mechanisms.component_stages import (
    VARIANCE_SHARE,
    ComponentStages,
    Further,
    PrivateVariances,
    Variances,
)
from eigenveil.mechanisms.correlation import Correlation, needed_strength
from eigenveil.mechanisms.counted import Counted
from eigenveil.mechanisms.distances import (
    SEARCHABLE_STRENGTH,
    PrivateDistances,
    PrivateRadiusClip,
    noise_rows,
    searchable,
)
from eigenveil.mechanisms.front import CORRELATION, COVARIANCE, Front
from eigenveil.mechanisms.gate import Procedure
from eigenveil.mechanisms.homogeneous_rows import HomogeneousRows
from eigenveil.mechanisms.missing_rates import Present, missing_shares
from eigenveil.mechanisms.rank import PrivateRank
from eigenveil.mechanisms.registry import (
    BuildContext,
    ComponentMechanism,
    CovarianceMechanism,
    Mechanism,
    entries,
)
from eigenveil.mechanisms.score_map import SCORE_SHARE, ScoreHistogram, score_bins
from eigenveil.mechanisms.wishart import WishartCov
from eigenveil.messages import BOUNDS, REPLACE_ONE, SAME_UNIT, SHOW_SCORES, Part, Phrase, option
from eigenveil.planning.bounds import StatedBounds
from eigenveil.planning.request import Centring, Request
from eigenveil.planning.shares import centre_shares, stage_shares
from eigenveil.planning.sufficient import what_would_do
from eigenveil.privacy.accounting import compose, part
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import strength, whole_strength
from eigenveil.privacy.cost import Allotment, Cost, Gaussian, Pure
from eigenveil.rows.derived import check_pairs, require_public_count
from eigenveil.text import plural

_SCALED_CENTRE_ROWS = 10  # times the rows that a located centre needs, in private scales
_MATRICES = 10  # of columns by columns, held at once by noise and eigenvectors


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """The stages of a release. Fields are public, never data.

    Attributes
    ----------
    request : Request
        What was asked for.
    pure : bool
        Whether the budget is an epsilon, not a mu.
    centring : Centring
        How the centre is found.
    normalise : bool
        Whether components are those of rows scaled to unit length.
    stated : StatedBounds
        How rows are bounded before a centre is known, and about it.
    n_components : int
        Number of components, the largest where it is found privately; 0 for a covariance.
    lazy : bool
        Whether noise is drawn for products.
    drawn_rows : int, optional
        Number of rows that a private count lets be drawn, once it is released or assumed.

    What follows from these:

    entry : Mechanism
        The mechanism.
    n_rows, n_differences : int or None
        Number of rows, or of persons, where it is public; and of rows, or pairs of them, that a
        search for a distance sees.
    components : bool
        Whether noise is added for components, not to a covariance.
    variances, captured : bool
        Whether variances are bought, which clipped rows have by themselves; and the variance that
        components hold.
    counts : bool
        Whether a count is bought about a known centre, which variances under add/remove need.
    bought, further, shares : dict
        Shares of the whole budget, by stage: for what is bought about released components; for
        what of it follows the components of a released matrix; and for all. Before rows are drawn,
        those after the count are one.
    whole, stages : Allotment, dict
        What ``further`` leaves of the budget, were nothing spent before, and its shares.
    front : bool
        Whether columns may be in any units, so that scales, centre and bound are all found.
    counted : bool
        Whether a noisy count comes first, so that the same is done for drawn rows.
    tightens : bool
        Whether rows are clipped at a private radius, within a stated bound if there is one.
    lifts : bool
        Whether the mean comes out of the same release as the matrix.
    corrects_missing : bool
        Whether moments are corrected for missing cells.
    missing_shares : dict
        Shares of ``whole`` that measure which cells are present.

    """

    request: Request
    pure: bool
    centring: Centring
    normalise: bool
    stated: StatedBounds
    n_components: int = 0
    lazy: bool = False
    drawn_rows: int | None = None
    entry: Mechanism = field(init=False)
    n_rows: int | None = field(init=False)
    n_differences: int | None = field(init=False)
    components: bool = field(init=False)
    variances: bool = field(init=False)
    captured: bool = field(init=False)
    counts: bool = field(init=False)
    bought: dict[str, float] = field(init=False)
    further: dict[str, float] = field(init=False)
    shares: dict[str, float] = field(init=False)
    whole: Allotment = field(init=False)
    stages: dict[str, float] = field(init=False)
    front: bool = field(init=False)
    counted: bool = field(init=False)
    tightens: bool = field(init=False)
    lifts: bool = field(init=False)
    corrects_missing: bool = field(init=False)
    missing_shares: dict[str, float] = field(init=False)

    def __post_init__(self) -> None:
        request, entry = self.request, self.request.mechanism
        n, n_columns = request.n_rows, request.n_columns
        components = not request.of_matrix
        public = request.adjacency.count_is_public
        variances = bool(request.variances) and self.normalise
        counts = self.centring == "none" and not (public or (self.normalise and not variances))
        differences = n if n is None or self.centring != "paired" else n // 2
        found = whole_strength(request.budget, pure=self.pure)
        budget: Allotment = Pure(found) if self.pure else Gaussian(found)
        captured = _buys_captured(self) and captured_pays(
            _noise(budget, CAPTURED_SHARE), differences
        )
        bought = {"captured": CAPTURED_SHARE} if captured else {}
        bought |= {"scores": SCORE_SHARE} if request.show_scores else {}
        further = bought if entry.standardises else {}
        whole = part(budget, 1 - sum(further.values())) if further else budget
        front, counted = request.any_units and not self.pure, request.counted and not self.pure
        lifts = isinstance(entry, CovarianceMechanism) and entry.lifts and self.pure
        lifts = lifts and self.centring == "mean" and request.on_missing != "centre"
        lifts = lifts and not (request.private_scale or front or counted or self.stated.private)
        tightens = request.clips and (
            self.stated.private
            or (
                not (lifts or entry.batches)
                and request.rereadable
                and (entry.tightens or request.row_norm is None)
                and searchable(whole, differences)
            )
        )
        corrects = entry.allows_for_missing and not self.lazy and request.on_missing == "centre"
        missing: dict[str, float] = {}
        if request.on_missing == "centre":
            missing = missing_shares(whole, n, n_columns, corrects=corrects)
        vars(self).update(
            entry=entry,
            n_rows=n,
            n_differences=differences,
            components=components,
            variances=variances,
            counts=counts,
            captured=captured,
            bought=bought,
            further=further,
            whole=whole,
            front=front,
            counted=counted,
            lifts=lifts,
            tightens=tightens,
            corrects_missing=corrects,
            missing_shares=missing,
        )
        stages = stage_shares(self)
        left = 1 - sum(further.values())
        shares = further | {stage: left * share for stage, share in stages.items()}
        vars(self).update(stages=stages, shares=shares)

    @property
    def fewest(self) -> int:
        """Components that are kept at least: a map of scores has two axes."""
        return 2 if self.request.show_scores else 1

    @property
    def start(self) -> Clip:
        """How rows are read first: for a mean within a stated range, else by the stated length.

        A centre is sought from the point of the range nearest to the origin, which is no farther
        from anything inside: however generous, a range only helps.
        """
        start, stated = self.stated.start, self.stated.clip.row_norm
        if self.centring == "mean":
            return start
        if self.centring == "located" and start.box is not None:
            start = replace(start, centre=np.clip(0.0, *start.box))
        return replace(start, row_norm=min(start.row_norm, stated))

    @property
    def reads_once(self) -> bool:
        """Whether the rows are read once only."""
        once = len(self.stages) == 1 and self.centring == "none"
        return self.entry.reads_once and (self.lifts or once)

    @property
    def memory(self) -> int:
        """Bytes that the release needs at once, about; 0 where it forms no matrix of columns."""
        if self.lazy or self.entry.batches or not self.entry.forms_matrix:
            return 0
        return 8 * _MATRICES * self.request.n_columns**2

    @cached_property
    def strength(self) -> float:
        """The largest mu, or epsilon, that the budget buys beside what was spent of it before."""
        return self._strength(lambda s: self.build(s).cost())

    @cached_property
    def procedure(self) -> Procedure[CentredResult[Any]]:
        """All stages at that strength."""
        return self.build(self.strength)

    @property
    def cost(self) -> Cost:
        """What the release costs."""
        return self.procedure.cost()

    def _strength(self, cost_of: Callable[[float], Cost]) -> float:
        spent, request = self.request.spent, self.request
        if request.left is not None:
            return strength(request.left, cost_of, self.entry.name)
        if spent is None:
            return strength(request.budget, cost_of, self.entry.name)
        return strength(request.budget, lambda s: compose(spent, cost_of(s)), self.entry.name)

    def _left(self, parameter: float) -> Allotment:
        """Return what ``further`` leaves of a strength."""
        whole: Allotment = Pure(parameter) if self.pure else Gaussian(parameter)
        further = sum(self.further.values())
        return part(whole, 1 - further) if further else whole

    def build(self, parameter: float) -> Procedure[CentredResult[Any]]:
        """Return all stages at a strength."""
        found = self._build(parameter)
        if not self.entry.standardises:
            return found
        whole: Allotment = Pure(parameter) if self.pure else Gaussian(parameter)
        count = 0 if self.request.private_rank else self.n_components
        return Correlation(
            inner=found,
            n_components=count,
            rows=self.n_rows or 0,
            further=self._bought(whole, self.further),
        )

    def _build(self, parameter: float) -> Procedure[CentredResult[Any]]:
        whole = self._left(parameter)
        if self.lifts:
            return HomogeneousRows(
                inner=WishartCov(epsilon=parameter, clean=False),
                row_norm=self.stated.clip.row_norm,
            )
        if self.counted:
            return Counted.build(whole, self.request)
        if self.front:
            return self._with_present(whole, self.front_at(whole))
        inner = self.inner(parameter)
        if self.components:
            inner = self._staged(whole, inner)
        if self.tightens:
            inner = PrivateRadiusClip(
                distances=PrivateDistances(noise=_noise(whole, self.stages["radius"])),
                inner=inner,
                rows=noise_rows(whole, self.request.n_columns, self.request.adjacency),
            )
        outer = self._centred(whole, inner)
        if self.request.private_scale:
            noise = _noise(whole, self.stages["scale"])
            scale = ColumnScale(first=noise, known=self.request.known_scale)
            hides = self.request.releases == "covariance" and (self.pure or bool(self.entry.auto))
            outer = Scaled(scale=scale, inner=outer, hides=hides)
        return self._with_present(whole, outer)

    def _with_present(self, whole: Allotment, inner: Procedure[Any]) -> Procedure[Any]:
        """Return the stages after those for missing cells, where these are asked for."""
        asked = self.missing_shares
        return Present.build(whole, asked, inner) if asked else inner

    def front_at(self, whole: Allotment) -> Front:
        """Return the stages that need no scale, centre or bound."""
        request = self.request
        whole = part(whole, 1 - sum(self.missing_shares.values()))
        assert isinstance(whole, Gaussian)  # `any_units` says so
        assert request.n_rows is not None
        sample = 1.0
        if not request.unit.owns_many:
            sample = enough_rows(whole, request.n_rows, request.n_columns)
        return Front(
            mu=whole.mu,
            rows=request.n_rows,
            columns=request.n_columns,
            known_scale=request.known_scale,
            sample=sample,
            aim=CORRELATION if self.entry.standardises else COVARIANCE,
        )

    def inner(self, parameter: float) -> Procedure[Any]:
        """Return the mechanism itself, at its share of a strength."""
        left = part(self._left(parameter), list(self.stages.values())[-1])
        context = BuildContext(
            budget=self.request.budget,
            n_columns=self.request.n_columns,
            n_components=self.n_components,
            n_rows=self.n_differences,
            alone=len(self.stages) == 1 and self.centring in ("none", "paired"),
        )
        found: Procedure[Any] = self.entry.at(left, context)
        return found

    def _staged(self, whole: Allotment, inner: Any) -> ComponentStages:
        rank = variances = None
        if self.request.private_rank:
            rank = PrivateRank(noise=_noise(whole, self.stages["rank"]), max_rank=self.n_components)
        if self.variances:
            search = _noise(whole, self.stages["variances"] - VARIANCE_SHARE)
            variances = Variances(
                distances=PrivateDistances(noise=search),
                values=PrivateVariances(noise=_noise(whole, VARIANCE_SHARE)),
            )
        return ComponentStages(
            inner=inner,
            normalise=self.normalise,
            rank=rank,
            variances=variances,
            lazy=self.lazy,
            further=self._bought(whole, self.stages),
        )

    def _bought(self, whole: Allotment, shares: dict[str, float]) -> Further:
        """Return what is bought about components at the shares of a budget."""
        captured = scores = None
        if "captured" in shares:
            captured = CapturedVariance(noise=_noise(whole, shares["captured"]))
        if "scores" in shares:
            shown = _noise(whole, shares["scores"])
            kinds = self.request.score_kinds
            each = None if self.n_rows is None else self.n_rows // kinds
            scores = ScoreHistogram(noise=shown, bins=score_bins(shown, each), kinds=kinds)
        return Further(
            captured=captured,
            holding=self.request.variance_share,
            fewest=self.fewest,
            scores=scores,
        )

    def _centred(self, whole: Allotment, inner: Procedure[Any]) -> Procedure[CentredResult[Any]]:
        if self.centring == "paired":
            return Paired(inner=inner)
        request = self.request
        # Which rows a person owns is private: there is no sample of persons.
        sample = 1.0
        if not request.unit.owns_many:
            sample = enough_rows(whole, self.n_rows, request.n_columns)
        if self.centring == "located":
            return LocatedCentre.build(
                [_noise(whole, share) for share in centre_shares(self)],
                inner,
                sample=sample,
                directions=self.normalise,
            )
        row_norm = self.stated.clip.row_norm
        if "centre" not in self.stages:
            return Uncentred(inner=inner, row_norm=row_norm)
        return Centred(
            mean=PrivateMean(noise=_noise(whole, self.stages["centre"])),
            inner=inner,
            row_norm=row_norm,
            fixed_centre=self.counts,
            sample=sample if self.components else 1.0,
        )


def _buys_captured(found: Plan) -> bool:
    """Return whether the variance that components hold may be bought.

    Only of rows that can be read again, and where a matrix is formed anyway.
    """
    request, entry = found.request, found.request.mechanism
    matrix = entry.forms_matrix and not (found.lazy or entry.batches)
    if not (request.captured and matrix and request.rereadable):
        return False
    if entry.assumption is not None:
        return False  # its rows have no bound
    if entry.standardises and found.centring == "paired":
        return False  # standardised rows would have no centre
    return found.n_components < request.n_columns or request.variance_share is not None


def _noise(whole: Allotment, share: float) -> VectorNoise:
    """Return the noise of a step with this share of the budget."""
    return vector_noise(part(whole, share))


def free_centring(
    budget: Budget,
    *,
    pure: bool,
    n_rows: int | None,
    n_columns: int,
    ranges: bool = False,
    scaled: bool = False,
) -> Centring:
    """Return the better way to a centre.

    ``ranges``: rows are clipped within stated ones. ``scaled``: a covariance with private scales,
    of whose rough units a located centre may lie thousands away.
    """
    if n_rows is None:
        return "located"
    found = whole_strength(budget, pure=pure)
    whole: Allotment = Pure(found) if pure else Gaussian(found)
    # The error of a located centre falls as n mu/sqrt(d); a pure mean has noise in the l1 norm.
    enough = 14 * math.sqrt(n_columns)
    if pure:
        enough = (_SCALED_CENTRE_ROWS if scaled else 1) * (1000 + 100 * n_columns)
    few = n_rows * found < enough
    if few or not searchable(whole, n_rows):
        return "mean" if ranges else "paired"
    return "located"


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
        method.check_records(
            request.n_columns, found.n_differences, 2 if found.centring == "paired" else 1
        )
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


def _not_pure(entry: Mechanism) -> UnsupportedNotionError:
    others = (e.name for e in entries(entry.releases) if e.auto and not e.has_gaussian)
    choices: list[Part] = []
    for name in others:
        choices += [", or choose ", option("mechanism", name)]
    return UnsupportedNotionError(
        f"{entry.name!r} adds Gaussian noise and cannot give a pure epsilon guarantee: give delta "
        "as well, or rho",
        *choices,
    )


def _check_together(request: Request, entry: Mechanism) -> None:
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
    if not isinstance(entry, ComponentMechanism):
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
        elif not searchable(found.whole, found.n_differences):
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
    if matrix and not searchable(part(found.whole, found.shares["matrix"]), found.n_differences):
        raise _no_radius()
    if searchable(found.whole, found.n_differences):
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
