"""Paths given by users: resolve links, name new files, and keep private folders private.

The rule: whatever somebody has named is looked at before it is read. A pipe would keep the reader
waiting, a device has no end, and a file may be larger than anything it should be.

What owners have answered, and what a server has heard, is each owner's own release: protected, but
not published, and not for everybody with an account.
"""

import errno
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from eigenveil.exceptions import InvalidParameterError, StateError
from eigenveil.messages import Part


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


JOURNAL = "journal.sqlite"  # by which the folder of a federation's server is known
RELEASE_MARKS = ("release.json", "SHA256SUMS")  # files by which a folder is known as a release


def is_zip(path: Path) -> bool:
    """Return whether a release of that name is one file."""
    return path.suffix.lower() == ".zip"


def is_empty(path: Path) -> bool:
    """Return whether there is an empty folder, or an empty file, of that name."""
    try:
        if path.is_dir():
            with os.scandir(path) as entries:
                return next(entries, None) is None
        return stat.S_ISREG(os.lstat(path).st_mode) and os.lstat(path).st_size == 0
    except OSError:
        return False


def require_new(path: Path, advice: Part = "choose a new name") -> None:
    """Refuse a place that is taken, be it by a link to nowhere, or that lies inside a release."""
    if "\0" in str(path):
        raise InvalidParameterError("a name cannot hold the character 0: choose another one")
    if is_empty(path):
        raise InvalidParameterError(
            f"{path} exists already and is empty: remove it if no run is about to write there, or ",
            advice,
        )
    if os.path.lexists(path):
        raise InvalidParameterError(f"{path} exists already: ", advice)
    require_outside(path)


def require_outside(path: Path) -> None:
    """Refuse a place inside a release, which another file would make fail its verification."""
    place = real_path(path)
    for folder in (place, *place.parents):
        if all(os.path.lexists(folder / name) for name in RELEASE_MARKS):
            raise InvalidParameterError(
                f"{folder} is a release folder, which another file would spoil: write elsewhere"
            )


def write_new(files: Mapping[Path, bytes], *, mode: int = 0o666) -> None:
    """Write new files, or none of them: a part of one would look complete.

    ``mode`` says who may read and write them, less what the system keeps from others anyway.
    """
    written = []
    try:
        for path, data in files.items():
            # Somebody else may have written it meanwhile.
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with open(descriptor, "wb") as file:
                written.append(path)
                file.write(data)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield a place beside ``path`` where what will take that name is written.

    What killed processes have left there, for the same name, is removed.
    """
    name = hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]  # names may be as long as can be
    for left in path.parent.glob(f".release-{name}-*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".release-{name}-") as folder:
        yield Path(folder) / "complete"


_OTHERS = 0o077


def private_folder(folder: Path) -> None:
    """Make a folder for its owner alone; refuse one that others can look into."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        wide = _is_wide(folder)
    except OSError:
        raise StateError(
            f"cannot make the state folder {folder}: is it a place you may write to?"
        ) from None
    if wide:
        raise StateError(
            f"others can look into {folder}: take their rights away (chmod 700), or choose a "
            "new folder"
        )


def private_file(path: Path) -> None:
    """Make an empty file for its owner alone, or take the rights of others to it away."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:  # which is not opened: closing it would undo SQLite's locks
        if path.is_file() and _is_wide(path):
            path.chmod(0o600)


def _is_wide(path: Path) -> bool:
    return os.name == "posix" and bool(stat.S_IMODE(path.stat().st_mode) & _OTHERS)
