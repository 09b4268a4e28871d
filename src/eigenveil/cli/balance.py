"""What a ledger has left, for people and for programs."""

from typing import Any

from eigenveil.privacy.accounting import epsilon_of
from eigenveil.privacy.ledger import Ledger

__all__ = ["balance"]


def balance(ledger: Ledger) -> dict[str, Any]:
    """Return the state of a ledger as a JSON object."""
    entries = ledger.entries
    alone = _alone(ledger)
    state = ledger.balance()
    return {
        "file": str(ledger.path),
        "adjacency": ledger.adjacency.value,
        "unit": ledger.unit,
        "budget": ledger.budget.as_dict(),
        "summary": state.summary(),
        "left": {state.notion: state.largest_next},
        "why": state.why(),
        "currency": ledger.currency,
        "entries": len(entries),
        "newest_hash": entries[-1].hash if entries else None,
        "unfinished": ledger.unfinished,
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
