"""Distances of rows, from one noisy histogram."""

import math

import numpy as np
import pytest

from eigenveil.exact import LARGEST_NORM, NO_EXPONENT, Clip, distance_counts
from eigenveil.mechanisms import (
    FALSE_ALARM,
    GaussianNoise,
    LaplaceNoise,
    PrivateDistances,
    distance_share,
    laplace_sum,
    release,
    searchable,
)
from eigenveil.numerics import SimulationSource
from eigenveil.privacy import Adjacency, Gaussian, Pure
from eigenveil.rows import GroupedSource, open_rows
from tests.conformance import case
from tests.statistics import scale_p_value, variance_p_value

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
ANY = Clip(row_norm=LARGEST_NORM)
ROWS = np.random.default_rng(0).standard_normal((4000, 5))
LENGTHS = np.linalg.norm(ROWS, axis=1)
USUAL = GaussianNoise(mu=0.3)
FINE = pytest.mark.parametrize("per_octave", [2, 8])
NOISES = pytest.mark.parametrize("noise", [GaussianNoise(mu=0.3), LaplaceNoise(epsilon=0.6)])


def found(rows=ROWS, noise=USUAL, adjacency=REPLACE, seed=0, per_octave=2):
    counts = distance_counts(open_rows(rows), ANY, adjacency, per_octave)
    step = PrivateDistances(noise=noise, per_octave=per_octave)
    return release(step, counts, ledger=None, noise=SimulationSource(seed))


@NOISES
@pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)
@FINE
def test_quantiles_within_a_bracket(noise, adjacency, per_octave):
    for seed in range(5):
        distances = found(noise=noise, adjacency=adjacency, seed=seed, per_octave=per_octave)
        for level in (0.25, 0.5, 0.75):
            wanted = np.quantile(LENGTHS, level)
            width = 2.0 ** (1 / per_octave)
            assert 0.97 * wanted < distances.quantile(level) < 1.03 * width * wanted
        assert distances.rows == pytest.approx(4000, rel=0.05)


@FINE
def test_the_share_of_a_squared_error_in_rows_divided_by_a_distance(per_octave):
    """Within what brackets tell: E[min(r^-2, a^-2)]/E[min(1, r^2/a^2)]. Rows in no bracket, here
    1,000 at the point itself, count as if they lay within a.
    """
    rows, lengths = np.vstack([ROWS, np.zeros((1000, 5))]), np.append(LENGTHS, np.zeros(1000))
    distances = found(rows, per_octave=per_octave)
    nearest = distances.lower_quantile(0.25)
    wanted = np.quantile(LENGTHS, 0.25)
    assert 0.97 * wanted / 2 ** (1 / per_octave) < nearest < 1.03 * wanted
    inverse = np.mean(np.maximum(lengths, nearest) ** -2.0)
    share = inverse / np.mean(np.minimum(1.0, (lengths / nearest) ** 2))
    assert distances.inverse_square_share(nearest) == pytest.approx(share, rel=0.15)


@FINE
def test_the_loss_of_clipping_bounds_the_move_of_the_mean(per_octave):
    radius = float(np.quantile(LENGTHS, 0.7))
    lost = np.maximum(LENGTHS - radius, 0.0).mean()
    assert found(per_octave=per_octave).loss(radius) == pytest.approx(lost, rel=0.25)
    assert found(per_octave=per_octave).loss(1e3) == 0.0


@pytest.mark.parametrize("noise", [GaussianNoise(mu=1.0), LaplaceNoise(epsilon=1.0)])
@FINE
def test_noise_alone_keeps_nothing(noise, per_octave):
    """An empty table, 300 times: one of a million would keep something. Limits of a third less
    would be passed by a Gaussian run in about one of 25 tables: in none of 300 with 5e-6.
    """
    empty = np.zeros((5, 2))
    assert not any(found(empty, noise, seed=s, per_octave=per_octave).found for s in range(300))
    step = PrivateDistances(noise=noise, per_octave=per_octave)
    runs = {2: 4 * NO_EXPONENT, 8: 6 * 4 * NO_EXPONENT}[per_octave]
    assert step._limit(1) == pytest.approx(noise.quantile(FALSE_ALARM / runs), rel=0.2)


@NOISES
@pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)
def test_counts_have_the_noise_that_is_paid_for(noise, adjacency):
    """Three full brackets, 400 times. False alarm 1e-6; a scale a quarter off has 1e-9."""
    counts = distance_counts(open_rows(ROWS), ANY, adjacency)
    exact = counts.value.to_float()
    full = np.argsort(exact)[-3:]
    step, source = PrivateDistances(noise=noise), SimulationSource(5)
    drawn = [release(step, counts, ledger=None, noise=source).counts[full] for _ in range(400)]
    errors = np.ravel(drawn - exact[full])
    if isinstance(noise, GaussianNoise):
        p_value, scale = variance_p_value, (math.sqrt(2) if adjacency is REPLACE else 1.0) / 0.3
    else:
        p_value, scale = scale_p_value, (2.0 if adjacency is REPLACE else 1.0) / 0.6
    assert p_value(errors, scale) > 1e-6
    assert p_value(errors, 1.25 * scale) < 1e-6
    assert p_value(errors, 0.8 * scale) < 1e-6


@FINE
def test_a_generous_budget_shows_every_bracket(per_octave):
    """Noise far below one row is not rounded to whole rows."""
    distances = found(noise=GaussianNoise(mu=100.0), per_octave=per_octave)
    exact = distance_counts(open_rows(ROWS), ANY, REPLACE, per_octave).value.to_float()[:-1]
    np.testing.assert_allclose(distances.counts, exact, atol=0.1)
    assert distances.counts.sum() == pytest.approx(4000, abs=0.5)


@FINE
def test_where_to_clip(per_octave):
    """A mean: noise 0.05 R against what clipping takes; within a bracket of the best."""
    distances = found(noise=GaussianNoise(mu=100.0), per_octave=per_octave)
    width = 2.0 ** (1 / per_octave)
    for price, power in ((0.05, 1), (0.5, 1), (0.01, 2), (0.2, 2)):
        radii = np.linspace(0.2, LENGTHS.max(), 500)
        errors = [
            price * r**power + np.mean(np.maximum(LENGTHS**power - r**power, 0)) for r in radii
        ]
        best = radii[int(np.argmin(errors))]
        assert best / width < distances.clipping(price, power) < best * width
    assert distances.clipping(1e-9, 2) >= LENGTHS.max() / width


@pytest.mark.parametrize(("price", "power"), [(0.05, 1), (0.05, 2), (0.2, 2)])
def test_fine_brackets_clip_nearer_to_the_best_length(price, power):
    """Middles of half octaves add 1 to 4 % to the error, four points of fine brackets 0.5 %."""

    def error(radius):
        return price * radius**power + np.mean(np.maximum(LENGTHS**power - radius**power, 0))

    best = min(map(error, np.linspace(0.2, LENGTHS.max(), 500)))
    noise = GaussianNoise(mu=2.0)
    assert error(found(noise=noise).clipping(price, power)) > 1.005 * best
    assert error(found(noise=noise, per_octave=8).clipping(price, power)) < 1.005 * best


def test_rows_of_equal_length_are_clipped_just_beyond_it():
    for price in (1e-9, 0.1, 0.9):
        fine = found(np.ones((4000, 3)), GaussianNoise(mu=2.0), per_octave=8)
        assert math.sqrt(3) / 1.09 < fine.clipping(price, 2) < 1.09 * math.sqrt(3)


def test_means_of_powers():
    distances = found(noise=GaussianNoise(mu=100.0))
    assert distances.mean_power(2) == pytest.approx(np.mean(LENGTHS**2), rel=0.05)
    assert distances.mean_power(-2) == pytest.approx(np.mean(LENGTHS**-2.0), rel=0.2)
    assert distances.beyond(3.0) == pytest.approx(np.sum(LENGTHS > 3.0), rel=0.3)


def test_rows_that_noise_hides_are_counted_as_normal_ones():
    """The mean error of the share beyond the 90 % quantile is within four standard errors of zero,
    which chance leaves once in 10,000 times; that of counts alone is not within twice as many.
    """
    column, errors = ROWS[:, :1], []
    for seed in range(60):
        distances = found(column, GaussianNoise(mu=0.015), seed=seed)
        radius = distances.quantile(0.9)
        beyond = np.mean(np.abs(column) > radius)
        counted = distances.beyond(radius) / 4000
        errors.append([distances.normal_share_beyond(radius) - beyond, counted - beyond])
    shares, counts = np.mean(errors, axis=0) / (np.std(errors, axis=0) / math.sqrt(60))
    assert abs(shares) < 4
    assert counts < -8
    generous = found(np.sign(column), GaussianNoise(mu=100.0))  # which no normal law describes
    assert generous.normal_share_beyond(1.5) < 0.01


def test_the_unit_of_the_data_does_not_matter():
    plain = found()
    for unit in (2.0**-100, 2.0**100):
        assert found(ROWS * unit).quantile(0.5) == plain.quantile(0.5) * unit


def test_beyond_all_brackets_and_at_the_point_there_is_no_distance():
    assert not found(np.full((4000, 2), 1e60)).found
    assert not found(np.zeros((4000, 2))).found
    assert not found(ROWS * 1e-60).found  # no row is clipped so near


@FINE
def test_wherever_rows_are_found_they_can_be_clipped(per_octave):
    for exponent in range(-520, -470):  # of lengths around 1e-50
        rows, noise = ROWS * 10.0 ** (exponent / 10), GaussianNoise(mu=100.0)
        distances = found(rows, noise, per_octave=per_octave)
        for price in (1e-9, 0.1, 10.0) if distances.found else ():
            assert 1e-50 <= distances.clipping(price, 2) <= distances.largest


@FINE
def test_rows_of_a_person_share_one_count(per_octave):
    """Whatever rows a person has, they bring at most 1 in l1 norm, and so in l2 norm."""
    ids = np.repeat(np.arange(100), 7)
    rows = np.random.default_rng(1).standard_normal((700, 2)) * 10.0 ** np.arange(7)[ids % 7, None]
    one, other = rows.copy(), rows.copy()
    other[ids == 3] = 10.0 ** np.arange(-3.0, 4.0)[:, None]
    first, second = (
        distance_counts(
            GroupedSource(open_rows(table), ids), ANY, REPLACE, per_octave
        ).value.to_float()
        for table in (one, other)
    )
    assert np.abs(first - second).sum() <= 2.0
    assert np.linalg.norm(first - second) <= math.sqrt(2)
    assert first.sum() == pytest.approx(100, abs=1e-3)


def test_shares_and_what_can_be_found():
    whole = Gaussian(0.2)
    assert distance_share(whole, 10**7) == 0.005
    assert distance_share(whole, 10) == 0.1
    assert distance_share(whole, 2000) == pytest.approx((math.sqrt(2) / 0.2 * 24 / 2000) ** 2)
    assert searchable(whole, 2000)
    assert searchable(whole, None)
    assert not searchable(whole, 300)
    assert not searchable(Pure(0.1), 300)


def test_searches_that_are_called_possible_mostly_succeed():
    """At the fewest rows of ten normal columns: each run fails once in a thousand."""
    whole = Gaussian(1.0)
    n = next(n for n in range(10, 2000) if searchable(whole, n))
    noise = GaussianNoise(mu=math.sqrt(distance_share(whole, n)))
    rows = np.random.default_rng(2).standard_normal((n, 10))
    assert sum(found(rows, noise, seed=s).found for s in range(40)) >= 38


def test_sums_of_laplace_noise():
    """Chernoff's bound: above the exact quantile of one, and of four by less than a third."""
    beta = 1e-4
    assert laplace_sum(1, beta) > math.log(0.5 / beta)
    draws = np.random.default_rng(0).laplace(size=(400_000, 4)).sum(axis=1)
    exact = np.quantile(draws, 1 - beta)
    assert exact < laplace_sum(4, beta) < 1.35 * exact


def _kept(released):
    return released.counts[320:345]  # distances about 1


def _fine_distances(rows, adjacency):
    crowd = case.open_rows(case.with_distances(rows))
    return distance_counts(crowd, case.ANYWHERE, adjacency, 8)


FINELY = {
    "query": _fine_distances,
    "run": case.one_step(_fine_distances),
    "read": lambda released: released.counts[1280:1380],
}


CASES = [
    case.Case(
        "distances",
        lambda mu, d, k: PrivateDistances(noise=GaussianNoise(mu=mu)),
        **(case.BRACKETS | {"run": case.one_step(case.distances), "read": _kept}),
        may_coincide=True,
    ),
    case.Case(
        "distances pure",
        lambda epsilon, d, k: PrivateDistances(noise=LaplaceNoise(epsilon=epsilon)),
        **(case.PURE_BRACKETS | {"run": case.one_step(case.distances), "read": _kept}),
        may_coincide=True,
    ),
    case.Case(
        "distances in fine brackets",
        lambda mu, d, k: PrivateDistances(noise=GaussianNoise(mu=mu), per_octave=8),
        **(case.BRACKETS | FINELY),
        may_coincide=True,
    ),
    case.Case(
        "distances in fine brackets pure",
        lambda epsilon, d, k: PrivateDistances(noise=LaplaceNoise(epsilon=epsilon), per_octave=8),
        **(case.PURE_BRACKETS | FINELY),
        may_coincide=True,
    ),
]
