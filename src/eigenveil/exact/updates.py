r"""What one step of a one-pass method sees of a batch: products of its records with a few columns.

A record is a symmetric matrix A, of rows A = xx'. With Q released columns that are orthonormal and
C a released centre, a step sees W(AQ - C), pulled in to a ball of radius r. W = I - (1 - w)QQ'
weighs the part inside the span of Q: w = 1 leaves it, w = 0 leaves the tangent part alone. Sums
over the batch are exact:

* rows are the integers of `Clip`, Q is rounded to 2^-26, so that x'Q is exact before it is rounded
  to 2^-b; weights and C are multiples of 2^-b; all products are of integers below 2^53;
* products of matrices are pulled in to the ball of the squared row norm, and after C is taken off
  rounded to 2^-30 of r, record by record.

Pulling in to a ball is a projection and brings no two points further apart, so replacing one record
moves a sum by at most min(2r, natural) and what rounding adds. The natural bound for rows in the
unit ball is sqrt(2) for w = 1; 1 for a single column, since x x'q lies in the ball of radius 1/2
about q/2; and 1 for w^2 <= 1/2: a block off the diagonal stands twice in its matrix, so that
w^2|Q'DQ|^2 + |T|^2 <= |D|^2/2. With w = sqrt(1/2) the tangent part has the noise that a whole
symmetric matrix would give it. Proof: docs/proofs/oja.md.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.basis_products import BASIS_BITS, DISTANCE_ERROR, BasisProduct, OuterSums
from eigenveil.exact.batches import Records
from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import FRACTION_BITS, NO_EXPONENT, Clip, octave_brackets
from eigenveil.exact.gram import integer_blocks, limit_rows, sums_are_exact
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.messages import option
from eigenveil.numerics.integers import ExactSum, FixedPoint, add, widened
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.rows.matrices import MatrixBatch

_ENTRY_BITS = 30  # of a matrix record, relative to the radius
_PRODUCT_ENTRIES = 1 << 20  # entries of products that are held
_LONGEST_CENTRE = 2.0**16  # in units of the ball: products with rows are then exact
_SMALLEST_RADIUS = 1e-40  # of the ball: squares of shorter lengths lose their digits
REACH = 2.0  # distances are counted from here down, in units of the squared row norm


def update_sum(
    records: Records,
    clip: Clip,
    view: BasisProduct,
    adjacency: Adjacency,
    radius: float | None = None,
) -> Bounded:
    """Sum over the batch of W(AQ - C) pulled in to ``radius``; its `unit` makes it the mean.

    ``radius`` is in the caller's units; where absent, rows are bounded by ``clip`` alone.
    """
    if radius is not None and not 0 < radius < math.inf:
        raise InvalidParameterError("the radius of a step must be positive and finite")
    if records.holds_matrices:
        return _matrix_sum(records, clip, view, adjacency, radius)
    bound = clip.radius**2
    centre = _centre(view, bound)
    if radius is None and centre.any():
        raise InvalidParameterError("a step about a centre needs a radius")
    limit_rows(len(records.records), len(view.basis))
    sums = OuterSums(view)
    weight = 0
    for rows, inside in _parts(records, clip, view):
        if radius is not None:
            share = np.minimum(1.0, radius / bound / _distances(rows, inside, centre))
            inside = np.rint(share[:, None] * inside)
            weight += int(np.rint(share * 2.0**FRACTION_BITS).sum())
        sums.add(rows, inside)
    units = sums.total()
    if weight:
        taken = np.rint(centre * 2.0**FRACTION_BITS).astype(np.int64)
        units = add(units, -weight * widened(taken, weight.bit_length()))
    sensitivity = view.natural()
    if radius is not None:
        sensitivity = min(2 * radius / bound, sensitivity) + 2 * view.slack(centre)
    return Bounded.over(
        records,
        value=FixedPoint(units, -2 * FRACTION_BITS),
        sensitivities={"l2": sensitivity * (1 + 2.0**-40)},
        adjacency=adjacency,
        unit=bound / len(records.records),
        count=len(records.records),
        exact=clip.transform is None and sums_are_exact(),
    )


def centre_rounding(records: Records, clip: Clip, view: BasisProduct) -> NDArray[np.float64]:
    """Return WC less what `update_sum` takes for it, in the caller's units; public.

    It is up to 2^-19 of the squared row norm in each entry: more than all of C where a stated norm
    is far beyond the rows.
    """
    if view.centre is None or records.holds_matrices:
        return np.zeros(view.basis.shape)
    bound = clip.radius**2
    return np.asarray(view.weigh(view.centre) - _centre(view, bound) * bound)


def update_counts(
    records: Records, clip: Clip, view: BasisProduct, adjacency: Adjacency
) -> Bounded:
    """Return records by the half octave of |W(AQ - C)|, from twice the squared row norm down."""
    bound = clip.radius**2
    counts = np.zeros(NO_EXPONENT + 1, dtype=np.int64)
    for distances in _all_distances(records, clip, view):
        counts += np.bincount(octave_brackets(distances / REACH), minlength=NO_EXPONENT + 1)
    return Bounded.over(
        records,
        value=FixedPoint(counts, 0),
        sensitivities={"l1": 2.0, "linf": 1.0},
        adjacency=adjacency,
        unit=REACH * bound,
        count=len(records.records),
        exact=clip.transform is None,
    )


def update_blocks(
    records: Records, clip: Clip, view: BasisProduct
) -> Iterator[NDArray[np.float64]]:
    """WAQ of some records at a time: (m, d, k) in the caller's units.

    Without the centre. No entry depends on other records. At most the squared row norm long, and
    what rounding adds.
    """
    if records.holds_matrices:
        yield from _products(records, clip, view)
        return
    unit = clip.radius**2 * 4.0**-FRACTION_BITS
    size = max(1, _PRODUCT_ENTRIES // view.basis.size)
    for rows, inside in _parts(records, clip, view):
        for start in range(0, len(rows), size):
            some = slice(start, start + size)
            yield rows[some, :, None] * inside[some, None, :] * unit


def _parts(
    records: Records, clip: Clip, view: BasisProduct
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Yield integer rows times W, and their coordinates inside."""
    assert not records.holds_matrices
    scale = 2.0**-BASIS_BITS
    across = np.ascontiguousarray(view.integers.T)
    for block in integer_blocks(records, clip):
        rows = block.integers
        inside = np.rint(rows @ view.integers * scale)
        if view.weight < 1:
            rows = rows - np.rint(inside @ across * (scale * (1 - view.weight)))
        yield rows, inside


def _centre(view: BasisProduct, bound: float) -> NDArray[np.float64]:
    """WC in units of the ball, rounded to 2^-b: products with rows are then exact."""
    if view.centre is None:
        return np.zeros(view.basis.shape)
    centre = view.weigh(view.centre) / bound
    if not np.linalg.norm(centre) < _LONGEST_CENTRE:
        raise InvalidParameterError("the centre of a step lies far outside the ball of the rows")
    return np.asarray(np.rint(centre * 2.0**FRACTION_BITS) * 2.0**-FRACTION_BITS)


def _distances(
    rows: NDArray[np.float64], inside: NDArray[np.float64], centre: NDArray[np.float64]
) -> NDArray[np.float64]:
    """|ac' - C| of outer products, in units of the ball; never zero."""
    squares = np.einsum("ij,ij->i", rows, rows) * np.einsum("ij,ij->i", inside, inside)
    squares *= 16.0**-FRACTION_BITS
    if centre.any():
        cross = np.einsum("ij,ij->i", rows @ centre, inside) * 4.0**-FRACTION_BITS
        squares += math.fsum((centre * centre).ravel()) - 2 * cross
    return np.asarray(np.sqrt(np.maximum(squares, DISTANCE_ERROR**2)))


def _all_distances(
    records: Records, clip: Clip, view: BasisProduct
) -> Iterator[NDArray[np.float64]]:
    bound = clip.radius**2
    if records.holds_matrices:
        centre = np.zeros(view.basis.shape) if view.centre is None else view.weigh(view.centre)
        for block in _products(records, clip, view):
            yield np.sqrt(np.einsum("ijk,ijk->i", block - centre, block - centre)) / bound
        return
    centre = _centre(view, bound)
    for rows, inside in _parts(records, clip, view):
        yield _distances(rows, inside, centre)


def _products(
    records: MatrixBatch, clip: Clip, view: BasisProduct
) -> Iterator[NDArray[np.float64]]:
    """Yield products of matrix records, each at most the squared row norm long."""
    bound = clip.radius**2
    with np.errstate(all="ignore"):  # a warning would depend on the records
        for block in records.products(view.basis, max(1, _PRODUCT_ENTRIES // view.basis.size)):
            block = view.weigh(block)
            squares = np.einsum("ijk,ijk->i", block, block)
            broken = ~np.isfinite(squares)
            if broken.any() and clip.on_invalid == "raise":
                raise InvalidDataError(
                    "a matrix holds a missing, infinite or far too large value: clean the data, or "
                    "pass ",
                    option("on_invalid", "zero"),
                    " to let such matrices contribute nothing",
                )
            share = np.minimum(1.0, bound / np.sqrt(np.maximum(squares, 1e-300)))
            yield np.where(broken[:, None, None], 0.0, block * share[:, None, None])


def _matrix_sum(
    records: MatrixBatch, clip: Clip, view: BasisProduct, adjacency: Adjacency, radius: float | None
) -> Bounded:
    bound = clip.radius**2
    radius = bound if radius is None else max(radius, _SMALLEST_RADIUS * bound)
    sums = ExactSum(*view.basis.shape)
    for block in _products(records, clip, view):
        if view.centre is not None:
            block = block - view.weigh(view.centre)
        lengths = np.sqrt(np.einsum("ijk,ijk->i", block, block))
        share = np.minimum(1.0, radius / np.maximum(lengths, 1e-300))
        entries = np.rint(block * (share / radius)[:, None, None] * 2.0**_ENTRY_BITS)
        here = sums.holding(len(entries) << (_ENTRY_BITS + 1))
        here += entries.astype(np.int64).sum(axis=0)
    rounding = math.sqrt(view.basis.size) * 2.0**-_ENTRY_BITS
    apart = 2 * min(1.0, bound / radius)
    return Bounded.over(
        records,
        value=FixedPoint(sums.total(), -_ENTRY_BITS),
        sensitivities={"l2": apart * (1 + 2.0**-30) + rounding + 2.0**-29},
        adjacency=adjacency,
        unit=radius / len(records.records),
        count=len(records.records),
        exact=True,
    )
