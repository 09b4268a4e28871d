r"""AnalyzeGauss: the leading eigenvectors of a noisy second-moment matrix.

Source: Dwork, Talwar, Thakurta, Zhang 2014, Algorithm 1 ("Analyze Gauss"); DP-Gauss-1 in
Düngler, Sanyal [kPCA].

.. math:: \hat V = \text{top-}k\,(S + E), \quad E \text{ as in GaussCov}

Differences from the source
---------------------------
1. The noise is that of GaussCov: isotropic, exactly calibrated, exactly sampled.
2. Rows are clipped to a public bound; the source assumes unit rows.
3. The source releases the subspace of a sum over rows. Here the eigenvalues and the trace of the
   noisy matrix leave too (post-processing), divided by n where n is public.
4. The source does not centre. `PrivatePCA` runs this about a private mean (`centred.py`) unless
   told otherwise.
"""

from dataclasses import dataclass
from typing import ClassVar

from eigenveil.data.bounded import Bounded
from eigenveil.mechanisms.base import MomentMechanism
from eigenveil.mechanisms.covariance.gauss import GaussCov
from eigenveil.mechanisms.pca.components import NoisyComponents, leading
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.cost import Cost, Gaussian

__all__ = ["AnalyzeGauss"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzeGauss(MomentMechanism[NoisyComponents]):
    """Top eigenvectors of GaussCov. Fields are public, never data."""

    name: ClassVar[str] = "analyze-gauss"
    exact: ClassVar[bool] = True
    mu: float
    n_components: int

    def cost(self) -> Cost:
        """Cost of one `perturb`: the eigenvectors are post-processing."""
        return Gaussian(self.mu)

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyComponents:
        """Leading components of the noisy second moment."""
        noisy = GaussCov(mu=self.mu).perturb(query, noise)
        return leading(noisy, self.n_components)
