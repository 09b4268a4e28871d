"""Shares of pairs of cells, from noisy shares of columns and a noisy Gram matrix."""

import numpy as np
import pytest
from scipy.special import ndtri

from eigenveil.numerics import PairShares, frechet_bounds


def quantile(beta):
    return -float(ndtri(beta))


def marks(n, d, seed, together=0.0):
    """Rows of 1/2 and -1/2: cells missing with probability .4, some of them in whole rows."""
    rng = np.random.default_rng(seed)
    rows = np.where(rng.random((n, d)) < 0.6, 0.5, -0.5)
    whole = rng.random(n) < together
    rows[whole] = np.where(rng.random((whole.sum(), 1)) < 0.6, 0.5, -0.5)
    return rows


def drawn(b, noise, rng, factor=1.0):
    """The shares from draws with this noise, said to be ``factor`` times smaller than it is."""
    n, d = b.shape
    single = 0.5 + b.mean(axis=0) + noise * rng.standard_normal(d)
    error = rng.standard_normal((d, d)) * np.sqrt(2)
    gram = b.T @ b / n + noise * (error + error.T) / 2
    columns = np.clip(single, 0.05, 1.0)
    found = PairShares(columns, np.full(d, noise / factor))
    return found.with_gram(gram, noise / factor, single, rows=n, quantile=quantile)


def exact(b):
    here = b + 0.5
    return here.T @ here / len(b)


@pytest.mark.parametrize("together", [0.0, 0.5, 1.0])
def test_without_noise_shares_are_those_of_the_rows(together):
    b = marks(5000, 5, 0, together)
    found = drawn(b, 1e-9, np.random.default_rng(1))
    np.testing.assert_allclose(found.shares, exact(b), atol=1e-6)
    assert found.pairs is not None
    assert (found.together is None) == (together == 0.0)


def test_shares_stay_within_the_bounds_of_frechet():
    rng = np.random.default_rng(2)
    for seed in range(50):
        found = drawn(marks(200, 6, seed, 0.5), 0.1, rng)
        low, high = frechet_bounds(found.columns)
        assert (found.shares <= high).all()
        assert (found.shares >= low).all()
        assert np.array_equal(found.shares, found.shares.T)


def test_dependence_that_noise_hides_is_not_followed():
    """Of cells missing independently, at noise as large as what could be measured."""
    b, rng = marks(20_000, 6, 3), np.random.default_rng(4)
    off = ~np.eye(6, dtype=bool)
    followed = alone = 0.0
    for _ in range(200):
        found = drawn(b, 0.04, rng)
        columns = found.columns
        followed += np.mean((found.shares - exact(b))[off] ** 2)
        alone += np.mean((np.outer(columns, columns) - exact(b))[off] ** 2)
    assert followed < 1.4 * alone


def test_dependence_lowers_no_share_into_the_noise():
    """Cells of two columns that are never there together."""
    b = np.where(np.random.default_rng(5).random((4000, 1)) < 0.5, [0.5, -0.5], [-0.5, 0.5])
    found = drawn(b, 0.02, np.random.default_rng(6))
    assert found.together == (0, 1)
    assert found.shares[0, 1] >= 4 * 0.02


def test_dependence_is_found_by_chance_once_in_a_hundred_times():
    """Of 3,000 tables without dependence: .0055 to .0145 (chance of a false alarm .02).

    Noise a sixth larger than said would find some in .03 or more of them (missed: below .001).
    """
    rng = np.random.default_rng(7)

    def share(factor):
        return np.mean(
            [
                drawn(marks(2000, 6, seed), 0.02, rng, factor).together is not None
                for seed in range(3000)
            ]
        )

    assert 0.0055 < share(1.0) < 0.0145
    assert share(7 / 6) > 0.02


@pytest.mark.parametrize("together", [0.0, 0.05, 0.1, 0.2, 0.7])
def test_the_stated_noise_covers_the_error(together):
    """Normal errors would lie beyond one deviation in .32 and beyond two in .05 of 60 x 15 pairs,
    with standard errors of .03 and .015, as pairs of a table share draws. Noise stated at two
    thirds would leave .5 and .18 of pairs with clear dependence.
    """
    rng, pairs, errors = np.random.default_rng(8), np.triu_indices(6, 1), []
    for seed in range(60):
        b = marks(20_000, 6, seed, together)
        found = drawn(b, 0.02, rng)
        errors.append(np.abs((found.shares - exact(b)) / found.noise)[pairs])
    assert np.mean(np.array(errors) > 2) < 0.09
    assert np.mean(np.array(errors) > 1) < 0.42
    if together == 0.7:
        assert np.mean(1.5 * np.array(errors) > 2) > 0.1


def test_pairs_of_rows_hold_cells_of_both():
    found = PairShares(np.array([0.5, 0.8]), np.full(2, 0.01)).squared()
    np.testing.assert_allclose(found.shares, [[0.25, 0.16], [0.16, 0.64]])
    np.testing.assert_allclose(found.noise.diagonal(), [0.01, 0.016])


def test_some_columns_keep_their_pair():
    pairs = np.arange(9.0).reshape(3, 3)
    shares = PairShares(pairs.diagonal(), np.ones(3), pairs, np.ones((3, 3)), (1, 2))
    kept = shares.of_columns(np.array([False, True, True]))
    assert np.array_equal(kept.shares, [[4.0, 5.0], [7.0, 8.0]])
    assert kept.together == (0, 1)
    assert shares.of_columns(np.array([True, True, False])).together is None


def test_the_range_of_unmeasured_pairs():
    """Shares .6 and .7: between .3 and .6 of the rows hold both cells, .42 if independently."""
    found = PairShares(np.array([1.0, 0.6, 0.7]), np.full(3, 0.01))
    assert found.most_uncertain() == (1, 2, pytest.approx(0.3 / 0.42), pytest.approx(0.6 / 0.42))
    assert PairShares(np.array([0.6]), np.array([0.01])).most_uncertain() is None
