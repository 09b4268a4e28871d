r"""Private quantile of row norms, on a public scale of powers of sqrt(2).

Source: report noisy max (Dwork, Roth 2014, section 3.3); utility after Smith 2011, of brackets.

.. math:: \arg\max_j \; -\max\bigl(0,\; b_{j+1} - qn,\; qn - b_j\bigr) + \mathrm{Lap}(2/\epsilon),
          \qquad b_j = |\{\|x_i\| < R\,2^{-j/2}\}|

The bracket that holds the quantile has utility zero, the others lose what separates them from it
in rows. A utility of bracket ends would not do: where all norms lie in one bracket, every end is
equally far off.

One row moves each utility by at most 1. The answer is the upper end of a bracket of width sqrt(2):
enough to choose a bound for clipping.
Proof: docs/proofs/quantile.md.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.lattice import LAPLACE, add_noise, unit_grid
from eigenveil.exceptions import InvalidParameterError
from eigenveil.numerics.integers import FixedPoint
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.accounting import gaussian_mu
from eigenveil.privacy.calibrate import noise_scale
from eigenveil.privacy.cost import Cost, Gaussian, Pure

__all__ = ["PrivateQuantile"]

_LEVEL_BITS = 10  # the level is rounded to 2**-10, so that utilities are exact


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateQuantile:
    """Exponent of the norm that a share ``level`` of rows stays below. Fields are public.

    ``gaussian``: the cost is stated as the mu that covers it, for a total that is one mu.
    """

    name: ClassVar[str] = "quantile"
    exact: ClassVar[bool] = True
    epsilon: float
    level: float
    gaussian: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise InvalidParameterError("the level of a quantile must lie between 0 and 1")
        unit_grid(2 / self.epsilon, -_LEVEL_BITS)  # refuses a budget too small, before any charge

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return Gaussian(gaussian_mu(self.epsilon)) if self.gaussian else Pure(self.epsilon)

    def perturb(self, query: Bounded, noise: NoiseSource) -> int:
        """Return the j for which R 2^(-j/2) is the quantile; ``query`` counts row norms."""
        counts = query.value.units
        below = np.cumsum(counts[::-1])[::-1] << _LEVEL_BITS  # the upper end of every bracket
        wanted = round(self.level * (1 << _LEVEL_BITS)) * int(counts.sum())
        beyond_lower = np.append(below[1:], 0) - wanted
        short_of_upper = wanted - below
        miss = np.maximum(0, np.maximum(beyond_lower, short_of_upper))
        utility = FixedPoint(-miss, -_LEVEL_BITS)
        scale = noise_scale(2 * query.sensitivity("linf"), self.epsilon)
        grid = unit_grid(scale, utility.exponent)
        noisy = add_noise(utility, scale, noise, law=LAPLACE, grid=grid).units
        return int(np.argmax(noisy))
