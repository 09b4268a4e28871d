"""A regression as it is asked for, and its steps at their shares."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidDataError, InvalidParameterError, UnsupportedNotionError
from eigenveil.mechanisms.additive import PrivateMean, PrivateTrace, vector_noise
from eigenveil.mechanisms.centre import enough_rows
from eigenveil.mechanisms.column_scale import ColumnScale
from eigenveil.mechanisms.distances import PrivateDistances
from eigenveil.mechanisms.gauss import GaussCov
from eigenveil.mechanisms.joined import JoinedRegression
from eigenveil.mechanisms.linear import CentreSteps, LinearStages, Stage, TargetSteps
from eigenveil.mechanisms.median_of_means import MedianOfMeans, blocks_of, findable
from eigenveil.mechanisms.wishart import WishartCov
from eigenveil.messages import REPLACE_ONE, option
from eigenveil.planning.bounds import Box, OnInvalid, OnMissing
from eigenveil.planning.shares import RegressionShares, clips, divided
from eigenveil.privacy.accounting import compose, part
from eigenveil.privacy.adjacency import Adjacency, Unit
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import strength, whole_strength
from eigenveil.privacy.cost import Allotment, Cost, Gaussian, Pure

Scale = NDArray[np.float64] | Literal["private"] | None
_LIFT = 1.0  # the constant coordinate, in scales of a feature


@dataclass(frozen=True, kw_only=True, eq=False)
class RegressionRequest:
    """What one regression is asked for; all of it public.

    Attributes
    ----------
    budget, adjacency, unit
        How it is protected.
    n_features, n_targets : int
        Columns of the table: features first, then targets.
    n_rows : int or None
        Number of rows, or of persons, where it is public.
    rereadable : bool
        Whether rows can be read more than once.
    row_norm : float, optional
        Length of scaled rows about their centre that they are pulled in to.
    box : pair of arrays, optional
        Ranges of the features.
    target_boxes : tuple of pairs of float, optional
        Range of each target.
    scale : array or "private", optional
        What features are divided by; by default half their ranges, or else private scales where
        there may be any.
    known_scale : array, optional
        Scales of features that are public in any case, and NaN for the others.
    centred : bool
        Whether the origin is the centre of the features.
    alpha : float, optional
        Stated penalty, as a share of the mean squared length of records; by default found.
    on_invalid, on_missing
        What happens to rows and cells that hold no numbers.
    accepts_means : bool
        Whether the means of targets are worth the budget where no coefficients are possible.

    """

    budget: Budget
    adjacency: Adjacency
    unit: Unit
    n_features: int
    n_targets: int
    n_rows: int | None
    rereadable: bool = True
    row_norm: float | None = None
    box: Box | None = None
    target_boxes: tuple[tuple[float, float], ...] | None = None
    scale: Scale = None
    known_scale: NDArray[np.float64] | None = None
    centred: bool = False
    alpha: float | None = None
    on_invalid: OnInvalid = "raise"
    on_missing: OnMissing = "invalid"
    accepts_means: bool = False

    def __post_init__(self) -> None:
        if not self.rereadable:
            raise InvalidDataError(
                "a regression reads the rows several times, and these can be read once only: pass "
                "a file or an array"
            )
        if isinstance(self.scale, str) and not self.adjacency.count_is_public:
            raise UnsupportedNotionError(
                "private scales need a public number of rows: give the scales, or choose ",
                REPLACE_ONE,
            )
        alpha = self.alpha
        if alpha is not None and not 0 <= alpha < math.inf:
            raise InvalidParameterError(option("alpha"), " must be a number, zero or more")

    @property
    def n_sought(self) -> int:
        """Number of features whose scale is searched for."""
        free = self.scale is None and self.box is None and self.adjacency.count_is_public
        if not (free or isinstance(self.scale, str)):
            return 0
        known = self.known_scale
        return self.n_features if known is None else int(np.isnan(known).sum())

    @property
    def any_units(self) -> bool:
        """Whether nothing is stated, so that scales, centre and bounds are all found."""
        stated = (self.row_norm, self.box, self.target_boxes)
        free = all(one is None for one in stated) and not self.centred
        free = free and not isinstance(self.scale, np.ndarray)
        known = self.known_scale
        free = free and (known is None or bool(np.isnan(known).any()))
        return free and not self.budget.is_pure and self.on_missing == "invalid"


@dataclass(frozen=True, kw_only=True, eq=False)
class RegressionPlan:
    """The steps of a regression, decided before anything is read. Fields are public."""

    request: RegressionRequest

    @property
    def pure(self) -> bool:
        """Whether the budget is an epsilon, not a mu."""
        return self.request.budget.is_pure

    @cached_property
    def whole(self) -> Allotment:
        """All that may be spent."""
        amount = whole_strength(self.request.budget, pure=self.pure)
        return Pure(amount) if self.pure else Gaussian(amount)

    @property
    def finds_length(self) -> bool:
        """Whether records are pulled in to a private length."""
        request = self.request
        free = request.row_norm is None
        return free and clips(self.whole, request.n_rows, request.n_features)

    @cached_property
    def joined(self) -> JoinedRegression | None:
        """The steps where nothing is stated; None where something is."""
        request = self.request
        if not (request.any_units and request.adjacency.count_is_public and request.n_rows):
            return None
        assert isinstance(self.whole, Gaussian)  # the budget is not pure
        columns = request.n_features + request.n_targets
        whole = request.unit.owns_many
        return JoinedRegression(
            mu=self.whole.mu,
            rows=request.n_rows,
            features=request.n_features,
            targets=request.n_targets,
            known_scale=request.known_scale,
            sample=1.0 if whole else enough_rows(self.whole, request.n_rows, columns),
            alpha=request.alpha,
        )

    @cached_property
    def shares(self) -> RegressionShares:
        """Shares of the budget, by step, where something is stated or only means are released."""
        request = self.request
        if self.joined is not None and not self.joined.possible:
            return RegressionShares(offset=(1 / request.n_targets,))
        return divided(
            self.whole,
            request.n_rows,
            request.n_features,
            request.n_targets,
            scales=request.n_sought,
            centres=request.box is None and not request.centred,
            lengths=self.finds_length,
            ranged=request.target_boxes is not None,
        )

    @property
    def means_alone(self) -> bool:
        """Whether only the means of targets are released, as public numbers allow no more."""
        if self.joined is not None:
            return not self.joined.possible
        return not self.shares.gram

    @property
    def shares_by_name(self) -> dict[str, float]:
        """Shares of the budget by what they buy; they sum to 1."""
        if isinstance(self.procedure, JoinedRegression):
            return self.procedure.shares
        return self.shares.by_name(self.request.n_targets)

    @cached_property
    def procedure(self) -> JoinedRegression | LinearStages:
        """All steps at their shares."""
        if self.joined is not None and self.joined.possible:
            return self.joined
        request, shares = self.request, self.shares
        steps = TargetSteps(
            offset=self._alone() if self.means_alone else self._towards(shares.offset),
            stages=tuple(
                Stage(search=self._search(search), noise=vector_noise(part(self.whole, share)))
                for search, share in shares.stages
            ),
            spread=self._search(shares.variance[0]) if shares.variance else None,
            variance=PrivateTrace(noise=vector_noise(part(self.whole, shares.variance[1])))
            if shares.variance
            else None,
        )
        return LinearStages(
            scale=self._scale(),
            centre=self._towards(shares.centre) if shares.centre else self._known_centre(),
            gram=self._gram(),
            targets=(steps,) * request.n_targets,
            length=self._length(),
            target_boxes=request.target_boxes,
            lift=_LIFT,
            alpha=request.alpha,
        )

    @cached_property
    def pure_part(self) -> float:
        """The epsilon that each target of a release of means may spend on one pure step.

        A delta would let one step exceed the epsilon of the budget by about as much: nothing is
        gained, and a statement would seem to contradict itself.
        """
        count, budget = self.request.n_targets, self.request.budget
        found = strength(budget, lambda each: compose(*[Pure(each)] * count), LinearStages.name)
        return found if budget.epsilon is None else min(found, budget.epsilon)

    @property
    def findable(self) -> bool:
        """Whether something can be said about a target, as far as public numbers tell."""
        ranged = self.request.target_boxes is not None
        return ranged or not self.means_alone or findable(self._rows_alone, ranged=False)

    @property
    def _rows_alone(self) -> float:
        """Rows times the epsilon of one of several means; infinite where n is private."""
        n = self.request.n_rows
        return math.inf if n is None else n * self.pure_part

    def _alone(self) -> MedianOfMeans | CentreSteps:
        """Return how the one number of a target is found that there is budget for.

        A median of means; or a mean within a stated range, where a median would not stand out.
        """
        request, rows = self.request, self._rows_alone
        ranged = request.target_boxes is not None
        if not ranged or (findable(rows, ranged=True) and request.n_rows is not None):
            return MedianOfMeans(epsilon=self.pure_part, block=blocks_of(rows, ranged=ranged))
        noises = [vector_noise(Pure(self.pure_part))]
        if not self.pure:
            noises.append(vector_noise(part(self.whole, self.shares.offset[0])))
        means = [PrivateMean(noise=noise) for noise in noises]
        mean = min(means, key=lambda m: m.deviation(1, request.adjacency))
        return CentreSteps(searches=(), means=(mean,))

    @property
    def cost(self) -> Cost:
        """What the release costs."""
        return self.procedure.cost()

    def _gram(self) -> GaussCov | WishartCov | None:
        if self.means_alone:
            return None
        left = part(self.whole, self.shares.gram)
        if isinstance(left, Pure):
            return WishartCov(epsilon=left.epsilon, clean=False)
        return GaussCov(mu=left.mu)

    def _search(self, share: float) -> PrivateDistances:
        return PrivateDistances(noise=vector_noise(part(self.whole, share)))

    def _towards(self, shares: tuple[float, ...]) -> CentreSteps:
        """Return steps from shares of distances and means by turns, or of means alone."""
        searches, means = (shares[::2], shares[1::2]) if len(shares) > 1 else ((), shares)
        return CentreSteps(
            searches=tuple(map(self._search, searches)),
            means=tuple(PrivateMean(noise=vector_noise(part(self.whole, s))) for s in means),
        )

    def _scale(self) -> ColumnScale | NDArray[np.float64]:
        request = self.request
        if self.shares.scale:
            noise = vector_noise(part(self.whole, self.shares.scale))
            return ColumnScale(first=noise, known=request.known_scale)
        if isinstance(request.scale, np.ndarray):
            return request.scale
        if request.box is not None:
            half = (request.box[1] - request.box[0]) / 2
            return np.where(half > 0, half, np.inf)
        return np.ones(request.n_features)

    def _known_centre(self) -> NDArray[np.float64]:
        request = self.request
        if request.box is None or request.centred:
            return np.zeros(request.n_features)
        return np.asarray((request.box[0] + request.box[1]) / 2)

    def _length(self) -> PrivateDistances | float | None:
        if self.shares.length:
            return self._search(self.shares.length)
        if self.request.row_norm is None:
            return None
        return math.hypot(_LIFT, self.request.row_norm)
