"""The file of a ledger: lines that carry their hash and the hash of the line before.

The first line holds the terms, every other one a charge or a note. A note may say that a release
failed after its charge, which stays spent. A line is written past all
buffers and waited for until the disk has it. A last line counts if its hash is right, with or
without its line end: an editor or a copy may have dropped that one byte. Any other last line
without its end was being written when its process died: nothing was drawn for it, and the next line
is written over it, with a warning.

All that is known is in this one file, and its lock belongs to it, whatever it is called. So a
second name (a link, a bind mount) is harmless, and a copy of the file is a copy of the ledger. A
file that was put in its place meanwhile is another ledger: that is looked at after locking, and
again after writing, before anything is drawn.
"""

import errno
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from eigenveil.exceptions import EigenveilError, LedgerError
from eigenveil.messages import Phrase
from eigenveil.privacy.accounting import parts_of
from eigenveil.privacy.adjacency import ROW, Adjacency, Unit
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.cost import Cost, cost_from_dict, cost_to_dict
from eigenveil.privacy.privacy_filters import Spent
from eigenveil.storage.durable import LockTimeoutError, lock, sync
from eigenveil.storage.paths import write_advice
from eigenveil.text import printable

_BUSY_SECONDS = 60.0
_FORMAT = "eigenveil-ledger/3"
_START = b'{"!":"eigenveil-ledger/'  # of every ledger: canonical JSON has this key first
_EARLIER = b"SQLite format 3\0"
_BLOCK = 1 << 12
_NEW = Phrase(
    python="Ledger.create(path, ...)",
    shell="eigenveil ledger init FILE --epsilon E --delta D",
    file="eigenveil ledger init FILE --epsilon E --delta D",
)
_GO_ON = Phrase(
    python="open it with Ledger(path)",
    shell="choose another name, or go on with that one",
    file="choose another name, or go on with that one",
)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a ledger was created with; ``alone`` caps what holds if no other owner is honest."""

    budget: Budget
    adjacency: Adjacency
    unit: str
    id: str
    alone: Budget | None = None

    def as_line(self) -> bytes:
        """Return the first line of a file."""
        document = {
            "!": _FORMAT,
            "adjacency": self.adjacency.value,
            "budget": self.budget.as_dict(),
            "id": self.id,
            "unit": self.unit,
            **({} if self.alone is None else {"alone": self.alone.as_dict()}),
        }
        return _line(document)[0]

    @classmethod
    def parse(cls, document: dict[str, Any]) -> "Terms":
        """Invert `as_line`."""
        if document["!"] != _FORMAT:
            raise LedgerError("the ledger is of a later version: update eigenveil")
        if document["unit"] not in ("row", "person") or not isinstance(document["id"], str):
            raise ValueError
        budget, adjacency = Budget(**document["budget"]), Adjacency(document["adjacency"])
        alone = Budget(**document["alone"]) if "alone" in document else None
        return cls(budget, adjacency, document["unit"], document["id"], alone)


@dataclass(frozen=True, slots=True)
class Entry:
    """One charge, or a note that costs nothing.

    Attributes
    ----------
    spent : Spent
        By this entry and all before.
    alone : Cost or None
        Where the cost counts on other owners of a secure sum: what it is without them.
    failed : int or None
        Of a note: the number of the charge that nothing was released for.
    groups : int or None
        How many groups or persons the table has, where that is public.

    """

    number: int
    time: str
    label: str
    cost: Cost
    hash: str
    unit: Unit
    spent: Spent
    alone: Cost | None = None
    failed: int | None = None
    groups: int | None = None

    @property
    def is_note(self) -> bool:
        """Whether it costs nothing."""
        return not any(parts_of(self.cost))

    @classmethod
    def parse(cls, document: dict[str, Any], digest: str) -> "Entry":
        """Return what a line says."""
        number, time, label = document["number"], document["time"], document["label"]
        if not (type(number) is int and isinstance(time, str) and isinstance(label, str)):
            raise TypeError
        unit = Unit(**document["unit"]) if "unit" in document else ROW
        if not isinstance(unit.column, (str, type(None))):
            raise TypeError
        spent = Spent.from_dict(document["spent"])
        cost = cost_from_dict(document["cost"])
        alone = cost_from_dict(document["alone"]) if "alone" in document else None
        failed, groups = document.get("failed"), document.get("groups")
        if not (failed is None or (type(failed) is int and 1 <= failed < number)):
            raise TypeError
        if not (groups is None or (type(groups) is int and groups >= 0 and unit.owns_many)):
            raise TypeError
        return cls(number, time, label, cost, digest, unit, spent, alone, failed, groups)


@dataclass(frozen=True, slots=True)
class Ends:
    """The first and the last line of a file, which are all that a charge needs.

    Attributes
    ----------
    terms : Terms
        What the first line says.
    last : Entry or None
        The newest one.
    hash : str
        That of the last line.
    end : int
        Where the next line goes.
    unfinished : bool
        Whether the next line is written over one that was cut off.

    """

    terms: Terms
    last: Entry | None
    hash: str
    end: int
    unfinished: bool

    @property
    def spent(self) -> Spent:
        """Return what all entries spent together."""
        return Spent() if self.last is None else self.last.spent

    def following(
        self,
        cost: Cost,
        spent: Spent,
        *,
        label: str,
        time: str,
        unit: Unit,
        alone: Cost | None = None,
        failed: int | None = None,
        groups: int | None = None,
    ) -> tuple[bytes, Entry]:
        """Return the line that comes next, and its entry."""
        document = {
            "cost": cost_to_dict(cost),
            "label": label,
            "number": 1 if self.last is None else self.last.number + 1,
            "previous": self.hash,
            "spent": spent.as_dict(),
            "time": time,
        }
        if unit.owns_many:
            document["unit"] = {"name": unit.name, "column": unit.column}
        if alone is not None:
            document["alone"] = cost_to_dict(alone)
        if failed is not None:
            document["failed"] = failed
        if groups is not None:
            document["groups"] = groups
        line, digest = _line(document)
        return line, Entry.parse(document, digest)


def create(path: Path, terms: Terms) -> None:
    """Write the first line of a new file; refuse one that has something in it.

    What a creation that was cut off has left, nothing or the beginning of a line, is written over.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o600))
        if not path.is_file():  # a pipe would keep us waiting
            raise OSError
        with path.open("r+b", buffering=0) as file, lock(file, seconds=_BUSY_SECONDS):
            found = _read(file, _BLOCK, 0)
            whole = os.fstat(file.fileno()).st_size == len(found)
            begins = found[: len(_START)] == _START[: len(found)]
            if not (whole and begins) or b"\n" in found or _is_whole(found):
                raise LedgerError(f"{printable(path.name)} exists already: ", _GO_ON)
            append(file, 0, terms.as_line())
            sync(path.parent)
    except (OSError, ValueError, LockTimeoutError) as error:
        raise LedgerError(f"cannot create {printable(path.name)}: {write_advice(error)}") from None


@contextmanager
def opened(path: Path, *, exclusive: bool) -> Iterator[FileIO]:
    """Open the file and hold its lock; whatever is wrong with it becomes a `LedgerError`."""
    name = printable(path.name)
    try:
        regular = path.is_file()  # neither a folder nor a pipe, which would keep us waiting
    except (OSError, ValueError):
        regular = False
    if not regular:
        raise LedgerError(f"no ledger at {name}: create one with ", _NEW)
    try:
        # No buffer: what is left in one would be written after the lock is gone.
        with (
            path.open("r+b" if exclusive else "rb", buffering=0) as file,
            lock(file, seconds=_BUSY_SECONDS, shared=not exclusive),
        ):
            _require_in_place(file, path)
            _require_ledger(file, name)
            yield file
            if exclusive:
                _require_in_place(file, path)
    except LockTimeoutError:
        raise LedgerError("the ledger is busy: another process holds it; try again") from None
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise LedgerError(f"cannot open {name}: is it a file you may read and write?") from None
        raise LedgerError(
            "the ledger cannot be read or written: check the file and its disk"
        ) from None


def _require_in_place(file: FileIO, path: Path) -> None:
    """Refuse a file that is no longer the one at its path."""
    try:
        same = os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except OSError:
        same = False
    if not same:
        raise LedgerError(
            "the ledger was moved or replaced while in use, and nothing was drawn: leave it in its "
            "place, and try again"
        )


def _require_ledger(file: FileIO, name: str) -> None:
    start = _read(file, len(_START), 0)
    if start.startswith(_EARLIER):
        raise LedgerError(
            f"{name} is a ledger of the first format (SQLite), which is no longer written: create "
            "a new one with what that one has left"
        )
    if _START.startswith(start):  # all of it, or as much as there is
        if start == _START:
            first = _first_line(file)
            if first.endswith(b"\n") or _is_whole(first):
                return
        raise LedgerError(
            f"{name} was not finished when it was created; nothing was charged: create it again"
        )
    raise LedgerError(
        f"{name} is not an intact ledger; nothing was charged: give the file that was made as one"
    )


def append(file: FileIO, end: int, line: bytes) -> None:
    """Write a line and wait until the disk has it; a line that does not fit is taken back.

    If the line before lacks its line end, that is written first.
    """
    if end and _read(file, 1, end - 1) != b"\n":
        line = b"\n" + line
    try:
        file.truncate(end)
        file.seek(end)
        while line:
            line = line[file.write(line) :]
        sync(file)
    except BaseException:
        file.truncate(end)
        raise


def ends(file: FileIO) -> Ends:
    """Read the first and the last line; the others are not looked at."""
    with _intact():
        first = _first_line(file)
        terms, digest = _parsed(first)
        end = _end(file)
        unfinished = end < os.fstat(file.fileno()).st_size
        if end == len(first):
            return Ends(Terms.parse(terms), None, digest, end, unfinished)
        start = _line_start(file, end)
        document, digest = _parsed(_read(file, end - start, start))
        return Ends(Terms.parse(terms), Entry.parse(document, digest), digest, end, unfinished)


def entries(file: FileIO) -> tuple[Terms, tuple[Entry, ...]]:
    """Read all lines and follow the chain of hashes."""
    with _intact():
        lines = _read(file, _end(file), 0).removesuffix(b"\n").split(b"\n")
        terms, previous = _parsed(lines[0])
        found: list[Entry] = []
        for number, line in enumerate(lines[1:], start=1):
            document, digest = _parsed(line)
            if (document["number"], document["previous"]) != (number, previous):
                raise altered()
            entry = Entry.parse(document, digest)
            if not entry.spent.follows(found[-1].spent if found else Spent()):
                raise altered()
            if entry.failed and (found[entry.failed - 1].is_note or not entry.is_note):
                raise altered()
            found.append(entry)
            previous = digest
        return Terms.parse(terms), tuple(found)


def backwards(file: FileIO) -> Iterator[Entry]:
    """Yield the entries from the newest on, reading no more of the file than is asked for."""
    with _intact():
        terms = len(_first_line(file))
        stop = _end(file)
        while stop > terms:
            start = _line_start(file, stop)
            yield Entry.parse(*_parsed(_read(file, stop - start, start)))
            stop = start


@contextmanager
def _intact() -> Iterator[None]:
    """Refuse lines that no ledger has."""
    try:
        yield
    except LedgerError:
        raise
    except (
        EigenveilError,  # an impossible budget or cost
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
        OverflowError,
        RecursionError,
    ):
        raise altered() from None


def altered() -> LedgerError:
    """Return what is raised where a ledger says what no ledger can."""
    return LedgerError("the ledger was altered or is damaged; do not release from this table")


def _line(document: dict[str, Any]) -> tuple[bytes, str]:
    """Return a line of the file, and its hash; JSON holds neither tabs nor line ends."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{text}\t{digest}\n".encode(), digest


def _parsed(line: bytes) -> tuple[dict[str, Any], str]:
    text, _, digest = line.rstrip(b"\n").rpartition(b"\t")
    if hashlib.sha256(text).hexdigest().encode() != digest:
        raise altered()
    document = json.loads(text)
    if not isinstance(document, dict):
        raise TypeError
    return document, digest.decode()


def _read(file: FileIO, size: int, place: int) -> bytes:
    """Return so many bytes from a place on, fewer at the end of the file."""
    file.seek(place)
    found = b""
    while len(found) < size and (piece := file.read(size - len(found))):
        found += piece
    return found


def _first_line(file: FileIO) -> bytes:
    """Return the first line, with its end where it has one."""
    found = b""
    while b"\n" not in found:
        piece = _read(file, _BLOCK, len(found))
        if not piece:
            return found
        found += piece
    return found[: found.index(b"\n") + 1]


def _end(file: FileIO) -> int:
    """Return the place behind the last line that counts; behind it a line may be cut off."""
    size = os.fstat(file.fileno()).st_size
    start = _line_start(file, size + 1)
    return size if _is_whole(_read(file, size - start, start)) else start


def _is_whole(line: bytes) -> bool:
    """Return whether a line without its line end lacks nothing else.

    A line that was cut off ends before its hash does: what goes on behind a right hash is damage.
    """
    text, _, rest = line.partition(b"\t")
    digest = hashlib.sha256(text).hexdigest().encode()
    if rest.startswith(digest) and rest != digest:
        raise altered()
    return rest == digest


def _line_start(file: FileIO, end: int) -> int:
    """Return the place behind the last line end before the byte at ``end - 1``."""
    stop = end - 1
    while stop > 0:
        start = max(0, stop - _BLOCK)
        place = _read(file, stop - start, start).rfind(b"\n")
        if place >= 0:
            return start + place + 1
        stop = start
    return 0
