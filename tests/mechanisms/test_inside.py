"""Inside: what it estimates, for any basis and without a centre."""

import math

import numpy as np
import pytest

from eigenveil.exact import Clip, Project, second_moment
from eigenveil.exceptions import InvalidParameterError
from eigenveil.federated import ProjectedMoment
from eigenveil.mechanisms import Gate, directions
from eigenveil.numerics import SimulationSource
from eigenveil.privacy import Adjacency
from eigenveil.rows import ArraySource
from tests.conformance import case

REPLACE = Adjacency.REPLACE_ONE
RNG = np.random.default_rng(8)
D, K, N = 7, 3, 4000
BASIS = np.linalg.qr(RNG.standard_normal((D, K)))[0]
CENTRE = 10 * RNG.standard_normal(D)
ROWS = CENTRE + RNG.standard_normal((N, D)) * np.arange(1, D + 1)


def run(mu: float, rows: np.ndarray = ROWS, *, seed: int = 1, **fields: object):
    step = ProjectedMoment(mu=mu, **{"basis": BASIS, **fields})
    gate = Gate(
        step.cost(), label="x", adjacency=REPLACE, ledger=None, noise=SimulationSource(seed)
    )
    released = step.run(ArraySource(rows), Clip(row_norm=9.0, centre=CENTRE), gate)
    return released, gate


def naive(rows: np.ndarray, centre: object = CENTRE) -> np.ndarray:
    unit = rows - centre
    unit = unit / np.linalg.norm(unit, axis=1, keepdims=True)
    return BASIS.T @ (unit.T @ unit / len(unit)) @ BASIS


def test_the_matrix_is_that_of_unit_rows_along_the_basis():
    """Deviation of the noise: sqrt(2)/(n mu), on the diagonal; eight of them once in 10^15."""
    released, gate = run(5.0)
    assert released.noise_scale == pytest.approx(math.sqrt(2) / (N * 5.0), rel=1e-6)
    np.testing.assert_allclose(released.matrix, naive(ROWS), atol=8 * released.noise_scale)
    assert gate.rows == N
    assert gate.exact


def test_pairs_need_no_centre():
    released, gate = run(1e4, ROWS + 100.0, paired=True)
    np.testing.assert_allclose(released.matrix, naive(ROWS), atol=0.03)  # half as many rows
    assert gate.rows == N
    assert released.noise_scale == pytest.approx(2 * math.sqrt(2) / (N * 1e4), rel=1e-6)


@pytest.mark.parametrize("basis", [2 * BASIS, np.ones((D, K)), np.full((D, K), 1e3)])
def test_a_basis_that_is_none_moves_no_bound(basis):
    """The rows are pulled in to the ball again: their squared norms add up to at most one each."""
    clip = directions(Clip(row_norm=1.0, centre=CENTRE))
    source = ArraySource(ROWS).map(Project(clip, basis))
    moment = second_moment(source, Clip(row_norm=1.0), REPLACE)
    assert np.trace(moment.value.to_float()) <= N
    assert moment.sensitivity("frobenius") <= math.sqrt(2) * (1 + 1e-6)


@pytest.mark.parametrize(
    "basis", [(1 + 1e-6) * BASIS, BASIS[:, [0, 0]], BASIS * np.inf, np.full((D, K), 1e300)]
)
def test_columns_are_orthonormal(basis):
    """Of longer ones no product of integers would be sure to be exact."""
    with np.errstate(all="ignore"), pytest.raises(InvalidParameterError, match="orthonormal"):
        ProjectedMoment(mu=1.0, basis=basis)
    ProjectedMoment(mu=1.0, basis=(1 + 1e-7) * BASIS)


def test_a_box_is_one_of_rows_and_not_of_their_differences():
    step = ProjectedMoment(mu=1e4, basis=BASIS, paired=True)
    box = (CENTRE - 1e3, CENTRE + 1e3)
    released = []
    for clip in (Clip(row_norm=9.0), Clip(row_norm=9.0, box=box)):
        gate = Gate(
            step.cost(), label="x", adjacency=REPLACE, ledger=None, noise=SimulationSource(3)
        )
        released.append(step.run(ArraySource(ROWS), clip, gate).matrix)
    np.testing.assert_allclose(*released, atol=1e-9)


def test_rows_at_the_centre_add_nothing():
    released, _ = run(1e6, np.tile(CENTRE, (50, 1)))
    np.testing.assert_allclose(released.matrix, np.zeros((K, K)), atol=1e-6)


def _inside_directions(rows, adjacency):
    """Directions of rows in the coordinates of two between the axes, or of the only one."""
    basis = case.turned(rows.shape[1])[:, :2]
    return second_moment(
        case.open_rows(rows).map(Project(case.DIRECTIONS, basis)), case.CLIP, adjacency
    )


def _in_the_basis(d, adjacency):
    """A long row inside it, and another across."""
    turned = 1e3 * case.turned(d)
    return turned[:, 0], None if adjacency is case.ADD else turned[:, 1]


CASES = [
    case.Case(
        "inside",
        lambda mu, d, k: ProjectedMoment(mu=mu, basis=case.turned(d)[:, :2]),
        query=_inside_directions,
        worst_pair=_in_the_basis,
        proof="inside",
    ),
]
