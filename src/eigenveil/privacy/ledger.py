"""Durable, append-only record of every charge against one table's budget.

A charge is on disk before any noise is drawn, so a crash may waste budget and can never lose track
of a release. What is admitted holds for budgets chosen after seeing earlier results (`filters`).
Looking up the balance and adding a charge are one step among processes, and take the same time
however many charges came before (`ledger_file`).

A `Ledger` object holds nothing but the path: every operation opens the file, so copies, clones,
forks, threads and pickles all see the same.

What it cannot do: restoring an old copy of the file re-grants budget, and whoever may write the
file may cut off its newest lines or rewrite the chain. Keep it on a local disk where only the
custodian of the records can write, and note the hash of the newest entry elsewhere.
Proof: docs/proofs/ledger.md.
"""

import re
import secrets
import warnings
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any, Literal

from eigenveil.exceptions import (
    BudgetExceededError,
    InvalidParameterError,
    LedgerError,
    StateError,
    UnfinishedLineWarning,
)
from eigenveil.privacy import ledger_file
from eigenveil.privacy.accounting import compose
from eigenveil.privacy.adjacency import ROW, Adjacency, Unit
from eigenveil.privacy.balance import Balance, rounded_down
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.cost import NOTHING, Cost
from eigenveil.privacy.ledger_file import Ends, Entry, Terms
from eigenveil.privacy.ledger_rules import require, require_all
from eigenveil.privacy.privacy_filters import Spent, left, used
from eigenveil.storage.paths import real_path
from eigenveil.text import printable


class Ledger:
    """A budget on disk. Open an existing one, or `create` it.

    Parameters
    ----------
    path : path-like
        The ledger file. Opening never creates one: a mistyped path must not grant new budget.

    """

    __slots__ = ("path",)

    def __init__(self, path: str | Path) -> None:
        self.path = real_path(path)
        self._read()

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        adjacency: str | Adjacency = Adjacency.REPLACE_ONE,
        unit: Literal["row", "person"] = "row",
        alone_epsilon: float | None = None,
    ) -> "Ledger":
        """Start a ledger with a total budget; refuses to touch an existing file.

        The budget protects one row, or with ``unit="person"`` all rows of one id: it then pays for
        releases with ``groups`` or a unit only, and each entry says by which ids.

        A secure sum costs what is charged if enough other owners are honest. ``alone_epsilon``, at
        the same delta, caps what all entries together cost if no other owner is.
        """
        budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
        alone = None
        if alone_epsilon is not None:
            if delta is None:
                raise InvalidParameterError(
                    "a cap for a lone owner is an epsilon at the ledger's delta: give delta too"
                )
            alone = Budget(epsilon=alone_epsilon, delta=delta)
        neighbours = Adjacency.parse(adjacency)
        if unit not in ("row", "person"):
            raise InvalidParameterError("a ledger's unit must be 'row' or 'person'")
        name = secrets.token_hex(16)  # no two share a hash
        terms = Terms(budget, neighbours, unit, name, alone)
        ledger_file.create(real_path(path), terms)
        return cls(path)

    def charge(
        self,
        cost: Cost,
        *,
        label: str,
        adjacency: Adjacency,
        unit: Unit = ROW,
        once: bool = False,
        alone: Cost | None = None,
        groups: int | None = None,
    ) -> Entry:
        """Commit a charge durably, or refuse; call it before drawing noise.

        With ``once`` a second charge of the same label is refused, whoever asks. ``alone`` is what
        a share of a secure sum costs if no other owner is honest. ``groups`` is noted: how many
        groups or persons the table has, where that is public.
        """
        with ledger_file.opened(self.path, exclusive=True) as file:
            ends = ledger_file.ends(file)
            spent = require(file, ends, cost, adjacency, unit, alone)
            if once and any(entry.label == label for entry in ledger_file.entries(file)[1]):
                raise BudgetExceededError(f"{label!r} was charged before and is charged once only")
            return _appended(file, ends, cost, spent, label, unit, alone, groups=groups)

    def advance(
        self,
        stream: str,
        start: int,
        stop: int,
        unit: Unit = ROW,
        what: Literal["records", "draws"] = "records",
    ) -> Entry:
        """Note, at no cost, that records ``start`` up to ``stop`` of a stream are spent; or draws.

        It is as durable as a charge. Refuse where some of them were noted before.
        """
        with ledger_file.opened(self.path, exclusive=True) as file:
            _require_unspent(file, stream, start)
            ends = ledger_file.ends(file)
            require(file, ends, NOTHING, ends.terms.adjacency, unit)
            label = f"{_spent_to(stream)}{stop:,} {what}"
            return _appended(file, ends, NOTHING, ends.spent, label, unit)

    def mark_failed(self, entry: Entry) -> None:
        """Note, at no cost, that nothing was released for a charge; it stays spent."""
        with ledger_file.opened(self.path, exclusive=True) as file:
            noted = ledger_file.entries(file)[1]
            if entry not in noted or entry.is_note:
                raise LedgerError("the ledger holds no such charge: open the one that was charged")
            if any(other.failed == entry.number for other in noted):
                return
            ends, label = ledger_file.ends(file), f"entry {entry.number} failed"
            _appended(file, ends, NOTHING, ends.spent, label, entry.unit, failed=entry.number)

    def require_unspent(self, stream: str, start: int) -> None:
        """Refuse where records of a stream from ``start`` on were noted as spent."""
        with ledger_file.opened(self.path, exclusive=False) as file:
            _require_unspent(file, stream, start)

    def spent_to(self, stream: str) -> int:
        """Return how many records or draws of a stream its newest note says are spent."""
        with ledger_file.opened(self.path, exclusive=False) as file:
            return _newest_note(file, stream)

    def check(
        self, cost: Cost, *, adjacency: Adjacency, unit: Unit = ROW, alone: Cost | None = None
    ) -> None:
        """Refuse what `charge` would refuse at present, before rows are read for it."""
        with ledger_file.opened(self.path, exclusive=False) as file:
            require(file, ledger_file.ends(file), cost, adjacency, unit, alone)

    def check_all(
        self,
        charges: Sequence[tuple[Cost, Cost | None]],
        *,
        adjacency: Adjacency,
        unit: Unit = ROW,
    ) -> None:
        """Refuse where charges, one after the other, would be refused before the last.

        Each is a cost and what it is if no other owner is honest.
        """
        with ledger_file.opened(self.path, exclusive=False) as file:
            ends = ledger_file.ends(file)
            require_all(file, ends, charges, adjacency, unit)

    @property
    def id(self) -> str:
        """The random name that no other ledger has."""
        return self._ends().terms.id

    @property
    def budget(self) -> Budget:
        """The total this ledger grants."""
        return self._ends().terms.budget

    @property
    def adjacency(self) -> Adjacency:
        """The neighbours every charge must refer to."""
        return self._ends().terms.adjacency

    @property
    def unit(self) -> str:
        """What every charge must protect: a "row", or a "person" with all rows of one id."""
        return self._ends().terms.unit

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every charge and note so far; the hash chain is checked on the way."""
        return self._read()[1]

    @property
    def spent(self) -> Cost:
        """Everything charged so far, composed."""
        return compose(*(entry.cost for entry in self.entries))

    @property
    def spent_alone(self) -> Cost:
        """Everything charged so far, composed, as it is if no other owner is honest."""
        return compose(*(entry.alone or entry.cost for entry in self.entries))

    @property
    def alone_budget(self) -> Budget | None:
        """The cap on `spent_alone`; None without one."""
        return self._ends().terms.alone

    def balance(self, number: int | None = None) -> Balance:
        """Return what was spent of what, before and with an entry; by default with the newest."""
        terms, entries = self._read()
        number = len(entries) if number is None else number
        if not min(1, len(entries)) <= number <= len(entries):
            raise InvalidParameterError(f"the ledger has entries 1 to {len(entries)}")
        return _balance(terms.budget, entries[:number])

    def balance_with(self, cost: Cost) -> Balance:
        """Return the balance as one more charge would leave it, whether it is covered or not."""
        terms, entries = self._read()
        spent, budget = entries[-1].spent if entries else Spent(), terms.budget
        after = spent.plus(cost, budget)
        notion, total = used(budget, after, cost if after.charges == 1 else None)
        now = _balance(budget, entries)
        most = rounded_down(left(budget, after)[1])
        return Balance(notion, now.spent, total, now.granted, budget.delta, most)

    def balances(self) -> tuple[Balance, ...]:
        """Return the balance at every entry, in order."""
        terms, entries = self._read()
        found: list[Balance] = []
        first = next((entry.cost for entry in entries if not entry.is_note), None)
        spent = Spent()
        for entry in entries:
            if found and entry.spent == spent:  # a note
                found.append(replace(found[-1], spent_before=found[-1].spent))
                continue
            before, spent = found[-1].spent if found else 0.0, entry.spent
            found.append(_balanced(terms.budget, before, spent, first))
        return tuple(found)

    def left(self) -> tuple[str, float]:
        """Return the notion of the budget, and how much of it one more release may ask for.

        For epsilon and delta: a release by Gaussian noise at the same delta.
        """
        ends = self._ends()
        return left(ends.terms.budget, ends.spent)

    @property
    def currency(self) -> str | None:
        """What the ledger counts in, which its first charge decides; None before that."""
        return self._ends().spent.currency

    @property
    def unfinished(self) -> bool:
        """Whether the last line was cut off: nothing was drawn for it; it is written over."""
        return self._ends().unfinished

    def summary(self) -> str:
        """Say what was spent of what, in one line."""
        return self.balance().summary()

    def _read(self) -> tuple[Terms, tuple[Entry, ...]]:
        """Read everything and follow the hash chain."""
        with ledger_file.opened(self.path, exclusive=False) as file:
            return ledger_file.entries(file)

    def _ends(self) -> Ends:
        with ledger_file.opened(self.path, exclusive=False) as file:
            return ledger_file.ends(file)

    # The file is the state: a copy is another name for the same file.
    def __copy__(self) -> "Ledger":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "Ledger":
        return self

    def __reduce__(self) -> tuple[type["Ledger"], tuple[Path]]:
        return (Ledger, (self.path,))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ledger) and other.path == self.path

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        return f"Ledger({printable(self.path.name)!r})"

    def __str__(self) -> str:
        return f"ledger {printable(self.path.name)}"


def _appended(
    file: FileIO,
    ends: Ends,
    cost: Cost,
    spent: Spent,
    label: str,
    unit: Unit = ROW,
    alone: Cost | None = None,
    failed: int | None = None,
    groups: int | None = None,
) -> Entry:
    """Write the next line; return its entry once the disk has it."""
    if ends.unfinished:
        warnings.warn(
            "the last line of the ledger was cut off while it was written: nothing was drawn for "
            "it, and it is written over",
            UnfinishedLineWarning,
            stacklevel=3,
        )
    time = datetime.now(UTC).isoformat(timespec="seconds")
    line, entry = ends.following(
        cost,
        spent,
        label=label,
        time=time,
        unit=unit,
        alone=alone,
        failed=failed,
        groups=groups,
    )
    ledger_file.append(file, ends.end, line)
    return entry


def _spent_to(stream: str) -> str:
    return f"stream {stream} spent to "


def _newest_note(file: FileIO, stream: str) -> int:
    """Look for the newest note about a stream, which is rarely far from the end."""
    words = _spent_to(stream)
    notes = (entry.label for entry in ledger_file.backwards(file) if entry.is_note)
    newest = next((label for label in notes if label.startswith(words)), f"{words}0 records")
    noted = re.fullmatch(r"([0-9][0-9,]{0,29}) (?:records|draws)", newest.removeprefix(words))
    if noted is None:
        raise ledger_file.altered()
    return int(noted[1].replace(",", ""))


def _require_unspent(file: FileIO, stream: str, start: int) -> None:
    if _newest_note(file, stream) > start:
        raise StateError(
            "the state is an older copy, as its ledger notes later records: put the newest state "
            "back, or start a new stream with other records"
        )


def _balance(budget: Budget, entries: tuple[Entry, ...]) -> Balance:
    first = next((entry.cost for entry in entries if not entry.is_note), None)
    before = entries[-2].spent if len(entries) > 1 else Spent()
    spent = entries[-1].spent if entries else Spent()
    return _balanced(budget, _used(budget, before, first)[1], spent, first)


def _balanced(budget: Budget, before: float, spent: Spent, first: Cost | None) -> Balance:
    """Return the balance at a total; ``first`` is the cost of the first charge."""
    granted = budget.rho if budget.epsilon is None else budget.epsilon
    assert granted is not None  # a Budget has rho or epsilon
    notion, after = _used(budget, spent, first)
    _, most = left(budget, spent)
    return Balance(notion, before, after, granted, budget.delta, rounded_down(most))


def _used(budget: Budget, spent: Spent, first: Cost | None) -> tuple[str, float]:
    return used(budget, spent, first if spent.charges == 1 else None)
