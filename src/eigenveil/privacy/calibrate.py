"""How much a mechanism may spend for a budget; every search ends on the side of privacy."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from scipy.optimize import brentq

from eigenveil.exceptions import InvalidBudgetError, UnsupportedNotionError
from eigenveil.privacy.accounting import against, delta_of, epsilon_of, fits, parts_of
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.cost import Cost, Gaussian, Pure

_SMALLEST = 1e-12  # noise beyond it would leave the range of exact numerics
_CLOSE = 2.0**-40  # relative distance from the largest strength at which a search ends
_NOTHING = 5e-324  # a delta so small that it is not told from zero


def strength(budget: Budget, cost_of: Callable[[float], Cost], mechanism: str) -> float:
    """Return the largest parameter, mu or epsilon, whose cost the budget covers, to 12 digits.

    For Gaussian noise and ``(epsilon, delta)`` this is the exact curve of Balle and Wang (2018),
    for zCDP sqrt(2 rho). The classical sqrt(2 ln(1.25/delta))/epsilon is not used: it is loose and
    fails for epsilon > 1.

    Most costs are proportional to the parameter and of one kind; then what one step may spend tells
    where to look. The answer is always one that was checked.
    """
    one = cost_of(1.0)
    if delta_of(one, 0.0) == 0.0:
        return 1.0  # it spends nothing: there is nothing to calibrate
    if budget.is_pure and math.isinf(epsilon_of(one, 0.0)):
        raise UnsupportedNotionError(
            f"{mechanism!r} cannot give a pure epsilon guarantee: give delta as well, or rho"
        )
    found = _proportional(budget, cost_of, one) or _searched(budget, cost_of)
    return _usable(found)


def _proportional(budget: Budget, cost_of: Callable[[float], Cost], one: Cost) -> float | None:
    """Return the strength of a cost that is proportional to it, None where it is not."""
    parts = parts_of(one)
    pure = bool(parts.pure)
    if parts.rho or parts.delta or (pure and parts.mu_squared):
        return None
    if len(parts.pure) > 1 and not budget.is_pure:  # epsilons add up, their deltas do not
        return None
    whole = whole_strength(budget, pure=pure)
    guess = whole / (math.fsum(parts.pure) if pure else parts.mu)
    if fits(cost_of(guess * (1 + _CLOSE)), budget):
        return None
    return next((s for s in (guess, guess * (1 - _CLOSE)) if fits(cost_of(s), budget)), None)


def _searched(budget: Budget, cost_of: Callable[[float], Cost]) -> float:
    """Return the strength of any cost that grows with it."""

    def excess(parameter: float) -> float:
        spent, allowed = against(cost_of(parameter), budget)
        return math.log(max(spent, _NOTHING)) - math.log(allowed)

    good = bad = 1.0
    while excess(good) > 0:
        good /= 2
        if good < _SMALLEST / 2:
            return good
    while excess(bad) <= 0:
        good, bad = bad, bad * 2
        if math.isinf(bad):
            raise InvalidBudgetError("the budget is too large to be calibrated")
    found = good
    if excess(good) < 0:
        found = max(good, float(brentq(excess, good, bad, xtol=_CLOSE * good, rtol=_CLOSE)))
    step = _CLOSE
    while not fits(cost_of(found), budget):
        found, step = found * (1 - step), 2 * step
    return found


def _usable(found: float) -> float:
    if found < _SMALLEST:
        raise InvalidBudgetError(f"the budget is too small: it allows a strength of {found:g} only")
    return found


@lru_cache(maxsize=64)
def whole_strength(budget: Budget, *, pure: bool) -> float:
    """Return the mu, or the epsilon, that one step may spend."""
    kind = Pure if pure else Gaussian
    return _usable(largest(lambda parameter: fits(kind(parameter), budget), start=1.0))


def noise_scale(sensitivity: float, strength: float) -> float:
    """Return the smallest float with sensitivity / scale <= strength, for sigma and mu or b and
    epsilon.
    """
    scale = sensitivity / strength
    while Fraction(scale) * Fraction(strength) < Fraction(sensitivity):
        scale = math.nextafter(scale, math.inf)
    return scale


def largest(holds: Callable[[float], bool], start: float) -> float:
    """Return the largest float for which a downward-closed condition holds: the side of privacy."""
    good, bad = start, start
    while not holds(good):
        good /= 2
        if good == 0:
            raise InvalidBudgetError("the budget is too small to be met")
    while holds(bad):
        good, bad = bad, bad * 2
        if math.isinf(bad):
            raise InvalidBudgetError("the budget is too large to be calibrated")
    while True:
        middle = (good + bad) / 2
        if not good < middle < bad:
            return good
        if holds(middle):
            good = middle
        else:
            bad = middle
