"""Rivals of Düngler, Sanyal [kPCA], Appendix F, as they run them.

Noise is calibrated exactly, 1/mu for sqrt(2 ln(1.25/delta))/epsilon, as in the paper's experiments.
Sensitivities are the printed ones, of a record removed: sqrt(2) or 2 too small for one replaced, in
the rivals' favour.
"""

import math

import numpy as np
from numpy.typing import NDArray

from eigenveil.reproduce.printed.covrev import symmetric

__all__ = ["dp_gauss_1", "dp_gauss_2_not_private", "dp_power"]

Matrix = NDArray[np.float64]


def dp_gauss_1(
    total: Matrix, k: int, squared_norm: float, mu: float, rng: np.random.Generator
) -> Matrix:
    """DP-Gauss-1 on the sum of matrices of trace up to ``squared_norm``; columns of a basis."""
    noise = symmetric(rng.standard_normal(total.shape)) * squared_norm / mu
    return np.asarray(np.linalg.eigh(total + noise)[1][:, -k:])


def dp_gauss_2_not_private(
    total: Matrix,
    k: int,
    squared_norm: float,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
) -> Matrix:
    """DP-Gauss-2 as printed: a gap that is not positive is drawn again, which nothing hides.

    The noise on the gap does not know ``squared_norm`` either.
    """
    values, vectors = np.linalg.eigh(total)
    gap = 0.0
    while gap <= 0:
        gap = float(values[-k] - values[-k - 1]) + rng.laplace(scale=2 / epsilon)
    margin = abs(gap - 2 * (1 + math.log(1 / delta) / epsilon))
    scale = squared_norm * (1 + math.sqrt(2 * math.log(1 / delta) / epsilon)) / margin
    basis = vectors[:, -k:]
    noisy = basis @ basis.T + symmetric(rng.standard_normal(total.shape)) * scale
    return np.asarray(np.linalg.eigh(noisy)[1][:, -k:])


def dp_power(
    total: Matrix, k: int, bound: float, steps: int, mu: float, rng: np.random.Generator
) -> Matrix:
    """DP-Power-Method with the noise of Nicolas et al. 2024; columns of a basis.

    ``bound`` is beta alpha: a record aa' within |a|_2 <= beta and |a|_1 <= alpha moves the product
    with X by no more than that times the longest row of X. Composed exactly over the ``steps``.
    """
    basis = np.linalg.qr(rng.standard_normal((len(total), k)))[0]
    for _ in range(steps):
        longest = np.sqrt(np.einsum("ij,ij->i", basis, basis).max())
        scale = bound * longest * math.sqrt(steps) / mu
        basis = np.linalg.qr(total @ basis + scale * rng.standard_normal(basis.shape))[0]
    return np.asarray(basis)
