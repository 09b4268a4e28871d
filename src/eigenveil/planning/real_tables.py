r"""What real tables add to the loss of standardised components.

The assumed table has normal columns. Real ones have long tails, which are pulled in, rare flags,
whose variance noise hides, and eigenvalues that are nearly equal. What these cost was measured
(`benchmarks/bench_planner.py --real`): it falls with the rows for each column in units of the
noise,

.. math:: s = \frac{n \mu}{d}, \qquad \text{added loss } \frac{a}{s} + \frac{b}{\sqrt s},

and differs from table to table by more than noise does. The constants were set with those tables in
view. At a pure epsilon they are others, as scales are rougher and no column has limits.
"""

import math
from typing import NamedTuple

from eigenveil.planning.request import Situation
from eigenveil.privacy.calibrate import whole_strength

# a and b of the mean, and of what eight of ten releases add at most; the share of the least loss of
# assumed tables that easier ones have.
_Constants = tuple[tuple[float, float], tuple[float, float], float]
_GAUSSIAN: _Constants = ((1.5, 0.08), (2.5, 0.15), 1.0)
_PURE: _Constants = ((8.0, 0.2), (20.0, 0.8), 0.2)


class AddedLoss(NamedTuple):
    """Share of variance that real tables lose beyond the assumed one.

    Attributes
    ----------
    mean : float
        On average.
    most : float
        At most in eight of ten releases.
    easier : float
        Factor of the least loss, for tables that are easier than the assumed one.

    """

    mean: float
    most: float
    easier: float


def added_loss(situation: Situation) -> AddedLoss:
    """Return what real tables add to the predicted loss of standardised components."""
    assert situation.n is not None  # without it nothing is predicted
    pure = situation.budget.is_pure
    mu = whole_strength(situation.budget, pure=pure)
    if pure:  # of the Gaussian noise of the same size
        mu /= math.sqrt(2 * situation.d)
    strength = situation.n * mu / situation.d
    *factors, easier = _PURE if pure else _GAUSSIAN
    mean, most = (one / strength + root / math.sqrt(strength) for one, root in factors)
    return AddedLoss(mean, most, easier)
