"""What a release of a size costs a ledger, before anything about it is decided."""

import math

from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import whole_strength
from eigenveil.privacy.cost import Cost, Gaussian, Pure

__all__ = ["cost_of"]


def cost_of(budget: Budget) -> Cost:
    """Return the cost of Gaussian noise for the whole budget, or of a pure epsilon."""
    if budget.rho is not None:
        return Gaussian(math.sqrt(2 * budget.rho))
    strength = whole_strength(budget, pure=budget.is_pure)
    return Pure(strength) if budget.is_pure else Gaussian(strength)
