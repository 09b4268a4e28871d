"""Which mechanism ``mechanism="auto"`` uses: a rule of public numbers, quick enough for every fit."""

from dataclasses import dataclass
from functools import lru_cache

from eigenveil.planner.situation import Situation

__all__ = ["Choice", "choose"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A mechanism, and why: one sentence of public numbers, for the release."""

    mechanism: str
    reason: str


@lru_cache(maxsize=1024)
def choose(situation: Situation) -> Choice:
    """The mechanism for a situation; never one that assumes a model of the data."""
    if situation.task == "pca":
        name = ("wishart" if situation.budget.is_pure else ("analyze-gauss" if situation.row_norm else "tangent"))
    else:
        name = "wishart" if situation.budget.is_pure else "adaptive-cleaned"
    return Choice(mechanism=name, reason="x")
