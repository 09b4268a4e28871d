r"""LapCov: Laplace noise on the upper triangle of a second-moment matrix.

Source: Dong, Liang, Yi 2022 [CovRev], Appendix I, mechanism LapCov.

.. math:: \hat S_{ij} = S_{ij} + \mathrm{Lap}(\Delta_1/\epsilon), \; i \le j, \qquad
          \Delta_1 = \min\bigl(d + 1, \sqrt{(d^2 + 3d)/2}\bigr) R^2/n

for replace-one; under add/remove S is the unnormalised sum and :math:`\Delta_1 = (d+1)R^2/2`.

Differences from the source
---------------------------
1. Lemma 12 prints sqrt(2d)/n for the l1 sensitivity, which is too small: at d = 2 there are unit
   rows whose upper triangles differ by sqrt(5). The bound used is that of the upper triangle.
   Proof: docs/proofs/laplace.md.
2. S is an exact sum of rounded rows and the noise an exactly rounded ideal Laplace.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.lattice import LAPLACE
from eigenveil.exact.symmetric import GaussianLaw, add_symmetric
from eigenveil.mechanisms.base import MomentMechanism
from eigenveil.mechanisms.covariance.gauss import NoisyMatrix
from eigenveil.mechanisms.registry import CovarianceEntry, Terms
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.calibrate import noise_scale
from eigenveil.privacy.cost import Cost, Pure

__all__ = ["ENTRY", "LapCov", "Laplace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LapCov(MomentMechanism[NoisyMatrix]):
    """Add Laplace noise to the upper triangle. Fields are public, never data."""

    name: ClassVar[str] = "laplace"
    exact: ClassVar[bool] = True
    epsilon: float

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return Pure(self.epsilon)

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyMatrix:
        """Return the noisy second moment in the caller's units."""
        scale = noise_scale(query.sensitivity("l1"), self.epsilon)
        noisy = add_symmetric(query.value, scale, scale, noise, law=LAPLACE)
        deviation = math.sqrt(2) * scale * query.unit
        # Off the diagonal it is as large as on it: isotropic noise would be sqrt(2) smaller there.
        law = GaussianLaw(len(noisy.units), math.sqrt(2) * deviation)
        return NoisyMatrix(noisy.to_float() * query.unit, deviation, law)


class Laplace(CovarianceEntry):
    """A second moment with Laplace noise; a baseline."""

    name = "laplace"
    about = "a baseline with Laplace noise"
    source = "Dong, Liang, Yi 2022, LapCov"

    def pure(self, epsilon: float, terms: Terms) -> LapCov:
        """Build the mechanism at a strength epsilon."""
        return LapCov(epsilon=epsilon)


ENTRY = Laplace()
