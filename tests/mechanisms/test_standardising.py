"""Steps of a stream that renew scales and centre: exact post-processing, and the cost."""

import math
from dataclasses import replace

import numpy as np
import pytest

from eigenveil.data import Clip, column_squares
from eigenveil.data.sources import Batch
from eigenveil.exceptions import BudgetExceededError
from eigenveil.mechanisms import Gate
from eigenveil.mechanisms.pca.adaptive_oja import AdaptiveOjaPCA
from eigenveil.mechanisms.pca.oja import OjaPCA
from eigenveil.mechanisms.pca.one_pass import OnePassState
from eigenveil.mechanisms.row_bounds import ReleasedScales, RowBounds
from eigenveil.mechanisms.standardising import standardised_by_itself, standardising_step
from eigenveil.numerics.random import SimulationSource
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.cost import Gaussian
from tests.conformance import case

REPLACE = Adjacency.REPLACE_ONE


def begun(d, centre=None):
    """Return bounds on rows in scales of about one."""
    columns = ReleasedScales(
        scale=np.ones(d),
        turn=np.full(d, 1e6),
        limit=8.0,
        least=np.full(d, 1e-6),
        variances=np.ones(d),
        noise=np.full(d, 0.3),
    )
    centre = np.zeros(d) if centre is None else centre
    return RowBounds(centre=centre, centre_error=0.1, columns=columns)


def matrix_of(iterate):
    """Return the estimate as a matrix."""
    return iterate.image @ iterate.basis.T


def whole(d, image=None):
    return OnePassState(
        np.eye(d),
        np.zeros((d, d)) if image is None else image,
        steps=1,
        noise_variance=1e-4,
        doubt=1e-4,
    )


def taken(method, rows, mu=None, seed=0, total=None):
    """Take one step on the rows."""
    d = rows.shape[1]
    gate = Gate(
        total or method.cost(),
        label="x",
        adjacency=REPLACE,
        ledger=None,
        noise=SimulationSource(seed),
    )
    clip = Clip(row_norm=6.0, centre=np.zeros(d))
    return standardising_step(method, whole(d), begun(d), Batch(rows, 0), clip, gate)


def test_an_estimate_in_other_scales_is_the_matrix_in_them():
    """Exact where it holds the whole matrix, about any centre."""
    random = np.random.default_rng(0)
    rows = random.standard_normal((50, 5))
    moment = rows.T @ rows / 50
    offset, factor = 0.1 * random.standard_normal(5), np.exp(random.standard_normal(5))
    after = whole(5, moment).standardised(offset, factor, 5.0, 0.1, 2)
    expected = (moment - np.outer(offset, offset)) / np.outer(factor, factor)
    assert matrix_of(after) == pytest.approx(expected)
    assert after.basis.T @ after.basis == pytest.approx(np.eye(5))
    assert np.all(np.diff(after.values(5)) <= 1e-12)
    assert after.trace == 5.0


def test_a_narrow_estimate_keeps_its_directions():
    basis = np.eye(6)[:, :2]
    state = OnePassState(basis, basis * [9.0, 4.0], trace=17.0, steps=1, noise_variance=1e-4)
    factor = np.array([3.0, 2.0, 1.0, 1.0, 1.0, 1.0])
    after = state.standardised(np.zeros(6), factor, 6.0, 0.1, 2)
    assert np.abs(after.basis[:2]).max() == pytest.approx(1.0)
    assert after.values(2) == pytest.approx([1.0, 1.0])


def test_noise_grows_with_columns_that_are_divided_by_little():
    state = whole(4, np.diag([4.0, 3.0, 2.0, 0.01]))
    same = state.standardised(np.zeros(4), np.ones(4), 9.0, 0.1, 1)
    assert same.noise_variance == pytest.approx(state.noise_variance)
    after = state.standardised(np.zeros(4), np.array([1.0, 1.0, 1.0, 0.01]), 9.0, 0.1, 1)
    assert np.abs(after.basis[3, 0]) == pytest.approx(1.0)  # the leading one now
    assert after.noise_variance > 1e7 * state.noise_variance


def test_scales_and_centre_follow_what_a_batch_brings():
    """Columns that are off by 3 and .2, a centre that is off by half a deviation; a seeded draw."""
    random = np.random.default_rng(1)
    rows = random.standard_normal((200_000, 4)) * [3.0, 0.2, 1.0, 1.0] + [0, 0, 0.5, 0]
    after, bounds = taken(OjaPCA(mu=5.0, n_components=1), rows)
    assert bounds.columns.scale == pytest.approx([3.0, 0.2, 1.0, 1.0], rel=0.1)
    centre = bounds.centre * bounds.columns.scale
    assert centre == pytest.approx([0.0, 0.0, 0.5, 0.0], abs=0.02)
    assert matrix_of(after).diagonal() == pytest.approx(np.ones(4), rel=0.15)
    released, final = standardised_by_itself(after, bounds, 1)
    assert released.diagonal == pytest.approx(np.ones(4), rel=1e-6)
    assert final.columns.scale == pytest.approx([3.0, 0.2, 1.0, 1.0], rel=0.1)


def test_a_small_batch_hardly_moves_a_centre_that_is_known():
    rows = np.random.default_rng(1).standard_normal((40, 4))
    _, bounds = taken(OjaPCA(mu=0.3, n_components=1), rows)
    assert np.linalg.norm(bounds.centre * bounds.columns.scale) < 0.3
    assert bounds.centre_error <= 0.1 * np.mean(bounds.columns.scale**-2.0) * (1 + 1e-9)


def test_equal_rows_and_wild_ones_release_numbers():
    for rows in (np.zeros((50, 3)), np.full((50, 3), 1e308), np.full((1, 3), 5.0)):
        after, bounds = taken(OjaPCA(mu=0.3, n_components=1), rows)
        after, bounds = standardised_by_itself(after, bounds, 1)
        for found in (after.basis, after.image, bounds.centre, bounds.columns.scale):
            assert np.isfinite(found).all()
        assert (bounds.columns.scale > 0).all()


@pytest.mark.parametrize("build", [OjaPCA, AdaptiveOjaPCA])
def test_a_step_costs_no_more_than_one_of_the_method(build):
    """Variances and mean are paid from the mu of the step; a millionth less would not do."""
    rows = np.random.default_rng(0).standard_normal((2000, 3))
    if build is OjaPCA:
        method = OjaPCA(mu=1.0, n_components=1)
        with pytest.raises(BudgetExceededError):
            taken(method, rows, total=Gaussian(1 - 1e-6))
    else:
        method = AdaptiveOjaPCA.build(1.0, 1)
    taken(method, rows)


def _squares(rows, adjacency):
    return column_squares(case.open_rows(rows), case.CLIP, adjacency)


def _step(mechanism, rows, adjacency, gate):
    d = rows.shape[1]
    clip = replace(case.CLIP, centre=np.zeros(d))
    batch = Batch(case.open_rows(rows).whole(), 0)
    return standardising_step(mechanism, whole(d), begun(d), batch, clip, gate)


def _read(found):
    after, bounds = found
    columns = bounds.columns
    return np.concatenate(
        [case.upper(matrix_of(after)), bounds.centre, columns.scale, columns.variances]
    )


CASES = [
    case.Case(
        "standardising step",
        "standardising",
        lambda mu, d, k: OjaPCA(mu=mu, n_components=k),
        query=_squares,
        run=_step,
        read=_read,
        norm="l2",
        sensitivity={REPLACE: lambda d: math.sqrt(2)},
        worst_pair=lambda d, adjacency: (np.eye(d)[0], np.eye(d)[-1]),
        adjacencies=(REPLACE,),
        persons=False,
        may_coincide=True,
        trials=500,
        shows=False,
        proof="streaming",
    ),
]
