"""What every source of rows answers.

A source yields two-dimensional chunks and keeps no more than one of them in memory. It also answers
what is known about its rows: how many they are, whose, and at which positions of a stream. A source
that is made of another one passes the question on, so that nobody has to look inside.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.numerics.array_backend import HOST, Place
from eigenveil.numerics.integers import Integers
from eigenveil.privacy.adjacency import ROW, Unit
from eigenveil.rows.file_guard import Fingerprint, Readings
from eigenveil.rows.frames import as_table

_CHUNK_BYTES = 1 << 24
_SUMMED_ROWS = 1 << 27  # by one compiled pass, whose sum of integers int64 holds
_LONG_ROW = 1 << 12  # columns of rows that are copied one by one
_BLOCK_BYTES, _LEAST_ROWS = 1 << 21, 256  # changed at a time, so that they stay in cache

Statistic = TypeVar("Statistic")

Lookup = Callable[[NDArray[np.intp], NDArray[np.float64]], None]

"""Copies rows at these places to an array."""

SummedRows = tuple[NDArray[Any], NDArray[np.intp] | None, NDArray[np.float64] | None]

"""Rows, the number of the unit of each, and the sum of their integers; None where unknown."""


def chunk_rows(n_columns: int) -> int:
    """Return the number of rows in a chunk of so many columns."""
    return max(1, _CHUNK_BYTES // (8 * n_columns))


class RowsInMemory(Protocol):
    """Rows that lie in memory, of which any part is a batch without a further copy."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    def batch(self, start: int, stop: int) -> Any:
        """Return rows ``start`` up to ``stop`` as a `Batch` at these positions."""
        ...


class RowSum(Protocol):
    """A sum over rows in integers: those of parts of a table add up to that of the table, exactly.

    So it may be taken wherever the rows lie, and the parts added in any order.
    """

    def of(self, source: "RowSource") -> tuple[Integers, ...]:
        """Return the sum over all rows of ``source``. Private."""
        ...


class StandsFor(Protocol):
    """A larger table that rows stand for; the planner has such rows."""

    def whole(self, statistic: Statistic) -> Statistic:
        """Return a statistic of the rows as it is of the larger table."""
        ...

    def sample(self, rows: "RowSource", share: float) -> "RowSource":
        """Return rows that stand for a random share of the table."""
        ...

    def drawn(self, rows: "RowSource", size: int) -> "RowSource":
        """Return rows that stand for ``size`` drawn ones."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Public facts about a table that are known before any row is read.

    Attributes
    ----------
    feature_names : tuple of str, optional
        Names of the columns, where the source has them.
    encoding : dict
        How columns of text and dates become features, as a release notes it.
    remarks : tuple of str
        Changes to cells on reading, in words.
    table_columns : tuple of str
        All columns of the table by name, taken or not; empty where they have no names.
    undecided : tuple of str
        Columns of categories whose levels are to be found before rows can be read.
    hides_count : bool
        Whether nothing shows how many rows there are, or that there are any.
    records : range, optional
        Positions of the records of a batch; None for a whole table.
    stands_for : StandsFor, optional
        A larger table; None where the rows are the table.
    holds_matrices : bool
        Whether records are symmetric matrices, which only one-pass methods read.

    """

    feature_names: tuple[str, ...] | None = None
    encoding: dict[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    table_columns: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    hides_count: bool = True
    records: range | None = None
    stands_for: StandsFor | None = None
    holds_matrices: bool = False


class Units:
    """Which rows are protected together: each is a unit of its own, unless sizes are known.

    Parameters
    ----------
    protects : Unit
        What neighbouring tables differ in.
    sizes : array, optional
        Number of rows of each unit; None where each row is one. Private.

    """

    def __init__(self, protects: Unit = ROW, sizes: NDArray[np.int64] | None = None) -> None:
        self.protects = protects
        self._sizes = sizes

    @property
    def sizes(self) -> NDArray[np.int64] | None:
        """Number of rows of each unit; None where each row is one. Private."""
        return self._sizes

    def ids(self) -> list[Hashable]:
        """Return the id of each unit, by their numbers. Private."""
        raise InvalidParameterError(
            "ids of these rows cannot be compared with those of other arrivals: pass a file, a "
            "data frame or an array"
        )

    def spellings(self) -> list[set[Hashable]]:
        """Return all spellings of the id of each unit. Private."""
        return [{label} for label in self.ids()]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HeldRows:
    """Integer rows of a wide table, for products with their second moment. Private.

    Attributes
    ----------
    squares : array
        Sum of squares of each column.
    fingerprint : array
        Sum of the rows, each times a hash of itself.
    units : int
        Number of rows, or of persons.
    blocks : callable
        The rows in float64, a block at a time, each time anew.
    place : Place
        Where they lie.

    """

    squares: Integers
    fingerprint: NDArray[np.int64]
    units: int
    blocks: Callable[[], Iterator[Any]]
    place: Place = HOST


Watch = Callable[["RowSource"], Iterator[Any]]

"""Yields `chunks` of a source, and shows how far reading is."""


class RowSource(ABC):
    """A table that can be read chunk by chunk.

    Subclasses set the attributes and define `chunks`; they override the answers they know.

    Attributes
    ----------
    n_columns : int
        Number of columns; public. Of chunks it may take reading the first one.
    schema : Schema
        What else is public, and known without reading.
    units : Units
        Which rows are protected together.
    rereadable : bool
        Whether `chunks` may be called more than once.

    """

    n_columns: int
    schema: Schema = Schema()
    units: Units = Units()
    rereadable: bool = True
    _readings: Readings | None = None  # compares those of rows that do not lie in memory
    _watch: "Watch | None" = None

    @abstractmethod
    def chunks(self) -> Iterator[Any]:
        """Yield two-dimensional arrays of rows."""

    # What is known without reading.

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where it takes reading, or is as private as the rows."""
        return None

    @property
    def in_memory(self) -> RowsInMemory | None:
        """The rows where they lie in memory; None where they are read chunk by chunk."""
        return None

    @property
    def plain(self) -> "RowSource":
        """The rows alone, whosever they are, for what is done to single rows: scores."""
        return self

    @property
    def table(self) -> "Table | None":
        """The named columns that the rows are read from, some of them of text; None elsewhere."""
        return None

    @property
    def kinds(self) -> NDArray[np.intp] | None:
        """Number of the kind that each row is shown as; None without. Private."""
        return None

    # What takes reading.

    def count_rows(self) -> int:
        """Return the number of rows, which are read only where it is not known."""
        known = self.n_rows
        return sum(len(chunk) for chunk in tables(self)) if known is None else known

    def keep_order(self) -> None:
        """Refuse readings in which rows come in another order: something lies beside them."""
        if self._readings is not None:
            self._readings.in_order = True

    def unit_tables(self) -> Iterator[tuple[NDArray[Any], NDArray[np.intp] | None]]:
        """Yield checked chunks, and for each row the number of its unit; None where it is one."""
        for chunk in tables(self):
            yield chunk, None

    def summed_tables(self, clip: Any) -> Iterator[SummedRows]:
        """Yield rows, their units, and the sum of their integers where a compiled pass knows it."""
        for chunk, owners in self.unit_tables():
            for start in range(0, len(chunk), _SUMMED_ROWS):
                part = slice(start, start + _SUMMED_ROWS)
                rows, units = chunk[part], None if owners is None else owners[part]
                yield rows, units, None if units is not None else clip.sum_of_integers(rows)

    def whole(self) -> NDArray[Any]:
        """Return all rows as one array."""
        # Whoever makes chunks may fill the same memory again.
        chunks = [np.array(chunk) for chunk in tables(self)]
        return np.concatenate([np.empty((0, self.n_columns)), *chunks])

    def lookup(self) -> tuple[int, "Lookup"]:
        """Return the number of rows, and what copies those at any places, again and again.

        All are held for it, unless a source can find them where they lie.
        """
        table = self.whole()

        def copied(places: NDArray[np.intp], out: NDArray[np.float64]) -> None:
            if table.shape[1] < _LONG_ROW:
                if table.dtype == out.dtype and table.flags.c_contiguous:
                    # Its own mode, "raise", would copy what it writes; no place is out of range.
                    np.take(table, places, axis=0, out=out, mode="clip")
                else:
                    out[...] = table[places]
                return
            for row, place in zip(out, places, strict=True):  # without a copy in between
                row[...] = table[place]

        return len(table), copied

    def whole_units(self) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """Return all rows as one array, and for each the number of its unit."""
        chunks, owners = [np.empty((0, self.n_columns))], [np.empty(0, dtype=np.intp)]
        for chunk, units in self.unit_tables():
            assert units is not None  # of a source of units
            chunks.append(np.array(chunk))
            owners.append(units)
        return np.concatenate(chunks), np.concatenate(owners)

    def summed(self, what: RowSum) -> tuple[Integers, ...]:
        """Return a sum over all rows, by reading them here. Private."""
        return what.of(self)

    def held(self, clip: Any) -> HeldRows | None:
        """Return integer rows where they are held already, on a device; None elsewhere. Private."""
        return None

    def rows_at(self, places: NDArray[np.intp]) -> NDArray[Any]:
        """Return the rows at increasing places, in one pass."""
        found, seen = [np.empty((0, self.n_columns))], 0
        for chunk in tables(self):
            start, stop = np.searchsorted(places, (seen, seen + len(chunk)))
            if stop > start:
                found.append(chunk[places[start:stop] - seen])
            seen += len(chunk)
        return np.concatenate(found)

    def grouped_by(self, ids: Any) -> "RowSource | None":
        """Return the rows with an id for each, where that is the source's to say; else None."""
        return None

    # What becomes of the rows.

    def in_random_order(self) -> "RowSource | None":
        """Return the rows in an order that needs no drawing; None where one has to be drawn.

        Rows that can be read once only stay as they come.
        """
        return None if self.rereadable else self

    def before_scaling(self, change: "Callable[[RowSource], RowSource]") -> "RowSource":
        """Return what ``change`` makes of the rows as they are before columns are divided.

        Columns are divided afterwards, which makes no copy of the table.
        """
        return change(self)

    def map(self, change: "RowMap") -> "RowSource":
        """Return the rows, each changed by itself."""
        return MappedRows(self, change)

    def _watched(self) -> Iterator[Any]:
        return self.chunks() if self._watch is None else self._watch(self)

    def _checked(self, chunk: Any) -> NDArray[Any]:
        table = as_table(chunk)
        if table.shape[1] != self.n_columns:
            raise InvalidDataError("every chunk must have the same number of columns")
        return table


def tables(source: RowSource) -> Iterator[NDArray[Any]]:
    """Yield the chunks, each checked to be numbers of the right width.

    At their end, rows that are others than in an earlier reading are refused.
    """
    checked = map(source._checked, source._watched())
    return checked if source._readings is None else source._readings.compared(checked)


def watch(source: RowSource, how: Watch) -> None:
    """Have ``how`` yield the chunks of a source from now on, and show how far reading is."""
    source._watch = how


def count_units(source: RowSource) -> int:
    """Return the number of rows, or of persons where they may own several."""
    sizes = source.units.sizes
    return source.count_rows() if sizes is None else len(sizes)


def fingerprint(source: RowSource) -> NDArray[np.int64]:
    """Return the numbers of a `Fingerprint`; rows are read only where they are not known."""
    if source._readings is not None and source._readings.first is not None:
        return source._readings.first
    found = Fingerprint()
    for chunk, owners in source.unit_tables():
        found.add(chunk, owners)
    return found.numbers


class Table(Protocol):
    """Rows of a table whose columns have names, and may hold text."""

    def levels_of(self, column: str) -> Iterator[tuple[list[str | None], Any]]:
        """Yield the level of each row in a column, and whose the rows are. Private."""
        ...

    def decided(self, levels: Mapping[str, Sequence[str]]) -> RowSource:
        """Return the same rows with these levels for undecided columns."""
        ...

    def refuse_text(self) -> None:
        """Refuse columns of text by their names, which only words what would happen anyway."""
        ...


def decided(source: RowSource, levels: Mapping[str, Sequence[str]]) -> RowSource:
    """Return the same rows with these levels for undecided columns."""
    return source if source.table is None else source.table.decided(levels)


def with_one_level_each(source: RowSource) -> RowSource:
    """Return the rows as if each undecided column had one level, to see how others are read."""
    return decided(source, dict.fromkeys(source.schema.undecided, ("...",)))


class RowMap(ABC):
    """A change of single rows by public or released numbers, as a frozen dataclass.

    A changed row depends on its own row alone, to the last bit: neighbouring tables then differ in
    what they differed in before, and rows keep their owners.
    """

    linear: ClassVar[bool] = False  # differences of rows may be taken first

    @abstractmethod
    def __call__(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return changed rows."""

    def width(self, n_columns: int) -> int:
        """Return the number of columns of changed rows."""
        return n_columns

    def names(self, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return the names of their columns, of those before; None where they have none."""
        return None

    def summed(self, rows: NDArray[Any], clip: Any) -> tuple[Any, NDArray[np.float64] | None]:
        """Return changed rows, and the sum of their integers where a compiled pass knows it."""
        changed = self(rows)
        return changed, clip.sum_of_integers(changed)


class MappedRows(RowSource):
    """Rows of another source, ``base``, each changed by itself; what is asked is asked of them."""

    def __init__(self, base: RowSource, change: RowMap) -> None:
        self.base = base
        self.change = change
        self.n_columns = change.width(base.n_columns)
        self.rereadable = base.rereadable

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        """Facts about ``base``, with other columns."""
        base = self.base.schema
        names = self.change.names(base.feature_names)
        return replace(base, feature_names=names, table_columns=(), undecided=())

    @property
    def units(self) -> Units:  # type: ignore[override]
        """Units of ``base``."""
        return self.base.units

    @property
    def n_rows(self) -> int | None:
        """Number of rows of ``base``."""
        return self.base.n_rows

    @property
    def kinds(self) -> NDArray[np.intp] | None:
        """The kind of each row of ``base``. Private."""
        return self.base.kinds

    def keep_order(self) -> None:
        """Refuse readings of ``base`` in which rows come in another order."""
        self.base.keep_order()

    def count_rows(self) -> int:
        """Return the number of rows of ``base``, none of which is changed for it."""
        return self.base.count_rows()

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Yield changed chunks."""
        return map(self.change, tables(self.base))

    def summed(self, what: RowSum) -> tuple[Integers, ...]:
        """Return a sum over changed rows, which are changed where ``base`` has them."""
        return self.base.summed(_ChangedSum(self.change, what))

    def before_scaling(self, change: Callable[[RowSource], RowSource]) -> RowSource:
        """Return what ``change`` makes of the rows of ``base``, divided afterwards."""
        if not self.change.linear:
            return change(self)
        return self.base.before_scaling(change).map(self.change)

    def unit_tables(self) -> Iterator[tuple[NDArray[Any], NDArray[np.intp] | None]]:
        """Yield changed rows, some at a time, and whose they are."""
        for rows, owners in self._blocks():
            yield self.change(rows), owners

    def summed_tables(self, clip: Any) -> Iterator[SummedRows]:
        """Yield rows, their units, and the sum of their integers where a compiled pass knows it."""
        for rows, owners in self._blocks():
            if owners is None:
                changed, known = self.change.summed(rows, clip)
                yield changed, None, known
            else:
                yield self.change(rows), owners, None

    def _blocks(self) -> Iterator[tuple[NDArray[Any], NDArray[np.intp] | None]]:
        """Yield rows of ``base``, some at a time, and whose they are."""
        size = max(_LEAST_ROWS, _BLOCK_BYTES // (8 * max(1, self.n_columns)))
        for chunk, owners in self.base.unit_tables():
            for start in range(0, len(chunk), size):
                part = slice(start, start + size)
                yield chunk[part], None if owners is None else owners[part]


@dataclass(frozen=True, slots=True)
class _ChangedSum:
    """A sum over rows that are changed first; it may travel to where they lie."""

    change: RowMap
    what: RowSum

    def of(self, source: RowSource) -> tuple[Integers, ...]:
        """Return the sum over rows of ``source``, changed. Private."""
        return self.what.of(source.map(self.change))
