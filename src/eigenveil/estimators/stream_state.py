"""Where a stream of records stands, in memory and on disk.

The state is private: it has labels of what came, and beside it lie the records that
wait for the next batch (`eigenveil.storage.state_file`). Both files are readable by their owner
only and replaced as a whole, so that a crash leaves the old or the new ones; other rows that it
leaves are removed by the next call.

Write-ahead: records are noted as spent before noise is drawn on them. A crash in between loses that
batch; no record is used twice. A state is replaced only if it is the one that was loaded. An older
copy would use records again: the ledger, where there is one, knows how far the stream had come.
Proof: docs/proofs/streaming.md.
"""

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.sources import Batch
from eigenveil.estimators.stream_persons import StreamPersons
from eigenveil.estimators.stream_possible import require_possible
from eigenveil.exceptions import DuplicateBatchError, StateError
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.pca.one_pass import OnePassState
from eigenveil.mechanisms.released_scales import ReleasedScales
from eigenveil.mechanisms.row_bounds import RowBounds
from eigenveil.mechanisms.scalars.distances import NoisyDistances
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.adjacency import Adjacency, Unit
from eigenveil.privacy.cost import Cost
from eigenveil.privacy.ledger import Ledger
from eigenveil.storage.durable import locked, replace_file, unchanged
from eigenveil.storage.paths import read_regular, real_path
from eigenveil.storage.places import require_outside
from eigenveil.storage.state_file import (
    decode_arrays,
    leftovers,
    pack_state,
    read_rows,
    remove_rows,
    unpack_state,
    write_rows,
)
from eigenveil.wording import NEW_LABEL, RESTORE

__all__ = [
    "ADJACENCY",
    "Stream",
    "kept_stream",
    "sweep",
]

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
