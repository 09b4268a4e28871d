r"""Released scales of the columns of a stream, renewed from released variances.

.. math:: v_j \text{ is hidden if } v_j \le 3.2\, \sigma_j + 9\, e_j

with sigma_j the noise of the variance and e_j the squared error of the centre in the column. A
hidden column is enlarged from batch to batch until its variance shows. In a small scale rare large
entries reach the limits: a flag that one row in a hundred has seems to vary less and less. So the
variances of columns that were enlarged a lot are bought in the first scale, and compared with those
of the estimate in the present one. Everything here is post-processing.
Proof: docs/proofs/streaming.md.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from eigenveil.mechanisms.elliptical import CENTRE_DEVIATIONS, CLEAR_VARIANCE
from eigenveil.mechanisms.prepared import Prepared

_FOUND_NOISE = 0.3  # of the variance of a column whose scale was found, in units of that scale
_NEAR_FACTOR = 1.25  # of a scale, up to which it stays
_MOST_FALL = 1.5  # of the scale of a column whose variance was clear
_LEAST_SHARE = 1e-6  # of the first scale, below which none falls
_MUCH_ENLARGED = 2.0  # factor from which on variances are bought in the first scale
_CUT_VARIANCE = 0.5  # of a column whose scale has followed its variance: entries are cut off below
_SURE_VARIANCE = 20.0  # noise standard deviations from which on a small scale is released


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReleasedScales:
    """Released scales of columns, with their variances in these units.

    Attributes
    ----------
    scale : array of shape (d,)
        Columns are divided by it.
    turn : array of shape (d,)
        Whole multiples of it are dropped from entries about the centre.
    limit : float
        Largest distance of an entry from the centre.
    first : array of shape (d,)
        Scales of the first batch.
    least : array of shape (d,)
        Scales that later ones do not fall below.
    variances, noise : arrays of shape (d,)
        Variances of the clipped rows, and the standard deviation of their noise; infinite before
        there are any.
    centre_error : array of shape (d,)
        Expected squared error of the centre.

    """

    scale: NDArray[np.float64]
    turn: NDArray[np.float64]
    limit: float
    first: NDArray[np.float64]
    least: NDArray[np.float64]
    variances: NDArray[np.float64]
    noise: NDArray[np.float64]
    centre_error: NDArray[np.float64]

    @classmethod
    def of(cls, ready: Prepared) -> Self:
        """Return the scales of a front, with the variance 1 where a scale was found."""
        table, known = ready.table, ready.columns.known
        return cls(
            scale=table.scale,
            turn=table.turn,
            limit=ready.limit,
            first=table.scale,
            least=_LEAST_SHARE * table.scale,
            variances=known.astype(np.float64),
            noise=np.where(known, _FOUND_NOISE, np.inf),
            centre_error=np.full(known.size, ready.clip.centre_error / known.size),
        )

    @property
    def most_hidden(self) -> NDArray[np.float64]:
        """Largest variance of each column that noise and the error of the centre can hide."""
        return CLEAR_VARIANCE * self.noise + CENTRE_DEVIATIONS**2 * self.centre_error

    @property
    def hidden(self) -> NDArray[np.bool_]:
        """Columns whose variance is hidden."""
        return self.variances <= self.most_hidden

    @property
    def enlarged(self) -> NDArray[np.float64]:
        """Factors by which columns were enlarged since the first batch; 1 unless that is a lot."""
        factor = self.first / self.scale
        return np.where(factor > _MUCH_ENLARGED, factor, 1.0)

    def with_variances(self, variances: NDArray[np.float64], noise: NDArray[np.float64]) -> Self:
        """Return the scales with other variances."""
        return replace(self, variances=variances, noise=noise)

    def doubted(self, lost: float) -> Self:
        """Return the scales with variances that may be too small by ``lost``."""
        return replace(self, noise=np.hypot(self.noise, lost))

    def pooled(self, variances: NDArray[np.float64], noise: NDArray[np.float64]) -> Self:
        """Return the scales with one more release of the variances, weighted by precision."""
        weight = 1 / (1 + (noise / self.noise) ** 2)
        pooled = self.variances + weight * (variances - self.variances)
        return self.with_variances(pooled, np.sqrt(weight) * noise)

    def with_enlarged(self, near: Self) -> Self:
        """Return the scales with the variances of ``near`` for columns that were enlarged a lot."""
        return self._choosing(self.enlarged > 1, near)

    def with_whole(self, near: Self, *, sure: bool = False) -> Self:
        """Return the scales with the variances of ``near`` unless entries are cut off there.

        ``near`` has the variances in the present scales. Entries of an enlarged column are cut off
        if its variance in the first scale is clearly larger, or if the present one is small though
        the scale has followed it. With ``sure``, a present one that is hardly clear is left out
        too.
        """
        larger = self.variances - near.variances > CLEAR_VARIANCE * np.hypot(self.noise, near.noise)
        was_clear = self.least > _LEAST_SHARE * self.first
        cut = larger | (was_clear & (near.variances < _CUT_VARIANCE))
        if sure:
            cut |= near.hidden | (near.variances < _SURE_VARIANCE * near.noise)
        return self._choosing(~(cut & (self.enlarged > 1)), near)

    def _choosing(self, chosen: NDArray[np.bool_], other: Self) -> Self:
        """Return the scales with the variances of the other ones for the chosen columns."""
        return self.with_variances(
            np.where(chosen, other.variances, self.variances),
            np.where(chosen, other.noise, self.noise),
        )

    def deviations(self) -> NDArray[np.float64]:
        """Return the standard deviations of the columns.

        A hidden column gets the largest one that can be hidden, but none above its first scale. So
        neither the column nor its noise is blown up.
        """
        most = np.maximum(1.0, self.first / self.scale) ** 2
        guessed = np.maximum(self.variances, np.minimum(self.most_hidden, most))
        return np.sqrt(np.where(self.hidden, guessed, self.variances))

    def renewal(self) -> NDArray[np.float64]:
        """Return the factors by which scales are too large, where they are far off.

        A hidden column is enlarged as far as its noise and the error of its centre leave it. After
        its variance was clear it is not enlarged much further: it lengthens rows, which are
        clipped, so that its variance falls with its scale.
        """
        guessed = np.clip(self.variances, np.minimum(self.most_hidden / CLEAR_VARIANCE, 1.0), 1.0)
        factor = np.sqrt(np.where(self.hidden, guessed, self.variances))
        factor = np.maximum(factor, self.least / self.scale)
        near = (factor > 1 / _NEAR_FACTOR) & (factor < _NEAR_FACTOR)
        return np.where(near, 1.0, factor)

    def least_after(self, factor: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the least scales once the scales are multiplied by ``factor``.

        They rise for columns whose variance is clear.
        """
        least = self.scale * factor / _MOST_FALL
        return np.maximum(self.least, np.where(self.hidden, 0.0, least))

    def divided(self, factor: NDArray[np.float64]) -> Self:
        """Return the scales times a factor."""
        return replace(
            self,
            scale=self.scale * factor,
            turn=self.turn / factor,
            variances=self.variances / factor**2,
            noise=self.noise / factor**2,
            centre_error=self.centre_error / factor**2,
        )

    def moved(self, squared_error: float, weight: float) -> Self:
        """Return the scales after the centre moved by a share of an offset with this error."""
        kept = (1 - weight) ** 2 * self.centre_error
        return replace(self, centre_error=kept + weight**2 * squared_error / kept.size)
