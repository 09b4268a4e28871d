"""What a ledger spent, entry by entry, against its budget."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from eigenveil.privacy.ledger import Balance, Ledger
from eigenveil.report.displays.canvas import GREY, INK, NOISE, SIGNAL, Display
from eigenveil.text import printable

__all__ = ["SpendDisplay"]

_MOST_NAMED = 6  # entries that leave room for their labels


class SpendDisplay(Display):
    """Total after each charge of a ledger; what a charge added stands out.

    Costs compose to less than their sum, so later releases add less than earlier ones.

    Parameters
    ----------
    balances : sequence of Balance
        One per entry, in order.
    labels : sequence of str
        What each entry paid for.
    days : sequence of str
        When.

    Attributes
    ----------
    before_, added_ : matplotlib BarContainer
        The two parts of each bar.
    budget_ : matplotlib Line2D
        What the ledger grants.
    ax_, figure_
        Where it was drawn.

    """

    def __init__(
        self, balances: Sequence[Balance], *, labels: Sequence[str], days: Sequence[str]
    ) -> None:
        self.balances = balances
        self.labels = labels
        self.days = days

    @classmethod
    def from_ledger(cls, ledger: Ledger, *, ax: Any = None) -> Self:
        """Draw every charge of a ledger."""
        # Another process may charge meanwhile; a ledger without charges has a balance all the same.
        charged = [
            (entry, balance)
            for entry, balance in zip(ledger.entries, ledger.balances(), strict=False)
            if not entry.is_note
        ]
        entries = [entry for entry, _ in charged]
        balances = [balance for _, balance in charged] or [ledger.balance()]
        labels = [printable(entry.label) for entry in entries] or ["nothing spent"]
        days = [entry.time[:10] for entry in entries]
        return cls(balances, labels=labels, days=days).plot(ax)

    def _draw(self, ax: Any) -> None:
        last = self.balances[-1]
        ordinals = range(1, len(self.balances) + 1)
        before = np.array([balance.spent_before for balance in self.balances])
        added = np.array([balance.spent for balance in self.balances]) - before
        self.before_ = ax.bar(ordinals, before, color=GREY, width=0.72, label="spent before")
        self.added_ = ax.bar(
            ordinals, added, bottom=before, color=SIGNAL, width=0.72, label="added by the release"
        )
        self.budget_ = ax.axhline(last.granted, color=NOISE, linestyle="--", label="budget")
        ax.set_ylim(0, last.granted * 1.35)
        ax.set_xlim(0.4, max(len(self.balances), 3) + 0.6)
        if len(self.labels) <= _MOST_NAMED:
            names = [f"{i}\n{label}" for i, label in zip(ordinals, self.labels, strict=True)]
            ax.set_xticks(list(ordinals), names)
            for name in ax.get_xticklabels():
                name.set_parse_math(False)
        else:
            ax.locator_params(axis="x", integer=True)
        when = sorted({*self.days[:1], *self.days[-1:]})
        ax.set_xlabel(f"release ({' to '.join(when)})" if when else "release")
        ax.set_ylabel(f"{last.notion} spent")
        delta = "" if last.delta is None else f" at delta = {last.delta:g}"
        ax.set_title(
            f"Spent {last.notion} = {last.spent:.3g} of {last.granted:g}{delta}", color=INK
        )
        ax.legend(frameon=False, ncols=3, loc="upper left")
        self._frame(ax, "y")
