"""Columns that a record is multiplied with: how they are rounded, weighed and summed exactly.

With Q released columns that are orthonormal, a record A is seen as W(AQ - C): W = I - (1 - w)QQ'
weighs the part inside the span of Q. `eigenveil.data.updates` and `eigenveil.data.moment_columns`
say what is summed, and why one record moves a sum by no more than `BasisProduct.natural`.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.clip import FRACTION_BITS
from eigenveil.exceptions import InvalidParameterError
from eigenveil.numerics.integers import ExactSum, Integers

__all__ = ["BASIS_BITS", "DISTANCE_ERROR", "BasisProduct", "OuterSums"]

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
