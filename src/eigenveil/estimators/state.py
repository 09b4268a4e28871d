"""Private states of streams and running releases, in memory and on disk.

A state is one file (`eigenveil.storage.state_file`); records of a stream that wait for the next
batch lie in another one beside it. Both are readable by their owner only and replaced as a whole,
so that a crash leaves the old or the new ones; other rows that it leaves are removed by the next
call. A state is replaced only if it is the one that was loaded. The ledger, where there is one,
knows how far each state had come, so that an older copy is noticed.

Streams, write-ahead: records are noted as spent before noise is drawn on them. A crash in between
loses that batch; no record is used twice. Proof: docs/proofs/streaming.md.

Running releases, write-ahead: the second moment of a day and the number of the attempt are on disk,
and noted in the ledger, before noise is drawn; what was drawn is on disk before it is published.
A day that a crash cut off between the two is drawn again: nobody has seen the earlier draw. That
a draw is kept has a number of its own, noted before it is published, so that no copy of the state
from before can draw the day again. Proof: docs/proofs/continual.md.
"""

import hashlib
import math
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.estimators.persons import Arrival, Persons
from eigenveil.exact.clip import NO_EXPONENT
from eigenveil.exact.daily_moments import DailyMoments
from eigenveil.exceptions import DuplicateBatchError, StateError
from eigenveil.mechanisms.distances import NoisyDistances
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.one_pass import OnePassState
from eigenveil.mechanisms.released_scales import ReleasedScales
from eigenveil.mechanisms.row_bounds import RowBounds
from eigenveil.messages import NEW_LABEL, RESTORE
from eigenveil.privacy.adjacency import Unit
from eigenveil.privacy.ledger import Ledger
from eigenveil.rows.base import RowSource
from eigenveil.rows.memory import Batch
from eigenveil.storage.durable import locked, replace_file, unchanged
from eigenveil.storage.paths import read_regular, real_path, require_outside
from eigenveil.storage.state_file import (
    decode_arrays,
    leftovers,
    pack_state,
    read_rows,
    remove_rows,
    unpack_state,
    write_rows,
)

Kinds = dict[str, tuple[type, ...]]

_NOTED: Kinds = {  # in every state
    "name": (str,),
    "settings": (dict,),
    "ledger": (str, type(None)),
    "entry": (str, type(None)),
    "exact": (bool,),
    "labels": (list,),
}

_BY_COLUMN = ("scale", "turn", "first", "least", "variances", "noise", "centre_error")  # of scales


class _OtherVersionError(StateError):
    """A whole state, which this version cannot read."""


class Progress(Protocol):
    """How far a stream or a running release has come. Private."""

    __slots__ = ()
    what: ClassVar[str]  # a word for it
    formats: ClassVar[tuple[str, ...]]  # the first is written, all are read
    notice: ClassVar[str]
    noted: ClassVar[Kinds]

    @property
    def position(self) -> int:
        """The number by which the ledger knows how far it has come."""
        ...

    @property
    def file(self) -> str | None:
        """The name of a file of records beside the state."""
        return None

    def keep_rows(self, path: Path) -> None:
        """Write the records that wait beside the state."""

    def document(self) -> dict[str, Any]:
        """Return single numbers and words."""
        return {name: getattr(self, name) for name in self.noted}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays."""
        ...

    @classmethod
    def read(cls, document: dict[str, Any], arrays: dict[str, NDArray[Any]], path: Path) -> Self:
        """Return the progress of a stored state."""
        ...

    def is_possible(self, settings: dict[str, Any], persons: Persons | None) -> bool:
        """Return whether it can have come to this."""
        ...


P = TypeVar("P", bound=Progress)


@dataclass(slots=True, kw_only=True, eq=False)
class State(Generic[P]):
    """A stream or a running release between two calls. Private.

    Attributes
    ----------
    settings : dict
        What it was begun with; public.
    ledger : str or None
        The name of the ledger that pays.
    progress : StreamProgress or DailyProgress
        How far it has come.
    name : str
        A random one, by which the ledger knows it.
    entry : str or None
        Hash of the entry that paid, once it is known.
    exact : bool
        Whether numerics were exact so far.
    labels : list of str
        Of what arrived.
    persons : Persons or None
        How often each person came; None for a stream of single rows.
    gate : Gate or None
        The allotment; not part of the file.
    account : Ledger or None
        The ledger that notes how far it has come; not part of the file.
    process : int
        The process that has it in memory; not part of the file.
    path : Path or None
        Where links led to the state when the call began; not part of the file.
    found : str or None
        Digest of the state on disk as it was loaded or saved last; None where there is none yet.

    """

    settings: dict[str, Any]
    ledger: str | None
    progress: P
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    entry: str | None = None
    exact: bool = True
    labels: list[str] = field(default_factory=list)
    persons: Persons | None = None
    gate: Gate | None = None
    account: Ledger | None = None
    process: int = field(default_factory=os.getpid)
    path: Path | None = None
    found: str | None = None

    @property
    def begun(self) -> bool:
        """Whether records came."""
        return "n_features" in self.settings

    @property
    def merged_ids(self) -> bool:
        """Whether 7 and 0007 were one person from the start, as in states of this version."""
        return self.settings.get("ids") != "text"

    def require_new(self, label: str | None) -> None:
        """Refuse a label that arrived before."""
        if label is not None and label in self.labels:
            raise DuplicateBatchError(
                "a batch of this label arrived before, and each record is used once: name new "
                "records otherwise, ",
                NEW_LABEL,
                "; what was released last comes again from ",
                RESTORE,
            )

    def arrival(self, source: RowSource) -> Arrival:
        """Read rows together with the hashes of their persons."""
        assert self.persons is not None  # persons are protected
        rows, owners = source.whole_units()
        spellings = None if self.merged_ids else source.units.spellings()
        return Arrival(rows, owners, self.persons.hashed(source.units.ids(), spellings))

    def paid_by(self, label: str) -> str | None:
        """Return the hash of the entry that paid, also if a process died before it noted that."""
        if self.entry is None and self.account is not None:
            return next((each.hash for each in self.account.entries if each.label == label), None)
        return self.entry

    def note(self, start: int, stop: int, unit: Unit, counted: Literal["records", "draws"]) -> None:
        """Note in the ledger how far the state on disk has come."""
        if self.path is not None and self.account is not None:
            self.account.advance(self.name, start, stop, unit, counted)

    def save(self, *, records: bool = True) -> None:
        """Replace the state durably; and the file of ``records``, where some came or went.

        Without, those that were spent meanwhile stay in it, and are known to be. A state that is
        not the one that was loaded is left alone.
        """
        assert self.path is not None  # it is kept on disk
        former = self.progress.file
        with unchanged(self.path, self.found):
            if records:
                self.progress.keep_rows(self.path)
            data = self._packed()
            replace_file(self.path, data)
        self.found = hashlib.sha256(data).hexdigest()
        if former is not None and former != self.progress.file:
            remove_rows(self.path.with_name(former))

    def _packed(self) -> bytes:
        document = {"format": self.progress.formats[0], "notice": self.progress.notice}
        document |= {name: getattr(self, name) for name in _NOTED} | self.progress.document()
        arrays = self.progress.arrays()
        if self.persons is not None:
            document |= self.persons.document()
            arrays |= self.persons.arrays()
        return pack_state(document, arrays)

    def sweep(self) -> None:
        """Remove rows and drafts that killed calls left beside the state; under its lock only."""
        assert self.path is not None  # it is kept on disk
        left = leftovers(self.path, self.progress.file)
        if left:
            with unchanged(self.path, self.found):  # they are not of a save that is going on
                for path in left:
                    remove_rows(path)

    @classmethod
    def load(cls, path: Path, progress: type[P]) -> "State[P]":
        """Read the file, or refuse one that is not whole."""
        try:
            data = read_regular(path)
            document, packed = unpack_state(data, path.name)
            if document["format"] not in progress.formats:
                raise _OtherVersionError(
                    "the state is of another version of eigenveil: go on with that one"
                )
            arrays = decode_arrays(packed)
            state = cls(
                **{name: document[name] for name in _NOTED},
                progress=progress.read(document, arrays, path),
                persons=Persons.read(document, arrays),
                path=path,
                found=hashlib.sha256(data).hexdigest(),
            )
            _require_possible(state)
        except (MemoryError, _OtherVersionError):
            raise
        except Exception:  # of odd files there is no end of ways to fail
            raise StateError(
                f"{path.name} is not a whole state of a {progress.what}: start a new "
                f"{progress.what} with records that were not in it; an older copy would use "
                "records twice"
            ) from None
        return state


@contextmanager
def kept_state(
    path: str | Path, progress: type[P], *, afresh: bool
) -> Iterator[tuple[Path, State[P] | None]]:
    """Lock a state; yield its path without links, and what lies there, None where it is new."""
    path = real_path(path)  # under one name only is it one state
    require_outside(path)
    with locked(path):
        there = os.path.lexists(path)
        if path.is_file() and os.lstat(path).st_nlink > 1:
            raise StateError(
                f"{path.name} has several names (hard links), under each of which it would be "
                f"another {progress.what}: keep one of them"
            )
        if there and afresh:
            raise StateError(
                f"{path.name} holds a {progress.what}, and fit starts afresh: go on with "
                "partial_fit, or choose another state"
            )
        yield path, State.load(path, progress) if there else None


@dataclass(slots=True, kw_only=True, eq=False)
class StreamProgress(Progress):
    """Records that came, what was learnt from them and what waits.

    Attributes
    ----------
    spent, used : int
        Records that were handed to batches, and those of them that something was learnt from.
    finished : bool
        Whether no more records are taken.
    arrival : bool
        Whether records were used as they came, not in a secret random order.
    bounds, iterate : RowBounds, OnePassState or None
        What was released so far.
    rows : dict or None
        The file of records beside the state: its name, its sum, and the number of its first record.
    waiting : list of arrays
        Rows that no batch has had yet.

    """

    what: ClassVar[str] = "stream"
    # Another one where OnePassState or the settings have other fields. Streams of 7 have one noise
    # level for all columns; 6 and 5 have no distances; 5 has digests of rows, which nothing needs.
    formats: ClassVar[tuple[str, ...]] = tuple(f"eigenveil-stream/{i}" for i in (8, 7, 6, 5))
    notice: ClassVar[str] = (
        "PRIVATE: holds records that wait for their batch. Keep it like the table itself, publish "
        "only what release_ saves."
    )
    noted: ClassVar[Kinds] = {
        "spent": (int,),
        "used": (int,),
        "finished": (bool,),
        "arrival": (bool,),
        "rows": (dict, type(None)),
    }

    spent: int = 0
    used: int = 0
    finished: bool = False
    arrival: bool = True
    bounds: RowBounds | None = None
    iterate: OnePassState | None = None
    rows: dict[str, Any] | None = None
    waiting: list[NDArray[np.float64]] = field(default_factory=list)

    @property
    def position(self) -> int:
        """Records that were handed to batches."""
        return self.spent

    @property
    def buffered(self) -> int:
        """How many rows wait."""
        return sum(map(len, self.waiting))

    def arrive(self, chunk: NDArray[Any]) -> None:
        """Take rows in."""
        with np.errstate(all="ignore"):  # a warning would depend on the records
            rows = np.array(chunk, dtype=np.float64, order="C")
        if len(rows):
            self.waiting.append(rows)

    def take(self, size: int) -> Batch:
        """Return the next records; from now on they are spent."""
        first = self.spent
        rows = self.waiting[0] if len(self.waiting) == 1 else np.concatenate(self.waiting)
        batch = Batch(rows[:size], first)
        self.waiting = [rows[size:].copy()] if len(rows) > size else []
        self.spent += size
        return batch

    @property
    def file(self) -> str | None:
        """The name of the file of records that wait."""
        return None if self.rows is None else self.rows["file"]

    def keep_rows(self, path: Path) -> None:
        """Write the records that wait beside the state."""
        if not self.waiting:
            self.rows = None
            return
        self.waiting = [np.concatenate(self.waiting)]
        name, sha256 = write_rows(path, self.waiting[0])
        self.rows = {"file": name, "first": self.spent, "sha256": sha256}

    def document(self) -> dict[str, Any]:
        """Return single numbers and words."""
        return Progress.document(self) | _noted_bounds(self.bounds)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what was released so far."""
        arrays: dict[str, Any] = {}
        if self.bounds is not None:
            arrays |= _bound_arrays(self.bounds)
        if self.iterate is not None:
            for each in fields(self.iterate):
                value = getattr(self.iterate, each.name)
                if value is not None:
                    arrays[f"iterate_{each.name}"] = np.asarray(value)
        return arrays

    @classmethod
    def read(cls, document: dict[str, Any], arrays: dict[str, NDArray[Any]], path: Path) -> Self:
        """Return the progress of a stored stream, with the records that wait beside it."""
        return cls(
            **{name: document[name] for name in cls.noted},
            bounds=(bounds := _bounds(document, arrays)),
            iterate=_iterate(arrays, bounds),
            waiting=_waiting(path, document["rows"], document["spent"]),
        )

    def is_possible(self, settings: dict[str, Any], persons: Persons | None) -> bool:
        """Return whether a stream can have come to this."""
        d = settings.get("n_features")
        return (
            0 <= self.used <= self.spent
            and ("unit" in settings) == (d is not None)
            and (d is None or _is_unit(settings["unit"]))
            and ("read" in settings) == (d is not None)
            and (d is None or _is_reading(settings["read"]))
            and (self.bounds is None or (d is not None and _are_bounds(self.bounds, d)))
            and (self.iterate is None or _is_possible(self.iterate, settings))
            and all(_is_table(rows, (len(rows), d), finite=False) for rows in self.waiting)
            and self._are_possible(persons, settings.get("max_arrivals"))
        )

    def _are_possible(self, persons: Persons | None, most: Any) -> bool:
        """Return whether the persons have as many records as came, and nobody too many."""
        if persons is None or most is None:
            return persons is None and most is None
        return (
            type(most) is int
            and sum(persons.counts.values()) == self.spent + self.buffered
            and max(persons.counts.values(), default=0) <= most
        )


@dataclass(slots=True, kw_only=True, eq=False)
class DailyProgress(Progress):
    """What came on every day, and what was released.

    Attributes
    ----------
    attempts : int
        Where draws stand: a begun one takes the next odd number, a kept one the even number after.
    count : int
        Rows, or persons on each day, so far.
    sums : array of shape (days, d (d + 1)/2) or None
        The exact second moments of days.
    drawn : array of shape (days, d (d + 1)/2) or None
        What was released; one day shorter where a draw was cut off.

    """

    what: ClassVar[str] = "running release"
    formats: ClassVar[tuple[str, ...]] = (
        "eigenveil-days/2",
        "eigenveil-days/1",  # has digests of rows, which nothing needs
    )
    notice: ClassVar[str] = (
        "PRIVATE: holds the exact second moment of every day. Keep it like the table itself, "
        "publish only what release_ saves."
    )
    noted: ClassVar[Kinds] = {"attempts": (int,), "count": (int,)}

    attempts: int = 0
    count: int = 0
    sums: NDArray[np.int64] | None = None
    drawn: NDArray[np.float64] | None = None

    @property
    def position(self) -> int:
        """The number of the last draw that was begun or kept."""
        return self.attempts

    @property
    def days(self) -> int:
        """Number of days that came."""
        return 0 if self.sums is None else len(self.sums)

    @property
    def released(self) -> int:
        """Number of days that were released."""
        return 0 if self.drawn is None else len(self.drawn)

    @property
    def next_attempt(self) -> int:
        """The number of a draw that begins now: odd."""
        return self.attempts + 1 + self.attempts % 2

    def moments(self, *, exact: bool) -> DailyMoments:
        """Return the second moments of days."""
        assert self.sums is not None  # a day came
        return DailyMoments(self.sums, self.count, exact)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the sums of days, and what was released."""
        arrays = {"sums": self.sums, "drawn": self.drawn}
        return {name: array for name, array in arrays.items() if array is not None}

    @classmethod
    def read(cls, document: dict[str, Any], arrays: dict[str, NDArray[Any]], path: Path) -> Self:
        """Return the progress of a stored running release."""
        noted = {name: document[name] for name in cls.noted}
        return cls(**noted, sums=arrays.get("sums"), drawn=arrays.get("drawn"))

    def is_possible(self, settings: dict[str, Any], persons: Persons | None) -> bool:
        """Return whether a running release can have come to this."""
        most, width = settings.get("days_per_group"), settings.get("width")
        if persons is None or type(most) not in (int, type(None)):
            return False
        if self.sums is None or width is None:
            return self.sums is width is self.drawn is None and not persons.counts
        d, horizon, column = settings["n_features"], settings["horizon"], settings["unit"][1]
        Unit(*settings["unit"])
        triangle = width * (width + 1) // 2
        return (
            type(width) is int
            and type(horizon) is int
            and d <= width <= d + 1
            and (column is None or type(column) is str)
            and max(persons.counts.values(), default=0) <= (most or 0)
            and _is_table(self.sums, (self.days, triangle), kind=np.int64)
            and (self.drawn is None or _is_table(self.drawn, (self.released, triangle)))
            and 1 <= self.days <= horizon
            and self.released in (self.days, self.days - 1)
            and self.attempts >= self.released
            and self.count >= 0
        )


def _require_possible(state: State[Any]) -> None:
    """Raise `ValueError` for what nobody can have noted; all that follows relies on it."""
    progress, settings = state.progress, state.settings
    for of, noted in ((state, _NOTED), (progress, progress.noted)):
        if any(type(getattr(of, name)) not in kinds for name, kinds in noted.items()):
            raise ValueError
    d, names = settings.get("n_features"), settings.get("feature_names")
    possible = (
        _are_words(state.labels)
        and ("feature_names" in settings) == (d is not None)
        and (d is None or (type(d) is int and d >= 1))
        and (names is None or (_are_words(names) and len(names) == d))
        and settings.get("ids") in (None, "text", "numbers")  # as earlier versions note
        and progress.is_possible(settings, state.persons)
    )
    if not possible:
        raise ValueError


def _are_bounds(bounds: RowBounds, d: int) -> bool:
    """Return whether a first batch may have released these bounds on rows."""
    found, columns = bounds.distances, bounds.columns
    return (
        _is_table(bounds.centre, (d,))
        and type(bounds.centre_error) in (float, int)
        and 0 <= bounds.centre_error < math.inf
        and _is_positive(bounds.stretch)
        and (bounds.clipped is None or (found is not None and _is_positive(bounds.clipped)))
        and (bounds.reach is None or (found is not None and _is_positive(bounds.reach)))
        and (found is None or _are_distances(found))
        and (columns is None or (found is not None and _are_scales(columns, d)))
    )


def _are_distances(found: NoisyDistances) -> bool:
    return (
        type(found.per_octave) is int
        and found.per_octave >= 1
        and _is_positive(found.rows)
        and _is_positive(found.unseen)
        and _is_table(found.counts, (NO_EXPONENT // 2 * found.per_octave,))
        and bool((found.counts >= 0).all())
    )


def _are_scales(columns: ReleasedScales, d: int) -> bool:
    """Return whether scales are positive numbers, and variances have noise."""
    not_negative = (columns.first, columns.least, columns.centre_error)
    finite = (columns.scale, columns.turn, columns.variances, *not_negative)
    return (
        _is_positive(columns.limit)
        and all(_is_table(each, (d,)) for each in finite)
        and _is_table(columns.noise, (d,), finite=False)
        and all(bool((each > 0).all()) for each in (columns.scale, columns.turn, columns.noise))
        and all(bool((each >= 0).all()) for each in not_negative)
    )


def _are_positive(array: Any, d: int) -> bool:
    return _is_table(array, (d,)) and bool((array > 0).all())


def _is_positive(number: Any) -> bool:
    return type(number) is float and 0 < number < math.inf


def _is_unit(unit: Any) -> bool:
    return set(unit) == {"name", "column"} and asdict(Unit(**unit)) == unit


def _is_reading(read: Any) -> bool:
    return (
        set(read) == {"encoding", "remarks"}
        and all(_is_encoded(**noted) for noted in read["encoding"].values())
        and _are_words(read["remarks"])
    )


def _is_encoded(levels: Any = None, days_since: Any = None) -> bool:
    """Return whether a column is noted as one of levels, or of days."""
    if levels is None:
        return isinstance(days_since, str)
    return days_since is None and _are_words(levels)


def _are_words(words: Any) -> bool:
    return isinstance(words, list) and all(isinstance(word, str) for word in words)


def _is_table(
    array: Any, shape: tuple[Any, ...], *, kind: type = np.float64, finite: bool = True
) -> bool:
    typed = isinstance(array, np.ndarray) and array.dtype == kind and array.shape == shape
    return typed and not (finite and not np.isfinite(array).all())


def _is_possible(iterate: OnePassState, settings: dict[str, Any]) -> bool:
    """Return whether a method can stand there, after at least as many directions as it is asked
    for.
    """
    d, k = settings["n_features"], settings["n_components"]
    numbers = (
        iterate.noise_variance,
        iterate.doubt,
        iterate.trace_weight,
        iterate.trace_noise,
    )
    counts = (iterate.records, iterate.steps)
    return (
        iterate.basis.ndim == 2
        and k <= iterate.basis.shape[1] <= d
        and all(
            _is_table(each, (d, iterate.basis.shape[1])) for each in (iterate.basis, iterate.image)
        )
        and all(type(number) is float and number >= 0 for number in numbers)
        and (iterate.column_noise is None or _are_positive(iterate.column_noise, d))
        and type(iterate.trace) is float
        and all(type(count) is int and count >= 0 for count in counts)
    )


def _noted_bounds(bounds: RowBounds | None) -> dict[str, Any]:
    """Return the single numbers among released bounds on rows."""
    if bounds is None:
        return {"centre_error": 0.0}
    found, columns = bounds.distances, bounds.columns
    seen = None
    if found is not None:
        seen = {"rows": found.rows, "unseen": found.unseen, "per_octave": found.per_octave}
    return {
        "centre_error": bounds.centre_error,
        "distances": seen,
        "column_limit": None if columns is None else columns.limit,
        "stretch": bounds.stretch,
        "clipped": bounds.clipped,
        "reach": bounds.reach,
    }


def _bound_arrays(bounds: RowBounds) -> dict[str, NDArray[np.float64]]:
    found, columns = bounds.distances, bounds.columns
    distances = {} if found is None else {"distances": found.counts}
    scales = {} if columns is None else {name: getattr(columns, name) for name in _BY_COLUMN}
    return {"centre": bounds.centre, **distances, **scales}


def _bounds(document: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> RowBounds | None:
    if "centre" not in arrays:
        if document["centre_error"] != 0:
            raise ValueError
        return None
    found = columns = None
    if "distances" in arrays:  # which earlier formats do not have
        found = NoisyDistances(arrays["distances"], **document["distances"])
    if "scale" in arrays:
        d = arrays["scale"].size
        # Format 7 has neither: its columns are seen in the present scale alone.
        later = {
            "first": np.zeros(d),
            "centre_error": np.full(d, document["centre_error"] / d),
        }
        by_column = {name: (later | arrays)[name] for name in _BY_COLUMN}
        columns = ReleasedScales(limit=document["column_limit"], **by_column)
    return RowBounds(
        centre=arrays["centre"],
        centre_error=document["centre_error"],
        distances=found,
        columns=columns,
        stretch=document.get("stretch", 1.0),
        clipped=document.get("clipped"),
        reach=document.get("reach", document.get("clipped")),
    )


def _iterate(arrays: dict[str, NDArray[Any]], bounds: RowBounds | None) -> OnePassState | None:
    if not any(name.startswith("iterate_") for name in arrays):
        return None
    arrays = {"iterate_trace_noise": np.zeros(()), **arrays}  # which earlier formats do not have
    values: dict[str, Any] = {}
    for each in fields(OnePassState):
        if each.name != "column_noise" or "iterate_column_noise" in arrays:
            stored = arrays[f"iterate_{each.name}"]
            values[each.name] = stored if stored.ndim else stored.item()
    iterate = OnePassState(**values)
    columns = None if bounds is None else bounds.columns
    if columns is None or iterate.column_noise is not None or not iterate.steps:
        return iterate
    # Format 7 states the noise of the leading directions: that of hidden columns is larger.
    least = np.ones(len(iterate.basis))
    return replace(
        iterate, column_noise=np.maximum(least, columns.noise / iterate.noise().on_diagonal)
    )


def _waiting(path: Path, rows: dict[str, Any] | None, spent: int) -> list[NDArray[np.float64]]:
    """Return the records that were not spent since their file was written."""
    if rows is None:
        return []
    if not 0 <= rows["first"] <= spent:
        raise ValueError
    left = read_rows(path, rows["file"], rows["sha256"])[spent - rows["first"] :]
    return [left] if len(left) else []
