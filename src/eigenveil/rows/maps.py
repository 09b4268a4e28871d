r"""Rows that are each changed by what is public or was released, and by themselves.

Neighbouring tables then differ in what they differed in before, and rows keep their owners.

`ScaledSource` divides columns. `ProjectedSource` has rows in the coordinates of a few directions,

.. math:: y = U'(x - c)

with orthonormal U and a centre c that are public or were released; an empty cell lies at c. Each
y depends on its own x alone, to the last bit, so that neighbouring tables stay neighbours: products
of rounded unit vectors are exact in any order (`Clip.coordinates`). No finite row has a y that is
not, so that whoever chooses U learns nothing from a run that stops.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.numerics.integers import Integers
from eigenveil.rows.base import RowSource, RowSum, Schema, Units
from eigenveil.rows.memory import ArraySource

_MAX_SCALED_ENTRY = 1e300

# Rows that are changed at a time, so that they stay in cache; products want many.
_BLOCK_BYTES, _LEAST_ROWS = 1 << 21, 256
_NO_ROWS = ArraySource(np.empty((0, 1)))


class RowwiseSource(RowSource):
    """Rows of another source, ``base``, each changed by itself; what is asked is asked of them."""

    def __init__(
        self, base: RowSource, n_columns: int, feature_names: tuple[str, ...] | None = None
    ) -> None:
        self.base = base
        self.n_columns = n_columns
        self._feature_names = feature_names
        self.rereadable = base.rereadable

    @abstractmethod
    def of_rows(self, chunk: NDArray[Any]) -> NDArray[np.float64]:
        """Return what becomes of rows of ``base``."""

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        """That of ``base``, with other columns."""
        names = self._feature_names
        return replace(self.base.schema, feature_names=names, table_columns=(), undecided=())

    @property
    def n_rows(self) -> int | None:
        """Number of rows of ``base``."""
        return self.base.n_rows

    @property
    def units(self) -> Units:  # type: ignore[override]
        """Those of ``base``."""
        return self.base.units

    @property
    def kinds(self) -> NDArray[np.intp] | None:
        """The kind of each row of ``base``. Private."""
        return self.base.kinds

    def keep_order(self) -> None:
        """Refuse readings of ``base`` in which rows come in another order."""
        self.base.keep_order()

    def count_rows(self) -> int:
        """Return the number of rows of ``base``, none of which is changed for it."""
        return self.base.count_rows()

    def chunks(self) -> Iterator[NDArray[np.float64]]:
        """Yield changed chunks."""
        return map(self.of_rows, self.base.tables())

    def summed(self, what: RowSum) -> tuple[Integers, ...]:
        """Return a sum over changed rows, which are changed where ``base`` has them."""
        return self.base.summed(_OfChanged(self, what))

    def of_other(self, base: RowSource) -> "RowwiseSource":
        """Return rows of another source, changed alike."""
        other = copy(self)
        other.base = base
        other.rereadable = base.rereadable
        return other

    def unit_tables(self) -> Iterator[tuple[NDArray[Any], NDArray[np.intp] | None]]:
        """Yield changed rows, some at a time, and whose they are."""
        for rows, owners in self.base_blocks():
            yield self.of_rows(rows), owners

    def base_blocks(self) -> Iterator[tuple[NDArray[Any], NDArray[np.intp] | None]]:
        """Yield rows of ``base``, some at a time, and whose they are."""
        size = max(_LEAST_ROWS, _BLOCK_BYTES // (8 * max(1, self.n_columns)))
        for chunk, owners in self.base.unit_tables():
            for start in range(0, len(chunk), size):
                part = slice(start, start + size)
                yield chunk[part], None if owners is None else owners[part]


class _OfChanged:
    """A sum over rows that are changed first."""

    def __init__(self, changed: RowwiseSource, what: RowSum) -> None:
        self._changed = changed.of_other(_NO_ROWS)  # without the rows: it may travel to others
        self._what = what

    def of(self, source: RowSource) -> tuple[Integers, ...]:
        """Return the sum over rows of ``source``, changed. Private."""
        return self._what.of(self._changed.of_other(source))


class ShownSource(RowwiseSource):
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
        super().__init__(source, source.n_columns, source.schema.feature_names)
        source.keep_order()
        self._kinds = kinds
        self._remark = remark

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        """That of ``base``, and what the kinds are."""
        base = super().schema
        return replace(base, remarks=(*base.remarks, self._remark))

    @property
    def kinds(self) -> NDArray[np.intp]:
        """The kind of each row. Private."""
        return self._kinds

    def of_rows(self, chunk: NDArray[Any]) -> NDArray[Any]:
        """Return rows of ``base``."""
        return chunk


class ScaledSource(RowwiseSource):
    """Columns divided by public or released scales; a column of infinite scale is left out."""

    def __init__(self, source: RowSource, scale: NDArray[np.float64]) -> None:
        self._kept = np.flatnonzero(np.isfinite(scale))
        self._scale = scale[self._kept]
        names = source.schema.feature_names
        kept_names = None if names is None else tuple(names[j] for j in self._kept)
        super().__init__(source, self._kept.size, kept_names)

    def before_scaling(self, change: Callable[[RowSource], RowSource]) -> RowwiseSource:
        """Return what ``change`` makes of the rows of ``base``, its columns divided."""
        return self.of_other(self.base.before_scaling(change))

    def of_rows(self, chunk: NDArray[Any]) -> NDArray[np.float64]:
        """Return rows of ``base``, with the columns that are kept divided by their scales."""
        kept = chunk if self.n_columns == chunk.shape[1] else chunk[:, self._kept]
        with np.errstate(all="ignore"):  # a warning would depend on the records
            rows = kept.astype(np.float64, copy=False)
            scaled = np.asarray(rows / self._scale)
            # Only what was not finite before may be so now: a row of numbers stops no run.
            limit = _MAX_SCALED_ENTRY
            if not (scaled.min(initial=0.0) >= -limit and scaled.max(initial=0.0) <= limit):
                np.clip(scaled, -limit, limit, out=scaled, where=np.isfinite(rows))
        return scaled
