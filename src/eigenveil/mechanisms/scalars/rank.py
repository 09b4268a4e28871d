r"""Private rank: how many directions stand out, by the ratio of noisy eigenvalues.

Source: Cai, Xia, Zha 2024 [Spiked], section 7.1; the ratio is that of Lam, Yao 2012.

.. math:: \hat r = \arg\max_{k \le K}\;
          (\lambda_k + Z_k) / \max(\lambda_{k+1} + Z_{k+1},\, f)

K counts the leading noisy eigenvalues, up to ``max_rank``, that stand out one after the other: the
k-th exceeds what the noise Z adds to the largest eigenvalue of pure noise, whose variance is
fitted to the bulk below as in `noise_variance`. f is what the largest of the Z_k exceeds once in a
hundred times. With K = 0 the rank is not identifiable. Only the eigenvalues are drawn; all that
follows is post-processing. Proof: docs/proofs/rank.md.

Differences from the source
---------------------------
1. Rows are clipped: worst-case, where the source's sensitivity holds under its model.
2. Only eigenvalues that stand out compete. The source's ratio names a rank for pure noise too, and
   a noisy denominator near zero wins.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.additive import VectorNoise
from eigenveil.mechanisms.scalars.leading import possible_eigenvalues
from eigenveil.mechanisms.scalars.noise_variance import bulk_weights
from eigenveil.numerics.cleaning import highest
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.cost import Cost

__all__ = ["NoisyRank", "PrivateRank", "leading_rank"]


@dataclass(frozen=True, slots=True, eq=False)
class NoisyRank:
    """A released rank, and the eigenvalues it was found with.

    Attributes
    ----------
    rank : int or None
        None where no eigenvalue stands out: the rank is not identifiable.
    eigenvalues : array
        Noisy, all of them, descending, in the caller's units.
    deviation : float
        Standard deviation of the noise on each.

    """

    rank: int | None
    eigenvalues: NDArray[np.float64]
    deviation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateRank:
    """The rank with the largest eigen-ratio. Fields are public, never data.

    Attributes
    ----------
    max_rank : int
        Largest rank considered, below the number of columns.
    rows : float, optional
        Number of rows where the query does not carry it: public, or released.

    """

    name: ClassVar[str] = "rank"
    exact: ClassVar[bool] = True
    noise: VectorNoise
    max_rank: int
    rows: float | None = None

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return self.noise.cost()

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyRank:
        """``query`` comes from `eigenvalues`."""
        d = query.value.units.size
        if not 1 <= self.max_rank < d:
            raise InvalidParameterError("max_rank must be at least 1 and below the columns")
        rows = query.count if query.count is not None else self.rows
        if rows is None:
            raise InvalidParameterError(
                "the number of rows is private here: pass rows, a public or released number"
            )
        noisy = self.noise.perturb(query, noise)
        descending = noisy.values[::-1]
        return NoisyRank(
            leading_rank(descending, max(1.0, rows), self.max_rank, noisy.largest),
            possible_eigenvalues(descending, query.trace_bound),
            noisy.deviation,
        )


def leading_rank(
    eigenvalues: NDArray[np.float64], rows: float, max_rank: int, largest: float
) -> int | None:
    """Return the rank that noisy descending eigenvalues show: post-processing.

    ``largest`` is what the noise on one of them rarely exceeds; None where none stands out.
    """
    standing = _standing_out(eigenvalues, rows, max_rank, largest)
    below = np.maximum(eigenvalues[1 : standing + 1], largest)
    ratios = eigenvalues[:standing] / below
    return int(np.argmax(ratios)) + 1 if standing else None


def _standing_out(
    eigenvalues: NDArray[np.float64], rows: float, max_rank: int, largest: float
) -> int:
    """Return the leading noisy eigenvalues above noise and privacy noise, ``largest``."""
    d = eigenvalues.size
    for rank in range(min(max_rank, min(d, math.floor(rows)) - 1)):
        weights = bulk_weights(d, rows, rank)
        edge = highest(d - rank, rows)
        # The fitted variance is noisy itself.
        floor = edge * max(0.0, float(weights @ eigenvalues))
        floor += largest * math.hypot(1.0, edge * float(np.linalg.norm(weights)))
        if not eigenvalues[rank] > floor:
            return rank
    return min(max_rank, min(d, math.floor(rows)) - 1)
