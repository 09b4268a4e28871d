r"""LaplacePCA: the leading eigenvectors of LapCov, a baseline at pure epsilon.

.. math:: \hat V = \text{top-}k\,(S + E), \quad E \text{ as in LapCov}

The noise is not isotropic and has the norm of d^2/(n epsilon) where that of `WishartPCA` has
d^{3/2}/(n epsilon). Proof: docs/proofs/laplace.md.
"""

from dataclasses import dataclass
from typing import ClassVar

from eigenveil.exact.bounded import Bounded
from eigenveil.mechanisms.base import MomentMechanism
from eigenveil.mechanisms.covariance.laplace import LapCov
from eigenveil.mechanisms.pca.components import NoisyComponents, leading
from eigenveil.mechanisms.registry import ComponentEntry, Terms
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.cost import Cost, Pure

__all__ = ["ENTRY", "Laplace", "LaplacePCA"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplacePCA(MomentMechanism[NoisyComponents]):
    """Top eigenvectors of LapCov. Fields are public, never data."""

    name: ClassVar[str] = "laplace"
    exact: ClassVar[bool] = True
    epsilon: float
    n_components: int

    def cost(self) -> Cost:
        """Cost of one `perturb`: the eigenvectors are post-processing."""
        return Pure(self.epsilon)

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyComponents:
        """Return the leading components of the noisy second moment."""
        return leading(LapCov(epsilon=self.epsilon).perturb(query, noise), self.n_components)


class Laplace(ComponentEntry):
    """Leading directions of a second moment with Laplace noise; a baseline."""

    name = "laplace"
    about = "a baseline with Laplace noise"
    source = "top of LapCov"

    def pure(self, epsilon: float, terms: Terms) -> LaplacePCA:
        """Build the mechanism at a strength epsilon."""
        return LaplacePCA(epsilon=epsilon, n_components=terms.n_components)


ENTRY = Laplace()
