"""Locks on open files, and waiting for the disk.

A lock belongs to the file itself, whatever it is called: a hard link, a symbolic link or a bind
mount of the same file meets the same lock. The system lets go of it when the file is closed or its
process dies.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

__all__ = ["LockTimeoutError", "lock", "sync", "try_lock", "unlock"]

_PAUSE_SECONDS = 0.005  # between two attempts


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
        time.sleep(_PAUSE_SECONDS)
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
