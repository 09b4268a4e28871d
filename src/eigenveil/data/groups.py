r"""Rows of one person, protected together.

A person with m rows :math:`x_1, \dots, x_m` contributes their mean: :math:`\frac1m\sum x_i` to a
sum of rows, :math:`\frac1m\sum x_i x_i'` to a second moment, and one to every count of persons.
Each is a convex combination of what single rows contribute, so that all rows of a person move a
statistic no further than one row of a person who has one. Proof: docs/proofs/groups.md.

Persons are numbered in the order in which they first appear; no statistic depends on it. How many
rows a person has is as private as the rows.
"""

import unicodedata
from collections.abc import Callable, Hashable, Iterable, Iterator
from datetime import date
from functools import cached_property
from numbers import Real
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.source import (
    ArraySource,
    NpySource,
    PairedSource,
    ParquetSource,
    RowSource,
    ScaledSource,
    UnitSource,
    half_differences,
    protected,
    tables,
    unit_sizes,
    unit_tables,
)
from eigenveil.data.stored import changed
from eigenveil.exceptions import (
    InvalidDataError,
    InvalidParameterError,
    UnsupportedNotionError,
)
from eigenveil.privacy.adjacency import GROUP, Adjacency, Unit

__all__ = ["GroupedSource", "LabelledSource", "PairedUnits", "paired"]

_CHUNK_BYTES = 1 << 24
# As programs write it.
_MISSING = frozenset(
    [
        "nan",
        "-nan",
        "na",
        "n/a",
        "#n/a",
        "#na",
        "none",
        "null",
        "nil",
        "<na>",
        "nat",
        ".",
        "?",
        "-1.#ind",
        "1.#ind",
        "-1.#qnan",
        "1.#qnan",
    ]
) | {"", "#n/a n/a"}


class GroupedSource(UnitSource):
    """Rows of any source, and an id for each in memory.

    Parameters
    ----------
    source : RowSource
        The rows.
    ids : array-like
        One for each row, in their order: numbers or text. Rows of one id are protected together.

    """

    unit = GROUP

    def __init__(self, source: RowSource, ids: Any) -> None:
        if isinstance(source, UnitSource):
            raise InvalidParameterError(
                "these rows say already whose they are: leave one of groups and unit out"
            )
        self.rows = source
        self._units = _numbered(ids)
        counted = (ArraySource, NpySource, ParquetSource)
        if isinstance(source, counted) and source.n_rows != len(self._units):
            raise _wrong_length()

    @cached_property
    def unit_sizes(self) -> NDArray[np.int64]:
        """Number of rows of each group. Private."""
        return np.bincount(self._units).astype(np.int64)

    def unit_chunks(self) -> Iterator[tuple[Any, NDArray[np.intp]]]:
        """Chunks of rows, and for each row the number of its group."""
        start = 0
        for chunk in tables(self.rows):
            units = self._units[start : start + len(chunk)]
            start += len(chunk)
            if start > len(self._units):
                raise _wrong_length()
            yield chunk, units
        if start < len(self._units):
            raise _wrong_length()


class LabelledRows(RowSource, Protocol):
    """A file that says in one of its columns whose each row is."""

    def labels(self) -> Iterator[list[Hashable]]:
        """The labels alone."""
        ...

    def labelled_chunks(self) -> Iterator[tuple[Any, list[Hashable]]]:
        """Rows and their labels."""
        ...


class _Numbers(dict[Hashable, int]):
    """Numbers of persons in the order in which they first appear, by every spelling of an id."""

    def __init__(self) -> None:
        super().__init__()
        self._persons: dict[Hashable, int] = {}

    def __missing__(self, label: Hashable) -> int:
        number = self._persons.setdefault(_label(label), len(self._persons))
        self[label] = number
        return number

    def of(self, labels: Iterable[Hashable]) -> NDArray[np.intp]:
        """One for each label."""
        return np.array([self[label] for label in labels], dtype=np.intp)


class LabelledSource(UnitSource):
    """Rows of a file, one column of which says whose they are.

    The labels are read once more than the rows, and only persons are held in memory.

    Parameters
    ----------
    source : CSVSource or ParquetSource
        The rows, without the column.
    column : str
        Its name.

    """

    def __init__(self, source: LabelledRows, column: str) -> None:
        self.rows = source
        self.unit = Unit("person", column)
        self._source = source
        self._numbers = _Numbers()

    @cached_property
    def unit_sizes(self) -> NDArray[np.int64]:
        """Number of rows of each person. Private."""
        sizes = np.zeros(0, dtype=np.int64)
        for labels in self._source.labels():
            more = np.bincount(self._numbers.of(labels), minlength=len(sizes))
            more[: len(sizes)] += sizes
            sizes = more.astype(np.int64)
        return sizes

    def unit_chunks(self) -> Iterator[tuple[Any, NDArray[np.intp]]]:
        """Chunks of rows, and for each row the number of its person.

        Sums rest on the sizes: more rows than were counted are refused, and so are fewer.
        """
        left = self.unit_sizes.copy()
        for chunk, labels in self._source.labelled_chunks():
            units = self._numbers.of(labels)
            known = units < len(left)
            np.subtract.at(left, units[known], 1)
            if not known.all() or (left < 0).any():
                raise changed()
            yield chunk, units
        if left.any():
            raise changed()


class PairedUnits(UnitSource):
    """Half differences of rows of disjoint random pairs of persons; an odd one is left out.

    A pair of persons with m and k rows is a unit of max(m, k) differences, in which the rows of
    the one with fewer come again and again. ``order`` decides who is paired with whom, as in
    `PairedSource`; a replaced person replaces one pair. The table is held in memory.
    """

    def __init__(
        self, source: RowSource, adjacency: Adjacency, order: Callable[[int], NDArray[np.intp]]
    ) -> None:
        if not adjacency.count_is_public:
            raise UnsupportedNotionError(
                "pairs of persons need a public number of persons: choose "
                "adjacency='replace-one', or another centring"
            )
        scaled = source if isinstance(source, ScaledSource) else None
        base = source if scaled is None else scaled.base
        sizes = unit_sizes(base)
        if sizes is None:
            raise InvalidParameterError("rows that are units of their own need PairedSource")
        # Dividing differences is dividing rows, without a copy of the table.
        self._scaled = None if scaled is None else scaled.of_rows
        self.unit = protected(base)
        chunks, owners = zip(*_kept(base), strict=True)
        units = np.concatenate(owners)
        held = base.rows if isinstance(base, UnitSource) else None
        self._table = held.array if isinstance(held, ArraySource) else np.concatenate(chunks)
        self.rows = source
        self.unpaired = len(sizes)
        if self.unpaired < 2:
            raise InvalidDataError("pairs need two persons at least, not one: give more of them")
        self._owned = np.argsort(units, kind="stable")  # rows, person by person in their order
        starts = np.cumsum(sizes) - sizes
        half = self.unpaired // 2
        pairs = order(self.unpaired)[: 2 * half].reshape(2, half)
        pairs = pairs[:, np.argsort(pairs[0])]
        self._starts, self._sizes = starts[pairs], sizes[pairs]
        self._lengths = np.maximum(*self._sizes)

    @property
    def rereadable(self) -> bool:
        """The table is held."""
        return True

    @property
    def unit_sizes(self) -> NDArray[np.int64]:
        """Number of differences of each pair. Private."""
        return np.asarray(self._lengths)

    def unit_chunks(self) -> Iterator[tuple[NDArray[np.float64], NDArray[np.intp]]]:
        """Differences in chunks, halved so that none overflows, and the pair of each."""
        ends = np.cumsum(self._lengths)
        size = max(1, _CHUNK_BYTES // (8 * self._table.shape[1]))
        for start in range(0, int(ends[-1]), size):
            places = np.arange(start, min(start + size, int(ends[-1])))
            pairs = np.searchsorted(ends, places, side="right")
            within = places - (ends - self._lengths)[pairs]
            first, second = self._owned[self._starts[:, pairs] + within % self._sizes[:, pairs]]
            difference = half_differences(self._table[first], self._table[second])
            yield difference if self._scaled is None else self._scaled(difference), pairs


def paired(
    source: RowSource, adjacency: Adjacency, order: Callable[[int], NDArray[np.intp]]
) -> PairedSource | PairedUnits:
    """Differences of random pairs of rows, or of persons where they may own several."""
    kind = PairedUnits if protected(source).owns_many else PairedSource
    return kind(source, adjacency, order)


def _kept(base: RowSource) -> Iterator[tuple[NDArray[Any], NDArray[np.intp]]]:
    """Chunks to be held; those of an array are held already."""
    yield np.empty((0, base.n_columns)), np.empty(0, dtype=np.intp)
    for chunk, units in unit_tables(base):
        assert units is not None  # of a source of units
        yield chunk, units


def _numbered(ids: Any) -> NDArray[np.intp]:
    """For each row the number of its id, in the order in which ids first appear."""
    if np.ma.isMaskedArray(ids) and np.ma.getmaskarray(ids).any():
        raise _missing()
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        raise InvalidParameterError("groups must hold one id for each row")
    # numpy would turn a list of text and numbers, or of missing values, into text.
    array = np.asarray(ids) if hasattr(ids, "__array__") else np.array([*ids, None], object)[:-1]
    if array.ndim != 1:
        raise InvalidParameterError("groups must hold one id for each row: pass a single column")
    if array.dtype.kind in "iufmM":
        if array.dtype.kind in "fmM" and (array != array).any():
            raise _missing()
        _, first, inverse = np.unique(array, return_index=True, return_inverse=True)
        places = np.empty(len(first), dtype=np.intp)
        places[np.argsort(first)] = np.arange(len(first))
        return np.asarray(places[inverse])
    labels = array.tolist()
    try:
        units = _Numbers().of(labels)
    except TypeError:  # an id that is no value, such as a list
        raise _missing() from None
    if len(set(map(_kind, labels))) > 1:
        # Read in parts, a column may hold the same id as 7 here and as "7" there.
        raise InvalidDataError(
            "ids mix text and numbers, so that one person could have two: store them as one type"
        )
    return units


def _kind(label: Any) -> type:
    """What a label is among; parts of a composite one could be missing, or of two types."""
    for kind in (str, bytes, Real, date):
        if isinstance(label, kind):
            return kind
    raise _missing()


def _label(label: Any) -> Hashable:
    """An id that tells persons apart: space around text does not, and a missing one is none."""
    try:
        if isinstance(label, (str, bytes)):
            text = label.decode("latin-1") if isinstance(label, bytes) else label
            text = unicodedata.normalize("NFC", text)
            label = "".join(c for c in text if unicodedata.category(c) != "Cf").strip()
            known = label.lower() not in _MISSING
        else:
            known = label is not None and bool(label == label)
        hash(label)
    except (TypeError, ValueError):
        known = False
    if not known:
        raise _missing()
    result: Hashable = label
    return result


def _missing() -> InvalidDataError:
    return InvalidDataError(
        "a row has no id that says whose it is: fill it in or drop the row; ids are text or numbers"
    )


def _wrong_length() -> InvalidDataError:
    return InvalidDataError("groups must hold one id for each row, in their order")
