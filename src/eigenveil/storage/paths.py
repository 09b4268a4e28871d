"""Paths as people give them: where links lead to, and what may be read there.

The rule: whatever somebody has named is looked at before it is read. A pipe would keep the reader
waiting, a device has no end, and a file may be larger than anything it should be.
"""

import errno
import os
import stat
from pathlib import Path

__all__ = ["read_regular", "real_path", "write_advice"]


def real_path(path: str | Path) -> Path:
    """Return the path without links; what is no path at all is found when it is opened."""
    try:
        return Path(os.path.realpath(path))
    except ValueError:
        return Path(path)


def read_regular(path: str | Path, most: int | None = None) -> bytes:
    """Return the bytes of a regular file, of ``most`` at most; raise `OSError` for anything else.

    A name with the character 0 raises `ValueError`, as it does for `open`.
    """
    with open(path, "rb", opener=_at_once) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "no regular file", str(path))
        if most is not None and status.st_size > most:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        return file.read()


def write_advice(error: Exception) -> str:
    """Return what to do about a file that cannot be written."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full"
    return "is its folder there and writable?"


def _at_once(path: str, flags: int) -> int:
    """Open a pipe without waiting for somebody to write to it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
