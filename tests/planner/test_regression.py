"""Predictions of regressions against the estimator, and what a wanted error needs."""

from dataclasses import replace

import numpy as np
import pytest

from eigenveil import PrivateRegression
from eigenveil.exceptions import InvalidParameterError, TooFewRowsError
from eigenveil.planning import (
    RegressionPlan,
    RegressionSituation,
    needed_regression_epsilon,
    needed_regression_rows,
)
from eigenveil.planning import predict_regression as regression
from eigenveil.planning.predict_regression import predict_regression
from eigenveil.privacy import Adjacency, Budget

BUDGET = Budget(epsilon=1.0, delta=1e-6)
ASKED = RegressionSituation(n=4000, p=4, budget=BUDGET)


@pytest.fixture
def few_runs(monkeypatch):
    """Two releases from small tables: how errors are found, not how large they are."""
    predicted = regression.predict_regression
    monkeypatch.setattr(regression, "predict_regression", lambda s, runs=0: predicted(s, runs=2))
    monkeypatch.setattr(regression, "_ROWS", 300)


def measured(situation, seeds):
    """Median error of releases from fresh tables, with other seeds than the planner's."""
    errors = []
    for seed in seeds:
        random = np.random.default_rng(seed)
        rows = random.standard_normal((situation.n, situation.p)) * 3 + 1
        slopes = random.standard_normal(situation.p)
        slopes *= np.sqrt(situation.r2) / np.linalg.norm(slopes)
        noise = np.sqrt(1 - situation.r2) * random.standard_normal(situation.n)
        target = (rows - 1) / 3 @ slopes + noise
        model = PrivateRegression(**situation.budget.as_dict(), random_state=seed)
        model.fit(rows, target)
        off = 3 * model.coef_ - slopes
        errors.append(off @ off + (model.intercept_ + model.coef_.sum()) ** 2)
    return float(np.median(errors))


def test_predictions_are_those_of_the_estimator():
    """Fixed seeds: medians of 16 and of 16 releases; factors of 2 and more would be wrong."""
    found = predict_regression(ASKED, runs=16)
    assert 1 / 2 < found.error / measured(ASKED, range(100, 116)) < 2
    assert found.low <= found.error <= found.high
    assert sum(share for _, share in found.shares) == pytest.approx(1.0)
    assert predict_regression(ASKED, runs=16) == found


def test_a_large_table_is_stood_for_by_a_small_one_of_the_same_noise():
    large = replace(ASKED, n=200_000, budget=Budget(epsilon=0.05, delta=1e-8))
    assert large.simulated_rows == 10_000
    assert predict_regression(large, runs=4).error < 0.5 * large.r2


def test_too_small_tables_are_refused_or_have_a_mean_alone():
    tiny = predict_regression(replace(ASKED, n=50))
    assert isinstance(tiny.refusal, TooFewRowsError)
    small = predict_regression(replace(ASKED, n=400), runs=4)
    assert small.error == pytest.approx(0.5, rel=0.02)
    assert "only the mean" in small.why
    ranged = predict_regression(replace(ASKED, n=200, ranged=True), runs=4)
    assert ranged.error is not None


def test_a_mean_alone_is_stood_for_by_one_of_the_same_n_epsilon():
    """200,000 rows at epsilon = 0.002 have 400 times as many: n mu alone would say 90."""
    large = replace(ASKED, n=200_000, p=40, budget=Budget(epsilon=0.002, delta=1e-8))
    stood = RegressionPlan(request=large.request())
    real = RegressionPlan(
        request=replace(large.request(), n_rows=200_000, budget=large.budget),
    )
    assert stood.means_alone
    assert stood.request.n_rows == 10_000
    assert 10_000 * stood.pure_part == pytest.approx(200_000 * real.pure_part, rel=0.01)
    assert 10_000 * stood.whole.mu == pytest.approx(200_000 * real.whole.mu, rel=0.01)
    assert predict_regression(large, runs=4).error == pytest.approx(0.5, rel=0.02)


def test_correlated_features_make_noise_worse():
    """Fixed seeds, 16 releases each: three times the error, and no less than 1.3 times."""
    plain, close = (
        predict_regression(replace(ASKED, correlation=c), runs=16).error for c in (0.0, 0.8)
    )
    assert close > 1.3 * plain
    with pytest.raises(InvalidParameterError, match="correlation"):
        replace(ASKED, correlation=1.0)


@pytest.mark.parametrize(
    "others",
    [
        {"adjacency": Adjacency.ADD_REMOVE},
        {"budget": Budget(epsilon=8.0)},
        {"budget": Budget(rho=0.5)},
        {"scaled": True},
    ],
    ids=str,
)
def test_other_budgets_and_neighbours_are_predicted_too(others):
    assert 0 < predict_regression(replace(ASKED, **others), runs=2).error < 0.5


@pytest.mark.usefixtures("few_runs")
def test_what_an_error_needs():
    more = needed_regression_epsilon(ASKED, 0.05)
    assert 0.05 < more.value < 5
    rows = needed_regression_rows(ASKED, 0.05)
    assert 200 < rows.value < 20_000
    for wrong in (0.0, 1.0, 0.6):
        with pytest.raises(InvalidParameterError, match="error must"):
            needed_regression_epsilon(ASKED, wrong)
    with pytest.raises(InvalidParameterError, match="r2, the assumed"):
        replace(ASKED, r2=1.0)
