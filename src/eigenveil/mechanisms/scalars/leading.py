r"""Private leading eigenvalues of a second moment.

Source: Dong, Liang, Yi 2022 [CovRev], Lemmas 10 and 13 for the sensitivity; Cai, Xia, Zha 2024
[Spiked], section 7.2 for its use.

.. math:: \hat\lambda_j = \lambda_j + \text{noise}, \quad j = 1, \dots, m, \qquad
          \Delta_2 = \sqrt2 R^2/n, \quad \Delta_1 = 2 R^2/n

for replace-one, :math:`R^2/n` in both norms for a single eigenvalue, and R^2 on sums under
add/remove. Proof: docs/proofs/leading.md.

Differences from the source
---------------------------
1. Rows are clipped, so the guarantee is worst-case; that of [Spiked] holds under its model.
2. The noisy eigenvalues are made monotone again, non-negative and bounded in sum by R^2:
   post-processing.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from eigenveil.exact.bounded import Bounded
from eigenveil.mechanisms.additive import NoisyVector, VectorNoise
from eigenveil.numerics.random import NoiseSource
from eigenveil.numerics.spectral import project_to_simplex
from eigenveil.privacy.cost import Cost

__all__ = ["PrivateEigenvalues", "possible_eigenvalues"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateEigenvalues:
    """Add noise to descending eigenvalues. Fields are public, never data."""

    name: ClassVar[str] = "eigenvalues"
    exact: ClassVar[bool] = True
    noise: VectorNoise

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return self.noise.cost()

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyVector:
        """Descending eigenvalues in the caller's units; ``query`` comes from `leading`."""
        noisy = self.noise.perturb(query, noise)
        return replace(noisy, values=possible_eigenvalues(noisy.values, query.trace_bound))


def possible_eigenvalues(noisy: NDArray[np.float64], trace_bound: float) -> NDArray[np.float64]:
    """Return the descending, non-negative numbers of bounded sum near to noisy ones:
    post-processing.
    """
    return project_to_simplex(isotonic_regression(noisy, increasing=False).x, trace_bound)
