"""A covariance of columns in any units: its steps, what they cost, and what they make of tables."""

import math
import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from eigenveil import PrivateCovariance
from eigenveil.exact import LARGEST_NORM, Clip
from eigenveil.exceptions import (
    ColumnsLeftOutWarning,
    EmptyCellsWarning,
    InvalidDataError,
    TooFewRowsError,
    WholeTurnsWarning,
)
from eigenveil.mechanisms import ColumnScale, FoundScales, Front, Gate
from eigenveil.numerics import SimulationSource
from eigenveil.privacy import Adjacency, Ledger, rho_of
from eigenveil.rows import open_rows
from tests.conformance import case

REPLACE = Adjacency.REPLACE_ONE
ANYWHERE = Clip(row_norm=LARGEST_NORM)
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
UNITS = 10.0 ** np.arange(4)
# Limits on q = sqrt(2) d/(n mu) between which the steps differ, and a number in each part.
MANY_ROWS, SEARCHED, REFINED, FEW_ROWS = 0.01, 0.03, 0.05, 0.1


class Watching(Gate):
    """A gate that remembers its steps and what was asked of them."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.steps = []

    def draw(self, step, query):
        self.steps.append(step)
        return super().draw(step, query)

    @property
    def names(self):
        return [step.name for step in self.steps]


def gate(mechanism, seed=0, ledger=None):
    noise = SimulationSource(seed)
    return Watching(mechanism.cost(), label="x", adjacency=REPLACE, ledger=ledger, noise=noise)


def front(q, mu=1.0, columns=4, **options):
    """Return all steps for a table on which the noise is ``q``."""
    rows = math.ceil(math.sqrt(2) * columns / (q * mu))
    return Front(mu=mu, rows=rows, columns=columns, **options)


def of_rows(rows, mu=1.0, seed=0, **options):
    mechanism = Front(mu=mu, rows=len(rows), columns=rows.shape[1], **options)
    return mechanism.run(open_rows(rows), ANYWHERE, gate(mechanism, seed))


def normal(n, d=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def covariance(found):
    """Return the covariance of a result in the units of the data."""
    return found.inner.matrix * np.outer(found.scale, found.scale)


# What released scales may say of columns: one unit after the first draw or after both, or several.
SPARED, ALIKE, APART = "spared", "alike", "apart"
SEARCHES = ("column-scale", "distances")
_draw_scales = ColumnScale.run


def scales_that_say(what):
    """Return a search for scales that draws as often as it would, and then finds this."""

    def run(step, source, clip, gate):
        _draw_scales(replace(step, more=None), source, clip, gate)
        spared = what == SPARED and step.more is not None
        if step.more is not None and not spared:
            _draw_scales(replace(step, first=step.more, more=None), source, clip, gate)
        sure = np.ones(source.n_columns, dtype=bool)
        scale = UNITS if what == APART else np.ones(source.n_columns)
        return FoundScales(scale, sure, sure, scale, one_unit=spared)

    return run


def test_every_route_costs_the_whole(monkeypatch):
    """Whatever released numbers choose, at public numbers of every kind: many rows and few, scales
    in one draw and in two, distances that are found and equal rows that have none.
    """
    known = np.array([1.0, 10.0, 100.0, np.nan])
    routes = set()
    for what in (SPARED, ALIKE, APART):
        monkeypatch.setattr(ColumnScale, "run", scales_that_say(what))
        for q, rows in product(
            (MANY_ROWS, SEARCHED, REFINED, FEW_ROWS), (normal(1500) * UNITS, np.zeros((40, 4)))
        ):
            for mechanism in (front(q), front(q, known_scale=known)):
                paid = gate(mechanism)
                mechanism.run(open_rows(rows), ANYWHERE, paid)
                whole = rho_of(mechanism.cost())
                spent = sum(rho_of(step.cost()) for step in paid.steps)
                assert spent <= whole * (1 + 1e-12)
                assert spent == pytest.approx(whole, rel=1e-6)
                routes.add((what, *(paid.names.count(name) for name in SEARCHES)))
    # Draws of scales, and searches for a radius: one for each matrix, or none.
    assert {route[1:] for route in routes if route[0] == SPARED} == {(1, 1), (1, 2)}
    assert {route[1:] for route in routes if route[0] == ALIKE} == {(1, 1), (1, 2), (2, 1)}
    expected = {(1, 0), (2, 0), (1, 2), (2, 2)}
    assert {route[1:] for route in routes if route[0] == APART} == expected


def test_shares_leave_something_for_the_matrices():
    """Before anything is spared, at any public numbers."""
    for mu, rows, columns in product((1e-3, 0.1, 1.0, 100.0), (2, 50, 10**4, 10**8), (1, 9, 900)):
        shares = Front(mu=mu, rows=rows, columns=columns).shares
        assert list(shares) == ["scale", "centre", "radius"]
        assert min(shares.values()) > 0
        assert sum(shares.values()) < 0.9


def test_columns_of_any_units_and_places():
    """Spreads and centres seven orders of magnitude apart: each variance within a tenth."""
    rows = normal(6000) * [1.0, 1e7, 1e-7, 1e3] + [1e7, 0.0, 1.0, -1e10]
    found = of_rows(rows)
    assert covariance(found).diagonal() == pytest.approx(rows.var(axis=0), rel=0.1)


def test_columns_of_one_unit_keep_it():
    rows = normal(6000, 6) @ np.diag([1.0, 1.2, 0.8, 1.0, 1.5, 0.7]) * 40.0 + 300.0
    found = of_rows(rows)
    assert len(set(found.scale)) == 1
    assert covariance(found).diagonal() == pytest.approx(rows.var(axis=0), rel=0.15)


def test_duplicated_columns_are_correlated():
    rows = normal(6000, 2) * [1.0, 1000.0]
    released = covariance(of_rows(np.column_stack([rows, rows[:, 0], -rows[:, 1]])))
    deviations = np.sqrt(released.diagonal())
    correlation = released / np.outer(deviations, deviations)
    assert correlation[0, 2] > 0.9
    assert correlation[1, 3] < -0.9
    assert abs(correlation[0, 1]) < 0.1


def test_a_constant_column_has_no_variance():
    """Beside columns of one unit, and beside columns of several."""
    for units in (1.0, UNITS):
        rows = normal(6000) * units
        rows[:, 2] = 5.0
        for seed in range(5):
            variances = covariance(of_rows(rows, seed=seed)).diagonal()
            assert variances[2] == 0.0
            assert (variances[[0, 1, 3]] > 0).all()


@pytest.mark.parametrize("value", [0.0, 1.0, 1e-300, 1e300], ids=str)
def test_a_table_of_equal_rows_has_no_variance(value):
    """No scale is found, so that a variance would be that of the noise in the centre."""
    for mu in (1.0, 50.0):
        for seed in range(5):
            released = of_rows(np.full((2000, 3), value), mu, seed).inner.matrix
            assert not released.any()


def test_columns_of_two_values():
    """A common one and a rare one, whose values are far apart: neither spoils the others."""
    rows = normal(8000)
    rows[:, 1] = rows[:, 1] > 0.5
    rows[:, 3] = (rows[:, 3] > 1.3) * 1e6
    variances = covariance(of_rows(rows)).diagonal()
    assert variances == pytest.approx(rows.var(axis=0), rel=0.25)


def test_columns_that_are_mostly_zero():
    """85 % zeros beside values of a long tail: the covariance is that of rows pulled in, and never
    more than the mean square.
    """
    rng = np.random.default_rng(1)
    rows = np.where(rng.random((6000, 4)) < 0.85, 0.0, np.exp(normal(6000))) * UNITS
    for seed in range(5):
        shares = covariance(of_rows(rows, seed=seed)).diagonal() / rows.var(axis=0)
        assert (shares > 0.1).all()
        assert (shares < 1.5).all()


def test_far_rows_are_pulled_in():
    rows = normal(6000)
    rows[:20] = 1.7e308
    variances = covariance(of_rows(rows)).diagonal()
    assert variances == pytest.approx(np.ones(4), rel=0.3)


def fit(rows, **options):
    return PrivateCovariance(**BUDGET, **options).fit(rows)


def test_a_column_without_cells_is_zero():
    rows = normal(4000)
    rows[:, 2] = np.nan
    with (
        pytest.warns(EmptyCellsWarning, match="x2"),
        pytest.warns(ColumnsLeftOutWarning, match="noise hides the variance of x2, which is zero"),
        pytest.warns(WholeTurnsWarning, match="the mean of x2 is known up to multiples"),
    ):
        found = fit(rows, on_missing="centre")
    assert np.isinf(found.location_noise_).tolist() == [False, False, True, False]
    assert np.isfinite(found.covariance_).all()
    assert not found.covariance_[2].any()
    assert "variances that noise hides are zero: x2" in found.privacy_.sentence()
    assert (found.covariance_.diagonal()[[0, 1, 3]] > 0.5).all()


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        (normal(1), InvalidDataError),
        (normal(5), TooFewRowsError),
        (normal(60), TooFewRowsError),
        (normal(50, 80), TooFewRowsError),
        (np.full((2000, 3), np.nan), InvalidDataError),
    ],
    ids=["one", "five", "few", "wide", "empty"],
)
def test_what_cannot_be_released_is_refused_before_the_charge(tmp_path, rows, error):
    ledger = Ledger.create(tmp_path / "x.ledger", epsilon=5.0, delta=1e-5)
    with pytest.raises(error):
        fit(rows, ledger=ledger)
    assert ledger.entries == ()


@pytest.mark.filterwarnings("ignore::eigenveil.exceptions.WholeTurnsWarning")
def test_few_rows_release_numbers_or_zero(tmp_path):
    """Tables at the edge of a refusal: nothing is lost after the charge."""
    for n, epsilon in ((100, 5.0), (300, 1.5), (3000, 0.5)):
        for rows in (normal(n), normal(n) * UNITS, np.zeros((n, 4))):
            ledger = Ledger.create(tmp_path / f"{n} {rows[0, 3]}", epsilon=9.0, delta=1e-4)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ColumnsLeftOutWarning)
                found = PrivateCovariance(epsilon=epsilon, delta=1e-6, ledger=ledger).fit(rows)
            assert np.isfinite(found.covariance_).all()
            assert [entry.failed for entry in ledger.entries] == [None]


def test_a_wide_table_takes_its_columns_as_they_are():
    found = PrivateCovariance(epsilon=9.0, delta=1e-6).fit(normal(400, 401))
    assert found.release_.proofs[0] == "located"
    assert np.isfinite(found.covariance_).all()


def _read(found):
    """Return what is released: the matrix in the units of the data, and where rows were clipped."""
    bounds = [found.inner.row_norm, found.column_limit]
    return np.concatenate([found.scale, case.upper(found.inner.matrix), bounds])


def _in_company(units, clip=case.ANYWHERE):
    def run(mechanism, rows, adjacency, gate):
        beside = case.with_scales(rows, UNITS[np.arange(rows.shape[1]) % 4] if units else 1.0)
        return mechanism.run(case.open_rows(beside), clip, gate)

    return run


def _built(q, **options):
    return lambda mu, d, k: front(q, mu, d, **options)


FRONT = {
    "query": case.paired_magnitudes,
    "read": _read,
    "worst_pair": case.far_magnitudes,
    "norm": "l2",
    "sensitivity": {REPLACE: lambda d: math.sqrt(2 * d)},
    "may_coincide": True,
    "adjacencies": (REPLACE,),
    "trials": 300,
    "shows": False,
}

CASES = [
    case.Case("front", _built(MANY_ROWS), run=_in_company(units=True), **FRONT),
    case.Case("front of one unit", _built(SEARCHED), run=_in_company(units=False), **FRONT),
    case.Case("front of fewer rows", _built(REFINED), run=_in_company(units=True), **FRONT),
    case.Case("front of few rows", _built(FEW_ROWS), run=_in_company(units=True), **FRONT),
    case.Case(
        "front of a sample",
        _built(SEARCHED, sample=0.75),
        run=_in_company(units=True),
        **FRONT,
    ),
    case.Case(
        "front of filled rows",
        _built(SEARCHED),
        run=_in_company(units=True, clip=replace(case.ANYWHERE, on_missing="centre")),
        **FRONT,
    ),
]
