"""Exact integers of any size in arrays, and exact binary fractions with one public exponent.

An array has the type int64 where every entry is at most `LARGEST` in size, and holds Python's own
integers (the type object) where one is not. Its values alone decide, so whoever added them up gets
the same array. Sums of up to 2^27 rows fit into int64: only larger tables meet the slow type.

What is made of such an array needs room of its own: `widened` before entries can grow, and `in_all`
where entries are added up, as int64 would wrap around without a word.
"""

import math
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

LARGEST = (1 << 63) - 1
_LARGEST_HELD = int(np.iinfo(np.int64).max)
_BLOCK, _DIGITS, _LONGER = 1 << 14, 21, 27  # 2^14 products of 21 and 27 bits stay below 2^63
Integers: TypeAlias = NDArray[Any]
"""Integers of the type int64, or Python's own."""


def fitted(units: Integers) -> Integers:
    """Return the same integers as int64 where all of them fit."""
    if units.dtype != object or _largest(units) > LARGEST:
        return units
    return units.astype(np.int64)


def widened(units: Integers, bits: int) -> Integers:
    """Return the same integers, Python's own unless int64 has room for ``bits`` bits more."""
    if units.dtype == object or _largest(units) << bits <= LARGEST:
        return units
    return units.astype(object)


def whole(values: NDArray[np.float64]) -> Integers:
    """Return floats that are whole numbers, of any size, as integers."""
    if np.abs(values).max(initial=0.0) <= LARGEST / 2:
        return values.astype(np.int64)
    integers = np.empty(values.shape, dtype=object)
    integers.ravel()[:] = [int(value) for value in values.ravel()]
    return fitted(integers)


def add(*arrays: Integers) -> Integers:
    """Return the sum of arrays of integers, entry by entry."""
    if sum(map(_largest, arrays)) > LARGEST:
        arrays = tuple(array.astype(object) for array in arrays)
    return fitted(np.asarray(reduce(np.add, arrays)))


def in_all(units: Integers) -> int:
    """Return the sum of all entries."""
    return sum(units.ravel().tolist())


def sum_of_products(first: Integers, second: NDArray[np.int64]) -> int:
    """Return the sum of products of entries; those of ``second`` are at most 2^53 in size.

    In int64 by parts of few bits: no sum wraps around, and no BLAS has a part in it.
    """
    left, right, total = first.ravel(), second.ravel(), 0
    for start in range(0, left.size, _BLOCK):
        a, b = left[start : start + _BLOCK], right[start : start + _BLOCK]
        if a.dtype == object:
            total += sum(map(mul, a.tolist(), b.tolist()))
            continue
        for i, low in enumerate(_parts(a, _DIGITS, 3)):
            for j, part in enumerate(_parts(b, _LONGER, 2)):
                total += int(np.dot(low, part)) << (_DIGITS * i + _LONGER * j)
    return total


def _parts(units: NDArray[np.int64], bits: int, count: int) -> list[NDArray[np.int64]]:
    """Return digits of ``bits`` bits, lowest first; the last one has the sign."""
    digits = [(units >> bits * i) & ((1 << bits) - 1) for i in range(count - 1)]
    return [*digits, units >> bits * (count - 1)]


class ExactSum:
    """A sum of arrays of int64: in int64 while it must fit, then on top of Python's integers."""

    def __init__(self, *shape: int) -> None:
        self._near = np.zeros(shape, dtype=np.int64)
        self._room = LARGEST  # for what may still be added to it
        self._far: Integers | None = None

    def holding(self, most: int) -> NDArray[np.int64]:
        """Return the array to add integers to, none of which is larger than ``most`` in size."""
        if most > _LARGEST_HELD:
            raise ValueError("int64 cannot hold such integers: add them up in smaller parts")
        if most > self._room:
            self._far = self.total().astype(object)
            self._near[...] = 0
            self._room = LARGEST
        self._room -= most
        return self._near

    def total(self) -> Integers:
        """Return the sum."""
        return self._near if self._far is None else fitted(self._far + self._near)


def _largest(units: Integers) -> int:
    """Return the size of the largest entry."""
    if units.size == 0:
        return 0
    return max(int(units.max()), -int(units.min()))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FixedPoint:
    """The array ``units * 2**exponent``."""

    units: Integers
    exponent: int

    def to_float(self) -> NDArray[np.float64]:
        """Nearest float64; rounds where a unit needs more than 53 bits."""
        return self.units.astype(np.float64) * math.ldexp(1.0, self.exponent)

    def refined(self, exponent: int) -> "FixedPoint":
        """Return the same array with at most this exponent."""
        shift = max(0, self.exponent - exponent)
        return FixedPoint(widened(self.units, shift) << shift, self.exponent - shift)

    def __repr__(self) -> str:  # the units are private sums: they must not reach a log
        return f"FixedPoint(shape={self.units.shape}, exponent={self.exponent})"
