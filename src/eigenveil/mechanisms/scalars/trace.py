r"""Private trace: the mean squared row norm, and a bound that holds with known probability.

Source: Dong, Liang, Yi 2022 [CovRev], Algorithm 2, lines 3 and 4.

.. math:: \hat t = \min(t + \text{noise} + q_{1-\beta},\, R^2), \quad t = \tfrac1n\sum \|x_i\|^2

One row moves the sum of squares by at most R^2. The noise is Gaussian or Laplace and q its
quantile, so that t-hat is at least t with probability 1 - beta. Proof: docs/proofs/trace.md.

Differences from the source
---------------------------
1. The margin is the exact quantile, not a tail bound.
"""

from dataclasses import dataclass
from typing import ClassVar

from eigenveil.exact.bounded import Bounded
from eigenveil.mechanisms.additive import VectorNoise
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.cost import Cost

__all__ = ["NoisyTrace", "PrivateTrace"]


@dataclass(frozen=True, slots=True)
class NoisyTrace:
    """Released trace, not below zero, and an upper limit on the true one.

    Both end at what can be; the margin of the noise does not, and is never 0.
    """

    value: float
    upper: float
    margin: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateTrace:
    """Add noise to a sum of squared norms. Fields are public, never data."""

    name: ClassVar[str] = "trace"
    exact: ClassVar[bool] = True
    noise: VectorNoise
    beta: float = 0.05

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return self.noise.cost()

    @property
    def rows(self) -> float:
        """The noise, as a number of rows on the sphere."""
        return self.noise.on_one_number

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyTrace:
        """Return the noisy trace in the caller's units; a sum where n is private."""
        noisy = self.noise.perturb(query, noise)
        margin = self.noise.quantile(self.beta) * noisy.deviation
        value = max(0.0, float(noisy.values[0]))
        upper = max(0.0, float(noisy.values[0]) + margin)
        bound = query.trace_bound
        return NoisyTrace(min(value, bound), min(upper, bound), margin)
