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
symmetric matrix would give it. Proof: docs/proofs/oja.md. `moment_columns` weighs the sum over a
whole table in the same way, of persons too. Proof: docs/proofs/power.md.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.batches import Records
from eigenveil.data.bounded import Bounded
from eigenveil.data.clip import FRACTION_BITS, NO_EXPONENT, Clip, half_octaves
from eigenveil.data.gram import (
    Tally,
    integer_blocks,
    limit_rows,
    require_rows,
    sums_are_exact,
)
from eigenveil.data.matrices import MatrixBatch
from eigenveil.data.sources import RowSource
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.numerics.fixedpoint import FixedPoint
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.wording import option

__all__ = [
    "OUTSIDE_SCALE",
    "REACH",
    "BasisProduct",
    "moment_columns",
    "unscaled",
    "update_blocks",
    "update_counts",
    "update_sum",
]

_BASIS_BITS = 26
_ENTRY_BITS = 30  # of a matrix record, relative to the radius
_EXACT_ROWS = 1 << (52 - 2 * FRACTION_BITS)  # a bit less than for rows alone: tangent parts
_AT_A_TIME = 1 << 20  # entries of products that are held
_DISTANCE_ERROR = 2.0**-24  # by cancellation, for each column and each length, as slack has it
_LONGEST_CENTRE = 2.0**16  # in units of the ball: products with rows are then exact
_SMALLEST_RADIUS = 1e-40  # of the ball: squares of shorter lengths lose their digits
_OUTSIDE, _OUTSIDE_BITS = 53, 7
OUTSIDE_SCALE = 1 + _OUTSIDE * 2.0**-_OUTSIDE_BITS  # 181/128, whose square is just below 2
REACH = 2.0  # distances are counted from here down, in units of the squared row norm


@dataclass(frozen=True, eq=False)
class BasisProduct:
    """What is looked at of a record A. Released or public, never data.

    Attributes
    ----------
    basis : array of shape (d, k)
        Q, orthonormal.
    centre : array of shape (d, k), optional
        C, in the caller's units; zero where absent.
    tangent : bool
        Only the part of AQ outside the span of Q.
    weighted : bool
        The part inside weighs sqrt(1/2), where there are several columns; `restored` undoes it.

    """

    basis: NDArray[np.float64]
    centre: NDArray[np.float64] | None = None
    tangent: bool = False
    weighted: bool = False

    def __post_init__(self) -> None:
        if not np.isfinite(self.basis).all() or self.skew > 1e-6:
            raise InvalidParameterError("columns of a step must be orthonormal")

    @property
    def k(self) -> int:
        """Number of columns."""
        return int(self.basis.shape[1])

    @property
    def weight(self) -> float:
        """W's w, of the part inside."""
        if self.tangent:
            return 0.0
        return math.sqrt(0.5) if self.weighted and self.k > 1 else 1.0

    def weigh(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """W times columns, or a stack of them."""
        if self.weight == 1:
            return columns
        return np.asarray(columns - (1 - self.weight) * self.basis @ (self.basis.T @ columns))

    def restored(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """What `weigh` made of it; the tangent part has nothing inside, and no noise."""
        if self.tangent:
            return self.weigh(columns)
        if self.weight == 1:
            return columns
        inside = self.basis @ (self.basis.T @ columns)
        return np.asarray(columns + (1 / self.weight - 1) * inside)

    @cached_property
    def integers(self) -> NDArray[np.float64]:
        """Q in units of 2^-26."""
        return np.rint(self.basis * 2.0**_BASIS_BITS)

    @cached_property
    def rounded(self) -> NDArray[np.float64]:
        """Q as it is used."""
        return self.integers * 2.0**-_BASIS_BITS

    @cached_property
    def skew(self) -> float:
        """Distance of the rounded Q from orthonormal columns, in operator norm; rounded up."""
        gram = self.rounded.T @ self.rounded
        return float(np.linalg.norm(gram - np.eye(len(gram)), 2)) * (1 + 2.0**-20) + 2.0**-40

    def natural(self) -> float:
        """How far two rows in the unit ball can be apart here, with what rounding adds."""
        one = 2.0 ** -(FRACTION_BITS + 1)
        inside = self.skew + math.sqrt(self.k) * one
        if self.weight == 1:
            apart = 1.0 if self.k == 1 else math.sqrt(2)
            return apart * (1 + self.skew) + 2 * math.sqrt(self.k) * one
        return 1 + 2 * (self._outside * (1 + inside) + inside)

    @property
    def _outside(self) -> float:
        """Error of the outer part of a row."""
        one = 2.0 ** -(FRACTION_BITS + 1)
        inside = self.skew + math.sqrt(self.k) * one
        return self.skew * (1 + inside) + inside + math.sqrt(len(self.basis)) * one

    def slack(self, centre: NDArray[np.float64]) -> float:
        """What rounding adds to a row's part of a sum that is pulled in, at most."""
        one = 2.0 ** -(FRACTION_BITS + 1)
        longest = 1 + (self._outside if self.weight < 1 else 0.0)
        length = float(np.linalg.norm(centre)) * (1 + 2.0**-40)
        distance = _DISTANCE_ERROR * math.sqrt(self.k) * (1 + length)
        return (longest * math.sqrt(self.k) + length) * one + distance


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
    longest = 1 + float(np.linalg.norm(centre))
    longest = longest if radius is None else min(longest, radius / bound)
    limit_rows(math.ceil(len(records.records) * (1 + longest)))
    sums = _OuterSums(view)
    weight = 0
    for rows, inside in _parts(records, clip, view):
        if radius is not None:
            share = np.minimum(1.0, radius / bound / _distances(rows, inside, centre))
            inside = np.rint(share[:, None] * inside)
            weight += int(np.rint(share * 2.0**FRACTION_BITS).sum())
        sums.add(rows, inside)
    units = sums.total()
    units -= weight * np.rint(centre * 2.0**FRACTION_BITS).astype(np.int64)
    sensitivity = view.natural()
    if radius is not None:
        sensitivity = min(2 * radius / bound, sensitivity) + 2 * view.slack(centre)
    return Bounded(
        value=FixedPoint(units, -2 * FRACTION_BITS),
        sensitivities={"l2": sensitivity * (1 + 2.0**-40)},
        adjacency=adjacency,
        unit=bound / len(records.records),
        count=len(records.records),
        exact=clip.transform is None and sums_are_exact(),
        records=records.records,
    )


def moment_columns(
    source: RowSource, clip: Clip, view: BasisProduct, adjacency: Adjacency
) -> Bounded:
    """The second moment times Q, its part outside the span of Q scaled up by `OUTSIDE_SCALE`.

    Of a table, of persons or of a batch; a mean where the number of rows is public, else a sum.
    l2 sensitivity: that of the second moment in Frobenius norm, and what rounding adds.
    """
    sizes = source.unit_sizes
    sums, finer = _OuterSums(view), _OuterSums(view)
    tally = Tally(source)
    for block in integer_blocks(source, clip):
        tally.add(block)
        inside = block.integers @ view.rounded  # exact, as with integers
        rounded = np.rint(inside)
        sums.add(block.integers, rounded)
        if sizes is not None:  # what rounding takes from each of many short rows would add up
            many = sizes[block.units] > 1
            left = (inside[many] - rounded[many]) * 2.0**FRACTION_BITS
            finer.add(block.integers[many], np.rint(left))
    units = sums.total()
    if sizes is not None:
        units += (finer.total() + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS
    outside = units - _projected(units, view)
    low = (1 << _OUTSIDE_BITS) - 1  # in two parts: the product may not fit
    units += (outside >> _OUTSIDE_BITS) * _OUTSIDE + ((outside & low) * _OUTSIDE >> _OUTSIDE_BITS)
    replace = adjacency is Adjacency.REPLACE_ONE
    statistic = Bounded(
        value=FixedPoint(units, -2 * FRACTION_BITS),
        sensitivities={"l2": _columns_sensitivity(view, adjacency)},
        adjacency=adjacency,
        protects=source.protects,
        records=source.records,
        unit=clip.radius**2 / (require_rows(tally.units) if replace else 1),
        count=tally.units if replace else None,
        exact=clip.transform is None and sums_are_exact(),
    )
    return source.represented(statistic)


def unscaled(view: BasisProduct, noisy: NDArray[np.float64]) -> NDArray[np.float64]:
    """What noise made of `moment_columns`, with the part outside at its own size again."""
    inside = view.basis @ (view.basis.T @ noisy)
    return np.asarray(inside + (noisy - inside) / OUTSIDE_SCALE)


def _columns_sensitivity(view: BasisProduct, adjacency: Adjacency) -> float:
    natural, ends = (math.sqrt(2), 2) if adjacency is Adjacency.REPLACE_ONE else (1.0, 1)
    rounding = OUTSIDE_SCALE * ends * math.sqrt(view.k) * 2.0 ** -(FRACTION_BITS + 1)  # of x'Q
    entries = 6 * math.sqrt(view.basis.size) * 4.0**-FRACTION_BITS  # of the whole sum
    return ((natural + rounding) * (1 + view.skew) + entries) * (1 + 2.0**-40)


class _OuterSums:
    """Sums of outer products of integers: as floats while they are exact, then as int64."""

    def __init__(self, view: BasisProduct) -> None:
        self._group = np.zeros(view.basis.shape[::-1])
        self._product = np.empty_like(self._group)
        self._sums = np.zeros(self._group.shape, dtype=np.int64)
        self._pending = 0  # rows in the group

    def add(self, rows: NDArray[np.float64], inside: NDArray[np.float64]) -> None:
        """Of rows and their coordinates."""
        if self._pending + len(rows) > _EXACT_ROWS:
            self._move()
        self._group += np.matmul(inside.T, rows, out=self._product)
        self._pending += len(rows)

    def total(self) -> NDArray[np.int64]:
        """Rows times coordinates, (d, k)."""
        self._move()
        return self._sums.T.copy()

    def _move(self) -> None:
        self._sums += self._group.astype(np.int64)
        self._group[:], self._pending = 0.0, 0


def _projected(units: NDArray[np.int64], view: BasisProduct) -> NDArray[np.int64]:
    """QQ' times integers of 63 bits: within one of each, but for k/2 in all by rounding Q'units.

    Sixteen bits at a time, so that sums of floats are exact for up to 2^22 columns.
    """
    inside = np.zeros((view.k, view.k), dtype=object)  # of more than 64 bits
    for shift, limb in _limbs(units):
        inside += (view.integers.T @ limb).astype(np.int64).astype(object) << shift
    rounded = ((inside + (1 << (_BASIS_BITS - 1))) >> _BASIS_BITS).astype(np.int64)
    projected = np.zeros_like(units)
    for shift, limb in _limbs(rounded):
        product = (view.integers @ limb).astype(np.int64)
        drop = _BASIS_BITS - shift
        projected += (product + (1 << (drop - 1))) >> drop if drop > 0 else product << -drop
    return projected


def _limbs(units: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.float64]]]:
    for shift in (0, 16, 32):
        yield shift, ((units >> shift) & 0xFFFF).astype(np.float64)
    yield 48, (units >> 48).astype(np.float64)


def update_counts(
    records: Records, clip: Clip, view: BasisProduct, adjacency: Adjacency
) -> Bounded:
    """Records by the half octave of |W(AQ - C)|, from twice the squared row norm down."""
    bound = clip.radius**2
    counts = np.zeros(NO_EXPONENT + 1, dtype=np.int64)
    for distances in _all_distances(records, clip, view):
        counts += np.bincount(half_octaves(distances / REACH), minlength=NO_EXPONENT + 1)
    return Bounded(
        value=FixedPoint(counts, 0),
        sensitivities={"l1": 2.0, "linf": 1.0},
        adjacency=adjacency,
        unit=REACH * bound,
        count=len(records.records),
        exact=clip.transform is None,
        records=records.records,
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
    size = max(1, _AT_A_TIME // view.basis.size)
    for rows, inside in _parts(records, clip, view):
        for start in range(0, len(rows), size):
            some = slice(start, start + size)
            yield rows[some, :, None] * inside[some, None, :] * unit


def _parts(
    records: Records, clip: Clip, view: BasisProduct
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Integer rows times W, and their coordinates inside."""
    assert not records.holds_matrices
    scale = 2.0**-_BASIS_BITS
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
    return np.asarray(np.sqrt(np.maximum(squares, _DISTANCE_ERROR**2)))


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
    """Of matrix records, each at most the squared row norm long in Frobenius norm."""
    bound = clip.radius**2
    with np.errstate(all="ignore"):  # a warning would depend on the records
        for block in records.products(view.basis, max(1, _AT_A_TIME // view.basis.size)):
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
    sums = np.zeros(view.basis.shape, dtype=np.int64)
    for block in _products(records, clip, view):
        if view.centre is not None:
            block = block - view.weigh(view.centre)
        lengths = np.sqrt(np.einsum("ijk,ijk->i", block, block))
        share = np.minimum(1.0, radius / np.maximum(lengths, 1e-300))
        entries = np.rint(block * (share / radius)[:, None, None] * 2.0**_ENTRY_BITS)
        sums += entries.astype(np.int64).sum(axis=0)
    rounding = math.sqrt(view.basis.size) * 2.0**-_ENTRY_BITS
    apart = 2 * min(1.0, bound / radius)
    return Bounded(
        value=FixedPoint(sums, -_ENTRY_BITS),
        sensitivities={"l2": apart * (1 + 2.0**-30) + rounding + 2.0**-29},
        adjacency=adjacency,
        unit=radius / len(records.records),
        count=len(records.records),
        exact=True,
        records=records.records,
    )
