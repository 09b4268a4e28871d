"""Private states of streams and continual releases, in memory and on disk.

The state is private: it has labels of what came, and beside it lie the records that
wait for the next batch (`eigenveil.storage.state_file`). Both files are readable by their owner
only and replaced as a whole, so that a crash leaves the old or the new ones; other rows that it
leaves are removed by the next call.

Write-ahead: records are noted as spent before noise is drawn on them. A crash in between loses that
batch; no record is used twice. A state is replaced only if it is the one that was loaded. An older
copy would use records again: the ledger, where there is one, knows how far the stream had come.
Proof: docs/proofs/streaming.md.

The state is PRIVATE: it holds the exact second moment of every day. It is one file
(`eigenveil.storage.state_file`), readable by its owner only and replaced as a whole, so that a
crash leaves the old or the new one.

Write-ahead: the second moment of a day and the number of the attempt are on disk, and noted in the
ledger where there is one, before noise is drawn; what was drawn is on disk before it is published.
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
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.estimators.persons import StreamPersons
from eigenveil.exact.clip import NO_EXPONENT
from eigenveil.exact.daily_moments import DailyMoments
from eigenveil.exceptions import DuplicateBatchError, StateError
from eigenveil.mechanisms.continual import DailyGate
from eigenveil.mechanisms.distances import NoisyDistances
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.one_pass import OnePassState
from eigenveil.mechanisms.released_scales import ReleasedScales
from eigenveil.mechanisms.row_bounds import RowBounds
from eigenveil.messages import NEW_LABEL, RESTORE
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.adjacency import ROW, Adjacency, Unit
from eigenveil.privacy.cost import Cost
from eigenveil.privacy.ledger import Ledger
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

if TYPE_CHECKING:
    from eigenveil.estimators.persons import StreamPersons


_KINDS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "settings": (dict,),
    "ledger": (str, type(None)),
    "entry": (str, type(None)),
    "spent": (int,),
    "used": (int,),
    "exact": (bool,),
    "finished": (bool,),
    "arrival": (bool,),
}


def require_possible(stream: "Stream") -> None:
    """Raise `ValueError` for what no stream can have noted; all that follows relies on it."""
    for name, kinds in _KINDS.items():
        if type(getattr(stream, name)) not in kinds:
            raise ValueError
    settings, iterate = stream.settings, stream.iterate
    d, names = settings.get("n_features"), settings.get("feature_names")
    possible = (
        0 <= stream.used <= stream.spent
        and _are_words(stream.labels)
        and ("feature_names" in settings) == (d is not None)
        and ("unit" in settings) == (d is not None)
        and (d is None or _is_unit(settings["unit"]))
        and ("read" in settings) == (d is not None)
        and (d is None or _is_reading(settings["read"]))
        and (d is None or (type(d) is int and d >= 1))
        and (names is None or (_are_words(names) and len(names) == d))
        and (stream.bounds is None or (d is not None and _are_bounds(stream.bounds, d)))
        and (iterate is None or _is_possible(iterate, settings))
        and all(_is_table(rows, (len(rows), d), finite=False) for rows in stream.waiting)
        and _are_possible(stream.persons, stream)
    )
    if not possible:
        raise ValueError


def _are_possible(persons: "StreamPersons | None", stream: "Stream") -> bool:
    """Return whether the persons have as many records as came, and nobody too many."""
    most = stream.settings.get("max_arrivals")
    if persons is None or most is None:
        return persons is None and most is None
    return (
        type(most) is int
        and stream.settings.get("ids") in (None, "text", "numbers")  # as earlier versions note
        and sum(persons.counts.values()) == stream.spent + stream.buffered
        and max(persons.counts.values(), default=0) <= most
    )


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


def _is_table(array: Any, shape: tuple[Any, ...], *, finite: bool = True) -> bool:
    typed = isinstance(array, np.ndarray) and array.dtype == np.float64 and array.shape == shape
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


ADJACENCY = Adjacency.REPLACE_ONE  # of every stream: the number of records is public
_FORMAT = "eigenveil-stream/8"  # another one where OnePassState or the settings have other fields

# Streams of 7 have one noise level for all columns; 6 and 5 have no distances; 5 has digests of
# rows, which nothing needs.
_READ = (_FORMAT, "eigenveil-stream/7", "eigenveil-stream/6", "eigenveil-stream/5")

_NOTICE = (
    "PRIVATE: holds records that wait for their batch. Keep it like the table itself, publish only "
    "what release_ saves."
)

_BY_COLUMN = ("scale", "turn", "first", "least", "variances", "noise", "centre_error")  # of scales

_NOTED = (
    "name",
    "settings",
    "ledger",
    "entry",
    "spent",
    "used",
    "exact",
    "finished",
    "arrival",
    "rows",
    "labels",
)


class _OtherVersionError(StateError):
    """A whole state, which this version cannot read."""


@dataclass(slots=True, kw_only=True, eq=False)
class Stream:
    """Records that came, what was learnt from them and what waits. Private.

    Attributes
    ----------
    settings : dict
        What the stream was begun with; public.
    ledger : str or None
        The name of the ledger that pays.
    name : str
        A random one, by which the ledger knows the stream.
    entry : str or None
        Hash of the entry that paid, once it is known.
    spent, used : int
        Records that were handed to batches, and those of them that something was learnt from.
    arrival : bool
        Whether records were used as they came, not in a secret random order.
    bounds, iterate : RowBounds, OnePassState or None
        What was released so far.
    rows : dict or None
        The file of records beside the state: its name, its sum, and the number of its first record.
    labels : list of str
        Of what arrived.
    persons : StreamPersons or None
        Whose records came, where persons are protected.
    waiting : list of arrays
        Rows that no batch has had yet.
    gate : Gate or None
        The allotment; not part of the file.
    path : Path or None
        Where links led to the state when the call began; not part of the file.
    found : str or None
        Digest of the state on disk as it was loaded or saved last; None where there is none yet.
    account : Ledger or None
        The ledger that notes how far the stream has come; not part of the file.

    """

    settings: dict[str, Any]
    ledger: str | None
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    entry: str | None = None
    spent: int = 0
    used: int = 0
    exact: bool = True
    finished: bool = False
    arrival: bool = True
    bounds: RowBounds | None = None
    iterate: OnePassState | None = None
    rows: dict[str, Any] | None = None
    labels: list[str] = field(default_factory=list)
    persons: StreamPersons | None = None
    waiting: list[NDArray[np.float64]] = field(default_factory=list)
    gate: Gate | None = None
    path: Path | None = None
    found: str | None = None
    account: Ledger | None = None

    @property
    def buffered(self) -> int:
        """How many rows wait."""
        return sum(map(len, self.waiting))

    @property
    def merged_ids(self) -> bool:
        """Whether 7 and 0007 were one person from the start, as in streams of this version."""
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

    def arrive(self, chunk: NDArray[Any], label: str | None) -> None:
        """Take rows in."""
        if label is not None and label not in self.labels:
            self.labels.append(label)
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

    def reopened(
        self,
        total: Cost,
        label: str,
        noise: NoiseSource,
        ledger: Ledger | None,
        charge: Cost,
        unit: Unit,
    ) -> Gate:
        """Return a gate that goes on with the allotment, charged once for all processes."""
        entry = self.entry
        if ledger is not None and entry is None:
            # A process may have died between the charge and its note.
            entry = next((e.hash for e in ledger.entries if e.label == label), None)
        gate = Gate.resume(
            total,
            label=label,
            adjacency=ADJACENCY,
            ledger=ledger,
            noise=noise,
            entry=entry,
            position=self.spent,
            charge=charge,
            charged_unit=unit,
        )
        gate.exact = self.exact
        if ledger is not None and entry is None:
            ledger.check(charge, adjacency=ADJACENCY, unit=unit)
        return gate

    def save(self, *, records: bool) -> None:
        """Replace the state durably; and the file of ``records``, where some came or went.

        Without, those that were spent meanwhile stay in it, and are known to be. A state that is
        not the one this stream was loaded from is left alone.
        """
        assert self.path is not None  # who else has a state
        former = self.rows
        with unchanged(self.path, self.found):
            if records:
                self._save_records(self.path)
            data = self._packed()
            replace_file(self.path, data)
        self.found = hashlib.sha256(data).hexdigest()
        if former is not None and former != self.rows:
            remove_rows(self.path.with_name(former["file"]))

    def _packed(self) -> bytes:
        arrays: dict[str, Any] = {}
        if self.bounds is not None:
            arrays |= _bound_arrays(self.bounds)
        if self.iterate is not None:
            for each in fields(self.iterate):
                value = getattr(self.iterate, each.name)
                if value is not None:
                    arrays[f"iterate_{each.name}"] = np.asarray(value)
        if self.persons is not None:
            arrays |= self.persons.arrays()
        noted = {name: getattr(self, name) for name in _NOTED} | _noted_bounds(self.bounds)
        return pack_state({"format": _FORMAT, "notice": _NOTICE, **noted}, arrays)

    def _save_records(self, path: Path) -> None:
        if not self.waiting:
            self.rows = None
            return
        self.waiting = [np.concatenate(self.waiting)]
        name, sha256 = write_rows(path, self.waiting[0])
        self.rows = {"file": name, "first": self.spent, "sha256": sha256}

    @classmethod
    def load(cls, path: Path) -> "Stream":
        """Read the file, or refuse one that is not whole."""
        try:
            data = read_regular(path)
            document, packed = unpack_state(data, path.name)
            if document["format"] not in _READ:
                raise _OtherVersionError(
                    "the state is of another version of eigenveil: go on with that one"
                )
            arrays = decode_arrays(packed)
            stream = cls(
                **{name: document[name] for name in _NOTED},
                bounds=(bounds := _bounds(document, arrays)),
                iterate=_iterate(arrays, bounds),
                persons=StreamPersons.from_arrays(arrays),
                waiting=_waiting(path, document["rows"], document["spent"]),
                path=path,
                found=hashlib.sha256(data).hexdigest(),
            )
            require_possible(stream)
        except (MemoryError, _OtherVersionError):
            raise
        except Exception:  # of odd files there is no end of ways to fail
            raise StateError(
                f"{path.name} is not a whole state of a stream: start a new stream with records "
                "that were not in it; an older copy would use records twice"
            ) from None
        return stream


@contextmanager
def kept_stream(state: str | Path, *, afresh: bool) -> Iterator[tuple[Path, Stream | None]]:
    """Lock a state; yield its path without links, and the stream there, None where it is new."""
    path = real_path(state)  # under one name only is it one stream
    require_outside(path)
    with locked(path):
        there = os.path.lexists(path)
        if path.is_file() and os.lstat(path).st_nlink > 1:
            raise StateError(
                f"{path.name} has several names (hard links), under each of which it would be "
                "another stream: keep one of them"
            )
        if there and afresh:
            raise StateError(
                f"{path.name} holds a stream, and fit starts afresh: go on with partial_fit, "
                "or choose another state"
            )
        yield path, Stream.load(path) if there else None


def sweep(stream: Stream) -> None:
    """Remove rows and drafts that killed calls left beside a state; under its lock only."""
    assert stream.path is not None  # who else has a state
    kept = None if stream.rows is None else stream.rows["file"]
    left = leftovers(stream.path, kept)
    if left:
        with unchanged(stream.path, stream.found):  # they are not of a save that is going on
            for path in left:
                remove_rows(path)


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


_DAYS_FORMAT = "eigenveil-days/2"

_DAYS_READ = (
    _DAYS_FORMAT,
    "eigenveil-days/1",
)  # the latter has digests of rows, which nothing needs

_DAYS_NOTICE = (
    "PRIVATE: holds the exact second moment of every day. Keep it like the table itself, publish "
    "only what release_ saves."
)

_DAYS_KINDS: dict[str, tuple[type, ...]] = {
    "settings": (dict,),
    "ledger": (str, type(None)),
    "name": (str,),
    "entry": (str, type(None)),
    "attempts": (int,),
    "count": (int,),
    "exact": (bool,),
    "labels": (list,),
    "persons": (dict,),
}


@dataclass(slots=True, kw_only=True, eq=False)
class DailyState:
    """What came on every day, and what was released. Private.

    Attributes
    ----------
    settings : dict
        What it was begun with; public.
    ledger, entry : str or None
        The name of the ledger that pays, and the hash of the entry that paid.
    name : str
        A random one, by which the ledger knows it.
    attempts : int
        Where draws stand: a begun one takes the next odd number, a kept one the even number after.
    count : int
        Rows, or persons on each day, so far.
    exact : bool
        Whether numerics were exact so far.
    labels : list of str
        Of days that came.
    persons : dict of int
        On how many days each person came, by a hash of the id.
    sums : array of shape (days, d (d + 1)/2) or None
        The second moments of days.
    drawn : array of shape (days, d (d + 1)/2) or None
        What was released; one day shorter where a draw was cut off.
    gate : DailyGate or None
        The allotment; not part of the file.
    process : int
        The process that has it in memory; not part of the file.
    path, found
        Where it is kept, and the digest of what lies there; None for one in memory.

    """

    settings: dict[str, Any]
    ledger: str | None
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    entry: str | None = None
    attempts: int = 0
    count: int = 0
    exact: bool = True
    labels: list[str] = field(default_factory=list)
    persons: dict[str, int] = field(default_factory=dict)
    sums: NDArray[np.int64] | None = None
    drawn: NDArray[np.float64] | None = None
    gate: DailyGate | None = None
    process: int = field(default_factory=os.getpid)
    path: Path | None = None
    found: str | None = None

    @property
    def days(self) -> int:
        """Number of days that came."""
        return 0 if self.sums is None else len(self.sums)

    @property
    def released(self) -> int:
        """Number of days that were released."""
        return 0 if self.drawn is None else len(self.drawn)

    @property
    def moments(self) -> DailyMoments:
        """The second moments of days."""
        assert self.sums is not None  # a day came
        return DailyMoments(self.sums, self.count, self.exact)

    @property
    def next_attempt(self) -> int:
        """The number of a draw that begins now: odd."""
        return self.attempts + 1 + self.attempts % 2

    @property
    def merged_ids(self) -> bool:
        """Whether 7 and 0007 were one person from the start, as in days of this version."""
        return self.settings.get("ids") != "text"

    def require_new(self, label: str | None) -> None:
        """Refuse a label that came before."""
        if label is not None and label in self.labels:
            raise DuplicateBatchError(
                "a day of this label came before, and each record is used once: name new "
                "records otherwise, ",
                NEW_LABEL,
                "; what was released last comes again from ",
                RESTORE,
            )

    def save(self) -> None:
        """Replace the state durably, where it has a path."""
        if self.path is None:
            return
        noted = {name: getattr(self, name) for name in _DAYS_KINDS}
        arrays = {"sums": self.sums, "drawn": self.drawn}
        there = {name: array for name, array in arrays.items() if array is not None}
        data = pack_state({"format": _DAYS_FORMAT, "notice": _DAYS_NOTICE, **noted}, there)
        with unchanged(self.path, self.found):
            replace_file(self.path, data)
        self.found = hashlib.sha256(data).hexdigest()

    @classmethod
    def load(cls, path: Path) -> "DailyState":
        """Read the file, or refuse one that is not whole."""
        try:
            data = read_regular(path)
            document, packed = unpack_state(data, path.name)
            arrays = decode_arrays(packed)
            if document["format"] not in _DAYS_READ:
                raise ValueError
            state = cls(
                **{name: document[name] for name in _DAYS_KINDS},
                sums=arrays.get("sums"),
                drawn=arrays.get("drawn"),
                path=path,
                found=hashlib.sha256(data).hexdigest(),
            )
            _require_possible(state)
        except MemoryError:
            raise
        except Exception:  # of odd files there is no end of ways to fail
            raise StateError(
                f"{path.name} is not a whole state of days: start anew with records that were not "
                "in it; an older copy would draw on days twice"
            ) from None
        return state


@contextmanager
def kept_days(state: str | Path) -> Iterator[tuple[Path, DailyState | None]]:
    """Lock a state; yield its path without links, and what lies there, None where it is new."""
    path = real_path(state)  # under one name only is it one state
    require_outside(path)
    with locked(path):
        if path.is_file() and os.lstat(path).st_nlink > 1:
            raise StateError(
                f"{path.name} has several names (hard links), under each of which it would be "
                "another state: keep one of them"
            )
        yield path, DailyState.load(path) if os.path.lexists(path) else None


def _require_possible(state: DailyState) -> None:
    """Raise `ValueError` for what nobody can have noted; all that follows relies on it."""
    for name, kinds in _DAYS_KINDS.items():
        if type(getattr(state, name)) not in kinds:
            raise ValueError
    width, names = state.settings.get("width"), state.settings.get("feature_names")
    d, horizon = state.settings.get("n_features"), state.settings.get("horizon")
    most, begun = state.settings.get("days_per_group"), state.sums is not None
    unit = Unit(*state.settings["unit"]) if begun else ROW
    possible = (
        all(isinstance(word, str) for word in (*state.labels, *(names or ())))
        and (type(most) is int or (most is None and not state.persons))
        and all(type(days) is int and 1 <= days <= (most or 0) for days in state.persons.values())
        and state.settings.get("ids") in (None, "text", "numbers")
        and state.attempts >= 0
        and state.count >= 0
        and begun == (width is not None)
        and (state.drawn is None or begun)
    )
    if begun and possible:
        possible = (
            type(width) is int
            and type(d) is int
            and type(horizon) is int
            and d <= width <= d + 1
            and (names is None or (type(names) is list and len(names) == d))
            and (unit.column is None or type(unit.column) is str)
            and "feature_names" in state.settings
            and _is_day_table(state.sums, np.int64, width)
            and (state.drawn is None or _is_day_table(state.drawn, np.float64, width))
            and 1 <= state.days <= horizon
            and state.released in (state.days, state.days - 1)
            and state.attempts >= state.released
        )
    if not possible:
        raise ValueError


def _is_day_table(array: Any, kind: type, width: int) -> bool:
    triangle = width * (width + 1) // 2
    typed = array.dtype == kind and array.ndim == 2 and array.shape[1] == triangle
    return bool(typed and np.isfinite(array).all())
