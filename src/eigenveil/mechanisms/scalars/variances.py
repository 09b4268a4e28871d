r"""Private second moments along directions that are already released.

The last step of mechanisms that release directions alone; [Spiked] section 7.2 has the same aim.

.. math:: \hat v_j = u_j' S u_j + \text{noise}, \qquad
          \Delta_2 = \sqrt2 R^2/n, \quad \Delta_1 = 2 R^2/n

for replace-one and orthonormal directions u_j, :math:`R^2/n` in both norms for a single one, and
R^2 on sums under add/remove. Results are not below zero. Proof: docs/proofs/variances.md.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from eigenveil.exact.bounded import Bounded
from eigenveil.mechanisms.additive import NoisyVector, VectorNoise
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.cost import Cost

__all__ = ["PrivateVariances"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateVariances:
    """Add noise to second moments along directions. Fields are public, never data."""

    name: ClassVar[str] = "variances"
    exact: ClassVar[bool] = True
    noise: VectorNoise

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return self.noise.cost()

    @property
    def rows(self) -> float:
        """The noise on one of them, as a number of rows on the sphere."""
        return self.noise.on_one_number

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyVector:
        """Return variances in the caller's units, by direction; ``query`` is from `along`."""
        noisy = self.noise.perturb(query, noise)
        return replace(noisy, values=np.maximum(noisy.values, 0.0))
