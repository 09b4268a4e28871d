r"""Maps of rows with bounded results: circles, limits of columns, projections, missing cells.

`CircleSource` replaces each entry by the cosines and the sines of its angles on K circles,

.. math:: x_j \mapsto (\cos 2\pi x_j/t_{jk}, \; \sin 2\pi x_j/t_{jk})_{k \le K}, \qquad
          t_{j,k+1} = 2^b t_{jk}

so that every row has length sqrt(K d), whatever its entries: the sum of the rows has a finite
sensitivity without any bound on them. `circular_mean` turns a released mean of such rows back into
a centre, known up to whole turns of the longest circle: the shortest says where it lies, each
longer one which turn of the one before it is in. Each new row depends on its own row alone, to the
last bit. Proof: docs/proofs/circle.md.

`LimitedSource` divides columns, folds and limits them (`ColumnLimits`). `SquaredSource` turns a row
about its centre, clipped at R, into its squared entries,

.. math:: q_j = (z_j/R)^2, \qquad |q|_2 \le |z|^2/R^2 \le 1

so that second moments of q are fourth moments of z. `ChangedSource` marks the rows that clipping,
column limits or folding changed. All depend on one row only. Proof: docs/proofs/fourth_moments.md.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import FRACTION_BITS, Clip
from eigenveil.numerics.circles import Circles
from eigenveil.numerics.column_limits import ColumnLimits, checked_turn
from eigenveil.numerics.kernels import circle_sum, circled, limited
from eigenveil.rows.base import RowSource, SummedRows
from eigenveil.rows.maps import RowwiseSource

TURN_DEVIATIONS = 3.5  # of the noise of an angle, within which a turn is not known


class CircleSource(RowwiseSource):
    """Rows as points on circles: for each circle all cosines, then all sines.

    A missing cell is NaN in all coordinates; an infinite one stays infinite.

    Parameters
    ----------
    source : RowSource
        The rows.
    turn : array of shape (n_columns,)
        Public or released circumference of each column's shortest circle, in units of the column.
    circles : int
        Number of circles per column.
    doublings : int
        Each circle is 2^doublings times as long as the one before.

    Attributes
    ----------
    turns : array of shape (circles, n_columns)
        Circumferences, from the shortest.
    reach : float
        Slightly more than the length of every complete row, so that rounding clips none of them.

    """

    def __init__(
        self,
        source: RowSource,
        turn: NDArray[np.float64],
        *,
        circles: int = 1,
        doublings: int = 0,
    ) -> None:
        super().__init__(source, 2 * circles * source.n_columns)
        steps = 2.0 ** (doublings * np.arange(circles))
        self.turns = checked_turn(turn, source.n_columns) * steps[:, None]
        longest = np.ascontiguousarray(checked_turn(self.turns[-1], source.n_columns))
        self._circles = Circles(longest, circles, doublings)
        rounding = (math.sqrt(self.n_columns) + 4) * 2.0 ** (1 - FRACTION_BITS)
        self.reach = math.sqrt(self.n_columns / 2) * (1 + rounding)

    def of_rows(self, chunk: NDArray[Any]) -> NDArray[np.float64]:
        """Return the cosines and sines of rows of ``base``."""
        return circled(chunk, self._circles).reshape(len(chunk), self.n_columns)

    def summed_tables(self, clip: Clip) -> Iterator[SummedRows]:
        """Yield rows, their units, and the sum of their integers where a compiled pass knows it.

        With such a sum come rows of ``base``: their many coordinates are not written out.
        """
        scaling = clip.scaling(self.n_columns)
        for rows, owners in self.base_blocks():
            known = None
            if owners is None and scaling is not None:
                known = circle_sum(rows, self._circles, scaling)
            yield self.of_rows(rows) if known is None else rows, owners, known


def circular_mean(
    mean: NDArray[np.float64], turns: NDArray[np.float64], noise: float = 0.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the centre from a mean of `CircleSource` rows, and the turn up to which it is known.

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


class LimitedSource(RowwiseSource):
    """Rows divided by scales, folded about a centre and limited in each column."""

    def __init__(self, source: RowSource, limits: ColumnLimits) -> None:
        super().__init__(source, source.n_columns, source.schema.feature_names)
        self._limits = limits

    def of_rows(self, chunk: NDArray[Any]) -> NDArray[np.float64]:
        """Return limited rows of ``base``."""
        return limited(chunk, self._limits)[0]


class SquaredSource(RowwiseSource):
    """Squared entries of clipped rows, in units of the squared clipping radius; at most length 1.

    An invalid row is NaN.

    Parameters
    ----------
    source : RowSource
        The rows.
    clip : Clip
        Centre, limits and clipping radius of the rows, all public or released.

    """

    def __init__(self, source: RowSource, clip: Clip) -> None:
        super().__init__(source, source.n_columns)
        self._clip = clip

    def of_rows(self, chunk: NDArray[Any]) -> NDArray[np.float64]:
        """Return the squared entries of clipped rows of ``base``."""
        rows, relative, invalid = self._clip.relative_rows(chunk)
        with np.errstate(all="ignore"):
            # Dividing by the larger of both lengths first keeps huge entries finite.
            rows /= self._clip.row_norm * np.maximum(1.0, relative)[:, None]
            rows *= rows
        rows[invalid] = np.nan
        return rows


class ChangedSource(RowwiseSource):
    """One column: 1/2 for rows changed by a limit, -1/2 for all others, NaN for invalid rows.

    Parameters
    ----------
    source : RowSource
        The rows before any limit.
    clip : Clip
        Centre and clipping radius of the rows, and other limits, all public or released.
    limits : ColumnLimits, optional
        Scales, turns and limits of columns, all public or released.
    counts_turns : bool
        Whether a row that was moved by whole turns only is a changed one.

    """

    def __init__(
        self,
        source: RowSource,
        clip: Clip,
        limits: ColumnLimits | None = None,
        *,
        counts_turns: bool = True,
    ) -> None:
        super().__init__(source, 1)
        self._clip, self._limits, self._counts_turns = clip, limits, counts_turns

    def of_rows(self, chunk: NDArray[Any]) -> NDArray[np.float64]:
        """Return the marks of rows of ``base``, as one column."""
        clip = self._clip
        rows, changed = chunk, np.zeros(len(chunk), dtype=bool)
        with np.errstate(all="ignore"):
            if self._limits is not None:
                rows, changed = limited(chunk, self._limits)
                if not self._counts_turns:
                    most = self._limits.limit * _ROUNDING
                    changed = np.asarray((np.abs(rows - self._limits.centre) >= most).any(axis=1))
            if clip.box is not None:
                changed |= ((rows < clip.box[0]) | (rows > clip.box[1])).any(axis=1)
            changed |= clip.relative_norms(rows) > 1.0
        marks = np.where(changed, 0.5, -0.5)
        marks[clip.invalid(rows)] = np.nan
        return marks[:, None]


class ProjectedSource(RowwiseSource):
    """Coordinates of rows along directions; those of an invalid row are NaN.

    Parameters
    ----------
    source : RowSource
        The rows.
    clip : Clip
        The centre, the box that entries are clamped to, what makes a row invalid, and whether rows
        are scaled to unit length first.
    basis : array of shape (n_columns, k)
        Orthonormal directions, as columns.

    """

    def __init__(self, source: RowSource, clip: Clip, basis: NDArray[np.float64]) -> None:
        super().__init__(source, int(basis.shape[1]))
        self._clip = clip
        self._directions = np.ascontiguousarray(basis.T)

    def of_rows(self, chunk: NDArray[Any]) -> NDArray[np.float64]:
        """Return the coordinates of rows of ``base``."""
        return self._clip.coordinates(chunk, self._directions)


class OutsideSource(RowwiseSource):
    """One column: how long rows are outside the directions; NaN for an invalid row.

    Parameters are those of `ProjectedSource`.
    """

    def __init__(self, source: RowSource, clip: Clip, basis: NDArray[np.float64]) -> None:
        super().__init__(source, 1)
        self._clip = clip
        self._directions = np.ascontiguousarray(basis.T)

    def of_rows(self, chunk: NDArray[Any]) -> NDArray[np.float64]:
        """Return the lengths of rows of ``base``, as one column."""
        return self._clip.beside(chunk, self._directions)[:, None]


class PresentSource(RowwiseSource):
    """Return for every cell whether it is there or empty, half a unit above or below half.

    An invalid row is NaN. Rows lie within ``reach`` of zero.
    """

    def __init__(self, source: RowSource, clip: Clip) -> None:
        super().__init__(source, source.n_columns)
        self._clip = clip
        self.reach = math.sqrt(source.n_columns) / 2

    def of_rows(self, chunk: NDArray[Any]) -> NDArray[np.float64]:
        """Return 1/2 for cells of ``base`` that hold a number and -1/2 for empty ones."""
        self._clip.check(chunk)
        with np.errstate(over="ignore"):  # a wider float may become infinite, as everywhere else
            chunk = chunk.astype(np.float64)
        there = np.where(np.isnan(chunk), -0.5, 0.5)
        there[np.isinf(chunk).any(axis=1)] = np.nan
        return there
