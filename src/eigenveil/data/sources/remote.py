"""Files on object stores, through the filesystems of pyarrow: ``s3://``, ``gs://`` and the like.

Credentials come from where those look for them: the environment, or a file of the account. An
address may hold some itself, so no message shows more of it than the name of the file.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from eigenveil.data.sources.stored import StoredFile
from eigenveil.exceptions import InvalidDataError, MissingExtraError

__all__ = ["RemoteFile", "address_of", "parquet_names", "remote_files"]

_ADDRESS = re.compile(r"(s3|gs|gcs|abfs|abfss|hdfs|file):/+(?=[^/])")
_LOCAL = re.compile(r"file:/+")


def address_of(data: str | Path) -> str | None:
    """Return the address of a file on an object store; None for a path on this machine.

    A path has lost one of two slashes.
    """
    text = str(data)
    if _LOCAL.match(text):
        return _LOCAL.sub("file:///", text, count=1)
    found = _ADDRESS.match(text)
    return None if found is None else f"{found[1]}://{text[found.end() :]}"


class RemoteFile(StoredFile):
    """A file on an object store as it was when it was opened first."""

    def __init__(self, system: Any, path: str) -> None:
        self._system, self._key = system, path
        super().__init__(Path(PurePosixPath(path).name))

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Open the file for random access."""
        with self._system.open_input_file(self._key) as stream:
            yield stream

    def _look(self) -> tuple[int, ...] | None:
        from pyarrow import fs

        try:
            found = self._system.get_file_info(self._key)
        except OSError:  # its message may hold the address
            return None
        if found.type != fs.FileType.File:
            return None
        return found.size, found.mtime_ns or 0


def parquet_names(inside: Mapping[str, bool]) -> list[str]:
    """Return the names of the parquet files among what a folder holds, in their order.

    ``inside`` says of each name whether it is a folder. A folder inside is refused: it may hold a
    part of the table, or say which files are out of date (``_delta_log``). Hidden names, such as
    ``_SUCCESS``, ``.part-0.parquet.crc`` or the draft of a release, belong to programs.
    """
    parts = [name for name in sorted(inside) if name.lower().endswith(".parquet")]
    if parts and any(is_folder and name[0] != "." for name, is_folder in inside.items()):
        raise InvalidDataError(
            "a folder of parquet files holds another folder, which may be a part of the table: "
            "give a folder of files alone"
        )
    return [name for name in parts if not name.startswith((".", "_"))]


def remote_files(address: str) -> Sequence[StoredFile]:
    """Return the file at an address, or all parquet files of a folder there, in order."""
    try:
        from pyarrow import fs
    except ImportError:
        raise MissingExtraError(
            "reading from object stores needs pyarrow: pip install 'eigenveil[parquet]'"
        ) from None
    try:
        system, path = fs.FileSystem.from_uri(address)
        is_folder = system.get_file_info(path).type == fs.FileType.Directory
        listed = system.get_file_info(fs.FileSelector(path)) if is_folder else []
    except (OSError, ValueError, NotImplementedError):
        raise InvalidDataError(
            "an object store did not answer: check the address, the network and the credentials"
        ) from None
    if is_folder:
        paths = {each.base_name: each.path for each in listed}
        inside = {each.base_name: each.type == fs.FileType.Directory for each in listed}
        found = [paths[name] for name in parquet_names(inside)]
    else:
        found = [path] if path.lower().endswith(".parquet") else []
    if not found:
        raise InvalidDataError("no parquet files there: save the table on the object store as such")
    return [RemoteFile(system, each) for each in found]
