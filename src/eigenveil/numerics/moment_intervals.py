r"""Intervals of variances, correlations, eigenvalues and loadings from a noisy second moment.

.. math:: Y = S + E, \qquad \operatorname{Var} Y_{jj} = \sigma_{jj}^2 + (F_{jj} - S_{jj}^2)/n

for noise of known standard deviations on the entries and fourth moments F of the rows, so that
noise and sampling are both counted and no law of the rows is assumed. Correlations have sampling
errors by Fisher's z with the variance :math:`F_{jk}/(S_{jj} S_{kk} + 2 S_{jk}^2)`, which is 1 for
normal rows. An eigenvalue of Y is too large by the second order of what mixes its direction with
others; near others, or within the noise, it is only known among them. Section 9.6 of the contract;
docs/intervals.md has what was measured.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from eigenveil.numerics.cleaning import clear_variances, correlation_noise

Matrix = NDArray[np.float64]

_LARGEST = 0.999999  # correlation that has a z
_APART = 3.0  # deviations of what mixes two directions, by which their eigenvalues are apart
_EDGE = 1.15  # beyond the limit of what mixing alone makes, where few columns reach a little more
_USUAL = 1.645  # deviations of a 90 % interval


@dataclass(frozen=True, kw_only=True, eq=False)
class Moments:
    """Noisy moments of rows about a centre, all in the same units.

    Attributes
    ----------
    second : array of shape (d, d)
        The second moment with its noise.
    noise : array of shape (d, d)
        Standard deviation of the noise on each entry.
    fourth : array of shape (d, d)
        Upper values of the means of z_j^2 z_k^2; infinite where nothing is known.
    reach : array of shape (d,)
        Largest possible value of each column, infinite where nothing bounds it.
    rows : int
        Number of rows.

    """

    second: Matrix
    noise: Matrix
    fourth: Matrix
    reach: Matrix
    rows: int

    @cached_property
    def variances(self) -> Matrix:
        """Plausible upper values of the variances."""
        return np.asarray(np.maximum(self.second.diagonal(), 0.0) + self.noise.diagonal())

    @cached_property
    def bounded(self) -> Matrix:
        """Fourth moments, at most what the reach of a column allows with the variance of others."""
        of_reach = np.outer(self.reach**2, self.variances)
        return np.minimum(self.fourth, np.minimum(of_reach, of_reach.T))

    def variance_ends(self, z: float) -> Matrix:
        """Return the ends of intervals of variances."""
        found = self.second.diagonal()
        sampling = np.maximum(0.0, self.bounded.diagonal() - found**2) / self.rows
        return _about(found, z * np.sqrt(self.noise.diagonal() ** 2 + sampling))

    def correlation_ends(self, z: float) -> Matrix:
        """Return the ends of intervals of correlations; NaN beside a variance that may be noise."""
        found = self.second.diagonal()
        clear = clear_variances(found, self.noise.diagonal())
        with np.errstate(all="ignore"):
            units = np.outer(*[np.sqrt(np.where(clear, found, np.nan))] * 2)
            r = np.clip(self.second / units, -_LARGEST, _LARGEST)
            kurtosis = self.bounded / (units**2 + 2 * self.second**2)
            sampled = z * np.sqrt(np.maximum(kurtosis, 0.0) / self.rows)
            noise = z * correlation_noise(self.second, self.noise)
            low, high = (np.tanh(np.arctanh(r) + sign * sampled) for sign in (-1, 1))
            low, high = r - np.hypot(r - low, noise), r + np.hypot(high - r, noise)
        ends = np.clip(np.stack([low, high], axis=-1), -1.0, 1.0)
        j = np.arange(len(r))
        ends[j, j] = np.where(clear, 1.0, np.nan)[:, None]
        return np.asarray(ends)

    def eigenvalue_ends(self, z: float) -> Matrix:
        """Return the ends of intervals of eigenvalues, largest first."""
        own, mixing = self._along
        gaps = self._gaps
        apart = np.abs(gaps) > _APART * np.sqrt(mixing)
        with np.errstate(divide="ignore", invalid="ignore"):
            bias = np.where(apart, mixing / gaps, 0.0).sum(axis=1)
        near = 4 * np.where(apart, 0.0, mixing).sum(axis=1)
        drowned = _EDGE**2 * 4 * mixing.sum(axis=1).max()
        near = np.where(self._values**2 < drowned, drowned, near) / _USUAL**2
        ends = _about(self._values - bias, z * np.sqrt(own + near))
        return ends[::-1]

    def loading_ends(self, z: float) -> Matrix:
        """Return the ends of intervals of loadings, those of the largest eigenvalue first."""
        _, mixing = self._along
        with np.errstate(divide="ignore"):
            turned = np.minimum(0.5, mixing / self._gaps**2)
        np.fill_diagonal(turned, 0.0)
        error = np.sqrt(turned @ (self._vectors.T) ** 2)
        return _about(self._vectors.T, z * error)[::-1]

    @cached_property
    def _eigen(self) -> tuple[Matrix, Matrix]:
        values, vectors = np.linalg.eigh(self.second)
        return np.asarray(values), np.asarray(vectors)

    @property
    def _values(self) -> Matrix:
        return self._eigen[0]

    @property
    def _vectors(self) -> Matrix:
        return self._eigen[1]

    @property
    def _gaps(self) -> Matrix:
        gaps = self._values[:, None] - self._values
        np.fill_diagonal(gaps, math.inf)
        return np.asarray(gaps)

    @cached_property
    def _along(self) -> tuple[Matrix, Matrix]:
        """Return the variance of each eigenvalue to first order, and of what mixes two directions.

        The latter is zero on the diagonal.
        """
        squares = self._vectors**2  # a column for each direction

        def mean(of_entries: Matrix) -> Matrix:
            return np.asarray(np.einsum("ij,ij->j", squares, of_entries @ squares))

        weights = 2 * self.noise**2  # of an entry that counts twice
        np.fill_diagonal(weights, self.noise.diagonal() ** 2)
        noise = mean(weights)
        values = np.maximum(self._values, np.sqrt(noise))
        normal = mean(np.outer(self.variances, self.variances) + 2 * self.second**2)
        kurtosis = mean(self.bounded) / normal
        reach = np.abs(self._vectors).T @ self.reach
        fourth = np.minimum(3 * kurtosis * values**2, reach**2 * values)
        own = noise + np.maximum(0.0, fourth - values**2) / self.rows
        mixing = np.sqrt(np.outer(noise, noise)) / 2
        mixing += np.sqrt(np.outer(kurtosis, kurtosis)) * np.outer(values, values) / self.rows
        np.fill_diagonal(mixing, 0.0)
        return own, mixing


def _about(middle: Matrix, half: Matrix) -> Matrix:
    """Return ends of intervals about their middle."""
    return np.stack([middle - half, middle + half], axis=-1)
