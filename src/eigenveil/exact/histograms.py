r"""Histograms of bounded sensitivity: norms of rows, levels of categories, scores on a plane.

Rows are counted by the exponent j of their norm, R 2^(-(j+1)/2) <= |x| < R 2^(-j/2); one row
changes one count by one (add/remove) or two of them (replace-one). A person with several rows is
counted once, at the mean of their exponents: the geometric mean of their norms. Any query that
adds up counts with public weights in [0, 1] then moves by at most 1, however many such queries are
asked.

A row brings one count to the level it names, or none where its cell is empty. A person with several
rows is counted once, at the level that most of their rows name (of several such, the first in the
order of the alphabet): so all rows of a person move the counts no further than one row does.

A row about the centre has two coordinates, :math:`s_i = \langle x, v_i \rangle`, and falls into one
of b x b cells of the frame :math:`|s_i| < r_i`, or outside. It is in one cell, whatever the row is:
one row moves one count by one (add/remove) or two of them (replace-one). The rows of a person
share one count. Where rows are of several kinds, each kind has cells of its own.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded, Norm
from eigenveil.exact.clip import BLOCK_BYTES, NO_EXPONENT, Clip
from eigenveil.exact.gram import limit_rows, require_rows
from eigenveil.numerics.integers import FixedPoint, fitted, widened
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.rows.base import RowSource, count_units
from eigenveil.rows.file_guard import changed

_WEIGHT_BITS = 30
_NO_SIGN, _EXPONENT_BIAS = np.int64((1 << 63) - 1), 1023  # of float64
BRACKETS = range(-166, 167)  # e for magnitudes from 2^e up to 2^(e+1), as far as 1e50


def histogram_sensitivities(adjacency: Adjacency) -> dict[Norm, float]:
    """Return those of counts of which one row, or person, is in one at most.

    A replaced one leaves a count and joins another.
    """
    if adjacency.count_is_public:
        return {"l1": 2.0, "l2": math.sqrt(2), "linf": 1.0}  # the float above sqrt(2)
    return {"l1": 1.0, "l2": 1.0, "linf": 1.0}


@dataclass(frozen=True, slots=True)
class ExponentCounts:
    """Rows, or persons, by the exponent of their norm."""

    clip: Clip

    def of(self, source: RowSource) -> tuple[NDArray[np.int64], ...]:
        """Return the counts over all rows of ``source``. Private."""
        counts = np.zeros(NO_EXPONENT + 1, dtype=np.int64)
        for exponents in _exponents(source, self.clip):
            counts += np.bincount(exponents, minlength=NO_EXPONENT + 1)
        return (counts,)


def norm_counts(source: RowSource, clip: Clip, adjacency: Adjacency) -> Bounded:
    """Return rows by the exponent of their norm; the last count holds rows at the centre."""
    (counts,) = source.summed(ExponentCounts(clip))
    rows = limit_rows(int(counts.sum()), source.n_columns)
    if adjacency.count_is_public:
        require_rows(rows)
    return Bounded.over(
        source,
        value=FixedPoint(counts, 0),
        sensitivities=histogram_sensitivities(adjacency),
        adjacency=adjacency,
        unit=clip.row_norm,
        count=rows if adjacency.count_is_public else None,
        exact=clip.transform is None,
    )


@dataclass(frozen=True, slots=True)
class DistanceCounts:
    """Rows by the exponent of their norm in units of 2^-20; a person's rows share one count."""

    BITS: ClassVar[int] = 20  # of one person's count, and finer than noise that matters
    clip: Clip
    per_octave: int = 2

    def of(self, source: RowSource) -> tuple[NDArray[np.int64], ...]:
        """Return the counts over all rows of ``source``. Private."""
        counts = np.zeros(NO_EXPONENT // 2 * self.per_octave + 1, dtype=np.int64)
        sizes = source.units.sizes
        for chunk, units in source.unit_tables():
            exponents = self.clip.norm_exponents(chunk, self.per_octave)
            if sizes is None:
                counts += np.bincount(exponents, minlength=counts.size) << self.BITS
            else:
                assert units is not None  # of a source of units
                np.add.at(counts, exponents, (1 << self.BITS) // sizes[units])
        return (counts,)


def distance_counts(
    source: RowSource, clip: Clip, adjacency: Adjacency, per_octave: int = 2
) -> Bounded:
    """Return rows by the exponent of their norm, as `norm_counts`; a person's rows share one count.

    ``per_octave`` brackets make up a factor of two.

    In units of 2^-20, so that noise far below one row is not rounded to whole rows. What a person
    brings has an l1 norm, and so an l2 norm, of at most 1.
    """
    (counts,) = source.summed(DistanceCounts(clip, per_octave))
    public = adjacency.count_is_public
    limit_rows(int(counts.sum()) >> DistanceCounts.BITS, source.n_columns)  # before any charge
    rows = count_units(source) if public else None
    if rows is not None:
        require_rows(limit_rows(rows, source.n_columns))
    return Bounded.over(
        source,
        value=FixedPoint(counts, -DistanceCounts.BITS),
        sensitivities=histogram_sensitivities(adjacency),
        adjacency=adjacency,
        unit=clip.row_norm,
        count=rows,
        exact=clip.transform is None,
    )


def _exponents(source: RowSource, clip: Clip) -> Iterator[NDArray[np.int64]]:
    """Yield exponents of rows as they come, or of all persons at the end.

    A person most of whose rows lie at the centre does too; otherwise those rows are left out.
    Integers throughout: the order of rows does not matter.
    """
    sizes = source.units.sizes
    if sizes is None:
        for chunk, _ in source.unit_tables():
            yield clip.norm_exponents(chunk)
        return
    away, exponents = np.zeros_like(sizes), np.zeros_like(sizes)
    for chunk, units in source.unit_tables():
        assert units is not None  # of a source of units
        found = clip.norm_exponents(chunk)
        seen = found < NO_EXPONENT
        np.add.at(away, units[seen], 1)
        np.add.at(exponents, units[seen], found[seen])
    yield np.where(2 * away >= sizes, _rounded_mean(exponents, away), NO_EXPONENT)


def _rounded_mean(sums: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the integer nearest to ``sums / counts``, exactly; zero where nothing was counted."""
    return np.asarray((2 * sums + counts) // np.maximum(2 * counts, 1))


@dataclass(frozen=True, slots=True)
class MagnitudeCounts:
    """Rows by the bracket of their magnitude, for each column, and the number of units."""

    clip: Clip

    def of(self, source: RowSource) -> tuple[NDArray[np.int64], ...]:
        """Return both over all rows of ``source``. Private."""
        d = source.n_columns
        counts = np.zeros((d, len(BRACKETS) + 1), dtype=np.int64)
        columns = np.arange(d) * counts.shape[1]
        rows = 0
        for brackets in _entry_brackets(source, self.clip):
            brackets += columns
            counts += np.bincount(brackets.ravel(), minlength=counts.size).reshape(counts.shape)
            rows = limit_rows(rows + len(brackets), d)
        return counts[:, 1:].ravel(), np.array([rows])


def column_counts(source: RowSource, clip: Clip, adjacency: Adjacency) -> Bounded:
    """Return for each column the rows by the octave of its magnitude, without zeros.

    A row brings at most one count to each of d columns: it moves the table of counts by at most
    sqrt(d) in l2 norm and d in l1 norm, a replaced row by sqrt(2 d) and 2 d. A person is counted
    once in a column: at the mean exponent of his entries that are not zero, lower by half an octave
    for every halving of their share, since zeros make the root mean square smaller.
    """
    d = source.n_columns
    counts, units = source.summed(MagnitudeCounts(clip))
    rows = limit_rows(int(units[0]), d)
    public = adjacency.count_is_public
    if public:
        require_rows(rows)
    most = math.nextafter(math.sqrt(2 * d if public else d), math.inf)
    return Bounded.over(
        source,
        value=FixedPoint(counts.reshape(d, -1), 0),
        sensitivities={"l2": most, "l1": 2.0 * d if public else float(d)},
        adjacency=adjacency,
        unit=1.0,
        count=rows if public else None,
        exact=clip.transform is None,
    )


def _entry_brackets(source: RowSource, clip: Clip) -> Iterator[NDArray[np.intp]]:
    """Yield the bracket of every entry, counted from 1, and 0 below all; of persons at the end."""
    sizes = source.units.sizes
    shape = (0 if sizes is None else len(sizes), source.n_columns)
    sums, entries = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    size = max(1, BLOCK_BYTES // (8 * max(1, shape[1])))
    for chunk, units in source.unit_tables():
        for start in range(0, len(chunk), size):
            part = slice(start, start + size)
            brackets = _brackets(clip.about_centre(chunk[part]))
            if units is None:
                yield brackets
            else:
                np.add.at(entries, units[part], brackets > 0)
                np.add.at(sums, units[part], brackets)
    if sizes is not None:
        # The nearest quarter octave, in integers: 7/5 is about the root of 2.
        _, bits = np.frexp(7 * sizes[:, None] ** 2 // (5 * np.maximum(entries, 1) ** 2))
        quarters = bits.astype(np.int64) - 1
        lowered = _rounded_mean(4 * sums - quarters * entries, 4 * entries)
        yield np.where(entries > 0, np.maximum(lowered, 1), 0)  # never in another column


def _brackets(entries: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the bracket of each magnitude, counted from 1, from the exponents of the floats."""
    exponents = entries.view(np.int64) & _NO_SIGN
    exponents >>= 52
    exponents -= _EXPONENT_BIAS + BRACKETS[0] - 1
    np.clip(exponents, 0, len(BRACKETS), out=exponents)  # infinite ones belong to the last
    return exponents.astype(np.intp, copy=False)


def rows_beyond(counts: Bounded) -> Bounded:
    """Return the numbers of rows of norm R 2^(-j/2) or more; each moves by at most 1."""
    beyond = np.cumsum(counts.value.units[:-1])
    return replace(counts, value=FixedPoint(beyond, 0), sensitivities={"linf": 1.0})


def weighted_counts(counts: Bounded, weights: NDArray[np.float64]) -> Bounded:
    """``weights @ counts`` for public weights in [0, 1], rounded down to 2**-30."""
    if weights.shape[1] != counts.value.units.size or not ((weights >= 0) & (weights <= 1)).all():
        raise ValueError("weights must lie between 0 and 1, one for each count")
    numbers = widened(np.array([counts.value.units.sum()]), _WEIGHT_BITS)  # the largest product
    units = np.floor(weights * (1 << _WEIGHT_BITS)).astype(np.int64).astype(numbers.dtype)
    weighted = fitted(units @ counts.value.units)
    return replace(counts, value=FixedPoint(weighted, -_WEIGHT_BITS), sensitivities={"linf": 1.0})


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
    return LevelCounts.over(
        source,
        value=FixedPoint(np.array([counts[level] for level in levels], dtype=np.int64), 0),
        sensitivities=histogram_sensitivities(adjacency),
        adjacency=adjacency,
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
    assert source.table is not None  # which has the column
    for levels, units in source.table.levels_of(column):
        rows += len(levels)
        if units is None:
            counts.update(level for level in levels if level is not None)
            continue
        for unit, level in zip(units.tolist(), levels, strict=True):
            named = persons.setdefault(unit, Counter())
            if level is not None:
                named[level] += 1
    if source.units.protects.owns_many:
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
        sizes = source.units.sizes
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
    assert source.table is not None  # which has the column
    for named, _ in source.table.levels_of(column):
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
    rows = limit_rows(count_units(source), source.n_columns) if public else None
    if rows is not None:
        require_rows(rows)
    return Bounded.over(
        source,
        value=FixedPoint(counts, -ScoreCounts.BITS),
        sensitivities=histogram_sensitivities(adjacency),
        adjacency=adjacency,
        unit=1.0,
        count=rows,
        exact=clip.transform is None,
    )
