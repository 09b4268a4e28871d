r"""Rotation-invariant eigenvalue cleaning for symmetric noise of known law.

The eigenvectors of Y = S + E are kept and its eigenvalues l replaced by estimates of
:math:`v_i' S v_i`, the best eigenvalues for that basis. For noise with R-transform R they
converge to

.. math:: \xi_i = l_i - \frac{\operatorname{Im}(g R(g))}{\operatorname{Im} g}, \quad
          g = \lim_{\eta \downarrow 0} \tfrac1d \sum_j \tfrac1{l_i + i \eta - l_j}

(Bun, Allez, Bouchaud, Potters 2016); Gaussian noise of scale s has the correction
:math:`d s^2 \operatorname{Re} g`. The sum is smoothed by the Epanechnikov kernel with bandwidth
:math:`h = 0.3\, d^{-1/3}` times the edge of the noise, :math:`\sqrt{2d}\, s` for a Gaussian (as
Ledoit and Wolf 2020 do for sample covariances). The estimates are made monotone, non-negative, and
bounded in sum by the public trace bound.

Where the spectrum about its mean cannot be told from noise, and from the rank-one error of a
noisy centre, kernel estimates only add noise of their own: a multiple of the identity is returned
instead, zero unless the trace stands out. The same holds for what is left once the eigenvalues
that stand clear of the noise are taken away.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from eigenveil.numerics.noise import NoiseLaw
from eigenveil.numerics.spectral import project_to_simplex

__all__ = ["clean_eigenvalues", "epanechnikov_hilbert"]

_SQRT5 = math.sqrt(5)
_PEAK = 3 / (4 * _SQRT5)  # of the kernel
_FLAT = 0.25  # share of the limit on the energy within which a remainder may be called flat
_BAND = 1 << 20  # pairs of eigenvalues at a time


def epanechnikov_hilbert(u: NDArray[np.float64]) -> NDArray[np.float64]:
    """p.v. integral of k(t)/(u - t), k(t) = 3/(4 sqrt 5) (1 - t^2/5) on [-sqrt 5, sqrt 5]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithm = np.log(np.abs((_SQRT5 - u) / (_SQRT5 + u)))
        near = 0.3 * u - _PEAK * (1 - u * u / 5) * logarithm
        # At the ends of the kernel the factor beats the logarithm; far out the terms cancel.
        found = np.where(np.isfinite(logarithm), near, 0.3 * u)
        far = np.abs(u) > 100  # few, and powers take long
        found[far] = 1 / u[far] + 1 / u[far] ** 3
        return found


def clean_eigenvalues(
    values: NDArray[np.float64],
    law: NoiseLaw,
    *,
    trace_bound: float = math.inf,
    spike: float = 0.0,
) -> NDArray[np.float64]:
    """Cleaned eigenvalues, ascending like ``values``, for noise of ``law``.

    ``spike`` is the expected size of a spurious rank-one term beside the noise.
    """
    common = _common_value(values, law, spike)
    if _is_noise(values, law, spike, nothing=common == 0):
        return project_to_simplex(np.full_like(values, common), trace_bound)
    shifted = values - law.correction(_smoothed_stieltjes(values, law))
    cleaned = isotonic_regression(shifted).x
    if _matters(spike, law) and values.size > 1 and values[-1] <= law.floor(spike):
        cleaned[-1] = cleaned[-2]  # the rest may be the error of the centre
    clear = max(1, int(np.sum(values - np.median(values) > law.floor())))
    rest = values[:-clear]
    if rest.size:
        common = _common_value(rest, law, 0.0)
        if _is_noise(rest, law, 0.0, nothing=common == 0, patience=1.0 if common == 0 else _FLAT):
            cleaned[:-clear] = np.minimum(common, cleaned[-clear])
    return project_to_simplex(cleaned, trace_bound)


def _smoothed_stieltjes(values: NDArray[np.float64], law: NoiseLaw) -> NDArray[np.complex128]:
    """Smoothed g at every eigenvalue, from the others: one that stands alone has real g."""
    d = values.size
    bandwidth = 0.3 * d ** (-1 / 3) * law.edge
    sums = np.empty(d, dtype=np.complex128)
    step = max(1, _BAND // d)
    for start in range(0, d, step):
        gaps = (values[start : start + step, None] - values) / bandwidth
        sums.real[start : start + step] = epanechnikov_hilbert(gaps).sum(axis=1)
        density = _PEAK * np.maximum(1 - gaps**2 / 5, 0).sum(axis=1) - _PEAK
        sums.imag[start : start + step] = -math.pi * density
    return np.asarray(sums / (d * bandwidth))


def _is_noise(
    values: NDArray[np.float64],
    law: NoiseLaw,
    spike: float,
    *,
    nothing: bool,
    patience: float = 1.0,
) -> bool:
    """Return whether neither the largest eigenvalue nor the energy stands out from noise about the
    mean.

    Without a spike pure noise passes each limit about once in ten thousand times; a spike that
    shows is left out of the energy. Where the trace says that there is more than ``nothing``, the
    largest eigenvalue has to be one in a hundred only: a mistake costs little beside what is there.
    """
    about = values - values.mean()
    bulk = about
    if _matters(spike, law) and values.size > 1:
        bulk = values[:-1] - values[:-1].mean()
    freedom = values.size * (values.size + 1) / 2 - 1
    excess = float(bulk @ bulk) - freedom * law.deviation**2
    largest = max(law.ceiling if nothing else 0.0, law.floor(spike))
    return excess <= patience * law.energy_excess and float(about[-1]) <= largest


def _matters(spike: float, law: NoiseLaw) -> bool:
    """Return whether a spurious term of this size may show beside the noise."""
    return spike * law.critical > 0.5


def _common_value(values: NDArray[np.float64], law: NoiseLaw, spike: float) -> float:
    """Return the mean eigenvalue, shrunk to zero unless it clears three of its standard errors."""
    d = values.size
    mean = float(values.mean()) - spike / d
    error = math.hypot(law.deviation / math.sqrt(d), spike * math.sqrt(2 / d) / d)
    return mean * max(0.0, 1 - (3 * error / mean) ** 2) if mean > 0 else 0.0
