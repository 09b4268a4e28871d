"""Dask arrays, data frames and files on a cluster as sources: partial sums over partitions.

Sums are values of a graph and not of counters on the way: a task that is run again, because a
worker died or two had it, replaces its own value. What Dask does not keep (``persist``) it computes
again in every pass, so partitions must come out the same each time: fingerprints are compared.
"""

import hashlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from dask.base import compute, persist
from dask.delayed import Delayed, delayed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from eigenveil.engines.parts import PartedSource, PartedUnits, PartSum, SumsOfParts, add
from eigenveil.exceptions import EigenveilError, InvalidDataError, MissingExtraError
from eigenveil.privacy.adjacency import Unit
from eigenveil.rows.base import RowSource
from eigenveil.rows.file_guard import Fingerprint, changed
from eigenveil.rows.frames import as_table, names
from eigenveil.rows.ids import PersonNumbers, id_array, numbered
from eigenveil.rows.units import LabelledRows

Piece = tuple[NDArray[Any], list[Hashable]]  # rows, and ids


def labelled_part(part: LabelledRows) -> tuple[NDArray[Any], list[Hashable]]:
    """Return the rows of a part of a file, and whose they are."""
    chunks: list[NDArray[Any]] = [np.empty((0, part.n_columns))]
    labels: list[Hashable] = []
    for chunk, some in part.labelled_chunks():
        chunks.append(chunk)
        labels += some
    return np.concatenate(chunks), labels


def mark(rows: Any, ids: Any) -> NDArray[np.int64]:
    """Return the fingerprint of the rows of one part and their ids."""
    table, labels = _labelled(rows, ids)
    found = Fingerprint()
    found.add(table, _places(labels))
    return found.numbers


def _labelled(rows: Any, ids: Any) -> tuple[NDArray[Any], list[Hashable]]:
    table = as_table(rows)
    labels = list(ids.tolist() if hasattr(ids, "tolist") else ids)
    if len(labels) != len(table):
        raise InvalidDataError("groups must hold one id for each row, in their order")
    return table, labels


def scattered(rows: Any, ids: Any, parts: int) -> list[Piece]:
    """Return the rows of one part and their ids, as a piece for each of ``parts`` new parts."""
    table, labels = _labelled(rows, ids)
    targets = _places(labels) % parts
    return [
        (table[places], [labels[i] for i in places])
        for places in (np.flatnonzero(targets == part) for part in range(parts))
    ]


def gathered(pieces: Sequence[Piece]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a new part, with the ids of its rows."""
    ids = [label for _, labels in pieces for label in labels]
    rows = np.concatenate([table for table, _ in pieces])
    return rows, np.array([*ids, None], dtype=object)[:-1]


def _places(labels: Sequence[Hashable]) -> NDArray[np.int64]:
    """Return a number for the person that each label names."""
    persons = PersonNumbers()
    numbers = persons.of(labels)
    return np.array([_place(label) for label in persons.ids], dtype=np.int64)[numbers]


def _place(label: str) -> int:
    """Return a number that is the same in every process, as Python's own hash is not."""
    text = label.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "big")


_FAN_IN = 8  # sums that are added at a time
_MAX_SHUFFLED = 128  # parts that persons are shuffled into: the graph grows with their square


class DaskSource(PartedSource):
    """Rows in partitions that Dask computes.

    Parameters
    ----------
    parts : list of Delayed, or of RowSource
        One for each partition: a table, rows with their ids, or a source of rows.
    n_columns : int
        Number of columns; public.
    feature_names : tuple of str, optional
        Names of the columns; public.
    lengths : list of int, optional
        Number of rows of each partition, where it is said; otherwise a pass counts them.

    """

    def __init__(
        self,
        parts: Sequence[Any],
        n_columns: int,
        feature_names: tuple[str, ...] | None = None,
        lengths: Sequence[int] | None = None,
    ) -> None:
        super().__init__(n_columns, feature_names, lengths)
        self._parts = list(parts)
        self.n_parts = len(self._parts)

    def added(self, what: PartSum) -> SumsOfParts:
        """Return ``what`` of every partition, added up as a tree."""
        asked = delayed(what)  # travels once
        level = [delayed(_of_part)(asked, i, part) for i, part in enumerate(self._parts)]
        while len(level) > 1:
            level = [delayed(add)(*level[i : i + _FAN_IN]) for i in range(0, len(level), _FAN_IN)]
        sums: SumsOfParts = _computed(level)[0]
        return sums

    def part(self, number: int) -> Any:
        """Compute one partition, and fetch it."""
        return _computed([self._parts[number]])[0]

    def fetched(self, of_part: Callable[[Any, Any], Any], each: Sequence[Any]) -> list[Any]:
        """Return something of every partition, in their order."""
        pairs = zip(self._parts, each, strict=True)
        return list(_computed([delayed(of_part)(part, given) for part, given in pairs]))

    def by_person(self, ids: Any, unit: Unit) -> PartedUnits:
        """Return the rows shuffled by person, which the cluster keeps in memory.

        Ids lie beside the rows: these must come in the same order in another computation.
        """
        owners = self._owners(ids)
        marks = [delayed(mark)(part, i) for part, i in zip(self._parts, owners, strict=True)]
        before = _computed(marks)
        units, now = self._shuffled(owners, unit, marks)
        if not np.array_equal(before, now):
            raise changed()
        return units

    def _shuffled(
        self, owners: Sequence[Any], unit: Unit, others: Sequence[Any] = ()
    ) -> tuple[PartedUnits, tuple[Any, ...]]:
        """Return the rows shuffled by person, and other values of the same computation."""
        count = min(self.n_parts, _MAX_SHUFFLED)
        pieces = [
            delayed(scattered, nout=count)(part, some, count)
            for part, some in zip(self._parts, owners, strict=True)
        ]
        parts = [delayed(gathered)([piece[q] for piece in pieces]) for q in range(count)]
        kept = _worked_out(persist, *parts, *others)
        shuffled = DaskSource(kept[:count], self.n_columns, self.schema.feature_names)
        return PartedUnits(self, shuffled, unit), _computed(kept[count:])

    def _owners(self, ids: Any) -> list[Any]:
        """Return the ids of each partition."""
        if hasattr(ids, "to_delayed"):
            owners = list(np.ravel(ids.to_delayed()))
            if len(owners) != self.n_parts:
                raise InvalidDataError("groups must be partitioned as the rows are: rechunk them")
            return owners
        units = numbered(id_array(ids))
        if len(units) != self.count_rows():
            raise InvalidDataError("groups must hold one id for each row, in their order")
        return list(np.split(units, np.cumsum(self.lengths)[:-1]))


class FileParts(DaskSource):
    """Parts of files, each of which a worker opens itself.

    Parameters
    ----------
    file : RowSource
        All of them; it answers what is known without reading.
    parts : list of LabelledRows
        What they are made of.

    """

    def __init__(self, file: RowSource, parts: Sequence[Any]) -> None:
        lengths = [part.n_rows for part in parts]
        known = None if None in lengths else lengths
        super().__init__(parts, file.n_columns, lengths=known)
        self.schema = replace(file.schema, table_columns=())

    def by_label(self, unit: Unit) -> PartedUnits:
        """Return the rows by the persons that a column of the files names."""
        read = [delayed(labelled_part, nout=2)(part) for part in self._parts]
        rows = copy(self)
        rows._parts = [each[0] for each in read]
        return rows._shuffled([each[1] for each in read], unit)[0]


def dask_rows(data: Any) -> DaskSource:
    """Return an array or a frame of Dask as a source; rows are split, columns are not."""
    known = not isinstance(data, Delayed)  # which has every attribute
    if known and hasattr(data, "partitions") and hasattr(data, "columns"):
        return DaskSource(data.to_delayed(), len(data.columns), names(data._meta))
    if not (known and hasattr(data, "rechunk") and data.ndim == 2):
        raise InvalidDataError("pass a data frame of Dask, or an array of rows and columns")
    whole = data.rechunk({1: -1}) if data.numblocks[1] != 1 else data
    sizes = whole.chunks[0]
    lengths = None if np.isnan(sizes).any() else sizes
    return DaskSource(list(np.ravel(whole.to_delayed())), int(whole.shape[1]), None, lengths)


def _of_part(what: PartSum, number: int, part: Any) -> SumsOfParts:
    _keep_to_one_thread()
    return what.of(number, part)


@lru_cache(maxsize=1)
def _keep_to_one_thread() -> None:
    """Let a worker's process compute in one thread: other cores have partitions of their own."""
    try:
        from distributed import get_worker

        get_worker()
    except (ImportError, ValueError):  # not on a worker
        return
    threadpool_limits(1)
    with suppress(ImportError):  # decodes columns of parquet files
        import pyarrow

        pyarrow.set_cpu_count(1)


def _computed(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(_worked_out(compute, *values))


def _worked_out(how: Callable[..., Any], *values: Any) -> Any:
    """Return what Dask makes of values; what a partition raises itself may quote an entry."""
    try:
        return how(*values)
    except EigenveilError:
        raise
    except MemoryError:  # whose own words tell the shape of the rows
        raise MemoryError("out of memory while a partition was computed") from None
    except Exception:
        raise InvalidDataError(
            "a partition could not be computed, or its worker died too often: compute it alone to "
            "see why"
        ) from None


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Work on the cluster whose scheduler listens at an address, such as ``tcp://host:8786``."""
    try:
        import dask
        from distributed import Client
    except ImportError:
        raise MissingExtraError("a cluster needs Dask: pip install 'eigenveil[dask]'") from None
    try:
        # Not the default one: what it sets for a process is left behind where nobody answers.
        client: Any = Client(address, timeout=10, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError):
        raise InvalidDataError(
            "no scheduler of Dask answers at this address: check it, such as tcp://host:8786"
        ) from None
    with client, client.as_current(), dask.config.set(scheduler=client):
        yield


def on_cluster(source: RowSource) -> RowSource:
    """Return the rows of parquet files as parts that workers read, who must see the same files."""
    if source.schema.undecided:
        raise InvalidDataError("levels of categories are not found on a cluster: state them")
    plain = source.plain
    parts = getattr(plain, "parts", None)
    if parts is None:
        raise InvalidDataError("workers read parquet files that they all see: save the table so")
    rows = FileParts(plain, parts())
    unit = source.units.protects
    return rows.by_label(unit) if unit.owns_many else rows
