"""Spiked on tables that follow its model: its bounds hold, are not loose, and are needed."""

import math
from dataclasses import replace

import numpy as np
import pytest

from eigenveil.audit import audit_mechanism
from eigenveil.exact import Clip, compressed, projector, second_moment
from eigenveil.exceptions import InvalidParameterError, UnsupportedNotionError
from eigenveil.mechanisms import Gate, GaussCov
from eigenveil.numerics import SimulationSource, subspace_distance, top_eigenpairs
from eigenveil.papers.spiked import Spiked, SpikedModel, SpikedProjector, SpikedValues
from eigenveil.privacy import Adjacency, Gaussian, Kind, rho_of
from eigenveil.rows import open_rows
from tests.conformance import case

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE


def model(**changes):
    numbers = {"rank": 2, "smallest_spike": 5.0, "largest_spike": 10.0, "noise_variance": 1.0}
    return SpikedModel(**(numbers | changes))


def whitened(n, d, rng, tail):
    if tail == "gaussian":
        return rng.standard_normal((n, d))
    return rng.uniform(-math.sqrt(3), math.sqrt(3), (n, d))  # strictly sub-Gaussian: proxy 1


def draw(law, n, d, rng):
    """Rows of the model along the first axes, without loss of generality."""
    spikes = np.zeros(d)
    spikes[: law.rank] = np.linspace(law.largest_spike, law.smallest_spike, law.rank)
    return whitened(n, d, rng, law.tail) * np.sqrt(spikes + law.noise_variance)


def influence(rows, k):
    return np.linalg.norm(rows[:, :k], axis=1) * np.linalg.norm(rows[:, k:], axis=1)


def observed(law, n, d, rng):
    """Largest change of the projector among the most influential replacements of one table."""
    k, rows, fresh = law.rank, draw(law, n, d, rng), draw(law, n, d, rng)
    moment = rows.T @ rows / n
    _, before = top_eigenpairs(moment, k)
    worst = 0.0
    for x in rows[np.argsort(influence(rows, k))[-4:]]:
        for y in fresh[np.argsort(influence(fresh, k))[-4:]]:
            _, after = top_eigenpairs(moment + (np.outer(y, y) - np.outer(x, x)) / n, k)
            worst = max(worst, float(np.linalg.norm(after.T @ after - before.T @ before)))
    return worst


@pytest.mark.parametrize(
    ("n", "d", "rank", "tail", "least"),
    [
        (10_000, 50, 1, "gaussian", 0.2),
        (10_000, 50, 3, "gaussian", 0.2),
        (20_000, 10, 2, "gaussian", 0.2),
        (20_000, 10, 2, "sub-gaussian", 0.05),
    ],
)
def test_replacing_a_row_of_the_model_moves_the_projector_less_than_declared(
    n, d, rank, tail, least
):
    """Each table exceeds the bound with probability at most 1e-3."""
    law = model(rank=rank, smallest_spike=10.0, tail=tail, failure=1e-3)
    declared = law.projector_sensitivity(n, d)
    assert declared < 0.1  # the model's, not the worst case
    rng = np.random.default_rng(0)
    worst = max(observed(law, n, d, rng) for _ in range(10))
    assert least * declared < worst <= declared


@pytest.mark.parametrize("tail", ["gaussian", "sub-gaussian"])
def test_rows_of_the_model_lie_in_its_ball(tail):
    """A row beyond it has probability at most 0.05 for each table of 20."""
    law, rng, beyond = model(tail=tail, failure=0.05), np.random.default_rng(1), 0
    for _ in range(20):
        norms = np.linalg.norm(draw(law, 2000, 20, rng), axis=1)
        beyond += bool(norms.max() > law.row_norm(2000, 20))
    assert beyond <= 4
    if tail == "gaussian":
        assert norms.max() > 0.6 * law.row_norm(2000, 20)


@pytest.fixture(scope="module")
def edge():
    """A table of the model and a replacement, both rows at the edge of what the model allows."""
    n, d, law = 5000, 10, model(rank=1, smallest_spike=10.0)
    rows = draw(law, n, d, np.random.default_rng(2))
    inside, outside = law._row_quantiles(n, d)
    x = np.eye(d)[0] * inside * math.sqrt(law.largest_spike + law.noise_variance)
    y = np.eye(d)[1] * outside * math.sqrt(law.noise_variance)
    first, second = rows.copy(), rows.copy()
    first[0], second[0] = x + y, x - y
    return law, first, second


def query(law, rows, sensitivity):
    clip = Clip(row_norm=1.001 * law.row_norm(*rows.shape))
    return projector(second_moment(open_rows(rows), clip, REPLACE), law.rank, sensitivity)


def test_rows_at_the_edge_of_the_model_attain_most_of_the_sensitivity(edge):
    law, first, second = edge
    declared = law.projector_sensitivity(*first.shape)
    one, other = (query(law, rows, declared).value.to_float() for rows in (first, second))
    assert 0.5 * declared < np.linalg.norm(one - other) <= declared


@pytest.mark.parametrize(("fault", "caught"), [(1.0, False), (10.0, True)])
def test_an_audit_at_the_edge_of_the_model(edge, fault, caught):
    """Silent, and loud for a sensitivity ten times too small; false alarm 1e-3."""
    law, first, second = edge
    declared = law.projector_sensitivity(*first.shape) / fault
    report = audit_mechanism(
        GaussCov(mu=1.0),
        query(law, first, declared),
        query(law, second, declared),
        trials=1000,
        read=lambda released: released.matrix[np.triu_indices(10)],
        noise=SimulationSource(3),
        alpha=1e-3,
    )
    assert report.violated is caught, str(report)


def test_tables_that_do_not_follow_the_model_are_not_protected():
    """Why the guarantee is labelled: without a gap one row turns the eigenvectors."""
    law, rng = model(rank=1), np.random.default_rng(4)
    rows = rng.standard_normal((10_000, 10))
    changed = rows.copy()
    changed[0] = 15 * np.eye(10)[0]
    declared = law.projector_sensitivity(*rows.shape)
    one, other = (query(law, table, declared).value.to_float() for table in (rows, changed))
    assert np.linalg.norm(one - other) > 2 * declared


def run(procedure, rows, *, adjacency=REPLACE, clip=None, seed=0):
    gate = Gate(
        procedure.cost(),
        label="x",
        adjacency=adjacency,
        ledger=None,
        noise=SimulationSource(seed),
    )
    return procedure.run(open_rows(rows), clip or Clip(row_norm=1.0), gate)


def test_the_release_finds_the_spikes():
    n, d, law = 50_000, 12, model()
    rows = draw(law, n, d, np.random.default_rng(5))
    spiked = Spiked(strength=Gaussian(1.0), model=law)
    released = run(spiked, rows)
    assert released.components @ released.components.T == pytest.approx(np.eye(2))
    assert subspace_distance(released.components, np.eye(2, d)) < 0.05
    assert released.eigenvalues == pytest.approx([11.0, 6.0], rel=0.1)
    assert released.trace == pytest.approx(11 + 6 + 10, rel=0.1)
    truth = np.diag([11.0, 6.0, *np.ones(10)])
    estimate = spiked.covariance(released)
    assert np.linalg.norm(estimate - truth) < 0.06 * np.linalg.norm(truth)
    assert np.sort(np.linalg.eigvalsh(estimate))[-2:] == pytest.approx(released.eigenvalues[::-1])


def test_rows_are_read_about_the_public_centre():
    law, centre = model(), np.full(12, 30.0)
    rows = draw(law, 20_000, 12, np.random.default_rng(6)) + centre
    released = run(
        Spiked(strength=Gaussian(1.0), model=law), rows, clip=Clip(row_norm=1.0, centre=centre)
    )
    assert subspace_distance(released.components, np.eye(2, 12)) < 0.1


def test_the_split_and_the_noise_of_the_second_release():
    n, d, law = 3000, 6, model()
    rows = draw(law, n, d, np.random.default_rng(7))
    for share in (0.5, 0.8):
        spiked = Spiked(strength=Gaussian(0.9), model=law, share=share)
        assert rho_of(spiked.cost()) == pytest.approx(0.9**2 / 2)
        radius = law.row_norm(n, d) * (1 + 2.0**-10)
        expected = math.sqrt(2) * radius**2 / (n * 0.9 * math.sqrt(1 - share))
        assert run(spiked, rows).noise_scale == pytest.approx(expected)


def test_the_printed_form():
    law = model(rank=1, smallest_spike=10.0, form="printed")
    n, d = 10_000, 50
    printed = 4 * (0.1 + math.sqrt(0.1)) * math.sqrt(50 * (1 + math.log(n))) / n
    assert law.projector_sensitivity(n, d) == pytest.approx(printed)
    delta_2 = 4 * (10 * (1 + math.log(n)) + (50 + math.log(n))) / n
    assert math.sqrt(2) * law.row_norm(n, d) ** 2 / n == pytest.approx(delta_2)
    wide = model(rank=1, smallest_spike=2.5, form="printed")  # section 5.1, kappa = 4
    ratio = (0.4 + math.sqrt(4 * 0.4)) / (0.1 + math.sqrt(0.1))
    assert wide.projector_sensitivity(n, d) == pytest.approx(ratio * printed)
    assert not law.proven


def test_the_sensitivity_to_first_order():
    """2 sqrt(2) q_a q_b/(n lambda) for many rows, and never below it."""
    law = model(rank=1, smallest_spike=10.0)
    for n, most in ((10_000, 1.3), (1_000_000, 1.03)):
        inside, outside = law._row_quantiles(n, 50)
        first_order = 2 * math.sqrt(2) * math.sqrt(11) * inside * outside / (n * 10)
        assert first_order < law.projector_sensitivity(n, 50) < most * first_order


def test_what_the_model_cannot_bound_gets_the_worst_case():
    assert model(rank=1).projector_sensitivity(5, 50) == math.sqrt(2)
    assert model(rank=48).projector_sensitivity(5, 50) == 2.0
    assert model(rank=3).projector_sensitivity(5, 3) == math.sqrt(2)


def test_more_is_asked_of_heavier_tails_and_rarer_failures():
    law, heavy = model(), model(tail="sub-gaussian", proxy=1.5)
    assert heavy.projector_sensitivity(10**6, 20) > law.projector_sensitivity(10**6, 20)
    assert heavy.row_norm(1000, 20) > law.row_norm(1000, 20)
    rare = model(failure=1e-9)
    assert rare.projector_sensitivity(10**4, 20) > law.projector_sensitivity(10**4, 20)


def test_what_it_says_about_itself():
    spiked = Spiked(strength=Gaussian(1.0), model=model())
    assert spiked.kind is Kind.MODEL_BASED
    assert spiked.own_components == 2
    for words in ("Gaussian", "variance 6 to 11", "2 unknown directions", "probability of 1e-06"):
        assert words in spiked.assumption
    assert "sub-Gaussian (proxy 2)" in model(tail="sub-gaussian", proxy=2.0).assumption


def test_refusals():
    rows, spiked = np.ones((5, 3)), Spiked(strength=Gaussian(1.0), model=model())
    with pytest.raises(UnsupportedNotionError, match="replace-one"):
        run(spiked, rows, adjacency=ADD)
    with pytest.raises(InvalidParameterError, match="leave the bounds out"):
        run(spiked, rows, clip=Clip(row_norm=1.0, box=(np.zeros(3), np.ones(3))))
    with pytest.raises(InvalidParameterError, match="at least 2 columns"):
        run(spiked, rows[:, :1])
    for wrong in (
        {"rank": 0},
        {"smallest_spike": 0.0},
        {"smallest_spike": 11.0},
        {"noise_variance": 0.0},
        {"failure": 0.0},
        {"failure": 1.0},
        {"tail": "heavy"},
        {"proxy": 0.5},
        {"form": "other"},
    ):
        with pytest.raises(InvalidParameterError):
            model(**wrong)


def _spiked_model(k):
    """Spikes too weak for the tables here, which do not follow it: what it says of them is the
    worst case. Tables that do follow a model are in tests/mechanisms/test_spiked.py.
    """
    return SpikedModel(rank=k, smallest_spike=1.0, largest_spike=2.0, noise_variance=1.0)


def _in_the_ball(rows, adjacency):
    """Of the spiked model."""
    clip = replace(case.CLIP, row_norm=(1 + 2.0**-10) * _spiked_model(1).row_norm(*rows.shape))
    return second_moment(case.open_rows(rows), clip, adjacency)


def _leading_projector(rows, adjacency):
    sensitivity = _spiked_model(1).projector_sensitivity(*rows.shape)
    return projector(_in_the_ball(rows, adjacency), 1, sensitivity)


def _inside(rows, adjacency):
    """Two directions, or the only one."""
    return compressed(_in_the_ball(rows, adjacency), case.turned(rows.shape[1])[:, :2])


def _far_along(d, adjacency):
    """Beyond the ball along the first direction, and along another."""
    return 1e3 * case.turned(d)[:, 0], 1e3 * case.turned(d)[:, 1]


CASES = [
    case.Case(
        "spiked",
        lambda mu, d, k: Spiked(strength=Gaussian(mu), model=_spiked_model(k)),
        query=_leading_projector,
        read=case.components,
        company=lambda n, d: np.zeros((n, d)),
        exact=False,
        adjacencies=(case.REPLACE,),
        persons=False,
    ),
    case.Case(
        "spiked-projector",
        lambda mu, d, k: SpikedProjector(mu=mu, model=_spiked_model(k)),
        query=_leading_projector,
        company=lambda n, d: np.zeros((n, d)),
        exact=False,
        trials=1000,
        adjacencies=(case.REPLACE,),
        persons=False,
    ),
    case.Case(
        "spiked-values",
        lambda mu, d, k: SpikedValues(mu=mu, model=_spiked_model(k), basis=case.turned(d)[:, :k]),
        query=_inside,
        worst_pair=_far_along,
        exact=False,
        trials=1000,
        adjacencies=(case.REPLACE,),
        persons=False,
    ),
]
