r"""Rows in the coordinates of a few directions.

.. math:: y = U'(x - c)

with orthonormal U and a centre c that are public or were released; an empty cell lies at c. Each
y depends on its own x alone, to the last bit, so that neighbouring tables stay neighbours: products
of rounded unit vectors are exact in any order (`Clip.coordinates`). No finite row has a y that is
not, so that whoever chooses U learns nothing from a run that stops.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.clip import Clip
from eigenveil.data.source import RowSource, RowwiseSource

__all__ = ["BesideSource", "ProjectedSource"]


class ProjectedSource(RowwiseSource):
    """Coordinates of rows along directions; those of an invalid row are NaN.

    Parameters
    ----------
    source : RowSource
        The rows.
    clip : Clip
        The centre, the box that entries are clamped to, what makes a row invalid, and whether rows
        are scaled to unit length first.
    basis : array of shape (n_columns, k)
        Orthonormal directions, as columns.

    """

    def __init__(self, source: RowSource, clip: Clip, basis: NDArray[np.float64]) -> None:
        self.base = source
        self.n_columns = int(basis.shape[1])
        self._clip = clip
        self._directions = np.ascontiguousarray(basis.T)

    def of_rows(self, chunk: NDArray[Any]) -> NDArray[np.float64]:
        """Coordinates of rows of ``base``."""
        return self._clip.coordinates(chunk, self._directions)


class BesideSource(RowwiseSource):
    """One column: how long rows are beside directions; NaN for an invalid row.

    Parameters are those of `ProjectedSource`.
    """

    def __init__(self, source: RowSource, clip: Clip, basis: NDArray[np.float64]) -> None:
        self.base = source
        self.n_columns = 1
        self._clip = clip
        self._directions = np.ascontiguousarray(basis.T)

    def of_rows(self, chunk: NDArray[Any]) -> NDArray[np.float64]:
        """Lengths of rows of ``base``."""
        return self._clip.beside(chunk, self._directions)[:, None]
