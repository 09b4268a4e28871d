r"""Rows derived from clipped rows: their squares, and whether any limit changed them.

`SquaredSource` turns a row about its centre, clipped at R, into its squared entries,

.. math:: q_j = (z_j/R)^2, \qquad |q|_2 \le |z|^2/R^2 \le 1

so that second moments of q are fourth moments of z. `ChangedSource` marks the rows that clipping,
column limits or folding changed. Both depend on one row only. Proof: docs/proofs/fourth_moments.md.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.clip import Clip
from eigenveil.data.sources.base import RowSource
from eigenveil.data.sources.circle import folded
from eigenveil.data.sources.rowwise import RowwiseSource

__all__ = ["ChangedSource", "SquaredSource"]


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
        rows = self._clip.about_centre(chunk)
        with np.errstate(all="ignore"):
            relative = self._clip.relative_norms(chunk)
            # Dividing by the larger of both lengths first keeps huge entries finite.
            rows /= self._clip.row_norm * np.maximum(1.0, relative)[:, None]
            squares = rows * rows
        squares[self._clip.invalid(chunk)] = np.nan
        return squares


class ChangedSource(RowwiseSource):
    """One column: 1/2 for rows changed by a limit, -1/2 for all others, NaN for invalid rows.

    Parameters
    ----------
    source : RowSource
        The rows before they are folded.
    clip : Clip
        Centre, limits and clipping radius of the rows, all public or released.
    turn : array of shape (n_columns,), optional
        Entries are folded at half of it about the centre.

    """

    def __init__(
        self, source: RowSource, clip: Clip, turn: NDArray[np.float64] | None = None
    ) -> None:
        super().__init__(source, 1)
        self._clip, self._turn = clip, turn

    def of_rows(self, chunk: NDArray[Any]) -> NDArray[np.float64]:
        """Return the marks of rows of ``base``, as one column."""
        clip = self._clip
        with np.errstate(all="ignore"):
            changed = np.zeros(len(chunk), dtype=bool)
            rows = chunk
            if self._turn is not None:
                assert clip.centre is not None  # rows are folded about one
                rows = folded(chunk, clip.centre, self._turn)
                changed |= ((rows != chunk) & ~np.isnan(chunk)).any(axis=1)
            if clip.box is not None:
                changed |= ((rows < clip.box[0]) | (rows > clip.box[1])).any(axis=1)
            changed |= clip.relative_norms(rows) > 1.0
        marks = np.where(changed, 0.5, -0.5)
        marks[clip.invalid(chunk)] = np.nan
        return marks[:, None]
