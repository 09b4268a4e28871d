r"""The server's two steps, and the agreement of the owners' answers.

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

A component v has the agreement :math:`a = v' \sum_j w_j U_j U_j' v`, between 0 and 1. The noise of
different owners is independent, so agreement beyond chance is signal.

`chance`: the largest agreement of bases that have nothing to do with each other, and that of all k
components together. Their stack is a d x mk matrix of columns in random directions, of squared
lengths w_j; the largest eigenvalue of its outer product lies at the edge of the law of Marchenko
and Pastur (1967) for columns of different sizes (Silverstein and Choi 1995), and fluctuates by some
:math:`d^{-2/3}` of it, or :math:`(mk)^{-1/6} d^{-1/2}` if that is more.

.. math:: \min_{0 < s < 1/\max w} \frac1s + \frac{k}{d} \sum_j \frac{w_j}{1 - s w_j}.

Small ones are drawn instead, from public numbers, and their sum with them.

`in_common`: how many directions are shared, by two tests at half a percent each.

1. Those that agree by more than any one does by chance. Where k >= d/2 two owners always have a
   direction in common, or nearly so, and this finds nothing.
2. If r directions are shared and the rest is chance, all k agree by r and what k - r columns agree
   by chance in d - r dimensions. From those on one more is shared as long as the sum exceeds
   that; who shares r exactly is said to share more as often as the test of r fails. Owners who
   share them with an error agree by less.

`reliability`: if each owner's basis holds a share r of the true direction, and the rest of it lies
anywhere, directions beside the k true ones have :math:`b = (1 - r) k/(d - k)`. Owners' errors, of
squared length r (1 - r), add up to :math:`x = r (1 - r) \sum_j w_j^2`; by perturbation of second
order they turn v by an angle of tangent^2 :math:`x/(r - b)^2` and show
:math:`a = r + x/(r - b)`, which is solved for r. That is low where one owner alone knows a
direction: agreement cannot confirm what the others do not see.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from eigenveil.exceptions import InvalidParameterError
from eigenveil.numerics.random import SimulationSource, normals
from eigenveil.numerics.spectral import signed, top_eigenpairs


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


_SMALL = 4000  # numbers of a stack that is drawn instead
_DRAWS = 1000
_RARE = 3  # of the draws
_FLUCTUATIONS = 1.5  # and more than the largest of a hundred
_ROUNDING = 1e-9


class Chance(NamedTuple):
    """Agreement that unrelated bases rarely exceed, each about once in 200 times."""

    largest: float
    together: float  # of all components; their number where it is not known


def in_common(values: NDArray[np.float64], weights: NDArray[np.float64], d: int) -> int:
    """Return how many directions owners share beyond chance; too many about once in a hundred
    times.

    Parameters
    ----------
    values : array of shape (k,)
        Eigenvalues of the weighted sum of projectors inside the common basis.
    weights : array of shape (m,)
        Of the owners, of sum 1.
    d : int
        Columns.

    """
    k, whole = len(values), float(np.sum(values))
    if k == d:
        return k
    shared = int(np.sum(values > chance(weights, d, k).largest + _ROUNDING))
    while shared < k and whole > shared + _ROUNDING + (
        chance(weights, d - shared, k - shared).together
    ):
        shared += 1
    return shared


def chance(weights: NDArray[np.float64], d: int, k: int) -> Chance:
    """Return what owners of these weights agree by who have nothing in common."""
    if weights.size * d * k <= _SMALL:
        return _drawn(tuple(weights.tolist()), d, k)
    largest = float(weights.max())

    def edge(share: float) -> float:
        s = share / largest
        return 1 / s + k / d * float(np.sum(weights / (1 - s * weights)))

    found = minimize_scalar(edge, bounds=(1e-6, 1 - 1e-6), method="bounded")
    # Of a few columns in many dimensions it is that of their products, which vary by d^(-1/2).
    spread = max(d ** (-2 / 3), (weights.size * k) ** (-1 / 6) * d**-0.5)
    return Chance(min(1.0, found.fun * (1 + _FLUCTUATIONS * spread)), float(k))


@lru_cache(maxsize=256)
def _drawn(weights: tuple[float, ...], d: int, k: int) -> Chance:
    """Return one of the largest of many draws, where a law for large tables says little."""
    m = len(weights)
    bases = np.linalg.qr(normals(SimulationSource(0), (_DRAWS, m, d, k)))[0]
    scaled = bases * np.sqrt(weights)[:, None, None]
    stacks = scaled.transpose(0, 2, 1, 3).reshape(_DRAWS, d, m * k)
    values = np.linalg.svd(stacks, compute_uv=False)[:, :k] ** 2
    largest, together = np.sort(values[:, 0])[-_RARE], np.sort(values.sum(axis=1))[-_RARE]
    return Chance(min(1.0, float(largest)), min(float(k), float(together)))


def reliability(
    agreement: NDArray[np.float64], weights: NDArray[np.float64], d: int
) -> NDArray[np.float64]:
    """Return about the squared cosine between components and those without noise.

    As if all owners were equally good: cautious where the better ones have the larger weights.
    """
    k, together = len(agreement), float(np.sum(weights**2))
    if k == d:
        return np.ones(k)
    if together >= 1:  # one owner agrees with itself
        return np.zeros(k)
    spread = k / (d - k)  # r - b = (1 + spread) r - spread
    # (a - r)(r - b) = together r (1 - r) is quadratic in r
    leading = 1 + spread - together
    middle = agreement * (1 + spread) + spread - together
    root = middle**2 - 4 * leading * agreement * spread
    share = np.clip((middle + np.sqrt(np.maximum(root, 0.0))) / (2 * leading), 0.0, 1.0)
    above = np.maximum((1 + spread) * share - spread, 0.0)
    error = together * share * (1 - share)
    cosine = above**2 / np.maximum(above**2 + error, np.finfo(float).tiny)
    return np.where((root > 0) & (middle > 0), cosine, 0.0)
