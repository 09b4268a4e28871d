"""What a ledger has left, for people and for programs."""

import math
from typing import Any

from eigenveil.privacy.accounting import epsilon_of
from eigenveil.privacy.ledger import Ledger

__all__ = ["balance", "left"]

_DIGITS = 4


def left(ledger: Ledger) -> tuple[str, float]:
    """Return the notion of the ledger, and how much one more release may ask for, rounded down."""
    notion, amount = ledger.left()
    return notion, _down(amount)


def _down(value: float) -> float:
    if value <= 0:
        return 0.0
    places = _DIGITS - 1 - math.floor(math.log10(value))
    # What is left of 2 after 1 is 1, and not the float below it.
    return math.floor(value * 10.0**places * (1 + 1e-9)) / 10.0**places


def balance(ledger: Ledger) -> dict[str, Any]:
    """Return the state of a ledger as a JSON object."""
    notion, amount = left(ledger)
    entries = ledger.entries
    alone = _alone(ledger)
    return {
        "file": str(ledger.path),
        "adjacency": ledger.adjacency.value,
        "unit": ledger.unit,
        "budget": ledger.budget.as_dict(),
        "summary": ledger.summary(),
        "left": {notion: amount},
        "currency": ledger.currency,
        "entries": len(entries),
        "newest_hash": entries[-1].hash if entries else None,
        **({} if alone is None else {"alone": alone}),
    }


def _alone(ledger: Ledger) -> str | None:
    """Return what all entries cost if no other owner is honest; None where that makes no
    difference.
    """
    cap, delta = ledger.alone_budget, ledger.budget.delta
    if delta is None or (cap is None and all(entry.alone is None for entry in ledger.entries)):
        return None
    epsilon = epsilon_of(ledger.spent_alone, delta)
    limit = "" if cap is None else f" of {cap.epsilon:g}"
    return f"epsilon = {epsilon:.6g}{limit} at delta = {delta:g}"
