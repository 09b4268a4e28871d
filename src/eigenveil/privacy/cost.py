"""What a mechanism spends: frozen values, interpreted by `accounting` alone."""

import math
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from eigenveil.exceptions import InvalidParameterError


def _check(name: str, value: float, upper: float = math.inf) -> None:
    if not (math.isfinite(value) and 0 <= value < upper):
        raise InvalidParameterError(f"the cost parameter {name} is out of range")


@dataclass(frozen=True, slots=True)
class Gaussian:
    """mu-Gaussian differential privacy (Dong, Roth, Su 2022): no easier to tell apart than
    N(0, 1) and N(mu, 1).
    """

    mu: float

    def __post_init__(self) -> None:
        _check("mu", self.mu)


@dataclass(frozen=True, slots=True)
class Pure:
    """(epsilon, 0)-differential privacy."""

    epsilon: float

    def __post_init__(self) -> None:
        _check("epsilon", self.epsilon)


@dataclass(frozen=True, slots=True)
class ZCDP:
    """rho-zero-concentrated differential privacy (Bun, Steinke 2016)."""

    rho: float

    def __post_init__(self) -> None:
        _check("rho", self.rho)


@dataclass(frozen=True, slots=True)
class Approx:
    """(epsilon, delta)-differential privacy and nothing more precise."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        _check("epsilon", self.epsilon)
        _check("delta", self.delta, 1.0)


@dataclass(frozen=True, slots=True)
class Composed:
    """Several costs spent on the same records."""

    parts: tuple["Cost", ...]


Cost: TypeAlias = Gaussian | Pure | ZCDP | Approx | Composed
# What is divided among steps: a mu, whose square is shared, or an epsilon.
Allotment: TypeAlias = Gaussian | Pure

NOTHING = Composed(())  # what a note in a ledger costs

_LEAVES: dict[str, type[Gaussian] | type[Pure] | type[ZCDP] | type[Approx]] = {
    "gaussian": Gaussian,
    "pure": Pure,
    "zcdp": ZCDP,
    "approx": Approx,
}
_NAMES = {leaf: name for name, leaf in _LEAVES.items()}


def cost_to_dict(cost: Cost) -> dict[str, Any]:
    """Return a JSON-ready form; floats survive the round trip to the last bit."""
    if isinstance(cost, Composed):
        return {"kind": "composed", "parts": [cost_to_dict(part) for part in cost.parts]}
    return {"kind": _NAMES[type(cost)], **asdict(cost)}


def cost_from_dict(document: dict[str, Any]) -> Cost:
    """Return the cost of a form that `cost_to_dict` wrote."""
    fields = dict(document)
    kind = fields.pop("kind", None)
    try:
        if kind == "composed":
            return Composed(tuple(cost_from_dict(part) for part in fields["parts"]))
        return _LEAVES[kind](**fields)
    except (KeyError, TypeError):
        raise InvalidParameterError("not a privacy cost this version knows") from None
