"""Shares of present cells, and moments that allow for empty ones."""

import math

import numpy as np
import pytest

from eigenveil.data import Clip, open_rows, total
from eigenveil.data.sources import PresentSource
from eigenveil.exceptions import InvalidDataError
from eigenveil.mechanisms import Gate, GaussCov, GaussianNoise, PrivateMean, Uncentred
from eigenveil.mechanisms.covariance.gauss import NoisyMatrix
from eigenveil.mechanisms.present import Present
from eigenveil.numerics.random import SimulationSource
from eigenveil.privacy.adjacency import Adjacency
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
    noisy = NoisyMatrix(np.eye(2), 0.1, None)
    assert noisy.allowing_for(None) is noisy
    assert noisy.allowing_for(np.full(2, 0.5)).noise_scale == pytest.approx(0.4)


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


def _with_holes(rows):
    crowd = case.with_distances(rows)
    crowd[:400:3, 0] = np.nan
    return crowd


def _cells(rows, adjacency):
    """With zeros as empty cells, which tables of all cases have."""
    cells = PresentSource(case.open_rows(np.where(rows == 0, np.nan, rows)), case.FILLED)
    return total(cells, Clip(row_norm=cells.reach, on_invalid="zero"), adjacency)


def _full_and_empty(d, adjacency):
    """A row without an empty cell, and one with nothing else."""
    return np.ones(d), None if adjacency is ADD else np.full(d, np.nan)


CASES = [
    case.Case(
        "present",
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
]
