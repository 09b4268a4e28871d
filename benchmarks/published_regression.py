"""Private linear regression as published: AdaSSP and Iterative Hessian Mixing.

Both need rows of norm 1 at most and targets in [-1, 1], and are for add/remove neighbours. They are
simulations for comparisons: plain floating-point noise, no ledger.

AdaSSP is Algorithm 2 of Wang 2018, "Revisiting differentially private linear regression": a third
of epsilon and delta each for the smallest eigenvalue, the Gram matrix and the products with the
target. ``exact`` replaces its closed-form noise by that of the exact Gaussian curve.

Iterative Hessian Mixing is Lev, Shenfeld, Srinivasan, Ligett, Wilson 2026 (arXiv 2601.07545) with
the authors' choices: three rounds, k = 6 max(d, ln(4 T/varrho)) rows of a sketch, varrho =
delta/10. Half of epsilon and three quarters of delta pay for the sketches and the smallest
eigenvalue, by the Renyi curve of Gaussian mixing (Lev et al. 2025); the rest for the residuals,
whose Gaussian noise is composed exactly as it is.
"""

import math

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm

__all__ = ["adassp", "exact_mu", "iterative_hessian_mixing"]

_FAILURE = 0.05  # varrho of AdaSSP
_ROUNDS, _SKETCH = 3, 6


def exact_mu(epsilon, delta):
    """The mu of the Gaussian mechanism with this (epsilon, delta): Balle, Wang 2018."""

    def excess(mu):
        first = norm.cdf(-epsilon / mu + mu / 2)
        return first - math.exp(epsilon + norm.logcdf(-epsilon / mu - mu / 2)) - delta

    return brentq(excess, 1e-8, 100.0)


def adassp(rows, target, epsilon, delta, rng, *, exact=False):
    """Coefficients of rows in the unit ball and targets in [-1, 1]."""
    d = rows.shape[1]
    root, shift = math.sqrt(math.log(6 / delta)), math.log(6 / delta)
    noise = root / (epsilon / 3)
    if exact:
        noise = math.sqrt(3) / exact_mu(epsilon, delta)
        shift = noise * root * (epsilon / 3)
    gram = rows.T @ rows
    least = np.linalg.eigvalsh(gram)[0] + noise * rng.standard_normal() - shift / (epsilon / 3)
    wanted = math.sqrt(d * math.log(2 * d * d / _FAILURE)) * noise
    penalty = max(0.0, wanted - max(0.0, least))
    upper = np.triu(rng.standard_normal((d, d)))
    noisy = gram + noise * (upper + np.triu(upper, 1).T)
    products = rows.T @ target + noise * rng.standard_normal(d)
    return np.linalg.solve(noisy + penalty * np.eye(d), products)


def iterative_hessian_mixing(rows, target, epsilon, delta, rng):
    """Coefficients of rows in the unit ball and targets in [-1, 1]."""
    d = rows.shape[1]
    varrho = delta / 10
    k = max(_SKETCH * d, int(_SKETCH * math.log(4 * _ROUNDS / varrho)))
    gamma = _mixing_noise(k, epsilon / 2, 3 * delta / 4)
    deviation = gamma / math.sqrt(k)
    tail = math.sqrt(2 * math.log(max(4 / delta, 4 / varrho)))
    gram = rows.T @ rows
    least = np.linalg.eigvalsh(gram)[0] - deviation * (tail - rng.standard_normal())
    added = max(0.0, gamma - max(0.0, least))
    # A sketch S X + sqrt(added) N has independent rows of this covariance.
    values, vectors = np.linalg.eigh(gram + added * np.eye(d))
    half = vectors * np.sqrt(np.maximum(values, 0.0))
    noise = math.sqrt(_ROUNDS) / exact_mu(epsilon / 2, delta / 4)
    b = np.zeros(d)
    for _ in range(_ROUNDS):
        sketch = rng.standard_normal((k, d)) @ half.T
        residuals = np.clip(target - rows @ b, -1.0, 1.0)
        products = rows.T @ residuals + noise * rng.standard_normal(d)
        b = b + np.linalg.solve(sketch.T @ sketch / k, products)
    return b


_MIXING = {}


def _mixing_noise(k, epsilon, delta):
    """Smallest gamma whose sketches, all rounds, and noisy eigenvalue keep (epsilon, delta)."""
    if (k, epsilon, delta) not in _MIXING:
        low, high = 1.0 + 1e-6, 2.0
        while _mixing_epsilon(high, k, delta / 3) > epsilon:
            low, high = high, 2 * high
        _MIXING[k, epsilon, delta] = brentq(
            lambda gamma: _mixing_epsilon(gamma, k, delta / 3) - epsilon, low, high, rtol=1e-9
        )
    return _MIXING[k, epsilon, delta]


def _mixing_epsilon(gamma, k, delta):
    def spent(alpha):
        curve = alpha * math.log1p(-1 / gamma) - math.log1p(-alpha / gamma)
        convert = math.log(1 / delta) + (alpha - 1) * math.log1p(-1 / alpha) - math.log(alpha)
        return (_ROUNDS * k / 2 * curve + convert) / (alpha - 1)

    least = 1 + 1e-6
    if gamma <= least * (1 + 1e-6):
        return math.inf
    found = minimize_scalar(
        lambda t: spent(least + math.exp(t)),
        bounds=(math.log(1e-6), math.log((gamma - least) * (1 - 1e-9))),
        method="bounded",
    )
    return float(found.fun) + math.sqrt(2 * math.log(1.25 / delta) * k) / gamma
