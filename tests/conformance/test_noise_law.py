"""The law of every additive release, against scales written out independently of the code."""

import math

import numpy as np
import pytest

from eigenveil.numerics import SimulationSource
from tests.conformance.case import ADD, mu_of
from tests.conformance.table import TABLE
from tests.conformance.test_conformance import run, table
from tests.statistics import variance_p_value

GAUSSIAN = [case for case in TABLE if case.deviation and case.strength_of is mu_of]
PURE = [case for case in TABLE if case.deviation and case.strength_of is not mu_of]


def noise_of(case, rows, adjacency, source, strength):
    """Release minus query, in units of the unit ball."""
    released = case.read(run(case, rows, adjacency, strength=strength, noise=source))
    query = case.query(rows, adjacency)
    value = query.value.to_float()
    if value.ndim == 2:
        return released / query.unit - value[np.triu_indices(len(value))]
    if adjacency is ADD and case.name == "mean":  # a ratio of noisy sums: undo it
        return np.append(released[:-1] * released[-1], released[-1]) - value
    return released / query.unit - value


def noises(case, adjacency, strength, entries):
    """So many entries of noise in their standard deviations, one draw a row."""
    d = 12 if case.deviation(strength, 12, adjacency).size == 78 else 78  # a matrix, or a vector
    rows = np.vstack([table(50, d)] * 10)  # many rows keep the noisy count above one
    expected = case.deviation(strength, d, adjacency)
    source = SimulationSource(4)
    draws = entries // expected.size
    return (
        np.array([noise_of(case, rows, adjacency, source, strength) for _ in range(draws)])
        / expected
    )


@pytest.mark.parametrize("case", GAUSSIAN, ids=str)
def test_noise_has_the_scale_the_proof_states(case):
    """False alarm 2e-6 per case; a scale 5 % off lies 8 standard errors out at 15,000 entries."""
    for adjacency in case.adjacencies:
        noise = noises(case, adjacency, 0.8, 15_000)
        assert variance_p_value(noise.ravel(), 1.0) > 1e-6
        assert variance_p_value(noise.ravel(), 1.05) < 1e-6
        assert variance_p_value(noise.ravel(), 0.95) < 1e-6
        # Entry by entry, so that no entry is short of noise at the expense of another.
        assert all(variance_p_value(column, 1.0) > 1e-8 for column in noise.T)


def standard_errors(noise, scale):
    """Distance of the mean square from scale^2; draws are independent, entries need not be."""
    squares = (noise**2).mean(axis=1)
    return abs(squares.mean() - scale**2) / (squares.std() / math.sqrt(len(squares)))


@pytest.mark.parametrize("case", PURE, ids=str)
def test_pure_noise_has_the_scale_the_proof_states(case):
    """False alarm 2e-6 per case; with the tails of Laplace, 5 % of the scale are 8 standard errors
    at 45,000 entries.
    """
    for adjacency in case.adjacencies:
        noise = noises(case, adjacency, 0.8, 45_000)
        assert standard_errors(noise, 1.0) < 5
        assert standard_errors(noise, 1.05) > 5
        assert standard_errors(noise, 0.95) > 5
        # Entry by entry: 78 of them, each at 1e-8.
        assert all(standard_errors(column[:, None], 1.0) < 6 for column in noise.T)
