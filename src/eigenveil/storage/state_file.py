"""The format of a stream's state file, and of the file of waiting records beside it.

A state is one uncompressed zip of ``state.json``, ``arrays.npz`` (no pickle) and ``SHA256SUMS``.
The records lie in a file of their own, ``NAME.TOKEN.rows``, which the state names and knows the sum
of. Whatever cannot be read raises `ValueError`, or what reading files raises.
"""

import glob
import hashlib
import io
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from eigenveil.exceptions import StateError
from eigenveil.storage.archive import unzip, zipped
from eigenveil.storage.durable import TOKEN, replace_file, token
from eigenveil.storage.paths import read_regular

_DOCUMENT, _ARRAYS, _SUMS = "state.json", "arrays.npz", "SHA256SUMS"
_ROWS = re.compile(r"[^/\\]+\.[0-9a-f]{8}\.rows")  # the name of a file of records


def pack_state(document: Mapping[str, Any], arrays: Mapping[str, Any]) -> bytes:
    """Return the bytes of a state."""
    packed = io.BytesIO()
    np.savez(packed, allow_pickle=False, **arrays)
    content = {
        _DOCUMENT: (json.dumps(document, indent=2, allow_nan=False) + "\n").encode(),
        _ARRAYS: packed.getvalue(),
    }
    return zipped({**content, _SUMS: _sums(content)})


def unpack_state(data: bytes, name: str) -> tuple[Any, bytes]:
    """Return the document of the state ``name``, and its arrays as they are packed."""
    content = unzip(data, name)
    if set(content) != {_DOCUMENT, _ARRAYS, _SUMS} or content[_SUMS] != _sums(content):
        raise ValueError
    return json.loads(content[_DOCUMENT], parse_constant=_refuse), content[_ARRAYS]


def decode_arrays(data: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays of a state."""
    stored = unzip(data, _ARRAYS)
    return {name.removesuffix(".npy"): _array(each) for name, each in stored.items()}


def write_rows(state: Path, rows: NDArray[np.float64]) -> tuple[str, str]:
    """Write records to a new file beside a state; return its name and its sum."""
    packed = io.BytesIO()
    np.save(packed, rows, allow_pickle=False)
    data = packed.getvalue()
    name = f"{state.name}.{token()}.rows"
    replace_file(state.with_name(name), data)
    return name, hashlib.sha256(data).hexdigest()


def read_rows(state: Path, name: str, sha256: str) -> NDArray[np.float64]:
    """Return the records in the file of that name beside a state."""
    if not _ROWS.fullmatch(name):
        raise ValueError
    data = read_regular(state.with_name(name))
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ValueError
    return _array(data)


def remove_rows(rows: Path) -> None:
    """Remove a file of records, or a draft of one."""
    try:
        rows.unlink(missing_ok=True)
    except OSError:
        raise StateError(
            f"cannot remove {rows.name}, which holds private rows and is needed no more: remove it "
            "by hand"
        ) from None


def leftovers(state: Path, kept: str | None) -> list[Path]:
    """Return the rows and drafts beside a state that it does not name."""
    name = glob.escape(state.name)
    endings = (f"{TOKEN}.rows", f"{TOKEN}.new", f"{TOKEN}.rows.{TOKEN}.new")
    found = [path for ending in endings for path in state.parent.glob(f"{name}.{ending}")]
    return [path for path in found if path.name != kept]


def _sums(content: Mapping[str, bytes]) -> bytes:
    lines = (
        f"{hashlib.sha256(content[name]).hexdigest()}  {name}\n" for name in (_DOCUMENT, _ARRAYS)
    )
    return "".join(lines).encode()


def _refuse(word: str) -> float:
    raise ValueError(word)


def _array(data: bytes) -> NDArray[Any]:
    """Read a stored array; what its header claims is compared before anything is made of it."""
    stream = io.BytesIO(data)
    if npy.read_magic(stream) != (1, 0):
        raise ValueError
    shape, by_columns, dtype = npy.read_array_header_1_0(stream)
    if dtype.kind not in "fi" or math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise ValueError
    numbers = np.frombuffer(data, dtype, offset=stream.tell())
    return numbers.reshape(shape, order="F" if by_columns else "C").copy()
