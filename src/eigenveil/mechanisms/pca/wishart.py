r"""WishartPCA: the leading eigenvectors under two-sided Wishart noise, pure epsilon.

.. math:: \hat V = \text{top-}k\,(S + W_1 - W_2), \quad W_1, W_2 \text{ as in WishartCov}

New here, like the noise. Any clip that bounds rows will do; directions gain where it normalises
them. The eigenvalues are those of the noisy matrix, not cleaned.
Proof: docs/proofs/wishart.md.

The noise is sampled in floating point: idealised numerics.
"""

from dataclasses import dataclass
from typing import ClassVar

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import second_moment
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.covariance.wishart import WishartCov
from eigenveil.mechanisms.pca.components import NoisyComponents, leading
from eigenveil.mechanisms.registry import ComponentEntry, Terms
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.cost import Cost, Pure
from eigenveil.privacy.guarantee import Numerics
from eigenveil.rows.base import RowSource

__all__ = ["ENTRY", "Wishart", "WishartPCA"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WishartPCA:
    """Top eigenvectors of WishartCov. Fields are public, never data."""

    name: ClassVar[str] = "wishart"
    exact: ClassVar[bool] = False
    epsilon: float
    n_components: int

    def cost(self) -> Cost:
        """Cost of one `perturb`: the eigenvectors are post-processing."""
        return Pure(self.epsilon)

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyComponents:
        """Draw once on the second moment of the rows."""
        matrix = WishartCov(epsilon=self.epsilon, clean=False)
        noisy = gate.draw(matrix, second_moment(source, clip, gate.adjacency))
        return leading(noisy.allowing_for(clip.pairs_present), self.n_components)

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyComponents:
        """Return the leading components of the noisy second moment."""
        noisy = WishartCov(epsilon=self.epsilon, clean=False).perturb(query, noise)
        return leading(noisy, self.n_components)


class Wishart(ComponentEntry):
    """Leading directions under two-sided Wishart noise, for a pure epsilon."""

    name = "wishart"
    about = "two-sided Wishart noise"
    source = "two-sided Wishart noise on unit or clipped rows; new here"
    allows_for_missing = True
    tightens = True
    auto = "for epsilon alone"
    numerics = Numerics.IDEALISED
    unit_rows = True

    def pure(self, epsilon: float, terms: Terms) -> WishartPCA:
        """Build the mechanism at a strength epsilon."""
        return WishartPCA(epsilon=epsilon, n_components=terms.n_components)


ENTRY = Wishart()
