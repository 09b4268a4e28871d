"""Exact integers of any size in arrays.

An array has the type int64 where every entry is at most `LARGEST` in size, and holds Python's own
integers (the type object) where one is not. Its values alone decide, so whoever added them up gets
the same array. Sums of up to 2^27 rows fit into int64: only larger tables meet the slow type.

What is made of such an array needs room of its own: `widened` before entries can grow, and `in_all`
where entries are added up, as int64 would wrap around without a word.
"""

from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["LARGEST", "ExactSum", "Integers", "add", "fitted", "in_all", "whole", "widened"]

LARGEST = (1 << 63) - 1
_LARGEST_HELD = int(np.iinfo(np.int64).max)
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
