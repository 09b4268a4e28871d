"""Steps of a stream that renew scales and centre: exact post-processing, and the cost."""

import math
from dataclasses import replace

import numpy as np
import pytest

from eigenveil.exact import Clip, column_squares
from eigenveil.exceptions import BudgetExceededError
from eigenveil.mechanisms import (
    Gate,
    Oja,
    OnePassState,
    ReleasedScales,
    RowBounds,
    standardised_by_itself,
    standardising_step,
)
from eigenveil.numerics import SimulationSource
from eigenveil.papers.kpca import AdaptiveOja
from eigenveil.privacy import Adjacency, Gaussian
from eigenveil.rows import Batch
from tests.conformance import case

REPLACE = Adjacency.REPLACE_ONE


def begun(d, **changes):
    """Return bounds on rows in scales of about one."""
    columns = ReleasedScales(
        scale=np.ones(d),
        turn=np.full(d, 1e6),
        limit=8.0,
        first=np.ones(d),
        least=np.full(d, 1e-6),
        variances=np.ones(d),
        noise=np.full(d, 0.3),
        centre_error=np.full(d, 0.1 / d),
    )
    return RowBounds(centre=np.zeros(d), centre_error=0.1, columns=replace(columns, **changes))


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


def taken(method, rows, seed=0, total=None, **changes):
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
    return standardising_step(method, whole(d), begun(d, **changes), Batch(rows, 0), clip, gate)


def standardised(state, factor, variances=None, offset=None, k=1):
    """Return an estimate divided by factors, of columns with these variances."""
    d = len(factor)
    variances = np.ones(d) if variances is None else np.asarray(variances)
    offset = np.zeros(d) if offset is None else offset
    return state.standardised(offset, np.asarray(factor), variances, np.full(d, 0.1), k)


def test_an_estimate_in_other_scales_is_the_matrix_in_them():
    """Exact where it holds the whole matrix, about any centre."""
    random = np.random.default_rng(0)
    rows = random.standard_normal((50, 5))
    moment = rows.T @ rows / 50
    offset, factor = 0.1 * random.standard_normal(5), np.exp(random.standard_normal(5))
    after = standardised(whole(5, moment), factor, factor**2, offset)
    expected = (moment - np.outer(offset, offset)) / np.outer(factor, factor)
    assert matrix_of(after) == pytest.approx(expected)
    assert after.basis.T @ after.basis == pytest.approx(np.eye(5))
    assert np.all(np.diff(after.values(5)) <= 1e-12)
    assert after.trace == pytest.approx(5.0)


def test_a_narrow_estimate_keeps_its_directions():
    basis = np.eye(6)[:, :2]
    state = OnePassState(basis, basis * [9.0, 4.0], trace=17.0, steps=1, noise_variance=1e-4)
    after = standardised(state, [3.0, 2.0, 1.0, 1.0, 1.0, 1.0], [9.0, 4.0, 1.0, 1.0, 1.0, 1.0])
    assert np.abs(after.basis[:2]).max() == pytest.approx(1.0)
    assert after.values(2) == pytest.approx([1.0, 1.0])


def test_an_enlarged_column_has_no_more_outside_the_basis_than_its_variance():
    """The level outside would be a hundred in a column that is enlarged ten times."""
    random = np.random.default_rng(0)
    basis = np.linalg.qr(np.vstack([random.standard_normal((29, 4)), np.zeros(4)]))[0]
    state = OnePassState(basis, 2.0 * basis, trace=34.0, steps=1, noise_variance=1e-6)
    assert state.level == pytest.approx(1.0)
    factor, variances = np.append(np.ones(29), 0.1), np.append(np.ones(29), 0.001)
    assert standardised(state, factor, variances).values(1)[0] < 12


def test_noise_grows_in_columns_that_are_enlarged_and_nowhere_else():
    """Entries of divided noise have the stated deviations, the diagonal one that is larger."""
    random = np.random.default_rng(0)
    factor = np.array([1.0, 1.0, 2.0, 0.1])
    found = []
    for _ in range(2000):
        noise = random.standard_normal((4, 4)) * 1e-2
        after = standardised(whole(4, (noise + noise.T) / math.sqrt(2)), factor)
        found.append(matrix_of(after))
    seen, stated = np.std(found, axis=0), after.noise()
    across = np.sqrt(stated.variance * np.outer(stated.spread, stated.spread))
    apart = ~np.eye(4, dtype=bool)
    assert seen[apart] == pytest.approx(across[apart], rel=0.1)
    assert seen.diagonal() == pytest.approx(stated.on_diagonal, rel=0.1)
    assert after.components(1).noise_scale >= math.sqrt(stated.variance) * stated.spread.mean()


def test_the_noise_of_two_batches_is_at_least_that_of_their_mean():
    state = standardised(whole(4), [1.0, 1.0, 1.0, 0.2])
    after = state.corrected(np.zeros((4, 4)), 1e-2, Batch(np.zeros((10, 4)), 0))
    rate = after.doubt / 1e-2**2
    before, noise = state.noise(), after.noise()
    first = before.variance * np.outer(before.spread, before.spread)
    mean = (1 - rate) ** 2 * first + rate**2 * 1e-2**2
    stated = noise.variance * np.outer(noise.spread, noise.spread)
    assert (stated >= mean * (1 - 1e-9)).all()
    assert stated.diagonal() == pytest.approx(mean.diagonal())


def test_records_are_not_pulled_in_towards_enlarged_noise():
    """Zero in an enlarged column that shows no variance, the image elsewhere."""
    moment = np.diag([2.0, 1.0, 1.0, 0.001])
    moment[0, 3] = moment[3, 0] = 0.01
    enlarged = standardised(whole(4, moment), [1.0, 1.0, 1.0, 0.1])
    expected = enlarged.expected @ enlarged.basis.T
    assert expected[:3, :3] == pytest.approx(moment[:3, :3])
    assert expected[3] == pytest.approx(np.zeros(4))
    assert expected[:, 3] == pytest.approx(np.zeros(4))
    clear = standardised(whole(4, np.diag([2.0, 1.0, 1.0, 0.1])), [1.0, 1.0, 1.0, 0.1])
    assert clear.expected == pytest.approx(clear.image)


def test_scales_and_centre_follow_what_a_batch_brings():
    """Columns that are off by 3 and .2, a centre that is off by half a deviation; a seeded draw."""
    random = np.random.default_rng(1)
    rows = random.standard_normal((200_000, 4)) * [3.0, 0.2, 1.0, 1.0] + [0, 0, 0.5, 0]
    after, bounds = taken(Oja(strength=Gaussian(5.0), n_components=1), rows)
    assert bounds.columns.scale == pytest.approx([3.0, 0.2, 1.0, 1.0], rel=0.1)
    centre = bounds.centre * bounds.columns.scale
    assert centre == pytest.approx([0.0, 0.0, 0.5, 0.0], abs=0.02)
    assert matrix_of(after).diagonal() == pytest.approx(np.ones(4), rel=0.15)
    released, final, hidden = standardised_by_itself(after, bounds, 4)
    assert released.eigenvalues.sum() == pytest.approx(4.0, rel=1e-6)
    assert final.columns.scale == pytest.approx([3.0, 0.2, 1.0, 1.0], rel=0.1)
    assert not hidden.any()


def test_a_small_batch_hardly_moves_a_centre_that_is_known():
    rows = np.random.default_rng(1).standard_normal((40, 4))
    _, bounds = taken(Oja(strength=Gaussian(0.3), n_components=1), rows)
    assert np.linalg.norm(bounds.centre * bounds.columns.scale) < 0.3
    assert bounds.centre_error <= 0.1 * np.mean(bounds.columns.scale**-2.0) * (1 + 1e-9)


def test_equal_rows_and_wild_ones_release_numbers():
    for rows in (np.zeros((50, 3)), np.full((50, 3), 1e308), np.full((1, 3), 5.0)):
        after, bounds = taken(Oja(strength=Gaussian(0.3), n_components=1), rows)
        found, released, _ = standardised_by_itself(after, bounds, 1)
        for numbers in (found.components, found.eigenvalues, released.centre, bounds.centre):
            assert np.isfinite(numbers).all()
        for columns in (bounds.columns, released.columns):
            assert np.isfinite(columns.scale).all()
            assert (columns.scale > 0).all()


def test_entries_that_are_cut_off_in_a_small_scale_raise_it_again():
    """One row in a hundred has a flag: of deviation .1, and in a scale of .01 it is cut off."""
    random = np.random.default_rng(2)
    rows = random.standard_normal((100_000, 3))
    rows[:, 2] = (random.random(100_000) < 0.01) / 0.01
    small = {
        "first": np.array([1.0, 1.0, 100.0]),
        "noise": np.array([0.3, 0.3, np.inf]),
        "least": np.array([0.5, 0.5, 1e-3]),
    }
    after, bounds = taken(Oja(strength=Gaussian(5.0), n_components=1), rows, **small)
    assert bounds.columns.scale[2] == pytest.approx(10.0, rel=0.1)
    _, released, _ = standardised_by_itself(after, bounds, 1)
    assert released.columns.scale == pytest.approx([1.0, 1.0, 10.0], rel=0.1)
    _, fallen = taken(Oja(strength=Gaussian(5.0), n_components=1), rows)
    assert fallen.columns.scale[2] < 1.0


@pytest.mark.parametrize("build", [Oja, AdaptiveOja])
def test_a_step_costs_no_more_than_one_of_the_method(build):
    """Variances and mean are paid from the mu of the step; a millionth less would not do."""
    rows = np.random.default_rng(0).standard_normal((2000, 3))
    if build is Oja:
        method = Oja(strength=Gaussian(1.0), n_components=1)
        with pytest.raises(BudgetExceededError):
            taken(method, rows, total=Gaussian(1 - 1e-6))
    else:
        method = AdaptiveOja(strength=Gaussian(1.0), n_components=1)
    taken(method, rows)


def _squares(rows, adjacency):
    return column_squares(case.open_rows(rows), case.CLIP, adjacency)


def _step(mechanism, rows, adjacency, gate):
    d = rows.shape[1]
    clip = replace(case.CLIP, centre=np.zeros(d))
    batch = Batch(case.open_rows(rows).whole(), 0)
    first = np.append(np.ones(d - 1), 4.0)  # in which the variance of the last column is bought
    return standardising_step(mechanism, whole(d), begun(d, first=first), batch, clip, gate)


def _read(found):
    after, bounds = found
    columns = bounds.columns
    return np.concatenate(
        [case.upper(matrix_of(after)), bounds.centre, columns.scale, columns.variances]
    )


CASES = [
    case.Case(
        "standardising step",
        lambda mu, d, k: Oja(strength=Gaussian(mu), n_components=k),
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
