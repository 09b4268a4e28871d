"""RegressionPlan: the steps of a regression, each at its share (`shares`), and their cost."""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidDataError, InvalidParameterError, UnsupportedNotionError
from eigenveil.mechanisms.additive import PrivateMean, PrivateTrace, vector_noise
from eigenveil.mechanisms.centre import CentreSteps, enough_rows
from eigenveil.mechanisms.column_scale import ColumnScale
from eigenveil.mechanisms.distances import PrivateDistances
from eigenveil.mechanisms.gauss import GaussCov
from eigenveil.mechanisms.joined import JoinedRegression
from eigenveil.mechanisms.linear import LinearStages, Stage, TargetSteps
from eigenveil.mechanisms.median_of_means import MedianOfMeans, blocks_of, findable
from eigenveil.mechanisms.wishart import WishartCov
from eigenveil.messages import REPLACE_ONE, option
from eigenveil.planning.request import Request, Targets
from eigenveil.planning.shares import RegressionShares, clips, divided
from eigenveil.privacy.accounting import compose, part
from eigenveil.privacy.calibrate import strength, whole_strength
from eigenveil.privacy.cost import Allotment, Cost, Gaussian, Pure

_LIFT = 1.0  # the constant coordinate, in scales of a feature


@dataclass(frozen=True, kw_only=True, eq=False)
class RegressionPlan:
    """The steps of a regression, decided before anything is read. Fields are public.

    Attributes
    ----------
    request : Request
        What was asked for; of which follows:
    targets : Targets
        What is regressed on the features.
    whole : Allotment
        All that may be spent.
    joined : JoinedRegression or None
        The steps where nothing is stated, and scales, centre and bounds are all found.
    shares : RegressionShares
        Of the budget, by step, where something is stated or only means are released.
    means_alone : bool
        Whether only the means of targets are released, as public numbers allow no more.

    """

    request: Request
    targets: Targets = field(init=False)
    whole: Allotment = field(init=False)
    joined: JoinedRegression | None = field(init=False)
    shares: RegressionShares = field(init=False)
    means_alone: bool = field(init=False)

    def __post_init__(self) -> None:
        request, targets = self.request, self.request.targets
        assert targets is not None  # it is a regression
        public, pure = request.adjacency.count_is_public, request.budget.is_pure
        if not request.rereadable:
            raise InvalidDataError(
                "a regression reads the rows several times, and these can be read once only: pass "
                "a file or an array"
            )
        if request.private_scale and not public:
            raise UnsupportedNotionError(
                "private scales need a public number of rows: give the scales, or choose ",
                REPLACE_ONE,
            )
        if targets.alpha is not None and not 0 <= targets.alpha < math.inf:
            raise InvalidParameterError(option("alpha"), " must be a number, zero or more")
        amount = whole_strength(request.budget, pure=pure)
        whole: Allotment = Pure(amount) if pure else Gaussian(amount)
        stated = (request.row_norm, request.box, targets.boxes, request.scale)
        any_units = all(one is None for one in stated) and request.n_sought > 0
        any_units = any_units and not (request.centred or pure) and request.on_missing == "invalid"
        joined = None
        if any_units and public and request.n_rows:
            assert isinstance(whole, Gaussian)  # the budget is not pure
            columns, owned = request.n_columns + targets.count, request.unit.owns_many
            joined = JoinedRegression(
                mu=whole.mu,
                rows=request.n_rows,
                features=request.n_columns,
                targets=targets.count,
                known_scale=request.known_scale,
                sample=1.0 if owned else enough_rows(whole, request.n_rows, columns),
                alpha=targets.alpha,
            )
        if joined is not None and not joined.possible:
            shares = RegressionShares(offset=(1 / targets.count,))
        else:
            free = request.scale is None and request.box is None and public
            shares = divided(
                whole,
                request.n_rows,
                request.n_columns,
                targets.count,
                scales=request.n_sought if free or request.private_scale else 0,
                centres=request.box is None and not request.centred,
                lengths=request.row_norm is None
                and clips(whole, request.n_rows, request.n_columns),
                ranged=targets.boxes is not None,
            )
        vars(self).update(
            targets=targets,
            whole=whole,
            joined=joined,
            shares=shares,
            means_alone=not shares.gram if joined is None else not joined.possible,
        )

    @property
    def shares_by_name(self) -> dict[str, float]:
        """Shares of the budget by what they buy; they sum to 1."""
        if isinstance(self.procedure, JoinedRegression):
            return self.procedure.shares
        return self.shares.by_name(self.targets.count)

    @cached_property
    def procedure(self) -> JoinedRegression | LinearStages:
        """All steps at their shares."""
        if self.joined is not None and self.joined.possible:
            return self.joined
        shares = self.shares
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
            targets=(steps,) * self.targets.count,
            length=self._length(),
            target_boxes=self.targets.boxes,
            lift=_LIFT,
            alpha=self.targets.alpha,
        )

    @cached_property
    def pure_part(self) -> float:
        """The epsilon that each target of a release of means may spend on one pure step.

        A delta would let one step exceed the epsilon of the budget by about as much: nothing is
        gained, and a statement would seem to contradict itself.
        """
        count, budget = self.targets.count, self.request.budget
        found = strength(budget, lambda each: compose(*[Pure(each)] * count), LinearStages.name)
        return found if budget.epsilon is None else min(found, budget.epsilon)

    @property
    def findable(self) -> bool:
        """Whether something can be said about a target, as far as public numbers tell."""
        ranged = self.targets.boxes is not None
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
        ranged = self.targets.boxes is not None
        if not ranged or (findable(rows, ranged=True) and request.n_rows is not None):
            return MedianOfMeans(epsilon=self.pure_part, block=blocks_of(rows, ranged=ranged))
        noises = [vector_noise(Pure(self.pure_part))]
        if isinstance(self.whole, Gaussian):
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
        if request.scale is not None:
            return request.scale
        if request.box is not None:
            half = (request.box[1] - request.box[0]) / 2
            return np.where(half > 0, half, np.inf)
        return np.ones(request.n_columns)

    def _known_centre(self) -> NDArray[np.float64]:
        request = self.request
        if request.box is None or request.centred:
            return np.zeros(request.n_columns)
        return np.asarray((request.box[0] + request.box[1]) / 2)

    def _length(self) -> PrivateDistances | float | None:
        if self.shares.length:
            return self._search(self.shares.length)
        if self.request.row_norm is None:
            return None
        assert not isinstance(self.request.row_norm, str)  # a private one is bought unasked
        return math.hypot(_LIFT, self.request.row_norm)
