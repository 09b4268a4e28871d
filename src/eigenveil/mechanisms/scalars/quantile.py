r"""Private quantile of row norms, on a public scale of powers of sqrt(2).

Source: report noisy max (Dwork, Roth 2014, section 3.3) with the utility of Smith 2011.

.. math:: \arg\max_j \; -\bigl|(1 - q)\,|\{\|x_i\| < c_j\}| - q\,|\{\|x_i\| \ge c_j\}|\bigr|
          + \mathrm{Lap}(2/\epsilon), \qquad c_j = R\,2^{-j/2}

One row moves each utility by at most max(q, 1 - q), or by 1 where it is replaced. The answer is the
upper end of a bracket of width sqrt(2): enough to choose a bound for clipping.
Proof: docs/proofs/quantile.md.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from eigenveil.data.bounded import Bounded
from eigenveil.data.norms import rows_beyond
from eigenveil.exceptions import InvalidParameterError
from eigenveil.numerics.fixedpoint import FixedPoint
from eigenveil.numerics.lattice import LAPLACE, add_noise, unit_grid
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.calibrate import noise_scale
from eigenveil.privacy.cost import Cost, Pure

__all__ = ["PrivateQuantile"]

_LEVEL_BITS = 10  # the level is rounded to 2**-10, so that utilities are exact


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateQuantile:
    """Exponent of the norm that a share ``level`` of rows stays below. Fields are public."""

    name: ClassVar[str] = "quantile"
    exact: ClassVar[bool] = True
    epsilon: float
    level: float

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise InvalidParameterError("the level of a quantile must lie between 0 and 1")
        unit_grid(2 / self.epsilon, -_LEVEL_BITS)  # refuses a budget too small, before any charge

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return Pure(self.epsilon)

    def perturb(self, query: Bounded, noise: NoiseSource) -> int:
        """The j for which R 2^(-j/2) is the quantile; ``query`` holds counts of row norms."""
        rows = int(query.value.units.sum())
        beyond = np.concatenate([[0], rows_beyond(query).value.units])  # of every c_j
        level = round(self.level * (1 << _LEVEL_BITS))
        above = beyond * level
        below = (rows - beyond) * ((1 << _LEVEL_BITS) - level)
        utility = FixedPoint(-np.abs(below - above), -_LEVEL_BITS)
        scale = noise_scale(2 * query.sensitivity("linf"), self.epsilon)
        grid = unit_grid(scale, utility.exponent)
        noisy = add_noise(utility, scale, noise, law=LAPLACE, grid=grid).units
        return int(np.argmax(noisy))
