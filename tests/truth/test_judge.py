"""The judge accepts statements of the right law and rejects slightly wrong ones.

Fits are made up: a truth, normal noise, and what is stated about it. With `FITS` of them a claim
whose law is right fails with a probability below 1e-6; each wrong law fails its claim.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from tests.truth.judge import (
    GROWTH,
    RELEASED,
    Limits,
    Truth,
    error_in_deviations,
    failures,
    growth,
    judged,
)

FITS, ROWS, COLUMNS = 150, 200, 8
SCALE = 10.0 ** np.arange(COLUMNS)
PAIRS = np.triu_indices(COLUMNS, 1)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    mixing = np.eye(COLUMNS) + 0.4 * rng.standard_normal((COLUMNS, COLUMNS))
    return (rng.standard_normal((ROWS, COLUMNS)) @ mixing + 5) * SCALE


def made_up(rows, seed, *, row_norm=math.inf, stated=1.0, outliers=0.0, level=1.645):
    """Return a fit whose noise is larger than stated by a factor, and intervals."""
    rng = np.random.default_rng(seed)
    limits = Limits(rows.mean(axis=0), SCALE, row_norm)
    truth = Truth.of(rows, limits)
    mean_noise, noise, correlation_noise = 0.1 * SCALE, 0.05, 0.01
    spread = np.outer(SCALE, SCALE) * noise
    covariance = truth.covariance + _symmetric(rng) * spread
    wrong = correlation_noise * _symmetric(rng)
    wrong[_symmetric(rng) > _upper_quantile(outliers)] = 0.2
    centre = truth.mean + mean_noise * rng.standard_normal(COLUMNS)
    # The table is judged about the released centre, so it is released about that one.
    covariance += Truth.of(rows, Limits(centre, SCALE, row_norm)).covariance - truth.covariance
    fit = SimpleNamespace(
        covariance_=covariance,
        correlation_=Truth.of(rows, Limits(centre, SCALE, row_norm)).correlation + wrong,
        correlation_noise_=np.full((COLUMNS, COLUMNS), correlation_noise / stated),
        location_=centre,
        location_noise_=mean_noise / stated,
        covariance_noise_=spread / stated,
        scale_=SCALE,
        row_norm_=row_norm,
    )
    ends = SimpleNamespace(
        means=_ends(centre, level * mean_noise),
        variances=_ends(covariance.diagonal(), level * spread.diagonal()),
        correlations=_ends(fit.correlation_, level * correlation_noise),
        eigenvalues=_ends(np.zeros(COLUMNS), np.full(COLUMNS, np.inf)),
    )
    return fit, ends


def failing(rows, **law):
    fits = (made_up(rows, seed, **law) for seed in range(FITS))
    return set(failures([judged(fit, rows, ends) for fit, ends in fits]))


@pytest.mark.parametrize("row_norm", [math.inf, 2.0])
def test_accepts_the_right_law(rows, row_norm):
    assert failing(rows, row_norm=row_norm) == set()


def test_rejects_noise_that_is_understated(rows):
    assert failing(rows, stated=1.5) == {
        "means",
        "variances",
        "correlations within 2 deviations",
    }


def test_rejects_rare_correlations_that_are_far_off(rows):
    assert failing(rows, outliers=0.03) == {"correlations within 5 deviations"}


def test_rejects_intervals_that_are_too_narrow(rows):
    assert failing(rows, level=1.3) == {
        "intervals of means",
        "intervals of variances",
        "intervals of correlations",
    }


def test_rejects_statements_about_rows_beyond_the_limits(rows):
    """A release of rows pulled in to a limit that it does not state."""
    fits = [made_up(rows, seed, row_norm=2.0) for seed in range(20)]
    for fit, _ in fits:
        fit.row_norm_ = math.inf
    assert "variances" in failures([judged(fit, rows) for fit, _ in fits])


def test_the_error_of_the_zero_matrix_is_one(rows):
    assert error_in_deviations(np.zeros((COLUMNS, COLUMNS)), rows) == pytest.approx(1.0)
    assert error_in_deviations(np.cov(rows.T, bias=True), rows) == pytest.approx(0.0, abs=1e-9)


def test_nothing_is_claimed_of_columns_left_out(rows):
    fit, _ = made_up(rows, 1)
    fit.scale_ = np.where(np.arange(COLUMNS) == 3, np.inf, SCALE)
    fit.covariance_[3] = fit.covariance_[:, 3] = 0.0
    fit.location_[3], fit.location_noise_[3] = 0.0, np.nan
    for matrix in (fit.correlation_, fit.correlation_noise_):
        matrix[3] = matrix[:, 3] = np.nan
    shares = judged(fit, rows)
    assert failures([shares]) == {}
    assert min(shares.values()) > 0.8


def test_pairs_of_missing_cells_take_no_part(rows):
    """The truth is that of the rows where both cells are present."""
    holed = rows.copy()
    holed[: ROWS // 2, :3] = np.nan
    truth = Truth.of(holed, Limits(np.zeros(COLUMNS), np.ones(COLUMNS)))
    present = rows[ROWS // 2 :]
    assert truth.covariance[0, 5] == pytest.approx(np.mean(present[:, 0] * present[:, 5]))
    assert truth.mean[0] == pytest.approx(present[:, 0].mean())
    assert truth.covariance[5, 6] == pytest.approx(np.mean(rows[:, 5] * rows[:, 6]))


def test_entries_are_folded_and_pulled_in_to_the_limits():
    limits = Limits(
        np.array([1.0, 1.0]),
        np.array([2.0, 1.0]),
        3.0,
        column_limit=4.0,
        turn=np.array([32.0, 16.0]),
    )
    seen = limits.seen(np.array([[3.0, 1.0], [1.0, 10.0], [1.0 + 2 * 17, 1.0]]))
    np.testing.assert_allclose(seen, [[1.0, 0.0], [0.0, -3.0], [1.0, 0.0]])


def test_a_release_that_is_not_finite_or_lost_fails(rows):
    fit, _ = made_up(rows, 1)
    fit.covariance_[0, 0] = np.nan
    assert failures([judged(fit, rows), {RELEASED: 1.0}]) == {RELEASED: 0.5}


def test_errors_that_grow_with_epsilon_fail():
    assert failures([growth([1.0, 1.0, 9.0], [1.2, 1.2, 1.2])]) == {}
    assert failures([growth([1.0, 1.0, 9.0], [1.3, 1.3, 0.1])]) == {GROWTH: 1.25 / 1.3}
    assert failures([growth([1.0], [0.0])]) == {}


def _symmetric(rng):
    noise = rng.standard_normal((COLUMNS, COLUMNS))
    noise[PAIRS[::-1]] = noise[PAIRS]
    return noise


def _upper_quantile(share):
    """Return what a standard normal number exceeds with this probability."""
    from scipy.stats import norm

    return norm.isf(share)


def _ends(middle, half):
    return np.stack([middle - half, middle + half], axis=-1)
