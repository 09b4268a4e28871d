"""Bounds on noise hold at their probability and are not absurdly loose."""

import math

import numpy as np
import pytest

from eigenveil.papers.covrev import GAUSSIAN_TAILS, LAPLACE_TAILS

DRAWS = {1: 4000, 3: 4000, 20: 2000, 80: 400}


def norms(d, draw):
    """Vector, operator and Frobenius norms of simulated noise, as the paper defines it."""
    rng = np.random.default_rng(d)
    rows = []
    for _ in range(DRAWS[d]):
        upper = np.triu(draw(rng, (d, d)))
        matrix = upper + np.triu(upper, 1).T
        values = np.linalg.eigvalsh(matrix)
        rows.append(
            (
                np.linalg.norm(draw(rng, d)),
                np.abs(values).max(),
                np.linalg.norm(matrix),
            )
        )
    return np.array(rows).T


@pytest.mark.parametrize("d", DRAWS)
@pytest.mark.parametrize("beta", [0.2, 0.02])
@pytest.mark.parametrize(
    ("tails", "draw"),
    [
        (GAUSSIAN_TAILS, lambda rng, size: rng.standard_normal(size)),
        (LAPLACE_TAILS, lambda rng, size: rng.laplace(size=size)),
    ],
    ids=["gaussian", "laplace"],
)
def test_tails_against_simulation(tails, draw, d, beta):
    """Exceeded at most beta of the time, with five standard errors of room."""
    for bound, sample in zip(
        (tails.vector, tails.operator, tails.frobenius), norms(d, draw), strict=True
    ):
        room = 5 * math.sqrt(beta * (1 - beta) / sample.size)
        assert np.mean(sample > bound(d, beta)) <= beta + room
        if bound is not GAUSSIAN_TAILS.operator:  # Lemma 7 is loose for small d
            assert bound(d, beta) < 4 * np.quantile(sample, 1 - beta)


def test_a_bound_a_fifth_too_small_would_fail():
    for tails, draw in (
        (GAUSSIAN_TAILS, lambda rng, size: rng.standard_normal(size)),
        (LAPLACE_TAILS, lambda rng, size: rng.laplace(size=size)),
    ):
        vector, _, frobenius = norms(80, draw)
        assert np.mean(vector > 0.8 * tails.vector(80, 0.02)) > 0.1
        assert np.mean(frobenius > 0.8 * tails.frobenius(80, 0.02)) > 0.1
