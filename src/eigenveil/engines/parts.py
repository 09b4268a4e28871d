r"""Rows in parts that lie elsewhere; a sum over them is worked out where they lie.

.. math:: \sum_i f(x_i) = \sum_{p} \sum_{i \in p} f(x_i)

in integers, so the result has the same bits under any partitioning and in any order of additions.
Every part brings its own number and the fingerprint of its rows beside its sum. A part that were
missing, or counted twice after a retry, would show, and so would one that changed between two
passes or has other rows than is said of it: all are refused, as noise is calibrated to one table.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.gram import sums_are_exact
from eigenveil.exceptions import InvalidDataError
from eigenveil.numerics import integers
from eigenveil.numerics.integers import Integers
from eigenveil.privacy.adjacency import GROUP, Unit
from eigenveil.rows.base import RowSource, RowSum, Schema, Units, fingerprint
from eigenveil.rows.file_guard import Fingerprint, changed
from eigenveil.rows.memory import ArraySource
from eigenveil.rows.open import open_rows
from eigenveil.rows.units import GroupedSource, UnitSource

Sums = tuple[Integers, ...]


class SumsOfParts(NamedTuple):
    """Sums over some parts, and for each of them its number and its fingerprint."""

    sums: Sums
    seen: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PartSum:
    """What one part adds to a sum."""

    what: RowSum
    columns: int

    def of(self, number: int, part: Any) -> SumsOfParts:
        """Return the sum over part ``number``. Private."""
        source = opened_part(part)
        if source.n_columns != self.columns:
            raise InvalidDataError("every part must have the same number of columns")
        if not sums_are_exact():  # as the caller finds out for his own machine alone
            raise InvalidDataError(
                "a worker's BLAS does not add up integers exactly: install another numpy there"
            )
        return SumsOfParts(self.what.of(source), np.array([[number, *fingerprint(source)]]))


@dataclass(frozen=True, slots=True)
class _Marked:
    """What is fetched of a part, and its fingerprint."""

    of_part: Callable[[RowSource, Any], Any]

    def __call__(self, part: Any, given: Any) -> tuple[Any, NDArray[np.int64]]:
        source = opened_part(part)
        return self.of_part(source, given), fingerprint(source)


def opened_part(part: Any) -> RowSource:
    """Return a part as a source: a table in memory, rows with their ids, or a source as it is."""
    if isinstance(part, tuple):
        rows, ids = part
        return GroupedSource(ArraySource(rows), ids)
    return open_rows(part)


def add(*parts: SumsOfParts) -> SumsOfParts:
    """Return the sum of sums, entry by entry."""
    sums = zip(*(part.sums for part in parts), strict=True)
    seen = np.concatenate([part.seen for part in parts])
    return SumsOfParts(tuple(integers.add(*entries) for entries in sums), seen)


class PartedSource(RowSource):
    """Rows in parts. An engine says how something is worked out for each, and added up.

    Attributes
    ----------
    n_parts : int
        Number of parts.

    """

    n_parts: int

    def __init__(
        self,
        n_columns: int,
        feature_names: tuple[str, ...] | None = None,
        lengths: Sequence[int] | None = None,
    ) -> None:
        self.n_columns = n_columns
        self.schema = Schema(feature_names=feature_names)
        self._lengths = None if lengths is None else np.array(lengths, dtype=np.int64)
        self._first: NDArray[np.int64] | None = None  # fingerprints of all parts in the first pass

    @abstractmethod
    def added(self, what: PartSum) -> SumsOfParts:
        """Return ``what`` of every part, added up. Private."""

    @abstractmethod
    def part(self, number: int) -> Any:
        """Fetch one part. Private."""

    @abstractmethod
    def fetched(self, of_part: Callable[[Any, Any], Any], each: Sequence[Any]) -> list[Any]:
        """Return ``of_part(part, argument)`` of every part, with an argument for each. Private.

        All of them in one computation: of rows that come in another order each time, parts that
        were computed one by one could hold some twice.
        """

    @abstractmethod
    def by_person(self, ids: Any, unit: Unit) -> "PartedUnits":
        """Return the rows shuffled so that all of one person lie in one part."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None before the first pass, unless it is said of the parts."""
        return None if self._lengths is None else int(self._lengths.sum())

    def count_rows(self) -> int:
        """Return the number of rows, counted where they lie."""
        return int(self.lengths.sum())

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of rows of each part. Private, where the number of rows is."""
        if self._lengths is None:
            self.summed(_Nothing())
        assert self._lengths is not None  # noted by the first pass
        return self._lengths

    def summed(self, what: RowSum) -> Sums:
        """Return a sum over all rows, in which every part is counted once. Private."""
        sums, seen = self.added(PartSum(what, self.n_columns))
        seen = seen[np.argsort(seen[:, 0])]
        numbers, marks = seen[:, 0], seen[:, 1:]
        if not np.array_equal(numbers, np.arange(self.n_parts)):
            raise InvalidDataError("a part of the table was lost or counted twice: run it again")
        self._compare(marks)
        return sums

    def of_every_part(
        self, of_part: Callable[[RowSource, Any], Any], each: Sequence[Any]
    ) -> list[Any]:
        """Return ``of_part(source, argument)`` of every part, whose rows are compared. Private."""
        found = self.fetched(_Marked(of_part), each)
        self._compare(np.array([mark for _, mark in found]))
        return [result for result, _ in found]

    def _compare(self, marks: NDArray[np.int64]) -> None:
        """Refuse a pass that found other rows in a part than the first one, in any order."""
        rows = marks[:, 0]
        if self._first is None:
            if self._lengths is not None and not np.array_equal(rows, self._lengths):
                raise InvalidDataError(
                    "a part has other rows than is said of it: call compute_chunk_sizes() before"
                )
            self._first, self._lengths = marks, rows
        if not np.array_equal(marks[:, :-1], self._first[:, :-1]):
            raise changed()

    def one_by_one(self) -> Iterator[tuple[int, NDArray[Any], NDArray[np.intp] | None]]:
        """Fetch the parts, and yield their tables with their numbers and whose the rows are.

        A pass in one computation goes before, and what is fetched must be the same.
        """
        if self._first is None:
            self.summed(_Nothing())
        assert self._first is not None  # noted by the first pass
        for number, first in enumerate(self._first):
            found = Fingerprint()
            for table, owners in opened_part(self.part(number)).unit_tables():
                found.add(table, owners)
                yield number, table, owners
            if not np.array_equal(found.numbers[:-1], first[:-1]):
                raise changed()

    def chunks(self) -> Iterator[Any]:
        """Fetch the parts, one at a time."""
        return (table for _, table, _ in self.one_by_one())

    def rows_at(self, places: NDArray[np.intp]) -> NDArray[Any]:
        """Fetch the rows at increasing places, each from where it lies."""
        ends = np.cumsum(self.lengths)
        cuts = np.searchsorted(places, ends)
        wanted = np.split(places, cuts[:-1])
        starts = ends - self.lengths
        each = [some - start for some, start in zip(wanted, starts, strict=True)]
        return np.concatenate(
            [np.empty((0, self.n_columns)), *self.of_every_part(rows_of_part, each)]
        )

    def grouped_by(self, ids: Any) -> "PartedUnits":
        """Return the rows with an id for each, shuffled by person."""
        return self.by_person(ids, GROUP)


def rows_of_part(part: RowSource, places: NDArray[np.intp]) -> NDArray[Any]:
    """Return the rows of a part at increasing places."""
    return part.rows_at(places)


@dataclass(frozen=True, slots=True)
class _Nothing:
    """A sum of nothing, to count rows by."""

    def of(self, source: RowSource) -> Sums:
        """Return no sums."""
        return ()


class UnitsOfParts(Units):
    """Persons of rows in parts, all rows of a person in one of them."""

    def __init__(self, parts: PartedSource, protects: Unit) -> None:
        super().__init__(protects)
        self._parts = parts

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of rows of each person, part by part. Private."""
        return np.concatenate([np.empty(0, dtype=np.int64), *self.of_each_part])

    @cached_property
    def of_each_part(self) -> list[NDArray[np.int64]]:
        """Number of rows of each person of every part. Private."""
        return self._parts.of_every_part(sizes_of_part, [None] * self._parts.n_parts)


class PartedUnits(UnitSource):
    """Rows in parts, all rows of a person in one of them.

    Parameters
    ----------
    rows : PartedSource
        The rows as they were, for what is done to single rows.
    shuffled : PartedSource
        Rows with their ids, by person.
    unit : Unit
        What an id stands for.

    """

    units: UnitsOfParts

    def __init__(self, rows: PartedSource, shuffled: PartedSource, unit: Unit) -> None:
        super().__init__(rows, UnitsOfParts(shuffled, unit))
        self._shuffled = shuffled

    def summed(self, what: RowSum) -> Sums:
        """Return a sum over all persons, each worked out where all rows of one lie. Private."""
        return self._shuffled.summed(what)

    def unit_chunks(self) -> Iterator[tuple[Any, NDArray[np.intp]]]:
        """Fetch the parts one at a time, with the number of the person of each row."""
        persons = [len(sizes) for sizes in self.units.of_each_part]
        before = np.cumsum(persons) - persons
        for number, chunk, units in self._shuffled.one_by_one():
            assert units is not None  # of a source of units
            yield chunk, units + before[number]


def sizes_of_part(part: RowSource, _: None) -> NDArray[np.int64] | None:
    """Return the number of rows of each person of a part."""
    return part.units.sizes
