"""Arrays of exact binary fractions with one public exponent."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigenveil.numerics.integers import Integers, widened

__all__ = ["FixedPoint"]


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
