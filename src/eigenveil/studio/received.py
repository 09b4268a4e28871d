"""Releases that somebody dropped on the page, in a private folder until the studio ends.

They come file by file, each of a name that a release has, and are verified before anything of them
is shown. A zip is read as every other one: nothing is unpacked, and none is larger than it says.
"""

import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from eigenveil.exceptions import InvalidParameterError
from eigenveil.storage.release_files import FILES, SIGNATURE, SUMS

__all__ = ["Received"]

_ZIP = "release.zip"
_NAMES = (*FILES, SUMS, SIGNATURE, _ZIP)
_MOST = 20  # releases that are kept: an older one has to be dropped again
_LARGEST = 2**28  # bytes of all files of one


class Received:
    """A private folder with one folder for each release."""

    def __init__(self) -> None:
        self._root: Path | None = None
        self._known: list[str] = []  # the oldest first
        self._lock = Lock()

    def begin(self) -> str:
        """Return the id of a new release."""
        with self._lock:
            if self._root is None:
                self._root = Path(tempfile.mkdtemp(prefix="eigenveil-studio-"))
            id = secrets.token_hex(8)
            (self._root / id).mkdir(mode=0o700)
            self._known.append(id)
            while len(self._known) > _MOST:
                shutil.rmtree(self._root / self._known.pop(0), ignore_errors=True)
            return id

    @contextmanager
    def writing(self, id: str, name: str) -> Iterator[Callable[[bytes], None]]:
        """Yield what adds to a new file of a release; none is left of one that does not end."""
        folder = self._folder(id)
        if name not in _NAMES:
            raise InvalidParameterError(
                f"a release has no such file: it has {', '.join(FILES)} and {SUMS}"
            )
        before = sum(file.stat().st_size for file in folder.iterdir())
        path = folder / name
        try:
            with path.open("xb") as file:

                def write(part: bytes) -> None:
                    if before + file.tell() + len(part) > _LARGEST:
                        raise InvalidParameterError(
                            f"a release of more than {_LARGEST:,} bytes is too large for this "
                            "page: put it into the folder of the studio"
                        )
                    file.write(part)

                yield write
        except FileExistsError:
            raise InvalidParameterError("this file was received before: begin anew") from None
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def place(self, id: str) -> Path:
        """Return the folder or the zip of a release."""
        folder = self._folder(id)
        return folder / _ZIP if (folder / _ZIP).exists() else folder

    def remove(self) -> None:
        """Remove everything."""
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)

    def _folder(self, id: str) -> Path:
        if self._root is None or id not in self._known:
            raise InvalidParameterError("this release is not kept any more: drop it again")
        return self._root / id
