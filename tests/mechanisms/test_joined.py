"""Regression from one matrix of features and target: cost, routes, and what it finds."""

import math

import numpy as np
import pytest

from eigenveil.exact import Clip, column_counts
from eigenveil.mechanisms import Gate, JoinedRegression
from eigenveil.numerics import SimulationSource
from eigenveil.privacy import Adjacency, compose
from eigenveil.rows import PairedSource, TakeColumns, open_rows
from tests.conformance import case

REPLACE = Adjacency.REPLACE_ONE
RNG = np.random.default_rng(3)
X = RNG.exponential(size=(4000, 3)) * [1.0, 50.0, 0.01] + [3.0, -20.0, 1000.0]
SLOPES = np.array([2.0, 0.02, 0.0])
Y = 5.0 + X @ SLOPES + 0.5 * RNG.standard_normal(4000)


def run(rows, mu=1.0, seed=0, targets=1):
    n, d = rows.shape
    procedure = JoinedRegression(mu=mu, rows=n, features=d - targets, targets=targets)
    gate = Gate(
        procedure.cost(),
        label="x",
        adjacency=REPLACE,
        ledger=None,
        noise=SimulationSource(seed),
    )
    return procedure.run(open_rows(rows), Clip(row_norm=1.0), gate), gate


def predicted(model, rows, i=0):
    kept = np.isfinite(model.scale)
    z = (rows[:, kept] - model.centre[kept]) / model.scale[kept]
    target = model.targets[i]
    if target.coefficients.size == 1:
        return np.full(len(rows), target.offset)
    return target.offset + z @ target.coefficients[1:]


def test_a_line_is_found_however_far_from_the_origin():
    """One feature lies 100,000 deviations from zero; the intercept needs no centre of it."""
    model, gate = run(np.column_stack([X, Y]))
    error = np.mean((Y - predicted(model, X)) ** 2)
    assert error < 0.25 + 0.02 * Y.var()
    assert gate.exact


@pytest.mark.parametrize(("mu", "rows"), [(1.0, 4000), (0.3, 1500)], ids=["stage", "two draws"])
def test_no_route_spends_more_than_the_whole(mu, rows):
    _, gate = run(np.column_stack([X, Y])[:rows], mu=mu)
    assert compose(*gate._spent).mu <= mu
    assert compose(*gate._spent).mu > 0.9 * mu


def test_shares_sum_to_the_whole():
    for mu, n, p, q in ((0.3, 3000, 4, 1), (1.0, 10**5, 8, 2)):
        shares = JoinedRegression(mu=mu, rows=n, features=p, targets=q).shares
        assert sum(shares.values()) == pytest.approx(1.0)
        assert min(shares.values()) > 0


def test_public_numbers_decide_whether_coefficients_are_possible():
    assert JoinedRegression(mu=0.3, rows=5000, features=4).possible
    assert not JoinedRegression(mu=0.3, rows=300, features=4).possible
    assert not JoinedRegression(mu=0.3, rows=5000, features=400).possible


def test_a_target_of_one_value_has_a_median_in_place_of_coefficients():
    """No fit ends in an error after its charge, and the route costs no more than the whole."""
    for seed in range(5):
        model, gate = run(np.column_stack([X, np.full(4000, 7.0)]), seed=seed)
        assert model.gram is None
        assert model.targets[0].offset == pytest.approx(7.0, rel=0.01)
        assert compose(*gate._spent).mu <= 1.0


def test_one_target_that_does_not_show_leaves_the_others():
    both = np.column_stack([X, Y, np.full(4000, 7.0)])
    model, _ = run(both, mu=2.0, targets=2)
    assert np.mean((Y - predicted(model, X)) ** 2) < 0.4
    assert not model.targets[1].coefficients.any()
    assert model.targets[1].offset == pytest.approx(7.0, rel=0.01)


def test_a_target_without_signal_has_its_mean():
    """On average over seeds, no worse than the mean by 1 %: 3,000 rows at epsilon of about 1."""
    noise = np.random.default_rng(5).standard_normal(3000) + 100
    rows = X[:3000]
    errors = []
    for seed in range(10):
        model, _ = run(np.column_stack([rows, noise]), mu=0.27, seed=seed)
        errors.append(np.mean((noise - predicted(model, rows)) ** 2) / noise.var())
    assert np.mean(errors) < 1.01


def test_a_constant_feature_is_left_out():
    model, _ = run(np.column_stack([X, np.ones(4000), Y]))
    assert np.isinf(model.scale[3])
    assert np.isfinite(model.scale[:3]).all()


def test_intervals_cover_the_coefficients():
    """90 % intervals of 4 coefficients in 25 tables: 80 of 100 are fewer than 3.3 deviations
    below it.
    """
    slopes, covered = np.array([0.5, -0.3, 0.2, 0.0]), []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        rows = rng.standard_normal((5000, 4))
        target = rows @ slopes + rng.standard_normal(5000)
        model, _ = run(np.column_stack([rows, target]), mu=0.5, seed=seed)
        found = model.targets[0]
        variances = (found.sampling + found.noise).diagonal()[1:] / model.scale**2
        off = found.middle[1:] / model.scale - slopes
        covered += (np.abs(off) < 1.645 * np.sqrt(variances)).tolist()
    assert np.mean(covered) > 0.8


# Fixed rows beside those of a case, so that the scale of the target shows, or does not.
_COMPANY = np.random.default_rng(8).standard_normal((2000, 8))


def _beside(rows, scale=1.0):
    rows = case.two_columns(rows)
    return np.vstack([scale * _COMPANY[:, : rows.shape[1]], rows])


def _query(rows, adjacency):
    """The first step: octaves of the target's differences."""
    table = case.open_rows(case.two_columns(np.vstack([rows, np.zeros(rows.shape)])))
    column = table.map(TakeColumns(slice(table.n_columns - 1, None)))
    return column_counts(PairedSource(column, adjacency, np.arange), case.ANYWHERE, adjacency)


def _run(scale):
    def run(mechanism, rows, adjacency, gate):
        return mechanism.run(case.open_rows(_beside(rows, scale)), case.CLIP, gate)

    return run


def _read(released):
    (target,) = released.targets
    p = released.scale.size
    coefficients, gram = np.zeros(p), np.zeros((p + 1, p + 1))
    kept = np.isfinite(released.scale)
    if target.coefficients.size > 1:
        coefficients[kept] = target.coefficients[1:]
    if released.gram is not None:
        gram = released.gram.matrix
    return np.concatenate([[target.offset], coefficients, case.upper(gram)])


def _far_apart(d, adjacency):
    return np.ones(d), np.full(d, 1e9)


_JOINED = {
    "build": lambda mu, d, k: JoinedRegression(mu=mu, rows=2020, features=max(1, d - 1)),
    "query": _query,
    "read": _read,
    "norm": "l2",
    "sensitivity": {REPLACE: lambda d: math.sqrt(2)},
    "worst_pair": _far_apart,
    "adjacencies": (REPLACE,),
    "may_coincide": True,
    "trials": 300,
    "shows": False,
}

CASES = [
    case.Case(name="joined", run=_run(1.0), **_JOINED),
    case.Case(name="joined without a scale", run=_run(0.0), **_JOINED),
]
