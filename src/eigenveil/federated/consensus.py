r"""How far the owners' answers agree, and what that says of a component. Post-processing.

A component v has the agreement :math:`a = v' \sum_j w_j U_j U_j' v`, between 0 and 1. The noise of
different owners is independent, so agreement beyond chance is signal.

`chance`: the largest agreement of bases that have nothing to do with each other. With q columns
each, their stack is a d x mq matrix of columns in random directions, of squared lengths w_j; the
largest eigenvalue of its outer product lies at the edge of the law of Marchenko and Pastur (1967)
for columns of different sizes (Silverstein and Choi 1995), and fluctuates by some
:math:`d^{-2/3}` of it,

.. math:: \min_{0 < s < 1/\max w} \frac1s + \frac{q}{d} \sum_j \frac{w_j}{1 - s w_j}.

`reliability`: if each owner's basis holds a share r of the true direction, and the rest of it lies
anywhere, directions beside the k true ones have :math:`b = (q - k r)/(d - k)`. Owners' errors, of
squared length r (1 - r), add up to :math:`x = r (1 - r) \sum_j w_j^2`; by perturbation of second
order they turn v by an angle of tangent^2 :math:`x/(r - b)^2` and show
:math:`a = r + x/(r - b)`, which is solved for r. That is low where one owner alone knows a
direction: agreement cannot confirm what the others do not see.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

__all__ = ["chance", "reliability"]

_FLUCTUATIONS = 1.5  # of d^(-2/3), and more than the largest of a hundred


def chance(weights: NDArray[np.float64], d: int, sent: int) -> float:
    """The agreement that unrelated bases of ``sent`` columns rarely exceed (about 1 %)."""
    largest = float(weights.max())

    def edge(share: float) -> float:
        s = share / largest
        return 1 / s + sent / d * float(np.sum(weights / (1 - s * weights)))

    found = minimize_scalar(edge, bounds=(1e-6, 1 - 1e-6), method="bounded")
    return float(min(1.0, found.fun * (1 + _FLUCTUATIONS * d ** (-2 / 3))))


def reliability(
    agreement: NDArray[np.float64], weights: NDArray[np.float64], d: int, sent: int
) -> NDArray[np.float64]:
    """Expected squared cosine between components and those without noise, from their agreement."""
    k, together = len(agreement), float(np.sum(weights**2))
    if k == d:
        return np.ones(k)
    if together >= 1:  # one owner agrees with itself
        return np.zeros(k)
    true, spread = 1 + k / (d - k), sent / (d - k)  # r - b = true r - spread
    # (a - r)(r - b) = together r (1 - r) is quadratic in r
    leading = true - together
    middle = agreement * true + spread - together
    root = middle**2 - 4 * leading * agreement * spread
    share = np.clip((middle + np.sqrt(np.maximum(root, 0.0))) / (2 * leading), 0.0, 1.0)
    above = np.maximum(true * share - spread, 0.0)
    error = together * share * (1 - share)
    cosine = above**2 / np.maximum(above**2 + error, np.finfo(float).tiny)
    return np.where((root > 0) & (middle > 0), cosine, 0.0)
