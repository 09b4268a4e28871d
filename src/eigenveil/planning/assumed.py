r"""Tables as they are assumed: normal rows of a given spectrum, without a single row of data.

By rotation invariance the covariance may be taken as diagonal. Of many columns a few hundred
directions are simulated: the leading ones as they are, and the bulk by a sample of its
eigenvalues. Noise that spreads over d directions then has to reach as far over fewer: its scale
grows by :math:`\sqrt{d/d'}`, so that its norm, and what it turns an eigenvector by, stay the same.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from eigenveil.numerics.cleaning import unit_shares
from eigenveil.numerics.random import NoiseSource, normals
from eigenveil.planning.request import Situation

_SAMPLE = 500  # rows that stand for how a sample differs from its law

# Limits on columns that are no eigenvectors add an error of about one over the number of rows in
# the sample, which correlations are precise enough to show: at least so many rows, and cells.
_LARGE_SAMPLE, _SAMPLED_CELLS = 8000, 320_000


def isotropic(d: int, source: NoiseSource) -> NDArray[np.float64]:
    """Symmetric Gaussian noise of scale 1: on the diagonal variance 1, off it 1/2."""
    square = normals(source, (d, d))
    return np.asarray((square + square.T) / 2)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """A sample of rows, and by how much less than it a table of n rows varies."""

    rows: NDArray[np.float64]
    rest: float
    shrink: float

    @property
    def squares(self) -> NDArray[np.float64]:
        """Squared lengths."""
        return np.asarray(np.einsum("ij,ij->i", self.rows, self.rows) + self.rest)

    def moment(
        self, mean: NDArray[np.float64], weights: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """Return the weighted second moment of the table, whose law has the given mean."""
        rows = self.rows
        weighted = rows if weights is None else rows * weights[:, None]
        return mean + self.shrink * (weighted.T @ rows / len(rows) - mean)


@dataclass(frozen=True, eq=False)
class AssumedTable:
    """The directions that are simulated.

    Attributes
    ----------
    values : array
        Eigenvalues of the covariance along them, descending; those of all directions sum to 1.
    rest : float
        The sum of the eigenvalues that are left out.
    leading : int
        Directions that stand for themselves; the others stand for several each.
    k : int
        Number of components wanted, in these directions.
    stretch : float
        Number of directions for each that is simulated.
    most_rows : int
        Largest number of rows in a sample.

    """

    values: NDArray[np.float64]
    rest: float
    leading: int
    k: int
    stretch: float
    whole: NDArray[np.float64]
    most_rows: int = _SAMPLE

    @classmethod
    def of(cls, situation: Situation, cap: int, leading: int | None = None) -> "AssumedTable":
        """Return a table of at most ``cap`` directions, half of them leading, or ``leading``."""
        values = situation.eigenvalues
        d, k = situation.d, situation.k or 1
        most = _SAMPLE
        if situation.standardises:
            most = max(_LARGE_SAMPLE, _SAMPLED_CELLS // d)
        if d <= cap:
            return cls(values, 0.0, d, k, 1.0, values, most)
        if 2 * k <= cap // 2:
            leading = cap // 2 if leading is None else max(2 * k, leading)
            where = np.linspace(leading, d - 1, cap - leading + 1)
            where = (where[1:] + where[:-1]) / 2  # the middle of each group
            bulk = np.interp(where, np.arange(d), values)
            values = np.concatenate([values[:leading], bulk])
        else:  # too many components to keep each: all directions stand for several
            leading = 0
            where = (np.arange(cap) + 0.5) * d / cap - 0.5
            values = np.interp(where, np.arange(d), values)
            share = max(1, round(k * cap / d))
            k = min(share, cap - 1) if k < d else cap  # what is left out stays so
        rest = max(0.0, 1 - float(values.sum()))
        return cls(values, rest, leading, k, d / cap, situation.eigenvalues, most)

    @property
    def d(self) -> int:
        """Number of directions simulated."""
        return self.values.size

    @cached_property
    def unit(self) -> NDArray[np.float64]:
        """Second moments of rows scaled to unit length."""
        return unit_shares(self.values, self.rest)

    def sample(self, n: float, source: NoiseSource) -> Rows:
        """Return rows for a table of ``n``."""
        size = int(max(2, min(n, self.most_rows)))
        rows = normals(source, (size, self.d)) * np.sqrt(self.values)
        return Rows(rows, self.rest, math.sqrt(min(1.0, size / n)))

    def clipped(self, rows: Rows, reach: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean second moments of rows clipped at ``reach``, and weights of the sample.

        The factor by which clipping shrinks a direction is smooth in its eigenvalue: close to
        1/(a + b lambda), as it is for unit rows.
        """
        weights = np.minimum(1.0, reach**2 / rows.squares)
        if weights.min() == 1.0:
            return self.values, weights
        squares = rows.rows**2
        seen = self.values > 0  # a direction without variance has nothing to shrink
        kept = (weights @ squares[:, seen]) / squares[:, seen].sum(axis=0)
        values = self.values[seen]
        slope, level = np.polyfit(values, 1 / kept, 1) if np.ptp(values) else (0.0, 0.0)
        if not (level >= 1 and slope >= 0):  # a flat spectrum has no slope to see
            return self.values * float(kept.mean()), weights
        return self.values / (level + slope * self.values), weights

    def error(self, difference: NDArray[np.float64]) -> float:
        """Return the Frobenius norm, were all directions simulated."""
        head = difference[: self.leading]
        tail = difference[self.leading :, self.leading :]
        beside = 2 * float(np.sum(head[:, self.leading :] ** 2))
        inside = float(np.sum(head[:, : self.leading] ** 2))
        others = self.whole.size - self.leading
        weight = others / (self.d - self.leading) if self.d > self.leading else 1.0
        return math.sqrt(inside + beside + weight * float(np.sum(tail**2)))
