"""Eigenvectors of symmetric matrices."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

__all__ = ["map_eigenvalues", "project_to_simplex", "top_eigenpairs"]


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


def map_eigenvalues(
    matrix: NDArray[np.float64], change: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The symmetric matrix with changed eigenvalues, and the ascending ones before the change."""
    values, vectors = eigh(matrix, driver="evd")
    changed = (vectors * change(values)) @ vectors.T
    return (changed + changed.T) / 2, values


def project_to_simplex(values: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """Nearest point with non-negative entries that sum to at most ``total``."""
    positive = np.maximum(values, 0.0)
    if positive.sum() <= total:
        return positive
    descending = np.sort(positive)[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, descending.size + 1)
    threshold = excess[np.flatnonzero(descending > excess)[-1]]
    return np.asarray(np.maximum(positive - threshold, 0.0))
