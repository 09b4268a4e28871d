"""Attacks on neighbouring tables, whose success the declared cost bounds.

Noise enters where a leaf perturbs a query, so leaves are attacked here whose noise is not measured
entry by entry in ``test_noise_law.py``; what surrounds them is held by replay, by sensitivities of
every query and by the gate. ``make audit`` attacks every case, many times more often.
"""

import numpy as np
import pytest

from eigenveil.audit import audit
from eigenveil.numerics import SimulationSource
from tests.conformance.case import mu_of
from tests.conformance.test_conformance import SPENDING, neighbours, run, table

D = 4
LEAVES = [
    case
    for case in SPENDING
    if case.shows and case.deviation is None and hasattr(case.build(1.0, D, 1), "perturb")
]


def attacked(case, adjacency, trials):
    """Accuses a correct mechanism with probability at most 1e-3 over seeds."""
    strength = 1.5 if case.strength_of is mu_of else 4.0
    row, other = case.worst_pair(D, adjacency)
    company = table(3, D) / 3
    if case.may_coincide:  # rows enough that something is left to attack
        company = np.repeat(np.eye(D)[:2], 30, axis=0)
    source = SimulationSource(5)

    def release(rows):
        return lambda: case.read(run(case, rows, adjacency, strength=strength, noise=source))

    return audit(
        *map(release, neighbours(company, row, adjacency, other)),
        cost=case.build(strength, D, 1).cost(),
        trials=trials,
        alpha=1e-3,
        continuous=not case.may_coincide,
    )


@pytest.mark.parametrize("case", LEAVES, ids=str)
def test_leaves_keep_their_promise(case):
    report = attacked(case, case.adjacencies[0], 300)
    assert not report.violated, str(report)
    assert report.epsilon_lower_bound < report.claimed_epsilon


@pytest.mark.audit
@pytest.mark.parametrize("case", SPENDING, ids=str)
def test_every_case_keeps_its_promise(case):
    for adjacency in case.adjacencies:
        report = attacked(case, adjacency, case.trials)
        assert not report.violated, str(report)
        assert report.epsilon_lower_bound < report.claimed_epsilon
        if case.shows:
            assert report.epsilon_lower_bound > 0
