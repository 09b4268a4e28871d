"""A covariance of which neither units nor bounds are stated, where no Gaussian noise serves it."""

import numpy as np
import pytest

from eigenveil import PrivateCovariance
from eigenveil.exceptions import (
    ColumnsLeftOutWarning,
    EigenveilError,
    TooFewRowsError,
    UnsupportedNotionError,
)
from eigenveil.planning import Situation, default_scale_share, recommend
from eigenveil.privacy import Budget, Ledger

UNITS = 10.0 ** np.arange(4)
GAUSSIAN = {"epsilon": 1.0, "delta": 1e-6}
ADD = {"adjacency": "add-remove"}


def table(n=6000):
    return np.random.default_rng(0).standard_normal((n, 4)) * UNITS


def fitted(rows, **options):
    return PrivateCovariance(**{"epsilon": 4.0, "random_state": 0} | options).fit(rows)


def test_a_pure_default_finds_scales():
    found = fitted(table())
    assert found.mechanism_ == "wishart"
    assert found.shares_["scale"] > 0
    assert found.covariance_.diagonal() == pytest.approx(UNITS**2, rel=0.3)
    assert np.array_equal(found.covariance_, fitted(table(), scale="private").covariance_)


@pytest.mark.parametrize(
    "stated",
    [{"scale": "same"}, {"scale": UNITS}, {"row_norm": 1e4}, {"bounds": (-1e4, 1e4)}],
    ids=str,
)
def test_a_pure_budget_buys_no_scales_where_units_or_bounds_are_stated(stated):
    assert "scale" not in fitted(table(), **stated).shares_


def test_columns_of_one_unit_are_clipped_at_a_private_radius():
    same = fitted(table(), scale="same")
    assert np.array_equal(same.covariance_, fitted(table(), row_norm="private").covariance_)


def test_few_rows_have_no_centre_at_a_pure_epsilon():
    """In private scales it may lie thousands away, so that a search for it needs many rows."""
    rows = table() + 1000 * UNITS
    assert np.isnan(fitted(rows, epsilon=2.0).location_).all()
    assert np.isfinite(fitted(rows, epsilon=20.0).location_).all()
    assert np.isfinite(fitted(rows, epsilon=2.0, scale=UNITS).location_).all()


def test_variances_that_noise_hides_are_zero_at_a_pure_epsilon():
    """Rows clipped as far out as this have more noise than variance."""
    with pytest.warns(ColumnsLeftOutWarning, match="x0, x1, x2, x3"):
        found = fitted(table(), mechanism="laplace", scale="private", row_norm=200.0)
    assert np.isfinite(found.scale_).all()
    assert not found.covariance_.any()
    hidden = "variances that noise hides are zero: x0, x1, x2, x3"
    assert any(hidden in one for one in found.privacy_.bounds)


def test_one_column_needs_no_scale():
    assert "scale" not in fitted(table()[:, :1]).shares_
    assert "scale" not in fitted(table()[:, :1], **GAUSSIAN, **ADD).shares_


def refused(tmp_path, rows, error, **options):
    ledger = Ledger.create(tmp_path / "a.ledger", epsilon=9.0, delta=1e-5, **ADD)
    with pytest.raises(error) as caught:
        PrivateCovariance(**options, ledger=ledger).fit(rows)
    assert ledger.entries == ()
    return caught.value


def test_too_few_rows_for_pure_scales_are_refused_before_the_charge(tmp_path):
    error = refused(tmp_path, table(400), TooFewRowsError, epsilon=1.0)
    assert "state scale='same' if all columns share one unit, or state scale or bounds" in str(
        error
    )
    assert "state --scale same if all columns share one unit" in error.said("shell")


def test_mixed_units_with_a_private_count_are_refused_at_a_pure_epsilon(tmp_path):
    error = refused(tmp_path, table(), UnsupportedNotionError, epsilon=1.0, **ADD)
    assert "state scale='same' if all columns share one unit" in str(error)
    assert "adjacency='replace-one'" in str(error)
    for budget in (GAUSSIAN, {"epsilon": 1.0}):
        assert fitted(table(), **budget, **ADD, scale="same").n_samples_ is None


def situation(n, **options):
    budget = {"budget": Budget(epsilon=4.0)} | options
    return Situation(task="covariance", n=n, d=4, **budget)


def test_a_plan_says_what_a_fit_does():
    planned = recommend(situation(6000))
    assert dict(planned.prediction.shares) == fitted(table()).shares_
    share = default_scale_share(situation(6000), planned.mechanism)
    assert share == pytest.approx(fitted(table()).shares_["scale"])
    assert default_scale_share(situation(6000, same_units=True), "wishart") == share
    assert default_scale_share(situation(6000, private_radius=True), "wishart") is None


@pytest.mark.parametrize(
    ("planned", "options"),
    [
        (situation(100), {"epsilon": 4.0}),
        (situation(6000, **ADD), {"epsilon": 4.0, **ADD}),
    ],
    ids=["few rows", "private count"],
)
def test_a_plan_is_refused_where_a_fit_is(planned, options):
    with pytest.raises(EigenveilError) as fit:
        PrivateCovariance(**options).fit(table(planned.n))
    with pytest.raises(EigenveilError) as plan:
        recommend(planned)
    assert str(fit.value) in str(plan.value)
