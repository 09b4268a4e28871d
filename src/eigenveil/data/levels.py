"""How many rows have each level of a category, out of levels that nobody needs to list.

A row brings one count to the level it names, or none where its cell is empty. A person with several
rows is counted once, at the level that most of their rows name (of several such, the first in the
order of the alphabet): so all rows of a person move the counts no further than one row does.
"""

import hashlib
import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.bounded import Bounded
from eigenveil.data.gram import limit_rows, require_rows
from eigenveil.data.sources.base import RowSource
from eigenveil.numerics.fixedpoint import FixedPoint
from eigenveil.privacy.adjacency import Adjacency

__all__ = ["LevelCounts", "level_counts"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class LevelCounts(Bounded):
    """Counts of levels that occur, and which levels these are. Private."""

    levels: tuple[str, ...]


def level_counts(source: RowSource, column: str, adjacency: Adjacency) -> LevelCounts:
    """Return the number of rows, or of persons, by the level that they have in a column."""
    counts, rows = _counted(source, column)
    public = adjacency.count_is_public
    if public:
        require_rows(limit_rows(rows, source.n_columns))
    levels = sorted(counts)
    return LevelCounts(
        value=FixedPoint(np.array([counts[level] for level in levels], dtype=np.int64), 0),
        sensitivities={
            "l1": 2.0 if public else 1.0,
            "l2": math.sqrt(2) if public else 1.0,  # the float above sqrt(2)
            "linf": 1.0,
        },
        adjacency=adjacency,
        protects=source.protects,
        records=source.records,
        unit=1.0,
        count=rows if public else None,
        exact=True,
        bins=_bins(levels),
        levels=tuple(levels),
    )


def _counted(source: RowSource, column: str) -> tuple[Counter[str], int]:
    """Return counts of levels, and of the rows or persons."""
    counts: Counter[str] = Counter()
    persons: dict[int, Counter[str]] = {}
    rows = 0
    for levels, units in source.levels_of(column):
        rows += len(levels)
        if units is None:
            counts.update(level for level in levels if level is not None)
            continue
        for unit, level in zip(units.tolist(), levels, strict=True):
            named = persons.setdefault(unit, Counter())
            if level is not None:
                named[level] += 1
    if source.protects.owns_many:
        counts.update(_most_frequent(named) for named in persons.values() if named)
        rows = len(persons)
    return counts, rows


def _most_frequent(named: Counter[str]) -> str:
    """Return the level that most rows of a person name, the first of several."""
    return min(named, key=lambda level: (-named[level], level))


def _bins(levels: list[str]) -> NDArray[np.int64]:
    """Return a number for each level, the same in every table."""
    digests = (hashlib.sha256(level.encode("utf-8", "surrogatepass")).digest() for level in levels)
    return np.array([int.from_bytes(each[:8], "big", signed=True) for each in digests], np.int64)
