"""Durable files: locks on open files, atomic replacement, and one process per folder.

A lock belongs to the file itself, whatever it is called: a hard link, a symbolic link or a bind
mount of the same file meets the same lock. The system lets go of it when the file is closed or its
process dies.

A name is not the file that it leads to, and what was checked may have changed when it is acted
upon. So a lock counts only while its file is the one at its path. That is checked after locking,
before each write and after it: whoever locks another file there begins later, and reads what was
written. A file is compared and replaced in one step, while the file itself is locked. On Windows a
file in use can be neither removed nor replaced. Proof: docs/proofs/streaming.md.
"""

import glob
import hashlib
import os
import secrets
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from eigenveil.exceptions import BusyError, InvalidParameterError, StateError
from eigenveil.storage.paths import write_advice

_LOCK_PAUSE_SECONDS = 0.005  # between two attempts


class LockTimeoutError(Exception):
    """Somebody else kept the lock for too long."""


if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 62  # Windows locks bytes: one that no file has, so that others can read

    def try_lock(descriptor: int, *, shared: bool = False) -> bool:
        """Lock an open file; return whether nobody else has it."""
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

    def unlock(descriptor: int) -> None:
        """Let go of the lock of an open file."""
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

    def _sync(descriptor: int) -> None:
        os.fsync(descriptor)

else:
    import fcntl

    def try_lock(descriptor: int, *, shared: bool = False) -> bool:
        """Lock an open file; return whether nobody else has it.

        The lock is that of the open file, not of the process: closing the same file where it was
        opened a second time does not let go of it.
        """
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(descriptor: int) -> None:
        """Let go of the lock of an open file."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _sync(descriptor: int) -> None:
        if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: through the disk's own cache
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        else:
            os.fsync(descriptor)


@contextmanager
def lock(file: IO[Any], *, seconds: float, shared: bool = False) -> Iterator[None]:
    """Hold the lock of an open file; wait up to ``seconds`` for it.

    Every `open` of a file meets the locks of all others, of the same process too: threads exclude
    one another.
    """
    deadline = time.monotonic() + seconds
    while not try_lock(file.fileno(), shared=shared):
        if time.monotonic() >= deadline:
            raise LockTimeoutError
        time.sleep(_LOCK_PAUSE_SECONDS)
    try:
        yield
    finally:
        unlock(file.fileno())


def sync(place: IO[Any] | Path) -> None:
    """Wait until the disk has an open file, or the names in a folder."""
    if not isinstance(place, Path):
        _sync(place.fileno())
        return
    if not hasattr(os, "O_DIRECTORY"):  # elsewhere a folder cannot be opened
        return
    folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _sync(folder)
    finally:
        os.close(folder)


TOKEN = "[0-9a-f]" * 8  # a pattern of the random part of a file's name
_PAUSE_SECONDS = 0.02  # between two attempts to lock


@dataclass(frozen=True, slots=True, eq=False)
class _Lock:
    """A locked file: where it must be found, and who holds it."""

    path: Path
    descriptor: int
    process: int = field(default_factory=os.getpid)
    thread: int = field(default_factory=threading.get_ident)


_HELD: list[_Lock] = []


@contextmanager
def locked(path: Path, seconds: float = 0.0) -> Iterator[None]:
    """Keep others from the file at ``path``; wait up to ``seconds`` for whoever has it.

    The system lets go of it when the process dies.
    """
    lock = _lock(path, seconds)
    _HELD.append(lock)
    try:
        yield
    finally:
        _HELD.remove(lock)
        if lock.process == os.getpid():  # a forked process shares the lock and must not let go
            unlock(lock.descriptor)
        os.close(lock.descriptor)


def _lock(path: Path, seconds: float) -> _Lock:
    if path.is_dir():
        raise StateError(f"{path} is a folder: give the path of a file")
    file = path.with_name(f"{path.name}.lock")
    deadline = time.monotonic() + seconds
    try:
        while (descriptor := _attempt(file)) is None:
            if time.monotonic() >= deadline:
                raise BusyError(
                    f"{path.name} is in use by another process or estimator: wait until it is "
                    "done, then call again"
                )
            time.sleep(_PAUSE_SECONDS)
    except (OSError, ValueError) as error:  # a name with a NUL is no value
        raise StateError(f"cannot write {path}: {write_advice(error)}") from None
    if os.fstat(descriptor).st_size:
        os.close(descriptor)
        raise StateError(f"{file.name} cannot be locked: is it the empty file it should be?")
    return _Lock(file, descriptor)


def _attempt(file: Path) -> int | None:
    """Lock the file at a path; return None where somebody else has."""
    while True:
        with ExitStack() as opened:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
            opened.callback(os.close, descriptor)
            if not try_lock(descriptor):
                return None
            if _is_at(file, descriptor):
                opened.pop_all()
                return descriptor

        # It was removed before it was locked: so it keeps nobody out.


def _is_at(path: Path, descriptor: int) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    return False


def _require_locks(folder: Path) -> None:
    """Refuse to go on where a lock that this thread has in the folder is gone."""
    for lock in tuple(_HELD):
        mine = lock.thread == threading.get_ident() and lock.path.parent == folder
        if mine and not _is_at(lock.path, lock.descriptor):
            raise StateError(
                f"{lock.path.name} was moved or removed while in use, so another process may have "
                "come in: leave it in its place, and call again"
            )


@contextmanager
def unchanged(path: Path, digest: str | None) -> Iterator[None]:
    """Hold the file with this digest while it is replaced, or refuse; None: there is no file."""
    with ExitStack() as held:
        try:
            file = held.enter_context(path.open("r+b"))
            same = (
                try_lock(file.fileno())
                and _is_at(path, file.fileno())
                and not path.is_symlink()  # it would be replaced under one of its names only
                and hashlib.sha256(file.read()).hexdigest() == digest
            )
        except FileNotFoundError:
            same = digest is None
        except OSError as error:
            raise StateError(f"cannot write {path}: {write_advice(error)}") from None
        if not same:
            raise StateError(
                f"{path.name} was moved, removed or replaced while in use, and nothing more was "
                "drawn: let one process at a time use it, and call again"
            )
        if sys.platform == "win32":  # there an open file is not replaced, and a lock not removed
            held.close()
        yield


def token() -> str:
    """Return the random part of a file's name, which `TOKEN` matches."""
    return secrets.token_hex(4)


def replace_file(path: Path, data: bytes) -> None:
    """Write beside the file, then put it in its place; both are on disk before this returns.

    Refuse where a lock that this thread has in the same folder was removed, before or meanwhile.
    """
    _require_locks(path.parent)
    draft = path.with_name(f"{path.name}.{token()}.new")  # nobody else's, with a lock or without
    try:
        for left in path.parent.glob(f"{glob.escape(path.name)}.{TOKEN}.new"):
            left.unlink(missing_ok=True)  # by a process that died
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            sync(file)
        os.replace(draft, path)
        sync(path.parent)
    except OSError as error:
        raise StateError(f"cannot write {path}: {write_advice(error)}") from None
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)  # of a write that failed
    _require_locks(path.parent)


@contextmanager
def alone(folder: Path, what: str, *, mode: int = 0o777) -> Iterator[None]:
    """Have a folder, made if it is not there, to oneself while the block runs.

    ``what`` is the word for who uses it, and the name of its lock.
    """
    try:
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError:
        raise InvalidParameterError(
            f"cannot make the folder {folder}: choose a writable place"
        ) from None
    with ExitStack() as lock:
        try:
            lock.enter_context(locked(folder / what))
        except BusyError:
            raise StateError(
                f"another {what} uses {folder}: wait for it, or stop it first"
            ) from None
        yield
