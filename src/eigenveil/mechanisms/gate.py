"""The only gate noise passes through.

A step turns a `Bounded` statistic into a release and says what that costs. A procedure
goes from rows to a release by one or more such draws. A `Gate` is one charged allotment: it
commits the whole cost to the ledger before its first draw, pays every step from it, and refuses
a step the allotment does not cover.
"""

import os
import threading
from typing import Any, Generic, NoReturn, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import second_moment
from eigenveil.exceptions import BudgetExceededError, InvalidParameterError, LedgerError
from eigenveil.numerics.random import NoiseSource, normals
from eigenveil.privacy.accounting import covers
from eigenveil.privacy.adjacency import ROW, Adjacency, Unit
from eigenveil.privacy.balance import Balance
from eigenveil.privacy.cost import Composed, Cost
from eigenveil.privacy.ledger import Ledger
from eigenveil.privacy.ledger_file import Entry
from eigenveil.rows.base import RowSource

Released = TypeVar("Released", covariant=True)
Result = TypeVar("Result")


class Step(Protocol[Released]):
    """One draw. Fields are public parameters; data arrives in the query alone."""

    @property
    def name(self) -> str:
        """What users call it."""
        ...

    @property
    def exact(self) -> bool:
        """Whether the draw has the ideal law to the last bit, as the lattice sampler's have."""
        ...

    def cost(self) -> Cost:
        """Cost of one `perturb`, from public fields only."""
        ...

    def perturb(self, query: Bounded, noise: NoiseSource) -> Released:
        """Add noise. Called by `Gate.draw` only."""
        ...


class Procedure(Protocol[Released]):
    """One or more draws on the same rows. Fields are public parameters."""

    @property
    def name(self) -> str:
        """What users call it."""
        ...

    def cost(self) -> Cost:
        """Cost of all draws together, from public fields only."""
        ...

    def run(self, source: RowSource, clip: Clip, gate: "Gate") -> Released:
        """Read the rows, bounded by ``clip``, and release through ``gate``."""
        ...


def proofs_of(procedure: Any) -> tuple[str, ...]:
    """Return the names of the proof pages of a procedure and of those inside it, outermost first.

    A page in ``docs/proofs`` has the name of the module, unless the class names another one.
    """
    pages: list[str] = []
    while procedure is not None:
        module = type(procedure).__module__.rpartition(".")[2]
        pages.append(getattr(procedure, "proof", module))
        procedure = getattr(procedure, "inner", None)
    return tuple(pages)


class Gate:
    """One allotment of budget, charged once, from which the steps of a release draw.

    Parameters
    ----------
    total : Cost
        What all steps together may spend.
    label : str
        What the ledger should call the release.
    adjacency : Adjacency
        The neighbours the cost refers to.
    ledger : Ledger or None
        Charged in full before the first draw; a release that fails later stays charged.
    noise : NoiseSource
        Where the random bits come from.
    protects : Unit
        What the neighbours differ in.
    once : bool
        Whether the ledger must refuse a second charge of the same label.
    charge : Cost, optional
        What the ledger is charged instead of ``total``: more, where later gates draw on it, or
        nothing, where an earlier charge covers this gate. Whoever says so has composed them.
    alone : Cost, optional
        What the charge is if no other owner of a secure sum is honest; noted beside it.
    charged_unit : Unit, optional
        The unit that ``charge`` is for, where it is not ``protects``: a person with several of the
        single rows, whose cost the caller knows.
    groups : int, optional
        How many groups or persons the table has, where that is public and known before the first
        draw; noted beside the charge.

    """

    def __init__(
        self,
        total: Cost,
        *,
        label: str,
        adjacency: Adjacency,
        ledger: Ledger | None,
        noise: NoiseSource,
        protects: Unit = ROW,
        once: bool = False,
        charge: Cost | None = None,
        alone: Cost | None = None,
        charged_unit: Unit | None = None,
        groups: int | None = None,
    ) -> None:
        self.total = total
        self._group_count = groups
        self._charged_unit = protects if charged_unit is None else charged_unit
        self._charge = total if charge is None else charge
        self._alone = alone
        self.adjacency = adjacency
        self.protects = protects
        self.entry: Entry | None = None  # of the ledger, once charged
        self.balance: Balance | None = None  # of the ledger, with this charge
        self.rows: int | None = None  # where their number is public
        self.exact = True
        self._label = label
        self._once = once
        self._ledger = ledger
        self._noise = noise
        self._spent: tuple[Cost, ...] = ()  # on the whole table
        self._batch = range(0)  # records that are being spent on
        self._batch_spent: tuple[Cost, ...] = ()
        self._earlier: set[tuple[Cost, ...]] = set()  # what was spent on single earlier batches
        self._process = os.getpid()
        self._lock = threading.Lock()

    @classmethod
    def resume(
        cls,
        total: Cost,
        *,
        label: str,
        adjacency: Adjacency,
        ledger: Ledger | None,
        noise: NoiseSource,
        entry: str | None,
        position: int,
        protects: Unit = ROW,
        charge: Cost | None = None,
        charged_unit: Unit | None = None,
    ) -> Self:
        """Re-open an allotment whose earlier process is gone; nothing is charged twice.

        Parameters
        ----------
        total : Cost
            What all steps together may spend.
        label, adjacency, ledger, noise
            Those of the allotment.
        entry : str or None
            Hash of the entry that paid for it, which the ledger must hold with this label, charge
            and unit; None where nothing was charged yet.
        position : int
            Records before it were spent and are refused, as is the whole table. Whoever re-opens
            has noted it where a crash does not reach it, before anything was drawn on them.
        protects, charge, charged_unit
            Those of the allotment, where they are not single rows, ``total`` and ``protects``.

        """
        gate = cls(
            total,
            label=label,
            adjacency=adjacency,
            ledger=ledger,
            noise=noise,
            protects=protects,
            charge=charge,
            charged_unit=charged_unit,
        )
        if entry is not None:
            entries = () if ledger is None else ledger.entries
            paid = next((e for e in entries if e.hash == entry), None)
            if paid is None or (paid.label, paid.cost, paid.unit) != gate._terms:
                raise LedgerError(
                    "the ledger does not hold the charge of this allotment: open the one that was "
                    "charged"
                )
            gate._paid_by(paid)
        gate._batch = range(position, position)
        if position > 0:
            gate._earlier = {(total,)}
        return gate

    @property
    def receipt(self) -> str | None:
        """The ledger's, once charged."""
        if self.entry is None:
            return None
        return f"entry {self.entry.number} of {self._ledger} (hash {self.entry.hash[:16]})"

    def draw(self, step: Step[Result], query: Bounded) -> Result:
        """Charge, then add noise."""
        if query.adjacency is not self.adjacency or query.protects != self.protects:
            raise InvalidParameterError("the statistic was bounded for other neighbours")
        self._check_process()
        with self._lock:
            if self._group_count is None and self.protects.owns_many:
                self._group_count = query.count
            self._pay(step, query.records)
            self.exact = self.exact and query.exact and step.exact
            self.rows = query.count if query.records is None else self._batch.stop
        return step.perturb(query, self._noise.bound_to(query.value.units))  # noise enters here

    def order(self, n: int) -> NDArray[np.intp]:
        """Return a random order of n rows, secret and independent of them; it costs nothing."""
        source = self._free(n)
        while True:
            words = source.words(n)
            order = np.argsort(words)
            ordered = words[order]
            if (ordered[1:] != ordered[:-1]).all():  # equal words would favour some orders
                return order

    def sample(self, n: int, size: int) -> NDArray[np.intp]:
        """Return ``size`` of n places, increasing; secret, uniform, and free of cost."""
        source = self._free(n, size)
        fair = np.uint64((1 << 64) // n * n - 1)  # the last word that favours no place
        chosen = np.empty(0, dtype=np.intp)
        while chosen.size < size:  # never more words than places that are missing
            words = source.words(size - chosen.size)
            places = (words[words <= fair] % np.uint64(n)).astype(np.intp)
            places = np.sort(np.append(chosen, places))
            chosen = places[np.diff(places, prepend=-1) > 0]  # each place once
        return chosen

    def normals(self, *shape: int) -> NDArray[np.float64]:
        """Return standard normal numbers that no row has to do with; they cost nothing."""
        return normals(self._free(*shape), shape)

    def _free(self, *shape: int) -> NoiseSource:
        """Return random bits that no row has to do with."""
        self._check_process()
        with self._lock:
            self._commit()  # no random bit before the charge
        return self._noise.bound_to(np.array(shape))

    def require_comparison(self, name: str) -> None:
        """Refuse what is not proven to be private, unless it is a simulation without a ledger."""
        if self._ledger is not None or not self._noise.simulated:
            raise InvalidParameterError(
                f"{name!r} in this form is not private and serves comparisons with a paper alone: "
                "simulate it with seeded noise and without a ledger"
            )

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise BudgetExceededError("an allotment cannot be spent by a forked process")

    def _pay(self, step: Step[Any], records: range | None) -> None:
        """Charge the ledger at the first step; refuse a step the allotment does not cover.

        Parallel composition: a record is in one batch only, so steps on different batches are
        spent on different records. Batches come in the order of their records; steps on records
        that overlap count as steps on one batch. Proof: docs/proofs/batches.md.
        """
        if records is None:
            for spent in (*self._earlier, self._batch_spent):
                self._affords(step, spent)
            self._commit()
            self._spent = (*self._spent, step.cost())
            return
        if not self.adjacency.count_is_public or self.protects.owns_many:
            raise InvalidParameterError("batches by position need single rows and replace-one")
        if records.step != 1 or not records or records.start < self._batch.start:
            raise InvalidParameterError("batches must come in the order of their records")
        follows = records.start >= self._batch.stop
        self._affords(step, () if follows else self._batch_spent)
        self._commit()
        if follows:
            self._earlier.add(self._batch_spent)
            self._batch, self._batch_spent = records, ()
        self._batch = range(self._batch.start, max(self._batch.stop, records.stop))
        self._batch_spent = (*self._batch_spent, step.cost())

    def _affords(self, step: Step[Any], on_the_same: tuple[Cost, ...]) -> None:
        if not covers(self.total, Composed((*self._spent, *on_the_same, step.cost()))):
            raise BudgetExceededError(f"the step {step.name!r} asks for more than its share")

    def _commit(self) -> None:
        if self._ledger is not None and self.entry is None:
            self._paid_by(
                self._ledger.charge(
                    self._charge,
                    label=self._label,
                    adjacency=self.adjacency,
                    unit=self._charged_unit,
                    once=self._once,
                    alone=self._alone,
                    groups=self._group_count,
                )
            )

    @property
    def _terms(self) -> tuple[str, Cost, Unit]:
        """What an entry that pays for this allotment says."""
        return self._label, self._charge, self._charged_unit

    def _paid_by(self, entry: Entry) -> None:
        assert self._ledger is not None  # who else would have an entry
        self.entry = entry
        self.balance = self._ledger.balance(entry.number)

    def __reduce__(self) -> NoReturn:  # copy, deepcopy and pickle all ask here
        raise TypeError("an allotment cannot be copied: it would be spent twice")


class MomentMechanism(Generic[Result]):
    """What a mechanism on the second moment needs to be a procedure."""

    __slots__ = ()

    def run(self: Step[Result], source: RowSource, clip: Clip, gate: Gate) -> Result:
        """Draw once on the second moment of the rows."""
        return gate.draw(self, second_moment(source, clip, gate.adjacency))


def release(
    mechanism: Step[Result],
    query: Bounded,
    *,
    ledger: Ledger | None,
    noise: NoiseSource,
) -> Result:
    """Run a mechanism of one step on its own allotment."""
    gate = Gate(
        mechanism.cost(),
        label=mechanism.name,
        adjacency=query.adjacency,
        ledger=ledger,
        noise=noise,
        protects=query.protects,
    )
    return gate.draw(mechanism, query)
