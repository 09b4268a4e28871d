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
from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["MIN_SHARE", "PairShares", "frechet_bounds"]

MIN_SHARE = 0.05  # no column counts as emptier than this
_MIN_DEVIATIONS = 4.0  # of the noise, below which dependence lowers no share of a pair
_FALSE_ALARM = 0.01  # of finding dependence in any pair of columns where there is none

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class PairShares:
    """Shares of rows that hold both cells of two columns.

    Attributes
    ----------
    shares : array of shape (d, d)
        For each pair of columns; on the diagonal those of single columns.
    noise : array of shape (d, d)
        Standard deviation of the error of ``shares``.
    measured : bool
        Whether pairs were measured; otherwise cells are assumed to be missing independently.
    together : (int, int), optional
        The pair of columns with the clearest dependence, where there is any.

    """

    shares: Matrix
    noise: Matrix
    measured: bool = False
    together: tuple[int, int] | None = None

    @classmethod
    def independent(cls, columns: Matrix, deviation: float) -> Self:
        """Return products of the shares of single columns, which are off by ``deviation``."""
        shares = np.outer(columns, columns)
        noise = deviation * np.hypot(columns, columns[:, None])
        np.fill_diagonal(shares, columns)
        np.fill_diagonal(noise, deviation)
        return cls(shares, noise)

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
        columns = self.shares.diagonal()
        product = np.outer(columns, columns)
        centred = single - 0.5
        excess = gram - np.outer(centred, centred)
        deviation = float(self.noise[0, 0])
        noise = np.hypot(gram_noise, deviation * np.hypot(centred, centred[:, None]))
        weight = np.maximum(0.0, 1 - (2 * noise / np.maximum(np.abs(excess), noise)) ** 2)
        low, high = frechet_bounds(columns)
        least = np.minimum(product, np.maximum(MIN_SHARE**2, _MIN_DEVIATIONS * noise))
        shares = np.clip(product + weight * excess, np.maximum(low, least), high)
        np.fill_diagonal(shares, columns)
        # What shrinkage took away may have been dependence.
        error = np.hypot(np.hypot(self.noise, noise), (1 - weight) * excess)
        np.fill_diagonal(error, deviation)
        return PairShares(
            shares=shares,
            noise=error,
            measured=True,
            together=_clearest(excess, noise, columns, rows, quantile),
        )

    def of_columns(self, kept: NDArray[np.bool_]) -> "PairShares":
        """Return the shares of some of the columns."""
        among, together = np.ix_(kept, kept), self.together
        if together is not None:
            places = np.cumsum(kept) - 1
            j, k = together
            together = (int(places[j]), int(places[k])) if kept[j] and kept[k] else None
        return PairShares(self.shares[among], self.noise[among], self.measured, together)

    def squared(self) -> "PairShares":
        """Return the shares of pairs of rows in which both rows hold the cells."""
        return PairShares(
            self.shares**2, 2 * self.shares * self.noise, self.measured, self.together
        )

    def most_uncertain(self) -> tuple[int, int, float, float] | None:
        """Return the pair whose products independence may get most wrong, and Fréchet's range.

        The range holds the share of the pair over that assumed; None where pairs were measured.
        """
        columns = self.shares.diagonal()
        if self.measured or columns.size < 2:
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
