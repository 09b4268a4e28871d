"""A name for a release that nobody else gets, taken before anything is paid for.

Two runs that write to one name would both be charged, and one release would be lost. So a run
creates an empty folder of that name, or an empty file for a zip, which fails where there is
anything; then it asks the ledger; and in the end the complete release takes the place of the empty
one in one step. Whoever does not get that far removes it. A run that is killed leaves it behind:
an empty folder or file, which holds nothing, and which a later run names and does not touch. Killed
while it writes, it leaves its draft too, ``.release-...``: the next save to that name removes it.

A disk that fills after the charge would lose the release too. Room for it, reckoned from public
numbers, is taken beforehand by a nameless file, which the system frees when the process dies.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from eigenveil.exceptions import InvalidParameterError
from eigenveil.messages import Part
from eigenveil.storage.archive import LARGEST_MEMBER, zipped
from eigenveil.storage.paths import draft_of, is_empty, is_zip, require_new

_CHUNK_BYTES = 2**20  # bytes


class Reservation:
    """An empty folder, or an empty file for a zip, that a release will take the place of.

    Attributes
    ----------
    path : Path
        Its name.
    elsewhere : Path or None
        Where the whole release was saved instead, if its name could not be written.

    """

    def __init__(self, path: Path) -> None:
        try:
            if is_zip(path):
                path.open("xb").close()
            else:
                path.mkdir()
            self._status = os.lstat(path)
        except FileExistsError:
            require_new(path)
            raise
        self.path = path
        self.elsewhere: Path | None = None
        self._complete: os.stat_result | None = None  # of what takes the place of the empty one
        self._room = ExitStack()  # the file that keeps it

    def make_room(self, size: int) -> None:
        """Keep ``size`` bytes of the disk free of others until the release is written."""
        if size > LARGEST_MEMBER:
            raise InvalidParameterError(
                f"the release would have {size:,} bytes and may have {LARGEST_MEMBER:,}: "
                "choose fewer columns or components"
            )
        self.leave_room()
        try:
            self._room.enter_context(_kept(self.path.parent, size))
        except OSError:
            raise InvalidParameterError(
                f"no room for {size:,} bytes in {self.path.parent}: free some, or choose another "
                "place"
            ) from None

    def leave_room(self) -> None:
        """Give back what `make_room` kept."""
        with suppress(OSError):  # a full disk may fail to close what it failed to write
            self._room.close()

    def fill(self, content: Mapping[str, bytes]) -> None:
        """Put the files of a release in place, durably, all or nothing."""
        self.leave_room()
        try:
            with draft_of(self.path) as complete:
                if is_zip(self.path):
                    _write(complete, _one_file(content))
                else:
                    complete.mkdir()
                    for name, data in content.items():
                        _write(complete / name, data)
                    _settle(complete)
                if not self._is_ours():
                    raise InvalidParameterError(
                        f"{self.path} was taken by somebody else meanwhile: choose a new name"
                    )
                self._complete = os.lstat(complete)
                os.replace(complete, self.path)
                _settle(self.path.parent)
        except OSError as error:
            raise InvalidParameterError(
                f"cannot write {self.path}{_reason(error)}: choose a writable place"
            ) from None

    def abandon(self) -> None:
        """Remove the name, if nothing took its place."""
        self.leave_room()
        if self._is_ours():
            abandon(self.path)

    @property
    def whole(self) -> Path | None:
        """Where the whole release lies; None while it lies nowhere."""
        if self._complete is None:
            return self.elsewhere
        try:
            filled = os.path.samestat(os.lstat(self.path), self._complete)
        except OSError:
            filled = False
        return self.path if filled else self.elsewhere

    def _is_ours(self) -> bool:
        """Return whether it is still the empty one, which alone can be replaced."""
        try:
            return os.path.samestat(os.lstat(self.path), self._status) and is_empty(self.path)
        except OSError:
            return False


@contextmanager
def reserved(
    path: Path, advice: Part = "choose a new folder", *, parents: bool = False
) -> Iterator[Reservation]:
    """Reserve a new name while the block runs; it is free again unless the block filled it.

    With ``parents`` the folders that it lies in are made.
    """
    require_new(path, advice)
    try:
        if parents:
            path.parent.mkdir(parents=True, exist_ok=True)
        place = Reservation(path)
    except OSError as error:
        raise InvalidParameterError(
            f"cannot write {path}{_reason(error)}: choose a writable place"
        ) from None
    try:
        yield place
    finally:
        place.abandon()


def abandon(path: Path) -> None:
    """Remove an empty folder or file; leave anything else alone."""
    if is_empty(path):
        with suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink()


@contextmanager
def _kept(folder: Path, size: int) -> Iterator[None]:
    """Keep so many bytes of a disk while the block runs."""
    with tempfile.TemporaryFile(dir=folder) as file:
        for start in range(0, size, _CHUNK_BYTES):
            file.write(bytes(min(_CHUNK_BYTES, size - start)))
        file.flush()
        os.fsync(file.fileno())
        yield


def _one_file(content: Mapping[str, bytes]) -> bytes:
    data = zipped(content)
    if len(data) >= 2**32:
        raise InvalidParameterError("the release is too large for one zip: save it as a folder")
    return data


def _write(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _settle(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _reason(error: OSError) -> str:
    return f" ({error.strerror})" if error.strerror else ""
