"""The files of a release, in a folder or in one zip; their sums are checked at every reading.

Whoever hands over a release chooses what lies there, so nothing is read before its kind, its size
and the number of files are known to be those of a release.
"""

import hashlib
import itertools
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from eigenveil.exceptions import InvalidDataError, InvalidParameterError, VerificationError
from eigenveil.storage.archive import LARGEST_MEMBER, open_archive, zipped
from eigenveil.storage.paths import draft_of, is_empty

FILES = ("release.json", "arrays.npz", "report.html")
SUMS = "SHA256SUMS"
SIGNATURE = "SIGNATURE"  # the one file that may be absent

# Most bytes of a file.
LARGEST = {
    "release.json": 2**29,
    "report.html": 2**28,
    SUMS: 2**12,
    SIGNATURE: 2**12,
    "arrays.npz": LARGEST_MEMBER,
}

_ALTERED = "the files do not match SHA256SUMS, damaged or altered: ask their sender for them again"

# Another order would be another fingerprint, and another content to sign.
_REORDERED = (
    "SHA256SUMS has the right sums but not as they were written, so that fingerprint and signature "
    f"do not match: put one line each, in the order {', '.join(FILES)}"
)

_INCOMPLETE = "is not a complete release folder: ask its sender for all of its files"
_MOST_NAMED = 3  # files that do not belong to a release, in a message
Load = Callable[[str], bytes]


def sums(content: Mapping[str, bytes]) -> bytes:
    """Return the sums of the files, as ``sha256sum`` writes them."""
    return "".join(
        f"{hashlib.sha256(content[name]).hexdigest()}  {name}\n" for name in FILES
    ).encode()


def read(path: Path, largest_arrays: Callable[[bytes], int]) -> dict[str, bytes]:
    """Return the files of a folder or a zip, after checking that they are a release's.

    ``largest_arrays`` says from ``release.json`` how large ``arrays.npz`` may be.
    """
    if not os.path.lexists(path):
        raise InvalidDataError(f"no release at {path}: check the path")
    try:
        with _open_zip(path) if path.is_file() else _open_folder(path) as (sizes, load):
            content = _load(sizes, load, largest_arrays)
    except PermissionError:
        raise InvalidDataError(f"cannot read {path}: ask for permission to read it") from None
    except OSError:
        raise VerificationError(f"{path} {_INCOMPLETE}") from None
    if content[SUMS] != (wanted := sums(content)):
        same = sorted(content[SUMS].splitlines()) == sorted(wanted.splitlines())
        raise VerificationError(_REORDERED if same else _ALTERED)
    return {name: content[name] for name in (*FILES, SUMS, SIGNATURE) if name in content}


def _load(
    sizes: Mapping[str, int], load: Load, largest_arrays: Callable[[bytes], int]
) -> dict[str, bytes]:
    """Return the files that a release has, none of them larger than it may be."""
    extra = sorted(sizes.keys() - {*FILES, SUMS, SIGNATURE})
    if extra:
        named = ", ".join(extra[:_MOST_NAMED]) + ", ..." * (len(extra) > _MOST_NAMED)
        raise VerificationError(f"the folder holds files that are not part of it: {named}")
    content: dict[str, bytes] = {}
    for name in (SUMS, "release.json", "arrays.npz", "report.html", SIGNATURE):
        if name not in sizes:
            continue
        most = LARGEST[name]
        if name == "arrays.npz":
            most = min(most, largest_arrays(content["release.json"]))
        if sizes[name] > most:
            raise VerificationError(
                f"{name} has {sizes[name]:,} bytes and may have {most:,}: this is no release"
            )
        content[name] = load(name)
        # Word for word what `sums` writes; the file that says how large others are comes first.
        line = f"{hashlib.sha256(content[name]).hexdigest()}  {name}\n".encode()
        if name in FILES and line not in content[SUMS]:
            raise VerificationError(_ALTERED)
    return content


def _require_all(path: Path, names: Mapping[str, int]) -> None:
    if not {*FILES, SUMS} <= names.keys():
        if is_empty(path):
            raise VerificationError(f"{path} is empty: its run was cut off, or is about to write")
        raise VerificationError(f"{path} {_INCOMPLETE}")


@contextmanager
def _open_folder(folder: Path) -> Iterator[tuple[dict[str, int], Load]]:
    """Yield the sizes of the files of a folder, some strange ones too, and how to read one."""
    known = {*FILES, SUMS, SIGNATURE}
    with os.scandir(folder) as entries:
        strange = (entry.name for entry in entries if entry.name not in known)
        sizes = dict.fromkeys(itertools.islice(strange, _MOST_NAMED + 1), 0)
    for name in known:
        if os.path.lexists(folder / name):
            status = os.lstat(folder / name)
            if not stat.S_ISREG(status.st_mode):
                raise VerificationError(f"{name} is no regular file: copy what it stands for")
            sizes[name] = status.st_size
    _require_all(folder, sizes)

    def load(name: str) -> bytes:
        # It may have become something else: opening a pipe would wait for somebody to write.
        with open(folder / name, "rb", opener=_at_once) as file:
            return file.read(sizes[name])

    yield sizes, load


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))


@contextmanager
def _open_zip(path: Path) -> Iterator[tuple[dict[str, int], Load]]:
    """Yield the sizes of the files of a zip, and how to read one."""
    with path.open("rb") as stream, open_archive(stream, path.name) as archive:
        sizes = {member.filename: member.file_size for member in archive.infolist()}
        _require_all(path, sizes)
        yield sizes, archive.read


def add_signature(path: Path, content: Mapping[str, bytes], signature: bytes) -> None:
    """Put a signature beside the files of a folder, or into a zip, all or nothing."""
    target = path if path.is_file() else path / SIGNATURE
    data = zipped({**content, SIGNATURE: signature}) if path.is_file() else signature
    try:
        with draft_of(path) as complete:
            complete.write_bytes(data)
            os.replace(complete, target)
    except OSError:
        raise InvalidParameterError(f"cannot write to {path}: sign a copy of it") from None
