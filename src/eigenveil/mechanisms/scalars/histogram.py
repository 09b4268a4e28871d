r"""Stability histogram: which bins are well filled, out of bins nobody needs to list.

Source: Korolova, Kenthapadi, Mishra, Ntoulas 2009; Bun, Nissim, Stemmer 2016.

.. math:: \{(j, \tilde c_j) : c_j > 0,\; \tilde c_j = c_j + \mathrm{Lap}(\Delta_1/\epsilon)
          > 1 + (\Delta_1/\epsilon) \ln(1/2\delta)\}

Empty bins stay out, so their number costs nothing; a bin that a single row fills passes with
probability at most delta. The guarantee is approximate: (epsilon, delta).
Proof: docs/proofs/histogram.md.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.lattice import LAPLACE, add_noise, unit_grid
from eigenveil.exceptions import InvalidParameterError
from eigenveil.numerics.integers import FixedPoint
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.calibrate import noise_scale
from eigenveil.privacy.cost import Approx, Cost

__all__ = ["StabilityHistogram"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StabilityHistogram:
    """Noisy counts of the bins that clear a threshold. Fields are public, never data."""

    name: ClassVar[str] = "histogram"
    exact: ClassVar[bool] = True
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise InvalidParameterError("a stability histogram needs a delta between 0 and 1")

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return Approx(self.epsilon, self.delta)

    def perturb(self, query: Bounded, noise: NoiseSource) -> dict[int, float]:
        """Noisy counts by bin; ``query`` holds counts that add up over rows."""
        if query.sensitivity("linf") != 1.0:
            raise InvalidParameterError("a stability histogram needs counts that move by 1 at most")
        counts = query.value.units
        filled = np.flatnonzero(counts)
        scale = noise_scale(query.sensitivity("l1"), self.epsilon)
        kept = FixedPoint(counts[filled], query.value.exponent)
        noisy, limit = self.noisy(kept, scale, noise), self.limit(scale)
        return {
            int(j): float(count) for j, count in zip(filled, noisy, strict=True) if count > limit
        }

    @staticmethod
    def noisy(filled: FixedPoint, scale: float, noise: NoiseSource) -> NDArray[np.float64]:
        """Return counts of bins that are not empty, with Laplace noise of this scale."""
        grid = unit_grid(scale, -30)
        return add_noise(filled.refined(-30), scale, noise, law=LAPLACE, grid=grid).to_float()

    def limit(self, scale: float) -> float:
        """Return what a noisy count must exceed; a grid step covers the rounding of the noise."""
        step = math.ldexp(1.0, unit_grid(scale, -30))
        return 1 + scale * max(0.0, math.log(0.5 / self.delta)) + step
