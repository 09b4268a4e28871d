r"""Shares of rows that hold the cells of two columns, from noisy shares and a noisy Gram matrix.

.. math:: P_{jk} = p_j p_k + w_{jk} D_{jk}, \qquad
          D_{jk} = B_{jk} - (q_j - \tfrac12)(q_k - \tfrac12), \qquad
          w_{jk} = \max(0, 1 - (2 \sigma_{jk}/D_{jk})^2)

for a noisy mean B of b b', with b = 1/2 where a cell is present and -1/2 where it is missing, and
noisy shares q of single columns; p are the same shares, shrunk and clipped. D is the covariance of
b: zero where cells are missing independently. Every P lies within Fréchet's bounds,

.. math:: \max(0, p_j + p_k - 1) \le P_{jk} \le \min(p_j, p_k).

All of it is post-processing. Proof: docs/proofs/present.md.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MIN_SHARE = 0.05  # no column counts as emptier than this
_MIN_DEVIATIONS = 4.0  # of the noise, below which dependence lowers no share of a pair
_FALSE_ALARM = 0.01  # of finding dependence in any pair of columns where there is none

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class PairShares:
    """Shares of rows that hold both cells of two columns.

    Attributes
    ----------
    columns : array of shape (d,)
        Shares of rows that hold the cell of a column.
    deviations : array of shape (d,)
        Standard deviations of their errors.
    pairs, pairs_noise : arrays of shape (d, d), optional
        The same for pairs of columns, with those of columns on the diagonal. Where they are absent
        pairs were not measured, and cells are assumed to be missing independently.
    together : (int, int), optional
        The pair of columns with the clearest dependence, where there is any.

    """

    columns: Matrix
    deviations: Matrix
    pairs: Matrix | None = None
    pairs_noise: Matrix | None = None
    together: tuple[int, int] | None = None

    @property
    def shares(self) -> Matrix:
        """Shares of all pairs of columns; on the diagonal those of columns."""
        if self.pairs is not None:
            return self.pairs
        shares = np.outer(self.columns, self.columns)
        np.fill_diagonal(shares, self.columns)
        return shares

    @property
    def noise(self) -> Matrix:
        """Standard deviations of the errors of ``shares``."""
        if self.pairs_noise is not None:
            return self.pairs_noise
        error = self.columns * self.deviations[:, None]
        noise: Matrix = np.hypot(error, error.T)
        np.fill_diagonal(noise, self.deviations)
        return noise

    def with_gram(
        self,
        gram: Matrix,
        gram_noise: float,
        single: Matrix,
        *,
        rows: int,
        quantile: Callable[[float], float],
    ) -> "PairShares":
        """Return shares that follow a noisy Gram matrix of the rows b.

        Parameters
        ----------
        gram : array of shape (d, d)
            Noisy mean of b b'.
        gram_noise : float
            Standard deviation of the noise on an entry off its diagonal.
        single : array of shape (d,)
            Noisy shares of single columns as they were drawn.
        rows : int
            Number of rows, or of persons.
        quantile : callable
            Standard deviations that the noise exceeds with a given probability.

        """
        columns, deviations = self.columns, self.deviations
        product = np.outer(columns, columns)
        centred = single - 0.5
        excess = gram - np.outer(centred, centred)
        error = centred * deviations[:, None]
        noise = np.hypot(gram_noise, np.hypot(error, error.T))
        weight = np.maximum(0.0, 1 - (2 * noise / np.maximum(np.abs(excess), noise)) ** 2)
        low, high = frechet_bounds(columns)
        least = np.minimum(product, np.maximum(MIN_SHARE**2, _MIN_DEVIATIONS * noise))
        pairs = np.clip(product + weight * excess, np.maximum(low, least), high)
        np.fill_diagonal(pairs, columns)
        # What shrinkage took away may have been dependence.
        pairs_noise = np.hypot(np.hypot(self.noise, noise), (1 - weight) * excess)
        np.fill_diagonal(pairs_noise, deviations)
        together = _clearest(excess, noise, columns, rows, quantile)
        return PairShares(columns, deviations, pairs, pairs_noise, together)

    def of_columns(self, kept: NDArray[np.bool_]) -> "PairShares":
        """Return the shares of some of the columns."""
        among, together = np.ix_(kept, kept), self.together
        if together is not None:
            places = np.cumsum(kept) - 1
            j, k = together
            together = (int(places[j]), int(places[k])) if kept[j] and kept[k] else None
        return PairShares(
            self.columns[kept],
            self.deviations[kept],
            None if self.pairs is None else self.pairs[among],
            None if self.pairs_noise is None else self.pairs_noise[among],
            together,
        )

    def squared(self) -> "PairShares":
        """Return the shares of pairs of rows in which both rows hold the cells."""
        columns, deviations = self.columns**2, 2 * self.columns * self.deviations
        if self.pairs is None or self.pairs_noise is None:
            return PairShares(columns, deviations)
        noise = 2 * self.pairs * self.pairs_noise
        return PairShares(columns, deviations, self.pairs**2, noise, self.together)

    def most_uncertain(self) -> tuple[int, int, float, float] | None:
        """Return the pair whose products independence may get most wrong, and Fréchet's range.

        The range holds the share of the pair over that assumed; None where pairs were measured.
        """
        columns = self.columns
        if self.pairs is not None or columns.size < 2:
            return None
        low, high = (bound / np.outer(columns, columns) for bound in frechet_bounds(columns))
        width = np.triu(high - low, 1)
        j, k = np.unravel_index(int(np.argmax(width)), width.shape)
        return int(j), int(k), float(low[j, k]), float(high[j, k])


def frechet_bounds(columns: Matrix) -> tuple[Matrix, Matrix]:
    """Return the smallest and largest possible shares of pairs with these shares of columns."""
    low = np.maximum(0.0, columns + columns[:, None] - 1)
    return low, np.minimum(columns, columns[:, None])


def _clearest(
    excess: Matrix, noise: Matrix, columns: Matrix, rows: int, quantile: Callable[[float], float]
) -> tuple[int, int] | None:
    """Return the pair whose dependence is clearest; None if chance and noise may explain it."""
    sampling = np.sqrt(columns * (1 - columns) / rows)
    chance = np.sqrt(rows) * np.outer(sampling, sampling)
    deviations = np.triu(np.abs(excess) / np.hypot(noise, chance), 1)
    pairs = max(1, columns.size * (columns.size - 1) // 2)
    j, k = np.unravel_index(int(np.argmax(deviations)), deviations.shape)
    if deviations[j, k] <= quantile(_FALSE_ALARM / 2 / pairs):
        return None
    return int(j), int(k)
