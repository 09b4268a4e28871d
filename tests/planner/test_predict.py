"""Predictions against the estimators on tables as assumed, and against closed forms."""

import math
import re
import sys
from dataclasses import replace

import numpy as np
import pytest

from eigenveil import PrivateCovariance, PrivatePCA
from eigenveil.exceptions import EigenveilError, InvalidParameterError
from eigenveil.mechanisms import entries
from eigenveil.numerics import captured_variance, relative_error
from eigenveil.planning import (
    Choice,
    Situation,
    choose,
    needed_epsilon,
    needed_rows,
    predict,
    predictions,
    recommend,
    spiked,
)
from eigenveil.privacy import Budget, Gaussian, strength
from eigenveil.text import rounded_up
from tests.planner.few import few_simulations

APPROXIMATE, PURE = Budget(epsilon=2.0, delta=1e-6), Budget(epsilon=4.0)


@pytest.fixture
def few_runs():
    with few_simulations():
        yield


def components(n=2000, d=15, k=2, budget=APPROXIMATE, **others):
    return Situation(task="pca", n=n, d=d, k=k, budget=budget, **others)


def matrix(n=2000, d=15, budget=APPROXIMATE, **others):
    return Situation(task="covariance", n=n, d=d, budget=budget, row_norm=1.0, **others)


def free(n=2000, d=15, budget=APPROXIMATE, **others):
    """A covariance without bounds."""
    return Situation(task="covariance", n=n, d=d, budget=budget, **others)


def measured(situation, mechanism, repeats):
    """Mean error of releases from fresh tables."""
    errors = []
    for seed in range(repeats):
        rng = np.random.default_rng([seed, situation.d])
        rows = rng.standard_normal((situation.n, situation.d)) * np.sqrt(situation.eigenvalues)
        rotation, _ = np.linalg.qr(rng.standard_normal((situation.d, situation.d)))
        if situation.row_norm is not None:
            rows *= situation.row_norm * situation.assumed_spread
        rows = rows @ rotation
        options = situation.budget.as_dict() | {
            "mechanism": mechanism,
            "row_norm": "private" if situation.private_radius else situation.row_norm,
            "centring": "none" if situation.assume_centered else None,
            "adjacency": situation.adjacency.value,
            "random_state": seed,
        }
        truth = np.cov(rows.T, bias=True)
        if situation.task == "pca":
            found = PrivatePCA(situation.k, **options).fit(rows).components_
            errors.append(1 - captured_variance(found, truth))
        else:
            found = PrivateCovariance(**options).fit(rows).covariance_
            errors.append(relative_error(found, truth))
    return float(np.mean(errors))


@pytest.mark.filterwarnings("ignore::eigenveil.exceptions.ColumnsLeftOutWarning")
@pytest.mark.parametrize(
    ("situation", "mechanism"),
    [
        (components(spectrum="steep"), "tangent"),
        pytest.param(
            components(d=100, n=5000, k=3, spectrum=spiked(3, 20.0)),
            "tangent",
            marks=pytest.mark.audit,
        ),
        (components(), "spherical"),
        (components(n=300), "spherical"),  # differences of pairs
        pytest.param(components(adjacency="add-remove"), "spherical", marks=pytest.mark.audit),
        (components(d=120, n=4000, k=3), "spherical"),  # more columns than are simulated
        (components(row_norm=1.0, spread=0.8), "analyze-gauss"),
        pytest.param(
            components(row_norm=1.0, spread=2.0), "analyze-gauss", marks=pytest.mark.audit
        ),  # most rows are clipped
        (components(n=5000), "oja"),
        pytest.param(
            components(n=20_000, row_norm=1.0, spread=0.8), "oja", marks=pytest.mark.audit
        ),
        (components(n=1500, d=8), "oja"),
        pytest.param(
            components(n=10_000, d=250, spectrum=spiked(2, 40.0)), "oja", marks=pytest.mark.audit
        ),  # more than are simulated
        (components(n=5000, spectrum="steep"), "adaptive-oja"),
        (components(n=20_000, k=3, spectrum=spiked(3, 20.0)), "tangent-oja"),
        (components(budget=PURE), "wishart"),
        (components(budget=PURE, k=1), "exponential"),
        pytest.param(components(budget=PURE, row_norm=1.0), "laplace", marks=pytest.mark.audit),
        (matrix(), "cleaned"),
        (matrix(spread=1.5, assume_centered=True), "cleaned"),
        pytest.param(matrix(adjacency="add-remove"), "cleaned", marks=pytest.mark.audit),
        (matrix(n=150, d=3, adjacency="add-remove", assume_centered=True), "gauss"),
        pytest.param(matrix(d=120, n=4000), "cleaned", marks=pytest.mark.audit),
        (matrix(spread=0.2), "adaptive-cleaned"),
        (matrix(spectrum="flat"), "gauss"),
        pytest.param(matrix(), "projection", marks=pytest.mark.audit),
        (matrix(), "separate"),
        (matrix(), "coinpress"),
        (matrix(spread=0.3), "adaptive"),
        (matrix(budget=PURE), "wishart"),
        pytest.param(matrix(budget=PURE, assume_centered=True), "wishart", marks=pytest.mark.audit),
        (matrix(budget=PURE), "laplace"),
        pytest.param(matrix(n=500, d=8), "exponential", marks=pytest.mark.audit),
        (free(), "elliptical"),
        pytest.param(free(adjacency="add-remove"), "elliptical", marks=pytest.mark.audit),
        pytest.param(free(n=4000, d=120), "elliptical", marks=pytest.mark.audit),
        pytest.param(free(spectrum="flat"), "elliptical", marks=pytest.mark.audit),
        (free(budget=PURE, private_radius=True), "wishart"),
        (free(n=400, d=30), "elliptical"),  # no variance stands out
    ],
    ids=lambda part: part if isinstance(part, str) else f"{part.task}-{part.n}x{part.d}",
)
@pytest.mark.filterwarnings("ignore::eigenveil.exceptions.WholeTurnsWarning")
def test_predictions_are_near_what_estimators_do(situation, mechanism):
    """Within a factor of 1.5; the means of eight releases vary by 5 to 15 %."""
    found = predict(situation, mechanism)
    assert found.error == pytest.approx(measured(situation, mechanism, 8), rel=0.5)
    assert found.low <= found.error <= found.high
    assert found.measure == situation.measure
    assert sum(dict(found.shares).values()) == pytest.approx(1)


def test_gauss_has_the_error_of_its_noise():
    """Scale s = sqrt(2)/(n mu) on d(d+1)/2 isotropic entries, about a known centre."""
    situation = matrix(spread=0.1, assume_centered=True)  # no row is clipped
    mu = strength(situation.budget, Gaussian, "gauss")
    scale = math.sqrt(2) / (2000 * mu)
    energy = float(situation.eigenvalues @ situation.eigenvalues)
    norm = 0.01 * math.sqrt(energy + (energy + 1) / 2000)
    found = predict(situation, "gauss")
    assert found.how == "simulation"  # forty of them, each within 6.5 %: five standard errors
    assert found.error == pytest.approx(scale * math.sqrt(15 * 16 / 2) / norm, rel=0.05)


def test_the_same_question_has_the_same_answer():
    asked = components(n=1234)
    assert predict(asked, "spherical") == predict(replace(asked), "spherical")


@pytest.mark.parametrize("situation", [components(), matrix()], ids=["pca", "covariance"])
def test_every_mechanism_but_the_model_based_one_is_listed(situation, few_runs):
    found = predictions(situation)
    names = {one.name for one in entries(situation.releases)}
    assert {one.mechanism for one in found} == names - {"spiked", "correlation"}
    errors = [math.inf if one.error is None else one.error for one in found]
    assert errors == sorted(errors)
    assert all((one.error is None) == bool(one.why) for one in found)


def test_wide_tables_at_small_budgets_are_drowned(few_runs):
    """Thresholds far below the length of rows leave the simulated directions a trace."""
    wide = matrix(n=1000, d=200, budget=Budget(epsilon=0.5), spectrum="flat")
    assert all(one.error is None or one.error > 0.5 for one in predictions(wide))


def why(situation, mechanism):
    found = predict(situation, mechanism)
    assert found.error is found.low is found.high is None
    assert "\n" not in found.why
    return found.why


def test_what_cannot_serve_says_why(few_runs):
    assert "pure" in why(components(budget=PURE), "tangent")
    assert "pure" in why(matrix(budget=PURE), "cleaned")
    assert "row_norm" in why(components(row_norm=1.0), "spherical")
    assert "bounds" in why(replace(matrix(), row_norm=None), "gauss")
    assert "too few rows" in why(replace(matrix(n=100), row_norm=None), "elliptical")
    assert "30,000 x 30,000" in why(matrix(d=30_000), "cleaned")
    assert "30,000 x 30,000" in why(components(d=30_000, budget=PURE), "wishart")
    assert predict(components(d=30_000, n=10**6), "tangent").error > 0  # no matrix is formed
    assert "number of rows" in why(replace(matrix(), n=None), "gauss")
    assert "delta" in why(components(budget=Budget(rho=0.5)), "gap-projector")
    assert predict(components(spectrum="flat"), "gap-projector").error == 1  # no gap is found
    assert predict(components(k=1, spectrum="steep", n=20_000), "gap-projector").error is not None
    with pytest.raises(InvalidParameterError, match="tangent"):
        predict(components(), "spiked")


@pytest.mark.parametrize("name", ["oja", "adaptive-oja", "tangent-oja"])
def test_batches_that_cannot_be_formed(name, few_runs):
    assert "pure" in why(components(budget=PURE), name)
    assert "replace-one" in why(components(adjacency="add-remove"), name)
    assert "person" in why(components(unit="person"), name)
    assert "200,000 x 4,020" in why(components(d=200_000, k=1000, n=10**6), name)
    assert predict(components(d=30_000, n=10**6), name).error > 0  # no matrix is formed
    few = components(n=150, d=40, assume_centered=True)
    enough = int(re.search(r"needs (\d+) records", why(few, name))[1])
    assert predict(replace(few, n=enough), name).error is not None
    assert not predict(replace(few, n=enough - 1), name).serves


@pytest.mark.parametrize("name", ["dp-pca", "deflation", "shuffled-oja"])
def test_methods_of_the_papers_are_refused_where_the_estimator_refuses_them(name):
    one = {"n": 300_000, "d": 10, "k": 1, "assume_centered": True}
    assert "'oja'" in why(components(**one), name)
    assert predict(components(**one), name).serves
    assert predict(components(**one | {"k": 2, "n": 600_000}), name).serves == (name == "deflation")
    for other in ({"budget": PURE}, {"budget": Budget(rho=0.5)}, {"adjacency": "add-remove"}):
        assert not predict(components(**one | other), name).serves
    assert "delta" in why(components(**one | {"budget": Budget(rho=0.5)}), name)
    few = components(**one | {"n": 20})
    enough = int(re.search(r"needs (\d+)", why(few, name))[1])
    assert predict(replace(few, n=enough), name).serves
    assert not predict(replace(few, n=enough - 1), name).serves
    with pytest.raises(EigenveilError, match="records"):
        PrivatePCA(1, mechanism=name, centring="none", random_state=0, **few.budget.as_dict()).fit(
            np.ones((enough - 1, 10))
        )


def test_the_sample_of_a_batch_stands_for_all_of_it():
    """Without noise to speak of, what is left is the sampling error of n rows, not of a sample.

    Unit rows of a flat spectrum: the last batch has half of the rows, three quarters of the weight.
    """
    few, many = (
        components(n=n, d=10, spectrum=spiked(2, 9.0), budget=Budget(rho=1e5), assume_centered=True)
        for n in (20_000, 2_000_000)
    )
    ratio = predict(few, "oja").error / predict(many, "oja").error
    assert ratio == pytest.approx(100, rel=0.5)


def test_a_recommendation_is_the_choice_among_all(few_runs):
    found = recommend(matrix())
    assert found.mechanism == found.prediction.mechanism == choose(matrix()).mechanism
    assert found.prediction in found.predictions
    assert found.prediction.error <= 1.5 * found.predictions[0].error


def test_budget_and_rows_for_a_wanted_error(monkeypatch):
    few = [one for one in entries("components") if one.name in ("tangent", "spherical")]
    monkeypatch.setattr(sys.modules[recommend.__module__], "entries", lambda releases: few)
    asked = components()
    with few_simulations(16):
        epsilon = needed_epsilon(asked, 0.02)
        enough, less = (
            replace(asked, budget=Budget(epsilon=part * epsilon.value, delta=1e-6))
            for part in (1, 0.8)
        )
        # Rounded up to three digits, between two of which simulations are not monotone.
        assert predict(enough, epsilon.mechanism).error <= 0.021 < predict(less, "tangent").error
        rows = needed_rows(asked, 0.02)
        assert predict(replace(asked, n=int(rows.value)), rows.mechanism).error <= 0.02
        assert predict(replace(asked, n=int(rows.value * 0.8)), rows.mechanism).error > 0.02
    assert str(int(rows.value)) in rows.words.replace(",", "")


def test_a_wanted_error_in_rho(few_runs):
    rho = needed_epsilon(matrix(n=500, d=4, budget=Budget(rho=1.0)), 0.2)
    assert rho.words.startswith("rho")
    assert 0 < rho.value < 1


def test_what_no_budget_can_buy_is_called_impossible(few_runs):
    """Clipping shrinks variances, whatever the budget; without a bound nothing is clipped."""
    clipped = matrix(spread=3.0)
    found = needed_epsilon(clipped, 0.05)
    assert found.value is None
    assert found.words.startswith("impossible")
    with pytest.raises(InvalidParameterError):
        needed_rows(clipped, 0.0)
    assert needed_rows(replace(clipped, row_norm=None), 0.2).value < 10_000


@pytest.mark.parametrize("budget", [APPROXIMATE, PURE], ids=str)
@pytest.mark.parametrize("d", [15, pytest.param(20_000, marks=pytest.mark.audit)])
def test_all_directions_lose_nothing(d, budget):
    every = components(n=max(2000, d), d=d, k=d, budget=budget)
    found = recommend(every).prediction
    assert found.error == found.low == found.high == found.distance == 0
    assert found.how == "closed form"
    for answer in (needed_epsilon(every, 0.1), needed_rows(every, 0.1)):
        assert answer.words.endswith("up: all directions are released: nothing can be lost")


@pytest.mark.parametrize("mechanism", ["tangent", "spherical", "gap-projector"])
def test_all_directions_but_one_lose_something(mechanism):
    """Of 80 that are simulated, 79 are components, although 79.6 would be rounded up."""
    found = predict(components(d=200, k=199), mechanism)
    assert found.error > 0


def test_an_error_that_the_least_reaches(few_runs):
    easy = components()
    epsilon, rows = needed_epsilon(easy, 0.95), needed_rows(easy, 0.95)
    assert epsilon.value == 1e-4
    assert epsilon.words.startswith("any epsilon from 0.0001 up")
    assert rows.value == 2
    assert rows.words.startswith("any number of rows from 2 up")


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(1e-4, 1e-4), (0.3, 0.3), (0.3001, 0.301), (0.99951, 1.0), (123.4, 124.0), (1e4, 1e4)],
)
def test_three_digits_up(value, wanted):
    assert rounded_up(value) == wanted


@pytest.mark.parametrize("task", ["pca", "covariance"])
def test_a_private_radius_is_predicted_too(task):
    """In units of what rows vary by: an assumed spread only moves it within half an octave."""
    k = 2 if task == "pca" else None
    common = {"budget": APPROXIMATE, "private_radius": True, "spread": 1.0}
    bought = Situation(task=task, n=2000, d=15, k=k, **common)
    name = "analyze-gauss" if task == "pca" else "cleaned"
    found = predict(bought, name)
    assert found.error == pytest.approx(measured(bought, name, 8), rel=0.5)
    assert "radius" in dict(found.shares)
    wide = predict(replace(bought, spread=2.0**-7), name)
    assert wide.error == pytest.approx(found.error, rel=0.5)
    if task == "pca":
        assert not predict(bought, "tangent").serves


@pytest.mark.parametrize(
    ("asked", "unit_rows", "standardised"),
    [
        (components(), True, False),
        (components(n=50_000), False, False),
        (components(private_scale=True), False, True),
    ],
    ids=["unit rows", "clipped rows", "standardised columns"],
)
def test_a_plan_says_what_is_estimated(asked, unit_rows, standardised, few_runs):
    found = recommend(asked)
    assert (found.unit_rows, found.standardised) == (unit_rows, standardised)


def test_what_is_chosen_for_a_generous_budget_is_predicted_as_it_is_released(few_runs):
    """Rows clipped at a private radius, not unit rows."""
    generous = components(n=50_000)
    assert choose(generous).private_radius
    found = recommend(generous)
    assert "radius" in dict(found.prediction.shares)
    assert found.prediction in found.predictions


def test_a_private_number_of_rows_leaves_a_choice():
    found = recommend(components(n=None, adjacency="add-remove"))
    assert found.mechanism == "tangent"
    assert "number of rows" in found.prediction.why
    assert found.prediction.serves


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(components(n=10_000, d=100_000, k=5000), marks=pytest.mark.audit),
        matrix(d=100_000),
        pytest.param(components(d=100_000, budget=PURE), marks=pytest.mark.audit),
        pytest.param(matrix(d=100_000, budget=PURE), marks=pytest.mark.audit),
    ],
    ids=str,
)
def test_where_nothing_serves_nothing_is_recommended(asked, few_runs):
    for question in (recommend, lambda s: needed_epsilon(s, 0.1), lambda s: needed_rows(s, 0.1)):
        with pytest.raises(InvalidParameterError, match=r"no mechanism .* fewer columns"):
            question(asked)


def test_what_is_recommended_serves(monkeypatch, few_runs):
    """Where the rule's choice does not, the best that does; never the zero matrix."""
    for chosen, asked in (("tangent", components(row_norm=1.0)), ("cleaned", matrix(budget=PURE))):
        choice = Choice(mechanism=chosen, reason="")
        monkeypatch.setattr(sys.modules[recommend.__module__], "choose", lambda s, c=choice: c)
        found = recommend(asked)
        assert found.prediction.serves
        assert found.mechanism == found.prediction.mechanism
        assert repr(chosen) in found.reason
    few = [one for one in entries("covariance") if one.name in ("cleaned", "zero")]
    monkeypatch.setattr(sys.modules[recommend.__module__], "entries", lambda releases: few)
    with pytest.raises(InvalidParameterError, match="no mechanism"):
        recommend(matrix(budget=PURE))


def test_no_more_than_everything_is_lost(few_runs):
    drowned = Situation(task="pca", n=50, d=30, k=2, budget=Budget(epsilon=0.1, delta=1e-6))
    for one in predictions(drowned):
        assert one.error is None or one.error <= one.high <= 1
