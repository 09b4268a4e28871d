"""What a released covariance is used for."""

import numpy as np
import pytest

from eigenveil import PrivateCovariance, PrivatePCA
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.release import (
    conditional_means,
    factor_analysis,
    mahalanobis,
    partial_correlation_threshold,
    partial_correlations,
    principal_component_regression,
    regression,
    sample,
    standard_errors,
    whitening,
)

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((4000, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0.5], [0, 0, 1.0]]) + 2.0
MODEL = PrivateCovariance(rho=100.0, row_norm=12.0, random_state=0).fit(ROWS)
RELEASE, S = MODEL.release_, MODEL.covariance_


def test_a_synthetic_table_has_the_released_moments():
    """Standard errors of 100,000 rows are 0.006 at most: five of them."""
    table = sample(RELEASE, 100_000, seed=1)
    assert table.mean(axis=0) == pytest.approx(MODEL.location_, abs=0.03)
    assert np.cov(table.T) == pytest.approx(S, abs=0.05)
    assert sample(RELEASE, 0).shape == (0, 3)
    with pytest.raises(InvalidParameterError, match="whole number"):
        sample(RELEASE, -1)


def test_whitening_and_partial_correlations():
    w = whitening(RELEASE)
    assert w @ S @ w == pytest.approx(np.eye(3), abs=1e-8)
    precision = np.linalg.inv(S)
    expected = -precision[0, 1] / np.sqrt(precision[0, 0] * precision[1, 1])
    assert partial_correlations(RELEASE)[0, 1] == pytest.approx(expected)


def test_empty_cells_are_filled_by_their_conditional_mean():
    rows = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan], [1.0, 2.0, 3.0]])
    filled = conditional_means(RELEASE, rows)
    known = [0, 2]
    slopes = np.linalg.solve(S[np.ix_(known, known)], S[known, 1])
    offset = rows[0, known] - MODEL.location_[known]
    assert filled[0, 1] == pytest.approx(MODEL.location_[1] + offset @ slopes)
    assert filled[1] == pytest.approx(MODEL.location_)
    assert (filled[2] == rows[2]).all()
    with pytest.raises(InvalidDataError, match="columns of the release"):
        conditional_means(RELEASE, rows[:, :2])


def test_other_releases_and_singular_ones_are_refused():
    components = PrivatePCA(1, rho=1.0, random_state=0).fit(ROWS).release_
    with pytest.raises(InvalidParameterError, match="covariance"):
        whitening(components)
    zero = PrivateCovariance(rho=1.0, mechanism="zero", row_norm=1.0, random_state=0).fit(ROWS)
    with pytest.raises(InvalidDataError, match="singular"):
        partial_correlations(zero.release_)


def test_standard_errors_are_those_of_the_noise():
    """The root mean square of 60 seeded errors, in stated ones, is 1 to within 4 deviations."""
    rng = np.random.default_rng(0)
    rows = rng.normal([10.0, 0.0, 1.0], [1.0, 5.0, 0.2], (4000, 3))
    exact = np.cov(rows.T, bias=True)
    deviation = np.sqrt(exact.diagonal())
    scores = {"means": [], "deviations": [], "correlations": []}
    for seed in range(20):
        estimator = PrivateCovariance(
            epsilon=1.0,
            delta=1e-6,
            mechanism="gauss",
            row_norm=6.0,  # beyond all rows: clipping is no noise
            scale=[1.0, 5.0, 0.2],
            centring="located",
            random_state=seed,
        )
        found = estimator.fit(rows)
        stated = standard_errors(found.release_)
        spread = np.sqrt(found.covariance_.diagonal())
        scores["means"] += list((found.location_ - rows.mean(axis=0)) / stated.means)
        scores["deviations"] += list((spread - deviation) / stated.deviations)
        gap = found.covariance_ / np.outer(spread, spread) - exact / np.outer(deviation, deviation)
        pairs = np.triu_indices(3, 1)
        scores["correlations"] += list(gap[pairs] / stated.correlations[pairs])
        np.testing.assert_array_equal(found.location_noise_, stated.means)
        np.testing.assert_allclose(found.correlation_noise_, stated.correlations)
    for errors in scores.values():
        assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(1.0, abs=4 / np.sqrt(2 * 60))


def test_standard_errors_where_nothing_was_released():
    components = PrivatePCA(1, rho=1.0, random_state=0).fit(ROWS).release_
    with pytest.raises(InvalidParameterError, match="release of a covariance"):
        standard_errors(components)
    pairs = PrivateCovariance(epsilon=1.0, delta=1e-6, centring="paired", random_state=0).fit(ROWS)
    assert np.isnan(standard_errors(pairs.release_).means).all()
    assert np.isnan(pairs.location_noise_).all()


def test_a_covariance_implies_regressions():
    found = regression(RELEASE, 2)
    others = np.delete(ROWS, 2, axis=1)
    expected = np.linalg.lstsq(np.column_stack([others, np.ones(len(ROWS))]), ROWS[:, 2])[0]
    assert found.coefficients[:2] == pytest.approx(expected[:2], abs=0.05)
    assert found.coefficients[2] == 0
    assert found.intercept == pytest.approx(expected[2], abs=0.1)
    for wrong in (3, -1, True, "age"):
        with pytest.raises(InvalidParameterError):
            regression(RELEASE, wrong)


def test_a_regression_is_drawn_to_zero_where_directions_hardly_vary():
    """Two columns that are nearly equal, at a small budget: no huge coefficients that cancel."""
    rng = np.random.default_rng(2)
    first = rng.standard_normal((3000, 1))
    others = first + 1e-3 * rng.standard_normal((3000, 2))
    rows = np.column_stack([others, first + rng.standard_normal((3000, 1))])
    for seed in range(10):
        model = PrivateCovariance(epsilon=1.0, delta=1e-6, scale="same", random_state=seed)
        found = regression(model.fit(rows).release_, 2).coefficients
        error = np.mean((rows @ (np.array([0, 0, 1.0]) - found)) ** 2) / rows[:, 2].var()
        assert error < 0.7  # of the mean: 1; of least squares: .5


def test_noise_does_not_decide_a_regression():
    noise = np.random.default_rng(1).standard_normal((300, 6))
    model = PrivateCovariance(rho=0.001, row_norm=5.0, mechanism="gauss", random_state=0).fit(noise)
    assert not regression(model.release_, 0).coefficients.any()


def test_columns_keep_their_units_in_a_regression():
    units = np.array([1.0, 1000.0, 0.01])
    scaled = PrivateCovariance(rho=100.0, row_norm=12.0, random_state=0, scale=units)
    found = regression(scaled.fit(ROWS * units).release_, 2)
    plain = regression(RELEASE, 2)
    assert found.coefficients * units / units[2] == pytest.approx(plain.coefficients, abs=1e-6)


def test_principal_component_regression_with_all_components_is_regression():
    whole = principal_component_regression(RELEASE, 2, 2)
    # That of all columns is drawn to zero by a ridge of the size of the noise.
    assert whole.coefficients == pytest.approx(regression(RELEASE, 2).coefficients, rel=0.01)
    first = principal_component_regression(RELEASE, 2, 1)
    others = np.linalg.eigh(S[:2, :2])[1][:, -1]
    assert np.abs(first.coefficients[:2] @ others) == pytest.approx(
        np.linalg.norm(first.coefficients)
    )
    assert first.coefficients[2] == 0
    assert first.intercept == pytest.approx(
        MODEL.location_[2] - first.coefficients @ MODEL.location_
    )
    for wrong in (0, 3, True):
        with pytest.raises(InvalidParameterError, match="number of components"):
            principal_component_regression(RELEASE, 2, wrong)


def test_factor_analysis_finds_common_factors():
    """Columns of one factor and noise of their own, at a generous budget."""
    random = np.random.default_rng(3)
    loadings, unique = np.array([2.0, 1.0, -1.0, 0.5]), np.array([1.0, 0.5, 2.0, 0.3])
    factor = random.standard_normal((50_000, 1))
    rows = factor * loadings + random.standard_normal((50_000, 4)) * np.sqrt(unique)
    model = PrivateCovariance(rho=100.0, row_norm=20.0, random_state=0).fit(rows)
    found = factor_analysis(model.release_, 1)
    sign = np.sign(found.loadings[0, 0])
    assert sign * found.loadings[:, 0] == pytest.approx(loadings, abs=0.06)
    assert found.uniquenesses == pytest.approx(unique, abs=0.15)
    assert found.loadings @ found.loadings.T + np.diag(found.uniquenesses) == pytest.approx(
        model.covariance_, abs=0.1
    )
    with pytest.raises(InvalidParameterError, match="number of factors"):
        factor_analysis(model.release_, 4)


def test_what_is_no_partial_correlation_stays_below_its_threshold():
    """Independent columns, 60 releases: each exceeds the 90 % threshold with probability at most
    0.1 or so; more than 17 would have probability 1e-5. A tenth of the threshold is exceeded.
    """
    random = np.random.default_rng(5)
    beyond = tenth = 0
    for seed in range(60):
        rows = random.standard_normal((500, 3)) * [3, 2, 1]
        model = PrivateCovariance(
            epsilon=4.0, delta=1e-6, mechanism="gauss", row_norm=12.0, random_state=seed
        ).fit(rows)
        try:
            partial = np.abs(partial_correlations(model.release_))
        except InvalidDataError:
            continue
        limit = partial_correlation_threshold(model.release_, 0.9)
        pairs = np.triu_indices(3, 1)
        beyond += (partial > limit)[pairs].any()
        tenth += (partial > limit / 10)[pairs].any()
    assert beyond <= 17 < tenth
    with pytest.raises(InvalidParameterError, match="level"):
        partial_correlation_threshold(RELEASE, 1.5)


def test_distances_of_rows_are_those_of_the_estimator():
    assert mahalanobis(RELEASE, ROWS[:9]) == pytest.approx(MODEL.mahalanobis(ROWS[:9]))
    with pytest.raises(InvalidDataError, match="columns"):
        mahalanobis(RELEASE, ROWS[:, :2])
