"""The promise a release makes, and the sentence that states it to people."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from eigenveil.exceptions import InvalidParameterError
from eigenveil.privacy.accounting import delta_of, epsilon_of, fits, native
from eigenveil.privacy.adjacency import GROUP, ROW, Adjacency, Unit
from eigenveil.privacy.budget import Budget, stated
from eigenveil.privacy.collusion import Honest
from eigenveil.privacy.cost import Cost, cost_from_dict, cost_to_dict
from eigenveil.text import plural


class Kind(StrEnum):
    """The tables for which a promise holds."""

    WORST_CASE = "worst-case"
    MODEL_BASED = "model-based"


class Numerics(StrEnum):
    """Whether the promise covers the arithmetic of the computer or only its idealisation."""

    EXACT = "exact"
    IDEALISED = "idealised"


_NEIGHBOURS = {
    Adjacency.REPLACE_ONE: "replacing it by any other row",
    Adjacency.ADD_REMOVE: "adding or removing it",
}
_WHERE_IT_ARRIVED = "replacing it by any other row that arrives in its place"
_IN_THE_SAME_ARRIVALS = (
    "replacing them by any other rows of one {unit} that comes in the same arrivals"
)
_OF_THE_MODEL = "replacing it by another row of the model"
_SHARED_NEIGHBOURS = {
    Adjacency.REPLACE_ONE: "replacing them by any other rows of one {unit}, at least one row,",
    Adjacency.ADD_REMOVE: "adding or removing them all",
}
_ROWS_OF_EACH = {
    Adjacency.REPLACE_ONE: "how many rows each has is not",
    Adjacency.ADD_REMOVE: "and so is how many rows each has",
}
_COUNT = {
    Adjacency.REPLACE_ONE: "the number of {unit}s is public",
    Adjacency.ADD_REMOVE: "the number of {unit}s is private",
}
_KINDS = {
    Kind.WORST_CASE: "every table, whatever an attacker knows (worst-case)",
    Kind.MODEL_BASED: "tables that follow the model stated first, and no others (model-based)",
}
_BOUNDED_ATTACKER = (
    "every table, against the server, the public and owners who share what they know, whatever "
    "they know, as far as computers can break codes (worst-case)"
)
_NUMERICS = {
    Numerics.EXACT: (
        "the computer's rounding is covered (exact numerics: sums without rounding error, noise "
        "of the ideal law rounded to a public grid)"
    ),
    Numerics.IDEALISED: (
        "the computer's rounding is not covered (idealised numerics: the proof is about real "
        "numbers)"
    ),
}
_NOT_PROTECTED = (
    "what the whole table shows about a population; the settings of the release and how long it "
    "took; whether a run was refused because of its rows, such as a bad one; anything learnt from "
    "the records before this step, such as a scaling, or computed from them afterwards, such as "
    "scores"
)
SIMULATION = (
    "Simulation, not private: the noise came from a seed and can be removed. With the operating "
    "system's randomness the promise would be as follows."
)
_UNITS = {"one row": ROW, "all rows of one group": GROUP}
_PLAIN = 1e-6  # an epsilon below which e^epsilon has too many zeros to be read
MOST_ARRIVALS = 1000  # of one person, that can be stated
EXAMPLE_DELTA = 1e-6  # at which a rho is also stated as an epsilon


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
    assumption: str | None = None  # of a model-based promise
    protects: Unit = ROW
    arrival: bool = False  # rows were used in the order in which they came
    arrivals: int | None = None  # the most of which rows of one person are used, if persons arrive
    honest: Honest | None = None  # of a promise that counts on other owners
    merged_ids: bool = True  # 7 and 007 are one person; not so in earlier releases

    def __post_init__(self) -> None:
        if not fits(self.cost, self.budget):
            raise InvalidParameterError("a guarantee cannot promise less than what was spent")
        if (self.kind is Kind.MODEL_BASED) != (self.assumption is not None):
            raise InvalidParameterError("a model-based guarantee states its model, no other does")
        if self.arrival and not self.adjacency.count_is_public:
            raise InvalidParameterError("places of arrival are those of rows that stay")
        if (self.arrivals is not None) != (self.arrival and self.protects.owns_many):
            raise InvalidParameterError("persons who arrive do so a stated number of times")
        if self.arrivals is not None and (
            type(self.arrivals) is not int or not 1 <= self.arrivals <= MOST_ARRIVALS
        ):
            raise InvalidParameterError("a person arrives once or more")
        if self.honest is not None and self.budget.delta is None:
            raise InvalidParameterError("secure sums promise epsilon and delta")

    @property
    def unit(self) -> str:
        """What is protected, in words."""
        return f"all rows of one {self.protects.name}" if self.protects.owns_many else "one row"

    def statements(self) -> tuple[tuple[str, str], ...]:
        """Return the promise as labelled clauses; `sentence` strings them together word for word.

        A promise that holds for some tables only says so first.
        """
        model = () if self.assumption is None else (("Only if", self._model()),)
        return (
            *model,
            *self._counted_on(),
            (
                "Protected",
                f"{self._protected()} makes no outcome more likely by more than "
                f"{self._strength()}; {self._count()}",
            ),
            ("Spent", self._spent()),
            ("Holds for", f"{self._tables()}; {_NUMERICS[self.numerics]}"),
            ("Bounds, enforced", "; ".join(self.bounds)),
            (
                "Recorded in",
                self.ledger or "no ledger: keep count of releases from this table yourself",
            ),
            ("Not protected", f"{self._split()}; {self._places()}{_NOT_PROTECTED}"),
        )

    def lines(self) -> tuple[str, ...]:
        """Return the promise in plain words, one clause a line."""
        warning = (SIMULATION,) if self.simulated else ()
        return (*warning, *(f"{label}: {text}." for label, text in self.statements()))

    def sentence(self) -> str:
        """Return the promise in plain words, the same wherever it is shown."""
        return " ".join(self.lines())

    def odds(self) -> str:
        """Say what the promise means for somebody who guesses (docs/proofs/accounting.md)."""
        several, name = self.protects.owns_many, self.protects.name
        one = f"the rows of one {name}" if several else "one row"
        were = "were" if several else "was"
        if self.adjacency is Adjacency.REPLACE_ONE:
            question = f"{one} or {'of ' * several}another {were} used"
        else:
            question = f"{one} {were} in the table"
        start = "A" if self.assumption is None else "If the model holds, a"
        return f"{start} 50 % guess whether {question} becomes at most {_up(self._best_guess())}"

    def _best_guess(self) -> float:
        """Return the largest probability of a right guess at even odds.

        It is (e^epsilon + delta)/(e^epsilon + 1).

        A test of one table against a neighbour that is right with probabilities p and q has
        p <= e^eps (1 - q) + delta and q <= e^eps (1 - p) + delta: their mean is at most that.
        """
        if delta_of(self.cost, 0.0) == 0.0:
            return 0.5
        epsilon, delta = self.budget.epsilon, self.budget.delta or 0.0
        if epsilon is None:
            epsilon, delta = epsilon_of(self.cost, EXAMPLE_DELTA), EXAMPLE_DELTA
        odds = math.exp(-epsilon)
        return min(1.0, (1 + delta * odds) / (1 + odds))

    def _counted_on(self) -> tuple[tuple[str, str], ...]:
        """Return what a promise needs of other owners, and what is left of it without them."""
        if self.honest is None:
            return ()
        assert self.budget.delta is not None  # as __post_init__ requires
        left = self.honest.otherwise(self.budget.delta)
        return (
            ("Only if", self.honest.condition()),
            ("With fewer honest owners", f"{left}; the last is also what is left if codes break"),
        )

    def _tables(self) -> str:
        return _KINDS[self.kind] if self.honest is None else _BOUNDED_ATTACKER

    def _model(self) -> str:
        return f"{self.assumption}; other tables are promised nothing"

    def _protected(self) -> str:
        if self.kind is Kind.MODEL_BASED:
            return f"{self.unit} of such a table; {_OF_THE_MODEL}"
        if not self.protects.owns_many:
            neighbours = _WHERE_IT_ARRIVED if self.arrival else _NEIGHBOURS[self.adjacency]
            return f"{self.unit}, whichever it is; {neighbours}"
        neighbours = _SHARED_NEIGHBOURS[self.adjacency]
        used = ""
        if self.arrivals is not None:
            neighbours = _IN_THE_SAME_ARRIVALS
            used = f", used in at most {self._arrivals()}"
        neighbours = neighbours.format(unit=self.protects.name)
        return f"{self.unit} (rows that share {self._id()}){used}, whichever it is; {neighbours}"

    def _spent(self) -> str:
        return f"{self.budget} at most, made of {native(self.cost)}"

    def _id(self) -> str:
        column = self.protects.column
        said = "an id" if column is None else f"a value of {column!r}"
        return f"{said}, where 7, 007 and 7.0 are the same" if self.merged_ids else said

    def _count(self) -> str:
        count = _COUNT[self.adjacency].format(unit=self.protects.name)
        if not self.protects.owns_many:
            return count
        where = "" if self.arrivals is None else " in each arrival"
        return f"{count.replace(' is ', f'{where} is ')}, {_ROWS_OF_EACH[self.adjacency]}"

    def _arrivals(self) -> str:
        return f"{self.arrivals} {plural('arrival', self.arrivals or 0)}"

    def _split(self) -> str:
        """Whom the unit does not cover."""
        if not self.protects.owns_many:
            return "several rows of one person taken together"
        column = self.protects.column
        several = "several ids" if column is None else f"several values of {column!r}"
        return f"a person whose rows have {several}, of which each is protected alone"

    def _places(self) -> str:
        if self.arrivals is not None:
            return f"in which arrivals a {self.protects.name} came, and how many in all; "
        return "when a record arrived, and so its place among the others; " if self.arrival else ""

    def _strength(self) -> str:
        if delta_of(self.cost, 0.0) == 0.0:
            return "a factor of 1 (nothing is spent)"
        budget = self.budget
        if budget.rho is not None:
            epsilon = epsilon_of(self.cost, EXAMPLE_DELTA)
            return (
                f"{_factor(epsilon)}, up to a probability of {EXAMPLE_DELTA:g} (rho = "
                f"{stated(budget.rho)}, zero-concentrated differential privacy)"
            )
        assert budget.epsilon is not None  # a Budget has rho or epsilon
        if budget.delta is None:
            return f"{_factor(budget.epsilon)} (epsilon = {stated(budget.epsilon)})"
        return (
            f"{_factor(budget.epsilon)}, up to a probability of {stated(budget.delta)} "
            f"(epsilon = {stated(budget.epsilon)}, delta = {stated(budget.delta)})"
        )


def _factor(epsilon: float) -> str:
    """e^epsilon, rounded up to three digits of what it adds to 1."""
    if not _PLAIN <= epsilon < 20:
        return f"e^{stated(epsilon)}"
    places = 2 - math.floor(math.log10(math.expm1(epsilon)))
    rounded = math.ceil(math.exp(epsilon) * 10**places) / 10**places
    return f"a factor of {rounded:.{max(places, 0)}f}"


def _up(probability: float) -> str:
    """Return a probability in percent, rounded up to two digits of what it is short of 100."""
    short = 100 * (1 - probability)
    if short <= _PLAIN:
        return "100 %"
    places = max(1, 1 - math.floor(math.log10(short)))
    rounded = math.ceil(100 * probability * 10**places - _PLAIN) / 10**places
    return f"{rounded:.{places}f}".removesuffix(".0") + " %"


def guarantee_to_dict(guarantee: Guarantee) -> dict[str, Any]:
    """Return a JSON-ready form of the fields, without the sentence that follows from them."""
    column = guarantee.protects.column
    return {
        "unit": guarantee.unit,
        "adjacency": guarantee.adjacency.value,
        "budget": guarantee.budget.as_dict(),
        "cost": cost_to_dict(guarantee.cost),
        "kind": guarantee.kind.value,
        "numerics": guarantee.numerics.value,
        "simulated": guarantee.simulated,
        "bounds": list(guarantee.bounds),
        "ledger": guarantee.ledger,
        "assumption": guarantee.assumption,
        **({"unit_column": column} if column is not None else {}),
        **({"arrival": True} if guarantee.arrival else {}),
        **({} if guarantee.arrivals is None else {"arrivals": guarantee.arrivals}),
        **({} if guarantee.honest is None else {"honest": guarantee.honest.as_dict()}),
        **({"merged_ids": True} if guarantee.protects.owns_many and guarantee.merged_ids else {}),
    }


def guarantee_from_dict(document: dict[str, Any]) -> Guarantee:
    """Return the inverse of `guarantee_to_dict`, of it alone: a form from elsewhere may hold
    anything.
    """
    try:
        column = document.get("unit_column")
        protects = _UNITS[document["unit"]] if column is None else Unit("person", column)
        found = Guarantee(
            budget=Budget(**document["budget"]),
            cost=cost_from_dict(document["cost"]),
            adjacency=Adjacency(document["adjacency"]),
            bounds=tuple(document["bounds"]),
            kind=Kind(document["kind"]),
            numerics=Numerics(document["numerics"]),
            simulated=document["simulated"],
            ledger=document["ledger"],
            assumption=document["assumption"],
            protects=protects,
            arrival=document.get("arrival", False),
            arrivals=document.get("arrivals"),
            honest=Honest.from_dict(document["honest"]) if "honest" in document else None,
            merged_ids=document.get("merged_ids", not protects.owns_many),
        )
        optional = (found.ledger, found.assumption, column)
        words = (*found.bounds, *(text for text in optional if text is not None))
        plain = all(isinstance(text, str) for text in words) and isinstance(found.simulated, bool)
        if plain and guarantee_to_dict(found) == document:
            return found
    # InvalidParameterError is the usual one.
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        pass
    raise InvalidParameterError("not a guarantee that this version can state")
