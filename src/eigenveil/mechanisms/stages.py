"""From a request to the stages of a release and their shares; decided before anything is read.

Stages and their shares of the budget (of mu^2, or of a pure epsilon): scales of columns; shares of
present cells 0.05; a centre, two searches for distances and two means; or one mean of clipped rows
0.1, of components at a pure epsilon 0.2; a private radius; the rank 0.1; variances 0.05 and their
distances; the components or the matrix what is left. Searches take what public numbers say they
need, from 0.005 to 0.1; the more rows, the less for all of them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from eigenveil.data.batches import check_batches
from eigenveil.data.clip import Clip
from eigenveil.data.sources.pairs import check_pairs
from eigenveil.exceptions import (
    BoundsRequiredError,
    InvalidParameterError,
    TooFewRowsError,
    UnsupportedNotionError,
)
from eigenveil.mechanisms.additive import Allotment, part, vector_noise
from eigenveil.mechanisms.base import Procedure
from eigenveil.mechanisms.bounds import StatedBounds
from eigenveil.mechanisms.centred import CENTRE_SHARE, Centred, CentredResult, Uncentred
from eigenveil.mechanisms.lifted import HomogeneousRows
from eigenveil.mechanisms.located import LocatedCentre, Shares, centre_shares, enough_rows
from eigenveil.mechanisms.mean import PrivateMean
from eigenveil.mechanisms.paired import Paired
from eigenveil.mechanisms.pca.staged import RANK_SHARE, VARIANCE_SHARE, ComponentStages, Variances
from eigenveil.mechanisms.present import PRESENT_SHARE, Present
from eigenveil.mechanisms.ranged import PrivateRadiusClip
from eigenveil.mechanisms.registry import ComponentEntry, CovarianceEntry, Entry, Terms, entries
from eigenveil.mechanisms.request import Centring, Request
from eigenveil.mechanisms.scalars.column_scale import ColumnScale, enough_for_scales, scale_share
from eigenveil.mechanisms.scalars.distances import PrivateDistances, distance_share, searchable
from eigenveil.mechanisms.scalars.rank import PrivateRank
from eigenveil.mechanisms.scalars.variances import PrivateVariances
from eigenveil.mechanisms.scaled import Scaled
from eigenveil.privacy.accounting import compose
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import strength, whole_strength
from eigenveil.privacy.cost import Cost, Gaussian, Pure
from eigenveil.wording import BOUNDS, Part, Phrase, option

__all__ = ["Plan", "free_centring", "plan"]

PURE_MEAN_SHARE = 0.2  # of components
_SUBJECT = {"components": "clipping", "covariance": "a covariance of clipped rows"}
_ONE_PASS = {"components": "spherical", "covariance": "cleaned"}


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

    """

    request: Request
    pure: bool
    centring: Centring
    normalise: bool
    stated: StatedBounds
    n_components: int = 0
    lazy: bool = False

    @property
    def entry(self) -> Entry:
        """The mechanism."""
        return self.request.mechanism

    @property
    def n_rows(self) -> int | None:
        """Number of rows, or of persons, where it is public."""
        return self.request.n_rows

    @property
    def components(self) -> bool:
        """Whether components are released, not a covariance."""
        return self.request.releases == "components"

    @property
    def variances(self) -> bool:
        """Whether variances are bought, which clipped rows have by themselves."""
        return bool(self.request.variances) and self.normalise

    @property
    def rows_each(self) -> int:
        """Rows that make one record: two where it is their difference."""
        return 2 if self.centring == "paired" else 1

    @property
    def n_differences(self) -> int | None:
        """Number of rows, or of pairs of them, that a search for a distance sees."""
        return None if self.n_rows is None else self.n_rows // self.rows_each

    @property
    def counts(self) -> bool:
        """Whether a count is bought about a known centre, which variances under add/remove need."""
        public = self.request.adjacency.count_is_public
        free = public or (self.normalise and not self.variances)
        return self.centring == "none" and not free

    @property
    def whole(self) -> Allotment:
        """The budget, were nothing spent before."""
        found = whole_strength(self.request.budget, pure=self.pure)
        return Pure(found) if self.pure else Gaussian(found)

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
    def buys(self) -> bool:
        """Whether scales or a radius are bought."""
        return self.request.private_scale or self.stated.private

    @property
    def tightens(self) -> bool:
        """Whether rows are clipped at a private radius, within a stated bound if there is one."""
        if not self.request.clips:
            return False
        if self.stated.private:
            return True
        if self.lifts or self.entry.batches or not self.request.rereadable:
            return False
        generous = self.entry.tightens or self.request.row_norm is None
        return generous and searchable(self.whole, self.n_differences)

    @property
    def lifts(self) -> bool:
        """Whether the mean comes out of the same release as the matrix."""
        lifts = isinstance(self.entry, CovarianceEntry) and self.entry.lifts
        return lifts and self.pure and self.centring == "mean" and not self.buys

    @cached_property
    def shares(self) -> dict[str, float]:
        """Shares of the budget, by stage."""
        shares = {}
        if self.request.private_scale:
            shares["scale"] = scale_share(self.whole, self.n_rows, self.request.n_columns)
        if self.request.on_missing == "centre":
            shares["present"] = PRESENT_SHARE
        if self.centring == "located":
            search, *means = self._centre_shares
            shares["centre"] = (3 if self.normalise else 2) * search + sum(means)
        elif (self.centring == "mean" and not self.lifts) or self.counts:
            wide = self.components and self.pure
            shares["centre"] = PURE_MEAN_SHARE if wide else CENTRE_SHARE
        if self.tightens:
            shares["radius"] = distance_share(self.whole, self.n_differences)
        if self.request.private_rank:
            shares["rank"] = RANK_SHARE
        if self.variances:
            search = distance_share(self.whole, self.n_differences)
            shares["variances"] = VARIANCE_SHARE + search
        shares["components" if self.components else "matrix"] = 1 - sum(shares.values())
        return shares

    @property
    def _centre_shares(self) -> Shares:
        return centre_shares(self.whole, self.n_rows, self.request.n_columns)

    @property
    def alone(self) -> bool:
        """Whether the budget buys nothing beside the mechanism."""
        return len(self.shares) == 1 and self.centring in ("none", "paired")

    @property
    def reads_once(self) -> bool:
        """Whether the rows are read once only."""
        if not self.entry.reads_once:
            return False
        return self.lifts or (len(self.shares) == 1 and self.centring == "none")

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
        if spent is None:
            return strength(request.budget, cost_of, self.entry.name)
        return strength(request.budget, lambda s: compose(spent, cost_of(s)), self.entry.name)

    def build(self, parameter: float) -> Procedure[CentredResult[Any]]:
        """Return all stages at a strength."""
        whole: Allotment = Pure(parameter) if self.pure else Gaussian(parameter)
        if self.lifts:
            assert isinstance(self.entry, CovarianceEntry)  # only those lift
            return HomogeneousRows(
                inner=self.entry.lifted(parameter), row_norm=self.stated.clip.row_norm
            )
        inner = self.inner(parameter)
        if self.components:
            inner = self._staged(whole, inner)
        if self.tightens:
            inner = PrivateRadiusClip.build(
                whole,
                self.shares["radius"],
                inner,
                columns=self.request.n_columns,
                adjacency=self.request.adjacency,
            )
        outer = self._centred(whole, inner)
        if "present" in self.shares:
            noise = vector_noise(part(whole, self.shares["present"]))
            outer = Present(shares=PrivateMean(noise=noise), inner=outer)
        if self.request.private_scale:
            noise = vector_noise(part(whole, self.shares["scale"]))
            outer = Scaled(scale=ColumnScale(noise=noise), inner=outer)
        return outer

    def inner(self, parameter: float) -> Procedure[Any]:
        """Return the mechanism itself, at its share of a strength."""
        whole: Allotment = Pure(parameter) if self.pure else Gaussian(parameter)
        left = part(whole, list(self.shares.values())[-1])
        terms = Terms(
            budget=self.request.budget,
            n_columns=self.request.n_columns,
            n_components=self.n_components,
            n_rows=self.n_differences,
            alone=self.alone,
        )
        if isinstance(left, Pure):
            return self.entry.pure(left.epsilon, terms)
        return self.entry.gaussian(left.mu, terms)

    def _staged(self, whole: Allotment, inner: Any) -> ComponentStages:
        rank = variances = None
        if self.request.private_rank:
            noise = vector_noise(part(whole, self.shares["rank"]))
            rank = PrivateRank(noise=noise, max_rank=self.n_components)
        if self.variances:
            search = vector_noise(part(whole, self.shares["variances"] - VARIANCE_SHARE))
            variances = Variances(
                distances=PrivateDistances(noise=search),
                values=PrivateVariances(noise=vector_noise(part(whole, VARIANCE_SHARE))),
            )
        return ComponentStages(
            inner=inner,
            normalise=self.normalise,
            rank=rank,
            variances=variances,
            lazy=self.lazy,
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
                whole,
                self._centre_shares,
                inner,
                sample=sample,
                directions=self.normalise,
            )
        row_norm = self.stated.clip.row_norm
        if "centre" not in self.shares:
            return Uncentred(inner=inner, row_norm=row_norm)
        return Centred(
            mean=PrivateMean(noise=vector_noise(part(whole, self.shares["centre"]))),
            inner=inner,
            row_norm=row_norm,
            fixed_centre=self.counts,
            sample=sample if self.components else 1.0,
        )


def plan(request: Request) -> Plan:
    """Return the stages of a release, calibrated; refuse what public numbers rule out."""
    entry = request.mechanism
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
    if found.centring == "paired" and found.n_rows is not None:
        check_pairs(found.n_rows, persons=request.unit.owns_many)
    _check_searches(found)
    if entry.batches:
        method: Any = found.inner(found.strength)
        method.check_records(request.n_columns, found.n_differences, found.rows_each)
    return found


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
        raise InvalidParameterError(
            "explained_variance_ is in the units of the data already: leave variances out"
        )
    if request.private_rank:
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
    if lazy and request.private_rank:
        raise InvalidParameterError(
            "a private rank needs the whole matrix: state ",
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
            request.on_invalid, request.on_missing, components=request.releases == "components"
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
    )


def free_centring(
    budget: Budget, *, pure: bool, n_rows: int | None, n_columns: int, ranges: bool = False
) -> Centring:
    """Return the better way to a centre; ``ranges``: rows are clipped within stated ones."""
    if n_rows is None:
        return "located"
    found = whole_strength(budget, pure=pure)
    whole: Allotment = Pure(found) if pure else Gaussian(found)
    # The error of a located centre falls as n mu/sqrt(d); a pure mean has noise in the l1 norm.
    few = n_rows * found < (1000 + 100 * n_columns if pure else 14 * math.sqrt(n_columns))
    if few or not searchable(whole, n_rows):
        return "mean" if ranges else "paired"
    return "located"


def _check_searches(found: Plan) -> None:
    """Refuse searches that would mostly fail, before anything is charged."""
    request = found.request
    if request.private_scale and not enough_for_scales(
        found.whole, found.n_rows, request.n_columns
    ):
        raise TooFewRowsError(
            "too few rows for private scales of so many columns at this budget: give the scales, "
            "fewer columns or a larger budget"
        )
    free = request.box is None and not isinstance(request.row_norm, Real)
    if free and not found.components and found.entry.unit_rows:
        left = part(found.whole, found.shares["matrix"])
        if not searchable(left, found.n_differences):
            raise TooFewRowsError(
                "too few rows for a covariance without bounds at this budget: give more rows or a "
                "larger budget, or state ",
                option("row_norm"),
                " or ",
                option("bounds"),
            )
    if searchable(found.whole, found.n_differences):
        return
    if found.variances:
        raise TooFewRowsError(
            "too few rows for variances at this budget: leave variances out, or state ",
            option("row_norm"),
        )
    if found.stated.private and request.box is None:
        raise TooFewRowsError(
            "too few rows for a private radius at this budget: state ",
            option("row_norm"),
            " or ",
            option("bounds"),
            ", or give a larger budget",
        )
