"""Dong, Liang, Yi 2022 [CovRev] as printed, for rows in the unit ball.

The text is read with its misprints corrected: sqrt(rho) n, bounds that are sums, and an l1
sensitivity of sqrt(2) d/n in Lemma 12. Released eigenvalues stay as they are.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from eigenveil.papers.covrev.coinpress import GAUSSIAN_TAILS

Matrix = NDArray[np.float64]
_BETA = 0.1  # the paper does not say; accuracy bounds only
_HALVINGS = 199  # down to 1e-60; by then nothing is left to balance


def symmetric(upper: Matrix) -> Matrix:
    """Return the symmetric matrix of an upper triangle."""
    return np.asarray(np.triu(upper) + np.triu(upper, 1).T)


def gauss_cov(truth: Matrix, n: int, rho: float, rng: np.random.Generator) -> Matrix:
    """GaussCov: noise of deviation 1/(n sqrt(rho)) on every entry."""
    return truth + symmetric(rng.standard_normal(truth.shape)) / (n * math.sqrt(rho))


def lap_cov(truth: Matrix, n: int, epsilon: float, rng: np.random.Generator) -> Matrix:
    """LapCov, Appendix I."""
    scale = math.sqrt(2) * len(truth) / (n * epsilon)
    return truth + symmetric(rng.laplace(size=truth.shape)) * scale


def separate_cov(truth: Matrix, n: int, rho: float, rng: np.random.Generator) -> Matrix:
    """SeparateCov, Algorithm 1: half of rho for the eigenvalues, half for the eigenvectors."""
    _, basis = np.linalg.eigh(gauss_cov(truth, n, rho / 2, rng))
    values = np.linalg.eigvalsh(truth)
    values = values + rng.standard_normal(values.size) * math.sqrt(2 / rho) / n
    return np.asarray((basis * values) @ basis.T)


def separate_cov_pure(truth: Matrix, n: int, epsilon: float, rng: np.random.Generator) -> Matrix:
    """SeparateCov, Appendix I: half of epsilon each."""
    _, basis = np.linalg.eigh(lap_cov(truth, n, epsilon / 2, rng))
    values = np.linalg.eigvalsh(truth)
    values = values + rng.laplace(size=values.size) * 4 / (n * epsilon)
    return np.asarray((basis * values) @ basis.T)


def adaptive_cov(
    norms: NDArray[np.float64],
    moment: Callable[[float], Matrix],
    rho: float,
    rng: np.random.Generator,
    *,
    tuned: bool = False,
) -> Matrix:
    """AdaptiveCov, Algorithm 2, without its private radius, as in the paper's experiments (r = 1).

    Shares of rho: 1/8 trace, 1/4 search, 1/2 matrix as printed; the 1/8 that the radius would have
    taken goes to the matrix, in favour of the published side. ``moment`` maps a threshold tau to
    the second moment of rows clipped at tau, in units of tau^2.

    The authors' program differs from their text. ``tuned`` has its changes: 1/8 search, 3/4 matrix,
    the bound on SeparateCov's eigenvectors divided by 6, released eigenvalues clipped to what is
    possible. Its errors are at or below those of the program.
    """
    search, final = (rho / 8, rho * 3 / 4) if tuned else (rho / 4, rho * 5 / 8)
    n, d = norms.size, len(moment(1.0))
    scale = 2 / (math.sqrt(rho) * n)
    trace = float(np.mean(norms**2)) + scale * rng.standard_normal()
    trace = min(1.0, max(0.0, trace + scale * math.sqrt(2 * math.log(8 / _BETA))))

    def noise(tau: Matrix) -> tuple[Matrix, Matrix]:
        """GaussNoise and SeparateNoise of section 5.2 at half of beta."""
        unit = 1 / (math.sqrt(final) * n)
        gauss = tau**2 * unit * GAUSSIAN_TAILS.frobenius(d, _BETA / 2)
        vectors = 2**1.25 * tau * np.sqrt(trace * unit * GAUSSIAN_TAILS.operator(d, _BETA / 4))
        vectors = vectors / 6 if tuned else vectors
        values = math.sqrt(2) * tau**2 * unit * GAUSSIAN_TAILS.vector(d, _BETA / 4)
        return gauss, vectors + values

    taus: Matrix = np.exp2(-np.arange(_HALVINGS, dtype=np.float64))
    # Norms rounded up to powers of two; a norm that is one up to rounding stays.
    exponents, counts = np.unique(np.ceil(np.log2(norms[norms > 0]) - 1e-9), return_counts=True)
    sizes = np.exp2(np.minimum(0, exponents))
    bias = np.maximum(sizes**2 - taus[:, None] ** 2, 0) @ counts
    balance = bias - n * np.minimum(*noise(taus))
    epsilon = math.sqrt(2 * search)  # Algorithm 3
    above = balance + rng.laplace(scale=4 / epsilon, size=taus.size)
    first = np.flatnonzero(above >= rng.laplace(scale=2 / epsilon))
    tau = taus[max(0, (first[0] if first.size else taus.size) - 1)]
    gauss, separate = noise(np.array(tau))
    branch = gauss_cov if separate >= gauss else separate_cov
    released = branch(moment(float(tau)), n, final, rng)
    if tuned:
        values, basis = np.linalg.eigh(released)
        released = (basis * values.clip(0, 1)) @ basis.T
    return np.asarray(released * tau**2)
