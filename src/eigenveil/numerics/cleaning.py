r"""Eigenvalue cleaning for noise of known law, and spectra of noise, unit rows and correlations.

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

For n rows of d independent entries of variance 1 and aspect :math:`\gamma = d/n`, the non-zero
eigenvalues of :math:`X'X/n` follow the law of Marchenko and Pastur 1967,

.. math:: f(x) = \frac{\sqrt{(x - \gamma_-)(\gamma_+ - x)}}{2\pi x \min(1, \gamma)}, \qquad
          \gamma_\pm = (1 \pm \sqrt\gamma)^2.

With :math:`x = 1 + \gamma + 2\sqrt\gamma\cos\varphi` the mass above x is, for a = 1 + gamma and
b = 2 sqrt(gamma), a multiple of

.. math:: \int_0^\varphi \frac{\sin^2 t\,dt}{a + b\cos t} = \frac{a\varphi}{b^2}
          - \frac{\sin\varphi}{b}
          - \frac{2|1-\gamma|}{b^2}\arctan\Bigl(\frac{|1-\sqrt\gamma|}{1+\sqrt\gamma}
          \tan\frac\varphi2\Bigr).

The largest eigenvalue lies about :math:`\gamma_+` with Tracy-Widom fluctuations (Johnstone 2001).

For rows whose covariance has eigenvalues :math:`\lambda_j`, and that are normal or have their
directions, the second moment of unit rows has the same eigenvectors and the eigenvalues

.. math:: m_j = \int_0^\infty \frac{\lambda_j}{1 + 2t\lambda_j}
          \prod_i (1 + 2t\lambda_i)^{-1/2}\, dt

whatever the lengths of the rows are. It flattens: large eigenvalues become smaller shares. A fixed
point, :math:`\lambda \leftarrow \lambda\, p/m(\lambda)`, takes shares p back to eigenvalues.

.. math:: r_{jk} = \frac{\tilde S_{jk}}{\sqrt{\tilde S_{jj} \tilde S_{kk}}}, \qquad
          \sigma^2(r_{jk}) \approx \frac{\sigma_{jk}^2}{\tilde S_{jj} \tilde S_{kk}}
          + \frac{r_{jk}^2}{4} \Bigl(\frac{\sigma_{jj}^2}{\tilde S_{jj}^2}
          + \frac{\sigma_{kk}^2}{\tilde S_{kk}^2}\Bigr)

for independent noise of standard deviation :math:`\sigma_{jk}` on the entries. A variance that
noise alone could have gives correlations of any size, so there are none beside it.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from eigenveil.numerics.noise_law import NoiseLaw
from eigenveil.numerics.spectral import project_to_simplex

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


_HALVINGS = 60
_TRACY_WIDOM = 2.02  # exceeded once in a hundred times


def upper_quantiles(levels: NDArray[np.float64], aspect: float) -> NDArray[np.float64]:
    """Return the points above which lies the mass ``levels``, in [0, 1], of the non-zero
    eigenvalues.
    """
    low = np.zeros_like(levels)
    high = np.full_like(levels, math.pi)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        short = _mass_above(middle, aspect) < levels
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return np.asarray(1 + aspect + 2 * math.sqrt(aspect) * np.cos((low + high) / 2))


def highest(d: int, rows: float) -> float:
    """Return what the largest eigenvalue of pure noise exceeds about once in a hundred times."""
    root_n, root_d = math.sqrt(rows), math.sqrt(d)
    spread = (root_n + root_d) * math.cbrt(1 / root_n + 1 / root_d)
    return ((root_n + root_d) ** 2 + _TRACY_WIDOM * spread) / rows


def _mass_above(phi: NDArray[np.float64], aspect: float) -> NDArray[np.float64]:
    a, b = 1 + aspect, 2 * math.sqrt(aspect)
    slope = abs(1 - math.sqrt(aspect)) / (1 + math.sqrt(aspect))
    turn = np.arctan2(slope * np.sin(phi / 2), np.cos(phi / 2))
    integral = (a * phi - 2 * abs(1 - aspect) * turn) / b**2 - np.sin(phi) / b
    return np.asarray(2 / math.pi * max(1.0, aspect) * integral)


_GRID = np.linspace(-30.0, 50.0, 321)  # of log t: the integrand is smooth and decays both ways
_ROUNDS, _CLOSE = 200, 1e-7


def unit_shares(values: NDArray[np.float64], rest: float = 0.0) -> NDArray[np.float64]:
    """Second moments of normal rows scaled to unit length, along their eigenvectors.

    ``rest`` is the squared length in directions that are too many to vary.
    """
    t = np.exp(_GRID)
    factors = 1 + 2 * np.multiply.outer(t, values)
    weights = t * np.exp(-np.log(factors).sum(axis=1) / 2 - t * rest)  # dt = t d(log t)
    shares = values * (weights @ (1 / factors)) * (_GRID[1] - _GRID[0])
    # The integral of all shares is 1; the grid misses a little of a single direction.
    missing = rest * float(weights.sum()) * (_GRID[1] - _GRID[0])
    return np.asarray(shares / (float(shares.sum()) + missing))


def variance_shares(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return eigenvalues of sum 1 of elliptical rows whose unit rows have these shares."""
    some = np.flatnonzero(shares > 0)
    wanted = shares[some] / shares[some].sum()
    values = wanted.copy()
    for _ in range(_ROUNDS):
        ratio = wanted / unit_shares(values)
        values = values * ratio
        values /= values.sum()
        if np.abs(ratio - 1).max() < _CLOSE:
            break
    found = np.zeros_like(shares)
    found[some] = values
    return found


_CLEAR = 2.0  # standard deviations of the noise that a variance has to exceed


def entry_noise(of_variances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the noise of all entries from that of the variances.

    Noise that is the same in every direction has half the variance off the diagonal.
    """
    noise: NDArray[np.float64] = np.sqrt(np.outer(of_variances, of_variances) / 2)
    np.fill_diagonal(noise, of_variances)
    return noise


def clear_variances(
    variances: NDArray[np.float64], noise: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return which variances can be told from noise of the given standard deviations."""
    return np.asarray((variances > 0) & (variances > _CLEAR * noise))


def correlation_noise(
    covariance: NDArray[np.float64], noise: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the standard deviation of the noise on every correlation, to first order.

    ``noise`` is that of every entry. Zero on the diagonal, NaN beside a variance that cannot be
    told from noise.
    """
    variances = covariance.diagonal()
    clear = clear_variances(variances, noise.diagonal())
    with np.errstate(all="ignore"):
        deviations = np.sqrt(np.where(clear, variances, np.nan))
        share = np.square(noise.diagonal() / deviations**2)
        r = np.clip(covariance / deviations / deviations[:, None], -1.0, 1.0)
        of_entry = np.square(noise / deviations / deviations[:, None])
        level: NDArray[np.float64] = np.sqrt(of_entry + r**2 / 4 * (share + share[:, None]))
    np.fill_diagonal(level, np.where(clear, 0.0, np.nan))
    return level
