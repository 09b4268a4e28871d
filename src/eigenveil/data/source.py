"""Where rows come from: arrays, .npy files, CSV, parquet, any iterable of chunks.

A source yields two-dimensional chunks and keeps no more than one of them in memory.
"""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.files import CSVSource, ParquetSource
from eigenveil.data.npy import NpySource
from eigenveil.data.table import as_table
from eigenveil.exceptions import (
    InvalidDataError,
    InvalidParameterError,
    UnsupportedNotionError,
)
from eigenveil.privacy.adjacency import ROW, Adjacency, Unit
from eigenveil.text import printable

__all__ = [
    "ArraySource",
    "Batch",
    "CSVSource",
    "IterableSource",
    "NpySource",
    "PairedSource",
    "ParquetSource",
    "RowSource",
    "RowwiseSource",
    "ScaledSource",
    "UnitSource",
    "as_table",
    "half_differences",
    "held",
    "is_streamed",
    "open_rows",
    "protected",
    "records_of",
    "require_hidden_count",
    "sampled",
    "shuffled",
    "tables",
    "unit_sizes",
    "unit_tables",
]

_CHUNK_BYTES = 1 << 24
_GATHERED_BYTES, _GATHERED = 1 << 20, 64  # of rows that stay in cache; rows at least
_MOST = 1e300  # of a scaled entry


@runtime_checkable
class RowSource(Protocol):
    """A table that can be read chunk by chunk."""

    @property
    def n_columns(self) -> int:
        """Number of columns; public."""
        ...

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns, where the source has them; public."""
        ...

    @property
    def rereadable(self) -> bool:
        """Whether `chunks` may be called more than once."""
        ...

    def chunks(self) -> Iterator[Any]:
        """Two-dimensional arrays of rows."""
        ...


class UnitSource(ABC):
    """Rows of which several may belong to one protected unit: a person, whose id they share.

    What sums such rows reads them with `unit_tables` and weighs them; reading them as rows that
    are units of their own, by `chunks`, is refused.

    Attributes
    ----------
    rows : RowSource
        The rows alone, for what is done to single rows: scores.
    unit : Unit
        What the id stands for.

    """

    rows: RowSource
    unit: Unit

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return self.rows.n_columns

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns."""
        return self.rows.feature_names

    @property
    def rereadable(self) -> bool:
        """Whether the rows may be read more than once."""
        return self.rows.rereadable

    @property
    @abstractmethod
    def unit_sizes(self) -> NDArray[np.int64]:
        """Number of rows of each unit, in the order in which units first appear. Private."""

    @abstractmethod
    def unit_chunks(self) -> Iterator[tuple[Any, NDArray[np.intp]]]:
        """Chunks of rows, and for each row the number of its unit."""

    def chunks(self) -> Iterator[Any]:
        """Refused: a person with many rows would count as many."""
        raise InvalidParameterError(
            "rows of one person are protected together here and cannot be read one by one: leave "
            "groups and unit out, or choose a mechanism that weighs them"
        )


def open_rows(
    data: Any, columns: Sequence[str] | None = None, unit: str | None = None
) -> RowSource:
    """The source for a table in memory, a ``.npy``, ``.csv`` or ``.parquet`` file, or chunks.

    An iterable without a length is taken for chunks; wrap a list of chunks in `IterableSource`.
    ``columns`` selects columns of a CSV or parquet file by name. ``unit`` names the column that
    says whose row it is: all rows with one value of it are protected together, and it is no
    feature. For tables in memory, pass ``groups`` to ``fit``.
    """
    if isinstance(data, (str, Path)):
        return _open_file(Path(data), columns, unit)
    if unit is not None:
        raise InvalidParameterError(
            "unit names a column of a CSV or parquet file: pass fit(X, groups=ids) instead"
        )
    if columns is not None:
        raise InvalidParameterError(
            "columns selects from a CSV or parquet file: slice arrays yourself"
        )
    if isinstance(data, RowSource):
        return data
    if isinstance(data, Iterable) and not hasattr(data, "__len__"):
        return IterableSource(data)
    return ArraySource(data)


def is_streamed(data: Any) -> bool:
    """Whether rows come chunk by chunk: a path, a source, or an iterable without a length."""
    return isinstance(data, (str, Path, RowSource)) or (
        isinstance(data, Iterable) and not hasattr(data, "__len__")
    )


def _open_file(path: Path, columns: Sequence[str] | None, unit: str | None) -> RowSource:
    match path.suffix.lower():
        case ".npy":
            if columns is not None:
                raise InvalidParameterError("a .npy file has no column names: slice it yourself")
            if unit is not None:
                raise InvalidParameterError(
                    "a .npy file has no column names: pass fit(X, groups=ids) instead of unit"
                )
            stored = NpySource(path)
            return ArraySource(stored.whole()) if stored.is_small else stored
        case ".csv":
            file: CSVSource | ParquetSource = CSVSource(path, columns, unit)
        case ".parquet":
            file = ParquetSource(path, columns, unit)
        case _:
            raise InvalidDataError(f"{printable(path.name)}: give a .npy, .csv or .parquet file")
    if unit is None:
        return file
    from eigenveil.data.groups import LabelledSource  # which stands on this module

    return LabelledSource(file, unit)


def tables(source: RowSource) -> Iterator[NDArray[Any]]:
    """The chunks of any source, each checked to be numbers of the right width."""
    for chunk in source.chunks():
        yield _checked(chunk, source.n_columns)


def _checked(chunk: Any, n_columns: int) -> NDArray[Any]:
    table = as_table(chunk)
    if table.shape[1] != n_columns:
        raise InvalidDataError("every chunk must have the same number of columns")
    return table


def unit_tables(
    source: RowSource,
) -> Iterator[tuple[NDArray[Any], NDArray[np.intp] | None]]:
    """Checked chunks, and for each row the number of its unit; None where each row is one."""
    if isinstance(source, UnitSource):
        for chunk, units in source.unit_chunks():
            yield _checked(chunk, source.n_columns), units
    elif isinstance(source, RowwiseSource):
        for chunk, owners in unit_tables(source.base):
            yield source.of_rows(chunk), owners
    else:
        for chunk in tables(source):
            yield chunk, None


def unit_sizes(source: RowSource) -> NDArray[np.int64] | None:
    """Number of rows of each unit; None where each row is one. Private."""
    while isinstance(source, RowwiseSource):
        source = source.base
    return source.unit_sizes if isinstance(source, UnitSource) else None


def protected(source: RowSource) -> Unit:
    """What neighbouring tables of this source differ in."""
    while isinstance(source, RowwiseSource):
        source = source.base
    return source.unit if isinstance(source, UnitSource) else ROW


def sampled(
    source: RowSource,
    share: float,
    adjacency: Adjacency,
    sample: Callable[[int, int], NDArray[np.intp]],
    check: Callable[[NDArray[Any]], None],
) -> RowSource:
    """Return ``share`` of the rows, held in memory; ``check`` sees every row before they are drawn.

    ``sample`` gives so many of n places, in secret and uniformly: neighbours then differ in one of
    the sampled rows at most, however their rows are sorted (docs/proofs/order.md). Of persons with
    several rows all are kept.
    """
    if share >= 1 or unit_sizes(source) is not None:
        return source
    if not adjacency.count_is_public:  # the size of a sample would tell the number of rows
        raise UnsupportedNotionError("a sample of rows needs adjacency='replace-one'")
    if isinstance(source, ScaledSource):
        return source.over(sampled(source.base, share, adjacency, sample, check))
    n = _checked_rows(source, check)
    places = sample(n, math.ceil(share * n))
    if isinstance(source, ArraySource):
        return ArraySource(source.array[places])
    return ArraySource(
        np.concatenate([np.empty((0, source.n_columns)), *_gathered(source, places)])
    )


def _checked_rows(source: RowSource, check: Callable[[NDArray[Any]], None]) -> int:
    """Return the number of rows, all of which ``check`` has seen."""
    rows = 0
    for chunk in tables(source):
        check(chunk)
        rows += len(chunk)
    return rows


def _gathered(source: RowSource, places: NDArray[np.intp]) -> Iterator[NDArray[Any]]:
    """Yield the rows at increasing places, a chunk at a time, in one pass."""
    seen = 0
    for chunk in tables(source):
        start, stop = np.searchsorted(places, (seen, seen + len(chunk)))
        if stop > start:
            yield chunk[places[start:stop] - seen]
        seen += len(chunk)


class ArraySource:
    """An array in memory or memory-mapped; ``feature_names`` for one that has them."""

    rereadable = True
    feature_names: tuple[str, ...] | None = None

    def __init__(self, array: NDArray[Any], feature_names: tuple[str, ...] | None = None) -> None:
        self.array = as_table(array)
        if feature_names is not None:
            self.feature_names = feature_names

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.array.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows, without reading them."""
        return int(self.array.shape[0])

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Views of consecutive rows."""
        size = max(1, _CHUNK_BYTES // (8 * self.n_columns))
        for start in range(0, self.array.shape[0], size):
            yield self.array[start : start + size]


def held(source: RowSource) -> ArraySource:
    """Return the same table in memory."""
    if isinstance(source, ArraySource):
        return source
    # Whoever makes chunks may fill the same memory again.
    chunks = [np.array(chunk) for chunk in tables(source)]
    return ArraySource(np.concatenate([np.empty((0, source.n_columns)), *chunks]))


class Batch(ArraySource):
    """Rows at consecutive positions of a table or a stream: a table of its own.

    Whatever is summed over it says which records those are, so that steps on different batches
    need not be added up.
    """

    def __init__(self, rows: NDArray[Any], first: int) -> None:
        super().__init__(rows)
        self.records = range(first, first + self.n_rows)

    def slice(self, start: int, stop: int) -> "Batch":
        """Records ``start`` up to ``stop`` of the batch."""
        self._check_part(start, stop)
        return Batch(self.array[start:stop], self.records.start + start)

    @staticmethod
    def _check_part(start: int, stop: int) -> None:
        if not 0 <= start <= stop:  # counted from the end, they would get others' positions
            raise InvalidParameterError("part of a batch starts at 0 or later and ends after it")


def records_of(source: RowSource) -> range | None:
    """Positions of the records of a batch; None for a whole table."""
    while isinstance(source, RowwiseSource):
        source = source.base
    return source.records if isinstance(source, Batch) else None


class ShuffledSource:
    """The rows of a table in memory, in another order."""

    rereadable = True

    def __init__(self, source: ArraySource, order: NDArray[np.intp]) -> None:
        self.n_columns = source.n_columns
        self.feature_names = source.feature_names
        self._rows, self._order = source.array, order

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._order)

    def __getitem__(self, places: slice) -> "ShuffledSource":
        """Some of them, not yet gathered."""
        part = copy(self)
        part._order = self._order[places]
        return part

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Rows gathered into the same memory again and again, which stays in cache."""
        size = max(_GATHERED, _GATHERED_BYTES // (8 * self.n_columns))
        held = np.empty((min(size, len(self)), self.n_columns), dtype=self._rows.dtype)
        for start in range(0, len(self), size):
            places = self._order[start : start + size]
            if self._rows.flags.c_contiguous:
                # Its own mode, "raise", would copy what it writes; no place is out of range.
                yield np.take(self._rows, places, axis=0, out=held[: len(places)], mode="clip")
            else:  # of which it would copy all rows first
                held[: len(places)] = self._rows[places]
                yield held[: len(places)]

    def gathered(self) -> NDArray[Any]:
        """All rows at once."""
        return np.asarray(self._rows[self._order])


class ShuffledBatch(Batch):
    """A batch whose rows are gathered as they are read, so that they are never written out."""

    def __init__(self, rows: ShuffledSource, first: int) -> None:
        self._rows = rows
        self.records = range(first, first + len(rows))

    @cached_property
    def array(self) -> NDArray[Any]:  # type: ignore[override]
        """All rows, for what goes back and forth among them."""
        return self._rows.gathered()

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return self._rows.n_columns

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self._rows)

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Some rows at a time, in memory that is used again."""
        return self._rows.chunks()

    def slice(self, start: int, stop: int) -> "ShuffledBatch":
        """Records ``start`` up to ``stop`` of the batch."""
        self._check_part(start, stop)
        return ShuffledBatch(self._rows[start:stop], self.records.start + start)


def shuffled(
    source: RowSource,
    order: Callable[[int], NDArray[np.intp]],
    check: Callable[[NDArray[Any]], None],
) -> RowSource:
    """Return the rows in a secret random order; those that can be read once only as they come.

    A batch is then a random part of the table, whatever that is sorted by, and neighbours differ in
    one record of one batch (docs/proofs/order.md). ``check`` sees every row before anything random
    is drawn, which charges. The table is held in memory.
    """
    if isinstance(source, ScaledSource):
        return source.over(shuffled(source.base, order, check))
    if isinstance(source, PairedSource):  # of rows that were checked
        return source.in_random_order()
    if not source.rereadable:
        return source
    table = held(source)
    return ShuffledSource(table, order(_checked_rows(table, check)))


class IterableSource:
    """Chunks from any iterable; read once if it is an iterator.

    Parameters
    ----------
    chunks : iterable
        Two-dimensional tables of the same columns.
    n_columns : int, optional
        Their number. By default that of the first chunk: then there must be one, which shows that
        the table has rows. So add/remove neighbours, who hide that, need it stated.

    """

    feature_names = None

    def __init__(self, chunks: Iterable[Any], n_columns: int | None = None) -> None:
        stream = iter(chunks)
        self.rereadable = iter(chunks) is not stream
        self.states_columns = n_columns is not None
        self._chunks = chunks if self.rereadable else stream
        self._read = False
        if n_columns is not None:
            if n_columns < 1:
                raise InvalidParameterError("n_columns must be a positive number of columns")
            self.n_columns = n_columns
            return
        try:
            first = as_table(next(stream))
        except StopIteration:
            raise InvalidDataError("the table has no rows") from None
        self.n_columns = int(first.shape[1])
        if not self.rereadable:
            self._chunks = itertools.chain([first], stream)

    def chunks(self) -> Iterator[Any]:
        """Yield the chunks as they come; whoever sums them checks them."""
        if self._read and not self.rereadable:
            raise InvalidDataError("these rows were read already and cannot be read again")
        self._read = True
        yield from self._chunks


def require_hidden_count(source: RowSource, adjacency: Adjacency) -> None:
    """Refuse a source that shows whether it has rows, where that is private."""
    while isinstance(source, RowwiseSource):
        source = source.base
    shows = isinstance(source, IterableSource) and not source.states_columns
    if shows and not adjacency.count_is_public:
        raise InvalidParameterError(
            "chunks without a stated number of columns show whether there are rows: pass "
            "IterableSource(chunks, n_columns=d), or choose adjacency='replace-one'"
        )


class PairedSource:
    """Half differences of disjoint pairs of rows; of an odd number one row is left out.

    ``order`` gives a random order of so many rows, which decides who is paired with whom whatever
    the rows are; so replacing one row replaces one difference, and how the table is sorted does not
    matter. Adding one would pair all others anew: there is no such source for add/remove. The table
    is held in memory unless it is an array.
    """

    rereadable = True

    def __init__(
        self, source: RowSource, adjacency: Adjacency, order: Callable[[int], NDArray[np.intp]]
    ) -> None:
        if not adjacency.count_is_public:
            raise UnsupportedNotionError(
                "pairs of rows need a public number of rows: choose adjacency='replace-one', or "
                "another centring"
            )
        self.n_columns = source.n_columns
        self.feature_names = source.feature_names
        # Dividing differences is dividing rows, without a copy of the table.
        self._scaled = source.of_rows if isinstance(source, ScaledSource) else None
        base = source.base if isinstance(source, ScaledSource) else source
        table = held(base)
        self._rows = table.array
        self.unpaired = table.n_rows
        if self.unpaired < 2:
            raise InvalidDataError(
                "pairs of rows need two rows at least, not one sample: give more rows"
            )
        half = self.unpaired // 2
        self._drawn = order(self.unpaired)[: 2 * half].reshape(2, half).T
        self._pairs = self._drawn[np.argsort(self._drawn[:, 0])]  # read in the order of memory

    def in_random_order(self) -> "PairedSource":
        """Return the same pairs as they were drawn, so that a batch of them is a random one."""
        other = copy(self)
        other._pairs = self._drawn
        return other

    def chunks(self) -> Iterator[NDArray[np.float64]]:
        """Differences in chunks; halved, so that none overflows."""
        size = max(1, _CHUNK_BYTES // (8 * self._rows.shape[1]))
        for start in range(0, len(self._pairs), size):
            first, second = self._pairs[start : start + size].T
            difference = half_differences(self._rows[first], self._rows[second])
            yield difference if self._scaled is None else self._scaled(difference)


def half_differences(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.float64]:
    """(x - y)/2 of rows, each halved before, so that none overflows.

    A cell is missing where it is in either row, but not where one is infinite.
    """
    with np.errstate(all="ignore"):  # a warning would depend on the records
        difference = np.multiply(first, 0.5, dtype=np.float64)
        difference -= np.multiply(second, 0.5, dtype=np.float64)
    lost = np.isnan(difference)
    if lost.any():
        difference[lost & (np.isinf(first) | np.isinf(second))] = np.inf
    return np.asarray(difference)


class RowwiseSource(ABC):
    """Rows of another source, each changed by what is public or was released, and by itself.

    So neighbours differ in what they differed in before, and rows keep their owners.
    """

    base: RowSource
    n_columns: int
    feature_names: tuple[str, ...] | None = None

    @property
    def rereadable(self) -> bool:
        """Whether the rows may be read more than once."""
        return self.base.rereadable

    @abstractmethod
    def of_rows(self, chunk: NDArray[Any]) -> NDArray[np.float64]:
        """What becomes of rows of ``base``."""

    def chunks(self) -> Iterator[NDArray[np.float64]]:
        """Changed chunks."""
        return map(self.of_rows, tables(self.base))


class ScaledSource(RowwiseSource):
    """Columns divided by public or released scales; a column of infinite scale is left out."""

    def __init__(self, source: RowSource, scale: NDArray[np.float64]) -> None:
        self._kept = np.flatnonzero(np.isfinite(scale))
        self._scale = scale[self._kept]
        self.base = source
        self.n_columns = self._kept.size
        names = source.feature_names
        self.feature_names = None if names is None else tuple(names[j] for j in self._kept)

    def over(self, base: RowSource) -> "ScaledSource":
        """The same scales on other rows of the same columns."""
        other = copy(self)
        other.base = base
        return other

    def of_rows(self, chunk: NDArray[Any]) -> NDArray[np.float64]:
        """Rows of ``base``, with the columns that are kept divided by their scales."""
        kept = chunk if self.n_columns == chunk.shape[1] else chunk[:, self._kept]
        with np.errstate(all="ignore"):  # a warning would depend on the records
            rows = kept.astype(np.float64)
            scaled = rows / self._scale
        # Only what was not finite before may be so now: a row of numbers stops no run.
        np.clip(scaled, -_MOST, _MOST, out=scaled, where=np.isfinite(rows))
        return np.asarray(scaled)
