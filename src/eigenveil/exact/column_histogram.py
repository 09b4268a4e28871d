r"""How the numbers of one column are distributed, or means of random blocks of them.

Numbers are counted in public brackets, and numbers beyond the outermost ends at those ends. Each
row, or each person at the mean of the numbers they own, belongs to one block. A row moves the mean
of its block alone, so it moves one count to another bracket, whatever the numbers are. How the
table is sorted does not matter, to the last bit.
"""

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.gram import public_rows
from eigenveil.exact.histograms import histogram_sensitivities
from eigenveil.exceptions import UnsupportedNotionError
from eigenveil.messages import REPLACE_ONE
from eigenveil.numerics.integers import FixedPoint
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.rows.base import RowSource


def value_counts(
    source: RowSource,
    ends: NDArray[np.float64],
    adjacency: Adjacency,
    blocks: NDArray[np.intp] | None = None,
) -> Bounded:
    """Return how many means of blocks lie in each bracket, from the highest bracket down.

    ``source`` has one column; ``ends`` are those of the brackets, increasing. ``blocks`` gives the
    number of the block of each row, or person; by default each is a block of its own. Cells that
    hold no number contribute nothing. An added row would move all that follow to other blocks:
    blocks need a public number of rows.
    """
    public = adjacency.count_is_public
    if blocks is not None and not public:
        raise UnsupportedNotionError("blocks of rows need ", REPLACE_ONE)
    rows = public_rows(source) if public else None
    means, found = _unit_means(source, ends[0], ends[-1])
    if blocks is not None:
        means, found = _grouped(means[found], blocks[found], int(blocks.max()) + 1)
    brackets = np.searchsorted(ends[1:-1], means[found], side="right")
    counts = np.bincount(brackets, minlength=ends.size - 1)[::-1]
    return Bounded.over(
        source,
        value=FixedPoint(counts.astype(np.int64), 0),
        sensitivities=histogram_sensitivities(adjacency),
        adjacency=adjacency,
        unit=1.0,
        count=rows,
        exact=True,
    )


def _unit_means(
    source: RowSource, low: float, high: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the number of each row, or the mean of each person's, and who has any."""
    sizes = source.units.sizes
    parts: list[NDArray[np.float64]] = []
    owners: list[NDArray[np.intp]] = []
    for chunk, units in source.unit_tables():
        with np.errstate(all="ignore"):  # a wider float may become infinite: not a word of it
            parts.append(np.array(chunk[:, 0], dtype=np.float64))
        if units is not None:
            owners.append(np.array(units))
    values = np.concatenate([np.empty(0), *parts])
    valid = np.isfinite(values)
    values = np.clip(values, low, high)
    if sizes is None:
        return values, valid
    owner = np.concatenate([np.empty(0, dtype=np.intp), *owners])
    return _grouped(values[valid], owner[valid], len(sizes))


def _grouped(
    values: NDArray[np.float64], groups: NDArray[np.intp], size: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the mean of each of so many groups, and which hold any value.

    Values of a group are added from the smallest to the largest: a mean is a function of the values
    of its group, whatever their order in the table and whatever other groups hold.
    """
    sums, counts = np.zeros(size), np.zeros(size)
    order = np.lexsort((values, groups))
    values, groups = values[order], groups[order]
    with np.errstate(all="ignore"):  # a warning would tell of the values
        np.add.at(sums, groups, values)
    np.add.at(counts, groups, 1.0)
    return sums / np.maximum(counts, 1.0), counts > 0
