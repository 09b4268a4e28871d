"""Statistics of a second moment in floating point: eigenvalues, projectors, compressions."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.bounded import Bounded
from eigenveil.numerics.fixedpoint import FixedPoint
from eigenveil.numerics.spectral import top_eigenpairs

__all__ = ["along", "compressed", "eigenvalues", "projector"]

_EXPONENT = -32  # at most 2**27 rows: 59 bits
_PROJECTOR_EXPONENT = -40  # entries of at most 1, which one of many rows moves very little


def eigenvalues(moment: Bounded) -> Bounded:
    """Ascending eigenvalues of a second moment.

    Replace-one: l2 sensitivity sqrt(2), l1 sensitivity 2; add/remove: 1 and 1. Adding a row moves
    every eigenvalue up, all of them together by its squared norm (Weyl), so two neighbours are at
    most 1 above what they share in l1 norm, and in l2 norm.
    """
    return _moments(moment, np.asarray(np.linalg.eigvalsh(moment.value.to_float())))


def along(moment: Bounded, directions: NDArray[np.float64]) -> Bounded:
    """``u' S u`` for each of the released orthonormal columns u.

    The sensitivities of the eigenvalues: a row adds the squares of its coordinates, which are
    non-negative and sum to at most its squared norm.
    """
    matrix = moment.value.to_float()
    return _moments(moment, np.einsum("ij,ij->j", directions, matrix @ directions))


def compressed(moment: Bounded, basis: NDArray[np.float64]) -> Bounded:
    """``B' S B`` for released orthonormal columns B: every row is projected, so no bound grows."""
    matrix = basis.T @ moment.value.to_float() @ basis
    return replace(moment, value=_rounded((matrix + matrix.T) / 2), exact=False)


def _moments(moment: Bounded, values: NDArray[np.float64]) -> Bounded:
    """Values to which a row adds non-negative numbers of sum at most 1."""
    replaced = moment.adjacency.count_is_public
    return replace(
        moment,
        value=_rounded(values),
        sensitivities={"l1": 2.0, "l2": math.sqrt(2)} if replaced else {"l1": 1.0, "l2": 1.0},
        exact=False,
    )


def projector(moment: Bounded, k: int, sensitivity: float) -> Bounded:
    """The projector on the leading k eigenvectors, whose Frobenius sensitivity the caller proves.

    No bound on rows alone gives one below sqrt(2 min(k, d - k)): the gap may be as small as it
    likes.
    """
    _, basis = top_eigenpairs(moment.value.to_float(), k)
    return replace(
        moment,
        value=_rounded(basis.T @ basis, _PROJECTOR_EXPONENT),
        sensitivities={"frobenius": sensitivity},
        unit=1.0,
        exact=False,
        spike=0.0,
        trace_bound=float(k),
    )


def _rounded(values: NDArray[Any], exponent: int = _EXPONENT) -> FixedPoint:
    return FixedPoint(np.rint(np.ldexp(values, -exponent)).astype(np.int64), exponent)
