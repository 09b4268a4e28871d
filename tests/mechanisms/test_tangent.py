"""Directions of rows, a step from stretched ones, and how reliable components say they are."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import ks_2samp

from eigenveil.exact import Clip, GaussianLaw, moment_products, second_moment
from eigenveil.exceptions import BudgetExceededError, InvalidParameterError
from eigenveil.mechanisms import (
    Gate,
    GaussCov,
    NoisyComponents,
    NoisyProduct,
    ProductNoise,
    Spherical,
    Tangent,
    WishartComponents,
    directions,
    release,
    reliability,
    tangent,
)
from eigenveil.numerics import SimulationSource, top_eigenpairs
from eigenveil.privacy import Adjacency, Gaussian, Ledger, Pure, compose, split
from eigenveil.rows import open_rows
from tests.conformance import case
from tests.conformance.tape import Tape
from tests.statistics import variance_p_value

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
BOTH = pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)
CLIP = Clip(row_norm=1.0, on_invalid="zero")
UNIT = directions(CLIP)
MU = 0.27  # epsilon = 1 at delta = 1e-5


def spiked(n, d, k, strength):
    """A table with variance ``strength`` more along k directions, and these."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((d, k)))[0]
    scores = rng.standard_normal((n, k)) * math.sqrt(strength)
    return rng.standard_normal((n, d)) + scores @ basis.T, basis


STRONG, BASIS = spiked(5000, 100, 2, 1000)


def run(procedure, rows, seed=0, adjacency=REPLACE, clip=CLIP, record=None):
    source = seed if isinstance(seed, SimulationSource) else SimulationSource(seed)
    gate = Tape(
        procedure.cost(),
        label="x",
        adjacency=adjacency,
        ledger=None,
        noise=source,
        record=record,
    )
    return procedure.run(open_rows(rows), clip, gate), gate


def stretched(gate):
    """Whether the two releases were of different rows."""
    first, second = (query.value.units for _, query, _ in gate.tape)
    return not np.array_equal(first, second)


def loss(components, basis):
    return 1 - np.sum((components @ basis) ** 2) / len(components)


# Spherical


@pytest.mark.parametrize("procedure", [Spherical, Tangent])
def test_lengths_of_rows_do_not_matter(procedure):
    """Powers of two, to the last bit; nor does the bound of the clip."""
    rows = STRONG[:400, :20]
    lengths = 2.0 ** np.random.default_rng(1).integers(-60, 60, (len(rows), 1))
    mechanism = procedure(strength=Gaussian(1.0), n_components=2)
    one, _ = run(mechanism, rows)
    other, _ = run(mechanism, rows * lengths, clip=Clip(row_norm=1e-3))
    assert np.array_equal(one.components, other.components)
    assert np.array_equal(one.eigenvalues, other.eigenvalues)


def test_elliptical_rows_keep_the_eigenvectors_of_their_covariance_and_their_order():
    """Heavy tails: each row of a Gaussian table times a Cauchy length. Shares of directions have
    standard errors of at most 0.005 at 20,000 rows; they are nearer to each other than variances.
    """
    rng = np.random.default_rng(0)
    variances = np.array([9.0, 4.0, 2.0, 1.0])
    turned = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    rows = rng.standard_normal((20_000, 4)) * np.sqrt(variances) @ turned.T
    rows *= rng.standard_cauchy((20_000, 1))
    found, _ = run(Spherical(strength=Gaussian(1e4), n_components=4), rows)
    assert np.abs(found.components @ turned) == pytest.approx(np.eye(4), abs=0.06)
    shares = found.eigenvalues
    assert (np.diff(shares) < -0.03).all()
    assert shares[0] / shares[3] < variances[0] / variances[3]


# The two releases


def matrices(count, adjacency):
    """What Tangent makes of a table in which nothing stands out, less the exact matrix."""
    rows = np.random.default_rng(2).standard_normal((30, 5))
    query = second_moment(open_rows(rows), UNIT, adjacency)
    source, noise = SimulationSource(3), []
    for _ in range(count):
        found, _ = run(Tangent(strength=Gaussian(0.5), n_components=5), rows, source, adjacency)
        matrix = (found.components.T * found.eigenvalues) @ found.components
        noise.append((matrix / query.unit - query.value.to_float())[np.triu_indices(5)])
    scale = (math.sqrt(2) if adjacency is REPLACE else 1.0) / 0.5
    full = np.full((5, 5), scale / math.sqrt(2))
    np.fill_diagonal(full, scale)
    return np.array(noise) / full[np.triu_indices(5)], found.noise_scale / query.unit / scale


@BOTH
def test_two_releases_of_the_same_rows_are_one_at_the_whole_budget(adjacency):
    """False alarm 1e-6; 10 % of the scale are 9 standard errors at 4,500 entries."""
    noise, stated = matrices(300, adjacency)
    assert stated == pytest.approx(1.0)
    assert variance_p_value(noise.ravel(), 1.0) > 1e-6
    assert variance_p_value(noise.ravel(), 1.1) < 1e-6
    assert variance_p_value(noise.ravel(), 0.9) < 1e-6


@pytest.mark.parametrize("fault", [lambda one, other: other, lambda one, other: one])
def test_a_release_that_was_paid_for_and_not_used_would_be_seen(fault, monkeypatch):
    monkeypatch.setattr(tangent, "_average", fault)
    noise, _ = matrices(300, REPLACE)
    assert variance_p_value(noise.ravel(), 1.0) < 1e-6


@BOTH
@pytest.mark.parametrize("lazy", [False, True])
def test_both_releases_together_cost_mu(adjacency, lazy, tmp_path):
    for name, rows in (("stretched", STRONG), ("left", STRONG[:20])):
        ledger = Ledger.create(tmp_path / name, rho=1.0, adjacency=adjacency)
        procedure = Tangent(strength=Gaussian(MU), n_components=2, lazy=lazy)
        gate = Gate(
            procedure.cost(),
            label="x",
            adjacency=adjacency,
            ledger=ledger,
            noise=SimulationSource(0),
        )
        procedure.run(open_rows(rows), CLIP, gate)
        (entry,) = ledger.entries
        assert entry.cost == Gaussian(MU)
        spent = compose(*gate._spent)
        assert spent.mu <= MU
        assert spent.mu == pytest.approx(MU, rel=1e-11)


def test_a_second_release_at_the_whole_budget_is_refused(monkeypatch):
    monkeypatch.setattr(tangent, "split", lambda mu, shares: (mu, mu))
    with pytest.raises(BudgetExceededError, match="more than its share"):
        run(Tangent(strength=Gaussian(MU), n_components=2), STRONG[:100])


@BOTH
@pytest.mark.parametrize("lazy", [False, True])
def test_the_second_statistic_depends_on_the_first_release_only(adjacency, lazy):
    """Replayed on a neighbour and on another table: the same result to the last bit, and the
    stretched rows of neighbours no further apart than rows of length one are.
    """
    procedure = Tangent(strength=Gaussian(MU), n_components=2, lazy=lazy)
    seed = 2  # at which it stretches
    found, gate = run(procedure, STRONG, seed, adjacency)
    assert stretched(gate)
    row = np.eye(100)[0] if adjacency is REPLACE else np.empty((0, 100))
    neighbour = np.vstack([STRONG[:-1], row])
    again, replayed = run(procedure, neighbour, seed, adjacency, record=gate.tape)
    assert np.array_equal(found.components, again.components)
    assert 0.5 < replayed.excess <= 1 + 1e-9
    again, _ = run(procedure, STRONG[::-1] ** 3, seed, adjacency, record=gate.tape)
    assert np.array_equal(found.components, again.components)


class Peeking(Tangent):
    """Stretches along directions of the rows, not of the first release."""

    def run(self, source, clip, gate):
        first, second = split(self.mu, (0.15, 0.85))
        moment = second_moment(source, directions(clip), gate.adjacency)
        gate.draw(GaussCov(mu=first), moment)
        _, basis = top_eigenpairs(moment.value.to_float(), self.n_components)
        clip = replace(directions(clip), stretch=(basis, 5.0))
        return gate.draw(GaussCov(mu=second), second_moment(source, clip, gate.adjacency))


def test_stretching_along_directions_of_the_rows_would_be_seen():
    rows = np.random.default_rng(0).standard_normal((300, 10))
    procedure = Peeking(strength=Gaussian(MU), n_components=2)
    _, gate = run(procedure, rows)
    _, replayed = run(procedure, np.vstack([rows[:-1], np.eye(10)[0]]), record=gate.tape)
    assert replayed.excess > 2


# What stretching gains


@pytest.mark.parametrize(
    ("table", "ratio"),
    [((5000, 100, 2, 1000), 0.6), ((20_000, 200, 3, 10), 0.85)],
    ids=["strong", "weak"],
)
def test_stretching_gains_on_spiked_tables(table, ratio):
    """Over the loss of spherical, mean of six seeds; measured 0.38 and 0.73."""
    rows, basis = spiked(*table)
    k = table[2]
    tangents = [
        run(Tangent(strength=Gaussian(MU), n_components=k), rows, seed) for seed in range(6)
    ]
    assert sum(stretched(gate) for _, gate in tangents) >= 4
    losses = [loss(found.components, basis) for found, _ in tangents]
    others = [
        loss(run(Spherical(strength=Gaussian(MU), n_components=k), rows, seed)[0].components, basis)
        for seed in range(6)
    ]
    assert np.mean(losses) < ratio * np.mean(others)


@pytest.mark.parametrize(
    ("rows", "k"),
    [
        (np.zeros((50, 60)), 1),
        (STRONG[:, :2], 1),
        (STRONG[:, :2], 2),
        (np.tile(np.arange(1.0, 61.0), (500, 1)), 1),
        (np.random.default_rng(0).standard_normal((500, 60)), 2),
        (np.random.default_rng(0).standard_normal((9000, 60)) * np.arange(1, 61) ** -0.7, 3),
        (np.random.default_rng(0).standard_normal((600, 100)) * ([8] + [1] * 99), 1),
    ],
    ids=[
        "zero rows",
        "one direction left",
        "none left",
        "equal rows",
        "no spikes",
        "decay",
        "too rough",  # its own step would have half as much loss again
    ],
)
@BOTH
def test_rows_are_left_as_they_are_where_stretching_would_not_help(rows, k, adjacency):
    found, gate = run(Tangent(strength=Gaussian(MU), n_components=k), rows, 1, adjacency)
    assert not stretched(gate)
    assert np.isfinite(found.components).all()


def test_lazy_and_dense_steps_agree():
    """A two-sample test at 1e-6; the losses of spherical are another sample."""
    losses = {
        name: [loss(run(procedure, STRONG, seed)[0].components, BASIS) for seed in range(30)]
        for name, procedure in {
            "dense": Tangent(strength=Gaussian(MU), n_components=2),
            "lazy": Tangent(strength=Gaussian(MU), n_components=2, lazy=True),
            "spherical": Spherical(strength=Gaussian(MU), n_components=2, lazy=True),
        }.items()
    }
    assert ks_2samp(losses["dense"], losses["lazy"]).pvalue > 1e-6
    assert ks_2samp(losses["dense"], losses["spherical"]).pvalue < 1e-6


@BOTH
def test_products_have_the_noise_of_one_matrix(adjacency):
    """False alarm 1e-6 for each part; a scale 15 % off is rejected."""
    d, k, mu = 12, 3, 0.8
    rng = np.random.default_rng(0)
    rows = open_rows(rng.standard_normal((40, d)))
    columns, rest = np.split(np.linalg.qr(rng.standard_normal((d, d)))[0], [k], axis=1)
    query = moment_products(rows, UNIT, adjacency)
    source, noise, traces = SimulationSource(1), [], []
    for _ in range(1500):
        out = release(ProductNoise(mu=mu, columns=columns), query, ledger=None, noise=source)
        noise.append(out.columns / query.unit - query.times(columns))
        traces.append(out.trace / query.unit - query.trace)
    scale = (math.sqrt(2) if adjacency is REPLACE else 1.0) / mu
    assert out.noise_scale == pytest.approx(scale * query.unit)
    inside = columns.T @ np.array(noise)
    assert inside == pytest.approx(inside.transpose(0, 2, 1))
    parts = {
        "diagonal": (np.diagonal(inside, axis1=1, axis2=2), scale),
        "off": (inside[:, *np.triu_indices(k, 1)], scale / math.sqrt(2)),
        "beside": (rest.T @ np.array(noise), scale / math.sqrt(2)),
        "trace": (np.array(traces), scale * math.sqrt(d)),
        "trace beside": (traces - np.trace(inside, axis1=1, axis2=2), scale * math.sqrt(d - k)),
    }
    for sample, deviation in parts.values():
        assert variance_p_value(sample.ravel(), deviation) > 1e-6
        assert variance_p_value(sample.ravel(), 1.15 * deviation) < 1e-6
        assert variance_p_value(sample.ravel(), deviation / 1.15) < 1e-6


def test_products_need_orthonormal_columns_and_products():
    with pytest.raises(InvalidParameterError, match="orthonormal"):
        ProductNoise(mu=1.0, columns=2 * np.eye(3)[:, :1])
    with pytest.raises(InvalidParameterError, match="moment_products"):
        release(
            ProductNoise(mu=1.0, columns=np.eye(3)[:, :1]),
            second_moment(open_rows(np.eye(3)), UNIT, REPLACE),
            ledger=None,
            noise=SimulationSource(0),
        )


# The step


def step(turn=None, factor=0.3, noise=1e-12):
    """One step towards two directions of a flat matrix from a basis that is off by 0.02."""
    rng = np.random.default_rng(0)
    d, k = 12, 2
    turn = np.eye(d) if turn is None else turn
    axes = np.linalg.qr(rng.standard_normal((d, d)))[0]
    basis, _ = np.linalg.qr(axes[:, :k] + 0.02 * axes[:, k : 2 * k])
    axes, basis = turn @ axes, turn @ basis
    matrix = axes[:, :k] * [0.4, 0.2] @ axes[:, :k].T + 0.04 * np.eye(d)
    along = basis.T @ matrix @ basis
    rough = NoisyComponents(
        basis.T, np.diag(along), np.trace(matrix), 1e-3, GaussianLaw(d, 1e-3), np.full(k, 0.9996)
    )
    stretch = np.eye(d) + (factor - 1) * basis @ basis.T
    seen = stretch @ matrix @ stretch
    product = NoisyProduct(seen @ basis, float(np.trace(seen)), noise)
    return tangent.turn(rough, product, factor), rough, axes[:, :k].T


@pytest.mark.parametrize("factor", [0.3, 1.0, 4.0])
def test_a_step_without_noise_squares_the_error(factor):
    turned, rough, axes = step(factor=factor)
    off = [1 - np.sum((found.components @ axes.T) ** 2, axis=1) for found in (rough, turned)]
    assert off[0].min() > 3e-4
    assert off[1].max() < 1e-6  # of a cosine: the angle is at most about 0.02 squared
    assert turned.eigenvalues == pytest.approx([0.44, 0.24], rel=2e-3)
    assert turned.components @ turned.components.T == pytest.approx(np.eye(2), abs=1e-12)
    assert turned.reliability == pytest.approx([1.0, 1.0])


def test_a_turned_table_gives_a_turned_result():
    turn = np.linalg.qr(np.random.default_rng(5).standard_normal((12, 12)))[0]
    one, _, _ = step()
    other, _, _ = step(turn)
    cosines = np.sum((one.components @ turn.T) * other.components, axis=1)
    assert np.abs(cosines) == pytest.approx(np.ones(2), abs=1e-10)
    assert one.eigenvalues == pytest.approx(other.eigenvalues)


def test_the_noisier_the_second_release_the_shorter_the_step():
    moves = []
    for noise in (1e-6, 1e-3, 1e-1):
        turned, rough, _ = step(noise=noise)
        moves.append(loss(turned.components, rough.components.T))
    assert moves[0] > 1.5 * moves[1] > 15 * moves[2]


def test_a_second_release_that_shows_nothing_leaves_nothing_to_rely_on():
    _, rough, _ = step()
    basis = rough.components.T
    for columns, trace in ((0 * basis, 0.0), (-basis, -3.0), (0 * basis, 1.0), (1e-4 * basis, 0.1)):
        turned = tangent.turn(rough, NoisyProduct(columns, trace, 1e-2), 0.5)
        assert (turned.reliability == 0).all()
        assert np.isfinite(turned.components).all()
        assert (turned.eigenvalues >= 0).all()
        assert turned.eigenvalues.sum() <= rough.trace * (1 + 1e-12)


# Reliability


def measured(procedure, rows, k, count):
    """Squared cosines with the noiseless components, and what was said about them."""
    moment = second_moment(open_rows(rows), UNIT, REPLACE).value.to_float()
    _, basis = top_eigenpairs(moment, k)
    source, squares, said, last = SimulationSource(1), [], [], None
    for _ in range(count):
        last, _ = run(procedure, rows, source, clip=UNIT)
        squares.append(np.sum((last.components @ basis.T) ** 2, axis=1))
        said.append(last.reliability)
    squares = np.array(squares)
    error = squares.std(axis=0) / math.sqrt(count)
    return SimpleNamespace(
        mean=squares.mean(axis=0), error=error, said=np.mean(said, axis=0), last=last
    )


def spectrum(n, *strengths, d=100):
    scales = np.ones(d)
    scales[: len(strengths)] = np.sqrt(1 + np.array(strengths))
    return np.random.default_rng(0).standard_normal((n, d)) * scales


@pytest.mark.parametrize(
    "procedure",
    [
        Spherical(strength=Gaussian(MU), n_components=3),
        WishartComponents(strength=Pure(4.0), n_components=3),
    ],
    ids=["gaussian", "wishart"],
)
@pytest.mark.parametrize("strengths", [(60, 25, 8), (20, 20, 20)], ids=["apart", "equal"])
def test_reliability_is_what_is_measured(procedure, strengths):
    """Within 15 % of the loss and five standard errors, false alarm below 1e-5; a law 30 % too
    large or too small says something else.
    """
    got = measured(procedure, spectrum(2000, *strengths), 3, 40)
    tolerance = 0.15 * (1 - got.mean) + 5 * got.error
    assert (np.abs(got.said - got.mean) < tolerance).all()
    for factor in (1.3, 1 / 1.3):
        last, law = got.last, got.last.law.scaled(factor)
        wrong = reliability(last.eigenvalues, last.trace, law, last.energy)
        assert (np.abs(wrong - got.mean)[:2] > tolerance[:2]).all()


def test_a_direction_among_many_is_not_relied_on():
    """White rows, far more of them than noise needs: their leading direction is one of many."""
    rows = np.random.default_rng(0).standard_normal((20_000, 20))
    for seed in range(5):
        found, _ = run(Spherical(strength=Gaussian(MU), n_components=1), rows, seed)
        assert found.reliability[0] == 0


def test_components_inside_the_bulk_are_not_stretched_along():
    """Clear of the noise alone but not of the bulk: reliability 0, and nothing divides by it."""
    rows = spectrum(3000, 6, d=60)
    rough, _ = run(Spherical(strength=Gaussian(MU), n_components=1), rows, 0)
    assert (
        Tangent(strength=Gaussian(MU), n_components=1).stretching(
            replace(rough, reliability=np.zeros(1)), MU, REPLACE
        )
        is None
    )


def test_reliability_of_a_step_is_what_is_measured():
    """Within 25 % of the loss and five standard errors: rows that were stretched vary in another
    way. A reliability that knows of one release only says something else.
    """
    rows, _ = spiked(5000, 200, 1, 20)
    got = measured(Tangent(strength=Gaussian(MU), n_components=1), rows, 1, 30)
    tolerance = 0.25 * (1 - got.mean) + 5 * got.error
    assert (np.abs(got.said - got.mean) < tolerance).all()
    alone = measured(Spherical(strength=Gaussian(MU * math.sqrt(0.15)), n_components=1), rows, 1, 5)
    assert (np.abs(alone.said - got.mean) > tolerance).all()


@pytest.mark.parametrize(
    "procedure",
    [
        Spherical(strength=Gaussian(MU), n_components=1),
        Tangent(strength=Gaussian(MU), n_components=1),
        WishartComponents(strength=Pure(1.0), n_components=1),
    ],
    ids=["spherical", "tangent", "wishart"],
)
def test_noise_alone_is_not_relied_on(procedure):
    """The largest eigenvalue of noise passes the edge in a sixth of draws, an overlap of 1/2 in a
    hundredth: more than 4 of 60 such would happen once in 2,000 times.
    """
    source = SimulationSource(2)
    said = np.array(
        [run(procedure, np.zeros((40, 60)), source)[0].reliability[0] for _ in range(60)]
    )
    assert (said == 0).sum() >= 40
    assert (said > 0.5).sum() <= 4


def _stretched_clip(d):
    """Directions of rows, stretched threefold along one between the axes."""
    return replace(directions(case.CLIP), stretch=(case.turned(d)[:1], 3.0))


def _stretched(rows, adjacency):
    return second_moment(case.open_rows(rows), _stretched_clip(rows.shape[1]), adjacency)


NEAR = directions(replace(case.CLIP, unit_distance=0.5))


def _near_rows(rows, adjacency):
    return second_moment(case.open_rows(rows), NEAR, adjacency)


def _products(rows, adjacency):
    return moment_products(case.open_rows(rows), directions(case.CLIP), adjacency)


CASES = [
    case.Case(
        "spherical",
        lambda mu, d, k: Spherical(strength=Gaussian(mu), n_components=k),
        query=case.direction_moment,
        read=case.projector,
    ),
    case.Case(
        "spherical lazy",
        lambda mu, d, k: Spherical(strength=Gaussian(mu), n_components=k, lazy=True),
        query=case.direction_moment,
        read=case.projector,
        exact=False,
    ),
    case.Case(
        "tangent",
        lambda mu, d, k: Tangent(strength=Gaussian(mu), n_components=k),
        query=case.direction_moment,
        read=case.projector,
    ),
    case.Case(
        "tangent lazy",
        lambda mu, d, k: Tangent(strength=Gaussian(mu), n_components=k, lazy=True),
        query=case.direction_moment,
        read=case.projector,
        exact=False,
    ),
    # What tangent does with rows that it stretches: tables here are too small for it to do so.
    case.Case(
        "gauss on stretched directions",
        lambda mu, d, k: GaussCov(mu=mu),
        query=_stretched,
        run=case.one_step(_stretched),
        worst_pair=case.two_directions,
        deviation=case.symmetric_sigma,
        proof="tangent",
    ),
    case.Case(
        "gauss on rows near the centre",
        lambda mu, d, k: GaussCov(mu=mu),
        query=_near_rows,
        run=case.one_step(_near_rows),
        deviation=case.symmetric_sigma,
        proof="spherical",
    ),
    case.Case(
        "product",
        lambda mu, d, k: ProductNoise(mu=mu, columns=case.turned(d)[:, :k]),
        query=_products,
        run=case.one_step(_products),
        read=lambda released: np.append(released.columns, released.trace),
        exact=False,
    ),
]
