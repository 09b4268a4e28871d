"""How much a mechanism may spend for a budget; every search ends on the side of privacy."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from eigenveil.exceptions import InvalidBudgetError, UnsupportedNotionError
from eigenveil.privacy.accounting import delta_of, epsilon_of, fits
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.cost import Cost, Gaussian, Pure

__all__ = ["largest", "noise_scale", "strength", "whole_strength"]

_SMALLEST = 1e-12  # noise beyond it would leave the range of exact numerics


def strength(budget: Budget, cost_of: Callable[[float], Cost], mechanism: str) -> float:
    """Return the largest parameter, mu or epsilon, whose cost the budget covers.

    For Gaussian noise and ``(epsilon, delta)`` this is the exact curve of Balle and Wang (2018),
    for zCDP sqrt(2 rho). The classical sqrt(2 ln(1.25/delta))/epsilon is not used: it is loose and
    fails for epsilon > 1.
    """
    if delta_of(cost_of(1.0), 0.0) == 0.0:
        return 1.0  # it spends nothing: there is nothing to calibrate
    if budget.is_pure and math.isinf(epsilon_of(cost_of(1.0), 0.0)):
        raise UnsupportedNotionError(
            f"{mechanism!r} cannot give a pure epsilon guarantee: give delta as well, or rho"
        )
    found = largest(lambda parameter: fits(cost_of(parameter), budget), start=1.0)
    if found < _SMALLEST:
        raise InvalidBudgetError(f"the budget is too small: it allows a strength of {found:g} only")
    return found


@lru_cache(maxsize=64)
def whole_strength(budget: Budget, *, pure: bool) -> float:
    """Return the mu, or the epsilon, that one step may spend."""
    return strength(budget, Pure if pure else Gaussian, "noise")


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
