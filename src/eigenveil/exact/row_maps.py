r"""Maps of rows with bounded results: circles, limits of columns, projections, missing cells.

`OnCircles` replaces each entry by the cosines and the sines of its angles on K circles,

.. math:: x_j \mapsto (\cos 2\pi x_j/t_{jk}, \; \sin 2\pi x_j/t_{jk})_{k \le K}, \qquad
          t_{j,k+1} = 2^b t_{jk}

so that every row has length sqrt(K d), whatever its entries: the sum of the rows has a finite
sensitivity without any bound on them. `circular_mean` turns a released mean of such rows back into
a centre, known up to whole turns of the longest circle: the shortest says where it lies, each
longer one which turn of the one before it is in. Each new row depends on its own row alone, to the
last bit. Proof: docs/proofs/circle.md.

`Limit` divides columns, folds and limits them (`ColumnLimits`). `Square` turns a row
about its centre, clipped at R, into its squared entries,

.. math:: q_j = (z_j/R)^2, \qquad |q|_2 \le |z|^2/R^2 \le 1

so that second moments of q are fourth moments of z. `MarkChanged` marks the rows that clipping,
column limits or folding changed. Proof: docs/proofs/fourth_moments.md.

`Project` has rows in the coordinates of a few directions,

.. math:: y = U'(x - c)

with orthonormal U and a centre c that are public or were released; an empty cell lies at c.
Products of rounded unit vectors are exact in any order (`Clip.coordinates`). No finite row has a y
that is not, so that whoever chooses U learns nothing from a run that stops.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import FRACTION_BITS, Clip
from eigenveil.numerics.circles import Circles
from eigenveil.numerics.column_limits import ColumnLimits, checked_turn
from eigenveil.numerics.kernels import circle_sum, circled, limited
from eigenveil.rows.base import RowMap

TURN_DEVIATIONS = 3.5  # of the noise of an angle, within which a turn is not known


@dataclass(frozen=True, eq=False)
class OnCircles(RowMap):
    """Rows as points on circles: for each circle all cosines, then all sines.

    A missing cell is NaN in all coordinates; an infinite one stays infinite.

    Parameters
    ----------
    turn : array of shape (n_columns,)
        Public or released circumference of each column's shortest circle, in units of the column.
    circles : int
        Number of circles per column.
    doublings : int
        Each circle is 2^doublings times as long as the one before.

    """

    turn: NDArray[np.float64]
    circles: int = 1
    doublings: int = 0

    def width(self, n_columns: int) -> int:
        """Return the number of coordinates; refuse circles for another number of columns."""
        checked_turn(self.turn, n_columns)
        checked_turn(self.turns[-1], n_columns)
        return 2 * self.turns.size

    @cached_property
    def turns(self) -> NDArray[np.float64]:
        """Circumferences (circles, n_columns), from the shortest."""
        steps = 2.0 ** (self.doublings * np.arange(self.circles))
        return np.asarray(self.turn * steps[:, None])

    @property
    def reach(self) -> float:
        """Slightly more than the length of every complete row, so that rounding clips none."""
        columns = 2 * self.turns.size
        rounding = (math.sqrt(columns) + 4) * 2.0 ** (1 - FRACTION_BITS)
        return math.sqrt(columns / 2) * (1 + rounding)

    @cached_property
    def _circles(self) -> Circles:
        return Circles(np.ascontiguousarray(self.turns[-1]), self.circles, self.doublings)

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return the cosines and sines of rows."""
        return circled(rows, self._circles).reshape(len(rows), 2 * self.turns.size)

    def summed(self, rows: NDArray[Any], clip: Clip) -> tuple[Any, NDArray[np.float64] | None]:
        """Return rows, and the sum of their integers where a compiled pass knows it.

        With such a sum come rows as they were: their many coordinates are not written out.
        """
        scaling = clip.scaling(2 * self.turns.size)
        known = None if scaling is None else circle_sum(rows, self._circles, scaling)
        return self(rows) if known is None else rows, known


def circular_mean(
    mean: NDArray[np.float64], turns: NDArray[np.float64], noise: float = 0.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the centre from a mean of `OnCircles` rows, and the turn up to which it is known.

    ``noise`` is the standard deviation of each coordinate. A column stops before the first circle,
    from the third on, that noise could put into another turn of the one before: where rows hold no
    values, or lie apart on the circle, points are near its middle and angles are uncertain.
    """
    points = mean.reshape(len(turns), 2, -1)
    angles = np.arctan2(points[:, 1], points[:, 0]) * (turns / (2 * math.pi))
    lengths = np.hypot(points[:, 0], points[:, 1])
    centre, turn, goes_on = angles[0], turns[0], np.ones(turns.shape[1], dtype=bool)
    for i in range(1, len(turns)):
        shorter, longer = turns[i - 1 : i + 1]
        if i > 1:
            half_turn = math.pi * shorter / longer  # as an angle on the longer circle
            goes_on = goes_on & (lengths[i] * half_turn >= TURN_DEVIATIONS * noise)
        moved = centre + shorter * np.round((angles[i] - centre) / shorter)
        centre, turn = np.where(goes_on, moved, centre), np.where(goes_on, longer, turn)
    return np.asarray(centre), np.asarray(turn)


_ROUNDING = 1 - 1e-12  # of an entry at its limit


@dataclass(frozen=True, eq=False)
class Limit(RowMap):
    """Divide rows by scales, fold them about a centre and limit them in each column."""

    limits: ColumnLimits

    def names(self, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return the same names."""
        return names

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return limited rows."""
        return limited(rows, self.limits)[0]


@dataclass(frozen=True, eq=False)
class Square(RowMap):
    """Squared entries of clipped rows, in units of the squared clipping radius; at most length 1.

    An invalid row is NaN.

    Parameters
    ----------
    clip : Clip
        Centre, limits and clipping radius of the rows, all public or released.

    """

    clip: Clip

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return the squared entries of clipped rows."""
        squares, relative, invalid = self.clip.relative_rows(rows)
        with np.errstate(all="ignore"):
            # Dividing by the larger of both lengths first keeps huge entries finite.
            squares /= self.clip.row_norm * np.maximum(1.0, relative)[:, None]
            squares *= squares
        squares[invalid] = np.nan
        return squares


@dataclass(frozen=True, eq=False)
class MarkChanged(RowMap):
    """One column: 1/2 for rows changed by a limit, -1/2 for all others, NaN for invalid rows.

    Parameters
    ----------
    clip : Clip
        Centre and clipping radius of the rows, and other limits, all public or released.
    limits : ColumnLimits, optional
        Scales, turns and limits of columns, all public or released.
    counts_turns : bool
        Whether a row that was moved by whole turns only is a changed one.

    """

    clip: Clip
    limits: ColumnLimits | None = None
    counts_turns: bool = True

    def width(self, n_columns: int) -> int:
        """Return one."""
        return 1

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return the marks of rows, as one column."""
        clip, changed = self.clip, np.zeros(len(rows), dtype=bool)
        with np.errstate(all="ignore"):
            if self.limits is not None:
                rows, changed = limited(rows, self.limits)
                if not self.counts_turns:
                    most = self.limits.limit * _ROUNDING
                    changed = np.asarray((np.abs(rows - self.limits.centre) >= most).any(axis=1))
            if clip.box is not None:
                changed |= ((rows < clip.box[0]) | (rows > clip.box[1])).any(axis=1)
            changed |= clip.relative_norms(rows) > 1.0
        marks = np.where(changed, 0.5, -0.5)
        marks[clip.invalid(rows)] = np.nan
        return marks[:, None]


@dataclass(frozen=True, eq=False)
class Project(RowMap):
    """Coordinates of rows along directions; those of an invalid row are NaN.

    Parameters
    ----------
    clip : Clip
        The centre, the box that entries are clamped to, what makes a row invalid, and whether rows
        are scaled to unit length first.
    basis : array of shape (n_columns, k)
        Orthonormal directions, as columns.

    """

    clip: Clip
    basis: NDArray[np.float64]

    @cached_property
    def _directions(self) -> NDArray[np.float64]:
        return np.ascontiguousarray(self.basis.T)

    def width(self, n_columns: int) -> int:
        """Return the number of directions."""
        return len(self._directions)

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return the coordinates of rows."""
        return self.clip.coordinates(rows, self._directions)


class LengthOutside(Project):
    """One column: how long rows are outside the directions; NaN for an invalid row."""

    def width(self, n_columns: int) -> int:
        """Return one."""
        return 1

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return the lengths of rows, as one column."""
        return self.clip.beside(rows, self._directions)[:, None]


@dataclass(frozen=True, eq=False)
class CellPresence(RowMap):
    """Whether cells hold a number, half a unit above or below half; an invalid row is NaN."""

    clip: Clip

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return 1/2 for cells that hold a number and -1/2 for empty ones."""
        self.clip.check(rows)
        with np.errstate(over="ignore"):  # a wider float may become infinite, as everywhere else
            rows = rows.astype(np.float64)
        there = np.where(np.isnan(rows), -0.5, 0.5)
        there[np.isinf(rows).any(axis=1)] = np.nan
        return there

    @staticmethod
    def reach(n_columns: int) -> float:
        """Return the length of every row of so many marks."""
        return math.sqrt(n_columns) / 2
