"""The files of a release, in a folder or in one zip; their sums are checked at every reading.

Files in a zip are not compressed: they are never larger than the zip, so that none can be made to
fill the memory, and nothing is ever unpacked to a place that the zip names. Whoever hands over a
release chooses what lies there, so nothing is read before its kind, its size and the number of
files are known to be those of a release.
"""

import hashlib
import io
import itertools
import os
import shutil
import stat
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from eigenveil.exceptions import InvalidDataError, InvalidParameterError, VerificationError
from eigenveil.wording import Part

__all__ = [
    "FILES",
    "LARGEST",
    "SIGNATURE",
    "SUMS",
    "add_signature",
    "draft_of",
    "is_empty",
    "is_zip",
    "read",
    "require_new",
    "require_outside",
    "sums",
    "unzip",
    "write_new",
    "zipped",
]

FILES = ("release.json", "arrays.npz", "report.html")
SUMS = "SHA256SUMS"
SIGNATURE = "SIGNATURE"  # the one file that may be absent
# Most bytes of a file. A zip without the 64-bit extension, as arrays.npz is one, ends at 4 GiB.
LARGEST = {
    "release.json": 2**29,
    "report.html": 2**28,
    SUMS: 2**12,
    SIGNATURE: 2**12,
    "arrays.npz": 2**32 - 2**20,
}

_ALTERED = "the files do not match SHA256SUMS, damaged or altered: ask their sender for them again"
_INCOMPLETE = "is not a complete release folder: ask its sender for all of its files"
_DIRECTORY_END = 22  # bytes of the record that ends a zip without a comment
_LARGEST_DIRECTORY = 2**16  # bytes, of a zip
_MOST_NAMED = 3  # files that do not belong to a release, in a message
_UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    RuntimeError,
    NotImplementedError,
    struct.error,
    zipfile.BadZipFile,
)
Load = Callable[[str], bytes]


def sums(content: Mapping[str, bytes]) -> bytes:
    """The sums of the files, as ``sha256sum`` writes them."""
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
    if content[SUMS] != sums(content):
        raise VerificationError(_ALTERED)
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
    """The sizes of the files of a folder, and how to read one; of strange files, some."""
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
    """The sizes of the files of a zip, and how to read one."""
    with path.open("rb") as stream, _archive(stream, path.name) as archive:
        sizes = {member.filename: member.file_size for member in archive.infolist()}
        _require_all(path, sizes)
        yield sizes, archive.read


def unzip(data: bytes, name: str) -> dict[str, bytes]:
    """The files of the zip ``name``, each there once and not compressed."""
    with _archive(io.BytesIO(data), name) as archive:
        return {member: archive.read(member) for member in archive.namelist()}


@contextmanager
def _archive(stream: IO[bytes], name: str) -> Iterator[zipfile.ZipFile]:
    """A zip of which nothing is compressed, hidden, there twice, or no plain file."""
    try:
        if not _is_plain_zip(stream):
            raise VerificationError(
                f"{name} cannot be read: damaged, truncated or no release: ask its sender again"
            )
        with zipfile.ZipFile(stream) as archive:
            _check(archive, stream, name)
            yield archive
    except _UNREADABLE:
        raise VerificationError(
            f"{name} cannot be read, damaged or truncated: ask its sender for it again"
        ) from None


def _check(archive: zipfile.ZipFile, stream: IO[bytes], name: str) -> None:
    members = archive.infolist()
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise VerificationError(
            f"{name} is compressed, which a release is not: unpack it, check the folder"
        )
    # Members that share their bytes would add up to more.
    if sum(member.file_size for member in members) > stream.seek(0, os.SEEK_END):
        raise VerificationError(f"{name} claims to hold more than it does")
    if not _is_filled(members, stream):
        raise VerificationError(f"{name} holds bytes beside its files: unpack and zip anew")
    if not all(map(_is_plain, members)):
        raise VerificationError(f"{name} holds other things than regular files")
    if len(set(archive.namelist())) < len(members):
        raise VerificationError(f"{name} holds two files of one name")


def _end(stream: IO[bytes]) -> tuple[int, bytes]:
    """Where the record begins that ends a zip, and the record."""
    end = stream.seek(0, os.SEEK_END) - _DIRECTORY_END
    stream.seek(max(0, end))
    return end, stream.read(_DIRECTORY_END)


def _is_plain_zip(stream: IO[bytes]) -> bool:
    """Whether a zip ends as one of few members, before the list of its members is read."""
    end, record = _end(stream)
    if len(record) < _DIRECTORY_END or record[:4] != b"PK\5\6" or record[-2:] != b"\0\0":
        return False
    stream.seek(max(0, end - 20))
    extended = end >= 20 and stream.read(4) == b"PK\6\7"  # another record would be believed
    return not extended and struct.unpack_from("<L", record, 12)[0] <= _LARGEST_DIRECTORY


def _is_filled(members: list[zipfile.ZipInfo], stream: IO[bytes]) -> bool:
    """Whether every byte belongs to a member or to the directory, none lies before or between."""
    place = 0
    for member in sorted(members, key=lambda member: member.header_offset):
        if member.header_offset != place or member.comment:
            return False
        stream.seek(place + 26)
        name, extra = struct.unpack("<HH", stream.read(4))
        place += 30 + name + extra + member.compress_size
    end, record = _end(stream)
    size, start = struct.unpack_from("<LL", record, 12)
    return bool(place == start and start + size == end)


def _is_plain(member: zipfile.ZipInfo) -> bool:
    """A file, as far as its attributes say, which runs as nobody else."""
    mode = member.external_attr >> 16
    return stat.S_IFMT(mode) in (0, stat.S_IFREG) and not stat.S_IMODE(mode) & ~0o777


def is_zip(path: Path) -> bool:
    """Whether a release of that name is one file."""
    return path.suffix.lower() == ".zip"


def is_empty(path: Path) -> bool:
    """Whether there is an empty folder, or an empty file, of that name."""
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
    place = Path(os.path.realpath(path))
    for folder in (place, *place.parents):
        if all(os.path.lexists(folder / name) for name in ("release.json", SUMS)):
            raise InvalidParameterError(
                f"{folder} is a release folder, which another file would spoil: write elsewhere"
            )


def write_new(files: Mapping[Path, bytes]) -> None:
    """Write new files, or none of them: a part of one would look complete."""
    written = []
    try:
        for path, data in files.items():
            with path.open("xb") as file:  # somebody else may have written it meanwhile
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


def zipped(content: Mapping[str, bytes]) -> bytes:
    """One uncompressed zip, the same bytes for the same files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in content.items():
            # The date of writing would make two copies of one release differ.
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return buffer.getvalue()
