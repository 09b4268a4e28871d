"""The number of rows, or the budget, that would do where public numbers rule a release out.

Both are searched for by the check that refused: what is named is accepted.
"""

from collections.abc import Callable
from dataclasses import replace

from eigenveil.privacy.budget import Budget
from eigenveil.text import rounded_up

_USUAL_DELTA, _WITH_DELTA = 1e-6, "delta = 1e-6"
_MOST_ROWS, _LARGEST_BUDGET = 1 << 40, 1e4  # more would help nobody
_CLOSE = 1e-3  # relative distance from the least budget at which a search ends

Accepts = Callable[[int, Budget], bool]


def what_would_do(accepts: Accepts, rows: int, budget: Budget, noun: str) -> str:
    """Return in words what would do; empty where nothing is found.

    Parameters
    ----------
    accepts : callable
        Whether a number of rows and a budget would do: more of either does no harm.
    rows, budget
        Those that do not.
    noun : str
        What is counted: rows, or groups of them.

    """

    def enough(budget: Budget) -> float | None:
        return _least(lambda n: accepts(round(n), budget), rows, _MOST_ROWS, whole=True)

    more, told = enough(budget), []
    if more:
        told.append(f"about {more:,.0f} {noun}s would do")
    name = "rho" if budget.epsilon is None else "epsilon"
    larger = _least(
        lambda size: accepts(rows, replace(budget, **{name: size})),
        getattr(budget, name),
        _LARGEST_BUDGET,
    )
    these = [f"{name} = {larger:g}"] if larger else []
    if budget.is_pure:
        relaxed = replace(budget, delta=_USUAL_DELTA)
        fewer = None
        if accepts(rows, relaxed):
            these.append(_WITH_DELTA)
        elif more:
            fewer = enough(relaxed)
        if fewer and more and fewer < more:
            told[0] += f", about {fewer:,.0f} with {_WITH_DELTA}"
    if these:
        told.append(" or ".join(these) + (" for these" if told else " would do"))
    return ", or ".join(told)


def _least(
    accepted: Callable[[float], bool], refused: float, most: float, *, whole: bool = False
) -> float | None:
    """Return about the least number that is accepted, with three digits; None beyond ``most``."""
    low = high = max(refused, 1.0) if whole else refused
    while not accepted(high):
        low, high = high, 2 * high
        if high > most:
            return None
    while high - low > (1.0 if whole else _CLOSE * low):
        middle = (low + high) / 2
        middle = float(round(middle)) if whole else middle
        low, high = (low, middle) if accepted(middle) else (middle, high)
    rounded = rounded_up(high)
    return rounded if accepted(rounded) else high
