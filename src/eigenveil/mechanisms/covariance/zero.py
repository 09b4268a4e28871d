r"""The zero matrix: what any covariance mechanism must beat.

.. math:: \hat S = 0

It releases nothing and costs nothing; its error is the Frobenius norm of S. Where noise drowns the
data it is the best there is. Source: the baseline of Dong, Liang, Yi 2022 [CovRev], section 6.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from eigenveil.exact.bounded import Bounded
from eigenveil.mechanisms.base import MomentMechanism
from eigenveil.mechanisms.covariance.gauss import NoisyMatrix
from eigenveil.mechanisms.registry import CovarianceEntry, Terms
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.cost import Composed, Cost

__all__ = ["ENTRY", "Zero", "ZeroCov"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroCov(MomentMechanism[NoisyMatrix]):
    """No noise, no signal."""

    name: ClassVar[str] = "zero"
    exact: ClassVar[bool] = True

    def cost(self) -> Cost:
        """Return no cost."""
        return Composed(())

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyMatrix:
        """Zeros of the right shape."""
        return NoisyMatrix(np.zeros(query.value.units.shape), 0.0, None)


class Zero(CovarianceEntry):
    """The zero matrix, which any other must beat."""

    name = "zero"
    about = "the zero matrix: the baseline to beat"
    source = "the baseline to beat"
    may_coincide = True
    semidefinite = True

    def gaussian(self, mu: float, terms: Terms) -> ZeroCov:
        """Build the mechanism at a strength mu."""
        return ZeroCov()

    def pure(self, epsilon: float, terms: Terms) -> ZeroCov:
        """Build the mechanism at a strength epsilon."""
        return ZeroCov()


ENTRY = Zero()
