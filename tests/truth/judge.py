"""Whether what a release states is true of the table as the release saw it.

That table is the rows about the released centre, divided by the released scales and pulled in to
the released limits; a missing cell takes part in no pair. What lies beyond the limits is not
judged, as a release states nothing about it.

`judged` compares a fitted covariance with its table: for each claim the share of statements that
hold. `judged_components` does so for components. A cell is all fits of one table at one budget; a
claim fails there if the mean of its shares is below the required share by more than chance
explains.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from benchmarks.seen import Limits, Truth

__all__ = [
    "ABOVE_FLOOR",
    "CAPTURED",
    "CLEAR",
    "GROWTH",
    "NOT_THE_CENTRE",
    "RELEASED",
    "REPRODUCIBLE",
    "error_in_deviations",
    "failures",
    "growth",
    "judged",
    "share_of",
]

RELEASED = "a charged fit ends in a finite release"
GROWTH = "error does not grow with epsilon"
CLEAR = "clear components are those of the table"
NOT_THE_CENTRE = "clear components are not the error of the centre"
REPRODUCIBLE = "components are as reproducible as stated"
CAPTURED = "components hold what is stated"
ABOVE_FLOOR = "eigenvalues above the floor are those of the table"
REQUIRED = {  # share of the statements of a claim that hold
    RELEASED: 1.0,
    "means": 0.85,
    "variances": 0.88,
    "correlations within 2 deviations": 0.88,
    "correlations within 5 deviations": 0.99,
    "intervals of means": 0.88,
    "intervals of variances": 0.88,
    "intervals of correlations": 0.88,
    "intervals of eigenvalues": 0.88,
    GROWTH: 1.0,
    CLEAR: 0.97,
    NOT_THE_CENTRE: 0.97,
    ABOVE_FLOOR: 0.97,
    REPRODUCIBLE: 0.95,
    CAPTURED: 0.88,
}
STANDARD_ERRORS = 2.5  # of a mean share, that it may be below the required one by chance
NEGLIGIBLE_SPREAD = 0.02  # error of a mean that hardly counts, in standard deviations of its column
ROUNDING = 1e-9
LARGEST_GROWTH = 1.25  # of the median error, from a smaller to a larger epsilon


def judged(fitted: Any, rows: np.ndarray, intervals: Any = None) -> dict[str, float]:
    """Return the share of true statements of each claim that is made."""
    if not np.isfinite(fitted.covariance_).all():
        return {RELEASED: 0.0}
    truth = Truth.of(rows, Limits.of(fitted))
    scale = np.where(np.isfinite(fitted.scale_), fitted.scale_, np.nan)  # a column left out
    pairs = np.triu_indices(rows.shape[1], 1)
    mean_noise = np.maximum(2 * fitted.location_noise_, NEGLIGIBLE_SPREAD * truth.deviations)
    variance_noise = np.where(np.isnan(scale), np.nan, fitted.covariance_noise_.diagonal())
    correlation_noise = fitted.correlation_noise_[pairs]
    wrong = (fitted.correlation_ - truth.correlation)[pairs]
    shares = {
        "means": _within(fitted.location_ - truth.mean, mean_noise),
        "variances": _within(
            (fitted.covariance_ - truth.covariance).diagonal(), 2 * variance_noise
        ),
        "correlations within 2 deviations": _within(wrong, 2 * correlation_noise),
        "correlations within 5 deviations": _within(wrong, 5 * correlation_noise),
    }
    if intervals is not None:
        shares |= _of_intervals(intervals, truth, pairs)
    made = {claim: share for claim, share in shares.items() if not math.isnan(share)}
    return {RELEASED: 1.0} | made


def error_in_deviations(covariance: np.ndarray, rows: np.ndarray) -> float:
    """Return the error about the whole table, nothing pulled in; the zero matrix has 1.

    Limits grow with epsilon: errors about what releases saw could not be compared.
    """
    columns = rows.shape[1]
    truth = Truth.of(rows, Limits(np.full(columns, np.nan), np.ones(columns)))
    deviations = np.where(truth.deviations > 0, truth.deviations, np.inf)  # not of constants
    units = np.outer(deviations, deviations)
    error = np.linalg.norm((covariance - truth.covariance) / units)
    return float(error / np.linalg.norm(truth.covariance / units))


def _of_intervals(intervals: Any, truth: Truth, pairs: Any) -> dict[str, float]:
    """Return the share of intervals that hold the truth, for each kind that is stated."""
    eigenvalues = np.linalg.eigvalsh(truth.covariance)[::-1]
    stated = {
        "means": (intervals.means, truth.mean),
        "variances": (intervals.variances, truth.covariance.diagonal()),
        "correlations": (intervals.correlations, truth.correlation),
        "eigenvalues": (intervals.eigenvalues, eigenvalues),
    }
    shares = {}
    for name, (ends, true) in stated.items():
        if ends is None:
            continue
        if name == "correlations":
            ends, true = ends[pairs], true[pairs]
        low, high = ends[..., 0], ends[..., 1]
        holds = (low <= true) & (true <= high)
        shares[f"intervals of {name}"] = share_of(holds, ~np.isnan(low + true))
    return shares


def _within(wrong: np.ndarray, most: np.ndarray) -> float:
    """Return the share of errors within what is stated of them."""
    return share_of(np.abs(wrong) <= most * (1 + ROUNDING), ~np.isnan(wrong + most))


def share_of(holds: np.ndarray, made: np.ndarray) -> float:
    """Return the share of the statements made that hold; NaN where none is made."""
    return float(holds[made].mean()) if made.any() else math.nan


def failures(shares: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the claims that fail in a cell, with the mean of their shares."""
    failing = {}
    for claim, required in REQUIRED.items():
        each = [one[claim] for one in shares if claim in one]
        if not each:
            continue
        chance = 0.0
        if len(each) > 1 and required < 1:
            chance = STANDARD_ERRORS * float(np.std(each, ddof=1)) / math.sqrt(len(each))
        mean = float(np.mean(each))
        if mean + chance < required:
            failing[claim] = mean
    return failing


def growth(smaller: Sequence[float], larger: Sequence[float]) -> dict[str, float]:
    """Return the claim that errors of a larger epsilon are no larger, as a share of its limit."""
    before, after = float(np.median(smaller)), float(np.median(larger))
    return {GROWTH: min(1.0, LARGEST_GROWTH * before / after) if after > 0 else 1.0}
