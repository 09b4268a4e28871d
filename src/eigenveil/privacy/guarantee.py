"""The promise a release makes, and the sentence that states it to people."""

import math
from dataclasses import dataclass
from enum import StrEnum

from eigenveil.privacy.accounting import native
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.cost import Cost

__all__ = ["Guarantee", "Kind", "Numerics"]


class Kind(StrEnum):
    """For which tables the promise holds."""

    WORST_CASE = "worst-case"
    MODEL_BASED = "model-based"


class Numerics(StrEnum):
    """Whether the promise covers the arithmetic of the computer or only its idealisation."""

    EXACT = "exact"
    IDEALISED = "idealised"


_NEIGHBOURS = {
    Adjacency.REPLACE_ONE: "replaced by any other row (the number of rows is public)",
    Adjacency.ADD_REMOVE: "added or removed (the number of rows is private)",
}
_KINDS = {
    Kind.WORST_CASE: "worst-case: it holds for every table",
    Kind.MODEL_BASED: "model-based: it holds only if the records follow the assumed model",
}
_NUMERICS = {
    Numerics.EXACT: (
        "exact: sums were formed without rounding error and the noise is an ideal law "
        "rounded to a public grid"
    ),
    Numerics.IDEALISED: (
        "idealised: the proof is about real numbers and floating-point effects are not covered"
    ),
}
NOT_PROTECTED = (
    "what the whole table shows about a population, several rows of one person taken together, "
    "the public settings of the release, how long it took, and anything computed from records "
    "afterwards, such as the scores returned by transform"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """Everything a privacy officer needs to sign; fields are public."""

    budget: Budget
    cost: Cost
    adjacency: Adjacency
    bounds: tuple[str, ...]
    kind: Kind = Kind.WORST_CASE
    numerics: Numerics = Numerics.EXACT
    simulated: bool = False
    ledger: str | None = None

    @property
    def unit(self) -> str:
        """Who or what is protected."""
        return "one row"

    def _strength(self) -> str:
        budget = self.budget
        if budget.rho is not None:
            return f"rho = {budget.rho:g} (zero-concentrated differential privacy)"
        assert budget.epsilon is not None  # a Budget has rho or epsilon
        factor = f"{math.exp(budget.epsilon):.3g}" if budget.epsilon < 20 else "e^epsilon"
        more_likely = f"no outcome becomes more likely by more than a factor of {factor}"
        if budget.delta is None:
            return f"epsilon = {budget.epsilon:g}: {more_likely}"
        return (
            f"epsilon = {budget.epsilon:g}, delta = {budget.delta:g}: {more_likely}, up to a "
            f"probability of {budget.delta:g}"
        )

    def sentence(self) -> str:
        """The promise in plain words, the same wherever it is shown."""
        claim = (
            f"Protected is {self.unit} of the table, {_NEIGHBOURS[self.adjacency]}, at "
            f"{self._strength()}; spent: {native(self.cost)}. "
            f"The guarantee is {_KINDS[self.kind]}. "
            f"Numerics are {_NUMERICS[self.numerics]}. "
            f"Bounds: {'; '.join(self.bounds)}. "
            f"Charged to {self.ledger or 'no ledger: keep track of repeated releases yourself'}. "
            f"Not protected: {NOT_PROTECTED}."
        )
        if self.simulated:
            return (
                "Simulation, not private: the noise came from a seed and can be removed. "
                f"With the operating system's randomness it would be: {claim}"
            )
        return claim
