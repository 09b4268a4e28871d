"""Zips of plain files: nothing in them is compressed, hidden, there twice, or a link.

Files in such a zip are never larger than the zip, so that none can be made to fill the memory, and
nothing is ever unpacked to a place that the zip names. Whoever hands one over chooses what lies
in it, so nothing is read before its kind, its size and the number of files are known.
"""

import io
import os
import stat
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO

from eigenveil.exceptions import VerificationError

LARGEST_MEMBER = 2**32 - 2**20  # bytes: a zip without the 64-bit extension ends at 4 GiB
_DIRECTORY_END = 22  # bytes of the record that ends a zip without a comment
_LARGEST_DIRECTORY = 2**16  # bytes
_UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    RuntimeError,
    NotImplementedError,
    struct.error,
    zipfile.BadZipFile,
)


def unzip(data: bytes, name: str) -> dict[str, bytes]:
    """Return the files of the zip ``name``, each there once and not compressed."""
    with open_archive(io.BytesIO(data), name) as archive:
        return {member: archive.read(member) for member in archive.namelist()}


@contextmanager
def open_archive(stream: IO[bytes], name: str) -> Iterator[zipfile.ZipFile]:
    """Open a zip of which nothing is compressed, hidden, there twice, or no plain file."""
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
        raise VerificationError(f"{name} holds bytes outside of its files: unpack and zip anew")
    if not all(map(_is_plain, members)):
        raise VerificationError(f"{name} holds other things than regular files")
    if len(set(archive.namelist())) < len(members):
        raise VerificationError(f"{name} holds two files of one name")


def _end(stream: IO[bytes]) -> tuple[int, bytes]:
    """Return where the record begins that ends a zip, and the record."""
    end = stream.seek(0, os.SEEK_END) - _DIRECTORY_END
    stream.seek(max(0, end))
    return end, stream.read(_DIRECTORY_END)


def _is_plain_zip(stream: IO[bytes]) -> bool:
    """Return whether a zip ends as one of few members, before the list of its members is read."""
    end, record = _end(stream)
    if len(record) < _DIRECTORY_END or record[:4] != b"PK\5\6" or record[-2:] != b"\0\0":
        return False
    stream.seek(max(0, end - 20))
    extended = end >= 20 and stream.read(4) == b"PK\6\7"  # another record would be believed
    return not extended and struct.unpack_from("<L", record, 12)[0] <= _LARGEST_DIRECTORY


def _is_filled(members: list[zipfile.ZipInfo], stream: IO[bytes]) -> bool:
    """Return whether every byte belongs to a member or the directory, none lies between."""
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
    """Return whether a member is a file, as its attributes say, that runs as nobody else."""
    mode = member.external_attr >> 16
    return stat.S_IFMT(mode) in (0, stat.S_IFREG) and not stat.S_IMODE(mode) & ~0o777


def zipped(content: Mapping[str, bytes]) -> bytes:
    """Return one uncompressed zip, the same bytes for the same files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in content.items():
            # The date of writing would make two copies of one release differ.
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return buffer.getvalue()
