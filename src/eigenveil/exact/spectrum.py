"""Statistics of a second moment that floating point computes: eigenvalues, gaps, projectors.

Adding a row x in the unit ball moves every sorted eigenvalue up, all of them together by |x|^2
(Weyl): the vector moves by some a >= 0 with sum at most 1. Replacing a row moves it by a - b of two
such vectors. The second moments along orthonormal directions move in the same way. The bounds on
eigenvalues, gaps and second moments below follow: docs/proofs/leading.md, docs/proofs/gap.md.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from eigenveil.exact.bounded import Bounded, Norm
from eigenveil.exact.products import MomentProducts
from eigenveil.exceptions import InvalidParameterError
from eigenveil.numerics.integers import FixedPoint, Integers, fitted, in_all, sum_of_products, whole
from eigenveil.privacy.adjacency import Adjacency

_ROTATION_INVARIANT: tuple[Norm, ...] = ("frobenius", "nuclear")
_EXPONENT = -32
_PROJECTOR_EXPONENT = -40  # of entries below 1
_DIRECTION_BITS = 26  # products of two directions then stay below 2^53
_EIGENSOLVER_ERROR = 16  # times d^2 2^-53, of the Frobenius norm: what LAPACK stays far below
_MOST_SLACK = 1 / 8  # rows, that floating point may add to the best k where n is private
_MOST_ROWS = 2.0**26  # that the best k are counted up to there


def eigenvalues(moment: Bounded) -> Bounded:
    """Ascending eigenvalues of a second moment.

    Replace-one: l2 sensitivity sqrt(2), l1 sensitivity 2; add/remove: 1 and 1. Adding a row moves
    every eigenvalue up, all of them together by its squared norm (Weyl), so two neighbours are at
    most 1 above what they share in l1 norm, and in l2 norm.
    """
    values = np.linalg.eigvalsh(moment.value.to_float())
    return replace(
        moment,
        value=_rounded(values),
        sensitivities=_shared_by(values.size, moment.adjacency),
        exact=False,
    )


def compressed(moment: Bounded, basis: NDArray[np.float64]) -> Bounded:
    """``B' S B`` for released orthonormal columns B: every row is projected, so no bound grows."""
    matrix = basis.T @ moment.value.to_float() @ basis
    return replace(moment, value=_rounded((matrix + matrix.T) / 2), exact=False)


def compressed_with_rest(moment: Bounded, basis: NDArray[np.float64]) -> Bounded:
    """`compressed`, and as one more diagonal entry the second moment beside the columns.

    A row adds a positive semi-definite matrix of trace at most 1, as it does to the moment: the
    Frobenius and nuclear sensitivities are the same.
    """
    moments = compressed(moment, basis)
    k = basis.shape[1]
    units = np.zeros((k + 1, k + 1), dtype=object)
    units[:k, :k] = moments.value.units
    trace = np.array([float(np.trace(moment.value.to_float()))])
    inside = moments.value.units.diagonal()
    units[k, k] = max(0, int(_rounded(trace).units[0]) - in_all(inside))
    kept = {norm: moment.sensitivity(norm) for norm in _ROTATION_INVARIANT}
    value = FixedPoint(fitted(units), moments.value.exponent)
    return replace(moments, value=value, sensitivities=kept)


def leading(moment: Bounded, m: int) -> Bounded:
    """Return the ``m`` largest eigenvalues of a second moment, descending."""
    d = len(moment.value.units)
    if not 1 <= m <= d:
        raise InvalidParameterError("the number of eigenvalues must lie between 1 and the columns")
    values = np.linalg.eigvalsh(moment.value.to_float())[::-1]
    return replace(
        moment,
        value=_rounded(values[:m]),
        sensitivities=_shared_by(m, moment.adjacency),
        exact=False,
    )


def along(moment: Bounded, directions: NDArray[np.float64]) -> Bounded:
    """``u' S u`` for every row u of ``directions``, which are orthonormal and already released."""
    return replace(
        moment,
        value=_rounded(_along(moment, directions)),
        sensitivities=_shared_by(len(directions), moment.adjacency),
        exact=False,
    )


def along_with_rest(moment: Bounded, directions: NDArray[np.float64]) -> Bounded:
    """`along`, and last what is left of the trace: a row adds numbers of sum at most 1."""
    values = _along(moment, directions)
    rest = max(0.0, float(np.trace(moment.value.to_float())) - float(values.sum()))
    return replace(
        moment,
        value=_rounded(np.append(values, rest)),
        sensitivities=_shared_by(len(directions) + 1, moment.adjacency),
        exact=False,
    )


def inside(moment: Bounded, directions: NDArray[np.float64]) -> Bounded:
    """Return the sum of `along`, the second moment inside directions; a row moves it by 1."""
    return replace(
        moment,
        value=_rounded(_along(moment, directions).sum(keepdims=True)),
        sensitivities=_shared_by(1, moment.adjacency),
        exact=False,
    )


def captured(moment: Bounded, directions: NDArray[np.float64]) -> Bounded:
    """Return the second moment inside released directions, outside, and inside the best as many.

    A row adds (p, q, b) with p, q >= 0, p + q <= 1 and 0 <= b <= p + q. Replace-one: l2 sensitivity
    sqrt(3), l1 sensitivity 3; add/remove: sqrt(2) and 2; and the slack below. Inside and outside
    are exact sums of integers along directions rounded so that no row grows. The third number comes
    from floating-point eigenvalues: the slack covers their error, so that the query is exact where
    the moment is. Where n is private it ends at a public number
    of rows, noted as the bound on the trace. Proof: docs/proofs/captured.md.
    """
    units = moment.value.units
    d, k = len(units), len(directions)
    within = _inside_units(units, directions)
    whole_trace = sum(units.diagonal().tolist())
    values = np.linalg.eigvalsh(moment.value.to_float())[::-1]
    best = int(_rounded(values[:k].sum(keepdims=True), moment.value.exponent).units[0])
    error = _EIGENSOLVER_ERROR * d * d * 2.0**-53  # of an eigenvalue, in rows, for each row
    bound = moment.trace_bound
    if moment.count is None:
        each = 4 * math.sqrt(d) * error
        most = min(_MOST_ROWS, _MOST_SLACK / each)
        best, bound = min(best, int(math.ldexp(most, -moment.value.exponent))), most * moment.unit
        slack, common = most * each, 1.0
    else:
        slack, common = 2 * math.sqrt(k) * error * moment.count, 2.0
    best_moves = 1 + slack
    rounding = 4 * math.ldexp(1.0, moment.value.exponent)
    value = np.array([within, whole_trace - within, max(0, best)], dtype=object)
    return replace(
        moment,
        value=FixedPoint(fitted(value), moment.value.exponent),
        sensitivities={
            "l1": common + best_moves + rounding,
            "l2": math.sqrt(common + best_moves**2) + rounding,
        },
        trace_bound=bound,
    )


def _inside_units(units: Integers, directions: NDArray[np.float64]) -> int:
    """Return tr(U S U') for directions rounded to integers, over a bound on |U|^2, rounded down.

    Largest sums of sizes along the rows of U U' bound |U|^2: no row grows, whatever the directions.
    """
    if not (np.linalg.norm(directions, axis=1) <= 1.25).all():  # NaN as well
        raise ValueError("directions must be orthonormal")
    rounded = np.rint(np.ldexp(directions, _DIRECTION_BITS)).astype(np.int64)
    bound: int = max(sum(map(abs, row)) for row in (rounded @ rounded.T).tolist())
    if bound > 2 << 2 * _DIRECTION_BITS:
        raise ValueError("directions must be orthonormal")
    weights = rounded.T @ rounded  # in int64: no BLAS has a part in it
    return sum_of_products(units, weights) // bound


def _along(moment: Bounded, directions: NDArray[np.float64]) -> NDArray[np.float64]:
    if isinstance(moment, MomentProducts):
        images = moment.times(directions.T).T
    else:
        images = directions @ moment.value.to_float()
    return np.asarray(np.einsum("ij,ij->i", images, directions))


def weighted_eigenvalues(moment: Bounded, weights: NDArray[np.float64]) -> Bounded:
    """Sum of the descending eigenvalues times public weights, none of them negative.

    One row moves it by w'a or w'(a - b), between -max(w) and max(w).
    """
    if weights.shape != (len(moment.value.units),) or not (weights >= 0).all():
        raise ValueError("weights must not be negative, one for each column")
    values = np.linalg.eigvalsh(moment.value.to_float())[::-1]
    largest = float(weights.max())
    return replace(
        moment,
        value=_rounded(np.array([weights @ values])),
        sensitivities={"l1": largest, "l2": largest},
        exact=False,
    )


def gap_sensitivity(adjacency: Adjacency) -> float:
    """Return how far one row in the unit ball moves an eigengap: 2 if replaced, or 1."""
    return 2.0 if adjacency.count_is_public else 1.0


def eigengap(moment: Bounded, k: int) -> Bounded:
    """Gap between the k-th and the following eigenvalue, counted from the largest."""
    d = len(moment.value.units)
    if not 1 <= k < d:
        raise InvalidParameterError(
            "an eigengap needs at least one component and fewer components than columns"
        )
    values = np.linalg.eigvalsh(moment.value.to_float())
    bound = gap_sensitivity(moment.adjacency)
    return replace(
        moment,
        value=_rounded(values[[d - k]] - values[[d - k - 1]]),
        sensitivities={"l1": bound, "l2": bound},
        exact=False,
    )


def projector_sensitivity(gap: float, adjacency: Adjacency) -> float:
    r"""Return how far the projectors of neighbours are apart, one of which has the k-th ``gap``.

    At most :math:`\sqrt{1 - \sqrt{1 - (c/\text{gap})^2}}`, c the sensitivity of the gap:
    docs/proofs/gap_projector.md. ``gap`` is a public number in units of the unit ball.
    """
    ratio = gap_sensitivity(adjacency) / gap
    if not 0 < ratio < 1:
        raise InvalidParameterError(
            "a projector is bounded only where the gap exceeds what one row can move it by"
        )
    # Written without a difference of near numbers; the last factor covers five roundings.
    return ratio / math.sqrt(1 + math.sqrt(1 - ratio * ratio)) * (1 + 2.0**-40)


def projector(moment: Bounded, k: int, sensitivity: float) -> Bounded:
    """Return the projector on the leading k eigenvectors, whose Frobenius sensitivity the caller
    proves.

    No bound on rows alone gives one below sqrt(2 min(k, d - k)): the gap may be as small as it
    likes.
    """
    # By LAPACK, whatever the size: a search from a public start could be led astray by a table made
    # for it, which no bound on the true projector would cover.
    vectors = eigh(moment.value.to_float(), driver="evd")[1][:, -k:]
    upper = np.triu(vectors @ vectors.T)
    return replace(
        moment,
        value=_rounded(upper + np.triu(upper, 1).T, _PROJECTOR_EXPONENT),
        sensitivities={"frobenius": sensitivity},
        unit=1.0,
        exact=False,
        centre_error=0.0,
        trace_bound=float(k),
    )


def _shared_by(m: int, adjacency: Adjacency) -> dict[Norm, float]:
    """Return how far m numbers move to which one row adds, together, between 0 and 1."""
    if m == 1 or not adjacency.count_is_public:
        return {"l1": 1.0, "l2": 1.0}
    return {"l1": 2.0, "l2": math.sqrt(2)}  # the float above sqrt(2)


def _rounded(values: NDArray[Any], exponent: int = _EXPONENT) -> FixedPoint:
    return FixedPoint(whole(np.rint(np.ldexp(values, -exponent))), exponent)
