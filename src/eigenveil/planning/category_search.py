"""Levels of categories, found with a part of the budget before anything else is released.

A twentieth of mu^2 and a hundredth of delta find the levels of all columns together; the release
that follows has the rest, which these two alone decide. The search is charged before the levels are
drawn, the release after them: where it cannot be made, only the search was paid for. Both fit into
a ledger that grants no more than their budget. Proof: docs/proofs/levels.md.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from eigenveil.exact.histograms import level_counts
from eigenveil.exceptions import (
    EigenveilError,
    InvalidParameterError,
    NothingFoundError,
    UnsupportedNotionError,
)
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.levels import PrivateLevels
from eigenveil.messages import Phrase
from eigenveil.numerics.memory import require_memory
from eigenveil.numerics.random import NoiseSource
from eigenveil.planning.execution import FitResult
from eigenveil.planning.plans import Plan
from eigenveil.privacy.account import Account
from eigenveil.privacy.accounting import compose, covers, fits, parts_of, split
from eigenveil.privacy.balance import Balance
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import largest, whole_strength
from eigenveil.privacy.cost import Cost, Gaussian
from eigenveil.privacy.ledger import Ledger
from eigenveil.privacy.ledger_file import Entry
from eigenveil.privacy.privacy_filters import adaptive_part
from eigenveil.rows.base import RowSource, with_one_level_each
from eigenveil.rows.derived import count_checked
from eigenveil.rows.maps import Divide
from eigenveil.text import listed, printable

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

    def left(self) -> Budget:
        """Return the budget of the release: the Gaussian noise of `rest`."""
        return Budget(rho=math.nextafter(self.rest().mu ** 2 / 2, 0.0))

    def rest(self) -> Gaussian:
        """Return the most that is left for the release, whatever levels are found.

        Both are charges of their own, so they fit into what a ledger grants to several.
        """
        spent, left = Gaussian(parts_of(self.cost()).mu), adaptive_part(self.budget)
        return Gaussian(largest(lambda mu: fits(compose(spent, Gaussian(mu)), left), start=1.0))

    def check(self, plan: Plan) -> None:
        """Refuse a release that may cost anything but what is left."""
        try:
            covered = covers(self.rest(), plan.cost)
        except UnsupportedNotionError:  # it may fail, which is not the cost of Gaussian noise
            covered = False
        if not covered:
            raise InvalidParameterError(
                f"levels cannot be found privately before {plan.entry.name!r}: choose another "
                "mechanism, or state the levels in a list, ",
                _LEVELS,
            )

    def whole(self, plan: Plan, ledger: Ledger | None) -> Cost:
        """Return the cost of the levels and of the release that ``plan`` is like.

        Refuse what the ledger would not cover.
        """
        self.check(plan)
        if ledger is not None:
            ledger.check_all(
                [(self.cost(), None), (self.rest(), None)],
                adjacency=plan.request.adjacency,
                unit=plan.request.unit,
            )
        return compose(self.cost(), self.rest())

    def run(
        self, source: RowSource, plan: Plan, *, ledger: Ledger | None, noise: NoiseSource
    ) -> "FoundLevels":
        """Charge for the levels, and draw them; ``plan`` is that of the release for one level each.

        Whatever would stop that release is refused first: the rows are read for it.
        """
        request = plan.request
        self.whole(plan, ledger)
        rows = with_one_level_each(source)
        if request.column_scale is not None:
            rows = rows.map(Divide(request.column_scale))
        count_checked(rows, plan.start.check)
        require_memory(plan.memory)
        gate = Gate(
            self.cost(),
            label=f"levels of {listed(self.columns)}",
            adjacency=request.adjacency,
            ledger=ledger,
            noise=noise,
            protects=request.unit,
            groups=request.n_rows if request.unit.owns_many else None,
        )
        levels = {
            column: tuple(gate.draw(self.step, level_counts(source, column, request.adjacency)))
            for column in self.columns
        }
        if source.n_columns == 0 and not any(levels.values()):
            raise NothingFoundError(
                "no level stands out from the noise, and the share of the search is spent: state "
                "the levels, or give more rows or a larger budget"
            )
        return FoundLevels(levels, self.cost(), gate.receipt, gate.balance, gate.entry)


@dataclass(frozen=True, slots=True)
class FoundLevels:
    """Released levels by column, and what was paid for them."""

    levels: dict[str, tuple[str, ...]]
    cost: Cost
    receipt: str | None
    balance: Balance | None
    entry: Entry | None

    @contextmanager
    def named_in_errors(self, ledger: Ledger | None) -> Iterator[None]:
        """Let an error of the release that follows name the levels, so that nobody buys them twice.

        They are released: their charge has not failed.
        """
        try:
            yield
        except EigenveilError as error:
            found = (
                f"{printable(column)!r} = {listed(levels) or 'none'}"
                for column, levels in self.levels.items()
            )
            if isinstance(ledger, Account) and self.entry is not None:
                ledger.note_released(self.entry)
            error.add_note(
                f"the levels that were found and paid for are {'; '.join(found)}: state them next "
                "time"
            )
            raise

    def before(self, fitted: FitResult[Any]) -> FitResult[Any]:
        """Return the release that followed, with the cost of both."""
        receipts = [one for one in (self.receipt, fitted.guarantee.ledger) if one is not None]
        guarantee = replace(
            fitted.guarantee,
            cost=compose(self.cost, fitted.guarantee.cost),
            ledger=" and ".join(receipts) or None,
        )
        balance = fitted.balance
        if balance is not None and self.balance is not None:
            balance = replace(balance, spent_before=self.balance.spent_before)
        return replace(fitted, guarantee=guarantee, balance=balance, levels_share=LEVEL_SHARE)
