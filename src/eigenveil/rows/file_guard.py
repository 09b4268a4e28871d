"""Check that a file, local or remote, gives the same rows in every pass.

Noise is calibrated to one table. Were a file written to meanwhile, the number of rows, a centre and
a sum could each be of another. What keeps size, time and identity of a file is noticed by its rows,
at the end of a pass (`Readings`).

Credentials come from where those look for them: the environment, or a file of the account. An
address may hold some itself, so no message shows more of it than the name of the file.

Noise is calibrated to one table. Were the rows others in a second reading, one record could be in
it twice, or several times under the groups of others. So every full reading of what does not lie in
memory is summed up in integers, and compared with the first one.

A row's hash is a sum of its entries, each folded to 64 bits and times an odd number of its column,
mixed. Hashes are added up, modulo 2^64: alone, which does not depend on the order of rows, and
mixed with their places, which does. The hash has no key: it notices accidents, not a source made
to have two tables of the same sums.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import EigenveilError, InvalidDataError, MissingExtraError
from eigenveil.numerics.kernels import row_bits
from eigenveil.text import printable

_SIZE_AND_TIME = 2  # of a version: what any machine sees alike


class StoredFile:
    """A regular file as it was when it was opened first.

    Attributes
    ----------
    path : Path
        Where it lies.
    name : str
        What messages call it.

    """

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, printable(path.name)
        self._compared: int | None = None
        self._version = self._look()
        if self._version is None:
            raise InvalidDataError(f"no file at {printable(str(path))}: check the path")

    @property
    def size(self) -> int:
        """Number of bytes."""
        assert self._version is not None  # it was there
        return self._version[0]

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Open the file for pyarrow, which takes no path that is not UTF-8."""
        with self.path.open("rb") as stream:
            yield stream

    def elsewhere(self) -> "StoredFile":
        """Return the same file for other machines, where its identity may be another number."""
        other = copy(self)
        other._compared = _SIZE_AND_TIME
        return other

    @contextmanager
    def one_pass(self, failure: str, *, header: bool = False) -> Iterator[None]:
        """Refuse a pass that a changed file had a part in, or that fails.

        ``failure`` then says how; what a reader raises itself may quote an entry. ``header`` says
        whether a header of NumPy is read.
        """
        self._check()
        try:
            yield
        except EigenveilError:
            raise
        except Exception as error:  # of odd files there is no end of ways to fail
            # Python's parser, which reads headers, raises a plain one at odd ones.
            lack = isinstance(error, MemoryError) and not (header and type(error) is MemoryError)
            if lack:  # its own words tell the shape of the rows
                raise MemoryError(f"out of memory while {self.name} was read") from None
            raise InvalidDataError(f"{self.name} {failure}") from None
        self._check()

    def _check(self) -> None:
        found, known = self._look(), self._version
        if found is None or known is None or found[: self._compared] != known[: self._compared]:
            raise changed()

    def _look(self) -> tuple[int, ...] | None:
        """Return size, time of the last change and what else tells versions apart."""
        return _version(self.path)


def changed() -> InvalidDataError:
    """Return the error about a table whose passes differ."""
    return InvalidDataError(
        "the table changed while it was read: give rows that are the same, and beside groups in "
        "the same order, whenever they are read; what was charged before stays charged"
    )


def _version(path: Path) -> tuple[int, int, int, int] | None:
    """Return size, time of the last change and identity; None where no regular file is."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # a name with a NUL is no value
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino, found.st_dev


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


_ENTRIES = 1 << 18  # hashed at a time: they stay in cache
_STEP = np.uint64(0x9E3779B97F4A7C15)  # from one place, column or unit to the next
_HALF = np.uint64(32)


class Fingerprint:
    """Sums over the rows of one reading. Private."""

    def __init__(self) -> None:
        self._rows = 0
        self._sums = np.zeros(2, dtype=np.uint64)  # whatever the order, and of places

    def add(self, table: NDArray[Any], owners: NDArray[np.intp] | None = None) -> None:
        """Add the next rows, and the numbers of their units where they have some."""
        size = max(1, _ENTRIES // table.shape[1])
        for start in range(0, len(table), size):
            part = slice(start, start + size)
            hashes = row_hashes(table[part])
            if owners is not None:
                hashes = _mixed(hashes + owners[part].astype(np.uint64) * _STEP)
            places = np.arange(self._rows, self._rows + len(hashes), dtype=np.uint64)
            self._rows += len(hashes)
            self._sums += np.array([hashes.sum(), _mixed(hashes + places * _STEP).sum()])

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Number of rows, sum in any order, sum in this order."""
        return np.array([self._rows, *self._sums.view(np.int64)])


class Readings:
    """Compares every full reading of a source with the first one.

    Attributes
    ----------
    first : array, optional
        Numbers of its fingerprint. Private.
    in_order : bool
        Whether rows must come in the same order: ids or kinds lie beside them.

    """

    def __init__(self, first: NDArray[np.int64] | None = None) -> None:
        self.first = first
        self.in_order = False

    def compared(self, tables: Iterator[NDArray[Any]]) -> Iterator[NDArray[Any]]:
        """Yield tables, which are compared after the last one."""
        found = Fingerprint()
        for table in tables:
            found.add(table)
            yield table
        self.compare(found.numbers)

    def compare(self, found: NDArray[np.int64]) -> None:
        """Refuse a reading that found other rows than the first one."""
        if self.first is None:
            self.first = found
        compared = None if self.in_order else -1
        if not np.array_equal(found[:compared], self.first[:compared]):
            raise changed()


def row_hashes(table: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a hash of each row as it is read: of float64, with one zero and one NaN."""
    weights = _weights(table.shape[1])
    known = row_bits(table, weights)
    if known is not None:
        return _mixed(known)
    with np.errstate(all="ignore"):  # a warning would depend on the records
        values = np.add(table, 0.0, dtype=np.float64)  # -0.0 becomes 0.0
    values[np.isnan(values)] = np.nan
    bits = values.view(np.uint64)
    bits ^= bits >> _HALF  # whole numbers are zero in their low bits, and products would stay so
    return _mixed(bits @ weights)


@lru_cache(maxsize=4)
def _weights(columns: int) -> NDArray[np.uint64]:
    """Return an odd number for each column."""
    return _mixed(np.arange(1, columns + 1, dtype=np.uint64) * _STEP) | np.uint64(1)


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return other numbers, each bit of which depends on all bits of one (splitmix64)."""
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def table_version(path: Path) -> str:
    """Return a name for the present version of a file.

    It covers size, identity, and the times of the last change of content and of status. No program
    can set the last one back, so that a later change of the file shows whatever it keeps.
    """
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        found = None
    if found is None or not stat.S_ISREG(found.st_mode):
        raise InvalidDataError("the table is not a file: choose one file of this folder")
    facts = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev)
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def require_version(path: Path, version: str) -> None:
    """Refuse a file that is not in this version any more.

    Call it once the file is open: every pass over a source compares the file with what it was at
    its opening, so that no change in between is missed.
    """
    if table_version(path) != version:
        raise InvalidDataError(
            "the table changed since its release was confirmed: look at the promise again"
        )
