r"""Private eigenvalues, their number above the noise, and the noise variance of a spiked model.

`PrivateEigenvalues`.

Source: Dong, Liang, Yi 2022 [CovRev], Lemmas 10 and 13 for the sensitivity; Cai, Xia, Zha 2024
[Spiked], section 7.2 for its use.

.. math:: \hat\lambda_j = \lambda_j + \text{noise}, \quad j = 1, \dots, m, \qquad
          \Delta_2 = \sqrt2 R^2/n, \quad \Delta_1 = 2 R^2/n

for replace-one, :math:`R^2/n` in both norms for a single eigenvalue, and R^2 on sums under
add/remove. Proof: docs/proofs/leading.md.

Differences from the source
---------------------------
1. Rows are clipped, so the guarantee is worst-case; that of [Spiked] holds under its model.
2. The noisy eigenvalues are made monotone again, non-negative and bounded in sum by R^2:
   post-processing.

`PrivateNoiseVariance`.

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

`PrivateRank`.

Source: Cai, Xia, Zha 2024 [Spiked], section 7.1; the ratio is that of Lam, Yao 2012.

.. math:: \hat r = \arg\max_{k \le K}\;
          (\lambda_k + Z_k) / \max(\lambda_{k+1} + Z_{k+1},\, f)

K counts the leading noisy eigenvalues, up to ``max_rank``, that stand out one after the other: the
k-th exceeds what the noise Z adds to the largest eigenvalue of pure noise, whose variance is
fitted to the bulk below as in `noise_variance`. f is what the largest of the Z_k exceeds once in a
hundred times. With K = 0 the rank is not identifiable. Only the eigenvalues are drawn; all that
follows is post-processing. Proof: docs/proofs/rank.md.

Differences from the source
---------------------------
1. Rows are clipped: worst-case, where the source's sensitivity holds under its model.
2. Only eigenvalues that stand out compete. The source's ratio names a rank for pure noise too, and
   a noisy denominator near zero wins.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from eigenveil.exact.bounded import Bounded
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.additive import NoisyVector, VectorNoise
from eigenveil.numerics.cleaning import highest, upper_quantiles
from eigenveil.numerics.random import NoiseSource
from eigenveil.numerics.spectral import project_to_simplex
from eigenveil.privacy.cost import Cost

MAX_PRIVATE_RANK = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateEigenvalues:
    """Add noise to descending eigenvalues. Fields are public, never data."""

    proof: ClassVar[str] = "leading"
    name: ClassVar[str] = "eigenvalues"
    exact: ClassVar[bool] = True
    noise: VectorNoise

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return self.noise.cost()

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyVector:
        """Descending eigenvalues in the caller's units; ``query`` comes from `leading`."""
        noisy = self.noise.perturb(query, noise)
        return replace(noisy, values=possible_eigenvalues(noisy.values, query.trace_bound))


def possible_eigenvalues(noisy: NDArray[np.float64], trace_bound: float) -> NDArray[np.float64]:
    """Return the descending, non-negative numbers of bounded sum near to noisy ones:
    post-processing.
    """
    return project_to_simplex(isotonic_regression(noisy, increasing=False).x, trace_bound)


@dataclass(frozen=True, slots=True)
class NoisyVariance:
    """A released variance, not below zero, and the standard deviation of its noise."""

    value: float
    deviation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateNoiseVariance:
    """Add noise to a weighted sum of eigenvalues. Fields are public, never data."""

    proof: ClassVar[str] = "noise_variance"
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


@dataclass(frozen=True, slots=True, eq=False)
class NoisyRank:
    """A released rank, and the eigenvalues it was found with.

    Attributes
    ----------
    rank : int or None
        None where no eigenvalue stands out: the rank is not identifiable.
    eigenvalues : array
        Noisy, all of them, descending, in the caller's units.
    deviation : float
        Standard deviation of the noise on each.

    """

    rank: int | None
    eigenvalues: NDArray[np.float64]
    deviation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateRank:
    """The rank with the largest eigen-ratio. Fields are public, never data.

    Attributes
    ----------
    max_rank : int
        Largest rank considered, below the number of columns.
    rows : float, optional
        Number of rows where the query does not carry it: public, or released.

    """

    name: ClassVar[str] = "rank"
    exact: ClassVar[bool] = True
    noise: VectorNoise
    max_rank: int
    rows: float | None = None

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return self.noise.cost()

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyRank:
        """``query`` comes from `eigenvalues`."""
        d = query.value.units.size
        if not 1 <= self.max_rank < d:
            raise InvalidParameterError("max_rank must be at least 1 and below the columns")
        rows = query.count if query.count is not None else self.rows
        if rows is None:
            raise InvalidParameterError(
                "the number of rows is private here: pass rows, a public or released number"
            )
        noisy = self.noise.perturb(query, noise)
        descending = noisy.values[::-1]
        return NoisyRank(
            leading_rank(descending, max(1.0, rows), self.max_rank, noisy.largest),
            possible_eigenvalues(descending, query.trace_bound),
            noisy.deviation,
        )


def leading_rank(
    eigenvalues: NDArray[np.float64], rows: float, max_rank: int, largest: float
) -> int | None:
    """Return the rank that noisy descending eigenvalues show: post-processing.

    ``largest`` is what the noise on one of them rarely exceeds; None where none stands out.
    """
    standing = _standing_out(eigenvalues, rows, max_rank, largest)
    below = np.maximum(eigenvalues[1 : standing + 1], largest)
    ratios = eigenvalues[:standing] / below
    return int(np.argmax(ratios)) + 1 if standing else None


def _standing_out(
    eigenvalues: NDArray[np.float64], rows: float, max_rank: int, largest: float
) -> int:
    """Return the leading noisy eigenvalues above noise and privacy noise, ``largest``."""
    d = eigenvalues.size
    for rank in range(min(max_rank, min(d, math.floor(rows)) - 1)):
        weights = bulk_weights(d, rows, rank)
        edge = highest(d - rank, rows)
        # The fitted variance is noisy itself.
        floor = edge * max(0.0, float(weights @ eigenvalues))
        floor += largest * math.hypot(1.0, edge * float(np.linalg.norm(weights)))
        if not eigenvalues[rank] > floor:
            return rank
    return min(max_rank, min(d, math.floor(rows)) - 1)
