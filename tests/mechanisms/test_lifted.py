"""Rows lifted by a constant column: centre and covariance from one matrix."""

import math

import numpy as np
import pytest

from eigenveil.exact import Clip, second_moment
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms import Gate, HomogeneousRows, WishartCov
from eigenveil.numerics import SimulationSource
from eigenveil.privacy import Adjacency
from eigenveil.rows import open_rows
from tests.conformance import case

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE


def run(procedure, rows, seed, adjacency):
    gate = Gate(
        procedure.cost(),
        label="x",
        adjacency=adjacency,
        ledger=None,
        noise=SimulationSource(seed),
    )
    return procedure.run(open_rows(rows), Clip(row_norm=1.0), gate)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)
def test_little_noise_leaves_the_covariance(adjacency):
    rows = np.random.default_rng(0).standard_normal((3000, 4)) * 0.1 + [0.1, 0.0, -0.2, 0.3]
    lifted = HomogeneousRows(inner=WishartCov(epsilon=1e6, clean=False), row_norm=1.0)
    found = run(lifted, rows, 0, adjacency)
    rows_found = 1.0 if found.noisy_count is None else found.noisy_count
    assert found.centre == pytest.approx(rows.mean(axis=0), abs=1e-3)
    covariance = np.cov(rows.T, bias=True)
    assert found.inner.matrix / rows_found == pytest.approx(covariance, abs=1e-4)
    values = np.linalg.eigvalsh(covariance)
    assert found.inner.noisy_eigenvalues / rows_found == pytest.approx(values, abs=1e-4)
    if adjacency is ADD:
        assert found.noisy_count == pytest.approx(3000, rel=1e-3)
    with pytest.raises(InvalidParameterError, match="clean=False"):
        HomogeneousRows(inner=WishartCov(epsilon=1.0), row_norm=1.0)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)
def test_the_noise_of_the_mean_is_stated(adjacency):
    """The root mean square of 160 seeded errors, in stated ones, is 1 to within 4 deviations; up to
    a seventh more is the noise of the corner, and what cleaning takes.
    """
    rows = np.random.default_rng(0).standard_normal((3000, 4)) * 0.1 + [0.1, 0.0, -0.2, 0.3]
    lifted = HomogeneousRows(inner=WishartCov(epsilon=8.0, clean=False), row_norm=1.0)
    errors = []
    for seed in range(40):
        found = run(lifted, rows, seed, adjacency)
        stated = np.sqrt(found.distance_error / 4)
        errors += list((found.centre - rows.mean(axis=0)) / stated)
    assert 1 - 0.22 < np.sqrt(np.mean(np.square(errors))) < 1.14 + 0.22


def test_pure_noise_stays_within_bounds():
    rows = np.zeros((5, 3))
    for seed in range(20):
        for adjacency in (REPLACE, ADD):
            lifted = HomogeneousRows(inner=WishartCov(epsilon=0.1, clean=False), row_norm=1.0)
            found = run(lifted, rows, seed, adjacency)
            assert np.linalg.norm(found.centre) <= 1 + 1e-12
            assert np.isfinite(found.inner.matrix).all()
            assert found.noisy_count is None or found.noisy_count >= 1


def _lifted_moment(rows, adjacency):
    lifted = Clip(row_norm=1.0, on_invalid="zero", lift=0.5)
    return second_moment(case.open_rows(rows), lifted, adjacency)


def _oblique(d, adjacency):
    """Lifted by 1/2, rows with scalar product -1/4 are orthogonal."""
    first = np.eye(d)[0]
    return first, None if adjacency is case.ADD else -first / 4 + np.eye(d)[-1] * math.sqrt(15) / 4


CASES = [
    case.Case(
        "lifted",
        lambda epsilon, d, k: HomogeneousRows(
            inner=WishartCov(epsilon=epsilon, clean=False), row_norm=1.0
        ),
        query=_lifted_moment,
        worst_pair=_oblique,
        may_coincide=True,
        read=case.centred_entries,
        norm="nuclear",
        sensitivity=case.NUCLEAR,
        exact=False,
        **case.PURE,
    ),
]
