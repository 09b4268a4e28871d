r"""Projection: GaussCov, projected on the matrices a second moment can be.

Source: Dong, Liang, Yi 2022 [CovRev], Appendix E: the projection mechanism of Nikolov, Talwar,
Zhang 2013, applied to covariances.

.. math:: \hat S = \arg\min \{ \|M - (S + E)\|_F : M \succeq 0,\; \operatorname{tr} M \le R^2 \}

One eigendecomposition; the eigenvalues are projected on {>= 0, sum <= R^2}. Where the number of
rows is private there is no bound on the trace, and only the sign is projected.

Differences from the source
---------------------------
1. The noise is that of our GaussCov: isotropic, exactly calibrated, exactly sampled.
"""

from dataclasses import dataclass
from typing import ClassVar

from eigenveil.exact.bounded import Bounded
from eigenveil.mechanisms.base import MomentMechanism
from eigenveil.mechanisms.covariance.gauss import GaussCov, NoisyMatrix
from eigenveil.mechanisms.registry import CovarianceEntry, Terms
from eigenveil.numerics.random import NoiseSource
from eigenveil.numerics.spectral import project_to_simplex
from eigenveil.privacy.cost import Cost, Gaussian

__all__ = ["ENTRY", "ProjectedCov", "Projection"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedCov(MomentMechanism[NoisyMatrix]):
    """GaussCov projected on the feasible set. Fields are public, never data."""

    name: ClassVar[str] = "projection"
    exact: ClassVar[bool] = True
    mu: float

    def cost(self) -> Cost:
        """Cost of one `perturb`: the projection is post-processing."""
        return Gaussian(self.mu)

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyMatrix:
        """Return the projected second moment in the caller's units."""
        noisy = GaussCov(mu=self.mu).perturb(query, noise)
        return noisy.with_eigenvalues(lambda values: project_to_simplex(values, query.trace_bound))


class Projection(CovarianceEntry):
    """A noisy second moment, projected to what rows within the bound allow."""

    name = "projection"
    about = "projected to what rows within the bound allow"
    source = "Dong, Liang, Yi 2022, Appendix E"
    semidefinite = True

    def gaussian(self, mu: float, terms: Terms) -> ProjectedCov:
        """Build the mechanism at a strength mu."""
        return ProjectedCov(mu=mu)


ENTRY = Projection()
