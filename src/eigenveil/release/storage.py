"""The files of a release, in a folder or in one zip; their sums are checked at every reading.

Files in a zip are not compressed: they are never larger than the zip, so that none can be made to
fill the memory, and nothing is ever unpacked to a place that the zip names.
"""

import hashlib
import io
import os
import stat
import struct
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from eigenveil.exceptions import InvalidDataError, InvalidParameterError, VerificationError

__all__ = [
    "FILES",
    "SIGNATURE",
    "SUMS",
    "add_signature",
    "read",
    "require_new",
    "require_outside",
    "sums",
    "unzip",
    "write",
    "zipped",
]

FILES = ("release.json", "arrays.npz", "report.html")
SUMS = "SHA256SUMS"
SIGNATURE = "SIGNATURE"  # the one file that may be absent

_DIRECTORY_END = 22  # bytes of the record that ends a zip without a comment
_UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    RuntimeError,
    NotImplementedError,
    struct.error,
    zipfile.BadZipFile,
)


def sums(content: Mapping[str, bytes]) -> bytes:
    """The sums of the files, as ``sha256sum`` writes them."""
    return "".join(
        f"{hashlib.sha256(content[name]).hexdigest()}  {name}\n" for name in FILES
    ).encode()


def read(path: Path) -> dict[str, bytes]:
    """The files of a folder or a zip, after checking their sums and that no other file is there."""
    if not os.path.lexists(path):
        raise InvalidDataError(f"no release at {path}: check the path")
    try:
        content = unzip(path.read_bytes(), path.name) if path.is_file() else _read_folder(path)
    except OSError:
        raise VerificationError(f"{path} is not a complete release folder") from None
    if not {*FILES, SUMS} <= content.keys():
        raise VerificationError(f"{path} is not a complete release folder")
    if content[SUMS] != sums(content):
        raise VerificationError("the files do not match SHA256SUMS: damaged or altered")
    if extra := content.keys() - {*FILES, SUMS, SIGNATURE}:
        raise VerificationError(f"the folder holds files that are not part of it: {sorted(extra)}")
    return content


def _read_folder(folder: Path) -> dict[str, bytes]:
    known = {*FILES, SUMS, SIGNATURE}
    content = {}
    for path in folder.iterdir():
        if path.name in known and not stat.S_ISREG(path.lstat().st_mode):
            raise VerificationError(f"{path.name} is no regular file: copy what it stands for")
        content[path.name] = path.read_bytes() if path.name in known else b""
    return content


def unzip(data: bytes, name: str) -> dict[str, bytes]:
    """The files of the zip ``name``, each there once and not compressed."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if any(member.compress_type != zipfile.ZIP_STORED for member in members):
                raise VerificationError(
                    f"{name} is compressed, which a release is not: unpack it, check the folder"
                )
            # Members that share their bytes would add up to more.
            if sum(member.file_size for member in members) > len(data):
                raise VerificationError(f"{name} claims to hold more than it does")
            if not _is_filled(archive, data):
                raise VerificationError(f"{name} holds bytes beside its files: unpack and zip anew")
            if not all(map(_is_plain, members)):
                raise VerificationError(f"{name} holds other things than regular files")
            content = {member.filename: archive.read(member) for member in members}
    except _UNREADABLE:
        raise VerificationError(f"{name} cannot be read: damaged or truncated") from None
    if len(content) < len(members):
        raise VerificationError(f"{name} holds two files of one name")
    return content


def _is_filled(archive: zipfile.ZipFile, data: bytes) -> bool:
    """Whether every byte belongs to a member or to the directory, none lies before or between."""
    place = 0
    for member in sorted(archive.infolist(), key=lambda member: member.header_offset):
        if member.header_offset != place or member.comment:
            return False
        name, extra = struct.unpack_from("<HH", data, place + 26)
        place += 30 + name + extra + member.compress_size
    end = len(data) - _DIRECTORY_END
    size, start = struct.unpack_from("<LL", data, end + 12)
    return bool(data[end : end + 4] == b"PK\5\6" and place == start and start + size == end)


def _is_plain(member: zipfile.ZipInfo) -> bool:
    """A file, as far as its attributes say, which runs as nobody else."""
    mode = member.external_attr >> 16
    return stat.S_IFMT(mode) in (0, stat.S_IFREG) and not stat.S_IMODE(mode) & ~0o777


def require_new(path: Path, advice: str = "choose a new name") -> None:
    """Refuse a place that is taken, be it by a link to nowhere, or that lies inside a release."""
    if os.path.lexists(path):
        raise InvalidParameterError(f"{path} exists already: {advice}")
    require_outside(path)


def require_outside(path: Path) -> None:
    """Refuse a place inside a release, which another file would make fail its verification."""
    place = Path(os.path.realpath(path))
    for folder in (place, *place.parents):
        if all(os.path.lexists(folder / name) for name in ("release.json", SUMS)):
            raise InvalidParameterError(
                f"{folder} is a release folder, which another file would spoil: write elsewhere"
            )


def write(path: Path, content: Mapping[str, bytes]) -> None:
    """Write a new folder, or a new zip where the path ends in ``.zip``, all or nothing."""
    require_new(path, "choose a new folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".release-") as draft:
            complete = Path(draft) / "complete"
            if path.suffix.lower() == ".zip":
                complete.write_bytes(zipped(content))
            else:
                complete.mkdir()
                for name, data in content.items():
                    (complete / name).write_bytes(data)
            os.rename(complete, path)
    except OSError:
        raise InvalidParameterError(f"cannot write {path}: choose a writable place") from None


def add_signature(path: Path, content: Mapping[str, bytes], signature: bytes) -> None:
    """Put a signature beside the files of a folder, or into a zip, all or nothing."""
    target = path if path.is_file() else path / SIGNATURE
    data = zipped({**content, SIGNATURE: signature}) if path.is_file() else signature
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".release-") as draft:
            complete = Path(draft) / "complete"
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
