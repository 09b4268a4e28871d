r"""Private radius: a ball that holds nearly all rows.

Source: Dong, Yi 2021, as used by Dong, Liang, Yi 2022 [CovRev], Lemma 9 (PrivRadius).

.. math:: \tilde r = R\,2^{-j/2}, \quad \text{the first } j = J, J-1, \ldots, 0 \text{ with }
          |\{i : \|x_i\| \ge R\,2^{-j/2}\}| \text{ not noticeably above a slack}

by the sparse vector technique. With probability 1 - beta the radius is at most sqrt(2) times the
largest norm and at most twice the slack (6/epsilon) log(2J/beta) of rows lie beyond it.
Proof: docs/proofs/radius.md.

Differences from the source
---------------------------
1. Rows beyond a radius are counted, not rows within: the same where n is public, and private
   where it is not.
2. The search begins at the smallest normal float, not at 2^{-2dn}, and its steps are sqrt(2).
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.histograms import rows_beyond
from eigenveil.mechanisms.scalars.sparse_vector import SparseVector
from eigenveil.numerics.integers import FixedPoint
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.cost import Cost

__all__ = ["PrivateRadius"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateRadius:
    """Exponent of a radius, from counts of row norms. Fields are public, never data."""

    name: ClassVar[str] = "radius"
    exact: ClassVar[bool] = True
    epsilon: float
    beta: float = 0.05

    def cost(self) -> Cost:
        """Cost of one `perturb`: that of the search."""
        return self._search().cost()

    def _search(self) -> SparseVector:
        return SparseVector(epsilon=self.epsilon)

    def perturb(self, query: Bounded, noise: NoiseSource) -> int:
        """Return the j for which R 2^(-j/2) is the radius; ``query`` holds counts of row norms."""
        beyond = rows_beyond(query)
        queries = beyond.value.units.size
        slack = math.ceil(self._search().slack(queries, self.beta))
        ascending = FixedPoint(slack - beyond.value.units[::-1], 0)  # from small to large radii
        first = self._search().perturb(replace(beyond, value=ascending), noise)
        return int(np.clip(queries - first, 0, queries))
