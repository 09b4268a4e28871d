r"""Which mechanism ``mechanism="auto"`` uses: rules of public numbers, quick enough for every fit.

Each rule was decided by measurement (`benchmarks/bench_auto.py`), which also shows what it costs
where the data are not as they usually are. To first order noise of scale s on the second moment of
rows in the unit ball loses

.. math:: L = \sum_{i \le k < j} (\lambda_i - \lambda_j)
          \min\Bigl(\tfrac12, \frac{s^2}{2(\lambda_i - \lambda_j)^2}\Bigr)
          \Big/ \sum_{i \le k} \lambda_i

of the variance within reach.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from eigenveil.exact.gram import moment_sensitivities
from eigenveil.exact.products import can_keep
from eigenveil.mechanisms.distances import searchable
from eigenveil.mechanisms.registry import Mechanism, entry, wide
from eigenveil.planning.assumed import AssumedTable
from eigenveil.planning.plans import Plan, free_centring, plan
from eigenveil.planning.request import Request, Situation
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import whole_strength
from eigenveil.privacy.cost import Gaussian, Pure
from eigenveil.text import plural

_CAP = 256  # directions that a loss is summed over
_TARGET = 0.005  # of the variance that unit rows miss even without noise, as real tables go
_REACH = 2.0  # of rows that are clipped privately, in units of their typical length
_GUESS = 1000  # rows, where their number is private: fewer would have few directions to tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A mechanism, and why: one sentence of public numbers, for the release."""

    mechanism: str
    reason: str
    private_radius: bool = False  # whether rows are clipped where nothing is stated
    private_scale: bool = False  # whether columns are scaled where nothing is stated
    numbers: str = ""  # the part of the reason that a prediction has better ones for

    @property
    def rule(self) -> str:
        """The reason without numbers to first order, for whoever shows predictions."""
        return self.reason.removesuffix(self.numbers)


def chosen(request: Request) -> Request:
    """Return a request with a mechanism: the one it names, or the choice of public numbers."""
    if request.entry is not None:
        return request
    assert request.releases != "regression"  # of which there is one
    choice = choose(Situation.of(request))
    found = replace(
        request,
        entry=entry(request.releases, choice.mechanism),
        reason=choice.reason,
        private_scale=request.private_scale or choice.private_scale,
    )
    if not choice.private_radius:
        return found
    # Clipped rows have variances in the units of the data by themselves.
    return replace(found, row_norm="private", variances=False)


def planned(request: Request) -> Plan:
    """Choose a mechanism where none is named, and plan with it."""

    def other(rows: int, budget: Budget) -> Request:
        return chosen(replace(request, n_rows=rows, budget=budget))

    return plan(chosen(request), other)


def plan_of(situation: Situation, mechanism: Mechanism, asked: Situation | None = None) -> Plan:
    """Plan what a fit of a mechanism would do.

    ``asked`` is the situation that the mechanism was chosen for, if it was: for the numbers that a
    refusal names it is chosen anew.
    """

    def other(rows: int, budget: Budget) -> Request:
        changed = replace(asked or situation, n=rows, budget=budget)
        if asked is None:
            return changed.request(mechanism)
        choice = choose(changed)
        return as_chosen(changed, choice).request(entry(changed.releases, choice.mechanism))

    return plan(situation.request(mechanism), other)


def as_chosen(situation: Situation, choice: Choice) -> Situation:
    """Return the situation with private scales and a private radius, where the choice has them.

    Clipped rows have variances in the units of the data by themselves.
    """
    if not choice.private_radius:
        return situation
    scaled = situation.private_scale or choice.private_scale
    return replace(situation, private_radius=True, private_scale=scaled, variances=False)


@lru_cache(maxsize=1024)
def choose(situation: Situation) -> Choice:
    """Return the mechanism for a situation; never one that assumes a model of the data."""
    return _components(situation) if situation.task == "pca" else _matrix(situation)


def _components(situation: Situation) -> Choice:
    assert situation.k is not None  # `Situation` has checked
    if _only_batches(situation):
        return Choice(
            mechanism="oja",
            reason=f"{situation.n} rows of {situation.d} columns can be read once only: neither a "
            "square matrix nor the rows can be kept",
        )
    stated = situation.row_norm is not None or situation.private_radius
    if situation.standardises:
        return Choice(
            mechanism="correlation",
            reason="columns in any units: components of standardised columns follow from a "
            "released covariance",
        )
    if situation.budget.is_pure:
        why = f"{situation.budget} without delta: two-sided Wishart noise is the smallest pure "
        clips, numbers = (False, "") if stated else _generous(situation)
        return Choice(
            mechanism="wishart",
            reason=f"{why}noise on a matrix{numbers}",
            private_radius=clips and situation.d > 1,
            numbers=numbers,
        )
    if stated:
        return Choice(
            mechanism="analyze-gauss",
            reason="a length of rows is stated, so they are clipped and not normalised",
        )
    if situation.one_pass:
        kept = wide(situation.d, situation.k)
        beware = " and are kept; 'oja' keeps none, if they are too many" if kept else ""
        return Choice(mechanism="spherical", reason=f"the rows can be read once only{beware}")
    clips, numbers = _generous(situation)
    if clips:
        return Choice(
            mechanism="analyze-gauss",
            reason=f"the budget allows directions of the covariance itself{numbers}",
            private_radius=True,
            numbers=numbers,
        )
    if wide(situation.d, situation.k):
        return Choice(
            mechanism="spherical",
            reason=f"for {situation.d} columns no matrix is formed, so two releases could not be "
            "averaged: one is made",
        )
    if situation.missing:
        return Choice(
            mechanism="spherical",
            reason="cells may be empty: the moments of unit rows can allow for them",
        )
    return Choice(
        mechanism="tangent",
        reason=f"directions of rows need no length{numbers}",
        numbers=numbers,
    )


def _only_batches(situation: Situation) -> bool:
    """Return whether only batches of rows fit; all else has less error where it does."""
    assert situation.k is not None  # `Situation` has checked
    batches = situation.adjacency.count_is_public and situation.unit == "row"
    if not (situation.one_pass and batches and wide(situation.d, situation.k)):
        return False
    return situation.n is not None and not can_keep(situation.n, situation.d)


def _generous(situation: Situation) -> tuple[bool, str]:
    """Return whether the covariance's own directions are affordable, and the numbers that say so.

    Unit rows have a target of their own where rows are not elliptical, and less noise.
    """
    table = AssumedTable.of(situation, _CAP)
    n = _GUESS if situation.n is None else situation.n
    mu = whole_strength(situation.budget, pure=situation.budget.is_pure)
    if situation.budget.is_pure:  # the Gaussian noise of the same size
        mu /= math.sqrt(2 * situation.d)
    bound = moment_sensitivities(situation.d, situation.adjacency)["frobenius"]
    scale = bound / (n * mu) * math.sqrt(table.stretch)
    unit, clipped = _loss(table, scale), _loss(table, scale * _REACH**2)
    numbers = (
        f"; for {n} {plural(situation.unit, n)}, {situation.d} {plural('column', situation.d)}, "
        f"{situation.k} {plural('component', situation.k or 1)} and {situation.budget}, clipped "
        f"rows are expected to lose {min(1.0, clipped):.2g} of the variance to noise; unit rows "
        f"lose {min(1.0, unit):.2g}, and about {_TARGET:g} more by another target"
    )
    return clipped < unit + _TARGET and _can_search(situation), numbers


def _loss(table: AssumedTable, scale: float) -> float:
    inside, outside = table.values[: table.k], table.values[table.k :]
    gaps = np.subtract.outer(inside, outside)
    # gap * min(1/2, scale^2/(2 gap^2)), where a gap may be zero
    lost = np.minimum(gaps, scale**2 / np.maximum(gaps, scale)) / 2
    return float(lost.sum() / inside.sum())  # beyond 1 where noise drowns everything


def _matrix(situation: Situation) -> Choice:
    if situation.one_pass:
        return Choice(mechanism="cleaned", reason="the rows can be read once only")
    stated = situation.row_norm is not None or situation.bounded
    if situation.budget.is_pure:
        free = not (stated or situation.private_radius)
        any_units = situation.d > max(1, situation.known_scales) and not situation.same_units
        return Choice(
            mechanism="wishart",
            reason=f"{situation.budget} without delta: two-sided Wishart noise is the smallest "
            "pure noise on a matrix",
            private_radius=free,
            private_scale=free and any_units,
        )
    if stated and not _can_search(situation):
        return Choice(
            mechanism="adaptive-cleaned",
            reason="too few rows for this budget to find how far they reach: the stated bound has "
            "to do",
        )
    return Choice(
        mechanism="elliptical",
        reason="unit rows need no bound, and released numbers decide between them and clipped "
        "rows; a length that is stated only tightens",
    )


def _can_search(situation: Situation) -> bool:
    """Return whether distances of rows, or pairs, can be found, by public numbers."""
    pure = situation.budget.is_pure
    found = whole_strength(situation.budget, pure=pure)
    rows = situation.n if situation.adjacency.count_is_public else None
    if rows is not None and not situation.assume_centered:
        centring = free_centring(situation.budget, pure=pure, n_rows=rows, n_columns=situation.d)
        rows //= 2 if centring == "paired" else 1
    return searchable(Pure(found) if pure else Gaussian(found), rows)
