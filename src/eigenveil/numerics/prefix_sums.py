r"""Square-root factorisation of running sums, with integer coefficients.

The lower triangle of ones is L = RR with R Toeplitz of :math:`r_j = \binom{2j}{j}/4^j`
(Fichtenberger, Henzinger, Upadhyay 2023). Here :math:`c_j = \operatorname{round}(2^{10} r_j)` stand
for them, so that weighted sums of integers stay integers, and running sums come from weights
:math:`a_j` with :math:`a * 2^{-10} c = 1`. Rounding costs 1e-5 of the noise. All is public.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["COEFFICIENT_BITS", "answer_weights", "coefficients", "contributions"]

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
