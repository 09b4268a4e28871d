"""One table in memory: real numbers in rows and columns, or an error that shows no entry.

Whether a table is refused is decided by what is public: its type and its shape. Entries of an
array of objects, or of a list, have no common type; one that is no number becomes NaN, as a cell of
a CSV file does, so that its row alone is invalid.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from eigenveil.data.sources.cells import as_floats
from eigenveil.data.sources.frames import is_frame, numbers
from eigenveil.exceptions import InvalidDataError

__all__ = ["as_table", "check_table"]


def as_table(data: Any) -> NDArray[Any]:
    """Return a two-dimensional array of real numbers, or raise an error that shows no entry."""
    if issparse(data):
        raise InvalidDataError("these rows are sparse: make them dense first, X.toarray()")
    if hasattr(data, "collect"):
        raise InvalidDataError("a lazy frame holds no rows yet: pass what its collect() gives")
    try:
        array = _as_array(data)
    except (InvalidDataError, MemoryError):
        raise
    except Exception:  # whatever numpy or a data frame raises may quote an entry
        array = np.empty(0, dtype=object)
    check_table(array.dtype, array.shape)
    return array


def check_table(dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Refuse what is no table of real numbers."""
    if dtype.kind == "c":
        raise InvalidDataError("Complex data not supported: rows must be real numbers")
    if dtype.kind not in "fiub":
        raise InvalidDataError(
            "rows must be numbers in a rectangular table: encode or drop text and date columns, "
            "and check that all rows have the same length"
        )
    if len(shape) != 2:
        raise InvalidDataError("rows must form a two-dimensional table. Reshape your data")
    if shape[1] == 0:
        raise InvalidDataError("the table has no columns")


def _as_array(data: Any) -> NDArray[Any]:
    """Return an array of any shape; missing entries of masked arrays and frames become NaN."""
    if is_frame(data):
        return numbers(data)
    with np.errstate(all="ignore"):  # a warning would depend on the records
        if np.ma.isMaskedArray(data) and data.dtype.kind in "fiubO":
            kind = object if data.dtype.kind == "O" else np.float64
            array = np.asarray(np.ma.filled(data.astype(kind), np.nan))
        else:
            array = np.asarray(data)
        if array.dtype.kind not in "fiub" and isinstance(data, (list, tuple)):
            array = np.asarray(data, dtype=object)  # numpy took the type from the entries
        if array.dtype.kind != "O":
            return array
        return as_floats(array) if array.ndim == 2 else array.astype(np.float64)
