"""Squared norms of rows, in an order of additions that is the same wherever a row is read."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["squared_norms"]

_COLUMNS = 4096  # summed at a time


def squared_norms(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Row by row, in an order of additions that does not depend on the other rows.

    On more columns than numpy buffers, its order depends on the number of rows.
    """
    total = np.zeros(rows.shape[0])
    for start in range(0, rows.shape[1], _COLUMNS):
        part = rows[:, start : start + _COLUMNS]
        total += np.einsum("ij,ij->i", part, part)
    return total
