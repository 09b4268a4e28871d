"""Cai, Xia, Zha 2024 [Spiked] as printed, and the rivals of its experiments."""

import math

import numpy as np
from numpy.typing import NDArray

from eigenveil.papers.covrev.printed import symmetric

Matrix = NDArray[np.float64]
_C = 4.0  # C_2 and C_5 in section 6.1; C_3, which is not stated, likewise


def classic(epsilon: float, delta: float) -> float:
    """Return the noise for a sensitivity of 1 by Lemma 1, valid for epsilon < 1 only."""
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def delta_1(n: int, d: int, k: int, spike: float, noise: float) -> float:
    """Lemma 2, with the constant of section 6.1."""
    ratio = noise / spike
    return _C * (ratio + math.sqrt(ratio)) * math.sqrt(d * (k + math.log(n))) / n


def delta_2(n: int, d: int, k: int, spike: float, noise: float) -> float:
    """Lemma 2, with the same constant."""
    return _C * (spike * (k + math.log(n)) + noise * (d + math.log(n))) / n


def algorithm_1(
    moment: Matrix, k: int, sensitivity: float, scale: float, rng: np.random.Generator
) -> Matrix:
    """Return the private basis of Algorithm 1 as rows; ``scale`` is noise for a sensitivity of 1.

    The algorithm is printed with ``classic(epsilon/2, delta/2)``.
    """
    basis = np.linalg.eigh(moment)[1][:, -k:]
    noise = symmetric(rng.standard_normal(moment.shape)) * sensitivity * scale
    return np.asarray(np.linalg.eigh(basis @ basis.T + noise)[1][:, -k:].T)


def algorithm_1_covariance(
    moment: Matrix,
    components: Matrix,
    sensitivity: float,
    scale: float,
    noise: float,
    rng: np.random.Generator,
) -> Matrix:
    """Return the covariance of Algorithm 1 about its private basis; ``noise`` is sigma^2."""
    d, k = len(moment), len(components)
    inside = components @ (moment - noise * np.eye(d)) @ components.T
    inside = inside + symmetric(rng.standard_normal((k, k))) * sensitivity * scale
    return np.asarray(components.T @ inside @ components + noise * np.eye(d))


def dp_gauss(
    moment: Matrix,
    squared_norm: float,
    n: int,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
) -> Matrix:
    """DP-Gauss: Dwork, Talwar, Thakurta, Zhang 2014, Algorithm 1, on rows within a norm.

    The sensitivity is that of Dwork et al., of a row removed: sqrt(2) too small for one replaced,
    in its favour.
    """
    scale = squared_norm / n * classic(epsilon, delta)
    return moment + symmetric(rng.standard_normal(moment.shape)) * scale


def dp_gauss_star_not_private(
    rows: Matrix, epsilon: float, delta: float, rng: np.random.Generator
) -> Matrix:
    """DP-Gauss*: scaled by the largest norm of the table, which nothing hides."""
    n = len(rows)
    largest = float(np.einsum("ij,ij->i", rows, rows).max())
    return dp_gauss(rows.T @ rows / n, largest, n, epsilon, delta, rng)


def dp_oja_not_private(
    rows: Matrix, leading: float, epsilon: float, delta: float, rng: np.random.Generator
) -> Matrix:
    """DP-Oja as section 6.1 runs it: constant 0.2 and step size 0.5/n. A row of length one.

    Liu et al. 2022, Algorithm 2: noise 2 eta alpha beta on every step, beta = C lambda_1 sqrt(d),
    alpha = ln(n/delta)/(epsilon sqrt(n)). A constant of 0.2 has no proof; 2 would be a fair one by
    the paper's own words.
    """
    n, d = rows.shape
    beta = 0.2 * leading * math.sqrt(d)
    alpha = math.log(n / delta) / (epsilon * math.sqrt(n))
    step = 0.5 / n
    w: Matrix = rng.standard_normal((d,))
    w = w / np.linalg.norm(w)
    noise = 2 * alpha * beta * rng.standard_normal((n, d))
    for x, z in zip(rows, noise, strict=True):
        update = x * (x @ w)
        length = math.sqrt(update @ update)
        w = w + step * (update * min(1.0, beta / max(length, 1e-300)) + z)
        w = w / math.sqrt(w @ w)
    return np.asarray(w[None, :])
