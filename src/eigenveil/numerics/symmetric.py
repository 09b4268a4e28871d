r"""Isotropic noise on symmetric matrices.

:math:`(E_{ii}, \sqrt2 E_{ij})_{i<j}` is an isometry from symmetric matrices with the Frobenius
norm to Euclidean space. Noise of scale s in every direction therefore has standard deviation
s on the diagonal and s/sqrt(2) off it, and is invariant under rotation.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from eigenveil.exceptions import InvalidParameterError
from eigenveil.numerics.fixedpoint import FixedPoint
from eigenveil.numerics.lattice import GAUSSIAN, Law, add_noise, grid_exponent
from eigenveil.numerics.noise import NoiseLaw
from eigenveil.numerics.random import NoiseSource

__all__ = ["GaussianLaw", "add_symmetric", "add_symmetric_gaussian"]

_GROUP = 1 << 19  # entries in a band of rows


def add_symmetric_gaussian(query: FixedPoint, scale: float, source: NoiseSource) -> FixedPoint:
    """Add isotropic symmetric Gaussian noise of ``scale``, on one grid for all entries."""
    return add_symmetric(query, scale, _over_sqrt_two(scale), source, law=GAUSSIAN)


def add_symmetric(
    query: FixedPoint, scale: float, off_scale: float, source: NoiseSource, *, law: Law
) -> FixedPoint:
    """Add noise of ``scale`` on and of ``off_scale`` off the diagonal, on the grid of ``scale``."""
    d = query.units.shape[0]
    if query.units.shape != (d, d):
        raise InvalidParameterError("symmetric noise needs a square matrix")
    grid = grid_exponent(scale, query.exponent)
    out: NDArray[np.int64] = np.empty((d, d), dtype=np.int64)
    diagonal = FixedPoint(query.units.diagonal(), query.exponent)
    np.fill_diagonal(out, add_noise(diagonal, scale, source, law=law, grid=grid).units)
    rows = max(1, _GROUP // d)
    for start in range(0, d, rows):  # a band of rows at a time: no index arrays of d x d entries
        stop = min(start + rows, d)
        above = np.arange(start, d) > np.arange(start, stop)[:, None]
        off = FixedPoint(query.units[start:stop, start:][above], query.exponent)
        noisy = add_noise(off, off_scale, source, law=law, grid=grid).units
        out[start:stop, start:][above] = noisy
        out[start:, start:stop].T[above] = noisy
    return FixedPoint(out, grid)


def _over_sqrt_two(scale: float) -> float:
    """Scale / sqrt(2), rounded up."""
    root = scale * math.sqrt(0.5)
    while 2 * Fraction(root) ** 2 < Fraction(scale) ** 2:
        root = math.nextafter(root, math.inf)
    return root


@dataclass(frozen=True, slots=True)
class GaussianLaw(NoiseLaw):
    r"""Isotropic Gaussian noise: :math:`R(g) = r^2 g`, r = sqrt(d/2) scale, a semicircle up to 2r.

    Its 99 % limits are calibrated by simulation for d from 2 to 150; the energy has a normal limit.
    """

    scale: float

    @property
    def deviation(self) -> float:
        """Standard deviation of an entry of the diagonal."""
        return self.scale

    @property
    def critical(self) -> float:
        """g* = 1/r."""
        return 1 / self._radius

    @property
    def energy_excess(self) -> float:
        """The tail of chi-squared; a single entry has no energy about its mean."""
        freedom = self.d * (self.d + 1) / 2 - 1
        if freedom == 0:
            return 0.0
        return (float(chi2.isf(1e-4, freedom)) - freedom) * self.scale**2

    def r_transform(self, g: float) -> tuple[float, float, float]:
        """R, R', R''."""
        return self._radius**2 * g, self._radius**2, 0.0

    def correction(self, g: NDArray[np.complex128]) -> NDArray[np.float64]:
        """2 r^2 Re g."""
        return np.asarray(2 * self._radius**2 * g.real)

    def scaled(self, factor: float) -> "GaussianLaw":
        """The law of the noise times ``factor``."""
        return GaussianLaw(self.d, self.scale * factor)

    @property
    def _radius(self) -> float:
        return math.sqrt(self.d / 2) * self.scale
