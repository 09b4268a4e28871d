r"""Angles of numbers on circles of several lengths, in arithmetic that is the same everywhere.

.. math:: x \mapsto (\cos 2\pi x/t_k, \; \sin 2\pi x/t_k), \qquad t_{k+1} = 2^b t_k

Numpy's own cosine may round an entry differently beside other entries. So the angle on the longest
circle is a polynomial, and each shorter circle doubles it: additions and multiplications only. The
compiled pass in `rows.c` does the same operations in the same order.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

TO_INTEGER = 6755399441055744.0  # 1.5 * 2^52: adding it rounds numbers below 2^51 to integers

# The polynomials take an eighth of the angle on the longest circle, at most pi/8: the Taylor
# coefficients in its square are exact to 1e-16 there.
FIRST_DOUBLINGS = 3
EIGHTH = 2 * math.pi / 2**FIRST_DOUBLINGS
COSINE = np.array([(-1.0) ** k / math.factorial(2 * k) for k in range(8)])
SINE = np.array([EIGHTH * (-1.0) ** k / math.factorial(2 * k + 1) for k in range(8)])


class Circles(NamedTuple):
    """Lengths of all circles.

    Attributes
    ----------
    longest : array of shape (n_columns,)
        Length of the last circle in each column.
    number : int
        Number of circles per column.
    doublings : int
        Each circle is 2^doublings times as long as the one before.

    """

    longest: NDArray[np.float64]
    number: int
    doublings: int


def points_on_circles(rows: NDArray[Any], circles: Circles) -> NDArray[np.float64]:
    """Return cosines and sines on every circle: shape (n_rows, circles, 2, n_columns).

    Missing and infinite entries stay in all coordinates. Entries more than 2^51 turns away have the
    angle 0.
    """
    points = np.empty((len(rows), circles.number, 2, rows.shape[1]))
    with np.errstate(all="ignore"):  # a warning would depend on the records
        turns = rows.astype(np.float64) / circles.longest
        turns -= (turns + TO_INTEGER) - TO_INTEGER
        turns[~(np.abs(turns) <= 0.5)] = 0.0
        squares = (turns * EIGHTH) * (turns * EIGHTH)
        cosine, sine = _polynomial(squares, COSINE), turns * _polynomial(squares, SINE)
        for circle in reversed(range(circles.number)):
            for _ in range(FIRST_DOUBLINGS if circle == circles.number - 1 else circles.doublings):
                product = cosine * sine
                cosine = cosine * cosine - sine * sine
                sine = product + product
            points[:, circle, 0], points[:, circle, 1] = cosine, sine
        broken = ~np.isfinite(rows.astype(np.float64))
        for i in np.flatnonzero(broken.any(axis=1)):
            points[i, :, :, broken[i]] = rows[i, broken[i], None, None]
    return points


def _polynomial(x: NDArray[np.float64], coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the polynomial at every entry, by Horner's scheme."""
    value = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value *= x
        value += coefficient
    return value
