"""Single entries as numbers: one that is none becomes NaN, so that its row alone is invalid."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["as_floats"]

# Their conversion to a float would drop a part, or count from a date.
_NO_FLOATS = (complex, np.complexfloating, np.datetime64, np.timedelta64)


def as_floats(array: NDArray[np.object_]) -> NDArray[np.float64]:
    """Convert each entry by itself; all at once where that is the same."""
    if not any(issubclass(kind, _NO_FLOATS) for kind in set(map(type, array.flat))):
        try:
            return array.astype(np.float64)
        except Exception:  # which entry it was, the next line finds
            pass
    return np.asarray(np.vectorize(_as_float, otypes=[np.float64])(array))


def _as_float(entry: Any) -> float:
    """Return what numpy makes of the entry; NaN where it is no number."""
    if isinstance(entry, _NO_FLOATS):
        return math.nan
    cell = np.empty(1, dtype=object)
    cell[0] = entry
    try:
        return float(cell.astype(np.float64)[0])
    except OverflowError:
        return math.inf
    except Exception:  # whatever the entry is, only its row becomes invalid
        return math.nan
