"""Intervals of a release: what they cover, and what they are made of."""

import numpy as np
import pytest
from scipy.stats import binom

from eigenveil import ContinualCovariance, PrivateCovariance, PrivatePCA, PrivateRegression
from eigenveil.estimators.intervals import intervals
from eigenveil.exceptions import (
    ColumnsLeftOutWarning,
    InvalidDataError,
    InvalidParameterError,
)

SPREAD = np.array([3.0, 2.0, 1.0])


def rows(seed, n=400):
    return np.random.default_rng(seed).standard_normal((n, 3)) * SPREAD + 1.0


def released(seed, mechanism="gauss", epsilon=4.0, n=400, **given):
    given = {"row_norm": 12.0} | given
    estimator = PrivateCovariance(
        epsilon=epsilon, delta=1e-6, mechanism=mechanism, random_state=seed, **given
    )
    return estimator.fit(rows(seed, n)).release_


def released_of(table, seed):
    return PrivateCovariance(epsilon=4.0, delta=1e-6, random_state=seed).fit(table).release_


def test_intervals_cover_as_often_as_they_say():
    """Two-sided binomial tests at 1e-4 each; widths off by .7 or 1.25 are rejected.

    Columns are independent, so that their intervals hit or miss on their own.
    """
    tables, factors = 200, (1.0, 0.7, 1.25)
    hits = np.zeros((2, len(factors)))
    for seed in range(tables):
        found = intervals(released(seed, "elliptical", n=4000, row_norm=30.0))
        for i, (ends, truth) in enumerate(((found.means, 1.0), (found.variances, SPREAD**2))):
            off = np.abs(truth - ends.mean(axis=-1)) / ((ends[:, 1] - ends[:, 0]) / 2)
            hits[i] += [(off <= factor).sum() for factor in factors]
    low, high = binom.ppf([5e-5, 1 - 5e-5], 3 * tables, 0.9)
    right, narrow, wide = hits.T
    assert (right >= low).all()
    assert (right <= high).all()
    assert (narrow < low).all()
    assert (wide > high).all()


@pytest.mark.parametrize("tail", ["lognormal", "zeros"])
def test_intervals_of_the_table_as_the_release_saw_it_hold_whatever_its_law(tail):
    """Binomial tests at 1e-4: no law is assumed, and sampling is counted beside the noise."""

    def table(seed):
        made = np.exp(rows(seed, 3000) / SPREAD)
        zero = np.random.default_rng(seed).random(made.shape) < 0.6 * (tail == "zeros")
        return np.where(zero, 0.0, made)

    limit = 12.0
    draws = np.minimum(np.concatenate([table(seed) for seed in range(1000, 1100)]), limit)
    truth = draws.var(axis=0)
    hits = sum(
        ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).sum()
        for ends in (
            intervals(released_of(np.minimum(table(seed), limit), seed)).variances
            for seed in range(60)
        )
    )
    assert hits >= binom.ppf(1e-4, 180, 0.9)


def test_without_fourth_moments_the_length_of_rows_bounds_them():
    """`gauss` buys none: its intervals of variances hold at least as often (binomial, 1e-4)."""
    hits = 0
    for seed in range(60):
        ends = intervals(released(seed)).variances
        hits += ((ends[:, 0] <= SPREAD**2) & (ends[:, 1] >= SPREAD**2)).sum()
    assert hits >= 174 > binom.ppf(1 - 1e-3, 180, 0.9)


def test_columns_of_other_units_have_the_same_intervals_in_them():
    """A power of 2 as a scale changes no bit; eigenvalues of other units are other numbers."""
    units = np.array([4.0, 1.0, 0.5])
    plain = released(0)
    scaled = PrivateCovariance(
        epsilon=4.0, delta=1e-6, mechanism="gauss", row_norm=12.0, scale=units, random_state=0
    ).fit(rows(0) * units)
    ours, theirs = intervals(plain), intervals(scaled.release_)
    np.testing.assert_allclose(theirs.variances / units[:, None] ** 2, ours.variances)
    np.testing.assert_allclose(theirs.correlations, ours.correlations)
    assert (theirs.eigenvalues[:, 0] < theirs.eigenvalues[:, 1]).all()


def test_intervals_for_persons_cover_at_least_as_often():
    """Persons with three rows each: equal ones cover as stated, and others more often.

    Binomial tests at 1e-6 each; for equal rows, intervals as if all were independent are rejected.
    """
    tables, persons = 60, 2000
    hits, narrow = np.zeros(2), 0
    for seed in range(tables):
        first = rows(seed, persons)
        for i, table in enumerate((np.repeat(first, 3, axis=0), rows(seed + 1000, 3 * persons))):
            estimator = PrivateCovariance(
                epsilon=50.0, delta=1e-6, row_norm=30.0, random_state=seed
            )
            release = estimator.fit(table, groups=np.arange(3 * persons) // 3).release_
            ends = intervals(release).variances
            off = np.abs(SPREAD**2 - ends.mean(axis=-1)) / ((ends[:, 1] - ends[:, 0]) / 2)
            hits[i] += (off <= 1).sum()
            narrow += 0 if i else (off <= 1 / np.sqrt(3)).sum()
    low, high = binom.ppf([5e-7, 1 - 5e-7], 3 * tables, 0.9)
    assert low <= hits[0] <= high
    assert narrow < low
    assert hits[1] > hits[0]


def test_less_budget_and_fewer_rows_leave_wider_intervals():
    def width(**given):
        ends = intervals(released(0, **given)).variances
        return (ends[:, 1] - ends[:, 0]).mean()

    assert width(epsilon=1.0) > 1.5 * width()
    assert width(n=100, epsilon=16.0) > 1.5 * width(n=1600, epsilon=16.0)


def test_mechanisms_that_state_no_noise_of_entries_are_refused_by_name():
    release = released(1, "separate")
    with pytest.raises(InvalidDataError, match="'separate' states no law of the noise on each"):
        intervals(release)


def test_a_running_covariance_and_components_have_intervals_too():
    days = ContinualCovariance(
        horizon=5, epsilon=8.0, delta=1e-6, row_norm=12.0, random_state=1, scale=[2.0, 1.0, 1.0]
    )
    days.partial_fit(rows(0, 2000))
    found = intervals(days.release_)
    assert (found.means[:, 0] < 1.2).all()
    assert (found.means[:, 1] > 0.8).all()
    assert found.eigenvalues[0, 0] < 9 < found.eigenvalues[0, 1] + 1
    pca = PrivatePCA(1, epsilon=8.0, delta=1e-6, random_state=1).fit(rows(0, 2000))
    found = intervals(pca.release_, draws=20, seed=0)
    assert found.means is None
    assert found.loadings.shape == (1, 3, 2)
    low, high = found.loadings[0].T
    assert (low <= pca.components_[0] + 0.1).all()
    assert (pca.components_[0] <= high + 0.1).all()
    assert (high - low)[0] < 0.2


def test_columns_drowned_in_noise_have_no_correlations():
    release = released(0, epsilon=0.5, n=200, centring="none")
    found = intervals(release)
    assert np.isnan(found.correlations[0, 2]).all()
    assert np.isfinite(found.variances).all()


def test_what_says_too_little_is_refused():
    release = released(0)
    for wrong in ({"level": 1.0}, {"draws": 3}, {"draws": True}):
        with pytest.raises(InvalidParameterError):
            intervals(release, **wrong)
    hidden = released(0, adjacency="add-remove")
    with pytest.raises(InvalidDataError, match="release with adjacency='replace-one'"):
        intervals(hidden)
    paired = released(0, "cleaned", centring="paired")
    with pytest.raises(InvalidDataError, match="with a centre"):
        intervals(paired)
    table = rows(0, 2000)
    table[:, 1] = 7.0
    budget = {"epsilon": 8.0, "delta": 1e-6, "scale": "private", "random_state": 0}
    estimator = PrivatePCA(1, **budget)
    with pytest.warns(ColumnsLeftOutWarning, match="x1"):
        estimator.fit(table)
    with pytest.raises(InvalidDataError, match="all columns, and x1 had no private scale"):
        intervals(estimator.release_)


def test_a_column_whose_variance_noise_hides_is_named_and_has_no_correlations():
    table = rows(0, 2000)
    table[:, 1] = 7.0
    estimator = PrivateCovariance(epsilon=8.0, delta=1e-6, random_state=0)
    with pytest.warns(ColumnsLeftOutWarning, match="noise hides the variance of x1"):
        estimator.fit(table)
    found = intervals(estimator.release_)
    assert np.isnan(found.correlations[1]).all()
    assert found.variances[1, 0] <= 0 <= found.variances[1, 1]


def test_a_regression_has_intervals_of_its_own():
    model = PrivateRegression(epsilon=4.0, delta=1e-6, random_state=0).fit(rows(0), rows(0)[:, 0])
    with pytest.raises(InvalidParameterError, match="a regression has its own"):
        intervals(model.release_)
