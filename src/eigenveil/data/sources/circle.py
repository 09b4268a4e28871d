r"""Rows wrapped around circles of public or released circumferences.

`CircleSource` replaces each entry by the cosines and the sines of its angles on K circles,

.. math:: x_j \mapsto (\cos 2\pi x_j/t_{jk}, \; \sin 2\pi x_j/t_{jk})_{k \le K}, \qquad
          t_{j,k+1} = 2^b t_{jk}

so that every row has length sqrt(K d), whatever its entries: the sum of the rows has a finite
sensitivity without any bound on them. `circular_mean` turns a released mean of such rows back into
a centre, known up to whole turns of the longest circle: the shortest says where it lies, each
longer one which turn of the one before it is in. Each new row depends on its own row alone, to the
last bit. Proof: docs/proofs/circle.md.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.circles import Circles
from eigenveil.data.clip import FRACTION_BITS, Clip
from eigenveil.data.column_limits import checked_turn
from eigenveil.data.compiled import circle_sum, circled
from eigenveil.data.sources.base import RowSource, SummedRows
from eigenveil.data.sources.rowwise import RowwiseSource

__all__ = ["CircleSource", "circular_mean"]

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
