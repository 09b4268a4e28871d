"""Intervals from a noisy second moment and fourth moments: what they hold, and what they refuse."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from eigenveil.numerics import Moments, entry_noise

Z = 1.6449  # of 90 %
MIXING = np.array([[2.0, 0.0, 0.0], [0.9, 1.0, 0.0], [0.0, -0.3, 0.5]])
TRUTH = MIXING @ MIXING.T


def moments(second, *, level=0.0, rows=1000, fourth=None, reach=math.inf):
    d = len(second)
    return Moments(
        second=second,
        noise=entry_noise(np.full(d, level)),
        fourth=np.full((d, d), math.inf) if fourth is None else fourth,
        reach=np.full(d, reach),
        rows=rows,
    )


def drawn(seed, level, rows):
    """A second moment of normal rows with noise, and their fourth moments."""
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((rows, 3)) @ MIXING.T
    noise = rng.standard_normal((3, 3)) * level
    squares = table**2
    second = table.T @ table / rows + (noise + noise.T) / 2
    return moments(second, level=level, rows=rows, fourth=squares.T @ squares / rows)


def inside(ends, truth):
    return (ends[..., 0] <= truth) & (truth <= ends[..., 1])


@pytest.mark.parametrize(("level", "rows"), [(0.0, 500), (0.3, 100_000), (0.1, 1000)])
def test_ends_hold_the_truth_as_often_as_said(level, rows):
    """Sampling alone, noise alone, both: two-sided binomial tests of single numbers at 1e-5 each.

    Intervals that are a third narrower fail them.
    """
    fits, units = 400, np.sqrt(TRUTH.diagonal())
    correlation = (TRUTH / np.outer(units, units))[0, 1]
    values = np.linalg.eigvalsh(TRUTH)[::-1]
    hits, narrow = np.zeros(3), np.zeros(3)
    for seed in range(fits):
        found = drawn(seed, level, min(rows, 1000))
        for count, z in ((hits, Z), (narrow, Z * 2 / 3)):
            count += [
                inside(found.variance_ends(z), TRUTH.diagonal())[0],
                inside(found.correlation_ends(z), correlation)[0, 1],
                inside(found.eigenvalue_ends(z), values)[0],
            ]
    low, high = binom.ppf([1e-5, 1 - 1e-5], fits, 0.9)
    assert (low <= hits).all()
    assert (hits <= high).all()
    assert (narrow < low).all()


def test_the_reach_of_rows_bounds_what_was_not_bought():
    """Rows of length 1 along an axis: the bound is attained, and fourth moments lower it."""
    second = np.diag([0.5, 0.5])
    bound = moments(second, reach=1.0).variance_ends(Z)
    exact = moments(second, fourth=np.diag([0.5, 0.5])).variance_ends(Z)
    np.testing.assert_allclose(bound, exact)
    assert np.isinf(moments(second).variance_ends(Z)).all()


def test_a_variance_within_the_noise_has_no_correlations():
    second = np.diag([1.0, 0.1])
    found = moments(second, level=0.1, reach=3.0).correlation_ends(Z)
    assert np.isnan(found[1]).all()
    assert np.isnan(found[:, 1]).all()
    np.testing.assert_array_equal(found[0, 0], [1.0, 1.0])


def test_eigenvalues_within_the_noise_may_be_anything_that_it_makes():
    """Noise of 40 columns around a spectrum of .1: the last eigenvalue is far below it."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((40, 40))
    found = moments(0.1 * np.eye(40) + (noise + noise.T) / 2, level=1.0, rows=10**9, reach=1.0)
    assert found.second.diagonal().min() < 0
    assert inside(found.eigenvalue_ends(Z), np.full(40, 0.1)).all()


def test_equal_columns_have_a_correlation_of_one():
    found = moments(np.ones((2, 2)), level=0.01, fourth=np.full((2, 2), 3.0)).correlation_ends(Z)
    low, high = found[0, 1]
    assert 0.95 < low < high == 1.0


def test_loadings_of_eigenvalues_that_stand_apart_are_near_the_truth():
    found = drawn(0, 0.05, 1000)
    true = np.linalg.eigh(TRUTH)[1].T[::-1]
    ends = found.loading_ends(4.0)
    middle = ends.mean(axis=-1)
    true = true * np.sign((true * middle).sum(axis=1))[:, None]
    assert inside(ends, true).all()
    assert (ends[0, :, 1] - ends[0, :, 0]).max() < 0.5
