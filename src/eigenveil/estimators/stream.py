"""Where a stream of records stands, in memory and on disk.

The state is private. It is one uncompressed zip of ``state.json``, ``arrays.npz`` (no pickle) and
``SHA256SUMS``, with labels and digests of what came; beside it lie the records that wait for the
next batch, in a file that the state names and knows the sum of. Both are readable by their owner
only and replaced as a whole, so that a crash leaves the old or the new ones.

Write-ahead: records are noted as spent before noise is drawn on them. A crash in between loses that
batch; no record is used twice. Restoring an old copy of the file would use records again: that it
cannot notice. Proof: docs/proofs/streaming.md.
"""

import glob
import hashlib
import io
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.source import Batch
from eigenveil.exceptions import BusyError, DuplicateBatchError, StateError, VerificationError
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.pca.one_pass import Iterate
from eigenveil.release import storage

__all__ = ["FEWEST_COMPARED", "Stream", "digest", "locked", "replace_file"]

FEWEST_COMPARED = 32  # rows of a chunk that cannot well be the same as another's by chance
_FORMAT = "eigenveil-stream/2"  # another one where Iterate has other fields
_NOTICE = (
    "PRIVATE: holds records that wait for their batch. Keep it like the table itself, publish only "
    "what release_ saves."
)
_NOTED = (
    "name",
    "settings",
    "ledger",
    "entry",
    "spent",
    "used",
    "exact",
    "finished",
    "centre_error",
    "rows",
    "labels",
    "digests",
)


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
    centre, iterate : array, Iterate or None
        What was released so far.
    centre_error : float
        Expected squared error of the centre: of unit rows, as a share; public.
    rows : dict or None
        The file of records beside the state: its name, its sum, and the number of its first record.
    labels, digests : lists of str
        Of what arrived.
    waiting : list of arrays
        Rows that no batch has had yet.
    gate : Gate or None
        The allotment; not part of the file.

    """

    settings: dict[str, Any]
    ledger: str | None
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    entry: str | None = None
    spent: int = 0
    used: int = 0
    exact: bool = True
    finished: bool = False
    centre: NDArray[np.float64] | None = None
    centre_error: float = 0.0
    iterate: Iterate | None = None
    rows: dict[str, Any] | None = None
    labels: list[str] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    waiting: list[NDArray[np.float64]] = field(default_factory=list)
    gate: Gate | None = None

    @property
    def buffered(self) -> int:
        """How many rows wait."""
        return sum(map(len, self.waiting))

    def require_new(self, label: str | None, digests: list[str]) -> None:
        """Refuse what arrived before."""
        if label is not None and label in self.labels:
            raise DuplicateBatchError(
                "a batch of this label arrived before, and each record is used once: give a new "
                "label to new records"
            )
        if label is None and not set(digests).isdisjoint(self.digests):
            raise DuplicateBatchError(
                "these rows arrived before, and each record is used once: pass batch='...' if they "
                "are other records with the same values"
            )

    def arrive(self, chunk: NDArray[Any], label: str | None) -> None:
        """Take rows in."""
        if len(chunk) >= FEWEST_COMPARED:
            self.digests.append(digest(chunk))
        if label is not None and label not in self.labels:
            self.labels.append(label)
        with np.errstate(all="ignore"):  # a warning would depend on the records
            rows = np.array(chunk, dtype=np.float64, order="C")
        if len(rows):
            self.waiting.append(rows)

    def take(self, size: int) -> Batch:
        """The next records; from now on they are spent."""
        first = self.spent
        rows = self.waiting[0] if len(self.waiting) == 1 else np.concatenate(self.waiting)
        batch = Batch(rows[:size], first)
        self.waiting = [rows[size:].copy()] if len(rows) > size else []
        self.spent += size
        return batch

    def save(self, path: Path, *, records: bool) -> None:
        """Replace the state durably; and the file of ``records``, where some came or went.

        Without, those that were spent meanwhile stay in it, and are known to be.
        """
        if records:
            self._save_records(path)
        arrays: dict[str, Any] = {}
        if self.centre is not None:
            arrays["centre"] = self.centre
        if self.iterate is not None:
            for each in fields(self.iterate):
                arrays[f"iterate_{each.name}"] = np.asarray(getattr(self.iterate, each.name))
        packed = io.BytesIO()
        np.savez(packed, allow_pickle=False, **arrays)
        document = {
            "format": _FORMAT,
            "notice": _NOTICE,
            **{name: getattr(self, name) for name in _NOTED},
        }
        content = {
            "state.json": (json.dumps(document, indent=2, allow_nan=False) + "\n").encode(),
            "arrays.npz": packed.getvalue(),
        }
        content[storage.SUMS] = _sums(content)
        replace_file(path, storage.zipped(content))
        if records:
            _remove(path, keep=None if self.rows is None else self.rows["file"])

    def _save_records(self, path: Path) -> None:
        if not self.waiting:
            self.rows = None
            return
        self.waiting = [np.concatenate(self.waiting)]
        packed = io.BytesIO()
        np.save(packed, self.waiting[0], allow_pickle=False)
        data = packed.getvalue()
        name = f"{path.name}.{secrets.token_hex(4)}.rows"
        replace_file(path.with_name(name), data)
        self.rows = {
            "file": name,
            "first": self.spent,
            "sha256": hashlib.sha256(data).hexdigest(),
        }

    @classmethod
    def load(cls, path: Path) -> "Stream":
        """Read the file, or refuse one that is not whole."""
        try:
            content = storage.unzip(path.read_bytes(), path.name)
            if set(content) != {"state.json", "arrays.npz", storage.SUMS}:
                raise ValueError
            if content[storage.SUMS] != _sums(content):
                raise ValueError
            document = json.loads(content["state.json"])
            later = document["format"] != _FORMAT
            with np.load(io.BytesIO(content["arrays.npz"]), allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            iterate = None if later else _iterate(arrays)
            noted = {} if later else {name: document[name] for name in _NOTED}
            waiting = [] if later else _waiting(path, document["rows"], document["spent"])
        except (OSError, ValueError, KeyError, TypeError, EOFError, VerificationError):
            raise StateError(
                f"{path.name} is not a whole state of a stream: restore no older copy, which would "
                "use records twice; start a new stream with records that were not in this one"
            ) from None
        if later:
            raise StateError("the state is of another version of eigenveil: go on with that one")
        return cls(
            **noted,
            centre=arrays.get("centre"),
            iterate=iterate,
            waiting=waiting,
        )


def digest(chunk: NDArray[Any]) -> str:
    """Of the bytes of the rows; as private as they are."""
    with np.errstate(all="ignore"):  # a warning would depend on the records
        rows = np.ascontiguousarray(chunk, dtype=np.float64)
    return hashlib.sha256(f"{rows.shape} ".encode() + rows.tobytes()).hexdigest()


@contextmanager
def locked(path: Path, seconds: float = 0.0) -> Iterator[None]:
    """Keep others from the file; the system lets go of it when a process dies.

    Who holds it is waited for so long.
    """
    connection = _lock(path, seconds)
    try:
        yield
    finally:
        connection.close()


def _lock(path: Path, seconds: float) -> sqlite3.Connection:
    # SQLite knows how to lock a file on every system; it writes nothing into this one.
    try:
        with suppress(FileExistsError):  # one that exists is not opened: closing it would unlock it
            os.close(os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        connection = sqlite3.connect(f"{path}.lock", timeout=seconds, isolation_level=None)
    except (OSError, sqlite3.OperationalError):
        raise StateError(f"cannot write {path}: is its folder there and writable?") from None
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.DatabaseError as error:
        connection.close()
        if "locked" in str(error):
            raise BusyError(
                f"{path.name} is in use by another process or estimator: wait until it is done, "
                "then call again"
            ) from None
        raise StateError(
            f"{path.name}.lock cannot be locked: is it the empty file it should be?"
        ) from None
    return connection


def _iterate(arrays: dict[str, NDArray[Any]]) -> Iterate | None:
    if "iterate_basis" not in arrays:
        return None
    stored = {each.name: arrays[f"iterate_{each.name}"] for each in fields(Iterate)}
    values: dict[str, Any] = {name: a if a.ndim else a.item() for name, a in stored.items()}
    return Iterate(**values)


def _waiting(path: Path, rows: dict[str, Any] | None, spent: int) -> list[NDArray[np.float64]]:
    """The records that were not spent since their file was written."""
    if rows is None:
        return []
    data = path.with_name(rows["file"]).read_bytes()
    if hashlib.sha256(data).hexdigest() != rows["sha256"]:
        raise ValueError
    left = np.load(io.BytesIO(data), allow_pickle=False)[spent - rows["first"] :]
    return [left] if len(left) else []


def _remove(path: Path, keep: str | None) -> None:
    """Files of records that no state names any more."""
    for other in path.parent.glob(f"{glob.escape(path.name)}.{'[0-9a-f]' * 8}.rows"):
        if other.name != keep:
            other.unlink(missing_ok=True)


def _sums(content: dict[str, bytes]) -> bytes:
    lines = (
        f"{hashlib.sha256(content[name]).hexdigest()}  {name}\n"
        for name in ("state.json", "arrays.npz")
    )
    return "".join(lines).encode()


def replace_file(path: Path, data: bytes) -> None:
    """Write beside the file, then put it in its place; both are on disk before this returns."""
    draft = path.with_name(f"{path.name}.new")
    try:
        draft.unlink(missing_ok=True)  # of a process that died; whoever comes here holds the lock
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
        if hasattr(os, "O_DIRECTORY"):  # elsewhere a folder cannot be opened
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError:
        raise StateError(f"cannot write {path}: is its folder there and writable?") from None
