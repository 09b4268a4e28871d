"""Running second moments: what a row costs over all days, and the noise of every day."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chi2

import eigenveil.exact
from eigenveil.exact import (
    COEFFICIENT_BITS,
    Clip,
    DailyMoments,
    answer_weights,
    coefficients,
    contributions,
    day_sensitivity,
    packed,
    unpacked,
)
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms import ContinualCov, DailyDraw, DailyGate
from eigenveil.numerics import SimulationSource
from eigenveil.privacy import Adjacency, Composed, Gaussian, covers, rho_of
from tests.conformance import case

D = 3
CLIP = Clip(row_norm=4.0)


def opened(plan, *, seed=0, adjacency=Adjacency.REPLACE_ONE):
    return DailyGate(
        plan.cost(), label="x", adjacency=adjacency, ledger=None, noise=SimulationSource(seed)
    )


def days_of(n, d=D, rows=5, seed=0):
    random = np.random.default_rng(seed)
    return [random.standard_normal((rows, d)) for _ in range(n)]


def released(plan, days, gate):
    """The exact sums of all days so far, and what was released of them, day by day."""
    moments = DailyMoments.none(days[0].shape[1])
    drawn = []
    for day in days:
        moments = moments.and_then(eigenveil.open_rows(day), CLIP)
        drawn.append(packed(plan.draw(moments, gate).matrix))
    return moments, np.array(drawn)


@pytest.mark.parametrize("horizon", [1, 2, 30, 365, 3650])
def test_factors_give_running_sums(horizon):
    """Their product is the triangle of ones; and noise is what the square root has, within 1e-4."""
    ratios, weights = coefficients(horizon) / 2.0**COEFFICIENT_BITS, answer_weights(horizon)
    assert np.allclose(np.convolve(ratios, weights)[:horizon], 1.0, rtol=0, atol=1e-9)
    assert (np.diff(coefficients(horizon)) <= 0).all()
    assert coefficients(horizon)[-1] > 0
    exact = np.cumprod([1.0, *((2 * j - 1) / (2 * j) for j in range(1, horizon))])
    noise = np.linalg.norm(ratios) * np.linalg.norm(weights)
    assert noise == pytest.approx(float(exact @ exact), rel=1e-4)
    assert noise <= {365: 2.945, 3650: 3.68}.get(horizon, 4.0)


@pytest.mark.parametrize(("horizon", "days"), [(7, 1), (7, 2), (7, 3), (9, 5), (6, 6)])
def test_no_choice_of_days_moves_sums_further_than_the_first(horizon, days):
    kernel = coefficients(horizon).tolist()
    columns = [[0] * s + kernel[: horizon - s] for s in range(horizon)]
    choices = (c for m in range(1, days + 1) for c in combinations(range(horizon), m))
    most = max(
        sum(sum(columns[s][t] for s in chosen) ** 2 for t in range(horizon)) for chosen in choices
    )
    moved, root = contributions(horizon, days)
    assert sum(int(each) ** 2 for each in moved) == most
    assert math.sqrt(most) < root < math.sqrt(most) * (1 + 1e-11)


@pytest.mark.parametrize("days", [1, 4])
def test_all_days_together_cost_what_is_declared(days):
    plan = ContinualCov(mu=0.7, horizon=40, days=days)
    costs = [DailyDraw(plan, day).cost() for day in range(40)]
    assert covers(plan.cost(), Composed(tuple(costs)))
    assert rho_of(Composed(tuple(costs))) == pytest.approx(0.7**2 / 2, rel=1e-9)
    assert not covers(plan.cost(), Composed((*costs, Gaussian(1e-4))))


def test_days_come_in_order_once_and_within_the_horizon():
    plan = ContinualCov(mu=1.0, horizon=3)
    gate = opened(plan)
    moments, _ = released(plan, days_of(2), gate)
    with pytest.raises(InvalidParameterError, match="in the order of days"):
        plan.draw(moments, gate)  # the second day again
    late = moments.and_then(eigenveil.open_rows(np.ones((1, D))), CLIP)
    plan.draw(late, gate)
    with pytest.raises(InvalidParameterError, match="within the horizon"):
        plan.draw(late.and_then(eigenveil.open_rows(np.ones((1, D))), CLIP), gate)
    with pytest.raises(InvalidParameterError, match="at least 1 day"):
        ContinualCov(mu=1.0, horizon=3, days=4)


def test_the_noise_of_every_day_is_the_stated_one():
    """Two-sided tests at 1e-6 each of three days; 10 % more or less would be rejected."""
    d, horizon, runs = 20, 12, 40
    plan = ContinualCov(mu=0.5, horizon=horizon)
    days = days_of(horizon, d, rows=2)
    squares = dict.fromkeys((1, 6, 12), 0.0)
    for seed in range(runs):
        moments, drawn = released(plan, days, opened(plan, seed=seed))
        for day in squares:
            sums = unpacked(moments.sums[:day].sum(axis=0)) * 2.0**-22
            gap = unpacked(plan.weights(day) @ drawn[:day]) - sums
            scale = plan.noise(day) * day_sensitivity(d, Adjacency.REPLACE_ONE)
            squares[day] += float((gap**2).sum()) / scale**2
    freedom = runs * d * (d + 1) // 2
    low, high = chi2.ppf([5e-7, 1 - 5e-7], freedom)
    assert all(low <= square <= high for square in squares.values())
    assert freedom * 0.9**2 < low
    assert freedom * 1.1**2 > high


def test_a_single_day_has_the_noise_of_a_single_release():
    plan = ContinualCov(mu=0.5, horizon=1)
    assert plan.noise(1) == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize("arrival", [0, 1, 4])
def test_a_row_moves_all_days_together_by_what_is_declared(arrival):
    """Orthogonal rows replaced where they arrived: attained on the first day, less later."""
    horizon = 5
    plan = ContinualCov(mu=1.0, horizon=horizon)
    squares = 0.0
    streams = []
    for row in ([4.0, 0.0, 0.0], [0.0, 4.0, 0.0]):
        days = days_of(horizon)
        days[arrival] = np.vstack([days[arrival], row])
        moments, queries = DailyMoments.none(D), []
        for day in days:
            moments = moments.and_then(eigenveil.open_rows(day), CLIP)
            queries.append(moments.weighted(horizon, 1, Adjacency.REPLACE_ONE))
        streams.append(queries)
    for t, (one, other) in enumerate(zip(*streams, strict=True)):
        gap = np.linalg.norm(one.value.to_float() - other.value.to_float())
        assert gap <= one.sensitivity("frobenius")
        assert (gap > 0) == (t >= arrival)
        squares += gap**2
    most = day_sensitivity(D, Adjacency.REPLACE_ONE) / plan.daily_mu
    assert math.sqrt(squares) <= most
    assert (math.sqrt(squares) > 0.999 * most) == (arrival == 0)


def test_second_moments_of_days_are_exact_to_their_grid():
    rows = days_of(1, rows=200)[0]
    day = DailyMoments.none(D).and_then(eigenveil.open_rows(rows), CLIP)
    whole = eigenveil.exact.second_moment(eigenveil.open_rows(rows), CLIP, case.REPLACE)
    gap = whole.value.to_float() - unpacked(day.sums[0]) * 2.0**-22
    assert (gap >= 0).all()
    assert (gap < 2.0**-22).all()
    assert np.array_equal(
        day.sums, DailyMoments.none(D).and_then(eigenveil.open_rows(rows[::-1]), CLIP).sums
    )


def on_days(n_days, horizon=3):
    """The rows of a case come on the first so many days, and nothing later."""

    def moments(rows, days):
        found = DailyMoments.none(rows.shape[1])
        for day in range(days):
            some = case.open_rows(rows) if day < n_days else eigenveil.open_rows(rows[:0])
            found = found.and_then(some, case.CLIP)
        return found

    def query(rows, adjacency):
        return moments(rows, n_days).weighted(horizon, n_days, adjacency)

    def run(mechanism, rows, adjacency, gate):
        found = [mechanism.draw(moments(rows, day + 1), gate).matrix for day in range(horizon)]
        return np.tensordot(mechanism.weights(horizon), np.array(found), axes=1) / n_days

    return {"query": query, "run": run}


def sensitivity(factor):
    exact = {case.REPLACE: math.sqrt(2), case.ADD: 1.0}
    return {key: lambda d, e=e: factor * (e + d * 2.0**-22) for key, e in exact.items()}


SQUARES = 1 + 0.5**2 + 0.375**2  # of the coefficients of three days, which are their own weights
CASES = [
    case.Case(
        "continual",
        lambda mu, d, k: ContinualCov(mu=mu, horizon=3),
        **on_days(1),
        read=case.upper,
        sensitivity=sensitivity(1.0),
        trials=1000,
        deviation=lambda mu, d, adjacency: SQUARES * case.symmetric_sigma(mu, d, adjacency),
    ),
    case.Case(
        "continual on two days",
        lambda mu, d, k: ContinualCov(mu=mu, horizon=3, days=2),
        **on_days(2),
        read=case.upper,
        sensitivity=sensitivity(1.5),
        trials=1000,  # the query is not what is read, a mean over days: their noise is tested above
    ),
]
