r"""Rows divided by scales, folded about a centre, and limited in each column.

.. math:: x_j \mapsto y_j = x_j/s_j \mapsto y_j - t_j \cdot \text{whole turns}
          \mapsto \min(\max(y_j, c_j - L), c_j + L)

All numbers are public or were released before. Each row depends on itself alone, to the last bit.
The compiled pass in `rows.c` does the same operations in the same order.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidParameterError

MAX_ENTRY = 1e300  # entries farther out are taken as this far, so that differences stay finite
_SHORTEST_TURN, _LONGEST_TURN = 1e-100, 1e100


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnLimits:
    """The public or released numbers that limit each column.

    Attributes
    ----------
    scale : array of shape (n_columns,)
        Columns are divided by it; the other numbers are in these units.
    centre : array of shape (n_columns,)
        Middle of the limits.
    turn : array of shape (n_columns,)
        Whole turns are dropped from entries more than half a turn from the centre.
    limit : float
        Entries farther from the centre are pulled in; infinite for no limit.
    fills : bool
        Whether missing entries are put at the centre; otherwise they stay missing.

    """

    scale: NDArray[np.float64]
    centre: NDArray[np.float64]
    turn: NDArray[np.float64]
    limit: float = np.inf
    fills: bool = False

    def __post_init__(self) -> None:
        checked_turn(self.turn, self.scale.size)
        in_columns = self.centre.shape == self.turn.shape
        if not (in_columns and (np.abs(self.centre) < MAX_ENTRY).all()):
            raise InvalidParameterError("centre must hold a finite number for each column")

    def ends(self) -> tuple[NDArray[np.float64], ...]:
        """Return the lowest and highest value before an entry is folded, and in the result."""
        half = self.turn / 2
        limits = self.centre - self.limit, self.centre + self.limit
        return self.centre - half, self.centre + half, *limits


def limited_rows(
    rows: NDArray[Any], limits: ColumnLimits
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return limited rows, and which of them folding or the limit changed.

    Infinite entries stay, and missing ones that are not filled.
    """
    low, high, least, most = limits.ends()
    with np.errstate(all="ignore"):  # a warning would depend on the records
        rows = rows.astype(np.float64)
        finite = np.isfinite(rows)
        out = rows / limits.scale
        np.clip(out, -MAX_ENTRY, MAX_ENTRY, out=out, where=finite)
        away = finite & ~((out >= low) & (out <= high))
        places = np.nonzero(away)
        low, high, turn = (ends[places[1]] for ends in (low, high, limits.turn))
        out[places] = np.clip(low + np.remainder(out[places] - low, turn), low, high)
        changed = away | (finite & ((out < least) | (out > most)))
        np.clip(out, least, most, out=out, where=finite)
        if limits.fills:
            np.copyto(out, limits.centre, where=np.isnan(rows))
    return out, changed.any(axis=1)


def checked_turn(turn: NDArray[np.float64], columns: int) -> NDArray[np.float64]:
    """Return lengths of a turn: one for each column, within what arithmetic holds."""
    turn = np.asarray(turn, dtype=np.float64)
    if turn.shape != (columns,) or not ((turn >= _SHORTEST_TURN) & (turn <= _LONGEST_TURN)).all():
        raise InvalidParameterError(
            "turn must hold a positive number for each column, between 1e-100 and 1e100"
        )
    return turn
