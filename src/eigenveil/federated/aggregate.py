r"""The server's two steps: one basis from many, one covariance from many k x k matrices.

Source: Li, Cai, Xia, Zhang 2024 [Fed], Algorithm 1, lines on the central server.

.. math:: \hat U = \text{top-}k \sum_j w_j U_j U_j', \qquad
          \hat\Sigma = \hat U \Bigl(\sum_j v_j \hat\Lambda_j\Bigr) \hat U' + \sigma^2 I

Both are post-processing: they read released numbers only.

Differences from the source
---------------------------
1. The sum of projectors is never formed where it is the larger side. With
   :math:`A = [\sqrt{w_1} U_1, \ldots, \sqrt{w_m} U_m]`, d x mk, it is AA', whose leading
   eigenvectors are :math:`A q / \sqrt{s}` for those of the mk x mk matrix A'A. With orthonormal
   columns all its k leading eigenvalues are at least the largest weight, hence at least 1/m, so
   that squaring loses nothing.
   Where mk > d the sum of projectors is the smaller side; it is added up one owner at a time.
   Memory is O(d min(d, mk)) either way.
2. The basis is turned to the eigenvectors of the pooled matrix, and negative eigenvalues, which
   noise can make, become zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidParameterError
from eigenveil.numerics.spectral import signed, top_eigenpairs

__all__ = ["Assembled", "assembled", "leading_basis"]


def leading_basis(
    bases: Sequence[NDArray[np.float64]], weights: NDArray[np.float64], n_components: int
) -> NDArray[np.float64]:
    """Return the leading eigenvectors, as columns, of the weighted sum of projectors on the bases.

    Parameters
    ----------
    bases : sequence of arrays of shape (d, k_j)
        With orthogonal columns, whose squared lengths say how much they count: at most 1.
    weights : array of shape (m,)
        Positive.
    n_components : int
        Columns of the result: at most as many as the bases have together, and at most d.

    """
    if not bases or len(bases) != len(weights):
        raise InvalidParameterError("an aggregate needs at least one basis, and a weight for each")
    d = len(bases[0])
    columns = sum(basis.shape[1] for basis in bases)
    if not 1 <= n_components <= min(d, columns):
        raise InvalidParameterError("the bases have fewer columns than components are wanted")
    if columns > d:
        total = np.zeros((d, d))
        for basis, weight in zip(bases, weights, strict=True):
            total += (weight * basis) @ basis.T
        return np.ascontiguousarray(top_eigenpairs((total + total.T) / 2, n_components)[1].T)
    roots = np.sqrt(weights)
    stack = np.hstack([root * basis for root, basis in zip(roots, bases, strict=True)])
    values, vectors = top_eigenpairs(stack.T @ stack, n_components)
    # Orthonormal to about m roundings; once more, as second moments along it will be released.
    basis, _ = np.linalg.qr(stack @ (vectors.T / np.sqrt(values)))
    return np.ascontiguousarray(signed(basis.T).T)


@dataclass(frozen=True, slots=True, eq=False)
class Assembled:
    """A covariance as factors: ``basis diag(eigenvalues) basis' + noise_variance I``.

    Attributes
    ----------
    basis : array of shape (d, k)
        Eigenvectors, as columns.
    eigenvalues : array of shape (k,)
        Descending, above the noise variance, none negative.
    noise_variance : float
        In every direction.

    """

    basis: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    noise_variance: float

    def dense(self) -> NDArray[np.float64]:
        """Return the d x d matrix."""
        spiked = (self.basis * self.eigenvalues) @ self.basis.T
        return np.asarray(spiked + self.noise_variance * np.eye(len(self.basis)))


def assembled(
    basis: NDArray[np.float64],
    matrices: Sequence[NDArray[np.float64]],
    weights: NDArray[np.float64],
    noise_variance: float = 0.0,
) -> Assembled:
    """Return the covariance from weighted k x k matrices in the coordinates of one basis.

    Parameters
    ----------
    basis : array of shape (d, k)
        The aggregate, with orthonormal columns.
    matrices : sequence of arrays of shape (k, k)
        Second moments along the basis, above the noise variance.
    weights : array of shape (m,)
        Of sum 1.
    noise_variance : float
        What the matrices leave out in every direction.

    """
    if not matrices or len(matrices) != len(weights):
        raise InvalidParameterError("a covariance needs at least one matrix, and a weight for each")
    pooled = np.tensordot(np.asarray(weights), np.stack(matrices), axes=1)
    values, turns = top_eigenpairs((pooled + pooled.T) / 2, len(pooled))
    turned = signed(turns @ basis.T).T
    return Assembled(np.ascontiguousarray(turned), np.maximum(values, 0.0), noise_variance)
