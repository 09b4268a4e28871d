r"""Thresholded: small loadings of a noisy basis are set to zero.

.. math:: \hat V = \text{top-}k\,(S + E), \quad v_j \to 0 \text{ for } |v_j| < |v|_\infty/10

A mechanism that nobody needs, as somebody would add it: `tests/architecture/test_new_mechanism.py`
puts this one file beside the others and shows that nothing else has to know of it.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from eigenveil.exact import Bounded
from eigenveil.mechanisms import (
    ComponentEntry,
    GaussCov,
    MomentMechanism,
    NoisyComponents,
    Terms,
    leading,
)
from eigenveil.numerics import NoiseSource
from eigenveil.privacy import Cost, Gaussian


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdedPCA(MomentMechanism[NoisyComponents]):
    """Leading eigenvectors without their small entries. Fields are public, never data."""

    name: ClassVar[str] = "thresholded"
    exact: ClassVar[bool] = True
    mu: float
    n_components: int

    def cost(self) -> Cost:
        """Cost of one `perturb`: what follows the noise is free."""
        return Gaussian(self.mu)

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyComponents:
        """Return the leading components of the noisy second moment, thresholded."""
        found = leading(GaussCov(mu=self.mu).perturb(query, noise), self.n_components)
        sizes = np.abs(found.components)
        kept = np.where(sizes >= sizes.max(axis=1, keepdims=True) / 10, found.components, 0.0)
        return replace(found, components=kept / np.linalg.norm(kept, axis=1, keepdims=True))


class Thresholded(ComponentEntry):
    """Leading directions of a noisy second moment, without their small entries."""

    name = "thresholded"
    about = "small loadings left out"
    source = "nobody"
    unit_rows = True
    typical_length = 1.0

    def gaussian(self, mu: float, terms: Terms) -> ThresholdedPCA:
        """Build the mechanism at a strength mu."""
        return ThresholdedPCA(mu=mu, n_components=terms.n_components)


ENTRY = Thresholded()
