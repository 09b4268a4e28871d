r"""A rough mean of clipped rows, and under add/remove a count.

.. math:: \hat m = \tfrac1n \sum x_i + N(0, \sigma^2 I), \quad \sigma = 2R/(n\mu)

for replace-one (two rows in a ball of radius R are at most 2R apart). Under add/remove a row
adds (x/R, 1), of norm at most sqrt(2), to a vector of sums and a count; the mean is the ratio
of the two noisy sums. Proof: docs/proofs/mean.md.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.bounded import Bounded
from eigenveil.exceptions import InvalidParameterError
from eigenveil.numerics.lattice import GAUSSIAN, add_noise, grid_exponent
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.calibrate import gaussian_sigma
from eigenveil.privacy.cost import Cost, Gaussian

__all__ = ["GaussianMean", "NoisyMean"]


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMean:
    """A released mean about the public start, and a released count where n is private."""

    offset: NDArray[np.float64]
    count: float | None
    squared_error: float  # expected squared distance from the mean of the clipped rows


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianMean:
    """Add isotropic Gaussian noise to a sum of rows. Fields are public, never data."""

    name: ClassVar[str] = "mean"
    mu: float

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return Gaussian(self.mu)

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyMean:
        """The noisy mean in the caller's units."""
        if query.norm != "l2":
            raise InvalidParameterError("the mean needs a Euclidean sensitivity")
        sigma = gaussian_sigma(query.sensitivity, self.mu)
        grid = grid_exponent(sigma, query.value.exponent)
        noisy = add_noise(query.value, sigma, noise, law=GAUSSIAN, grid=grid).to_float()
        if query.adjacency.count_is_public:
            return NoisyMean(noisy * query.unit, None, noisy.size * (sigma * query.unit) ** 2)
        count = max(1.0, float(noisy[-1]))
        ratio = noisy[:-1] / count
        # The noise of the count acts along the ratio itself.
        spread = (ratio.size + float(ratio @ ratio)) * (sigma / count) ** 2
        return NoisyMean(ratio * query.unit, count, spread * query.unit**2)
