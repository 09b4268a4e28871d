"""A file that is read several times: every pass must see the same one.

Noise is calibrated to one table. Were a file written to meanwhile, the number of rows, a centre and
a sum could each be of another. What keeps size, time and identity of a file is noticed by its rows,
at the end of a pass (`Readings`).
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

from eigenveil.exceptions import EigenveilError, InvalidDataError
from eigenveil.text import printable

__all__ = ["StoredFile", "changed"]

_SIZE_AND_TIME = 2  # of a version: what any machine sees alike


class StoredFile:
    """A regular file as it was when it was opened first.

    Attributes
    ----------
    path : Path
        Where it lies.
    name : str
        What messages call it.

    """

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, printable(path.name)
        self._compared: int | None = None
        self._version = self._look()
        if self._version is None:
            raise InvalidDataError(f"no file at {printable(str(path))}: check the path")

    @property
    def size(self) -> int:
        """Number of bytes."""
        assert self._version is not None  # it was there
        return self._version[0]

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Open the file for pyarrow, which takes no path that is not UTF-8."""
        with self.path.open("rb") as stream:
            yield stream

    def elsewhere(self) -> "StoredFile":
        """Return the same file for other machines, where its identity may be another number."""
        other = copy(self)
        other._compared = _SIZE_AND_TIME
        return other

    @contextmanager
    def one_pass(self, failure: str, *, header: bool = False) -> Iterator[None]:
        """Refuse a pass that a changed file had a part in, or that fails.

        ``failure`` then says how; what a reader raises itself may quote an entry. ``header`` says
        whether a header of NumPy is read.
        """
        self._check()
        try:
            yield
        except EigenveilError:
            raise
        except Exception as error:  # of odd files there is no end of ways to fail
            # Python's parser, which reads headers, raises a plain one at odd ones.
            lack = isinstance(error, MemoryError) and not (header and type(error) is MemoryError)
            if lack:  # its own words tell the shape of the rows
                raise MemoryError(f"out of memory while {self.name} was read") from None
            raise InvalidDataError(f"{self.name} {failure}") from None
        self._check()

    def _check(self) -> None:
        found, known = self._look(), self._version
        if found is None or known is None or found[: self._compared] != known[: self._compared]:
            raise changed()

    def _look(self) -> tuple[int, ...] | None:
        """Return size, time of the last change and what else tells versions apart."""
        return _version(self.path)


def changed() -> InvalidDataError:
    """Return the error about a table whose passes differ."""
    return InvalidDataError(
        "the table changed while it was read: give rows that are the same, and beside groups in "
        "the same order, whenever they are read; what was charged before stays charged"
    )


def _version(path: Path) -> tuple[int, int, int, int] | None:
    """Return size, time of the last change and identity; None where no regular file is."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # a name with a NUL is no value
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino, found.st_dev
