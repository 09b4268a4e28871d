r"""Private eigengap, and a bound below it that fails with known probability.

Source: Dwork, Talwar, Thakurta, Zhang 2014, Algorithm 2, line 2.

.. math:: \hat g = \lambda_k - \lambda_{k+1} + \text{noise}, \qquad
          g_{\text{low}} = \hat g - q_{1-\beta}, \qquad \Delta = 2 R^2/n

for replace-one; R^2 on sums under add/remove. The noise is Gaussian or Laplace and q its quantile,
so that the gap is at least g_low but with probability beta. Proof: docs/proofs/gap.md.

Differences from the source
---------------------------
1. The margin is the exact quantile of the noise, not a tail bound.
2. Under add/remove the sensitivity is R^2, where the source uses twice that.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.lattice import grid_exponent
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.additive import VectorNoise
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.cost import Cost

__all__ = ["NoisyGap", "PrivateGap"]


@dataclass(frozen=True, slots=True)
class NoisyGap:
    """A released gap, not below zero, and public facts about its noise."""

    value: float
    lower: float  # at most the gap, but with probability beta
    deviation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateGap:
    """Add noise to an eigengap. Fields are public, never data."""

    name: ClassVar[str] = "gap"
    exact: ClassVar[bool] = True
    noise: VectorNoise
    beta: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < self.beta < 0.5:
            raise InvalidParameterError("beta must lie between 0 and 1/2, both excluded")

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return self.noise.cost()

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyGap:
        """Return the noisy gap in the caller's units; ``query`` comes from `eigengap`."""
        noisy = self.noise.perturb(query, noise)
        value, deviation = float(noisy.values[0]), noisy.deviation
        # Half a grid step covers the rounding of the noise, the other half that of the floats.
        step = math.ldexp(1.0, grid_exponent(deviation / query.unit, query.value.exponent))
        lower = value - self.noise.quantile(self.beta) * deviation - step * query.unit
        return NoisyGap(max(0.0, value), max(0.0, lower), deviation)
