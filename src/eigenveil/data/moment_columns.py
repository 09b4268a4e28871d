"""The second moment of a whole table times released columns. Proof: docs/proofs/power.md."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.basis_product import BASIS_BITS, BasisProduct, OuterSums
from eigenveil.data.bounded import Bounded
from eigenveil.data.clip import FRACTION_BITS, Clip
from eigenveil.data.gram import Tally, integer_blocks, limit_rows, require_rows, sums_are_exact
from eigenveil.data.sources.base import RowSource
from eigenveil.numerics.fixedpoint import FixedPoint
from eigenveil.numerics.integers import Integers, add, fitted, widened
from eigenveil.privacy.adjacency import Adjacency

__all__ = ["OUTSIDE_SCALE", "ColumnsSum", "moment_columns", "unscaled"]

_OUTSIDE, _OUTSIDE_BITS = 53, 7
OUTSIDE_SCALE = 1 + _OUTSIDE * 2.0**-_OUTSIDE_BITS  # 181/128, whose square is just below 2


@dataclass(frozen=True, slots=True, eq=False)
class ColumnsSum:
    """Sum of x (x'Q) over integer rows, what rounding x'Q took, and how many units there are."""

    clip: Clip
    view: BasisProduct

    def of(self, source: RowSource) -> tuple[Integers, ...]:
        """Return all three over all rows of ``source``. Private."""
        sizes = source.unit_sizes
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
    statistic = Bounded(
        value=FixedPoint(fitted(units), -2 * FRACTION_BITS),
        sensitivities={"l2": _columns_sensitivity(view, adjacency)},
        adjacency=adjacency,
        protects=source.protects,
        records=source.records,
        unit=clip.radius**2 / (require_rows(rows) if replace else 1),
        count=rows if replace else None,
        exact=clip.transform is None and sums_are_exact(),
    )
    return source.represented(statistic)


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
