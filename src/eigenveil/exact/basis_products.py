"""Exact sums of records multiplied with released columns.

With Q released columns that are orthonormal, a record A is seen as W(AQ - C): W = I - (1 - w)QQ'
weighs the part inside the span of Q. `eigenveil.exact.updates` and `eigenveil.exact.basis_products`
say what is summed, and why one record moves a sum by no more than `BasisProduct.natural`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import FRACTION_BITS, Clip
from eigenveil.exact.gram import Tally, integer_blocks, limit_rows, require_rows, sums_are_exact
from eigenveil.exceptions import InvalidParameterError
from eigenveil.numerics.integers import ExactSum, FixedPoint, Integers, add, fitted, widened
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.rows.base import RowSource

BASIS_BITS = 26
DISTANCE_ERROR = 2.0**-24  # by cancellation, for each column and each length, as slack has it
_EXACT_ROWS = 1 << (52 - 2 * FRACTION_BITS)  # a bit less than for rows alone: tangent parts


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
        """Return what `weigh` made of it; the tangent part has nothing inside, and no noise."""
        if self.tangent:
            return self.weigh(columns)
        if self.weight == 1:
            return columns
        inside = self.basis @ (self.basis.T @ columns)
        return np.asarray(columns + (1 / self.weight - 1) * inside)

    @cached_property
    def integers(self) -> NDArray[np.float64]:
        """Q in units of 2^-26."""
        return np.rint(self.basis * 2.0**BASIS_BITS)

    @cached_property
    def rounded(self) -> NDArray[np.float64]:
        """Q as it is used."""
        return self.integers * 2.0**-BASIS_BITS

    @cached_property
    def skew(self) -> float:
        """Distance of the rounded Q from orthonormal columns, in operator norm; rounded up."""
        gram = self.rounded.T @ self.rounded
        return float(np.linalg.norm(gram - np.eye(len(gram)), 2)) * (1 + 2.0**-20) + 2.0**-40

    def natural(self) -> float:
        """Return how far two rows in the unit ball can be apart here, with what rounding adds."""
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
        """Return what rounding adds to a row's part of a sum that is pulled in, at most."""
        one = 2.0 ** -(FRACTION_BITS + 1)
        longest = 1 + (self._outside if self.weight < 1 else 0.0)
        length = float(np.linalg.norm(centre)) * (1 + 2.0**-40)
        distance = DISTANCE_ERROR * math.sqrt(self.k) * (1 + length)
        return (longest * math.sqrt(self.k) + length) * one + distance


class OuterSums:
    """Sums of outer products of integers: as floats while they are exact, then as integers."""

    def __init__(self, view: BasisProduct) -> None:
        self._group = np.zeros(view.basis.shape[::-1])
        self._product = np.empty_like(self._group)
        self._sums = ExactSum(*self._group.shape)
        self._pending = 0  # rows in the group

    def add(self, rows: NDArray[np.float64], inside: NDArray[np.float64]) -> None:
        """Add the products of rows and their coordinates."""
        if self._pending + len(rows) > _EXACT_ROWS:
            self._move()
        self._group += np.matmul(inside.T, rows, out=self._product)
        self._pending += len(rows)

    def total(self) -> Integers:
        """Return rows times coordinates, (d, k)."""
        self._move()
        return self._sums.total().T.copy()

    def _move(self) -> None:
        sums = self._sums.holding(1 << 53)
        sums += self._group.astype(np.int64)
        self._group[:], self._pending = 0.0, 0


_OUTSIDE, _OUTSIDE_BITS = 53, 7
OUTSIDE_SCALE = 1 + _OUTSIDE * 2.0**-_OUTSIDE_BITS  # 181/128, whose square is just below 2


@dataclass(frozen=True, slots=True, eq=False)
class ColumnsSum:
    """Sum of x (x'Q) over integer rows, what rounding x'Q took, and how many units there are."""

    clip: Clip
    view: BasisProduct

    def of(self, source: RowSource) -> tuple[Integers, ...]:
        """Return all three over all rows of ``source``. Private."""
        sizes = source.units.sizes
        sums, finer = OuterSums(self.view), OuterSums(self.view)
        tally = Tally(source)
        for block in integer_blocks(source, self.clip):
            tally.add(block)
            inside = block.integers @ self.view.rounded  # exact, as with integers
            rounded = np.rint(inside)
            sums.add(block.integers, rounded)
            if sizes is not None:  # what rounding takes from each of many short rows would add up
                many = sizes[block.units] > 1
                left = (inside[many] - rounded[many]) * 2.0**FRACTION_BITS
                finer.add(block.integers[many], np.rint(left))
        return sums.total(), finer.total(), tally.counts


def moment_columns(
    source: RowSource, clip: Clip, view: BasisProduct, adjacency: Adjacency
) -> Bounded:
    """Return the second moment times Q, its part outside the span of Q scaled up by
    `OUTSIDE_SCALE`.

    Of a table, of persons or of a batch; a mean where the number of rows is public, else a sum.
    l2 sensitivity: that of the second moment in Frobenius norm, and what rounding adds.
    """
    sums, finer, counts = source.summed(ColumnsSum(clip, view))
    rows = limit_rows(int(counts[0]), source.n_columns)
    units = add(sums, (widened(finer, 1) + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS)
    # With room for QQ'units, whose entries may be sqrt(d) times as large, and for what is added.
    units = widened(units, 3 + len(units).bit_length() // 2)
    outside = units - _projected(units, view)
    low = (1 << _OUTSIDE_BITS) - 1  # in two parts: the product may not fit
    units += (outside >> _OUTSIDE_BITS) * _OUTSIDE + ((outside & low) * _OUTSIDE >> _OUTSIDE_BITS)
    replace = adjacency is Adjacency.REPLACE_ONE
    return Bounded.over(
        source,
        value=FixedPoint(fitted(units), -2 * FRACTION_BITS),
        sensitivities={"l2": _columns_sensitivity(view, adjacency)},
        adjacency=adjacency,
        unit=clip.radius**2 / (require_rows(rows) if replace else 1),
        count=rows if replace else None,
        exact=clip.transform is None and sums_are_exact(),
    )


def unscaled(view: BasisProduct, noisy: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what noise made of `moment_columns`, with the part outside at its own size again."""
    inside = view.basis @ (view.basis.T @ noisy)
    return np.asarray(inside + (noisy - inside) / OUTSIDE_SCALE)


def _columns_sensitivity(view: BasisProduct, adjacency: Adjacency) -> float:
    natural, ends = (math.sqrt(2), 2) if adjacency is Adjacency.REPLACE_ONE else (1.0, 1)
    rounding = OUTSIDE_SCALE * ends * math.sqrt(view.k) * 2.0 ** -(FRACTION_BITS + 1)  # of x'Q
    entries = 6 * math.sqrt(view.basis.size) * 4.0**-FRACTION_BITS  # of the whole sum
    return ((natural + rounding) * (1 + view.skew) + entries) * (1 + 2.0**-40)


def _projected(units: Integers, view: BasisProduct) -> Integers:
    """QQ' times integers: within one of each, but for k/2 in all by rounding Q'units.

    Sixteen bits at a time, so that sums of floats are exact for up to 2^22 columns.
    """
    inside = np.zeros((view.k, view.k), dtype=object)  # of more than 64 bits
    for shift, limb in _limbs(units):
        inside += (view.integers.T @ limb).astype(np.int64).astype(object) << shift
    rounded = fitted((inside + (1 << (BASIS_BITS - 1))) >> BASIS_BITS)
    projected = np.zeros_like(units)
    for shift, limb in _limbs(rounded):
        product = (view.integers @ limb).astype(np.int64).astype(units.dtype)
        drop = BASIS_BITS - shift
        projected += (product + (1 << (drop - 1))) >> drop if drop > 0 else product << -drop
    return projected


def _limbs(units: Integers) -> Iterator[tuple[int, NDArray[np.float64]]]:
    shifts = range(0, 48 if units.dtype == np.int64 else 80, 16)  # 2^39 rows have 75 bits
    for shift in shifts:
        yield shift, ((units >> shift) & 0xFFFF).astype(np.float64)
    yield shifts.stop, (units >> shifts.stop).astype(np.float64)
