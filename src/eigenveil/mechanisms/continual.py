r"""A fresh second moment of everything so far, every day of a stated horizon.

Sources: Fichtenberger, Henzinger, Upadhyay 2023 (square-root factorisation); Denisov, McMahan,
Rush, Smith, Thakurta 2022 (later days may depend on earlier answers).

With :math:`X_s` the sum of x x' over the rows of day s, day t releases

.. math:: W_t = \sum_{s \le t} r_{t-s} X_s + Z_t, \qquad
          \sum_{s \le t} X_s + \text{noise} = \sum_{s \le t} a_{t-s} W_s,

with Z_t isotropic and independent, and r, a those of `eigenveil.exact.daily_moments`. A row enters
on one day and costs :math:`\mu^2 r_j^2/\sum r^2` j days later: mu in all, whatever its day. The sum
of T days has :math:`|r| |a|` times the noise of one release: 2.94 for 365 days.

Differences from the sources
----------------------------
1. Coefficients are multiples of 2^-10 and second moments of 2^-22, so that sums are exact; the
   weights a belong to the rounded coefficients, so nothing is biased by it.
2. A person who comes on up to m days is bounded by the m first columns together.

Proof: docs/proofs/continual.md.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.daily_moments import (
    COEFFICIENT_BITS,
    DailyMoments,
    answer_weights,
    contributions,
)
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.gate import Gate, Step
from eigenveil.mechanisms.gauss import GaussCov, NoisyMatrix
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.cost import Cost, Gaussian

_SLACK = 1 + 2.0**-44  # of a cost, above the rounding of its own computation


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinualCov:
    """Running second moments with correlated noise. Fields are public, never data.

    Attributes
    ----------
    mu : float
        Strength of all days together.
    horizon : int
        Number of days.
    days : int
        Most days that a unit comes on: 1 for rows.

    """

    name: ClassVar[str] = "continual"
    mu: float
    horizon: int
    days: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.days <= self.horizon:
            raise InvalidParameterError(
                "a unit comes on at least 1 day and at most as many as the horizon has"
            )

    def cost(self) -> Cost:
        """Return the cost of all days together."""
        return Gaussian(self.mu)

    def draw(self, moments: DailyMoments, gate: Gate) -> NoisyMatrix:
        """Release what the newest day adds: in units of the ball of rows, not divided by them."""
        step = DailyDraw(self, len(moments.sums) - 1)
        query = moments.weighted(self.horizon, self.days, gate.adjacency, gate.protects)
        return gate.draw(step, query)

    def weights(self, day: int) -> NDArray[np.float64]:
        """Return the weights of what was released on each of the first ``day`` days in their sum.

        The sum over all days so far is post-processing of what the days released.
        """
        return answer_weights(self.horizon)[:day][::-1]

    def noise(self, day: int) -> float:
        """Return the scale of the noise on that sum, for rows that move a day's matrix by 1."""
        return float(np.linalg.norm(self.weights(day))) / self.daily_mu

    @property
    def daily_mu(self) -> float:
        """Strength of one day's draw for a unit that moves the sums of that day by 1."""
        _, root = contributions(self.horizon, self.days)
        return math.ldexp(self.mu, COEFFICIENT_BITS) / root


@dataclass(frozen=True, slots=True)
class DailyDraw:
    """One day of a `ContinualCov`."""

    name: ClassVar[str] = "continual"
    exact: ClassVar[bool] = True
    plan: ContinualCov
    day: int

    def __post_init__(self) -> None:
        if not 0 <= self.day < self.plan.horizon:
            raise InvalidParameterError("a day lies within the horizon")

    def cost(self) -> Cost:
        """Return the cost to a unit that came on the first days; others pay as much later."""
        moved, root = contributions(self.plan.horizon, self.plan.days)
        return Gaussian(self.plan.mu * int(moved[self.day]) / root * _SLACK)

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyMatrix:
        """Return the noisy sum; the noise is the same every day."""
        moved, root = contributions(self.plan.horizon, self.plan.days)
        return GaussCov(mu=self.plan.mu * int(moved.max()) / root).perturb(query, noise)


class DailyGate(Gate):
    """An allotment for one draw a day, each of everything so far, in the order of days."""

    day = 0

    def go_on(self, plan: ContinualCov, day: int) -> None:
        """Continue before a day, after an earlier process."""
        self.day = day
        self._spent = tuple(DailyDraw(plan, each).cost() for each in range(day))

    def _pay(self, step: Step[Any], records: range | None) -> None:
        if getattr(step, "day", None) != self.day:
            raise InvalidParameterError("one draw for each day, in the order of days")
        super()._pay(step, records)
        self.day += 1
