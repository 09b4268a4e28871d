"""Tie a promise that somebody confirmed to the file that it was made for."""

import hashlib
import os
import stat
from pathlib import Path

from eigenveil.exceptions import InvalidDataError

__all__ = ["require_version", "table_version"]


def table_version(path: Path) -> str:
    """Return a name for the present version of a file.

    It covers size, identity, and the times of the last change of content and of status. No program
    can set the last one back, so that a later change of the file shows whatever it keeps.
    """
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        found = None
    if found is None or not stat.S_ISREG(found.st_mode):
        raise InvalidDataError("the table is not a file: choose one file of this folder")
    facts = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev)
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def require_version(path: Path, version: str) -> None:
    """Refuse a file that is not in this version any more.

    Call it once the file is open: every pass over a source compares the file with what it was at
    its opening, so that no change in between is missed.
    """
    if table_version(path) != version:
        raise InvalidDataError(
            "the table changed since its release was confirmed: look at the promise again"
        )
