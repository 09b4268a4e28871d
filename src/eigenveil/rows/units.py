r"""Rows of one person, protected together.

A person with m rows :math:`x_1, \dots, x_m` contributes their mean: :math:`\frac1m\sum x_i` to a
sum of rows, :math:`\frac1m\sum x_i x_i'` to a second moment, and one to every count of persons.
Each is a convex combination of what single rows contribute, so that all rows of a person move a
statistic no further than one row of a person who has one. Proof: docs/proofs/groups.md.

Persons are numbered in the order in which they first appear; no statistic depends on it. How many
rows a person has is as private as the rows.
"""

from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.messages import SINGLE_ROWS
from eigenveil.privacy.adjacency import GROUP, Unit
from eigenveil.rows.base import RowSource, Table, Units, decided, tables
from eigenveil.rows.file_guard import Fingerprint, changed
from eigenveil.rows.ids import PersonNumbers, id_array, numbered


class UnitSource(RowSource):
    """Rows of which several may belong to one protected unit: a person, whose id they share.

    What sums such rows reads them with `unit_tables` and weighs them; reading them as rows that
    are units of their own, by `chunks`, is refused.

    Parameters
    ----------
    rows : RowSource
        The rows alone, for what is done to single rows: scores.
    units : Units
        Which of them belong together.

    """

    def __init__(self, rows: RowSource, units: Units) -> None:
        self.rows = rows
        self.units = units
        self.n_columns = rows.n_columns
        self.schema = rows.schema
        self.rereadable = rows.rereadable

    @property
    def plain(self) -> RowSource:
        """The rows alone."""
        return self.rows

    def keep_order(self) -> None:
        """Refuse readings in which the rows come in another order."""
        self.rows.keep_order()

    @abstractmethod
    def unit_chunks(self) -> Iterator[tuple[Any, NDArray[np.intp]]]:
        """Yield chunks of rows, and for each row the number of its unit."""

    def unit_tables(self) -> Iterator[tuple[NDArray[Any], NDArray[np.intp]]]:
        """Yield checked chunks, and for each row the number of its unit."""
        for chunk, units in self.unit_chunks():
            yield self._checked(chunk), units

    def chunks(self) -> Iterator[Any]:
        """Refuse to read rows one by one: a person with many would count as many."""
        raise InvalidParameterError(
            "rows of one person are protected together here and cannot be read one by one: ",
            SINGLE_ROWS,
            ", or choose a mechanism that weighs them",
        )


class Groups(Units):
    """Groups of rows, by an id for each in memory.

    Attributes
    ----------
    numbers : array
        Number of the group of each row. Private.

    """

    def __init__(self, ids: Any, protects: Unit) -> None:
        self._ids = id_array(ids)
        self.numbers = numbered(self._ids)
        super().__init__(protects, np.bincount(self.numbers).astype(np.int64))

    def ids(self) -> list[Hashable]:
        """Return the id of each group. Private."""
        _, first = np.unique(self.numbers, return_index=True)
        return list(self._ids[first])

    def spellings(self) -> list[set[Hashable]]:
        """Return all spellings of the id of each group. Private."""
        found: list[set[Hashable]] = [set() for _ in range(self.numbers.max(initial=-1) + 1)]
        for unit, label in zip(self.numbers.tolist(), self._ids.tolist(), strict=True):
            found[unit].add(label)
        return found


class GroupedSource(UnitSource):
    """Rows of any source, and an id for each in memory.

    Parameters
    ----------
    source : RowSource
        The rows.
    ids : array-like
        One for each row, in their order: numbers or text. Rows of one id are protected together.
    unit : Unit
        What an id stands for.

    """

    units: Groups

    def __init__(self, source: RowSource, ids: Any, unit: Unit = GROUP) -> None:
        if source.units.protects.owns_many:
            raise InvalidParameterError(
                "these rows say already whose they are: leave one of groups and unit out"
            )
        super().__init__(source, Groups(ids, unit))
        if source.n_rows not in (None, len(self.units.numbers)):
            raise _wrong_length()

    def unit_chunks(self) -> Iterator[tuple[Any, NDArray[np.intp]]]:
        """Yield chunks of rows, and for each row the number of its group."""
        self.rows.keep_order()
        numbers, start = self.units.numbers, 0
        for chunk in tables(self.rows):
            units = numbers[start : start + len(chunk)]
            start += len(chunk)
            if start > len(numbers):
                raise _wrong_length()
            yield chunk, units
        if start < len(numbers):
            raise _wrong_length()

    @property
    def table(self) -> "Table | None":
        """The table of the rows with its groups; None where the rows have none."""
        return None if self.rows.table is None else self

    def refuse_text(self) -> None:
        """Refuse columns of text."""
        if self.rows.table is not None:
            self.rows.table.refuse_text()

    def levels_of(self, column: str) -> Iterator[tuple[list[str | None], NDArray[np.intp]]]:
        """Yield the level of each row in a column, and its group."""
        assert self.rows.table is not None  # which has the column
        numbers, start = self.units.numbers, 0
        for levels, _ in self.rows.table.levels_of(column):
            yield levels, numbers[start : start + len(levels)]
            start += len(levels)
        if start != len(numbers):
            raise _wrong_length()

    def decided(self, levels: Mapping[str, Sequence[str]]) -> "GroupedSource":
        """Return the same groups, with these levels for undecided columns."""
        other = copy(self)
        other.rows = decided(self.rows, levels)
        other.n_columns, other.schema = other.rows.n_columns, other.rows.schema
        return other

    def whole_units(self) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """Return all rows, without a copy of an array, and for each the number of its group."""
        self.rows.keep_order()
        rows = self.rows.whole()
        if len(rows) != len(self.units.numbers):
            raise _wrong_length()
        return rows, self.units.numbers


def grouped(source: RowSource, ids: Any) -> RowSource:
    """Return rows with an id for each: those of one id are protected together."""
    known = source.grouped_by(ids)
    return GroupedSource(source, ids) if known is None else known


class LabelledRows(RowSource):
    """A file that says in one of its columns whose each row is."""

    @abstractmethod
    def labels(self) -> Iterator[list[Hashable]]:
        """Yield the labels alone."""

    @abstractmethod
    def labelled_chunks(self) -> Iterator[tuple[Any, list[Hashable]]]:
        """Yield rows and their labels."""

    @abstractmethod
    def labelled_levels(self, column: str) -> Iterator[tuple[list[str | None], list[Hashable]]]:
        """Yield the level of each row in a column, and its label; no labels without a unit."""

    @property
    def table(self) -> "Table":
        """The file."""
        return self

    @abstractmethod
    def decided(self, levels: Mapping[str, Sequence[str]]) -> "LabelledRows":
        """Return the same rows with these levels for undecided columns."""

    def refuse_text(self) -> None:
        """Refuse columns of text by their names."""

    def levels_of(self, column: str) -> Iterator[tuple[list[str | None], None]]:
        """Yield the level of each row in a column; each row is a unit of its own."""
        return ((levels, None) for levels, _ in self.labelled_levels(column))


class Labels(Units):
    """Persons by the labels in a column of a file, which are read when they are first needed.

    Attributes
    ----------
    numbers : PersonNumbers
        Number of each person. Private.

    """

    def __init__(self, source: LabelledRows, protects: Unit) -> None:
        super().__init__(protects)
        self.numbers = PersonNumbers()
        self._source = source

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of rows of each person. Private."""
        sizes = np.zeros(0, dtype=np.int64)
        for labels in self._source.labels():
            more = np.bincount(self.numbers.of(labels), minlength=len(sizes))
            more[: len(sizes)] += sizes
            sizes = more.astype(np.int64)
        return sizes

    def ids(self) -> list[Hashable]:
        """Return the id of each person. Private."""
        return list(self.numbers.ids[: len(self.sizes)])

    def spellings(self) -> list[set[Hashable]]:
        """Return all spellings of the id of each person. Private."""
        found: list[set[Hashable]] = [set() for _ in self.sizes]
        for label, number in self.numbers.items():
            if number < len(found):
                found[number].add(label)
        return found


class LabelledSource(UnitSource):
    """Rows of a file, one column of which says whose they are.

    The labels are read once more than the rows. Persons are held in memory, and their number for
    each row.

    Parameters
    ----------
    source : LabelledRows
        The rows, without the column.
    column : str
        Its name.

    """

    units: Labels

    def __init__(self, source: LabelledRows, column: str) -> None:
        super().__init__(source, Labels(source, Unit("person", column)))
        source.keep_order()
        self._source = source
        self._owners: NDArray[np.intp] | None = None  # of all rows, once they were read

    @property
    def table(self) -> "Table":
        """The file with its persons."""
        return self

    def refuse_text(self) -> None:
        """Refuse columns of text."""
        self._source.refuse_text()

    def levels_of(self, column: str) -> Iterator[tuple[list[str | None], NDArray[np.intp]]]:
        """Yield the level of each row in a column, and its person."""
        for levels, labels in self._source.labelled_levels(column):
            yield levels, self.units.numbers.of(labels)

    def decided(self, levels: Mapping[str, Sequence[str]]) -> "LabelledSource":
        """Return the same persons, with these levels for undecided columns."""
        column = self.units.protects.column
        assert column is not None  # it has a name
        return LabelledSource(self._source.decided(levels), column)

    def unit_chunks(self) -> Iterator[tuple[Any, NDArray[np.intp]]]:
        """Yield chunks of rows, and for each row the number of its person.

        Sums rest on the sizes: more rows than were counted are refused, and so are fewer.
        """
        if self._owners is not None:
            yield from self._owned_chunks(self._owners)
            return
        left, owners, found = self.units.sizes.copy(), [], Fingerprint()
        for chunk, labels in self._source.labelled_chunks():
            found.add(chunk)
            units = self.units.numbers.of(labels)
            owners.append(units)
            known = units < len(left)
            np.subtract.at(left, units[known], 1)
            if not known.all() or (left < 0).any():
                raise changed()
            yield chunk, units
        if left.any():
            raise changed()
        if self._source._readings is not None:
            self._source._readings.compare(found.numbers)
        self._owners = np.concatenate([np.empty(0, dtype=np.intp), *owners])

    def _owned_chunks(self, owners: NDArray[np.intp]) -> Iterator[tuple[Any, NDArray[np.intp]]]:
        """Yield chunks of rows that were read before, and whose they are."""
        start = 0
        for chunk in tables(self._source):
            units = owners[start : start + len(chunk)]
            start += len(chunk)
            if start > len(owners):
                raise changed()
            yield chunk, units
        if start < len(owners):
            raise changed()


def _wrong_length() -> InvalidDataError:
    return InvalidDataError("groups must hold one id for each row, in their order")
