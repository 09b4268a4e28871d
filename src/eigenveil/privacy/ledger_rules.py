"""Whether a ledger admits a charge: `require` returns the new total or refuses, and says why."""

from collections.abc import Sequence
from io import FileIO

from eigenveil.exceptions import BudgetExceededError, InvalidParameterError
from eigenveil.messages import Part, Phrase
from eigenveil.privacy import ledger_file
from eigenveil.privacy.adjacency import Adjacency, Unit
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.cost import NOTHING, Cost
from eigenveil.privacy.ledger_file import Ends, Entry
from eigenveil.privacy.privacy_filters import Spent, admit, leaks_too_much, used

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


def require(
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


def require_all(
    file: FileIO,
    ends: Ends,
    charges: Sequence[tuple[Cost, Cost | None]],
    adjacency: Adjacency,
    unit: Unit,
) -> None:
    """Require that charges, one after the other, would not be refused before the last."""
    require(file, ends, NOTHING, adjacency, unit)
    budget, spent = ends.terms.budget, ends.spent
    for cost, _ in charges:
        admitted = admit(budget, spent, cost)
        if admitted is None:
            total = used(budget, _all(budget, ends.spent, charges))[1]
            raise BudgetExceededError(
                f"the ledger has {_spent_of(budget, *used(budget, ends.spent))}; with all "
                f"{len(charges)} charges, which cost a little more than one, it would be "
                f"{total:.6g}: grant that much, or ask for less"
            )
        spent = admitted
    if ends.terms.alone is not None:
        entries = ledger_file.entries(file)[1]
        _require_alone(ends.terms.alone, entries, *(b or a for a, b in charges))


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
            "count on fewer owners, or agree on a smaller epsilon"
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
        f"this ledger protects all rows of one id of {ids}, and costs under other ids do not add "
        "up with it: use the same ids, or another ledger"
    )


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
