"""Shares of present cells, and moments that allow for empty ones."""

import math

import numpy as np
import pytest

from eigenveil.exact import CellPresence, Clip, second_moment, total
from eigenveil.exceptions import InvalidDataError
from eigenveil.mechanisms import (
    Gate,
    GaussCov,
    GaussianNoise,
    LaplaceNoise,
    NoisyMatrix,
    Present,
    PrivateMean,
    Uncentred,
    WishartCov,
    missing_shares,
)
from eigenveil.numerics import PairShares, SimulationSource
from eigenveil.privacy import Adjacency, Gaussian, Pure
from eigenveil.rows import open_rows
from tests.conformance import case

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
FILLED = Clip(row_norm=30.0, on_missing="centre")
MISSING = np.array([0.0, 0.1, 0.3, 0.6])


def holes(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    mixing = np.linalg.cholesky(np.eye(4) + 0.5)
    rows = rng.standard_normal((n, 4)) @ mixing.T
    rows[rng.random((n, 4)) < MISSING] = np.nan
    return rows


def run(rows, mu=100.0, adjacency=REPLACE, clip=FILLED):
    mechanism = Present(
        shares=PrivateMean(noise=GaussianNoise(mu=mu)),
        inner=Uncentred(inner=GaussCov(mu=mu), row_norm=30.0),
    )
    noise = SimulationSource(0)
    gate = Gate(mechanism.cost(), label="x", adjacency=adjacency, ledger=None, noise=noise)
    return mechanism.run(open_rows(rows), clip, gate)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)
def test_shares_of_present_cells(adjacency):
    rows = holes()
    np.testing.assert_allclose(
        run(rows, adjacency=adjacency).present, 1 - np.isnan(rows).mean(axis=0), atol=0.01
    )


def test_moments_allow_for_empty_cells():
    """Within three standard errors of a product of two columns; uncorrected they are half off."""
    released = run(holes())
    found = released.inner.allowing_for(released.pairs_present).matrix
    np.testing.assert_allclose(found, np.eye(4) + 0.5, atol=0.15)
    assert abs(released.inner.matrix[2, 3] - 0.5) > 0.2


def test_the_law_of_noise_grows_with_what_is_missing():
    """Variances by 2, covariances by 4; the law by the root of the mean square of a row."""
    noisy = NoisyMatrix(np.eye(2), 0.1, None)
    assert noisy.allowing_for(None) is noisy
    found = noisy.allowing_for(PairShares(np.full(2, 0.5), np.zeros(2)))
    assert found.noise_scale == pytest.approx(0.1 * math.sqrt(10))
    np.testing.assert_allclose(found.entry_noise, 0.1 * np.array([[2, 8**0.5], [8**0.5, 2]]))


def test_errors_of_shares_add_to_the_noise():
    """A variance of 1 from a share of 0.5 that is off by 0.05: by a tenth of 2."""
    found = NoisyMatrix(np.eye(2), 0.0, None).allowing_for(
        PairShares(np.full(2, 0.5), np.full(2, 0.05))
    )
    np.testing.assert_allclose(found.entry_noise, [[0.2, 0.0], [0.0, 0.2]])


def holes_together(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, 4)) @ np.linalg.cholesky(np.eye(4) + 0.5).T
    rows[rng.random(n) < 0.4, :2] = np.nan
    return rows


def run_with_pairs(rows, mu=100.0):
    mechanism = Present(
        shares=PrivateMean(noise=GaussianNoise(mu=mu)),
        pairs=GaussCov(mu=mu),
        inner=Uncentred(inner=GaussCov(mu=mu), row_norm=30.0),
    )
    noise = SimulationSource(0)
    gate = Gate(mechanism.cost(), label="x", adjacency=REPLACE, ledger=None, noise=noise)
    return mechanism.run(open_rows(rows), FILLED, gate)


def test_pairs_missing_together_are_measured():
    """Moments within three standard errors; as if missing independently 0.5 would be 0.83."""
    rows = holes_together()
    here = (~np.isnan(rows)).astype(float)
    released = run_with_pairs(rows)
    np.testing.assert_allclose(released.pairs_present.shares, here.T @ here / len(rows), atol=0.01)
    assert released.pairs_present.together == (0, 1)
    found = released.inner.allowing_for(released.pairs_present).matrix
    np.testing.assert_allclose(found, np.eye(4) + 0.5, atol=0.15)
    assert run_with_pairs(holes()).pairs_present.together is None


def test_pairs_are_measured_where_public_numbers_allow():
    """Noise (d/4)/(n mu sqrt(.05)) below .05 on the share of a pair: 179 rows of 8 columns."""
    for rows, bought in ((178, False), (180, True)):
        shares = missing_shares(Gaussian(1.0), rows, 8, corrects=True)
        assert shares == {"present": 0.05} | ({"pairs": 0.05} if bought else {})
    assert "pairs" in missing_shares(Pure(1.0), 3500, 8, corrects=True)
    assert "pairs" not in missing_shares(Pure(1.0), 3300, 8, corrects=True)
    for rows, columns, corrects in ((None, 8, True), (10**6, 1, True), (10**6, 8, False)):
        asked = missing_shares(Gaussian(1.0), rows, columns, corrects=corrects)
        assert asked == {"present": 0.05}


def test_shares_are_never_so_small_that_noise_makes_them():
    """Of few rows with much noise a share is at least four deviations of it."""
    present = run(holes(200), mu=0.5).present
    deviation = math.sqrt(4) / (200 * 0.5)
    assert (present >= 4 * deviation - 1e-12).all()
    assert (present <= 1.0).all()
    assert (run(holes(20), mu=0.1).present == 1.0).all()  # nothing is known


def test_infinite_cells_are_not_empty():
    rows = holes(100)
    rows[3, 0] = np.inf
    with pytest.raises(InvalidDataError, match="infinite"):
        run(rows)


def _with_holes(rows, together=False):
    """In company with empty cells, in two columns half of them ``together``."""
    crowd = case.with_distances(np.where(rows < 0, np.nan, rows) if together else rows)
    crowd[:400:3, 0] = np.nan
    if together:
        crowd[:200:3, 1:2] = crowd[1:200:3, 1:2] = np.nan
    return crowd


def _ball(d):
    return Clip(row_norm=CellPresence.reach(d), on_invalid="zero")


def _cells(rows, adjacency):
    """With zeros as empty cells, which tables of all cases have."""
    cells = case.open_rows(np.where(rows == 0, np.nan, rows)).map(CellPresence(case.FILLED))
    return total(cells, _ball(cells.n_columns), adjacency)


def _pairs(rows, adjacency):
    """Products of marks, with negative cells as empty ones: marks of all and of none are alike."""
    cells = case.open_rows(np.where(rows < 0, np.nan, rows)).map(CellPresence(case.FILLED))
    return second_moment(cells, _ball(cells.n_columns), adjacency)


def _full_and_half_empty(d, adjacency):
    """Marks that are orthogonal where the number of columns is even."""
    return np.ones(d), np.where(np.arange(d) < d // 2, np.nan, 1.0)


def _with_pairs(shares, pairs, inner):
    """All steps, with the shares of pairs among what is released."""
    return {
        "build": lambda strength, d, k: Present(
            shares=shares(strength),
            pairs=pairs(strength),
            inner=Uncentred(inner=inner(strength), row_norm=1.0),
        ),
        "query": _pairs,
        "run": lambda step, rows, adjacency, gate: step.run(
            case.open_rows(_with_holes(rows, together=True)), case.FILLED, gate
        ),
        "read": lambda released: np.concatenate(
            [case.upper(released.pairs_present.shares), case.matrix(released.inner)]
        ),
        "worst_pair": _full_and_half_empty,
        "attained": 0.98,  # of 7 columns
        "adjacencies": (REPLACE,),
        "may_coincide": True,
        "trials": 1000,
        "shows": False,
    }


def _full_and_empty(d, adjacency):
    """A row without an empty cell, and one with nothing else."""
    return np.ones(d), None if adjacency is ADD else np.full(d, np.nan)


CASES = [
    case.Case(
        "present",
        lambda mu, d, k: Present(
            shares=PrivateMean(noise=GaussianNoise(mu=math.sqrt(0.5) * mu)),
            inner=Uncentred(inner=GaussCov(mu=math.sqrt(0.5) * mu * (1 - 2**-40)), row_norm=1.0),
        ),
        query=_cells,
        run=lambda step, rows, adjacency, gate: step.run(
            case.open_rows(_with_holes(rows)), case.FILLED, gate
        ),
        read=lambda released: np.concatenate([released.present, case.matrix(released.inner)]),
        norm="l2",
        sensitivity=case.MEAN,
        worst_pair=_full_and_empty,
        may_coincide=True,  # a share of 1 is no more
        trials=1000,
        shows=False,
    ),
    case.Case(
        "present pairs",
        **_with_pairs(
            lambda mu: PrivateMean(noise=GaussianNoise(mu=math.sqrt(0.3) * mu)),
            lambda mu: GaussCov(mu=math.sqrt(0.3) * mu),
            lambda mu: GaussCov(mu=math.sqrt(0.4) * mu * (1 - 2**-40)),
        ),
    ),
    case.Case(
        "present pairs pure",
        **_with_pairs(
            lambda epsilon: PrivateMean(noise=LaplaceNoise(epsilon=0.25 * epsilon)),
            lambda epsilon: WishartCov(epsilon=0.25 * epsilon, clean=False),
            lambda epsilon: WishartCov(epsilon=0.5 * epsilon, clean=False),
        ),
        norm="nuclear",
        sensitivity=case.NUCLEAR,
        exact=False,
        ledger={"epsilon": 10.0},
        **case.PURE,
    ),
]
