"""Rows that are looked at before anything is charged, and counted."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.sources.base import RowSource

__all__ = ["Check", "CheckedRows", "count_checked"]

Check = Callable[[NDArray[Any]], None]


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """Number of rows, all of which ``check`` has seen; it raises at one that stops a run."""

    check: Check

    def of(self, source: RowSource) -> tuple[NDArray[np.int64], ...]:
        """Return the number of rows of ``source``."""
        rows = 0
        for chunk, _ in source.unit_tables():
            self.check(chunk)
            rows += len(chunk)
        return (np.array([rows]),)


def count_checked(source: RowSource, check: Check) -> int:
    """Return the number of rows, all of which ``check`` has seen where they lie."""
    (rows,) = source.summed(CheckedRows(check))
    return int(rows[0])
