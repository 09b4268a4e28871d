"""How much a mechanism may spend for a budget; every search ends on the side of privacy."""

import math
from collections.abc import Callable
from fractions import Fraction

from eigenveil.exceptions import InvalidBudgetError, UnsupportedNotionError
from eigenveil.privacy.accounting import fits
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.cost import Gaussian

__all__ = ["gaussian_mu", "gaussian_sigma"]

_SMALLEST_MU = 1e-12  # noise beyond it would leave the range of exact numerics


def gaussian_mu(budget: Budget, mechanism: str) -> float:
    """Largest mu that one or several Gaussian steps may spend together.

    Exact curve of Balle and Wang (2018) for ``(epsilon, delta)``, sqrt(2 rho) for zCDP. The
    classical sqrt(2 ln(1.25/delta))/epsilon is not used: it is loose and fails for epsilon > 1.
    """
    if budget.is_pure:
        raise UnsupportedNotionError(
            f"{mechanism!r} adds Gaussian noise and cannot give a pure epsilon guarantee: "
            "give delta as well, or rho"
        )
    mu = _largest(lambda mu: fits(Gaussian(mu), budget), start=1.0)
    if mu < _SMALLEST_MU:
        raise InvalidBudgetError(f"the budget is too small: it allows mu = {mu:g} only")
    return mu


def gaussian_sigma(sensitivity: float, mu: float) -> float:
    """Smallest float with sensitivity / sigma <= mu."""
    sigma = sensitivity / mu
    while Fraction(sigma) * Fraction(mu) < Fraction(sensitivity):
        sigma = math.nextafter(sigma, math.inf)
    return sigma


def _largest(holds: Callable[[float], bool], start: float) -> float:
    """Largest float for which a downward-closed condition holds: the side of privacy."""
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
