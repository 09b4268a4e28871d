r"""Where rows lie on a plane of released directions: counts on a grid of public cells.

A row about the centre has two coordinates, :math:`s_i = \langle x, v_i \rangle`, and falls into one
of b x b cells of the frame :math:`|s_i| < r_i`, or outside. It is in one cell, whatever the row is:
one row moves one count by one (add/remove) or two of them (replace-one). The rows of a person
share one count.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.bounded import Bounded
from eigenveil.data.clip import Clip
from eigenveil.data.gram import limit_rows, require_rows
from eigenveil.data.sources import RowSource
from eigenveil.numerics.fixedpoint import FixedPoint
from eigenveil.privacy.adjacency import Adjacency

__all__ = ["Frame", "ScoreCounts", "score_counts"]


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Two directions and a grid on the plane they span; public, or already released.

    Attributes
    ----------
    directions : array of shape (2, d)
        Orthonormal.
    reach : array of shape (2,)
        Half the width and half the height.
    bins : int
        Cells along each side.

    """

    directions: NDArray[np.float64]
    reach: NDArray[np.float64]
    bins: int

    @property
    def cells(self) -> int:
        """Number of cells, and one for all that lies outside."""
        return self.bins**2 + 1

    def places(self, coordinates: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the cell of each pair of coordinates; the last one holds what lies outside.

        Cells are numbered along the second direction first.
        """
        with np.errstate(all="ignore"):  # a warning would depend on the records
            steps = np.floor((coordinates / self.reach + 1) * (self.bins / 2))
            inside = np.logical_and(*((steps >= 0) & (steps < self.bins)).T)  # NaN is not
            first, second = np.where(inside[:, None], steps, 0).astype(np.intp).T
        return np.asarray(np.where(inside, first * self.bins + second, self.bins**2))


@dataclass(frozen=True, slots=True)
class ScoreCounts:
    """Rows by their cell in units of 2^-20; a person's rows share one count."""

    BITS: ClassVar[int] = 20  # of one person's count, and finer than noise that matters
    clip: Clip
    frame: Frame

    def of(self, source: RowSource) -> tuple[NDArray[np.int64], ...]:
        """Return the counts over all rows of ``source``. Private."""
        counts = np.zeros(self.frame.cells, dtype=np.int64)
        sizes = source.unit_sizes
        for chunk, units in source.unit_tables():
            places = self.frame.places(self.clip.coordinates(chunk, self.frame.directions))
            if sizes is None:
                counts += np.bincount(places, minlength=counts.size) << self.BITS
            else:
                assert units is not None  # of a source of units
                np.add.at(counts, places, (1 << self.BITS) // sizes[units])
        return (counts,)


def score_counts(source: RowSource, clip: Clip, frame: Frame, adjacency: Adjacency) -> Bounded:
    """Return rows, or persons, by their cell; invalid rows lie outside.

    In units of 2^-20, so that noise far below one row is not rounded to whole rows. What a person
    brings has an l1 norm, and so an l2 norm, of at most 1.
    """
    (counts,) = source.summed(ScoreCounts(clip, frame))
    public = adjacency.count_is_public
    rows = limit_rows(source.count_units()) if public else None
    if rows is not None:
        require_rows(rows)
    statistic = Bounded(
        value=FixedPoint(counts, -ScoreCounts.BITS),
        sensitivities={
            "l1": 2.0 if public else 1.0,
            "l2": math.sqrt(2) if public else 1.0,  # the float above sqrt(2)
            "linf": 1.0,
        },
        adjacency=adjacency,
        protects=source.protects,
        records=source.records,
        unit=1.0,
        count=rows,
        exact=clip.transform is None,
    )
    return source.represented(statistic)
