r"""Cleaned covariance: one isotropic Gaussian release, then eigenvalue cleaning.

Source: the release is GaussCov (Dong, Liang, Yi 2022); the cleaning is the rotation-invariant
estimator of Bun, Allez, Bouchaud, Potters 2016 for additive Gaussian noise.

.. math:: \hat S = \sum_i \xi_i v_i v_i', \quad (l_i, v_i) \text{ eigenpairs of } S + E,
          \quad \xi_i = l_i - d s^2 \operatorname{Re} g(l_i)

The law of E is public, so the cleaning is post-processing: it costs nothing. The result is
positive semi-definite, and where n is public its trace is at most R^2, as that of S is.

Differences from the source
---------------------------
1. GaussCov's noise is isotropic here, which the cleaning needs.
2. The Stieltjes transform is estimated with a kernel, and a spectrum that cannot be told from
   noise becomes a multiple of the identity: see `numerics/cleaning.py`.
"""

from dataclasses import dataclass
from typing import ClassVar

from eigenveil.exact.bounded import Bounded
from eigenveil.mechanisms.base import MomentMechanism
from eigenveil.mechanisms.covariance.gauss import GaussCov, NoisyMatrix
from eigenveil.mechanisms.registry import CovarianceEntry, Terms
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.cost import Cost, Gaussian

__all__ = ["ENTRY", "Cleaned", "CleanedCov"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedCov(MomentMechanism[NoisyMatrix]):
    """GaussCov with cleaned eigenvalues. Fields are public, never data."""

    name: ClassVar[str] = "cleaned"
    exact: ClassVar[bool] = True
    mu: float

    def cost(self) -> Cost:
        """Cost of one `perturb`: the cleaning is post-processing."""
        return Gaussian(self.mu)

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyMatrix:
        """Return the cleaned second moment in the caller's units."""
        noisy = GaussCov(mu=self.mu).perturb(query, noise)
        return noisy.cleaned(trace_bound=query.trace_bound, spike=query.centre_error)


class Cleaned(CovarianceEntry):
    """A noisy second moment with cleaned eigenvalues."""

    name = "cleaned"
    about = "Gaussian noise, eigenvalues cleaned"
    source = "GaussCov, then Bun, Allez, Bouchaud, Potters 2016"
    tightens = True
    auto = "where rows are read once"
    semidefinite = True
    gaussian_noise = True

    def gaussian(self, mu: float, terms: Terms) -> CleanedCov:
        """Build the mechanism at a strength mu."""
        return CleanedCov(mu=mu)


ENTRY = Cleaned()
