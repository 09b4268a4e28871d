"""Names for new files: free ones, outside every release, and written whole or not at all."""

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from eigenveil.exceptions import InvalidParameterError
from eigenveil.storage.paths import real_path
from eigenveil.wording import Part

__all__ = [
    "JOURNAL",
    "RELEASE_MARKS",
    "draft_of",
    "is_empty",
    "is_zip",
    "require_new",
    "require_outside",
    "write_new",
]

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
