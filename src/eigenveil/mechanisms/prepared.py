"""A table about a released centre, in released scales and limits: what `front` prepares."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import Clip
from eigenveil.exact.row_maps import Limit
from eigenveil.mechanisms.additive import NoisyMean
from eigenveil.mechanisms.columns import Columns
from eigenveil.numerics.column_limits import ColumnLimits
from eigenveil.privacy.clauses import KNOWN_TURN
from eigenveil.rows.base import RowSource


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Rows divided by scales, and how they are read: released or public numbers beside them.

    Attributes
    ----------
    base : RowSource
        The rows in the units of the data.
    scale : array
        What columns are divided by.
    about : Clip
        Their centre and which rows are valid, in units of the scales.
    turn : array
        Whole multiples of it are dropped from entries about the centre.
    limit : float
        Largest distance of an entry from the centre.
    concentration : array
        Length of the mean on the shortest circle: near 1 for a column that varies by about its
        scale, near 0 for one that winds around the circle.

    """

    base: RowSource
    scale: NDArray[np.float64]
    about: Clip
    turn: NDArray[np.float64]
    concentration: NDArray[np.float64]
    limit: float = math.inf

    @property
    def limits(self) -> ColumnLimits:
        """The limits on each column, in units of the scales."""
        return ColumnLimits(
            scale=self.scale,
            centre=self.centre,
            turn=self.turn,
            limit=self.limit,
            fills=self.about.on_missing == "centre",
        )

    @cached_property
    def source(self) -> RowSource:
        """The divided rows, within half a turn of the centre and within the limit."""
        return self.base.map(Limit(self.limits))

    @property
    def centre(self) -> NDArray[np.float64]:
        """The centre in units of the scales."""
        assert self.about.centre is not None
        return self.about.centre

    @property
    def knows_turns(self) -> NDArray[np.bool_]:
        """Columns of which the turn is long enough for the centre to be taken as known."""
        return np.asarray(self.turn >= KNOWN_TURN)

    def moved(self, mean: NoisyMean) -> "Table":
        """Return the table about a mean that was found from its centre."""
        present = 1.0 if self.about.present is None else self.about.present
        centre = self.centre + mean.offset / present
        return replace(self, about=replace(self.about, centre=centre))

    def limited(self, limit: float) -> "Table":
        """Return the table with entries within a limit of the centre."""
        return replace(self, limit=limit)

    def divided(self, factor: NDArray[np.float64]) -> "Table":
        """Return the table with its columns divided once more, without a limit."""
        return replace(
            self,
            scale=self.scale * factor,
            about=replace(self.about, centre=self.centre / factor),
            turn=self.turn / factor,
            limit=math.inf,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """Released numbers that matrices need; ``left`` is their share of mu^2.

    Attributes
    ----------
    table : Table
        The rows about their centre.
    columns : Columns
        What is known of their scales.
    clip : Clip
        Bounds of the rows.
    limit : float
        Largest distance of an entry from the centre.
    inverse : float or None
        Mean of one over the squared distance of rows; None if unknown.
    left : float
        Share of the budget that is left.
    refined : bool
        Whether a first matrix refined the scales.

    """

    table: Table
    columns: Columns
    clip: Clip
    limit: float
    inverse: float | None
    left: float
    refined: bool
