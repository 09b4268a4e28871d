"""The numbers that pictures show."""

import numpy as np
import pytest

from eigenveil.privacy import Balance
from eigenveil.report import correlations, loadings, spectrum, spending
from tests.release.samples import components, covariance


def of(release):
    return release.settings, release.arrays


def test_the_spectrum_of_components_keeps_the_verdict_of_the_release():
    release = components(np.eye(3), [3, 0.12, 0.05], clear=[1, 0, 0], noise_floor=0.2)
    shown = spectrum("pca", *of(release))
    assert shown.values.tolist() == [3, 0.12, 0.05]
    assert shown.clear.tolist() == [True, False, False]  # the second is the error of the centre
    assert (shown.floor, shown.centre_floor) == (0.1, 0.2)
    assert "variance (squared" in shown.unit


def test_without_lengths_values_are_shares():
    shown = spectrum("pca", *of(components(np.eye(2), [0.6, 0.3], row_norm=None)))
    assert shown.unit == "share of variance of unit rows"


def test_noise_is_judged_by_the_eigenvalues_it_was_added_to():
    matrix = np.diag([1.0, 3.0])
    released = spectrum("covariance", *of(covariance(matrix, noise_floor=2.0)))
    assert released.values == pytest.approx([3, 1])
    assert released.clear.tolist() == [True, False]
    noisy = spectrum("covariance", *of(covariance(matrix, noise_floor=2.0, noisy=[4, 2.5])))
    assert noisy.clear.tolist() == [True, True]


def test_no_floor_no_spectrum():
    assert spectrum("covariance", *of(covariance(np.zeros((2, 2)), noise_floor=0.0))) is None


def test_loadings_are_the_heaviest_with_their_names():
    release = components(
        [[0.1, -0.9, 0.0, 0.4], [1, 0, 0, 0]], [2, 1], feature_names=["a", "b", "c", "d"]
    )
    shown = loadings(*of(release), 0, most=3)
    assert shown.names == ("b", "d", "a")
    assert shown.values.tolist() == [-0.9, 0.4, 0.1]
    assert (shown.component, shown.n_columns) == (0, 4)


def test_columns_that_were_left_out_have_no_loading():
    release = components([[0.6, 0.0, 0.8]], [1], scale=[1, np.inf, 2])
    shown = loadings(*of(release), 0)
    assert shown.names == ("x2", "x0")
    assert shown.n_columns == 2


@pytest.mark.parametrize("d", [30, 1000])
def test_the_reach_of_noise_is_about_its_largest_loading(d):
    """The mean of 400 maxima is known to 2 %; half or twice the reach would be far out."""
    rows = np.random.default_rng(d).standard_normal((400, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    release = components(rows, np.ones(400), reliability=np.zeros(400))
    largest = [float(np.abs(loadings(*of(release), i).values[0])) for i in range(400)]
    assert 0.8 < np.mean(largest) / loadings(*of(release), 0).reach[0] < 1.0


def test_half_a_component_of_noise_reaches_less_far():
    release = components(np.eye(4)[:3], [3, 2, 1], reliability=[1.0, 0.75, 0.0])
    none, quarter, all_of_it = (loadings(*of(release), i).reach[0] for i in range(3))
    assert none == 0
    assert quarter == pytest.approx(all_of_it / 2)


def test_correlations_divide_by_standard_deviations():
    shown = correlations(*of(covariance([[4, 3], [3, 9]])))
    assert shown.values == pytest.approx(np.array([[1, 0.5], [0.5, 1]]))
    assert shown.names == ("x0", "x1")


def test_a_variance_that_is_not_positive_has_no_correlation():
    shown = correlations(*of(covariance([[1, 0.5, 0.2], [0.5, 1, 0], [0.2, 0, -1]])))
    assert np.isnan(shown.values[2]).all()
    assert np.isnan(shown.values[:, 2]).all()
    ((*pair, noise),) = shown.strongest(9)
    assert pair == ["x0", "x1", 0.5]
    assert noise > 0


def test_a_variance_that_may_be_noise_has_no_correlation():
    """Noise of 0.1: twice that has to be exceeded; others vary by that of all three entries."""
    matrix = np.array([[4.0, 1.0, 0.1], [1.0, 1.0, 0.1], [0.1, 0.1, 0.19]])
    shown = correlations(*of(covariance(matrix, noise_scale=0.1)))
    assert np.isnan(shown.values).sum() == np.isnan(shown.noise).sum() == 5
    of_variances = 0.5**2 / 4 * ((0.1 / 4) ** 2 + 0.1**2)
    assert shown.noise[0, 1] == pytest.approx((0.1**2 / 2 / 4 + of_variances) ** 0.5)
    assert shown.noise[0, 0] == 0


def test_wide_tables_show_the_largest_variances_in_the_order_of_the_table():
    release = covariance(np.diag([1.0, 5.0, 0.5, 4.0]), feature_names=list("abcd"))
    shown = correlations(*of(release), most=2)
    assert shown.names == ("b", "d")
    assert shown.columns.tolist() == [1, 3]
    assert shown.n_columns == 4


def test_the_strongest_pairs_come_first_whatever_their_sign():
    matrix = np.array([[1, 0.2, -0.9], [0.2, 1, 0.4], [-0.9, 0.4, 1]])
    shown = correlations(*of(covariance(matrix)))
    assert [pair[:2] for pair in shown.strongest(2)] == [("x0", "x2"), ("x1", "x2")]


@pytest.mark.parametrize("now", [None, Balance("epsilon", 2.0, 2.5, 3.0, 1e-6)])
def test_the_parts_of_a_budget_sum_to_it(now):
    parts = spending(Balance("epsilon", 0.5, 1.25, 3.0, 1e-6), now)
    assert sum(amount for _, amount in parts) == pytest.approx(3.0)
    assert dict(parts)["this release"] == 0.75
    assert ("spent since" in dict(parts)) == (now is not None)


def test_rounding_never_leaves_less_than_nothing():
    assert dict(spending(Balance("rho", 0.0, 1.0000000001, 1.0)))["not spent"] == 0.0
