r"""What happens to one row before anything is summed.

A row x becomes integers k with :math:`\sum_j k_j^2 \le 2^{2b}`: it is clamped to the public
box, taken about the public centre c, divided by the public bound R, clipped to the unit ball
and rounded to multiples of 2^-b. Every step is a function of that row and of public numbers,
so the sums over rows have exactly the sensitivities of the unit ball.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidDataError, InvalidParameterError

__all__ = ["FRACTION_BITS", "Clip"]

FRACTION_BITS = 18  # b: 2**17 rows per exact BLAS sum, 2**27 rows per int64 sum
_COLUMNS = 4096  # summed at a time
_RANGE = (1e-60, 1e60)  # bounds outside it would overflow or vanish when squared


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clip:
    """The public numbers that bound a row.

    Attributes
    ----------
    row_norm : float
        Rows further than this from the centre are pulled back to it.
    centre : array, optional
        Public or already released; the origin where absent.
    box : pair of arrays, optional
        Lowest and highest value of each column; entries outside are clamped.
    on_invalid : {"raise", "zero"}
        Whether a row with a non-finite entry stops the run or contributes nothing.

    """

    row_norm: float
    centre: NDArray[np.float64] | None = None
    box: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    on_invalid: Literal["raise", "zero"] = "raise"

    def __post_init__(self) -> None:
        if not _RANGE[0] <= self.row_norm <= _RANGE[1]:
            raise InvalidParameterError("row_norm must be positive (between 1e-60 and 1e60)")
        if self.on_invalid not in ("raise", "zero"):
            raise InvalidParameterError("on_invalid must be 'raise' or 'zero'")

    def to_integers(self, rows: NDArray[Any], out: NDArray[np.float64]) -> int:
        """Write integer rows, scaled by 2**b, to ``out`` and return how many rows were valid."""
        with np.errstate(all="ignore"):  # a warning would depend on the records
            return self._to_integers(rows, out)

    def _to_integers(self, rows: NDArray[Any], moved: NDArray[np.float64]) -> int:
        d = rows.shape[1]
        one = float(1 << FRACTION_BITS)
        radius = _radius(d)
        moved[...] = rows  # to float64 first: a wider float may only now become infinite
        invalid = self._invalid(moved)
        if self.box is not None:
            np.clip(moved, *self.box, out=moved)
        if self.centre is not None:
            moved -= self.centre
        moved[invalid] = 0.0
        squares = _squared_norms(moved)
        huge = np.flatnonzero(~np.isfinite(squares))
        moved[huge] /= np.abs(moved[huge]).max(axis=1, initial=1.0, keepdims=True)
        # A row at the centre divides by zero: the minimum is then 1.
        factor = np.minimum(1.0, radius * self.row_norm / np.sqrt(squares)) * (one / self.row_norm)
        # A row whose squared norm overflows lies outside the ball: only its direction counts.
        factor[huge] = radius * one / np.linalg.norm(moved[huge], axis=1)
        moved *= factor[:, None]
        np.rint(moved, out=moved)
        # Exact: the entries are integers and the sum stays below 2**53. Not a number fails too.
        inside = _squared_norms(moved) <= one * one
        moved[~inside] = 0.0
        return int(rows.shape[0]) - len(invalid)

    def _invalid(self, rows: NDArray[np.float64]) -> NDArray[np.intp]:
        suspects = np.flatnonzero(~np.isfinite(rows.sum(axis=1)))
        invalid = suspects[~np.isfinite(rows[suspects]).all(axis=1)]
        if len(invalid) and self.on_invalid == "raise":
            raise InvalidDataError(
                "a row holds a missing or infinite value, or text: clean the data, choose numeric "
                "columns, or pass on_invalid='zero' to let such rows contribute nothing"
            )
        return np.asarray(invalid)


def _radius(d: int) -> float:
    """Rows are clipped a little inside the ball, so that rounding does not leave it.

    Rounding adds at most sqrt(d)/2 units; 2**-30 covers the floating-point norm.
    """
    radius = 1 - math.sqrt(d) * 2.0 ** -(FRACTION_BITS + 1) - 2.0**-30
    if radius <= 0:
        raise InvalidParameterError("too many columns for exact sums")
    return radius


def _squared_norms(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Row by row, in an order of additions that does not depend on the other rows.

    On more columns than numpy buffers, its order depends on the number of rows.
    """
    total = np.zeros(rows.shape[0])
    for start in range(0, rows.shape[1], _COLUMNS):
        part = rows[:, start : start + _COLUMNS]
        total += np.einsum("ij,ij->i", part, part)
    return total
