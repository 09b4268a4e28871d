"""What private scales cost, and how many columns they would be found for.

The mechanism runs on assumed counts: columns are normal, in units that no power of two favours;
how many pairs of rows fall into each octave follows from their law, and noise is drawn as in a
release.
"""

import math
from dataclasses import replace

import numpy as np
from scipy.special import ndtr

from eigenveil.data.bounded import Bounded
from eigenveil.data.norms import BRACKETS
from eigenveil.exceptions import EigenveilError
from eigenveil.mechanisms.additive import vector_noise
from eigenveil.mechanisms.planning import plan
from eigenveil.mechanisms.registry import entry
from eigenveil.mechanisms.scalars.column_scale import ColumnScale, enough_for_scales, scale_share
from eigenveil.numerics.fixedpoint import FixedPoint
from eigenveil.numerics.random import SimulationSource
from eigenveil.planner.choice import as_chosen, choose
from eigenveil.planner.rehearsal import StandInGate, with_drawn_rows
from eigenveil.planner.situation import Situation
from eigenveil.privacy.accounting import part
from eigenveil.privacy.calibrate import whole_strength
from eigenveil.privacy.cost import Gaussian, Pure

__all__ = ["default_scale_share", "expected_scales"]

_REHEARSALS, _RARELY = 20, 0.1
_MOST_COLUMNS = 50  # that are simulated; they stand for all


def expected_scales(situation: Situation) -> int:
    """Return how many columns have a scale in nine of ten releases; none where it is refused."""
    sought = situation.d - situation.known_scales
    if situation.n is None or not situation.adjacency.count_is_public or sought == 0:
        return 0
    pure = situation.budget.is_pure
    found = whole_strength(situation.budget, pure=pure)
    whole = Pure(found) if pure else Gaussian(found)
    if not enough_for_scales(whole, situation.n, sought):
        return 0
    mechanism = ColumnScale(
        first=vector_noise(part(whole, scale_share(whole, situation.n, sought)))
    )
    counts = _assumed(situation, sought)
    shares = [
        np.isfinite(mechanism.find(counts, _gate(situation, seed)).scale).mean()
        for seed in range(_REHEARSALS)
    ]
    return math.floor(sought * float(np.quantile(shares, _RARELY)))


def default_scale_share(situation: Situation, mechanism: str) -> float | None:
    """Return the share of the budget that a covariance spends on scales unless told otherwise.

    None where it looks for none: columns are bounded, few rows are there, or no matrix is asked
    for.
    """
    found = replace(situation, same_units=False)
    choice = choose(found)
    try:
        if choice.mechanism == mechanism:
            found = as_chosen(found, choice)
        asked = found.request(entry(situation.releases, mechanism))
        sought = asked.any_units or (choice.private_scale and asked.private_scale)
        if asked.counted and situation.n is not None:
            return with_drawn_rows(plan(asked), situation.n).shares["scale"]
        return plan(asked).shares["scale"] if sought else None
    except EigenveilError:
        return None


def _gate(situation: Situation, seed: int) -> StandInGate:
    return StandInGate(situation.adjacency, SimulationSource(seed))


def _assumed(situation: Situation, sought: int) -> Bounded:
    """Return counts of half differences of normal rows, with the sensitivity of all columns."""
    assert situation.n is not None  # checked above
    pairs, columns = situation.n // 2, min(sought, _MOST_COLUMNS)
    units = 2.0 ** ((np.arange(columns) + 0.5) / columns)
    edges = 2.0 ** np.array([*BRACKETS, BRACKETS[-1] + 1], dtype=np.float64)
    below = 2 * ndtr(np.minimum(edges / units[:, None], 1e9)) - 1
    held = np.rint(pairs * np.diff(below, axis=1)).astype(np.int64)
    return Bounded(
        value=FixedPoint(held, 0),
        sensitivities={"l2": math.sqrt(2 * sought), "l1": 2.0 * sought},
        adjacency=situation.adjacency,
        unit=1.0,
        count=pairs,
        exact=True,
    )
