r"""Thresholded: small loadings of a noisy basis are set to zero.

.. math:: \hat V = \text{top-}k\,(S + E), \quad v_j \to 0 \text{ for } |v_j| < |v|_\infty/10

A mechanism that nobody needs, as somebody would add it: `tests/architecture/test_new_mechanism.py`
puts this one file beside the others and shows that nothing else has to know of it.
"""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from eigenveil.exact import Bounded
from eigenveil.mechanisms import (
    ComponentMechanism,
    GaussCov,
    MomentMechanism,
    NoisyComponents,
    leading,
)
from eigenveil.numerics import NoiseSource


class Thresholded(MomentMechanism[NoisyComponents], ComponentMechanism):
    """Leading directions of a noisy second moment, without their small entries."""

    name = "thresholded"
    about = "small loadings left out"
    source = "nobody"
    unit_rows = True
    typical_length = 1.0
    exact: ClassVar[bool] = True

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyComponents:
        """Return the leading components of the noisy second moment, thresholded."""
        found = leading(GaussCov(mu=self.mu).perturb(query, noise), self.n_components)
        sizes = np.abs(found.components)
        kept = np.where(sizes >= sizes.max(axis=1, keepdims=True) / 10, found.components, 0.0)
        return replace(found, components=kept / np.linalg.norm(kept, axis=1, keepdims=True))
