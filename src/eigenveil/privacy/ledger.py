"""Durable, append-only record of every charge against one table's budget.

A charge is committed to disk before any noise is drawn, so a crash may waste budget and can
never lose track of a release. The file is SQLite with a rollback journal and
``synchronous=EXTRA``, so that a committed charge is in the file itself and a copy of the file
is a copy of the ledger; ``BEGIN IMMEDIATE`` makes reading the balance and adding a charge one
step among processes. Each entry carries the hash of the one before it, and triggers refuse to
change, replace or delete rows.

A `Ledger` object holds nothing but the path: every operation opens its own connection, so
copies, clones, forks, threads and pickles all see the same file.

What it cannot do: restoring an old copy of the file re-grants budget, and whoever may write
the file may cut off its newest entries or rewrite the chain. Keep it on a local disk where only
the custodian of the records can write, and note the hash of the newest entry elsewhere.
"""

import hashlib
import json
import math
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from eigenveil.exceptions import BudgetExceededError, InvalidParameterError, LedgerError
from eigenveil.privacy.accounting import compose, epsilon_of, fits, rho_of
from eigenveil.privacy.adjacency import ROW, Adjacency, Unit
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.cost import Composed, Cost, cost_from_dict, cost_to_dict
from eigenveil.text import printable

__all__ = ["Balance", "Entry", "Ledger"]

_BUSY_SECONDS = 60.0
_REFUSE = "BEGIN SELECT RAISE(ABORT, 'append-only'); END"
_SCHEMA = (
    "CREATE TABLE header (terms TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, record TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TRIGGER header_once BEFORE INSERT ON header "
    f"WHEN (SELECT count(*) FROM header) > 0 {_REFUSE}",
    "CREATE TRIGGER entries_in_order BEFORE INSERT ON entries "
    f"WHEN NEW.number IS NOT (SELECT count(*) FROM entries) + 1 {_REFUSE}",
    *(
        f"CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table} {_REFUSE}"
        for table in ("header", "entries")
        for verb in ("UPDATE", "DELETE")
    ),
)


def _canonical(document: dict[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _chain(previous: str, record: str) -> str:
    return hashlib.sha256(f"{previous}\n{record}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Entry:
    """One charge."""

    number: int
    time: str
    label: str
    cost: Cost
    hash: str
    unit: Unit = ROW


@dataclass(frozen=True, slots=True)
class Balance:
    """What a ledger granted and had spent when an entry was made, in its own notion."""

    notion: str  # epsilon or rho
    spent_before: float
    spent: float
    granted: float
    delta: float | None = None  # at which an epsilon is stated


@dataclass(frozen=True, slots=True)
class _Book:
    budget: Budget
    adjacency: Adjacency
    unit: str
    entries: tuple[Entry, ...]
    head: str
    id: str


class Ledger:
    """A budget on disk. Open an existing one, or `create` it.

    Parameters
    ----------
    path : path-like
        The ledger file. Opening never creates one: a mistyped path must not grant new budget.

    """

    __slots__ = ("path",)

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).resolve()
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
    ) -> "Ledger":
        """Start a ledger with a total budget; refuses to touch an existing file.

        The budget protects one row, or with ``unit="person"`` all rows of one id: it then pays for
        releases with ``groups`` or a unit only, and each entry says by which ids.
        """
        budget = Budget(epsilon=epsilon, delta=delta, rho=rho)
        neighbours = Adjacency.parse(adjacency)
        if unit not in ("row", "person"):
            raise InvalidParameterError("a ledger's unit must be 'row' or 'person'")
        document = {
            "adjacency": neighbours.value,
            "budget": budget.as_dict(),
            "id": secrets.token_hex(16),  # so that no two ledgers share a hash
            "version": 1,
        }
        # Of rows nothing is said: a ledger of them is what it was before there were units.
        terms = _canonical(document if unit == "row" else {**document, "unit": unit, "version": 2})
        path = Path(path).resolve()
        try:
            path.open("xb").close()
        except FileExistsError:
            raise LedgerError(f"{path.name} exists already: open it with Ledger(path)") from None
        except OSError:
            raise LedgerError(
                f"cannot create {path.name}: is its folder there and writable?"
            ) from None
        with _connect(path) as connection:
            connection.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute("INSERT INTO header VALUES (?, ?)", (terms, _chain("", terms)))
            connection.execute("COMMIT")
        return cls(path)

    def charge(
        self,
        cost: Cost,
        *,
        label: str,
        adjacency: Adjacency,
        unit: Unit = ROW,
        once: bool = False,
    ) -> Entry:
        """Commit a charge durably, or refuse; call it before drawing noise.

        With ``once`` a second charge of the same label is refused, whoever asks.
        """
        with _connect(self.path) as connection:
            connection.execute("BEGIN IMMEDIATE")
            book = _load(connection)
            _require(book, cost, adjacency, unit)
            if once and any(entry.label == label for entry in book.entries):
                raise BudgetExceededError(f"{label!r} was charged before and is charged once only")
            number = len(book.entries) + 1
            time = datetime.now(UTC).isoformat(timespec="seconds")
            fields = {"cost": cost_to_dict(cost), "label": label, "number": number, "time": time}
            if unit.owns_many:
                fields["unit"] = {"name": unit.name, "column": unit.column}
            record = _canonical(fields)
            digest = _chain(book.head, record)
            connection.execute("INSERT INTO entries VALUES (?, ?, ?)", (number, record, digest))
            connection.execute("COMMIT")
        return Entry(number, time, label, cost, digest, unit)

    def check(self, cost: Cost, *, adjacency: Adjacency, unit: Unit = ROW) -> None:
        """Refuse what `charge` would refuse at present, before rows are read for it."""
        _require(self._read(), cost, adjacency, unit)

    @property
    def id(self) -> str:
        """The random name that no other ledger has."""
        return self._read().id

    @property
    def budget(self) -> Budget:
        """The total this ledger grants."""
        return self._read().budget

    @property
    def adjacency(self) -> Adjacency:
        """The neighbours every charge must refer to."""
        return self._read().adjacency

    @property
    def unit(self) -> str:
        """What every charge must protect: a "row", or a "person" with all rows of one id."""
        return self._read().unit

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every charge so far; the hash chain is checked on the way."""
        return self._read().entries

    @property
    def spent(self) -> Cost:
        """Everything charged so far, composed."""
        return compose(*(entry.cost for entry in self.entries))

    def balance(self, number: int | None = None) -> Balance:
        """What was spent of what, before and with an entry; the newest unless a number is given."""
        book = self._read()
        number = len(book.entries) if number is None else number
        if not min(1, len(book.entries)) <= number <= len(book.entries):
            raise InvalidParameterError(f"the ledger has entries 1 to {len(book.entries)}")
        return _balance(book, number)

    def balances(self) -> tuple[Balance, ...]:
        """The balance at every entry, in order."""
        book = self._read()
        return tuple(_balance(book, entry.number) for entry in book.entries)

    def summary(self) -> str:
        """What was spent of what, in one line."""
        book = self._read()
        return _summary(Composed(tuple(entry.cost for entry in book.entries)), book.budget)

    def _read(self) -> _Book:
        with _connect(self.path) as connection:
            connection.execute("BEGIN")
            return _load(connection)

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
        return f"Ledger({self.path.name!r})"

    def __str__(self) -> str:
        return f"ledger {printable(self.path.name)}"


@contextmanager
def _connect(path: Path) -> Iterator[sqlite3.Connection]:
    if not path.is_file():
        raise LedgerError(f"no ledger at {path.name}: create one with Ledger.create(path, ...)")
    # mode=rw: a file that vanishes meanwhile is not created anew with its budget restored.
    address = f"{path.as_uri()}?mode=rw"
    try:
        connection = sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
    except sqlite3.OperationalError:
        raise LedgerError(
            f"cannot open {path.name}: is it a file you may read and write?"
        ) from None
    try:
        connection.execute("PRAGMA journal_mode=DELETE")  # whatever another program chose
        connection.execute("PRAGMA synchronous=EXTRA")
        connection.execute("PRAGMA fullfsync=ON")  # macOS: through the disk's own cache
        yield connection
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise LedgerError("the ledger is busy: another process holds it; try again") from None
        raise LedgerError(
            "the ledger cannot be read or written: check the file and its disk"
        ) from None
    except sqlite3.DatabaseError:
        raise LedgerError("the file is not an intact ledger; nothing was charged") from None
    finally:
        connection.close()


def _load(connection: sqlite3.Connection) -> _Book:
    """Read everything and follow the hash chain."""
    headers = connection.execute("SELECT terms, hash FROM header").fetchall()
    if len(headers) != 1 or _chain("", headers[0][0]) != headers[0][1]:
        raise LedgerError("the ledger's terms were altered; do not release from this table")
    terms, head = json.loads(headers[0][0]), headers[0][1]
    entries = []
    rows = connection.execute("SELECT number, record, hash FROM entries ORDER BY number")
    for expected, (number, record, digest) in enumerate(rows, start=1):
        if number != expected or _chain(head, record) != digest:
            raise LedgerError("the ledger's history was altered; do not release from this table")
        fields = json.loads(record)
        cost = cost_from_dict(fields["cost"])
        unit = Unit(**fields["unit"]) if "unit" in fields else ROW
        entries.append(Entry(number, fields["time"], fields["label"], cost, digest, unit))
        head = digest
    if terms["version"] not in (1, 2):
        raise LedgerError("the ledger is of a later version: update eigenveil")
    neighbours = Adjacency(terms["adjacency"])
    unit_name = terms.get("unit", "row")
    budget = Budget(**terms["budget"])
    return _Book(budget, neighbours, unit_name, tuple(entries), head, terms["id"])


def _require(book: _Book, cost: Cost, adjacency: Adjacency, unit: Unit) -> None:
    """The same neighbours, the same unit, and enough left."""
    if adjacency is not book.adjacency:
        raise InvalidParameterError(
            f"this ledger protects under {book.adjacency.value} neighbours and the release under "
            f"{adjacency.value}: use the same adjacency for both"
        )
    if unit.owns_many != (book.unit == "person"):
        raise InvalidParameterError(_other_unit(book.unit))
    if book.entries and unit != book.entries[0].unit:
        raise InvalidParameterError(_other_ids(book.entries[0].unit))
    spent = Composed(tuple(entry.cost for entry in book.entries))
    if not fits(Composed((spent, cost)), book.budget):
        raise BudgetExceededError(_refusal(spent, cost, book.budget))


def _other_unit(unit: str) -> str:
    if unit == "row":
        return (
            "this ledger protects single rows and the release all rows of one id: create one with "
            "Ledger.create(path, ..., unit='person') or eigenveil ledger init --unit person"
        )
    return (
        "this ledger protects all rows of one id and the release single rows: pass groups to fit, "
        "or unit with a file"
    )


def _other_ids(unit: Unit) -> str:
    ids = "groups" if unit.column is None else f"the column {unit.column!r}"
    return (
        f"this ledger counts releases that protect all rows of one id of {ids}, and costs under "
        "other ids do not add up with them: use the same ids, or another ledger"
    )


def _used(spent: Cost, budget: Budget) -> tuple[str, float, float]:
    """Name, amount spent and amount granted, in the ledger's own notion."""
    if budget.rho is not None:
        return "rho", rho_of(spent), budget.rho
    assert budget.epsilon is not None  # a Budget has rho or epsilon
    return "epsilon", epsilon_of(spent, budget.delta or 0.0), budget.epsilon


def _balance(book: _Book, number: int) -> Balance:
    costs = tuple(entry.cost for entry in book.entries[:number])
    notion, before, _ = _used(Composed(costs[:-1]), book.budget)
    _, spent, granted = _used(Composed(costs), book.budget)
    return Balance(notion, before, spent, granted, book.budget.delta)


def _summary(spent: Cost, budget: Budget) -> str:
    name, used, granted = _used(spent, budget)
    at_delta = "" if budget.delta is None else f" at delta = {budget.delta:g}"
    return f"spent {name} = {used:.6g} of {granted:g}{at_delta}"


def _refusal(spent: Cost, cost: Cost, budget: Budget) -> str:
    if budget.is_pure and math.isinf(epsilon_of(cost, 0.0)):
        return (
            "a pure epsilon ledger cannot pay for Gaussian noise: create one with epsilon and "
            "delta, or with rho"
        )
    name, total, _ = _used(Composed((spent, cost)), budget)
    return (
        f"the ledger has {_summary(spent, budget)}; with this release it would be "
        f"{name} = {total:.6g}: ask for less, or stop releasing from this table"
    )
