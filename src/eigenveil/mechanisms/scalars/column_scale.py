r"""A private scale for every column: its typical difference between two rows.

.. math:: \tilde h_{je} = |\{i : 2^{e-1} \le |z_{ij}| < 2^e\}| + \text{noise}, \qquad
          s_j = 2 \times \text{centre of the peak of } \tilde h_j

for half differences z of disjoint pairs of rows, on a public scale of octaves: about the standard
deviation of a Gaussian column. Rare extremes do not move the peak, nor zeros, which are not
counted. A column whose peak does not stand out from the noise has no scale: infinite,
so that dividing by it leaves the column out. Proof: docs/proofs/column_scale.md.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.bounded import Bounded
from eigenveil.data.norms import OCTAVES
from eigenveil.mechanisms.additive import VectorNoise
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.cost import Cost

__all__ = ["ColumnScale"]

_MIDDLES = np.array(OCTAVES) - 0.5
_WIDTH = 2  # octaves on either side of the peak that its centre is taken over


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnScale:
    """Noisy counts by column and octave, and where they peak. Fields are public, never data."""

    name: ClassVar[str] = "column-scale"
    exact: ClassVar[bool] = True
    noise: VectorNoise

    def cost(self) -> Cost:
        """Cost of one `perturb`: the peak is post-processing."""
        return self.noise.cost()

    def perturb(self, query: Bounded, noise: NoiseSource) -> NDArray[np.float64]:
        """One scale for each column; ``query`` holds counts by column and octave."""
        noisy = self.noise.perturb(query, noise)
        scales = np.full(len(noisy.values), np.inf)
        for j, counts in enumerate(noisy.values):
            peak = int(np.argmax(counts))
            # Whatever lies beyond the last octave is counted in it, and has no scale.
            if counts[peak] > noisy.largest and peak < len(counts) - 1:
                near = slice(max(0, peak - _WIDTH), peak + _WIDTH + 1)
                weights = np.maximum(counts[near], 0.0)
                scales[j] = 2.0 ** (1.0 + float(weights @ _MIDDLES[near] / weights.sum()))
        return scales
