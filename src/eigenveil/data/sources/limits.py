r"""Rows within limits of each column, their squares, and whether any limit changed them.

`LimitedSource` divides columns, folds and limits them (`ColumnLimits`). `SquaredSource` turns a row
about its centre, clipped at R, into its squared entries,

.. math:: q_j = (z_j/R)^2, \qquad |q|_2 \le |z|^2/R^2 \le 1

so that second moments of q are fourth moments of z. `ChangedSource` marks the rows that clipping,
column limits or folding changed. All depend on one row only. Proof: docs/proofs/fourth_moments.md.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.clip import Clip
from eigenveil.data.column_limits import ColumnLimits
from eigenveil.data.compiled import limited
from eigenveil.data.sources.base import RowSource
from eigenveil.data.sources.rowwise import RowwiseSource

__all__ = ["ChangedSource", "LimitedSource", "SquaredSource"]

_ROUNDING = 1 - 1e-12  # of an entry at its limit


class LimitedSource(RowwiseSource):
    """Rows divided by scales, folded about a centre and limited in each column."""

    def __init__(self, source: RowSource, limits: ColumnLimits) -> None:
        super().__init__(source, source.n_columns, source.feature_names)
        self._limits = limits

    def of_rows(self, chunk: NDArray[Any]) -> NDArray[np.float64]:
        """Return limited rows of ``base``."""
        return limited(chunk, self._limits)[0]


class SquaredSource(RowwiseSource):
    """Squared entries of clipped rows, in units of the squared clipping radius; at most length 1.

    An invalid row is NaN.

    Parameters
    ----------
    source : RowSource
        The rows.
    clip : Clip
        Centre, limits and clipping radius of the rows, all public or released.

    """

    def __init__(self, source: RowSource, clip: Clip) -> None:
        super().__init__(source, source.n_columns)
        self._clip = clip

    def of_rows(self, chunk: NDArray[Any]) -> NDArray[np.float64]:
        """Return the squared entries of clipped rows of ``base``."""
        rows, relative, invalid = self._clip.relative_rows(chunk)
        with np.errstate(all="ignore"):
            # Dividing by the larger of both lengths first keeps huge entries finite.
            rows /= self._clip.row_norm * np.maximum(1.0, relative)[:, None]
            rows *= rows
        rows[invalid] = np.nan
        return rows


class ChangedSource(RowwiseSource):
    """One column: 1/2 for rows changed by a limit, -1/2 for all others, NaN for invalid rows.

    Parameters
    ----------
    source : RowSource
        The rows before any limit.
    clip : Clip
        Centre and clipping radius of the rows, and other limits, all public or released.
    limits : ColumnLimits, optional
        Scales, turns and limits of columns, all public or released.
    counts_turns : bool
        Whether a row that was moved by whole turns only is a changed one.

    """

    def __init__(
        self,
        source: RowSource,
        clip: Clip,
        limits: ColumnLimits | None = None,
        *,
        counts_turns: bool = True,
    ) -> None:
        super().__init__(source, 1)
        self._clip, self._limits, self._counts_turns = clip, limits, counts_turns

    def of_rows(self, chunk: NDArray[Any]) -> NDArray[np.float64]:
        """Return the marks of rows of ``base``, as one column."""
        clip = self._clip
        rows, changed = chunk, np.zeros(len(chunk), dtype=bool)
        with np.errstate(all="ignore"):
            if self._limits is not None:
                rows, changed = limited(chunk, self._limits)
                if not self._counts_turns:
                    most = self._limits.limit * _ROUNDING
                    changed = np.asarray((np.abs(rows - self._limits.centre) >= most).any(axis=1))
            if clip.box is not None:
                changed |= ((rows < clip.box[0]) | (rows > clip.box[1])).any(axis=1)
            changed |= clip.relative_norms(rows) > 1.0
        marks = np.where(changed, 0.5, -0.5)
        marks[clip.invalid(rows)] = np.nan
        return marks[:, None]
