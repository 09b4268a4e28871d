r"""Rotation-invariant eigenvalue cleaning for isotropic symmetric Gaussian noise.

The eigenvectors of Y = S + E are kept and its eigenvalues l replaced by estimates of
:math:`v_i' S v_i`, the best eigenvalues for that basis. For noise of scale s they converge to

.. math:: \xi_i = l_i - d s^2 \operatorname{Re} g(l_i), \qquad
          g(x) = \text{p.v.} \tfrac1d \sum_j \tfrac1{x - l_j}

(Bun, Allez, Bouchaud, Potters 2016). The sum is smoothed by the Hilbert transform of the
Epanechnikov kernel with bandwidth :math:`h = 0.3\, d^{-1/3} \sqrt{2d}\, s` (as Ledoit and Wolf
2020 do for sample covariances). The estimates are made monotone, non-negative, and bounded in
sum by the public trace bound.

Where the spectrum about its mean cannot be told from noise, and from the rank-one error of a
noisy centre, kernel estimates only add noise of their own: a multiple of the identity is returned
instead, zero unless the trace stands out.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from eigenveil.numerics.spectral import project_to_simplex
from eigenveil.numerics.symmetric import noise_floor

__all__ = ["clean_eigenvalues", "epanechnikov_hilbert"]

_SQRT5 = math.sqrt(5)
_BAND = 1 << 20  # pairs of eigenvalues at a time


def epanechnikov_hilbert(u: NDArray[np.float64]) -> NDArray[np.float64]:
    """p.v. integral of k(t)/(u - t), k(t) = 3/(4 sqrt 5) (1 - t^2/5) on [-sqrt 5, sqrt 5]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithm = np.log(np.abs((_SQRT5 - u) / (_SQRT5 + u)))
        near = 0.3 * u - 3 / (4 * _SQRT5) * (1 - u * u / 5) * logarithm
        # At the ends of the kernel the factor beats the logarithm; far out the terms cancel.
        near = np.where(np.isfinite(logarithm), near, 0.3 * u)
        return np.where(np.abs(u) > 100, 1 / u + 1 / u**3, near)


def clean_eigenvalues(
    values: NDArray[np.float64],
    scale: float,
    *,
    trace_bound: float = math.inf,
    spike: float = 0.0,
) -> NDArray[np.float64]:
    """Cleaned eigenvalues, ascending like ``values``, for noise of ``scale``.

    ``spike`` is the expected size of a spurious rank-one term beside the noise.
    """
    if _is_noise(values, scale, spike):
        cleaned = np.full_like(values, _common_value(values, scale, spike))
    else:
        shifted = values - values.size * scale**2 * _smoothed_stieltjes(values, scale)
        cleaned = isotonic_regression(shifted).x
    return project_to_simplex(cleaned, trace_bound)


def _smoothed_stieltjes(values: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    d = values.size
    bandwidth = 0.3 * d ** (-1 / 3) * math.sqrt(2 * d) * scale
    sums = np.empty(d)
    step = max(1, _BAND // d)
    for start in range(0, d, step):
        gaps = values[start : start + step, None] - values
        sums[start : start + step] = epanechnikov_hilbert(gaps / bandwidth).sum(axis=1)
    return np.asarray(sums / (d * bandwidth))


def _is_noise(values: NDArray[np.float64], scale: float, spike: float) -> bool:
    """Whether neither the largest eigenvalue nor the energy stands out from noise about the mean.

    Without a spike both limits are passed by pure noise about once in ten thousand times
    (Tracy-Widom, and a normal approximation); a spike that shows is left out of the energy.
    """
    d = values.size
    about = values - values.mean()
    radius = math.sqrt(d / 2) * scale
    edge: float = radius * (2 + 4 * d ** (-2 / 3))
    bulk = about if spike <= radius / 2 else about[:-1]
    freedom = d * (d + 1) / 2 - 1
    excess = float(bulk @ bulk) / scale**2 - freedom
    largest = max(edge, noise_floor(d, scale, spike))
    return excess <= 4 * math.sqrt(2 * freedom) and float(about[-1]) <= largest


def _common_value(values: NDArray[np.float64], scale: float, spike: float) -> float:
    """The mean eigenvalue, shrunk to zero unless it clears three of its standard errors."""
    d = values.size
    mean = float(values.mean()) - spike / d
    error = math.hypot(scale / math.sqrt(d), spike * math.sqrt(2 / d) / d)
    return mean * max(0.0, 1 - (3 * error / mean) ** 2) if mean > 0 else 0.0
