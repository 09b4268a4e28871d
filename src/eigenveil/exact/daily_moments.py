r"""Second moments of days, and weighted running sums of them.

The lower triangle of ones is L = RR with R Toeplitz of :math:`r_j = \binom{2j}{j}/4^j`
(Fichtenberger, Henzinger, Upadhyay 2023). Here :math:`c_j = \operatorname{round}(2^{10} r_j)` stand
for them, so that weighted sums of integers stay integers, and running sums come from weights
:math:`a_j` with :math:`a * 2^{-10} c = 1`. Rounding costs 1e-5 of the noise. All is public.

The sum of x x' over the rows of a day is kept on a grid of 2^-22, so that weighted sums over years
fit into 64 bits. Rounding down moves an entry by less than one step, and so the distance of two
such sums, in Frobenius norm, by less than d steps: that is added to the sensitivity. Proof:
docs/proofs/continual.md.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import FRACTION_BITS, Clip
from eigenveil.exact.gram import MomentSum, limit_rows, moment_sensitivities, sums_are_exact
from eigenveil.exceptions import InvalidDataError
from eigenveil.numerics.integers import FixedPoint, fitted
from eigenveil.privacy.adjacency import ROW, Adjacency, Unit
from eigenveil.rows.base import RowSource

COEFFICIENT_BITS = 10


@lru_cache(maxsize=8)
def coefficients(horizon: int) -> NDArray[np.int64]:
    """Return c_0, c_1, ...: positive and never increasing."""
    ratios = [(2 * j - 1) / (2 * j) for j in range(1, horizon)]
    exact = np.cumprod([1.0, *ratios])
    rounded: NDArray[np.int64] = np.rint(np.ldexp(exact, COEFFICIENT_BITS)).astype(np.int64)
    rounded.setflags(write=False)
    return rounded


@lru_cache(maxsize=8)
def answer_weights(horizon: int) -> NDArray[np.float64]:
    """Return a_0, a_1, ...: how much of the matrix of j days ago is in the sum of today."""
    weights, ratios = np.empty(horizon), np.ldexp(coefficients(horizon), -COEFFICIENT_BITS)
    for day in range(horizon):
        weights[day] = 1.0 - ratios[1 : day + 1] @ weights[:day][::-1]
    weights.setflags(write=False)
    return weights


@lru_cache(maxsize=8)
def contributions(horizon: int, days: int) -> tuple[NDArray[np.int64], float]:
    """Return how far a unit that came on the first ``days`` days moves each weighted sum, and the
    root of the sum of squares, rounded up.

    Both in units of 2^-10 of what it moves one day by. No other choice of as many days has a
    larger root: docs/proofs/continual.md.
    """
    moved = np.convolve(coefficients(horizon), np.ones(days, dtype=np.int64))[:horizon]
    squares = sum(int(each) ** 2 for each in moved.tolist())
    return moved, float(math.isqrt(squares << 64) + 1) * 2.0**-32 * (1 + 2.0**-40)


DAY_BITS = 22
Number = TypeVar("Number", np.int64, np.float64)
_MOST_UNITS = 1 << 30  # whose weighted sums stay below 2**62


def day_sensitivity(d: int, adjacency: Adjacency) -> float:
    """Return how far a unit moves the rounded second moment of a day, in Frobenius norm."""
    exact = moment_sensitivities(d, adjacency)["frobenius"]
    return math.nextafter(exact + math.ldexp(d, -DAY_BITS), math.inf)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DailyMoments:
    """Second moments of all days so far, one packed triangle a day. Private.

    Attributes
    ----------
    sums : array of shape (n_days, d (d + 1)/2)
        Integers, in units of 2^-22.
    count : int
        Units so far; those of a day that came on several count several times.
    exact : bool
        Whether the sums are free of rounding error but for the stated grid.

    """

    sums: NDArray[np.int64]
    count: int = 0
    exact: bool = True

    @classmethod
    def none(cls, d: int) -> "DailyMoments":
        """Return those of no day, for rows of d columns."""
        return cls(np.empty((0, d * (d + 1) // 2), dtype=np.int64))

    def and_then(self, source: RowSource, clip: Clip) -> "DailyMoments":
        """Return the same and one more day."""
        matrix, counts = source.summed(MomentSum(clip))
        count = self.count + limit_rows(int(counts[0]), source.n_columns)
        if count > _MOST_UNITS:
            raise InvalidDataError("exact sums of days hold 2**30 rows: start another stream")
        day = fitted(packed(matrix) >> (2 * FRACTION_BITS - DAY_BITS))
        return DailyMoments(np.vstack([self.sums, day]), count, self.exact and sums_are_exact())

    def weighted(
        self, horizon: int, days: int, adjacency: Adjacency, protects: Unit = ROW
    ) -> Bounded:
        """Return the sum that the newest day releases, with the factors of the horizon.

        A unit comes on ``days`` days at most.
        """
        weights = coefficients(horizon)[: len(self.sums)][::-1]
        matrix = unpacked(weights @ self.sums)
        largest = int(contributions(horizon, days)[0].max())
        day = day_sensitivity(len(matrix), adjacency)
        return Bounded(
            value=FixedPoint(matrix, -DAY_BITS - COEFFICIENT_BITS),
            sensitivities={"frobenius": math.ldexp(largest, -COEFFICIENT_BITS) * day},
            adjacency=adjacency,
            protects=protects,
            unit=1.0,
            count=self.count if adjacency.count_is_public else None,
            exact=self.exact,
        )


def packed(matrix: NDArray[Number]) -> NDArray[Number]:
    """Return the upper triangle of a symmetric matrix, row by row."""
    return np.asarray(matrix[np.triu_indices(len(matrix))])


def unpacked(triangle: NDArray[Number]) -> NDArray[Number]:
    """Return the symmetric matrix of an upper triangle."""
    d = (math.isqrt(8 * triangle.size + 1) - 1) // 2
    matrix = np.zeros((d, d), dtype=triangle.dtype)
    upper = np.triu_indices(d)
    matrix[upper] = triangle
    matrix.T[upper] = triangle
    return matrix
