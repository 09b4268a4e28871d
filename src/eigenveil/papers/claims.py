"""What papers say about their figures, and whether runs agree.

All methods of a run see the same records, so runs are compared in pairs. A cell contradicts "A is
below B" if the mean difference points the other way by more than two standard errors. The claim
holds if no cell contradicts it and the geometric mean of the ratios agrees; where a paper speaks of
some cells only, the check is told which.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from eigenveil.papers.figure import Figure, Panel, Scale, Settings

_ERRORS = 2.0  # standard errors that contradict
SIMILAR = 1.5  # "similar", "comparable", "nearly identical": within this factor, both ways
Where = Callable[[Settings], bool]


@dataclass(frozen=True)
class Results:
    """Runs of a figure: for every panel and cell, values by method, one for each run."""

    figure: Figure
    scale: Scale
    values: Mapping[tuple[str, int], Mapping[str, NDArray[np.float64]]]

    def cells(
        self, panel: str | None = None, where: Where | None = None
    ) -> list[tuple[Panel, Settings, Mapping[str, NDArray[np.float64]]]]:
        """Return the cells of a panel, or of all, with their runs."""
        return [
            (one, settings, self.values[one.name, i])
            for one in self.figure.panels
            if panel in (None, one.name)
            for i, settings in enumerate(one.cells(self.scale))
            if where is None or where(settings)
        ]

    def mean(self, runs: Mapping[str, NDArray[np.float64]], method: str) -> float:
        """Return the mean over the runs in which a method answered; NaN where it never did."""
        found = runs[method][np.isfinite(runs[method])]
        return float(found.mean()) if found.size else math.nan


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds, and the numbers; None where no cell allows a judgement."""

    holds: bool | None
    numbers: str


Check = Callable[[Results, str], Verdict]


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper, and how it is judged.

    ``subjects`` maps a reading ("as printed", "ours", ...) to the method that it is judged for.
    """

    text: str
    check: Check
    subjects: Mapping[str, str]

    def verdicts(self, results: Results) -> dict[str, Verdict]:
        """Return a verdict for every reading."""
        return {reading: self.check(results, name) for reading, name in self.subjects.items()}


def below(
    *rivals: str, panel: str | None = None, where: Where | None = None, factor: float = 1.0
) -> Check:
    """Judge that the subject is below ``factor`` times each rival."""

    def check(results: Results, subject: str) -> Verdict:
        pairs = _answered(results, subject, rivals, panel, where)
        if not pairs:
            return Verdict(None, "no cell in which both answered")
        ratios = [one.mean() / (factor * other.mean()) for one, other in pairs]
        against = sum(_exceeds(one - factor * other) for one, other in pairs)
        middle = math.exp(float(np.mean(np.log(ratios))))
        times = "" if factor == 1 else f"{factor:g} times "
        return Verdict(
            against == 0 and middle < 1,
            f"{min(ratios):.2f} to {max(ratios):.2f} of {times}{' and '.join(rivals)}, geometric "
            f"mean {middle:.2f}; contradicted in {against} of {len(ratios)} comparisons",
        )

    return check


def above(*rivals: str, panel: str | None = None, where: Where | None = None) -> Check:
    """Judge that the subject is above each rival."""

    def check(results: Results, subject: str) -> Verdict:
        pairs = _answered(results, subject, rivals, panel, where)
        if not pairs:
            return Verdict(None, "no cell in which both answered")
        ratios = [one.mean() / other.mean() for one, other in pairs]
        against = sum(_exceeds(other - one) for one, other in pairs)
        middle = math.exp(float(np.mean(np.log(ratios))))
        return Verdict(
            against == 0 and middle > 1,
            f"{min(ratios):.2f} to {max(ratios):.2f} times {' and '.join(rivals)}, geometric mean "
            f"{middle:.2f}; contradicted in {against} of {len(ratios)} comparisons",
        )

    return check


def near(rival: str, within: float, panel: str | None = None, where: Where | None = None) -> Check:
    """Judge that the subject is within a factor of a rival, both ways, in every cell."""

    def check(results: Results, subject: str) -> Verdict:
        pairs = _answered(results, subject, (rival,), panel, where)
        ratios = [one.mean() / other.mean() for one, other in pairs]
        if not ratios:
            return Verdict(None, "no cell in which both answered")
        return Verdict(
            1 / within <= min(ratios) and max(ratios) <= within,
            f"{min(ratios):.2f} to {max(ratios):.2f} of {rival} (asked: within a factor "
            f"{within:g})",
        )

    return check


def best_of(*rivals: str, within: float, panel: str | None = None) -> Check:
    """Judge that the subject is within a factor of the best rival in every cell."""

    def check(results: Results, subject: str) -> Verdict:
        ratios = []
        for _, _, runs in results.cells(panel):
            best = min(results.mean(runs, rival) for rival in rivals)
            ratios.append(results.mean(runs, subject) / best)
        inside = sum(ratio <= within for ratio in ratios)
        return Verdict(
            inside == len(ratios),
            f"{min(ratios):.2f} to {max(ratios):.2f} of the best of {' and '.join(rivals)}; within "
            f"{within:g} in {inside} of {len(ratios)} cells",
        )

    return check


def often_below(*rivals: str, share: float, panel: str | None = None) -> Check:
    """Judge that the subject is below all rivals in a share of the cells at least."""

    def check(results: Results, subject: str) -> Verdict:
        cells = results.cells(panel)
        won = sum(
            results.mean(runs, subject) < min(results.mean(runs, rival) for rival in rivals)
            for _, _, runs in cells
        )
        return Verdict(won >= share * len(cells), f"in {won} of {len(cells)} cells")

    return check


def gains(rival: str, panel: str, *, along: int) -> Check:
    """Judge that subject over rival falls along the axis (``along=1``), or rises (-1)."""

    def check(results: Results, subject: str) -> Verdict:
        pairs = [_pairs(runs, subject, rival) for _, _, runs in results.cells(panel)]
        ratios = [np.log(one / other) for one, other in pairs if one.size]
        shown = ", ".join(f"{math.exp(one.mean()):.2f}" for one in ratios)
        return Verdict(_trend(ratios, -along), f"{subject} over {rival}: {shown}")

    return check


def every(*checks: Check) -> Check:
    """Judge that several things hold together."""

    def check(results: Results, subject: str) -> Verdict:
        found = [one(results, subject) for one in checks]
        return Verdict(all(one.holds for one in found), "; ".join(one.numbers for one in found))

    return check


def falls(panel: str | None = None, where: Where | None = None, least: float = 1.0) -> Check:
    """Judge that the subject falls along the axis, by ``least`` from end to end."""

    def check(results: Results, subject: str) -> Verdict:
        return _monotone(results, subject, panel, where, least, -1)

    return check


def rises(panel: str | None = None, where: Where | None = None, least: float = 1.0) -> Check:
    """Judge that the subject rises along the axis, by ``least`` from end to end."""

    def check(results: Results, subject: str) -> Verdict:
        return _monotone(results, subject, panel, where, least, 1)

    return check


def steady(within: float, panel: str | None = None) -> Check:
    """Judge that the subject varies by no more than a factor along the axis."""

    def check(results: Results, subject: str) -> Verdict:
        means = [results.mean(runs, subject) for _, _, runs in results.cells(panel)]
        return Verdict(
            max(means) <= within * min(means), ", ".join(f"{mean:.3g}" for mean in means)
        )

    return check


def at_most(most: float, panel: str | None = None) -> Check:
    """Judge that the subject stays at or below a number."""

    def check(results: Results, subject: str) -> Verdict:
        means = [results.mean(runs, subject) for _, _, runs in results.cells(panel)]
        shown = ", ".join(f"{mean:.3g}" for mean in means)
        return Verdict(max(means) <= most, f"{shown} (asked: at most {most:g})")

    return check


def _monotone(
    results: Results, subject: str, panel: str | None, where: Where | None, least: float, sign: int
) -> Verdict:
    holds, shown = True, []
    for one in results.figure.panels:
        if panel not in (None, one.name):
            continue
        runs = [found[subject] for _, _, found in results.cells(one.name, where)]
        runs = [found[np.isfinite(found)] for found in runs]
        runs = [found for found in runs if found.size]
        if len(runs) < 2:
            continue
        means = [float(found.mean()) for found in runs]
        ends = (means[-1] / means[0]) ** sign
        # Errors of runs differ by factors: one that is far off must not hide what all others show.
        holds = holds and _trend([np.log(found) for found in runs], sign) and ends > least
        shown.append(f"{one.name}: " + ", ".join(f"{mean:.3g}" for mean in means))
    if not shown:
        return Verdict(None, "no two cells in which it answered")
    return Verdict(holds, "; ".join(shown))


def _trend(runs: Sequence[NDArray[np.float64]], sign: int) -> bool:
    """Return whether means go up (1) or down (-1), clearly so and with no step against it."""

    def step(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
        """Return how far a step goes the right way, in standard errors."""
        error = math.hypot(*map(_standard_error, (one, other)))
        return float(sign * (other.mean() - one.mean()) / max(error, 1e-300))

    if len(runs) < 2:
        return False
    return step(runs[0], runs[-1]) > _ERRORS and all(
        step(one, other) > -_ERRORS for one, other in pairwise(runs)
    )


def _answered(
    results: Results,
    subject: str,
    rivals: Sequence[str],
    panel: str | None,
    where: Where | None,
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return the pairs of values of each cell and rival in which both answered."""
    pairs = (
        _pairs(runs, subject, rival)
        for _, _, runs in results.cells(panel, where)
        for rival in rivals
    )
    return [(one, other) for one, other in pairs if one.size]


def _pairs(
    runs: Mapping[str, NDArray[np.float64]], one: str, other: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the values of two methods in the runs in which both answered."""
    both = np.isfinite(runs[one]) & np.isfinite(runs[other])
    return runs[one][both], runs[other][both]


def _exceeds(difference: NDArray[np.float64]) -> bool:
    return bool(difference.mean() > _ERRORS * _standard_error(difference))


def _standard_error(values: NDArray[np.float64]) -> float:
    return float(values.std(ddof=1) / math.sqrt(values.size)) if values.size > 1 else 0.0
