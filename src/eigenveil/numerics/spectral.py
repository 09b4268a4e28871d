"""Eigenvectors of symmetric matrices."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

__all__ = ["top_eigenpairs"]


def top_eigenpairs(
    matrix: NDArray[np.float64], k: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Largest ``k`` eigenvalues, descending, and their eigenvectors as rows.

    Each vector's entry of largest magnitude is positive, so the same matrix gives the same
    signs everywhere.
    """
    d = matrix.shape[0]
    if k == d:
        values, vectors = eigh(matrix, driver="evd")  # divide and conquer: faster for all of them
    else:
        values, vectors = eigh(matrix, subset_by_index=[d - k, d - 1])
    rows = np.ascontiguousarray(vectors[:, ::-1].T)
    largest = rows[np.arange(k), np.argmax(np.abs(rows), axis=1)]
    rows *= np.where(largest < 0, -1.0, 1.0)[:, None]
    return np.ascontiguousarray(values[::-1]), rows
