"""Stages about one centre, and scales of columns before them."""

import math

import numpy as np
import pytest

from eigenveil.exact import Clip, eigenvalues, inside, moment_products, second_moment
from eigenveil.exceptions import NothingFoundError
from eigenveil.mechanisms import (
    ColumnScale,
    ComponentStages,
    Further,
    Gate,
    GaussCov,
    GaussianNoise,
    PrivateDistances,
    PrivateRank,
    PrivateVariances,
    Scaled,
    ScoreHistogram,
    Spherical,
    Tangent,
    Uncentred,
    Variances,
)
from eigenveil.numerics import SimulationSource
from eigenveil.privacy import Adjacency, Gaussian, compose, split
from eigenveil.rows import open_rows
from tests.conformance import case

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
BOTH = pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)
CLIP = Clip(row_norm=1.0)
INNER = Spherical(strength=Gaussian(0.5), n_components=1)
RANK = PrivateRank(noise=GaussianNoise(mu=0.3), max_rank=5, rows=4000)
VARIANCES = Variances(
    distances=PrivateDistances(noise=GaussianNoise(mu=0.2)),
    values=PrivateVariances(noise=GaussianNoise(mu=0.4)),
)
SCALES = np.array([30.0, 25.0, 20.0] + [1.0] * 9)  # the inner rows see three of them
ROWS = np.random.default_rng(0).standard_normal((4000, 12)) * SCALES


def run(procedure, rows, adjacency=REPLACE, seed=0):
    gate = Gate(
        procedure.cost(),
        label="x",
        adjacency=adjacency,
        ledger=None,
        noise=SimulationSource(seed),
    )
    return procedure.run(open_rows(rows), CLIP, gate), gate


def test_stages_that_were_not_asked_for_cost_nothing():
    assert ComponentStages(inner=INNER, normalise=True).cost() == INNER.cost()
    whole = ComponentStages(inner=INNER, normalise=True, rank=RANK, variances=VARIANCES)
    assert whole.cost() == compose(
        Gaussian(0.3), Gaussian(0.5), VARIANCES.distances.cost(), Gaussian(0.4)
    )
    _, gate = run(whole, ROWS)
    assert compose(*gate._spent) == whole.cost()


@BOTH
@pytest.mark.parametrize("lazy", [False, True])
def test_a_rank_components_and_their_variance(adjacency, lazy):
    """Rows are clipped where noise and loss are least: here beyond nearly all of them."""
    staged = ComponentStages(inner=INNER, normalise=True, rank=RANK, variances=VARIANCES, lazy=lazy)
    found, _ = run(staged, ROWS, adjacency)
    assert len(found.components.components) == 3
    assert np.sum(found.components.components[:, :3] ** 2) > 2.95
    lengths = np.linalg.norm(ROWS, axis=1)
    assert np.quantile(lengths, 0.99) < found.row_norm < math.sqrt(2) * lengths.max()
    variance = found.variance / (1 if adjacency is REPLACE else len(ROWS))
    assert 0.97 < variance / float(np.sum(SCALES[:3] ** 2)) < 1.05


@BOTH
def test_one_row_moves_the_variance_inside_by_one(adjacency):
    """Of rows in the unit ball, however many the directions; both forms of the moment agree."""
    directions = np.linalg.qr(np.random.default_rng(1).standard_normal((12, 5)))[0].T
    table = np.vstack([ROWS[:50], directions[2]])
    neighbour = np.vstack([ROWS[:50], np.zeros((int(adjacency is REPLACE), 12))])
    for moment in (second_moment, moment_products):
        first, second = (
            inside(moment(open_rows(rows), CLIP, adjacency), directions)
            for rows in (table, neighbour)
        )
        assert first.value.units.shape == (1,)
        assert dict(first.sensitivities) == {"l1": 1.0, "l2": 1.0}
        gap = abs(float(first.value.to_float()[0] - second.value.to_float()[0]))
        assert 1 - 2.0**-13 < gap <= 1


def test_without_a_rank_there_is_nothing_to_go_on_with():
    rows = np.random.default_rng(0).standard_normal((4000, 12))
    staged = ComponentStages(inner=INNER, normalise=True, rank=RANK)
    with pytest.raises(NothingFoundError, match="state n_components"):
        run(staged, rows)


def test_rows_at_the_centre_have_no_variance():
    with pytest.raises(NothingFoundError, match="leave variances out"):
        run(ComponentStages(inner=INNER, normalise=True, variances=VARIANCES), np.zeros((500, 3)))


def scaled(mu=1.0):
    return Scaled(
        scale=ColumnScale(first=GaussianNoise(mu=mu)),
        inner=Uncentred(inner=GaussCov(mu=2.0), row_norm=10.0),
    )


def test_units_of_columns_do_not_matter():
    """Powers of two move a column by whole octaves. The scale is that of a column to a factor of
    two, what follows sees columns divided by it, and a constant column is left out.
    """
    rows = np.random.default_rng(0).standard_normal((4000, 3))
    units = 2.0 ** np.array([-40.0, 0.0, 70.0])
    found, gate = run(scaled(), np.column_stack([rows * units + 5 * units, np.ones(4000)]))
    assert (np.abs(np.log2(found.scale[:3] / units)) < 1).all()
    assert np.isinf(found.scale[3])
    expected = np.diag((rows + 5).T @ (rows + 5) / 4000) * (units / found.scale[:3]) ** 2
    assert np.diag(found.inner.matrix) == pytest.approx(expected, rel=0.1)
    assert gate.rows == 4000
    assert scaled().cost() == Gaussian(compose(Gaussian(1.0), Gaussian(2.0)).mu)


def test_no_scale_at_all_is_refused():
    with pytest.raises(NothingFoundError, match="more rows"):
        run(scaled(), np.ones((500, 3)))


def _stages(mu, d, k):
    """A rank, components, a distance, and a variance."""
    rank, inner, distance, values = split(mu, (0.2, 0.5, 0.1, 0.2))
    return ComponentStages(
        inner=Tangent(strength=Gaussian(inner), n_components=k),
        normalise=True,
        rank=PrivateRank(noise=GaussianNoise(mu=rank), max_rank=1, rows=case.ROWS),
        variances=Variances(
            distances=PrivateDistances(noise=GaussianNoise(mu=distance)),
            values=PrivateVariances(noise=GaussianNoise(mu=values)),
        ),
    )


def _staged(mechanism, rows, adjacency, gate):
    """A refusal is an outcome like any other."""
    rows = case.with_a_gap(rows)
    try:
        released = case.procedure(mechanism, rows, adjacency, gate)
    except NothingFoundError:
        return np.zeros(rows.shape[1] * (rows.shape[1] + 1) // 2 + 2)
    return np.append(case.projector(released.components), [released.variance, released.row_norm])


def _shown(mu, d, k):
    """Components, and a map of where rows lie on the first two."""
    inner, scores = split(mu, (0.6, 0.4))
    return ComponentStages(
        inner=Tangent(strength=Gaussian(inner), n_components=2),
        normalise=True,
        further=Further(scores=ScoreHistogram(noise=GaussianNoise(mu=scores), bins=4)),
    )


def _mapped(mechanism, rows, adjacency, gate):
    released = case.procedure(mechanism, case.two_columns(rows), adjacency, gate)
    return np.append(released.scores.counts.ravel(), released.scores.outside)


CASES = [
    case.Case(
        "staged scores",
        _shown,
        query=lambda rows, adjacency: case.direction_moment(case.two_columns(rows), adjacency),
        run=_mapped,
        read=lambda released: released,
        trials=1000,
        shows=False,
    ),
    case.Case(
        "staged",
        _stages,
        query=lambda rows, adjacency: eigenvalues(
            case.direction_moment(case.with_a_gap(rows), adjacency)
        ),
        run=_staged,
        read=lambda released: released,
        company=case.one_axis,
        norm="l2",
        may_coincide=True,
        exact=False,
        trials=1000,
        shows=False,
    ),
]
