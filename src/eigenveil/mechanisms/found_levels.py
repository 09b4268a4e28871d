"""Levels of categories, found with a part of the budget before anything else is released.

A twentieth of mu^2 and a hundredth of delta find the levels of all columns together; the release
that follows has the rest, which these two alone decide. Everything is charged at once, before the
levels are drawn. Proof: docs/proofs/levels.md.
"""

from dataclasses import dataclass, replace
from typing import Any

from eigenveil.data.levels import level_counts
from eigenveil.data.sources import RowSource
from eigenveil.exceptions import (
    InvalidParameterError,
    NothingFoundError,
    UnsupportedNotionError,
)
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.execute import FitResult
from eigenveil.mechanisms.scalars.levels import PrivateLevels
from eigenveil.mechanisms.stages import Plan
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.accounting import compose, covers, fits, split
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import largest, whole_strength
from eigenveil.privacy.cost import Cost, Gaussian
from eigenveil.privacy.ledger import Balance, Ledger
from eigenveil.wording import Phrase

__all__ = ["FoundLevels", "LevelSearch"]

_LEVELS = Phrase(
    python="encode={name: [...]} or show_scores={name: [...]}",
    shell="--encode NAME=LEVEL,LEVEL or --show-scores-by NAME=LEVEL,LEVEL",
    file="of columns that are numbers",
)
LEVEL_SHARE = 0.05  # of mu^2
DELTA_SHARE = 0.01  # of delta


@dataclass(frozen=True, kw_only=True)
class LevelSearch:
    """The steps that find levels of so many columns. Fields are public, never data."""

    budget: Budget
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.budget.delta is None:
            raise UnsupportedNotionError(
                "levels are found privately with an epsilon and a delta only: give delta as well, "
                "or state the levels in a list, ",
                _LEVELS,
            )

    @property
    def step(self) -> PrivateLevels:
        """The search of one column."""
        assert self.budget.delta is not None  # as __post_init__ requires
        count = len(self.columns)
        mu = whole_strength(self.budget, pure=False)
        one, *_ = split(mu, [LEVEL_SHARE / count] * count)
        return PrivateLevels(mu=one, delta=DELTA_SHARE * self.budget.delta / count)

    def cost(self) -> Cost:
        """Return the cost of all searches."""
        return compose(*(self.step.cost() for _ in self.columns))

    def rest(self) -> Cost:
        """Return the most that is left for the release, whatever levels are found."""
        spent = self.cost()
        return Gaussian(
            largest(lambda mu: fits(compose(spent, Gaussian(mu)), self.budget), start=1.0)
        )

    def check(self, plan: Plan) -> None:
        """Refuse a release that may cost anything but what is left."""
        if not covers(self.rest(), plan.cost):
            raise InvalidParameterError(
                f"levels cannot be found privately before {plan.entry.name!r}: choose another "
                "mechanism, or state the levels in a list, ",
                _LEVELS,
            )

    def whole(self, plan: Plan) -> Cost:
        """Return what is charged for the levels and for the release that ``plan`` is like."""
        self.check(plan)
        return compose(self.cost(), self.rest())

    def run(
        self, source: RowSource, plan: Plan, *, ledger: Ledger | None, noise: NoiseSource
    ) -> "FoundLevels":
        """Charge for the levels and the release that ``plan`` is like, and draw the levels."""
        request, whole = plan.request, self.whole(plan)
        if ledger is not None:
            ledger.check(whole, adjacency=request.adjacency, unit=request.unit)
        gate = Gate(
            self.cost(),
            label=f"{plan.entry.name} with levels",
            adjacency=request.adjacency,
            ledger=ledger,
            noise=noise,
            protects=request.unit,
            charge=whole,
        )
        levels = {
            column: tuple(gate.draw(self.step, level_counts(source, column, request.adjacency)))
            for column in self.columns
        }
        if source.n_columns == 0 and not any(levels.values()):
            raise NothingFoundError(
                "no level stands out from the noise, and the budget is spent: state the levels, "
                "or give more rows or a larger budget"
            )
        return FoundLevels(levels, self.cost(), gate.receipt, gate.balance)


@dataclass(frozen=True, slots=True)
class FoundLevels:
    """Released levels by column, and what was paid for them and for what follows."""

    levels: dict[str, tuple[str, ...]]
    cost: Cost
    receipt: str | None
    balance: Balance | None

    def before(self, fitted: FitResult[Any]) -> FitResult[Any]:
        """Return the release that followed, with the cost of both."""
        guarantee = replace(
            fitted.guarantee,
            cost=compose(self.cost, fitted.guarantee.cost),
            ledger=self.receipt,
        )
        return replace(fitted, guarantee=guarantee, balance=self.balance, levels_share=LEVEL_SHARE)
