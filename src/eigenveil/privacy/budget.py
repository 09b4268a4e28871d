"""The privacy a caller asks for, in one of three notions."""

import math
from dataclasses import dataclass

from eigenveil.exceptions import InvalidBudgetError

__all__ = ["Budget"]


def _positive(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidBudgetError(f"{name} must be a number")
    if not (math.isfinite(value) and value > 0):
        raise InvalidBudgetError(f"{name} must be positive and finite")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """``(epsilon, delta)``, ``epsilon`` alone (pure), or ``rho`` (zero-concentrated)."""

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise InvalidBudgetError(
                "give a budget: epsilon and delta, or epsilon alone (pure), or rho alone"
            )
        if self.rho is not None:
            if self.delta is not None:
                raise InvalidBudgetError("rho stands alone: drop delta, or give epsilon and delta")
            _positive("rho", self.rho)
        if self.epsilon is not None:
            _positive("epsilon", self.epsilon)
        if self.delta is not None:
            _positive("delta", self.delta)
            if self.delta >= 1:
                raise InvalidBudgetError("delta must lie between 0 and 1, both excluded")

    @property
    def is_pure(self) -> bool:
        """Whether no failure probability is allowed."""
        return self.epsilon is not None and self.delta is None

    def as_dict(self) -> dict[str, float]:
        """Only the parameters that were given."""
        given = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}
        return {name: float(value) for name, value in given.items() if value is not None}

    def __str__(self) -> str:
        return ", ".join(f"{name} = {value:g}" for name, value in self.as_dict().items())
