r"""Isotropic noise on symmetric matrices.

:math:`(E_{ii}, \sqrt2 E_{ij})_{i<j}` is an isometry from symmetric matrices with the Frobenius
norm to Euclidean space. Noise of scale s in every direction therefore has standard deviation
s on the diagonal and s/sqrt(2) off it, and is invariant under rotation.
"""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from eigenveil.exceptions import InvalidParameterError
from eigenveil.numerics.fixedpoint import FixedPoint
from eigenveil.numerics.lattice import GAUSSIAN, add_noise, grid_exponent
from eigenveil.numerics.random import NoiseSource

__all__ = ["add_symmetric_gaussian", "noise_floor"]

_GROUP = 1 << 19  # entries in a band of rows


def add_symmetric_gaussian(query: FixedPoint, scale: float, source: NoiseSource) -> FixedPoint:
    """Add isotropic symmetric Gaussian noise of ``scale``, on one grid for all entries."""
    d = query.units.shape[0]
    if query.units.shape != (d, d):
        raise InvalidParameterError("symmetric noise needs a square matrix")
    grid = grid_exponent(scale, query.exponent)
    out: NDArray[np.int64] = np.empty((d, d), dtype=np.int64)
    diagonal = FixedPoint(query.units.diagonal(), query.exponent)
    np.fill_diagonal(out, add_noise(diagonal, scale, source, law=GAUSSIAN, grid=grid).units)
    off_scale = _over_sqrt_two(scale)
    rows = max(1, _GROUP // d)
    for start in range(0, d, rows):  # a band of rows at a time: no index arrays of d x d entries
        stop = min(start + rows, d)
        above = np.arange(start, d) > np.arange(start, stop)[:, None]
        off = FixedPoint(query.units[start:stop, start:][above], query.exponent)
        noisy = add_noise(off, off_scale, source, law=GAUSSIAN, grid=grid).units
        out[start:stop, start:][above] = noisy
        out[start:, start:stop].T[above] = noisy
    return FixedPoint(out, grid)


def _over_sqrt_two(scale: float) -> float:
    """Scale / sqrt(2), rounded up."""
    root = scale * math.sqrt(0.5)
    while 2 * Fraction(root) ** 2 < Fraction(scale) ** 2:
        root = math.nextafter(root, math.inf)
    return root


def noise_floor(d: int, scale: float, centre_error: float = 0.0) -> float:
    """Eigenvalue that noise alone exceeds at most about once in a hundred times.

    Noise of ``scale`` has a semicircle that ends at 2r, r = sqrt(d/2) scale, and a largest
    eigenvalue with Tracy-Widom fluctuations r d^(-2/3), 2.02 of them at 99 %. An error of the
    centre, with expected squared length ``centre_error``, adds a spike of rank one: it drowns
    well below r, widens the fluctuations about r, and shows at spike + r^2/spike above (Baik,
    Ben Arous, Péché 2005). Calibrated by simulation for d from 2 to 150.
    """
    radius = math.sqrt(d / 2) * scale
    fluctuation: float = radius * d ** (-2 / 3)
    spike = centre_error * float(chi2.ppf(0.99, d)) / d
    if spike <= radius / 2:
        return 2 * radius + 2.02 * fluctuation
    near = 2 * radius + 4 * fluctuation
    if spike <= radius:
        return near
    ratio = radius / spike
    return max(near, spike + radius * ratio + 2.33 * scale * math.sqrt(1 - ratio**2))
