r"""Levels of a category that many rows have, out of levels nobody needs to list.

Source: Korolova, Kenthapadi, Mishra, Ntoulas 2009, with Gaussian noise.

.. math:: \{\ell : c_\ell > 0,\; c_\ell + N(0, (\Delta_2/\mu)^2) > 1 + (\Delta_2/\mu)
          \Phi^{-1}(1 - \delta)\}

Levels that nobody has stay out, so their number costs nothing; a level that one person alone has
shows with probability at most delta. What it costs is mu and delta.

Differences from the source
---------------------------
1. Gaussian noise instead of Laplace noise: steps on several columns, and those of the release that
   follows, then compose in mu.
2. A person with several rows is counted once, at their most frequent level (`exact/histograms.py`).

Proof: docs/proofs/levels.md.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from scipy.special import ndtri

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.histograms import LevelCounts
from eigenveil.exact.lattice import GAUSSIAN, add_noise, unit_grid
from eigenveil.exceptions import InvalidParameterError
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.calibrate import noise_scale
from eigenveil.privacy.cost import Approx, Composed, Cost, Gaussian

_FINEST = -30  # exponent of the grid that counts are refined to


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateLevels:
    """Noisy counts of the levels that clear a threshold. Fields are public, never data."""

    name: ClassVar[str] = "levels"
    exact: ClassVar[bool] = True
    mu: float
    delta: float

    def __post_init__(self) -> None:
        if not 0 < self.delta < 0.5:
            raise InvalidParameterError("levels are found with a delta between 0 and 1/2")

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return Composed((Gaussian(self.mu), Approx(0.0, self.delta)))

    def perturb(self, query: Bounded, noise: NoiseSource) -> dict[str, float]:
        """Return noisy counts by level, in the order of the alphabet."""
        if not isinstance(query, LevelCounts) or query.sensitivity("linf") != 1.0:
            raise InvalidParameterError("levels need counts of levels that move by 1 at most")
        scale = noise_scale(query.sensitivity("l2"), self.mu)
        grid, limit = unit_grid(scale, _FINEST), self.limit(scale)
        counts = query.value.refined(_FINEST)
        noisy = add_noise(counts, scale, noise, law=GAUSSIAN, grid=grid).to_float()
        return {
            level: float(count)
            for level, count in zip(query.levels, noisy, strict=True)
            if count > limit
        }

    def limit(self, scale: float) -> float:
        """Return what a noisy count must exceed; a grid step covers the rounding of the noise."""
        step = math.ldexp(1.0, unit_grid(scale, _FINEST))
        return 1 + scale * -float(ndtri(self.delta)) + step
