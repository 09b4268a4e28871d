"""Assumed tables against plain Monte Carlo."""

import numpy as np
import pytest

from eigenveil.numerics import SimulationSource, unit_shares
from eigenveil.planning import AssumedTable, Situation, isotropic, spiked
from eigenveil.privacy import Budget

BUDGET = Budget(epsilon=1.0, delta=1e-6)
SHAPES = ["flat", "decaying", "steep", spiked(2, 30.0)]


def situation(d, shape, k=2):
    return Situation(task="pca", n=5000, d=d, k=k, budget=BUDGET, spectrum=shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("d", [1, 2, 12])
def test_shares_of_unit_rows(d, shape):
    """200,000 rows: standard errors below 0.0009, five of them allowed."""
    if d < 2 and not isinstance(shape, str):
        shape = "flat"
    values = situation(d, shape, k=1).eigenvalues
    rows = np.random.default_rng(d).standard_normal((200_000, d)) * np.sqrt(values)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    shares = unit_shares(values)
    np.testing.assert_allclose(shares, (rows**2).mean(axis=0), atol=4.5e-3)
    assert shares.sum() == pytest.approx(1)
    if d > 2 and shape != "flat":  # not merely the eigenvalues themselves
        assert abs(shares - values).max() > 0.015


def test_directions_that_are_left_out_count_with_their_length():
    values = np.array([0.3, 0.2])
    rows = np.random.default_rng(0).standard_normal((200_000, 2)) * np.sqrt(values)
    squares = (rows**2).sum(axis=1) + 0.5
    wanted = (rows**2 / squares[:, None]).mean(axis=0)
    np.testing.assert_allclose(unit_shares(values, rest=0.5), wanted, atol=2e-3)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_clipping_shrinks_as_simulated(shape):
    """500 rows of the planner's own against 100,000: 8 % is about four standard errors."""
    table = AssumedTable.of(situation(12, shape), 80)
    rows = table.sample(1e9, SimulationSource(3))
    mean, weights = table.clipped(rows, 0.9)
    many = np.random.default_rng(1).standard_normal((100_000, 12)) * np.sqrt(table.values)
    kept = np.minimum(1, 0.9**2 / (many**2).sum(axis=1))
    np.testing.assert_allclose(mean, kept @ many**2 / len(many), rtol=0.08)
    assert weights.max() <= 1
    unclipped, _ = table.clipped(rows, 100.0)
    np.testing.assert_array_equal(unclipped, table.values)


def test_a_sample_varies_as_much_as_a_table_of_its_size():
    table = AssumedTable.of(situation(10, "flat"), 80)
    moments = [
        table.sample(20_000, SimulationSource(seed)).moment(np.diag(table.values))[0, 1]
        for seed in range(400)
    ]
    # Variance 0.01/20,000 of an entry; of 400 squares the mean varies by 7 %: four of these.
    assert np.mean(np.square(moments)) / (0.01 / 20_000) == pytest.approx(1, abs=0.28)


def test_many_columns_keep_their_leading_values_and_their_bulk():
    wide = situation(1000, "decaying")
    table = AssumedTable.of(wide, 80)
    assert table.d == 80
    np.testing.assert_array_equal(table.values[:40], wide.eigenvalues[:40])
    assert table.values[-1] == pytest.approx(wide.eigenvalues[-1], rel=0.02)
    assert table.values.sum() + table.rest == pytest.approx(1)
    many = AssumedTable.of(situation(1000, "decaying", k=500), 80)
    assert many.k == 40  # too many components to keep each


def test_error_counts_directions_that_are_not_simulated():
    wide = situation(1000, "flat")
    table = AssumedTable.of(wide, 80)
    assert table.error(np.diag(table.values)) == pytest.approx(
        np.linalg.norm(wide.eigenvalues), rel=0.03
    )


def test_noise_has_the_stated_variances():
    """20,000 and more entries: standard errors of 1 to 2 %."""
    source = SimulationSource(0)
    gauss = np.array([isotropic(20, source) for _ in range(1000)])
    assert np.array_equal(gauss, gauss.transpose(0, 2, 1))
    assert gauss[:, 0, 1].var() == pytest.approx(0.5, rel=0.2)
    assert np.einsum("aii->ai", gauss).var() == pytest.approx(1, rel=0.05)
