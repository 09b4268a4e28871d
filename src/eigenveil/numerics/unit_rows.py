r"""Variances of elliptical rows, and those of the same rows scaled to unit length.

For rows whose covariance has eigenvalues :math:`\lambda_j`, and that are normal or have their
directions, the second moment of unit rows has the same eigenvectors and the eigenvalues

.. math:: m_j = \int_0^\infty \frac{\lambda_j}{1 + 2t\lambda_j}
          \prod_i (1 + 2t\lambda_i)^{-1/2}\, dt

whatever the lengths of the rows are. It flattens: large eigenvalues become smaller shares. A fixed
point, :math:`\lambda \leftarrow \lambda\, p/m(\lambda)`, takes shares p back to eigenvalues.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["unit_shares", "variance_shares"]

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
