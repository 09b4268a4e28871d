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
from collections.abc import Sequence
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any, Literal

from eigenveil.exceptions import BudgetExceededError, InvalidParameterError, StateError
from eigenveil.privacy import ledger_file
from eigenveil.privacy.accounting import compose
from eigenveil.privacy.adjacency import ROW, Adjacency, Unit
from eigenveil.privacy.balance import Balance, rounded_down
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.cost import NOTHING, Cost
from eigenveil.privacy.filters import Spent, admit, leaks_too_much, left, used
from eigenveil.privacy.ledger_file import Ends, Entry, Terms
from eigenveil.storage.paths import real_path
from eigenveil.text import printable
from eigenveil.wording import Part, Phrase

__all__ = ["Balance", "Entry", "Ledger"]

_OF_PERSONS = Phrase(
    python="Ledger.create(path, ..., unit='person')",
    shell="eigenveil ledger init FILE --unit person --epsilon E --delta D",
    file="eigenveil ledger init FILE --unit person --epsilon E --delta D",
)
_WHOSE_ROWS = Phrase(
    python="pass groups to fit, or unit with a file",
    shell="give --unit COLUMN",
    file='give unit = "COLUMN"',
)


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
    ) -> Entry:
        """Commit a charge durably, or refuse; call it before drawing noise.

        With ``once`` a second charge of the same label is refused, whoever asks. ``alone`` is what
        a share of a secure sum costs if no other owner is honest.
        """
        with ledger_file.opened(self.path, exclusive=True) as file:
            ends = ledger_file.ends(file)
            spent = _require(file, ends, cost, adjacency, unit, alone)
            if once and any(entry.label == label for entry in ledger_file.entries(file)[1]):
                raise BudgetExceededError(f"{label!r} was charged before and is charged once only")
            return _appended(file, ends, cost, spent, label, unit, alone)

    def advance(self, stream: str, start: int, stop: int) -> Entry:
        """Note, at no cost, that records ``start`` up to ``stop`` of a stream are spent.

        It is as durable as a charge. Refuse where some of them were noted before.
        """
        with ledger_file.opened(self.path, exclusive=True) as file:
            _require_unspent(file, stream, start)
            ends = ledger_file.ends(file)
            _require(file, ends, NOTHING, ends.terms.adjacency, ROW)
            label = f"{_spent_to(stream)}{stop:,} records"
            return _appended(file, ends, NOTHING, ends.spent, label)

    def require_unspent(self, stream: str, start: int) -> None:
        """Refuse where records of a stream from ``start`` on were noted as spent."""
        with ledger_file.opened(self.path, exclusive=False) as file:
            _require_unspent(file, stream, start)

    def check(
        self, cost: Cost, *, adjacency: Adjacency, unit: Unit = ROW, alone: Cost | None = None
    ) -> None:
        """Refuse what `charge` would refuse at present, before rows are read for it."""
        with ledger_file.opened(self.path, exclusive=False) as file:
            _require(file, ledger_file.ends(file), cost, adjacency, unit, alone)

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
            _require(file, ends, NOTHING, adjacency, unit)
            budget, spent = ends.terms.budget, ends.spent
            for cost, _ in charges:
                admitted = admit(budget, spent, cost)
                if admitted is None:
                    total = used(budget, _all(budget, ends.spent, charges))[1]
                    raise BudgetExceededError(
                        f"the ledger has {_spent_of(budget, *used(budget, ends.spent))}; with all "
                        f"{len(charges)} charges it would be {total:.6g}, as several take a little "
                        "more than one: grant that much in a ledger, or agree on less"
                    )
                spent = admitted
            if ends.terms.alone is not None:
                entries = ledger_file.entries(file)[1]
                _require_alone(ends.terms.alone, entries, *(b or a for a, b in charges))

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

    def balances(self) -> tuple[Balance, ...]:
        """Return the balance at every entry, in order."""
        terms, entries = self._read()
        found: list[Balance] = []
        for number in range(1, len(entries) + 1):
            before = found[-1].spent if found else 0.0
            found.append(_balanced(terms.budget, before, entries[:number]))
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
) -> Entry:
    """Write the next line; return its entry once the disk has it."""
    time = datetime.now(UTC).isoformat(timespec="seconds")
    line, entry = ends.following(cost, spent, label=label, time=time, unit=unit, alone=alone)
    ledger_file.append(file, ends.end, line)
    return entry


def _spent_to(stream: str) -> str:
    return f"stream {stream} spent to "


def _require_unspent(file: FileIO, stream: str, start: int) -> None:
    """Look for the newest note about a stream, which is rarely far from the end."""
    words = _spent_to(stream)
    notes = (entry.label for entry in ledger_file.backwards(file) if entry.is_note)
    newest = next((label for label in notes if label.startswith(words)), f"{words}0 records")
    noted = re.fullmatch(r"([0-9][0-9,]{0,29}) records", newest.removeprefix(words))
    if noted is None:
        raise ledger_file.altered()
    if int(noted[1].replace(",", "")) > start:
        raise StateError(
            "the state is an older copy, and its ledger notes later records as spent: put the "
            "newest state back, or start a new stream with records that were not in this one"
        )


def _require(
    file: FileIO,
    ends: Ends,
    cost: Cost,
    adjacency: Adjacency,
    unit: Unit,
    alone: Cost | None = None,
) -> Spent:
    """Require the same neighbours, the same unit, and enough left; return the new total."""
    terms, last = ends.terms, ends.last
    if adjacency is not terms.adjacency:
        raise InvalidParameterError(
            f"this ledger protects under {terms.adjacency.value} neighbours and the release under "
            f"{adjacency.value}: use the same adjacency for both"
        )
    if unit.owns_many != (terms.unit == "person"):
        raise InvalidParameterError(*_other_unit(terms.unit))
    if last is not None and unit != last.unit:
        raise InvalidParameterError(_other_ids(last.unit))
    admitted = admit(terms.budget, ends.spent, cost)
    if admitted is None:
        raise BudgetExceededError(_refusal(ends, _only(file, ends), cost))
    if terms.alone is not None:
        _require_alone(terms.alone, ledger_file.entries(file)[1], cost if alone is None else alone)
    return admitted


def _all(budget: Budget, spent: Spent, charges: Sequence[tuple[Cost, Cost | None]]) -> Spent:
    for cost, _ in charges:
        spent = spent.plus(cost, budget)
    return spent


def _require_alone(cap: Budget, entries: tuple[Entry, ...], *costs: Cost) -> None:
    """Require that all entries stay within their cap if no other owner is honest."""
    spent: Spent | None = Spent()
    for each in (*(entry.alone or entry.cost for entry in entries), *costs):
        spent = None if spent is None else admit(cap, spent, each)
    if spent is None:
        raise BudgetExceededError(
            f"without honest others it would exceed the ledger's cap for a lone owner ({cap}): "
            "agree on fewer owners to count on, or on a smaller epsilon"
        )


def _only(file: FileIO, ends: Ends) -> Cost | None:
    """Return the cost of a ledger's one charge; None where it has none, or several."""
    if ends.spent.charges != 1:
        return None
    return next(entry.cost for entry in ledger_file.backwards(file) if not entry.is_note)


def _other_unit(unit: str) -> tuple[Part, ...]:
    if unit == "row":
        return (
            "this ledger protects single rows and the release all rows of one id: create one with ",
            _OF_PERSONS,
        )
    return (
        "this ledger protects all rows of one id and the release single rows: ",
        _WHOSE_ROWS,
    )


def _other_ids(unit: Unit) -> str:
    ids = "groups" if unit.column is None else f"the column {unit.column!r}"
    return (
        f"this ledger counts releases that protect all rows of one id of {ids}, and costs under "
        "other ids do not add up with them: use the same ids, or another ledger"
    )


def _balance(budget: Budget, entries: tuple[Entry, ...]) -> Balance:
    return _balanced(budget, _used(budget, entries[:-1])[1], entries)


def _balanced(budget: Budget, before: float, entries: tuple[Entry, ...]) -> Balance:
    granted = budget.rho if budget.epsilon is None else budget.epsilon
    assert granted is not None  # a Budget has rho or epsilon
    notion, after = _used(budget, entries)
    _, most = left(budget, entries[-1].spent if entries else Spent())
    return Balance(notion, before, after, granted, budget.delta, rounded_down(most))


def _used(budget: Budget, entries: tuple[Entry, ...]) -> tuple[str, float]:
    spent = entries[-1].spent if entries else Spent()
    only = None
    if spent.charges == 1:
        only = next(entry.cost for entry in entries if not entry.is_note)
    return used(budget, spent, only)


def _refusal(ends: Ends, only: Cost | None, cost: Cost) -> str:
    """Say what a ledger has, what it would have, and what to do; ``only`` is its one charge."""
    budget, spent = ends.terms.budget, ends.spent
    notion, before = used(budget, spent, only)
    has = f"the ledger has {_spent_of(budget, notion, before)}"
    after = spent.plus(cost, budget)
    if leaks_too_much(budget, after):
        return (
            f"{has}; the part of its delta for releases that may fail is spent: choose a mechanism "
            f"without such a part, or a smaller delta{_or_pure(after)}"
        )
    _, total = used(budget, after, cost if after.charges == 1 else None)
    return (
        f"{has}; with this release it would be {notion} = {total:.6g}: ask for less, or stop "
        "releasing from this table"
    )


def _or_pure(after: Spent) -> str:
    return ", or a pure epsilon" if after.currency == "epsilon" else ""


def _spent_of(budget: Budget, notion: str, amount: float) -> str:
    granted = budget.rho if budget.epsilon is None else budget.epsilon
    at_delta = "" if budget.delta is None else f" at delta = {budget.delta:g}"
    return f"spent {notion} = {amount:.6g} of {granted:g}{at_delta}"
