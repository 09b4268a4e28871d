"""Changes of single rows: columns divided or chosen, and rows shown as they are."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.numerics.integers import Integers
from eigenveil.rows.base import MappedRows, RowMap, RowSource, RowSum, Schema

_MAX_SCALED_ENTRY = 1e300


@dataclass(frozen=True, eq=False)
class Divide(RowMap):
    """Divide columns by public or released scales; leave out columns of infinite scale."""

    linear: ClassVar[bool] = True
    scale: NDArray[np.float64]

    @cached_property
    def _kept(self) -> NDArray[np.intp]:
        return np.flatnonzero(np.isfinite(self.scale))

    def width(self, n_columns: int) -> int:
        """Return the number of columns that are kept."""
        return self._kept.size

    def names(self, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return the names of the columns that are kept."""
        return None if names is None else tuple(names[j] for j in self._kept)

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return rows with the columns that are kept divided by their scales."""
        kept = rows if self._kept.size == rows.shape[1] else rows[:, self._kept]
        with np.errstate(all="ignore"):  # a warning would depend on the records
            table = kept.astype(np.float64, copy=False)
            scaled = np.asarray(table / self.scale[self._kept])
            # Only what was not finite before may be so now: a row of numbers stops no run.
            limit = _MAX_SCALED_ENTRY
            if not (scaled.min(initial=0.0) >= -limit and scaled.max(initial=0.0) <= limit):
                np.clip(scaled, -limit, limit, out=scaled, where=np.isfinite(table))
        return scaled


@dataclass(frozen=True, eq=False)
class TakeColumns(RowMap):
    """Take some columns by their positions, in their order or another."""

    columns: slice | Sequence[int]

    def width(self, n_columns: int) -> int:
        """Return the number of columns that are taken."""
        columns = self.columns
        return len(range(n_columns)[columns] if isinstance(columns, slice) else columns)

    def names(self, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return the names of the columns that are taken."""
        if names is None:
            return None
        columns = self.columns
        return names[columns] if isinstance(columns, slice) else tuple(names[j] for j in columns)

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return these columns of rows."""
        with np.errstate(all="ignore"):
            return np.asarray(rows[:, self.columns], dtype=np.float64)


class Unchanged(RowMap):
    """Rows as they are, of which a source knows something more."""

    def names(self, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return the same names."""
        return names

    def __call__(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the same rows."""
        return rows


class ShownSource(MappedRows):
    """Rows as they are, each with the number of the kind that a map shows it as.

    Parameters
    ----------
    source : RowSource
        The rows.
    kinds : array of shape (n_rows,)
        A number for each, in their order. Private.
    remark : str
        What the kinds are, in words; public.

    """

    def __init__(self, source: RowSource, kinds: NDArray[np.intp], remark: str) -> None:
        super().__init__(source, Unchanged())
        source.keep_order()
        self._kinds = kinds
        self._remark = remark

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        """Facts about ``base``, and what the kinds are."""
        base = super().schema
        return replace(base, remarks=(*base.remarks, self._remark))

    @property
    def kinds(self) -> NDArray[np.intp]:
        """The kind of each row. Private."""
        return self._kinds

    def summed(self, what: RowSum) -> tuple[Integers, ...]:
        """Return a sum over the rows with their kinds, by reading them here. Private."""
        return what.of(self)
