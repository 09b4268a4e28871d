"""How the budget of an owner is split between its two answers, and the promise for both."""

from dataclasses import replace
from functools import lru_cache

from eigenveil.federated.projected_moment import ProjectedMoment
from eigenveil.privacy.accounting import compose, epsilon_of, split
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import strength, whole_strength
from eigenveil.privacy.cost import Cost, Gaussian
from eigenveil.privacy.guarantee import Guarantee, Numerics

__all__ = ["first_budget", "part_of", "second_strength", "short_receipt", "together"]


@lru_cache(maxsize=64)
def first_budget(whole: Budget, share: float) -> Budget:
    """Return the (epsilon, delta) of the first answer: ``share`` of mu^2 and of delta."""
    assert whole.delta is not None  # the settings have both
    return part_of(whole_strength(whole, pure=False), share, whole.delta)


@lru_cache(maxsize=64)
def second_strength(whole: Budget, first: Cost) -> float:
    """Return the mu that a budget buys for a second answer after a first."""
    return strength(whole, lambda mu: compose(first, Gaussian(mu)), ProjectedMoment.name)


def part_of(mu: float, share: float, delta: float) -> Budget:
    """Return the (epsilon, delta) of ``share`` of mu^2, at that share of a delta."""
    (own,) = split(mu, (share,))
    return Budget(epsilon=epsilon_of(Gaussian(own), share * delta), delta=share * delta)


def together(before: Guarantee, after: Guarantee) -> Guarantee:
    """Return the promise for what was released before and after."""
    exact = before.numerics is after.numerics is Numerics.EXACT
    receipts = [receipt for receipt in (before.ledger, short_receipt(after.ledger)) if receipt]
    return replace(
        after,
        budget=before.budget,
        cost=compose(before.cost, after.cost),
        bounds=(*before.bounds, *(f"values: {words}" for words in after.bounds)),
        numerics=Numerics.EXACT if exact else Numerics.IDEALISED,
        ledger=" and ".join(receipts) or None,
    )


def short_receipt(receipt: str | None) -> str | None:
    """Return number and hash of an entry, without the name of the ledger's file."""
    if receipt is None:
        return None
    entry, number, _ = receipt.split(" ", 2)
    return f"{entry} {number} {receipt[receipt.rindex('(') :]}"
