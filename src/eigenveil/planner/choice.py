r"""Which mechanism ``mechanism="auto"`` uses: rules of public numbers, quick enough for every fit.

Each rule was decided by measurement (`benchmarks/bench_auto.py`), which also shows what it costs
where the data are not as they usually are. To first order noise of scale s on the second moment of
rows in the unit ball loses

.. math:: L = \sum_{i \le k < j} (\lambda_i - \lambda_j)
          \min\Bigl(\tfrac12, \frac{s^2}{2(\lambda_i - \lambda_j)^2}\Bigr)
          \Big/ \sum_{i \le k} \lambda_i

of the variance within reach.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from eigenveil.data.gram import moment_sensitivities
from eigenveil.data.products import can_keep
from eigenveil.mechanisms.centred import CENTRE_SHARE
from eigenveil.mechanisms.registry import entry, wide
from eigenveil.mechanisms.request import Request
from eigenveil.mechanisms.stages import SHRINK
from eigenveil.numerics.symmetric import GaussianLaw
from eigenveil.planner.assumed import AssumedTable
from eigenveil.planner.situation import Situation
from eigenveil.privacy.calibrate import strength
from eigenveil.privacy.cost import Gaussian
from eigenveil.text import plural

__all__ = ["Choice", "choose", "chosen"]

_CAP = 256  # directions that a loss is summed over
_TARGET = 0.005  # of the variance that unit rows miss even without noise, as real tables go
_SHORT, _FAINT = 0.1, 0.3  # length of rows over the bound, and noise over signal, not to bother
_SPIKE = 8.0  # error of the centre over the edge of the noise, beyond which it is all that shows


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A mechanism, and why: one sentence of public numbers, for the release."""

    mechanism: str
    reason: str


def chosen(request: Request) -> Request:
    """Return a request with a mechanism: the one it names, or the choice of public numbers."""
    if request.entry is not None:
        return request
    choice = choose(Situation.of(request))
    return replace(request, entry=entry(request.releases, choice.mechanism), reason=choice.reason)


@lru_cache(maxsize=1024)
def choose(situation: Situation) -> Choice:
    """The mechanism for a situation; never one that assumes a model of the data."""
    if situation.budget.is_pure:
        return Choice(
            mechanism="wishart",
            reason=f"{situation.budget} without delta: two-sided Wishart noise is the smallest "
            "pure noise on a matrix",
        )
    return _components(situation) if situation.task == "pca" else _matrix(situation)


def _components(situation: Situation) -> Choice:
    assert situation.k is not None  # `Situation` has checked
    if _only_batches(situation):
        return Choice(
            mechanism="oja",
            reason=f"{situation.n} rows of {situation.d} columns that can be read once only: a "
            "square matrix is too large, and so are the rows to keep",
        )
    if situation.row_norm is not None or situation.private_radius:
        return Choice(
            mechanism="analyze-gauss",
            reason="a length of rows is stated, so they are clipped and not normalised",
        )
    if situation.one_pass:
        kept = wide(situation.d, situation.k)
        beware = ", and are kept: if they are too many, 'oja' needs none" if kept else ""
        return Choice(mechanism="spherical", reason=f"the rows can be read once only{beware}")
    if wide(situation.d, situation.k):
        return Choice(
            mechanism="spherical",
            reason=f"{situation.d} columns: no matrix is formed, and without one a first release "
            "that is not followed up would be lost",
        )
    if situation.bounded and situation.n is not None:
        unit, clipped = _losses(situation)
        numbers = (
            f"for {situation.n} {plural(situation.unit, situation.n)}, {situation.d} "
            f"{plural('column', situation.d)}, {situation.k} {plural('component', situation.k)} "
            f"and {situation.budget} noise is expected to lose {min(1.0, clipped):.2g} of the "
            f"variance of clipped rows and {min(1.0, unit):.2g} of that of unit rows, which "
            f"miss about {_TARGET:g} more"
        )
        if clipped < unit + _TARGET:
            return Choice(mechanism="analyze-gauss", reason=numbers)
        return Choice(mechanism="tangent", reason=numbers)
    return Choice(
        mechanism="tangent",
        reason="no length of rows is stated: their directions need none",
    )


def _only_batches(situation: Situation) -> bool:
    """Whether nothing but batches of rows fits; all else has less error where it does."""
    assert situation.k is not None  # `Situation` has checked
    batches = situation.adjacency.count_is_public and situation.unit == "row"
    if not (situation.one_pass and batches and wide(situation.d, situation.k)):
        return False
    return situation.n is not None and not can_keep(situation.n, situation.d)


def _losses(situation: Situation) -> tuple[float, float]:
    """Expected of unit rows and of rows clipped within the stated ranges."""
    table = AssumedTable.of(situation, _CAP)
    assert situation.n is not None  # the caller has checked
    mu = strength(situation.budget, Gaussian, "auto")
    bound = moment_sensitivities(situation.d, situation.adjacency)["frobenius"]
    scale = bound / (situation.n * mu) * math.sqrt(table.stretch)
    reach = SHRINK["components"] / situation.assumed_spread  # in units of the length of a row
    return _loss(table, scale), _loss(table, scale * reach**2)


def _loss(table: AssumedTable, scale: float) -> float:
    inside, outside = table.values[: table.k], table.values[table.k :]
    gaps = np.subtract.outer(inside, outside)
    # gap * min(1/2, scale^2/(2 gap^2)), where a gap may be zero
    lost = np.minimum(gaps, scale**2 / np.maximum(gaps, scale)) / 2
    return float(lost.sum() / inside.sum())  # beyond 1 where noise drowns everything


def _matrix(situation: Situation) -> Choice:
    if situation.one_pass:
        return Choice(mechanism="cleaned", reason="the rows can be read once only")
    if situation.private_radius:
        return Choice(
            mechanism="cleaned",
            reason="the bound on rows is found privately, and need not be lowered again",
        )
    if situation.n is not None:
        mu = strength(situation.budget, Gaussian, "auto")
        n, d = situation.n, situation.d
        bound = moment_sensitivities(d, situation.adjacency)["frobenius"]
        law = GaussianLaw(d, bound / (n * mu))
        spike = d * (2 * situation.start / (n * mu)) ** 2 / CENTRE_SHARE
        if situation.start > 1 and not situation.assume_centered and spike > _SPIKE * law.edge:
            return Choice(
                mechanism="wishart",
                reason=f"the stated ranges reach {situation.start:.3g} times as far as the length "
                f"of rows: of {n} {plural(situation.unit, n)} a mean within them would have an "
                "error that hides the covariance",
            )
        # The smallest Frobenius norm that rows of this length can have.
        if math.sqrt(law.energy) < _FAINT * _SHORT**2 / math.sqrt(d):
            return Choice(
                mechanism="cleaned",
                reason=f"of {n} {plural(situation.unit, n)} and {d} {plural('column', d)} noise "
                f"would stay below {_FAINT:.0%} even if rows were {1 / _SHORT:.0f} times shorter "
                "than the bound: none need be pulled in",
            )
    return Choice(
        mechanism="adaptive-cleaned",
        reason="a stated bound on rows may be generous, and lowering it privately costs an eighth "
        "of the budget at most",
    )
