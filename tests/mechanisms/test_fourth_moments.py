"""Fourth moments of clipped rows, and the share of rows that limits changed."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from eigenveil.exact import Clip, Square, second_moment
from eigenveil.mechanisms import SPREAD_SHARE, FourthMoments, Gate
from eigenveil.numerics import SimulationSource
from eigenveil.privacy import Gaussian
from eigenveil.rows import open_rows as open_table
from tests.conformance.case import CLIP, REPLACE, Case, open_rows, upper

ROWS = np.random.default_rng(1).standard_normal((400, 3)) * [3.0, 1.0, 0.2]


def drawn(mu, rows, clip, seed=0):
    mechanism = FourthMoments.of(Gaussian(mu))
    gate = Gate(
        mechanism.cost(), label="x", adjacency=REPLACE, ledger=None, noise=SimulationSource(seed)
    )
    return mechanism.run(open_table(rows), clip, gate)


def clipped(rows, radius):
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1, radius / lengths)


def test_with_a_large_budget_they_are_those_of_the_clipped_rows():
    clip = Clip(row_norm=2.5, centre=np.array([0.5, 0.0, 0.0]))
    found = drawn(1e6, ROWS, clip)
    squares = clipped(ROWS - clip.centre, 2.5) ** 2
    np.testing.assert_allclose(found.fourth, squares.T @ squares / len(ROWS), atol=1e-3)
    beyond = (np.linalg.norm(ROWS - clip.centre, axis=1) > 2.5).mean()
    assert 0.1 < beyond < 0.9
    assert found.changed == pytest.approx(beyond, abs=1e-3)


def test_the_share_has_the_noise_that_it_states():
    """Kolmogorov's distance: right with probability .999, and noise off by a fifth is rejected."""
    clip, fits = Clip(row_norm=2.5), 2000
    truth = (np.linalg.norm(ROWS, axis=1) > 2.5).mean()
    found = [drawn(2.0, ROWS, clip, seed) for seed in range(fits)]
    errors = np.sort([each.changed - truth for each in found])
    for factor, right in ((1.0, True), (0.8, False), (1.25, False)):
        law = norm.cdf(errors / (factor * found[0].changed_noise))
        distance = np.abs(law - (np.arange(fits) + 0.5) / fits).max()
        assert (distance < 1.95 / math.sqrt(fits)) == right


def test_moments_are_raised_by_one_deviation_of_their_noise():
    """The mean of 500 entries, at four standard errors; no raise, or twice it, is rejected."""
    clip, fits = Clip(row_norm=2.5), 500
    squares = clipped(ROWS, 2.5) ** 2
    truth = (squares.T @ squares / len(ROWS))[0, 0]
    noise = math.sqrt(2) * 2.5**4 / len(ROWS) / (math.sqrt(0.03) * 20)
    raised = [(drawn(20.0, ROWS, clip, seed).fourth[0, 0] - truth) / noise for seed in range(fits)]
    assert abs(np.mean(raised) - 1) < 4 / math.sqrt(fits) < 1


def test_an_invalid_row_counts_as_unchanged_and_as_zero():
    clip = Clip(row_norm=2.5, on_invalid="zero")
    rows = np.vstack([ROWS, np.full((100, 3), np.nan)])
    found = drawn(1e6, rows, clip)
    squares = clipped(ROWS, 2.5) ** 2
    np.testing.assert_allclose(found.fourth, squares.T @ squares / len(rows), atol=1e-3)


@pytest.mark.parametrize("on_missing", ["invalid", "centre"])
def test_the_share_is_one_of_valid_rows(on_missing):
    clip = Clip(row_norm=2.5, on_invalid="zero", on_missing=on_missing)
    rows = np.vstack([ROWS, np.full((400, 3), np.inf)])
    beyond = (np.linalg.norm(ROWS, axis=1) > 2.5).mean()
    assert drawn(1e6, rows, clip).changed == pytest.approx(beyond, abs=1e-3)


def squares_of(rows, adjacency):
    return second_moment(open_rows(rows).map(Square(CLIP)), CLIP, adjacency)


def procedure(mechanism, rows, adjacency, gate):
    return mechanism.run(open_rows(rows), replace(CLIP), gate)


CASES = [
    Case(
        "fourth moments",
        lambda mu, d, k: FourthMoments.of(Gaussian(mu / math.sqrt(SPREAD_SHARE))),
        query=squares_of,
        run=procedure,
        read=lambda found: np.append(upper(found.fourth), found.changed),
        adjacencies=(REPLACE,),
        may_coincide=True,
    )
]
