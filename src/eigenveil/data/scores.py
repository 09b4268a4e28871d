r"""Where rows lie on a plane of released directions: counts on a grid of public cells.

A row about the centre has two coordinates, :math:`s_i = \langle x, v_i \rangle`, and falls into one
of b x b cells of the frame :math:`|s_i| < r_i`, or outside. It is in one cell, whatever the row is:
one row moves one count by one (add/remove) or two of them (replace-one). The rows of a person
share one count. Where rows are of several kinds, each kind has cells of its own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.bounded import Bounded
from eigenveil.data.clip import Clip
from eigenveil.data.gram import limit_rows, require_rows
from eigenveil.data.sources.base import RowSource
from eigenveil.data.sources.stored import changed
from eigenveil.numerics.fixedpoint import FixedPoint
from eigenveil.privacy.adjacency import Adjacency

__all__ = ["Frame", "ScoreCounts", "row_kinds", "score_counts"]


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
    kinds : int
        Number of grids, one for each kind of row; the last one is for rows of no known kind.

    """

    directions: NDArray[np.float64]
    reach: NDArray[np.float64]
    bins: int
    kinds: int = 1

    @property
    def cells(self) -> int:
        """Number of cells of all grids, and one for all that lies outside."""
        return self.kinds * self.bins**2 + 1

    def places(
        self, coordinates: NDArray[np.float64], kinds: NDArray[np.intp] | None = None
    ) -> NDArray[np.intp]:
        """Return the cell of each pair of coordinates; the last one holds what lies outside.

        Cells are numbered along the second direction first, those of the first kind before others.
        """
        with np.errstate(all="ignore"):  # a warning would depend on the records
            steps = np.floor((coordinates / self.reach + 1) * (self.bins / 2))
            inside = np.logical_and(*((steps >= 0) & (steps < self.bins)).T)  # NaN is not
            first, second = np.where(inside[:, None], steps, 0).astype(np.intp).T
        grid = self.kinds - 1 if kinds is None else kinds
        return np.where(inside, (grid * self.bins + first) * self.bins + second, self.cells - 1)


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
        kinds, start = source.kinds, 0
        for chunk, units in source.unit_tables():
            coordinates = self.clip.coordinates(chunk, self.frame.directions)
            shown = None if kinds is None else kinds[start : start + len(chunk)]
            start += len(chunk)
            places = self.frame.places(coordinates, shown)
            if sizes is None:
                counts += np.bincount(places, minlength=counts.size) << self.BITS
            else:
                assert units is not None  # of a source of units
                np.add.at(counts, places, (1 << self.BITS) // sizes[units])
        if kinds is not None and start != len(kinds):
            raise changed()
        return (counts,)


def row_kinds(source: RowSource, column: str, levels: Sequence[str]) -> NDArray[np.intp]:
    """Return for each row the number of its level in a column; one more for all others. Private."""
    places = {level: place for place, level in enumerate(levels)}
    found = [np.empty(0, dtype=np.intp)]
    for named, _ in source.levels_of(column):
        each = [len(levels) if n is None else places.get(n, len(levels)) for n in named]
        found.append(np.array(each, dtype=np.intp))
    return np.concatenate(found)


def score_counts(source: RowSource, clip: Clip, frame: Frame, adjacency: Adjacency) -> Bounded:
    """Return rows, or persons, by their cell; invalid rows lie outside.

    In units of 2^-20, so that noise far below one row is not rounded to whole rows. What a person
    brings has an l1 norm, and so an l2 norm, of at most 1.
    """
    (counts,) = source.summed(ScoreCounts(clip, frame))
    public = adjacency.count_is_public
    rows = limit_rows(source.count_units(), source.n_columns) if public else None
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
