"""Eigenvectors of symmetric matrices."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from eigenveil.numerics.array_backend import HOST, Place

# From these sizes on a few pairs cost less by products than by LAPACK, even where noise makes
# them converge slowly: ten of 4096 in 9 s instead of 12, to a fiftieth of the noise in 2 s.
_LOOSE_SIZE, _TIGHT_SIZE = 700, 4096
_CHECK_GROWTH = 1.1  # of the basis between looks at the residuals


def top_eigenpairs(
    matrix: NDArray[np.float64], k: int, tolerance: float | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the largest ``k`` eigenvalues, descending, and their eigenvectors as rows; signs as
    `signed`.

    A few pairs of a large matrix come from `block_krylov`, to residuals of at most ``tolerance``
    (1e-11 of the Frobenius norm where absent), unless LAPACK would take less time for it.
    """
    d = matrix.shape[0]
    if d >= (_TIGHT_SIZE if tolerance is None else _LOOSE_SIZE) and k <= d // 100:
        if tolerance is None:
            tolerance = 1e-11 * float(np.linalg.norm(matrix))
        start = np.cos(np.outer(np.arange(d) ** 2.0, np.arange(1, k + 3) ** 0.5))  # no pattern
        values, rows, residual = block_krylov(
            lambda block: matrix @ block, start, k, tolerance, columns=d // 4
        )
        if residual <= tolerance:
            return values, rows
    values, vectors = (
        eigh(matrix, subset_by_index=[d - k, d - 1]) if k < d else (matrix[:0, 0],) * 2
    )
    if values.size < k:  # all are wanted, or LAPACK's subset has missed some of a cluster
        values, vectors = eigh(matrix, driver="evd")
        values, vectors = values[d - k :], vectors[:, d - k :]
    return np.ascontiguousarray(values[::-1]), signed(vectors[:, ::-1].T)


def max_krylov_columns(k: int) -> int:
    """Return the maximum number of Krylov columns for k components, when noise converges too."""
    return 16 * (k + 4)


def block_krylov(
    product: Callable[[Any], Any],
    start: Any,
    k: int,
    tolerance: float,
    *,
    columns: int,
    drowned: float = -math.inf,
    place: Place = HOST,
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return the largest ``k`` eigenpairs of a symmetric matrix by block Lanczos products.

    Parameters
    ----------
    product : callable
        A times orthonormal columns, each block orthogonal to all before it.
    start : array of shape (d, width)
        Independent columns. A width below k costs fewer columns and more products, and cannot
        tell apart eigenvalues that coincide more than width times.
    k : int
        Number of pairs.
    tolerance : float
        Stops once |A y - theta y| is at most this for every pair.
    columns : int
        Stops before the basis has more columns than this, which is at least k.
    drowned : float
        Pairs with smaller values are worth less: with half of the columns they no longer count.
    place : Place
        Where the columns lie; what is returned lies on the host.

    Returns
    -------
    values, vectors, residual
        Descending, as rows with the signs of `signed`; the largest |A y - theta y|.

    """
    d, width = start.shape
    columns = min(columns, d)
    basis = place.columns(d, columns)  # V
    small = np.zeros((columns, columns))  # V'AV
    block = place.qr(start)[0]
    size = checked = 0
    while True:
        new = slice(size, size + block.shape[1])
        size = new.stop
        basis[:, new] = block
        seen = basis[:, :size]
        image = product(block)
        inside = image.T @ seen  # a few rows on the left: BLAS takes half the time
        small[new, :size] = place.host(inside)
        small[:size, new] = small[new, :size].T
        block, coupling = place.qr(image - (inside @ seen.T).T)
        last = size == d or (size + width > columns and columns < d)
        if last or size >= max(k, _CHECK_GROWTH * checked):
            checked = size
            values, vectors = eigh(small[:size, :size], subset_by_index=[size - k, size - 1])
            # AV - V(V'AV) is the next block times the coupling, in the columns of the last block.
            residuals = np.linalg.norm(coupling @ vectors[new], axis=0)
            residual = float(residuals.max())
            if size >= columns // 2:
                residuals = residuals[values > drowned]
            if last or (residuals <= tolerance).all():
                turned = (seen @ place.there(vectors[:, ::-1].copy())).T
                return values[::-1].copy(), place.signed(turned), residual
        again = place.qr(block - ((block.T @ seen) @ seen.T).T)[0]  # against rounding
        block = again[:, : min(again.shape[1], d - size)]


def eigenpairs_of_image(
    basis: NDArray[np.float64], image: NDArray[np.float64], level: float, width: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the leading eigenvectors, as columns, and eigenvalues of an M known by its image of Q.

    With P for MQ, symmetric inside Q, and ``level`` for all that lies outside Q on both sides:
    M = level + Q (Q'P - level) Q' + T Q' + Q T', T = (I - QQ')P.
    """
    d, p = basis.shape
    block = basis.T @ image
    outside, lengths, turns = np.linalg.svd(image - basis @ block, full_matrices=False)
    more = min(p, d - p)  # directions there are outside
    small = np.zeros((p + more, p + more))
    small[:p, :p] = (block + block.T) / 2 - level * np.eye(p)
    small[p:, :p] = (lengths[:, None] * turns)[:more]
    small[:p, p:] = small[p:, :p].T
    values, vectors = np.linalg.eigh(small)
    values, vectors = values[::-1][:width], vectors[:, ::-1][:, :width]
    # Where T has no length, its directions may repeat inner ones: orthonormal again.
    turned, change = np.linalg.qr(np.hstack([basis, outside[:, :more]]) @ vectors)
    return turned * np.where(np.diagonal(change) < 0, -1.0, 1.0), values + level


def signed(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Make each vector's entry of largest magnitude positive: the same signs everywhere."""
    return HOST.signed(rows)


def map_eigenvalues(
    matrix: NDArray[np.float64], change: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the symmetric matrix with changed eigenvalues, and the ascending ones before the
    change.
    """
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
    kept = np.flatnonzero(descending > excess)
    # A total far below the rounding of the largest entry leaves nothing of it.
    threshold = excess[kept[-1]] if kept.size else descending[0]
    return np.asarray(np.maximum(positive - threshold, 0.0))
