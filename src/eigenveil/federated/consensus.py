r"""How far the owners' answers agree, and what that says of a component. Post-processing.

A component v has the agreement :math:`a = v' \sum_j w_j U_j U_j' v`, between 0 and 1. The noise of
different owners is independent, so agreement beyond chance is signal.

`chance`: the largest agreement of bases that have nothing to do with each other. Their stack is a
d x mk matrix of columns in random directions, of squared lengths w_j; the largest eigenvalue of its
outer product lies at the edge of the law of Marchenko and Pastur (1967) for columns of different
sizes (Silverstein and Choi 1995), and fluctuates by some :math:`d^{-2/3}` of it. Small ones are
drawn instead, from public numbers.

.. math:: \min_{0 < s < 1/\max w} \frac1s + \frac{k}{d} \sum_j \frac{w_j}{1 - s w_j}.

`reliability`: if each owner's basis holds a share r of the true direction, and the rest of it lies
anywhere, directions beside the k true ones have :math:`b = (1 - r) k/(d - k)`. Owners' errors, of
squared length r (1 - r), add up to :math:`x = r (1 - r) \sum_j w_j^2`; by perturbation of second
order they turn v by an angle of tangent^2 :math:`x/(r - b)^2` and show
:math:`a = r + x/(r - b)`, which is solved for r. That is low where one owner alone knows a
direction: agreement cannot confirm what the others do not see.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from eigenveil.numerics.random import SimulationSource
from eigenveil.numerics.variates import normals

__all__ = ["chance", "reliability"]

_SMALL = 4000  # numbers of a stack that is drawn instead
_DRAWS = 400
_FLUCTUATIONS = 1.5  # of d^(-2/3), and more than the largest of a hundred


def chance(weights: NDArray[np.float64], d: int, k: int) -> float:
    """The agreement that unrelated bases of k columns rarely exceed (about 1 %)."""
    if weights.size * d * k <= _SMALL:
        return _drawn(tuple(weights.tolist()), d, k)
    largest = float(weights.max())

    def edge(share: float) -> float:
        s = share / largest
        return 1 / s + k / d * float(np.sum(weights / (1 - s * weights)))

    found = minimize_scalar(edge, bounds=(1e-6, 1 - 1e-6), method="bounded")
    return float(min(1.0, found.fun * (1 + _FLUCTUATIONS * d ** (-2 / 3))))


@lru_cache(maxsize=64)
def _drawn(weights: tuple[float, ...], d: int, k: int) -> float:
    """Where the edge of a law for large tables says little: the quantile of so many draws."""
    source = SimulationSource(0)
    largest = []
    for _ in range(_DRAWS):
        bases = np.linalg.qr(normals(source, (len(weights), d, k)))[0]
        stack = np.hstack([np.sqrt(w) * basis for w, basis in zip(weights, bases, strict=True)])
        largest.append(float(np.linalg.norm(stack, 2)) ** 2)
    return min(1.0, float(np.quantile(largest, 0.99)))


def reliability(
    agreement: NDArray[np.float64], weights: NDArray[np.float64], d: int
) -> NDArray[np.float64]:
    """About the squared cosine between components and those without noise.

    As if all owners were equally good: cautious where the better ones have the larger weights.
    """
    k, together = len(agreement), float(np.sum(weights**2))
    if k == d:
        return np.ones(k)
    if together >= 1:  # one owner agrees with itself
        return np.zeros(k)
    spread = k / (d - k)  # r - b = (1 + spread) r - spread
    # (a - r)(r - b) = together r (1 - r) is quadratic in r
    leading = 1 + spread - together
    middle = agreement * (1 + spread) + spread - together
    root = middle**2 - 4 * leading * agreement * spread
    share = np.clip((middle + np.sqrt(np.maximum(root, 0.0))) / (2 * leading), 0.0, 1.0)
    above = np.maximum((1 + spread) * share - spread, 0.0)
    error = together * share * (1 - share)
    cosine = above**2 / np.maximum(above**2 + error, np.finfo(float).tiny)
    return np.where((root > 0) & (middle > 0), cosine, 0.0)
