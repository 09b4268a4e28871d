r"""Laws of rotation-invariant symmetric noise, as far as cleaning and reports need them.

With R-transform R, the spectrum of d x d noise ends where :math:`z(g) = R(g) + 1/g` is least:

.. math:: z'(g_*) = 0, \quad \text{edge } z(g_*), \quad
          \text{fluctuations } (z''(g_*)/2)^{1/3} d^{-2/3},

those of the largest eigenvalue Tracy-Widom. A spike t > 1/g* beside it shows at z(1/t), a smaller
one drowns (Baik, Ben Arous, Péché 2005; Benaych-Georges, Nadakuditi 2011).
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import chi2

_LAPLACE_FREEDOM = 0.4  # per column: the square of a Laplace number varies 5/2 times as much


def error_freedom(columns: int, *, laplace: bool) -> float:
    """Return the degrees of freedom of the squared length of noise on a centre."""
    return columns * (_LAPLACE_FREEDOM if laplace else 1.0)


@lru_cache(maxsize=256)
def largest_square(freedom: float) -> float:
    """Return how many times its expectation a squared length exceeds once in a hundred times."""
    return float(chi2.ppf(0.99, freedom)) / freedom


@dataclass(frozen=True, slots=True)
class NoiseLaw(ABC):
    """Rotation-invariant noise on d x d symmetric matrices. Public, never data."""

    d: int

    @property
    @abstractmethod
    def deviation(self) -> float:
        """Standard deviation of an entry of the diagonal; off it, smaller by sqrt(2)."""

    @property
    @abstractmethod
    def critical(self) -> float:
        """g*, where z is least."""

    @property
    @abstractmethod
    def energy_excess(self) -> float:
        """Excess of the energy about the mean that occurs once in ten thousand times."""

    @abstractmethod
    def r_transform(self, g: float) -> tuple[float, float, float]:
        """R and its first two derivatives, for real g up to g*."""

    @abstractmethod
    def correction(self, g: NDArray[np.complex128]) -> NDArray[np.float64]:
        """Im(g R(g)) / Im(g), where g is real its limit: what an eigenvalue has from the noise."""

    @abstractmethod
    def scaled(self, factor: float) -> "NoiseLaw":
        """Return the law of the noise times ``factor``."""

    @property
    def energy(self) -> float:
        """Mean squared Frobenius norm."""
        return self.d * (self.d + 1) / 2 * self.deviation**2

    @property
    def edge(self) -> float:
        """The end of the spectrum as d grows."""
        return self.r_transform(self.critical)[0] + 1 / self.critical

    @property
    def fluctuation(self) -> float:
        """Scale of the largest eigenvalue about the edge."""
        unit = self.scaled(self.critical)  # of g* = 1: cubes of other units would overflow
        curvature = unit.r_transform(1.0)[2] / 2 + 1
        return math.cbrt(curvature / self.d**2) / self.critical

    @property
    def ceiling(self) -> float:
        """Eigenvalue that noise alone exceeds about once in ten thousand times."""
        return self.edge + 4 * self.fluctuation

    def overlap(self, spike: float) -> float:
        """Return the squared cosine between the direction of ``spike`` with and without noise.

        1 - g^2 R'(g) at g = 1/spike: docs/proofs/cleaned.md, Spikes. Zero where the spike drowns.
        """
        if not spike * self.critical > 1:
            return 0.0
        unit = self.scaled(1 / spike)  # of spike 1: any other might leave the range of floats
        return max(0.0, 1 - unit.r_transform(1.0)[1])

    def level(self, values: NDArray[np.float64], trace: float) -> float:
        """Return what all directions have on average beside the larger half of leading eigenvalues.

        It moves all eigenvalues alike and says nothing about directions.
        """
        kept = min(values.size, max(1, self.d // 2))
        others = self.d - kept
        return max(0.0, (trace - float(values[:kept].sum())) / others) if others else 0.0

    def signal(self, value: float) -> tuple[float, float]:
        """Return the spike that shows as the eigenvalue ``value`` = z(g), 1/g, and its overlap.

        Zero below the edge.
        """
        if not self.edge < value < math.inf:
            return 0.0, 0.0
        unit = self.scaled(1 / value)
        if not unit.edge < 1:  # as it rounds: an edge that no root lies beyond
            return 0.0, 0.0
        g = brentq(lambda g: unit.r_transform(g)[0] + 1 / g - 1.0, 1.0, unit.critical)
        return value / g, self.overlap(value / g)

    def floor(self, centre_error: float = 0.0, freedom: float | None = None) -> float:
        """Eigenvalue that noise alone exceeds at most about once in a hundred times.

        An error of the centre, with expected squared length ``centre_error``, adds a spike of rank
        one: it drowns well below 1/g*, widens the fluctuations about it, and shows above.
        Its squared length has ``freedom`` degrees of freedom, by default one per column.
        Calibrated by simulation, as the laws and their tests say.
        """
        spike = centre_error * largest_square(freedom or self.d)
        if spike * self.critical <= 0.5:
            return self.edge + 2.02 * self.fluctuation
        if spike * self.critical <= 1:
            return self.ceiling
        shift, slope, _ = self.r_transform(1 / spike)
        spread = self.deviation * math.sqrt(max(0.0, 1 - slope / spike**2))
        return max(self.ceiling, spike + shift + 2.33 * spread)
