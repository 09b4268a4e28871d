r"""Rows wrapped around circles of a public or released circumference: one turn per column.

`CircleSource` replaces each entry by the cosine and the sine of its angle,

.. math:: x_j \mapsto (\cos 2\pi x_j/t_j, \; \sin 2\pi x_j/t_j)

so that every row has length sqrt(d), whatever its entries: the sum of the rows has a finite
sensitivity without any bound on them. `circular_mean` turns a released mean of such rows back into
a centre, known up to whole turns. `FoldedSource` drops whole turns from rows about a centre.

Each new row depends on its own row alone, to the last bit: the cosines and sines are polynomials,
evaluated by additions and multiplications only, because the vector code of numpy may round an
entry differently beside other entries. Proof: docs/proofs/circle.md.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.sources.base import RowSource
from eigenveil.data.sources.rowwise import RowwiseSource
from eigenveil.exceptions import InvalidParameterError

__all__ = ["CircleSource", "FoldedSource", "circular_mean", "folded"]

_MAX_ENTRY = 1e300  # entries farther out are taken as this far, so that differences stay finite
_SHORTEST_TURN, _LONGEST_TURN = 1e-100, 1e100
# Taylor coefficients in the square of the angle: exact to 1e-16 within an eighth of a turn.
_COSINE = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(9))
_SINE = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(9))


class CircleSource(RowwiseSource):
    """Rows as points on a circle per column: all cosines, then all sines.

    A missing cell is NaN in both coordinates; an infinite one stays infinite in both.

    Parameters
    ----------
    source : RowSource
        The rows.
    turn : array of shape (n_columns,)
        Public or released circumference of each column's circle, in the units of the column.

    Attributes
    ----------
    reach : float
        Length of every complete row: sqrt(d), rounded up.

    """

    def __init__(self, source: RowSource, turn: NDArray[np.float64]) -> None:
        super().__init__(source, 2 * source.n_columns)
        self._turn = _checked(turn, source.n_columns)
        self.reach = math.nextafter(math.sqrt(source.n_columns), math.inf)

    def of_rows(self, chunk: NDArray[Any]) -> NDArray[np.float64]:
        """Return the cosines and sines of rows of ``base``."""
        d = self._turn.size
        out = np.empty((len(chunk), 2 * d))
        with np.errstate(all="ignore"):  # a warning would depend on the records
            rows = chunk.astype(np.float64)
            fraction = np.remainder(rows, self._turn) / self._turn
            quarter = np.rint(4 * fraction)
            angle = (fraction - quarter / 4) * (2 * math.pi)
            square = angle * angle
            cosine, sine = _polynomial(square, _COSINE), angle * _polynomial(square, _SINE)
            quarter %= 4
            odd, behind = quarter % 2 == 1, quarter >= 2
            first, second = np.where(odd, -sine, cosine), np.where(odd, cosine, sine)
            out[:, :d] = np.where(behind, -first, first)
            out[:, d:] = np.where(behind, -second, second)
        for half in (out[:, :d], out[:, d:]):
            np.copyto(half, rows, where=~np.isfinite(rows))
        return out


class FoldedSource(RowwiseSource):
    """Rows within half a turn of a centre in every column: whole turns are dropped.

    Entries that lie there already keep their value. Missing and infinite cells stay.

    Parameters
    ----------
    source : RowSource
        The rows.
    centre : array of shape (n_columns,)
        Public or released.
    turn : array of shape (n_columns,)
        Public or released length of a turn, in the units of each column.

    """

    def __init__(
        self, source: RowSource, centre: NDArray[np.float64], turn: NDArray[np.float64]
    ) -> None:
        super().__init__(source, source.n_columns, source.feature_names)
        self._turn = _checked(turn, source.n_columns)
        self._centre = np.asarray(centre, dtype=np.float64)
        if self._centre.shape != self._turn.shape or not (np.abs(self._centre) < _MAX_ENTRY).all():
            raise InvalidParameterError("centre must hold a finite number for each column")

    def of_rows(self, chunk: NDArray[Any]) -> NDArray[np.float64]:
        """Return folded rows of ``base``."""
        return folded(chunk, self._centre, self._turn)


def folded(
    rows: NDArray[Any], centre: NDArray[np.float64], turn: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return rows with whole turns dropped: entries lie within half a turn of the centre."""
    half = turn / 2
    low, high = centre - half, centre + half
    with np.errstate(all="ignore"):  # a warning would depend on the records
        rows = rows.astype(np.float64)
        offset = np.clip(rows, -_MAX_ENTRY, _MAX_ENTRY) - low
        moved = np.clip(low + np.remainder(offset, turn), low, high)
        keeps = ((rows >= low) & (rows <= high)) | ~np.isfinite(rows)
    return np.where(keeps, rows, moved)


def circular_mean(mean: NDArray[np.float64], turn: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the point on each circle in the direction of a mean of `CircleSource` rows.

    Between minus half a turn and half a turn: the true centre lies there or whole turns away.
    """
    d = mean.size // 2
    return np.asarray(np.arctan2(mean[d:], mean[:d]) * (turn / (2 * math.pi)))


def _polynomial(x: NDArray[np.float64], coefficients: tuple[float, ...]) -> NDArray[np.float64]:
    """Return the polynomial at every entry, by Horner's scheme."""
    value = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value *= x
        value += coefficient
    return value


def _checked(turn: NDArray[np.float64], columns: int) -> NDArray[np.float64]:
    """Return lengths of a turn: one for each column, within what arithmetic holds."""
    turn = np.asarray(turn, dtype=np.float64)
    if turn.shape != (columns,) or not ((turn >= _SHORTEST_TURN) & (turn <= _LONGEST_TURN)).all():
        raise InvalidParameterError(
            "turn must hold a positive number for each column, between 1e-100 and 1e100"
        )
    return turn
