r"""A rough mean of clipped rows, and under add/remove a count.

.. math:: \hat m = \tfrac1n \sum x_i + \text{noise}

with Gaussian noise of scale 2R/(n mu) for replace-one (two rows in a ball of radius R are at most
2R apart), or Laplace noise of scale 2 sqrt(d) R/(n epsilon). Under add/remove a row adds
(x/R, 1) to a vector of sums and a count; the mean is the ratio of the two noisy sums. Where rows
that hold no numbers are left out, n is replaced by the noisy number of those that do, if it is
clearly smaller.
Proof: docs/proofs/mean.md.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded
from eigenveil.mechanisms.additive import LaplaceNoise, NoisyVector, VectorNoise
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.cost import Cost

__all__ = ["NoisyMean", "PrivateMean"]

_CLEAR, _LEAST = 4.0, 0.05  # deviations of the noise, and the smallest share that counts


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMean:
    """A released mean about the public start, and a released count where n is private."""

    offset: NDArray[np.float64]
    count: float | None
    squared_error: float  # expected squared distance from the mean of the clipped rows


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateMean:
    """Add noise to a sum of rows. Fields are public, never data."""

    name: ClassVar[str] = "mean"
    exact: ClassVar[bool] = True
    noise: VectorNoise

    def cost(self) -> Cost:
        """Cost of one `perturb`: the ratio is post-processing."""
        return self.noise.cost()

    def deviation(self, columns: int, adjacency: Adjacency) -> float:
        """Return that of an entry of the noise on a sum of rows in the unit ball."""
        public = adjacency.count_is_public
        if isinstance(self.noise, LaplaceNoise):
            length = math.sqrt(columns)
            return math.sqrt(2) * (2 * length if public else length + 1) / self.noise.epsilon
        return (2.0 if public else math.sqrt(2)) / self.noise.mu

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyMean:
        """Return the noisy mean in the caller's units."""
        noisy = self.noise.perturb(query, noise)
        if query.count is not None:
            share = _valid_share(noisy, query.unit * query.count) if query.counts_valid else 1.0
            mean = noisy.values[: -1 if query.counts_valid else None] / share
            return NoisyMean(mean, None, mean.size * (noisy.deviation / share) ** 2)
        count = max(1.0, float(noisy.values[-1]) / query.unit)
        mean = noisy.values[:-1] / count
        # The noise of the count acts along the mean itself.
        length = float(mean @ mean) / query.unit**2
        return NoisyMean(mean, count, (mean.size + length) * (noisy.deviation / count) ** 2)


def _valid_share(noisy: NoisyVector, whole: float) -> float:
    """Return the share of rows that hold numbers: 1 unless noise leaves no doubt that it is less.

    ``whole`` is what the last entry would be if all did.
    """
    share, deviation = float(noisy.values[-1]) / whole, noisy.deviation / whole
    return max(_LEAST, share) if share < 1 - _CLEAR * deviation else 1.0
