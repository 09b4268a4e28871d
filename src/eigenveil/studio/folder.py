"""The folder of the studio, and releases dropped on the page.

Names come from a page. A name that leads elsewhere, by ``..``, from the root or through a link, is
refused, whatever it leads to.

They come file by file, each of a name that a release has, and are verified before anything of them
is shown. A zip is read as every other one: nothing is unpacked, and none is larger than it says.
"""

import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from eigenveil.exceptions import InvalidParameterError
from eigenveil.release.files import FILES, SIGNATURE, SUMS
from eigenveil.storage.paths import JOURNAL, RELEASE_MARKS

_TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".xlsx")
_LEDGER = ".ledger"
_DEEPEST = 8  # folders in a name
_MOST = 500  # files that are listed


class Folder:
    """A folder, and what lies in it that the studio knows.

    Parameters
    ----------
    root : Path
        The folder.

    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def place(self, name: object) -> Path:
        """Return the path of something inside, which need not exist; refuse all others."""
        if not isinstance(name, str) or not name or "\0" in name or "\\" in name:
            raise InvalidParameterError("give the name of a file in this folder")
        parts = name.split("/")
        if len(parts) > _DEEPEST or any(part in ("", ".", "..") for part in parts):
            raise InvalidParameterError("give the name of a file in this folder, without .. or /")
        if any(part.startswith("-") for part in parts):
            raise InvalidParameterError("a name that starts with - would be taken for an option")
        if any(part.endswith(":") for part in parts):
            raise InvalidParameterError("a name that ends in : would be taken for an address")
        if not _is_text(name):
            raise InvalidParameterError("the name of this file is not UTF-8: rename it first")
        path = self.root
        for part in parts:
            path = path / part
            try:
                linked = stat.S_ISLNK(os.lstat(path).st_mode)
            except OSError:  # not there, or the name is too long, which whoever opens it finds
                linked = False
            if linked:
                raise InvalidParameterError("a link may lead out of this folder: give a file")
        return path

    def existing(self, name: object) -> Path:
        """Return the path of something that is there."""
        path = self.place(name)
        if not os.path.lexists(path):
            raise InvalidParameterError("no such file in this folder: look whether it was moved")
        return path

    def name(self, path: Path) -> str:
        """Return what something inside is called from here: the name that was checked."""
        return path.relative_to(self.root).as_posix()

    def tables(self) -> list[str]:
        """Return the names of tables."""
        return [entry.name for entry in self._files() if entry.name.lower().endswith(_TABLES)]

    def ledgers(self) -> list[str]:
        """Return the names of ledgers."""
        return [entry.name for entry in self._files() if entry.name.endswith(_LEDGER)]

    def keys(self) -> list[str]:
        """Return the names of private keys, and of public ones."""
        return [entry.name for entry in self._files() if entry.name.endswith((".pem", ".pub"))]

    def releases(self) -> list[str]:
        """Return the names of release folders, and of zips, which may hold one."""
        folders = [
            entry.name
            for entry in self._folders()
            if all(Path(entry.path, mark).is_file() for mark in RELEASE_MARKS)
        ]
        zips = [entry.name for entry in self._files() if entry.name.lower().endswith(".zip")]
        return sorted([*folders, *zips])

    def federations(self) -> list[str]:
        """Return the names of folders of federation servers."""
        return [entry.name for entry in self._folders() if Path(entry.path, JOURNAL).is_file()]

    def unnamed(self) -> int:
        """Return how many files have names that are not UTF-8, which no page can send back."""
        with os.scandir(self.root) as entries:
            return sum(not _is_text(entry.name) for entry in entries)

    def new_name(self, stem: str) -> str:
        """Return a name that nothing has yet."""
        names = (stem if i == 1 else f"{stem}-{i}" for i in range(1, 10_000))
        return next(name for name in names if not os.path.lexists(self.root / name))

    def _files(self) -> Iterator["os.DirEntry[str]"]:
        return (entry for entry in self._entries() if entry.is_file(follow_symlinks=False))

    def _folders(self) -> Iterator["os.DirEntry[str]"]:
        return (entry for entry in self._entries() if entry.is_dir(follow_symlinks=False))

    def _entries(self) -> Iterator["os.DirEntry[str]"]:
        """Yield what may be shown, in the order of names."""
        with os.scandir(self.root) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        shown = (
            entry
            for entry in found
            if not entry.name.startswith((".", "-")) and _is_text(entry.name)
        )
        return iter(list(shown)[:_MOST])


def _is_text(name: str) -> bool:
    """Return whether a name is Unicode: Python keeps other bytes as half characters."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


_ZIP = "release.zip"
_NAMES = (*FILES, SUMS, SIGNATURE, _ZIP)

_MOST_RECEIVED = 20  # releases that are kept: an older one has to be dropped again

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
            while len(self._known) > _MOST_RECEIVED:
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
