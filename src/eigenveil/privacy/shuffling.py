r"""Privacy amplification by shuffling: records in a secret random order, each randomised once.

Source: Feldman, McMillan, Talwar 2021, *Hiding among the clones*, Theorems 3.1 and 3.8. If step i
is an :math:`(\epsilon_0, \delta_0)` randomiser of one record, whatever the earlier answers were,
and the order of n records is uniformly random and secret, all answers together are
:math:`(\epsilon,\; \delta + (e^\epsilon + 1)(1 + e^{-\epsilon_0}/2)\, n \delta_0)`-DP with

.. math:: \epsilon = \ln\Big(1 + \frac{e^{\epsilon_0} - 1}{e^{\epsilon_0} + 1}
          \Big(8\sqrt{\frac{e^{\epsilon_0} \ln(4/\delta)}{n}}
          + \frac{8 e^{\epsilon_0}}{n}\Big)\Big),
          \qquad \epsilon_0 \le \ln\frac{n}{16 \ln(4/\delta)}.

Differences from the source
---------------------------
1. The source has ln(2/delta) in the range. With ln(4/delta), as in the code of its authors, all
   constants are proven in docs/proofs/shuffled_oja.md; the range is a little narrower.

Every number is rounded towards privacy.
"""

import math
from collections.abc import Callable
from functools import lru_cache

from eigenveil.exceptions import InvalidParameterError
from eigenveil.messages import option
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import largest, strength
from eigenveil.privacy.cost import Gaussian

_RANGE = 16.0
_FACTOR = 8.0
_ROUNDING = 2.0**-40  # more than the errors of all functions used here together
_SHARE = 0.5  # of delta for the shuffling; logarithms of either part hardly feel it


def amplified(local: float, n: int, delta: float) -> float:
    """Epsilon of n shuffled randomisers of pure epsilon ``local``, rounded up.

    Refused outside the range of the theorem.
    """
    if not _in_range(local, n, delta):
        raise InvalidParameterError(
            "amplification by shuffling is not known for so few records: it needs "
            f"{_fewest(lambda m: _in_range(local, m, delta))} at this budget; give more, or "
            "choose ",
            option("mechanism", "oja"),
        )
    return _closed_form(local, n, delta)


def amplified_delta(epsilon: float, local: float, local_delta: float, n: int) -> float:
    """Return what n shuffled randomisers with ``(local, local_delta)`` add to delta, rounded up."""
    each = (math.exp(epsilon) + 1) * (1 + math.exp(-local) / 2)
    return n * each * local_delta * (1 + _ROUNDING)


def local_epsilon(epsilon: float, delta: float, n: int) -> float:
    """Return the largest pure epsilon of each of n shuffled randomisers, rounded down: `amplified`
    inverted.

    Refused where the theorem holds for none.
    """
    amplified(0.0, n, delta)

    def within(local: float) -> bool:
        return _in_range(local, n, delta) and _closed_form(local, n, delta) <= epsilon

    return largest(within, start=epsilon)


@lru_cache(maxsize=64)
def local_mu(epsilon: float, delta: float, n: int) -> float:
    """Return the largest mu of noise on each of n shuffled records for ``(epsilon, delta)``.

    By the exact Gaussian curve, rounded down. Where few records hide one another too little, it is
    that of ``(epsilon, delta)`` itself, for which a record that is used once needs no company.
    """
    local = local_epsilon(epsilon, _SHARE * delta, n)
    # Not epsilon itself: where the range of the theorem ends, a larger one buys nothing more.
    reached = _closed_form(local, n, _SHARE * delta)
    rest = (1 - _SHARE) * delta * (1 - _ROUNDING)
    shuffled = _mu(local, rest / amplified_delta(reached, local, 1.0, n))
    return max(shuffled, _mu(epsilon, delta))


def _mu(epsilon: float, delta: float) -> float:
    return strength(Budget(epsilon=epsilon, delta=delta), Gaussian, "shuffled-oja")


def _fewest(enough: Callable[[int], bool]) -> int:
    """Return the smallest number for which an upward-closed condition holds."""
    few, many = 0, 1
    while not enough(many):
        few, many = many, 2 * many
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if enough(middle) else (middle, many)
    return many


def _in_range(local: float, n: int, delta: float) -> bool:
    # Compared as logarithms: exp(local) may be beyond all floats.
    return n > 0 and local + math.log(_RANGE * math.log(4 / delta)) <= math.log(n) * (1 - _ROUNDING)


def _closed_form(local: float, n: int, delta: float) -> float:
    clones = n * math.exp(-local)
    spread = math.sqrt(math.log(4 / delta) / clones) + 1 / clones
    gain = math.tanh(local / 2)  # (e^x - 1)/(e^x + 1)
    return math.log1p(_FACTOR * gain * spread) * (1 + _ROUNDING)
