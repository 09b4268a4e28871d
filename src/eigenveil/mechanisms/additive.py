r"""Gaussian and Laplace noise on a vector of sums.

Source: Dwork, McSherry, Nissim, Smith 2006 (Laplace); Dong, Roth, Su 2022 (Gaussian, in mu).

.. math:: q + N(0, (\Delta_2/\mu)^2 I) \qquad\text{or}\qquad q + \mathrm{Lap}(\Delta_1/\epsilon)

The building blocks of means, traces, counts and eigenvalues. Proof: docs/proofs/additive.md.
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
from eigenveil.privacy.calibrate import noise_scale
from eigenveil.privacy.cost import Allotment, Cost, Gaussian, Pure

__all__ = [
    "GaussianNoise",
    "LaplaceNoise",
    "NoisyVector",
    "VectorNoise",
    "vector_noise",
]


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
