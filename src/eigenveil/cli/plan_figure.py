"""The picture of `plan`: predicted errors over a decade of budgets."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from eigenveil.cli.progress import counting
from eigenveil.exceptions import InvalidParameterError
from eigenveil.planning.prediction import Prediction, Recommendation, predict
from eigenveil.planning.reference_rates import Rate, reference
from eigenveil.planning.request import Situation
from eigenveil.privacy.budget import Budget
from eigenveil.report.displays import GREY, PlanDisplay, matplotlib
from eigenveil.text import plural

_STEPS = (10**-0.5, 10**-0.25, 1.0, 10**0.25, 10**0.5)
_MOST_MECHANISMS = 6  # mechanisms
_SIZE, _DPI = (8.2, 4.2), 200  # inches; the names of rates are long
_ROOM_BELOW = 0.7  # below the lowest prediction


def draw(situation: Situation, advice: Recommendation, path: Path) -> None:
    """Write what is predicted for the best mechanisms, and the slope of the papers' rate."""
    drawing = matplotlib("figure").Figure(layout="constrained")
    notion, places = _budgets(situation)
    best = _best(advice)
    # One band is enough to compare lines with; several would hide each other.
    banded = next(iter(best))
    with counting(len(places) * len(best), "predicting") as step:
        tables = [
            [
                _point(label, step(predict(place, name)), banded=label == banded)
                for label, name in best.items()
            ]
            for place in places.values()
        ]
    rates = [rate for place in places.values() for rate in reference(place)[-1:]]
    # The shapes of table that can be planned for have no lower bound of the same form.
    label = {"reference_label": f"slope of {rates[0].source}"} if rates else {}
    shown = PlanDisplay.from_predictions(
        list(places),
        tables,
        against=notion,
        reference=[_privacy(rate, situation) for rate in rates] or None,
        **label,
        ax=drawing.subplots(),
    )
    drawing.set_size_inches(_SIZE)
    ax = shown.ax_
    # The slope may leave the picture; the predictions are what it is about.
    ax.set_ylim(bottom=_ROOM_BELOW * np.nanmin([low for table in tables for _, _, low, _ in table]))
    ax.axvline(list(places)[_STEPS.index(1.0)], color=GREY, linestyle="--", linewidth=1)
    ax.set_ylabel(situation.measure)
    ax.set_title(
        f"{_title(situation)}\nband: 8 of 10 releases by {advice.mechanism}", fontsize="medium"
    )
    try:
        drawing.savefig(path, dpi=_DPI)
    except OSError:
        raise InvalidParameterError(f"cannot write {path}: choose a writable place") from None


def _budgets(situation: Situation) -> tuple[Literal["epsilon", "rho"], dict[float, Situation]]:
    """Return the same situation at each budget; all but the one that was asked for are round
    numbers.
    """
    budget = situation.budget
    notion: Literal["epsilon", "rho"] = "rho" if budget.epsilon is None else "epsilon"
    asked = getattr(budget, notion)
    sizes = [asked if step == 1 else float(f"{asked * step:.2g}") for step in _STEPS]
    return notion, {
        size: replace(situation, budget=Budget(**{**budget.as_dict(), notion: size}))
        for size in sizes
    }


def _best(advice: Recommendation) -> dict[str, str]:
    """Return, by label, the recommended mechanism and those with the smallest errors.

    Those that come to the same are one line.
    """
    lines: dict[tuple[float | None, ...], list[str]] = {}
    for one in (advice.prediction, *advice.predictions):
        names = lines.setdefault((one.error, one.low, one.high), [])
        if one.error is not None and one.mechanism not in names:
            names.append(one.mechanism)
    return {
        ", ".join(names): names[0]
        for names in list(filter(None, lines.values()))[:_MOST_MECHANISMS]
    }


def _point(label: str, one: Prediction, *, banded: bool) -> tuple[str, float, float, float]:
    """Return a point as `PlanDisplay` takes it; NaN where a mechanism cannot serve a budget."""
    if one.error is None or one.low is None or one.high is None:
        return label, math.nan, math.nan, math.nan
    if not banded:
        return label, one.error, one.error, one.error
    return label, one.error, one.low or one.error, one.high


def _privacy(rate: Rate, situation: Situation) -> float:
    """Return what privacy costs: predictions compare with the table itself, which sampling does not
    touch.

    Rates of components are distances of subspaces; lost variance goes with their squares.
    """
    return rate.privacy**2 if situation.task == "pca" else rate.privacy


def _title(situation: Situation) -> str:
    counts = {"row": situation.n, "column": situation.d, "component": situation.k}
    parts = [
        f"{count:,} {plural(noun, count)}" for noun, count in counts.items() if count is not None
    ]
    if situation.budget.delta is not None:
        parts.append(f"delta = {situation.budget.delta:g}")
    return ", ".join(parts)
