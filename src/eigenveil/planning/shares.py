"""How a budget is divided among the stages of a release, from public numbers.

Stages and their shares of the budget (of mu^2, or of a pure epsilon): scales of columns; shares of
present cells 0.05, and of pairs of them 0.05 where rows are many; a centre, a search for distances
and a mean for each step; or one mean of clipped rows 0.1, of components at a pure epsilon 0.2; a
private radius; the rank 0.1; variances 0.05 and their distances; the captured variance 0.02; scores
to be shown 0.1; the components or the matrix what is left. Searches take what public numbers say
they need, from 0.005 to 0.1; the more rows, the less for all of them.

What a step of a regression needs is measured in n mu, rows for each standard deviation of noise on
a count. A search for distances needs a share of (34/(n mu))^2 of mu^2, scales of p columns (60
sqrt(p)/(n mu))^2; of a pure epsilon 130/(n epsilon) and 220 p/(n epsilon). Where scales need more
than half, or a range of the target is neither stated nor to be found, coefficients are out of
reach: a mean of each target is all that is released, and has the whole budget. What is left
otherwise goes to the Gram matrix and to the stages, mostly to the last.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eigenveil.mechanisms.centre import CENTRE_SHARE, mean_shares
from eigenveil.mechanisms.column_scale import scale_share
from eigenveil.mechanisms.component_stages import RANK_SHARE, VARIANCE_SHARE
from eigenveil.mechanisms.counted import Counted
from eigenveil.mechanisms.distances import distance_share
from eigenveil.privacy.cost import Allotment, Pure

if TYPE_CHECKING:
    from eigenveil.planning.plans import Plan

PURE_MEAN_SHARE = 0.2  # of components

_GRAM = 0.45  # of what is left beside the searches
_VARIANCE = 0.02
_STAGES = (1.0, 1.0, 2.0)
_FEW_STAGES = 400.0  # n mu below which one stage has to do
_SEARCH = {False: 34.0, True: 65.0}  # of n mu, or of n epsilon/2
_SCALES = {False: 60.0, True: 110.0}
_MOST_SCALE, _LEAST_SCALE = 0.5, 0.01
_MOST_CENTRE, _LEAST_CENTRE = 0.05, 0.005
_OFFSET = (0.02, 0.05)  # two means of a target
_LEAST_LEFT = 0.3  # for the Gram matrix and stages, or else only means are released
_LEAST_SEARCH, _MOST_SEARCH = 0.005, 0.1
_LEAST_ROWS = {False: 64.0, True: 172.0}  # n mu, or n epsilon/2, for any search


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionShares:
    """Shares of mu^2, or of a pure epsilon; those of each target where there are several.

    Attributes
    ----------
    scale : float
        Scales of the features; zero where they are not searched for.
    centre : tuple of float
        Distances and mean, twice, for the centre of the features; empty where it is known.
    offset : tuple of float
        The same for a target, or a single number where a range is stated or means are all.
    length : float
        Length that records are pulled in to; zero where none is searched for.
    gram : float
        The Gram matrix; zero where only means are released.
    stages : tuple of (float, float)
        Distances and sum of every stage.
    variance : tuple of float
        Distances and variance of residuals; empty without stages.

    """

    offset: tuple[float, ...]
    scale: float = 0.0
    centre: tuple[float, ...] = ()
    length: float = 0.0
    gram: float = 0.0
    stages: tuple[tuple[float, float], ...] = ()
    variance: tuple[float, ...] = ()

    def by_name(self, n_targets: int) -> dict[str, float]:
        """Return the shares by what they buy; they sum to 1."""
        shares = {
            "scale": self.scale,
            "centre": sum(self.centre),
            "offset": n_targets * sum(self.offset),
            "length": self.length,
            "gram": self.gram,
            "stages": n_targets * sum(map(sum, self.stages)),
            "variance": n_targets * sum(self.variance),
        }
        return {name: round(share, 12) for name, share in shares.items() if share}


def effective_rows(whole: Allotment, n_rows: int | None) -> float:
    """Return n mu, or what a pure epsilon has instead; infinite where n is private."""
    if n_rows is None:
        return math.inf
    return n_rows * (whole.epsilon / 2 if isinstance(whole, Pure) else whole.mu)


def searchable(whole: Allotment, n_rows: int | None) -> bool:
    """Return whether distances of a target would be found, as far as public numbers tell."""
    return effective_rows(whole, n_rows) >= _LEAST_ROWS[isinstance(whole, Pure)]


def clips(whole: Allotment, n_rows: int | None, n_features: int) -> bool:
    """Return whether records are better pulled in to a private length than all made as long.

    Noise is smaller on records of unit length; weights of clipped ones are nearly equal, so that
    the coefficients are nearly those of least squares also where no linear model holds.
    """
    return n_rows is not None and effective_rows(whole, n_rows) >= 25 * n_features + 100


def divided(
    whole: Allotment,
    n_rows: int | None,
    n_features: int,
    n_targets: int,
    *,
    scales: int,
    centres: bool,
    lengths: bool,
    ranged: bool,
) -> RegressionShares:
    """Return the shares; what is True has to be searched for, ``ranged`` targets have a range.

    ``scales`` is the number of features whose scales are searched for.
    """
    alone = RegressionShares(offset=(1 / n_targets,))
    if not (ranged or searchable(whole, n_rows)):
        return alone
    pure = isinstance(whole, Pure)
    rows, power = effective_rows(whole, n_rows), 1 if pure else 2
    search = _needed(rows, pure)
    scale = 0.0
    if scales:
        columns = scales if pure else math.sqrt(scales)
        scale = max(_LEAST_SCALE, (_SCALES[pure] * columns / rows) ** power)
    mean = min(_MOST_CENTRE, max(_LEAST_CENTRE, 40 * n_features / rows**power))
    centre = (search, mean / 2, search, mean) if centres else ()
    rough, fine = (share / n_targets for share in _OFFSET)
    offset = (rough + fine,) if ranged else (search, rough, search, fine)
    most = 1 if rows < _FEW_STAGES else 2 if pure else 3
    weights = _STAGES[-most:]
    variance = (search, _VARIANCE / n_targets)
    length = search if lengths else 0.0
    each = (*offset, *variance, *[search] * len(weights))
    left = 1 - scale - sum(centre) - length - n_targets * sum(each)
    if scale > _MOST_SCALE or left < _LEAST_LEFT or rows < 8 * (n_features + 1):
        return alone
    stage = (1 - _GRAM) * left / sum(weights) / n_targets
    return RegressionShares(
        scale=scale,
        centre=centre,
        offset=offset,
        length=length,
        gram=_GRAM * left,
        stages=tuple((search, stage * weight) for weight in weights),
        variance=variance,
    )


def _needed(rows: float, pure: bool) -> float:
    """Return the share that one search for distances needs."""
    if math.isinf(rows):
        return 2 * _LEAST_SEARCH
    needed = (_SEARCH[pure] / rows) ** (1 if pure else 2)
    return min(_MOST_SEARCH, max(_LEAST_SEARCH, needed))


def stage_shares(plan: "Plan") -> dict[str, float]:
    """Return shares of `Plan.whole` by stage; before rows are drawn, all after the count as one."""
    request, whole, located = plan.request, plan.whole, plan.centring == "located"
    if plan.counted:
        return Counted.build(whole, request).shares(plan.drawn_rows)
    shares: dict[str, float] = {}
    search = distance_share(whole, plan.n_differences)
    if plan.front:
        left = 1 - sum(plan.missing_shares.values())
        steps = plan.front_at(whole).shares
        shares = {stage: left * share for stage, share in steps.items()}
    elif request.private_scale:
        shares["scale"] = scale_share(whole, plan.n_rows, request.n_sought)
    shares |= plan.missing_shares
    if located and not plan.front:
        first, *means = centre_shares(plan)
        shares["centre"] = (len(means) + plan.normalise) * first + sum(means)
    elif not plan.front and ((plan.centring == "mean" and not plan.lifts) or plan.counts):
        shares["centre"] = PURE_MEAN_SHARE if plan.components and plan.pure else CENTRE_SHARE
    if plan.tightens and not plan.front:
        shares["radius"] = search
    if plan.components and request.private_rank:
        shares["rank"] = RANK_SHARE
    if plan.variances:
        shares["variances"] = VARIANCE_SHARE + search
    if plan.components:
        shares |= plan.bought
    shares["components" if plan.components else "matrix"] = 1 - sum(shares.values())
    return shares


def centre_shares(plan: "Plan") -> tuple[float, ...]:
    """Return shares of one search for distances and of the mean of each step."""
    rough, fine = mean_shares(plan.whole, plan.n_rows, plan.request.n_columns)
    means = (rough, fine) if plan.normalise else (rough / 2, rough / 2, fine)
    return distance_share(plan.whole, plan.n_rows), *means
