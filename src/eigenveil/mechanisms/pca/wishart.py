r"""WishartPCA: the leading eigenvectors under two-sided Wishart noise, pure epsilon.

.. math:: \hat V = \text{top-}k\,(S + W_1 - W_2), \quad W_1, W_2 \text{ as in WishartCov}

New here, like the noise. Any clip that bounds rows will do; one far below their norms normalises
them, which is good for directions. The eigenvalues are those of the noisy matrix, not cleaned.
Proof: docs/proofs/wishart.md.

`LiftedPCA` reads mean, components and count off one release (`lifted.py`), in one pass. Its
directions are those of the complement before cleaning: on the digits (k = 5, clipped at 37 from the
middle of the range, epsilon = 1, 2, 5) they capture .29, .53, .87 of the variance, those of the
cleaned one .16, .49, .87, which is flat where nothing stands out. With a mean bought apart
(`centred.py`) rows are clipped about it: .29, .74, .92 there.

The noise is sampled in floating point: idealised numerics.
"""

from dataclasses import dataclass
from typing import ClassVar

from eigenveil.data.bounded import Bounded
from eigenveil.data.clip import Clip
from eigenveil.data.source import RowSource
from eigenveil.mechanisms.base import Gate, MomentMechanism
from eigenveil.mechanisms.centred import CentredResult
from eigenveil.mechanisms.covariance.wishart import WishartCov
from eigenveil.mechanisms.lifted import Lifted
from eigenveil.mechanisms.pca.components import NoisyComponents, leading
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.cost import Cost, Pure

__all__ = ["LiftedPCA", "WishartPCA"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WishartPCA(MomentMechanism[NoisyComponents]):
    """Top eigenvectors of WishartCov. Fields are public, never data."""

    name: ClassVar[str] = "wishart"
    exact: ClassVar[bool] = False
    epsilon: float
    n_components: int

    def cost(self) -> Cost:
        """Cost of one `perturb`: the eigenvectors are post-processing."""
        return Pure(self.epsilon)

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyComponents:
        """Leading components of the noisy second moment."""
        noisy = WishartCov(epsilon=self.epsilon, clean=False).perturb(query, noise)
        return leading(noisy, self.n_components)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiftedPCA:
    """Mean, components and count from one release. Fields are public, never data."""

    name: ClassVar[str] = "lifted"
    epsilon: float
    n_components: int
    row_norm: float

    def cost(self) -> Cost:
        """That of the one matrix: the rest is post-processing."""
        return Pure(self.epsilon)

    def run(self, source: RowSource, start: Clip, gate: Gate) -> CentredResult[NoisyComponents]:
        """Read the rows about the public start of ``start``."""
        noisy = WishartCov(epsilon=self.epsilon, clean=False)
        lifted = Lifted(inner=noisy, row_norm=self.row_norm, clean=False).run(source, start, gate)
        inner = leading(lifted.inner, self.n_components)
        return CentredResult(lifted.centre, lifted.centre_error, lifted.noisy_count, inner)
