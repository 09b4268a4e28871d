"""A covariance without bounds."""

import numpy as np
import pytest

from eigenveil import PrivateCovariance
from eigenveil.exact import LARGEST_NORM, Clip
from eigenveil.mechanisms import Elliptical, Gate
from eigenveil.numerics import SimulationSource, unit_shares, variance_shares
from eigenveil.privacy import Adjacency, Gaussian, rho_of
from eigenveil.rows import open_rows
from tests.conformance import case

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
BOTH = pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)
ANY = Clip(row_norm=LARGEST_NORM)
SPREADS = 1 / np.sqrt(np.arange(1.0, 11.0))
ROWS = np.random.default_rng(0).standard_normal((6000, 10)) * SPREADS


def build(mu, rows, columns):
    return Elliptical(strength=Gaussian(mu), n_rows=rows, n_columns=columns)


def run(mu, rows=ROWS, adjacency=REPLACE, seed=0, clip=ANY):
    mechanism = build(mu, len(rows) if adjacency is REPLACE else None, rows.shape[1])
    noise = SimulationSource(seed)
    gate = Gate(mechanism.cost(), label="x", adjacency=adjacency, ledger=None, noise=noise)
    return mechanism.run(open_rows(rows), clip, gate)


def error(released, rows=ROWS, per_row=1.0):
    truth = rows.T @ rows / len(rows)
    return np.linalg.norm(released.matrix * per_row - truth) / np.linalg.norm(truth)


@BOTH
def test_normal_rows_at_a_usual_budget(adjacency):
    """Clipped rows told their exact reach have .12 there (`cleaned`, the same noise)."""
    per_row = 1.0 if adjacency is REPLACE else 1 / len(ROWS)
    assert np.mean([error(run(0.3, ROWS, adjacency, s), ROWS, per_row) for s in range(5)]) < 0.09


def test_lengths_of_any_law_do_not_matter_to_the_shape():
    """Ten rows a million times longer than all others: they keep their directions only."""
    rows = ROWS.copy()
    rows[:10] *= 1e6
    released = run(0.3, rows)
    shape = released.matrix / np.trace(released.matrix)
    truth = ROWS.T @ ROWS / np.sum(ROWS**2)
    assert np.linalg.norm(shape - truth) / np.linalg.norm(truth) < 0.15


def test_a_generous_budget_gives_the_covariance_whatever_the_rows_are():
    """Cubes of normal columns: not elliptical, with a few far rows. Unit rows alone are far off."""
    rows = ROWS**3
    assert error(run(300.0, rows), rows) < 0.03
    assert run(300.0, rows).row_norm >= np.linalg.norm(rows, axis=1).max() / np.sqrt(2)


def test_units_do_not_matter():
    """About a stated length: noise falls on other brackets of a search in other units."""
    plain = run(0.5, clip=Clip(row_norm=3.0))
    for unit in (2.0**-60, 2.0**60):
        released = run(0.5, ROWS * unit, clip=Clip(row_norm=3.0 * unit))
        np.testing.assert_allclose(released.matrix / unit**2, plain.matrix, rtol=1e-6, atol=1e-9)


def test_never_worse_than_nothing():
    """At budgets that show next to nothing: the flat matrix of the right size, or the zero one."""
    for mu in (0.01, 0.03, 0.1):
        for seed in range(5):
            assert error(run(mu, seed=seed)) < 1.02


def test_a_stated_length_holds():
    assert run(1.0, clip=Clip(row_norm=0.5)).row_norm == 0.5


def test_rows_without_a_distance_have_the_zero_matrix():
    released = run(1.0, np.zeros((500, 3)))
    assert not released.matrix.any()
    assert released.noise_scale == 0
    assert released.law is None


def test_a_stated_length_has_to_do_where_no_distance_is_found():
    released = run(1.0, np.zeros((500, 3)), clip=Clip(row_norm=2.0))
    assert released.row_norm == 2.0
    assert np.linalg.norm(released.matrix) < 0.1


def test_the_cost_is_the_whole_that_was_given():
    for rows, columns in ((1000, 4), (1000, 400), (None, 4)):
        assert rho_of(build(0.7, rows, columns).cost()) == pytest.approx(0.7**2 / 2)


def test_shares_of_unit_rows_are_inverted():
    """There and back; two directions have a closed form, sqrt(a)/(sqrt(a) + sqrt(b))."""
    values = np.array([0.5, 0.3, 0.15, 0.05])
    np.testing.assert_allclose(variance_shares(unit_shares(values)), values, atol=1e-5)
    np.testing.assert_allclose(variance_shares(np.array([2 / 3, 1 / 3])), [0.8, 0.2], atol=1e-3)
    flat = np.full(5, 0.2)
    np.testing.assert_allclose(variance_shares(flat), flat, atol=1e-9)
    np.testing.assert_allclose(variance_shares(np.array([0.7, 0.3, 0.0]))[2], 0.0)


def _within_radius(released):
    return np.append(case.matrix(released), released.row_norm)


ELLIPTICAL = {
    "run": case.in_company(
        lambda d: d * (d + 1) // 2 + 1, case.ANYWHERE, _within_radius, company=3000
    ),
    "may_coincide": True,
}

CASES = [
    case.Case(
        "elliptical",
        lambda mu, d, k: build(mu, 3000, d),
        **(case.BRACKETS | ELLIPTICAL),
    ),
]


def test_a_trace_that_noise_drowns_leaves_a_law():
    # One row in 100 seeds: the noisy variance is below 0 in about half of them.
    for seed in range(100):
        released = run(0.5, np.ones((1, 1)), seed=seed, clip=Clip(row_norm=5.0))
        assert released.law.deviation > 0
        assert np.isfinite(released.matrix).all()


@pytest.mark.parametrize(("epsilon", "least"), [(2.0, 0.1), (40.0, 0.5)], ids=["unit", "clipped"])
def test_stated_noise_is_at_least_what_releases_differ_by(epsilon, least):
    """It is the noise of clipped rows, whose entries the release stays near. On the route of unit
    rows these have a third of the budget, and the release differs by less.
    """
    rng = np.random.default_rng(5)
    rows = rng.exponential(size=(4000, 6)) ** 1.5  # nothing like ellipses
    fits = [PrivateCovariance(epsilon=epsilon, delta=1e-6).fit(rows) for _ in range(8)]
    pairs = np.triu_indices(6, 1)
    differ = np.std([fit.correlation_[pairs] for fit in fits], axis=0, ddof=1)
    stated = np.mean([fit.correlation_noise_[pairs] for fit in fits])
    assert least < np.sqrt(np.mean(differ**2)) / stated < 1.3


def test_the_second_step_goes_to_the_better_route():
    """Rows of one direction each, as levels of a category are, have no ellipse: clipped rows.
    Normal rows with lengths of another law: unit rows. In most of nine fits, as noise decides too.
    """
    levels = np.eye(6)[np.random.default_rng(1).integers(0, 6, 6000)]
    lengths = ROWS * np.random.default_rng(2).exponential(size=(len(ROWS), 1))
    taken = {
        name: sum(takes_unit_rows(rows, seed) for seed in range(9))
        for name, rows in (("levels", levels - levels.mean(axis=0)), ("lengths", lengths))
    }
    assert taken["levels"] < 5 <= taken["lengths"]


def takes_unit_rows(rows, seed):
    """Return the route of a fit; what it draws costs the same on either."""
    mechanism, drawn = build(0.3, len(rows), rows.shape[1]), []
    gate = Gate(
        mechanism.cost(), label="x", adjacency=REPLACE, ledger=None, noise=SimulationSource(seed)
    )
    draw = gate.draw
    gate.draw = lambda step, query: drawn.append(step) or draw(step, query)
    mechanism.run(open_rows(rows), ANY, gate)
    *second, moments, share = drawn[3:]
    steps = mechanism.steps
    assert [moments, share] == [steps.spread.moments, steps.spread.share]
    unit = [steps.second_unit, steps.second_clipped]
    assert second in ([steps.second], unit)
    return second == unit


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_few_columns_spend_the_second_step_on_clipped_rows(columns):
    """Unit rows of one column are all 1; noise is that of the first draw and the whole second."""
    rows = np.random.default_rng(6).standard_normal((3000, columns))
    mechanism = build(0.5, len(rows), columns)
    strength = np.hypot(mechanism.steps.first_clipped.mu, mechanism.steps.second.mu)
    for seed in range(5):
        released = run(0.5, rows, seed=seed)
        sensitivity = np.sqrt(2) * released.row_norm**2 / len(rows)
        assert released.noise_scale == pytest.approx(sensitivity / strength, rel=1e-3)


def test_entries_of_clear_columns_stay_near_the_clipped_matrix():
    for seed in range(5):
        released = run(0.5, ROWS**3, seed=seed)
        values = np.linalg.eigvalsh(released.matrix)
        # Both have the same trace but for the translation, and what positivity adds.
        allowed = 2.5 * released.noise_scale * len(values)
        assert abs(values.sum() - released.noisy_eigenvalues.sum()) < allowed


def test_the_error_of_a_centre_is_counted_once_under_add_remove():
    """There it is that of a sum already. One long direction, and a centre off by little beside it:
    counted twice, its error would pass for that direction.
    """
    rng = np.random.default_rng(2)
    spreads = np.where(np.arange(10) == 0, 2.0, 1.0)
    rows = rng.standard_normal((6000, 10)) * spreads * rng.exponential(size=(6000, 1))
    errors = []
    for squared_error in (0.0, 1e-3):
        clip = Clip(row_norm=LARGEST_NORM, centre_error=squared_error * len(rows))
        fits = (run(0.05, rows, ADD, seed, clip) for seed in range(5))
        errors.append(np.mean([error(fit, rows, 1 / len(rows)) for fit in fits]))
    assert errors[1] < 1.05 * errors[0]
