r"""Noise added to a bounded vector: sums, means and traces.

`GaussianNoise`, `LaplaceNoise`.

Source: Dwork, McSherry, Nissim, Smith 2006 (Laplace); Dong, Roth, Su 2022 (Gaussian, in mu).

.. math:: q + N(0, (\Delta_2/\mu)^2 I) \qquad\text{or}\qquad q + \mathrm{Lap}(\Delta_1/\epsilon)

The building blocks of means, traces, counts and eigenvalues. Proof: docs/proofs/additive.md.

`PrivateMean`:

.. math:: \hat m = \tfrac1n \sum x_i + \text{noise}

with Gaussian noise of scale 2R/(n mu) for replace-one (two rows in a ball of radius R are at most
2R apart), or Laplace noise of scale 2 sqrt(d) R/(n epsilon). Under add/remove a row adds
(x/R, 1) to a vector of sums and a count; the mean is the ratio of the two noisy sums. Where rows
that hold no numbers are left out, n is replaced by the noisy number of those that do, if it is
clearly smaller.
Proof: docs/proofs/mean.md.

`PrivateTrace`.

Source: Dong, Liang, Yi 2022 [CovRev], Algorithm 2, lines 3 and 4.

.. math:: \hat t = \min(t + \text{noise} + q_{1-\beta},\, R^2), \quad t = \tfrac1n\sum \|x_i\|^2

One row moves the sum of squares by at most R^2. The noise is Gaussian or Laplace and q its
quantile, so that t-hat is at least t with probability 1 - beta. Proof: docs/proofs/trace.md.

Differences from the source
---------------------------
1. The margin is the exact quantile, not a tail bound.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.lattice import GAUSSIAN, LAPLACE, Law, add_noise, grid_exponent
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.calibrate import noise_scale
from eigenveil.privacy.cost import Allotment, Cost, Gaussian, Pure


@dataclass(frozen=True, slots=True, eq=False)
class NoisyVector:
    """Released values in the caller's units, and public facts about their noise."""

    values: NDArray[np.float64]
    deviation: float  # standard deviation of one entry
    largest: float  # what the largest of the entries exceeds about once in a hundred times


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianNoise:
    """Calibrated to the l2 sensitivity. Fields are public, never data."""

    name: ClassVar[str] = "gaussian"
    exact: ClassVar[bool] = True
    mu: float

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return Gaussian(self.mu)

    @property
    def on_one_number(self) -> float:
        """Standard deviation of the noise on a number that one row moves by 1."""
        return 1 / self.mu

    def quantile(self, beta: float) -> float:
        """Return what noise exceeds with probability ``beta``, in standard deviations."""
        return -float(ndtri(beta))

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyVector:
        """Return the noisy vector in the caller's units."""
        scale = noise_scale(query.sensitivity("l2"), self.mu)
        largest = -scale * float(ndtri(0.01 / query.value.units.size))
        return _add(query, scale, noise, GAUSSIAN, deviation=scale, largest=largest)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceNoise:
    """Calibrated to the l1 sensitivity. Fields are public, never data."""

    name: ClassVar[str] = "laplace"
    exact: ClassVar[bool] = True
    epsilon: float

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return Pure(self.epsilon)

    @property
    def on_one_number(self) -> float:
        """Standard deviation of the noise on a number that one row moves by 1."""
        return math.sqrt(2) / self.epsilon

    def quantile(self, beta: float) -> float:
        """Return what noise exceeds with probability ``beta`` < 1/2, in standard deviations."""
        return math.log(0.5 / beta) / math.sqrt(2)

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyVector:
        """Return the noisy vector in the caller's units."""
        scale = noise_scale(query.sensitivity("l1"), self.epsilon)
        largest = scale * math.log(query.value.units.size / 0.02)
        return _add(query, scale, noise, LAPLACE, deviation=math.sqrt(2) * scale, largest=largest)


VectorNoise = GaussianNoise | LaplaceNoise


def vector_noise(allotment: Allotment) -> VectorNoise:
    """Return the noise on a vector that an allotment buys."""
    if isinstance(allotment, Pure):
        return LaplaceNoise(epsilon=allotment.epsilon)
    return GaussianNoise(mu=allotment.mu)


def _add(
    query: Bounded,
    scale: float,
    noise: NoiseSource,
    law: Law,
    *,
    deviation: float,
    largest: float,
) -> NoisyVector:
    grid = grid_exponent(scale, query.value.exponent)
    noisy = add_noise(query.value, scale, noise, law=law, grid=grid)
    values = noisy.to_float() * query.unit
    return NoisyVector(values, deviation * query.unit, largest * query.unit)


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

    proof: ClassVar[str] = "mean"
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

    proof: ClassVar[str] = "trace"
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
