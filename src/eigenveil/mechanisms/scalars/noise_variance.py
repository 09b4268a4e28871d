r"""Private noise variance of a spiked model, from the bulk of the eigenvalues.

Source: Cai, Xia, Zha 2024 [Spiked], section 5.3; the estimator is that of Ke, Ma, Lin 2023.

.. math:: \hat\sigma^2 = \frac{\sum_k q_k \lambda_k}{\sum_k q_k^2} + \text{noise},
          \qquad \Delta = \frac{R^2}{n} \frac{\max_k q_k}{\sum_k q_k^2}

over the middle half of the eigenvalues beyond the spikes, q_k the quantiles of the law of
Marchenko and Pastur with aspect d/n. The sensitivity is that of the one number, smaller than that
of the eigenvalues by a factor of about sqrt(d). Under add/remove the result is that of the sum, n
times as large, and n in the law is a public or released number.
Proof: docs/proofs/noise_variance.md.

Differences from the source
---------------------------
1. Rows are clipped and the sensitivity holds for all tables; that of the source under its model.
   Clipping below the typical norm lowers the estimate: it is that of the clipped rows.
2. Quantiles are taken at (k - 1/2)/m, not k/m, which is biased by half a spacing.
3. Known spikes are left out before the others are compared with the law.
4. A negative noisy result becomes zero, not its absolute value.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.additive import VectorNoise
from eigenveil.numerics.cleaning import upper_quantiles
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.cost import Cost

__all__ = ["NoisyVariance", "PrivateNoiseVariance", "bulk_weights"]


@dataclass(frozen=True, slots=True)
class NoisyVariance:
    """A released variance, not below zero, and the standard deviation of its noise."""

    value: float
    deviation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateNoiseVariance:
    """Add noise to a weighted sum of eigenvalues. Fields are public, never data."""

    name: ClassVar[str] = "noise-variance"
    exact: ClassVar[bool] = True
    noise: VectorNoise

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return self.noise.cost()

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyVariance:
        """``query``: `weighted_eigenvalues` of a second moment with `bulk_weights`."""
        noisy = self.noise.perturb(query, noise)
        return NoisyVariance(max(0.0, float(noisy.values[0])), noisy.deviation)


def bulk_weights(d: int, rows: float, spikes: int = 0) -> NDArray[np.float64]:
    """Return what the descending eigenvalues contribute to the variance of the noise.

    Parameters
    ----------
    d, rows : numbers
        Columns, and rows: public, or released.
    spikes : int
        Leading eigenvalues that are known not to be noise.

    """
    m = min(d, math.floor(rows)) - spikes
    if m < 1 or spikes < 0:
        raise InvalidParameterError("no eigenvalues are left apart from the spikes")
    # The largest stays out where it can: it is the one that is compared with the noise.
    first = min(m, max(2, math.ceil(m / 4)))
    bulk = np.arange(first, max(first, 3 * m // 4) + 1)
    quantiles = upper_quantiles((bulk - 0.5) / m, (d - spikes) / rows)
    weights = np.zeros(d)
    weights[spikes + bulk - 1] = quantiles / (quantiles @ quantiles)
    return weights
