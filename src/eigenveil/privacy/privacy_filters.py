r"""How costs add up where each is chosen after earlier results: `Spent` and `admit`.

The exact curve of several costs holds if these were fixed beforehand. A ledger cannot know that: a
caller may choose the next budget by what the last release happened to show. So it counts in one
currency, in which a limit on the sum is enough however costs are chosen (a *filter*):

==============  ==================  ============================================================
budget          currency            what a cost adds
==============  ==================  ============================================================
epsilon         epsilon             the sum of its pure parts
rho             rho                 rho, mu^2/2 and epsilon^2/2
epsilon, delta  mu^2, as a rule     mu^2, of a pure part that of the mu that covers it; the delta
                                    of approximate parts
epsilon, delta  epsilon, if the     its epsilon, where that holds but for a sixteenth of delta; the
                first cost is pure  delta of approximate parts, and that sixteenth
epsilon, delta  rho, if the first   rho, mu^2/2 and epsilon^2/2; the delta of approximate parts
                cost is one
==============  ==================  ============================================================

For (epsilon, delta) counted in mu^2 or rho, the limit is what ``1 - LEAK_SHARE`` of delta buys; the
rest of delta pays for parts that may fail altogether. The first cost is admitted by its exact curve
too, since nothing was seen before it. Proof: docs/proofs/ledger.md.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, Self, get_args

from eigenveil.exceptions import BudgetExceededError
from eigenveil.privacy.accounting import (
    delta_of,
    epsilon_of,
    fits,
    parts_of,
    rho_of,
    round_up,
    sqrt_up,
)
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import largest
from eigenveil.privacy.cost import ZCDP, Cost, Gaussian

Currency = Literal["epsilon", "mu-squared", "rho"]

LEAK_SHARE = Fraction(1, 8)  # of delta, set aside for approximate costs
_TAIL_SHARE = Fraction(1, 16)  # of delta, for each Gaussian cost that is counted in epsilon
_UNIT = Fraction(1, 1 << 128)  # sums are whole numbers of it, rounded up
_LARGEST = 1 << 1024  # of a sum: more than any number of releases can spend


@dataclass(frozen=True, slots=True)
class Spent:
    """A running total in whole numbers: one more cost takes constant time.

    Attributes
    ----------
    currency : Currency or None
        What ``amount`` is in; None before the first cost.
    amount, leak : int
        The sums of costs and of their deltas, in units of 2^-128.
    charges : int
        How many costs were more than nothing.

    """

    currency: Currency | None = None
    amount: int = 0
    leak: int = 0
    charges: int = 0

    def plus(self, cost: Cost, budget: Budget) -> "Spent":
        """Return the total with one more cost; refuse one that the currency cannot express."""
        if not any(parts_of(cost)):
            return self
        currency = self.currency or _currency(budget, cost)
        amount, leak = _amounts(cost, budget, currency)
        return Spent(currency, self.amount + amount, self.leak + leak, self.charges + 1)

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form; large numbers as text, which every program keeps whole."""
        return {
            "currency": self.currency,
            "amount": str(self.amount),
            "leak": str(self.leak),
            "charges": self.charges,
        }

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Self:
        """Invert `as_dict`; raise `ValueError` for what is no total."""
        currency, charges = document["currency"], document["charges"]
        amount, leak = int(document["amount"]), int(document["leak"])
        known = currency in get_args(Currency) if charges else currency is None
        possible = 0 <= amount < _LARGEST and 0 <= leak < _LARGEST
        if type(charges) is not int or charges < 0 or not (known and possible):
            raise ValueError("not a running total")
        return cls(currency, amount, leak, charges)

    def follows(self, before: "Spent") -> bool:
        """Return whether this total can be that of one more entry, which may be a note."""
        return (
            self.charges - before.charges in (0, 1)
            and before.currency in (None, self.currency)
            and self.amount >= before.amount
            and self.leak >= before.leak
        )


def admit(budget: Budget, spent: Spent, cost: Cost) -> Spent | None:
    """Return the total with ``cost``, or None where the budget does not cover it."""
    after = spent.plus(cost, budget)
    if after is spent:
        return spent
    most, _ = _limits(budget, after.currency)
    if after.amount <= most and not leaks_too_much(budget, after):
        return after
    # Chosen before anything was seen. Its sum is beyond the limit, so nothing follows it.
    return after if spent.charges == 0 and fits(cost, budget) else None


def adaptive_part(budget: Budget) -> Budget:
    """Return the part of an epsilon and a delta that Gaussian costs chosen in turn may spend."""
    assert budget.delta is not None  # of a pure epsilon, or a rho, it is all
    return Budget(epsilon=budget.epsilon, delta=_beside_leaks(budget.delta))


def leaks_too_much(budget: Budget, spent: Spent) -> bool:
    """Return whether parts that may fail altogether exceed their part of delta."""
    return spent.leak > _limits(budget, spent.currency)[1]


def used(budget: Budget, spent: Spent, only: Cost | None = None) -> tuple[str, float]:
    """Return the notion of a budget and how much of it was spent, rounded up.

    ``only`` is the cost of a total of one charge, which has its exact curve.
    """
    amount = _UNIT * spent.amount
    if budget.rho is not None:
        return "rho", round_up(amount)
    if budget.delta is not None and only is not None:
        return "epsilon", epsilon_of(only, budget.delta)
    if budget.delta is None or spent.currency in (None, "epsilon"):
        return "epsilon", round_up(amount)
    cost = Gaussian(sqrt_up(amount)) if spent.currency == "mu-squared" else ZCDP(round_up(amount))
    return "epsilon", epsilon_of(cost, _beside_leaks(budget.delta))


def left(budget: Budget, spent: Spent) -> tuple[str, float]:
    """Return the notion of a budget and how much of it one more release may ask for.

    For epsilon and delta: a release by Gaussian noise at the same delta, or a pure one where those
    before were pure.
    """
    notion, granted = ("rho", budget.rho) if budget.epsilon is None else ("epsilon", budget.epsilon)
    assert granted is not None  # a Budget has rho or epsilon
    if spent.charges == 0:
        return notion, granted
    most, _ = _limits(budget, spent.currency)
    rest = _UNIT * max(0, most - spent.amount)
    if budget.delta is None or spent.currency == "epsilon":
        return notion, float(rest)
    mu = math.sqrt(rest if spent.currency == "mu-squared" else 2 * rest)
    return notion, epsilon_of(Gaussian(mu), budget.delta)


def _currency(budget: Budget, first: Cost) -> Currency:
    """Return what a ledger counts in, by its first cost: nothing was seen before it."""
    if budget.rho is not None:
        return "rho"
    if budget.delta is None:
        return "epsilon"
    parts = parts_of(first)
    if parts.rho:
        return "rho"
    return "mu-squared" if parts.mu_squared else "epsilon"


def _amounts(cost: Cost, budget: Budget, currency: Currency) -> tuple[int, int]:
    """Return what a cost adds to the two sums."""
    parts = parts_of(cost)
    if currency == "epsilon":
        if not (parts.mu_squared or parts.rho):
            return _units(sum(map(Fraction, parts.pure), Fraction(0))), _units(parts.delta)
        if budget.delta is None:
            raise BudgetExceededError(
                "a pure epsilon ledger cannot pay for Gaussian noise: create one with epsilon and "
                "delta, or with rho"
            )
        failing = parts.delta + Fraction(budget.delta) * _TAIL_SHARE
        epsilon = epsilon_of(cost, _down(failing))
        if math.isinf(epsilon):
            raise BudgetExceededError(
                "this ledger counts in epsilon, and this release has none at its delta: choose a "
                "larger delta for it, or another ledger"
            )
        return _units(Fraction(epsilon)), _units(failing)
    if currency == "rho":
        if budget.rho is not None:
            rho_of(cost)  # refuses approximate costs
        return _units(parts.concentrated), _units(parts.delta)
    if parts.rho:
        raise BudgetExceededError(
            "this ledger counts in mu, and the cost of this release is known in rho only: create a "
            "ledger with rho, or choose another mechanism"
        )
    return _units(parts.covered), _units(parts.delta)


@lru_cache(maxsize=64)
def _limits(budget: Budget, currency: Currency | None) -> tuple[int, int]:
    """Return the largest two sums, rounded down."""
    epsilon, delta = budget.epsilon, budget.delta
    if epsilon is None or delta is None:
        granted = budget.rho if epsilon is None else epsilon
        assert granted is not None  # a Budget has rho or epsilon
        return int(Fraction(granted) / _UNIT), 0
    if currency == "epsilon":
        return int(Fraction(epsilon) / _UNIT), int(Fraction(delta) / _UNIT)
    rest = _beside_leaks(delta)
    leaks = int(Fraction(delta) * LEAK_SHARE / _UNIT)
    if currency == "rho":
        rho = largest(lambda rho: delta_of(ZCDP(rho), epsilon) <= rest, start=1.0)
        return int(Fraction(rho) / _UNIT), leaks
    mu = largest(lambda mu: delta_of(Gaussian(mu), epsilon) <= rest, start=1.0)
    return int(Fraction(mu) ** 2 / _UNIT), leaks


def _beside_leaks(delta: float) -> float:
    """Return the part of delta that the limit is for, rounded down."""
    return _down(Fraction(delta) * (1 - LEAK_SHARE))


def _down(exact: Fraction) -> float:
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, 0.0)


def _units(amount: Fraction) -> int:
    return -int(-amount // _UNIT)
