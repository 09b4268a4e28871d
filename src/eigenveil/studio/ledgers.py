"""The tab *Ledger*, and the cost of a release of a size."""

import math
from typing import Any

from starlette.responses import Response

from eigenveil.cli.ledger import as_csv
from eigenveil.cli.ledger import history as entries_of
from eigenveil.cli.releasing import balance
from eigenveil.exceptions import EigenveilError, InvalidParameterError
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import whole_strength
from eigenveil.privacy.cost import Cost, Gaussian, Pure
from eigenveil.privacy.ledger import Ledger
from eigenveil.storage.paths import require_outside
from eigenveil.studio.server import Asked, Studio


def cost_of(budget: Budget) -> Cost:
    """Return the cost of Gaussian noise for the whole budget, or of a pure epsilon."""
    if budget.rho is not None:
        return Gaussian(math.sqrt(2 * budget.rho))
    strength = whole_strength(budget, pure=budget.is_pure)
    return Pure(strength) if budget.is_pure else Gaussian(strength)


_SIZES = (0.1, 0.25, 0.5, 1.0, 2.0)  # of the release that would be next, times a round number


def ledger(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Return the history of a ledger, and what releases of several sizes would leave."""
    path = studio.folder.existing(asked.get("name"))
    found = Ledger(path)
    now = found.balance()
    balances = found.balances()
    return {
        **balance(found),
        "file": studio.folder.name(path),
        "notion": now.notion,
        "spent": now.spent,
        "granted": now.granted,
        "delta": now.delta,
        "largest": now.largest_next,
        "entries": [
            {**entry, "before": state.spent_before, "after": state.spent}
            for entry, state in zip(entries_of(found), balances, strict=True)
        ],
        "next": _next(found),
    }


def exported(studio: Studio, asked: Asked) -> Response:
    """Return every charge as a CSV file to download, as `eigenveil ledger export` writes it."""
    path = studio.folder.existing(asked.get("name"))
    headers = {"content-disposition": 'attachment; filename="ledger.csv"'}
    return Response(as_csv(entries_of(Ledger(path))), media_type="text/csv", headers=headers)


def create(studio: Studio, asked: Asked) -> dict[str, Any]:
    """Start a ledger with a total, as `eigenveil ledger init` does."""
    path = studio.folder.place(asked.get("name"))
    if path.suffix != ".ledger":
        raise InvalidParameterError("the name of a ledger ends in .ledger")
    require_outside(path)
    given = {
        name: asked[name]
        for name in ("epsilon", "delta", "adjacency", "unit")
        if asked.get(name) is not None
    }
    made = Ledger.create(path, **given)
    return {"name": studio.folder.name(path), "summary": made.summary()}


def _next(found: Ledger) -> list[dict[str, Any]]:
    """Return what one more release of each size would leave, as far as they are covered."""
    total, now = found.budget, found.balance()
    largest = now.largest_next or 0.0
    rows = []
    for share in _SIZES:
        size = _round(share * now.granted / 2)
        if not 0 < size <= largest:
            continue
        budget = (
            Budget(rho=size) if total.rho is not None else Budget(epsilon=size, delta=total.delta)
        )
        try:
            after = found.balance_with(cost_of(budget))
        except EigenveilError:
            continue
        rows.append(
            {
                "size": size,
                "before": after.spent_before,
                "after": after.spent,
                "granted": after.granted,
                "largest": after.largest_next,
            }
        )
    return rows


def _round(size: float) -> float:
    """Return a number of two digits."""
    return float(f"{size:.2g}")
