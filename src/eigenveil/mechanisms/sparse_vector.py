r"""Sparse vector technique: the first of many queries that clears zero.

Source: Dwork, Roth 2014, section 3.6 (AboveThreshold); Dong, Liang, Yi 2022 [CovRev], Algorithm 3.

.. math:: \min\{k : f_k + \mathrm{Lap}(4/\epsilon) \ge \mathrm{Lap}(2/\epsilon)\}

for queries that one row moves by at most 1 each, at a cost that does not grow with their number.
A threshold is subtracted by the caller. With probability 1 - beta no query before the answer
exceeds (6/epsilon) log(2t/beta), and the answer itself is above minus that; Lemma 5 of [CovRev]
prints epsilon/6. Proof: docs/proofs/sparse_vector.md.

Differences from the source
---------------------------
1. Noise is rounded to a public grid that divides 1, which the shifts of the proof respect.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.lattice import LAPLACE, add_noise, unit_grid
from eigenveil.exceptions import InvalidParameterError
from eigenveil.numerics.integers import FixedPoint
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.calibrate import noise_scale
from eigenveil.privacy.cost import Cost, Pure

_FINEST = -20  # counts are held this finely, so that ties are rare


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVector:
    """Index of the first query above zero. Fields are public, never data."""

    name: ClassVar[str] = "sparse-vector"
    exact: ClassVar[bool] = True
    epsilon: float

    def __post_init__(self) -> None:
        unit_grid(4 / self.epsilon, _FINEST)  # refuses a budget too small, before any charge

    def cost(self) -> Cost:
        """Cost of one `perturb`, however many queries there are."""
        return Pure(self.epsilon)

    def slack(self, queries: int, beta: float) -> float:
        """Return how far a query lies on the wrong side of zero with probability ``beta``."""
        return 6 / self.epsilon * math.log(2 * queries / beta)

    def perturb(self, query: Bounded, noise: NoiseSource) -> int:
        """Index of the first query above zero; their number if there is none."""
        if query.sensitivity("linf") != 1.0:
            raise InvalidParameterError(
                "the sparse vector technique needs queries of sensitivity 1"
            )
        scale = noise_scale(4.0, self.epsilon)
        queries = query.value.refined(_FINEST)
        grid = unit_grid(scale, queries.exponent)
        zero = FixedPoint(np.zeros(1, dtype=np.int64), queries.exponent)
        threshold = add_noise(zero, scale / 2, noise, law=LAPLACE, grid=grid).units[0]
        noisy = add_noise(queries, scale, noise, law=LAPLACE, grid=grid).units
        above = np.flatnonzero(noisy >= threshold)
        return int(above[0]) if above.size else noisy.size
