"""What a ledger has left, for people and for programs."""

import math
from typing import Any

from eigenveil.privacy.accounting import epsilon_of, fits, rho_of
from eigenveil.privacy.cost import Composed, Gaussian
from eigenveil.privacy.ledger import Ledger

__all__ = ["balance", "left"]

_DIGITS = 4
_HALVINGS = 50


def left(ledger: Ledger) -> tuple[str, float]:
    """The notion of the ledger, and how much one more release may ask for, rounded down.

    For epsilon and delta: of a release by Gaussian noise at the same delta.
    """
    budget, spent = ledger.budget, ledger.spent
    if budget.rho is not None:
        return "rho", _down(budget.rho - rho_of(spent))
    assert budget.epsilon is not None  # a Budget has rho or epsilon
    if budget.delta is None:
        return "epsilon", _down(budget.epsilon - epsilon_of(spent, 0.0))
    low, high = 0.0, 1.0
    while fits(Composed((spent, Gaussian(high))), budget):
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        mu = (low + high) / 2
        if fits(Composed((spent, Gaussian(mu))), budget):
            low = mu
        else:
            high = mu
    return "epsilon", _down(epsilon_of(Gaussian(low), budget.delta) if low else 0.0)


def _down(value: float) -> float:
    if value <= 0:
        return 0.0
    places = _DIGITS - 1 - math.floor(math.log10(value))
    # What is left of 2 after 1 is 1, and not the float below it.
    return math.floor(value * 10.0**places * (1 + 1e-9)) / 10.0**places


def balance(ledger: Ledger) -> dict[str, Any]:
    """The state of a ledger as a JSON object."""
    notion, amount = left(ledger)
    entries = ledger.entries
    return {
        "file": str(ledger.path),
        "adjacency": ledger.adjacency.value,
        "unit": ledger.unit,
        "budget": ledger.budget.as_dict(),
        "summary": ledger.summary(),
        "left": {notion: amount},
        "entries": len(entries),
        "newest_hash": entries[-1].hash if entries else None,
    }
