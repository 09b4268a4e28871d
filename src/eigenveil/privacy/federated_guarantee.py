"""The promise of a release that several owners made together.

Each record lies with one owner. Whatever the others send depends on it only through what its owner
sent before, so that owner's statement :math:`(\\epsilon_j, \\delta_j)` protects it, whatever the
others spend (McSherry 2009, parallel composition), and implies the weakest of them all,

.. math:: (\\max_j \\epsilon_j, \\max_j \\delta_j),

which is what can be said of every record. For somebody with records at several owners their costs
add up.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from eigenveil.exceptions import InvalidParameterError
from eigenveil.privacy.accounting import epsilon_of, native
from eigenveil.privacy.adjacency import GROUP, ROW, Adjacency, Unit
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.cost import ZCDP, Approx, Cost, Pure
from eigenveil.privacy.guarantee import EXAMPLE_DELTA, Guarantee, Kind, Numerics

_OWN_BOUNDS = "each owner's own, in its statement"
_MORE_BOUNDS = "more at single owners, in their statements"

_WITHIN = (
    "variance within owners: rows are taken about their own owner's centre, and how far the "
    "centres of owners lie apart is not part of it"
)

_TOTAL = "total variance: rows of all owners are taken about one common centre"


@dataclass(frozen=True, slots=True, kw_only=True)
class FederatedGuarantee(Guarantee):
    """What holds for the records of all owners: the weakest of their statements, clause by clause.

    No words of a single owner are repeated in it, only those that all of them use.
    """

    owners: tuple[Guarantee, ...]

    @classmethod
    def of(cls, owners: Iterable[Guarantee]) -> Self:
        """Return the one promise that the promises of the owners imply."""
        each = tuple(owners)
        if not each:
            raise InvalidParameterError("a release of several owners has the guarantee of each")
        if any(one.adjacency is not Adjacency.REPLACE_ONE for one in each):
            raise InvalidParameterError(
                "owners declare how many records they have: their guarantees must be replace-one"
            )
        if any(one.honest != each[0].honest for one in each):
            raise InvalidParameterError("owners of one sum count on the same number of others")
        budget = _largest(each)
        modelled = sum(one.kind is Kind.MODEL_BASED for one in each)
        idealised = any(one.numerics is Numerics.IDEALISED for one in each)
        protects = _weakest([one.protects for one in each])
        return cls(
            budget=budget,
            cost=_all_of(budget) if each[0].honest is None else each[0].cost,
            adjacency=Adjacency.REPLACE_ONE,
            bounds=_shared([one.bounds for one in each]),
            kind=Kind.MODEL_BASED if modelled else Kind.WORST_CASE,
            numerics=Numerics.IDEALISED if idealised else Numerics.EXACT,
            simulated=any(one.simulated for one in each),
            ledger=_recorded([one.ledger is not None for one in each]),
            assumption=_modelled(modelled, len(each)) if modelled else None,
            protects=protects,
            arrival=any(one.arrival for one in each),
            honest=each[0].honest,
            merged_ids=all(one.merged_ids for one in each) or not protects.owns_many,
            owners=each,
        )

    def statements(self) -> tuple[tuple[str, str], ...]:
        """Return the promise as labelled clauses, after what it is that was estimated."""
        total = self.honest is not None and self.honest.total
        return (*Guarantee.statements(self), ("Describes", _TOTAL if total else _WITHIN))

    def _protected(self) -> str:
        words = Guarantee._protected(self)
        if self.protects is ROW and self._units_differ:
            words += " (of the same id where all rows of an id are protected)"
        count = len(self.owners)
        return f"at {f'each of the {count} owners' if count > 1 else 'the one owner'}, {words}"

    def _count(self) -> str:
        if not self._units_differ:
            return f"of each owner {Guarantee._count(self)}"
        units = Counter(one.unit for one in self.owners)
        told = ", ".join(f"{unit} with {count}" for unit, count in units.items())
        return f"the owners protect different units ({told}) and the number of these is public"

    def _spent(self) -> str:
        if self.honest is not None:
            return (
                f"{self.budget} at most by any owner, for sums of which nobody sees more than the "
                f"total; {native(self.cost)}"
            )
        return (
            f"{self.budget} at most by any owner; what each one spent and promises is in its own "
            "statement, made by itself, and these statements hold one by one"
        )

    def _split(self) -> str:
        if self.honest is not None:
            return (
                "a person with rows at several owners, who is protected at as many times the mu; "
                f"who took part, and how many records each owner has; {Guarantee._split(self)}"
            )
        return (
            "a person with rows at several owners, who is protected only by the sum of what these "
            f"spent; {Guarantee._split(self)}"
        )

    @property
    def _units_differ(self) -> bool:
        return len({one.protects for one in self.owners}) > 1


def _largest(owners: tuple[Guarantee, ...]) -> Budget:
    """Return the budget that none exceeds, in the notion of all, else as epsilon and delta."""
    rhos = [one.budget.rho for one in owners if one.budget.rho is not None]
    if len(rhos) == len(owners):
        return Budget(rho=max(rhos))
    deltas = [one.budget.delta for one in owners if one.budget.delta is not None]
    delta = max(deltas, default=EXAMPLE_DELTA if rhos else None)
    epsilons = [one.budget.epsilon for one in owners if one.budget.epsilon is not None]
    if delta is not None:
        epsilons += [epsilon_of(one.cost, delta) for one in owners if one.budget.rho is not None]
    return Budget(epsilon=max(epsilons), delta=delta)


def _all_of(budget: Budget) -> Cost:
    """Return the cost of which a budget is all that is known."""
    if budget.rho is not None:
        return ZCDP(budget.rho)
    assert budget.epsilon is not None  # a Budget has rho or epsilon
    return Pure(budget.epsilon) if budget.delta is None else Approx(budget.epsilon, budget.delta)


def _weakest(units: list[Unit]) -> Unit:
    """Return the unit that all owners protect.

    A row is one of its group's, and persons are groups by one id.
    """
    if len(set(units)) == 1:
        return units[0]
    return GROUP if all(unit.owns_many for unit in units) else ROW


def _shared(bounds: list[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the words that every owner uses, and whether some use more."""
    shared = tuple(words for words in bounds[0] if all(words in others for others in bounds))
    if all(set(others) == set(shared) for others in bounds):
        return shared
    return (*shared, _MORE_BOUNDS) if shared else (_OWN_BOUNDS,)


def _recorded(kept: list[bool]) -> str | None:
    if not any(kept):
        return None
    if all(kept):
        return "the ledger of each owner, as its statement says"
    return f"the ledgers of {sum(kept)} of {len(kept)} owners, as their statements say"


def _modelled(count: int, owners: int) -> str:
    if count == owners:
        return "the table of each owner follows the model that it states"
    return (
        f"the tables of {count} of {owners} owners follow the models that these state; those of "
        "the others may be any"
    )
