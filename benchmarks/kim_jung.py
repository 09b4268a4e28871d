"""Kim, Jung 2025: components of normalised pairs of rows, as their program releases them.

The matrix is the mean of uu' over all pairs of rows, u = (x - y)/|x - y|. The program takes 4/n
for its sensitivity, the closed form sqrt(2 ln(1.25/delta))/epsilon, and noise of one size on every
entry on and above the diagonal.
"""

import numpy as np
from numpy.typing import NDArray

from eigenveil.papers.covrev import symmetric
from eigenveil.papers.spiked import classic

Matrix = NDArray[np.float64]
_AT_A_TIME = 64  # rows, each with all later ones


def all_pairs(rows: Matrix) -> Matrix:
    """Return the mean of uu' over all pairs of different rows."""
    n, d = rows.shape
    total = np.zeros((d, d))
    for start in range(0, n, _AT_A_TIME):
        some = rows[start : start + _AT_A_TIME]
        differences = (some[:, None, :] - rows[None, :, :]).reshape(-1, d)
        lengths = np.einsum("ij,ij->i", differences, differences)
        kept = lengths > 0  # a row with itself, and equal rows
        total += (differences[kept].T / lengths[kept]) @ differences[kept]
    return np.asarray(total / (n * (n - 1)))


def kim_jung(
    pairs: Matrix, n: int, k: int, epsilon: float, delta: float, rng: np.random.Generator
) -> Matrix:
    """Return the leading components of the noisy matrix of `all_pairs`, as rows."""
    noise = symmetric(rng.standard_normal(pairs.shape)) * 4 / n * classic(epsilon, delta)
    return np.asarray(np.linalg.eigh(pairs + noise)[1][:, -k:].T)
