"""From a request to the stages of a release and their shares; decided before anything is read.

Stages and their default shares of the budget (of mu^2, or of a pure epsilon): scales of columns
0.1; a centre 0.15, pure 0.25, or a mean of clipped rows 0.1, of components at a pure epsilon 0.2; a
private radius 0.1 at most; the rank 0.1; variances 0.05; the components or the matrix what is left.
Searches for a centre and for the distance of variances come on top, each at most mu/3, or a tenth
of a pure epsilon, and 64/n where n is public.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from eigenveil.data.batches import check_batches
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
from eigenveil.mechanisms.located import SHARES, LocatedCentre, distance_epsilon, enough_rows
from eigenveil.mechanisms.mean import PrivateMean
from eigenveil.mechanisms.paired import Paired
from eigenveil.mechanisms.pca.staged import RANK_SHARE, VARIANCE_SHARE, ComponentStages, Variances
from eigenveil.mechanisms.ranged import RADIUS_SHARE, PrivateRadiusClip
from eigenveil.mechanisms.registry import ComponentEntry, CovarianceEntry, Entry, Terms, entries
from eigenveil.mechanisms.request import Centring, Request
from eigenveil.mechanisms.scalars.column_scale import ColumnScale
from eigenveil.mechanisms.scalars.quantile import PrivateQuantile
from eigenveil.mechanisms.scalars.rank import PrivateRank
from eigenveil.mechanisms.scalars.variances import PrivateVariances
from eigenveil.mechanisms.scaled import SCALE_SHARE, Scaled
from eigenveil.privacy.accounting import compose
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import strength, whole_strength
from eigenveil.privacy.cost import Cost, Gaussian, Pure
from eigenveil.wording import BOUNDS, Part, Phrase, option

__all__ = ["Plan", "free_centring", "plan", "too_few"]

# Epsilon times rows, at which a search fails once in twenty times.
SEARCHABLE = 48.0
PURE_MEAN_SHARE = 0.2  # of components
# Where rows are clipped within stated ranges, as a share of their reach: at the root mean square
# distance of a point uniform on the box. Directions gain more from the smaller noise, which grows
# with the square of the bound, than clipping costs them. A covariance must not shrink.
SHRINK = {"components": 1 / math.sqrt(3), "covariance": 1.0}
_SUBJECT = {"components": "clipping", "covariance": "a covariance"}
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
    def buys(self) -> bool:
        """Whether scales or a radius are bought."""
        return self.request.private_scale or self.stated.private

    @property
    def lifts(self) -> bool:
        """Whether the mean comes out of the same release as the matrix."""
        lifts = isinstance(self.entry, CovarianceEntry) and self.entry.lifts
        return lifts and self.pure and self.centring != "none" and not self.buys

    @cached_property
    def shares(self) -> dict[str, float]:
        """Shares of the budget, by stage."""
        shares = {}
        if self.request.private_scale:
            shares["scale"] = SCALE_SHARE
        if self.centring == "located":
            shares["centre"] = sum(SHARES[self.pure])
        elif (self.centring == "mean" and not self.lifts) or self.counts:
            wide = self.components and self.pure
            shares["centre"] = PURE_MEAN_SHARE if wide else CENTRE_SHARE
        if self.stated.private:
            shares["radius"] = RADIUS_SHARE
        if self.request.private_rank:
            shares["rank"] = RANK_SHARE
        if self.variances:
            shares["variances"] = VARIANCE_SHARE
        shares["components" if self.components else "matrix"] = 1 - sum(shares.values())
        return shares

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
        if self.stated.private:
            columns = None if self.components else self.request.n_columns
            inner = PrivateRadiusClip.build(whole, self.n_rows, inner, columns=columns)
        centred = self._centred(whole, inner)
        if not self.request.private_scale:
            return centred
        scale = ColumnScale(noise=vector_noise(part(whole, self.shares["scale"])))
        return Scaled(scale=scale, inner=centred)

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
            epsilon = distance_epsilon(whole, self.n_differences)
            variances = Variances(
                distance=PrivateQuantile(epsilon=epsilon, level=0.5),
                values=PrivateVariances(noise=vector_noise(part(whole, self.shares["variances"]))),
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
                self.n_rows,
                inner,
                bounded=self.components and request.box is not None,
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
    chosen = bool(request.reason) and request.row_norm is None
    if request.variances and not (request.normalises or chosen):
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
    if request.normalises and request.box is None:
        return StatedBounds.unit_rows(request.on_invalid, request.on_missing)
    stated = StatedBounds.resolve(
        request.row_norm,
        request.box,
        scale=request.column_scale,
        centred=request.centred,
        on_invalid=request.on_invalid,
        on_missing=request.on_missing,
        subject=_SUBJECT[request.releases],
        shrink=SHRINK[request.releases],
        trace_bound=getattr(request.mechanism, "trace_bound", None),
    )
    return stated.of_unit_rows() if request.normalises else stated


def _centring(request: Request, pure: bool) -> Centring:
    """Return how the centre is found, from public numbers."""
    centring, clips = request.centring, not request.normalises
    if centring == "none":
        return "none"
    private = request.row_norm == "private"
    free = private and request.box is None
    if centring is None and clips:
        return "located" if free else "mean"
    if centring is None:
        return free_centring(
            request.budget,
            pure=pure,
            n_rows=request.n_rows,
            n_columns=request.n_columns,
            private_scale=request.private_scale,
        )
    unbounded = request.box is None and (free or request.row_norm is None)
    if centring == "mean" and unbounded:
        raise BoundsRequiredError(
            option("centring", "mean"),
            " needs ",
            BOUNDS,
            " or ",
            option("row_norm"),
            ": state one, or leave ",
            option("centring"),
            " out",
        )
    if private and centring == "located":
        return centring
    if (centring == "mean") != clips:
        raise InvalidParameterError(
            option("centring", "mean"),
            " is for rows that are clipped, 'located' and 'paired' are for rows scaled to unit "
            "length: leave ",
            option("centring"),
            " out",
        )
    return centring


def free_centring(
    budget: Budget, *, pure: bool, n_rows: int | None, n_columns: int, private_scale: bool
) -> Centring:
    """Return the better centring of rows that are scaled to unit length."""
    if n_rows is None:
        return "located"
    if private_scale:  # columns may lie any number of their scales away
        return "paired"
    # The error of a located centre falls as n mu/sqrt(d); a distance needs n mu of about 200. A
    # pure mean has noise in the l1 norm, and a pure search a tenth of the budget.
    if pure:
        few = n_rows * whole_strength(budget, pure=True) < 700 + 64 * n_columns
    else:
        mu = whole_strength(budget, pure=False)
        few = n_rows * mu < max(192.0, 20 * math.sqrt(n_columns))
    return "paired" if few else "located"


def too_few(whole: Allotment, rows: int | None) -> bool:
    """Return whether a search for a distance would mostly fail, as far as public numbers tell."""
    if rows is None:
        return False
    return rows == 0 or distance_epsilon(whole, rows) * rows < SEARCHABLE


def _check_searches(found: Plan) -> None:
    """Refuse searches that would mostly fail, before anything is charged."""
    if not (found.variances or found.stated.private):
        return
    whole: Allotment = (Pure if found.pure else Gaussian)(
        found._strength(Pure if found.pure else Gaussian)
    )
    if not too_few(whole, found.n_differences):
        return
    if found.variances:
        raise TooFewRowsError(
            "too few rows for variances at this budget: leave variances out, or state ",
            option("row_norm"),
        )
    raise TooFewRowsError(
        "too few rows for a private radius at this budget: state ",
        option("row_norm"),
        " or ",
        option("bounds"),
        ", or give a larger budget",
    )
