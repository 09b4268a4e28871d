"""The privacy a caller asks for, in one of three notions."""

import decimal
import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

from eigenveil.exceptions import InvalidBudgetError

_RANGE = (1e-100, 1e100)  # squares and their roots stay ordinary floats
_LARGE_DELTA, _LARGE_EPSILON = 1e-3, 10.0
_USUAL = {
    "epsilon": "1 is usual, less protects more",
    "delta": "choose well below 1 over the number of rows, such as 1e-6",
    "rho": "0.03 is about epsilon = 1 with delta = 1e-6",
}
_SIX_DIGITS = decimal.Context(prec=6, rounding=decimal.ROUND_CEILING)


def stated(value: float) -> str:
    """Six digits for people, rounded up: no promise sounds better than it is."""
    if not math.isfinite(value):
        return f"{value}"
    return f"{float(_SIX_DIGITS.create_decimal(repr(float(value)))):g}"


def as_float(value: Any) -> float:
    """Return a real number as a float; infinity for a whole number larger than any."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidBudgetError(f"{name} must be a number")
    number = as_float(value)
    if name == "delta" and number == 0:
        raise InvalidBudgetError("delta must be positive: leave it out for a pure guarantee")
    if not (math.isfinite(number) and number > 0):
        raise InvalidBudgetError(f"{name} must be positive and finite: {_USUAL[name]}")
    if not _RANGE[0] <= number <= _RANGE[1]:
        raise InvalidBudgetError(f"{name} must lie between {_RANGE[0]:g} and {_RANGE[1]:g}")
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """``(epsilon, delta)``, ``epsilon`` alone (pure), or ``rho`` (zero-concentrated)."""

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        given = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}
        for name, value in given.items():
            if value is not None:  # numpy scalars become floats
                object.__setattr__(self, name, _positive(name, value))
        if self.rho is not None and (self.epsilon is not None or self.delta is not None):
            raise InvalidBudgetError("give either epsilon (with delta) or rho, not both")
        if self.rho is None and self.epsilon is None:
            raise InvalidBudgetError(
                "give a budget: epsilon with delta, rho, or epsilon alone for a pure guarantee"
            )
        if self.delta is not None and self.delta >= 1:
            raise InvalidBudgetError("delta must lie between 0 and 1, both excluded")

    @property
    def is_pure(self) -> bool:
        """Whether no failure probability is allowed."""
        return self.epsilon is not None and self.delta is None

    def as_dict(self) -> dict[str, float]:
        """Return the parameters that were given."""
        given = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}
        return {name: float(value) for name, value in given.items() if value is not None}

    def weaknesses(self, rows: int | None = None) -> list[str]:
        """Return in words what a budget of this size hardly promises, for so many rows."""
        found = []
        most = _LARGE_DELTA if rows is None else 1 / max(rows, 1)
        if self.delta is not None and self.delta > most:
            found.append(
                f"delta = {self.delta:g}: with that probability nothing is promised; choose well "
                "below 1 over the number of rows"
            )
        if self.epsilon is not None and self.epsilon > _LARGE_EPSILON:
            found.append(
                f"epsilon = {self.epsilon:g}: one person may make an outcome e^{self.epsilon:g} "
                "times as likely; 1 is usual, 10 is a lot"
            )
        return found

    def __str__(self) -> str:
        return ", ".join(f"{name} = {stated(value)}" for name, value in self.as_dict().items())
