"""Archives of NumPy and scipy, ``.npz``: one table, or one sparse matrix."""

import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.sources.arrays import ArraySource
from eigenveil.data.sources.base import RowSource
from eigenveil.data.sources.sparse import SparseSource
from eigenveil.data.sources.stored import StoredFile
from eigenveil.exceptions import InvalidDataError

__all__ = ["open_npz"]

_MAX_BYTES = 1 << 33  # unpacked: it is held in memory
_SPARSE = {"format", "shape", "data"}  # what scipy.sparse.save_npz writes, whatever the format
_UNREADABLE = "is not a readable .npz archive: write it again with np.savez or save_npz"


def open_npz(path: Path) -> RowSource:
    """Return the rows of the one table in an archive."""
    file = StoredFile(path)
    with file.one_pass(_UNREADABLE, header=True):
        with zipfile.ZipFile(path) as archive:
            if sum(member.file_size for member in archive.infolist()) > _MAX_BYTES:
                raise InvalidDataError(f"{file.name} is too large for memory: save it as .npy")
        with np.load(path, allow_pickle=False) as stored:
            names = set(stored.files)
            if names >= _SPARSE:
                return SparseSource(_parts({name: stored[name] for name in names}))
            if len(names) != 1:
                raise InvalidDataError(
                    f"{file.name} holds {len(names)} arrays: save the one table by itself"
                )
            (table,) = (stored[name] for name in names)
    return ArraySource(table)


def _parts(stored: dict[str, NDArray[Any]]) -> SimpleNamespace:
    """Return the parts of a sparse matrix as they are stored.

    scipy would make integers of indices of another type before anybody could look at them.
    """
    form, shape = stored["format"].item(), stored["shape"]
    if shape.dtype.kind not in "iu" or shape.ndim != 1:
        raise ValueError
    if "coords" in stored:
        stored["row"], stored["col"] = stored["coords"]
    return SimpleNamespace(
        **{name: stored[name] for name in stored.keys() - _SPARSE},
        format=form if isinstance(form, str) else form.decode("ascii"),
        shape=tuple(shape.tolist()),
        data=stored["data"],
        dtype=stored["data"].dtype,
    )
