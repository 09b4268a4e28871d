"""What each covariance mechanism promises beyond its noise."""

import math

import numpy as np
import pytest
from scipy.special import iv

from eigenveil.datasets import zipf_norms
from eigenveil.exact import Clip, eigenvalues, second_moment
from eigenveil.mechanisms import (
    AdaptiveCleaned,
    Cleaned,
    Gate,
    Gauss,
    GaussCov,
    Wishart,
    WishartCov,
    release,
)
from eigenveil.mechanisms import cleaned as adaptive_cleaned
from eigenveil.numerics import SimulationSource
from eigenveil.papers.covrev import (
    Adaptive,
    BinghamDirection,
    CoinPress,
    Exponential,
    LapCov,
    Laplace,
    Projection,
    Separate,
    Zero,
    adaptive,
)
from eigenveil.privacy import Adjacency, Gaussian, Pure, epsilon_of, rho_of
from eigenveil.rows import open_rows
from tests.conformance import case

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
BOTH = pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)


def run(procedure, rows, seed=0, adjacency=REPLACE, row_norm=1.0):
    gate = Gate(
        procedure.cost(),
        label="x",
        adjacency=adjacency,
        ledger=None,
        noise=SimulationSource(seed),
    )
    return procedure.run(open_rows(rows), Clip(row_norm=row_norm), gate)


def error(procedure, rows, repeats=5, **options):
    truth = rows.T @ rows / len(rows)
    return np.mean(
        [np.linalg.norm(run(procedure, rows, s, **options).matrix - truth) for s in range(repeats)]
    )


def test_the_shares_of_the_adaptive_mechanisms():
    for rho in (0.01, 0.1, 3.7):
        cost = Adaptive(strength=Gaussian(math.sqrt(2 * rho)), n_columns=10).cost()
        assert rho_of(cost) == pytest.approx(rho, rel=1e-9)
        radius, search = sorted(part.epsilon for part in cost.parts[1:])
        assert radius == pytest.approx(math.sqrt(rho) / 2)
        assert search == pytest.approx(math.sqrt(rho / 2))
        assert cost.parts[0].mu ** 2 / 2 == pytest.approx(rho / 8 + rho / 2, rel=1e-9)
        cleaned = AdaptiveCleaned(strength=Gaussian(math.sqrt(2 * rho))).cost()
        assert rho_of(cleaned) == pytest.approx(rho, rel=1e-9)
    assert epsilon_of(Adaptive(strength=Pure(2.0), n_columns=10).cost(), 0.0) == pytest.approx(2.0)
    assert adaptive.SHARES == (1 / 8, 1 / 8, 1 / 4, 1 / 2)
    assert sum(adaptive_cleaned.SHARES) == 1


@pytest.mark.parametrize("d", [1, 2, 40])
def test_the_shares_of_the_exponential_mechanism(d):
    for strength in (0.1, 2.0):
        cost = Exponential(strength=Pure(strength), n_columns=d).cost()
        assert epsilon_of(cost, 0.0) == pytest.approx(strength)
        cost = Exponential(strength=Gaussian(strength), n_columns=d).cost()
        assert rho_of(cost) == pytest.approx(strength**2 / 2)


def test_adaptive_takes_the_better_branch():
    """Cells far on either side: with many rows the matrix, with many columns the eigenvalues."""
    mu = math.sqrt(2 * 0.1)
    many_rows = zipf_norms(16_000, 20, seed=0)
    many_columns = zipf_norms(1000, 150, seed=0)
    for seed in range(5):
        found = run(Adaptive(strength=Gaussian(mu), n_columns=20), many_rows, seed)
        half = Adaptive(strength=Gaussian(mu), n_columns=20).steps[1].mu
        # The average of two matrices has their noise over sqrt(2).
        expected = math.sqrt(2) / half * found.row_norm**2 / 16_000 / math.sqrt(2)
        assert found.noise_scale == pytest.approx(expected)
        found = run(Adaptive(strength=Gaussian(mu), n_columns=150), many_columns, seed)
        assert np.linalg.eigvalsh(found.matrix)[0] > -1e-12


def test_the_average_of_two_matrices_is_gausscov_at_the_whole():
    """The error of the branch is that of GaussCov with half of rho; mean of 20, 10 % of room."""
    rows = zipf_norms(16_000, 20, seed=0)
    mu = math.sqrt(2 * 0.1)
    ours = error(Adaptive(strength=Gaussian(mu), n_columns=20), rows, 20)
    assert ours == pytest.approx(error(GaussCov(mu=mu * math.sqrt(0.5)), rows, 20), rel=0.1)


@BOTH
def test_separate_beats_gauss_where_columns_are_many(adjacency):
    rows = zipf_norms(1000, 150, seed=1)
    divisor = 1 if adjacency is REPLACE else len(rows)
    truth = rows.T @ rows / len(rows)
    errors = {
        name: np.linalg.norm(run(procedure, rows, 0, adjacency).matrix / divisor - truth)
        for name, procedure in {
            "separate": Separate(strength=Gaussian(0.4)),
            "gauss": GaussCov(mu=0.4),
            "pure": Separate(strength=Pure(4.0)),
            "laplace": LapCov(epsilon=4.0),
            "wishart": WishartCov(epsilon=4.0),
        }.items()
    }
    assert errors["separate"] < 0.5 * errors["gauss"]
    assert errors["wishart"] < errors["pure"] < 0.5 * errors["laplace"]


@BOTH
def test_a_direction_has_the_strength_its_cost_allows(adjacency):
    """Six rows along one of two axes: u_1^2 has mean (1 + I_1(a)/I_0(a))/2, a = 3 eps/Delta.

    1,500 draws, five standard errors; twice the strength is 6 of them away.
    """
    query = second_moment(open_rows(np.tile([1.0, 0.0], (6, 1))), Clip(row_norm=1.0), adjacency)
    half = 3.0 / (2 if adjacency is REPLACE else 1)
    mechanism = BinghamDirection(epsilon=1.0, concentrated=False)
    source = SimulationSource(0)
    squares = np.array(
        [release(mechanism, query, ledger=None, noise=source)[0] ** 2 for _ in range(1500)]
    )
    error = squares.std() / math.sqrt(squares.size)
    assert abs(squares.mean() - (1 + iv(1, half) / iv(0, half)) / 2) < 5 * error
    assert abs(squares.mean() - (1 + iv(1, 2 * half) / iv(0, 2 * half)) / 2) > 6 * error


def test_exponential_finds_strong_directions():
    """With a large budget the truth, at every number of columns."""
    rng = np.random.default_rng(0)
    for d in (1, 2, 5):
        rows = rng.standard_normal((4000, d)) * np.linspace(1, 0.2, d)
        rows /= 6
        assert error(Exponential(strength=Pure(400.0), n_columns=d), rows, 3) < 0.01
        assert error(Exponential(strength=Gaussian(400.0), n_columns=d), rows, 3) < 0.01


@BOTH
def test_coinpress_resolves_what_one_step_drowns(adjacency):
    """Columns of very different variance: the relative error of the smallest."""
    rng = np.random.default_rng(0)
    scales = np.array([1.0, 0.3, 0.03])
    rows = rng.standard_normal((20_000, 3)) * scales
    divisor = 1 if adjacency is REPLACE else len(rows)
    mu = 1.0
    refined, plain = (
        np.mean(
            [
                abs(run(m, rows, s, adjacency, row_norm=8.0).matrix[2, 2] / divisor / 0.0009 - 1)
                for s in range(5)
            ]
        )
        for m in (CoinPress(strength=Gaussian(mu)), GaussCov(mu=mu))
    )
    assert refined < 0.1 * plain
    assert refined < 0.5


@BOTH
def test_adaptive_cleaned_finds_the_scale(adjacency):
    """A stated bound 1000 times too large costs little; one that fits costs an eighth of rho."""
    rows = zipf_norms(4000, 20, seed=0)
    for row_norm in (1.0, 1000.0):
        found = run(AdaptiveCleaned(strength=Gaussian(1.0)), rows, 0, adjacency, row_norm)
        assert 0.9 <= found.row_norm <= 4.0
    exact = error(Cleaned(strength=Gaussian(1.0)), rows)
    assert error(AdaptiveCleaned(strength=Gaussian(1.0)), rows) < 1.15 * exact
    assert error(AdaptiveCleaned(strength=Gaussian(1.0)), rows, row_norm=1000.0) < 5 * exact


@BOTH
@pytest.mark.parametrize("rho", [0.001, 0.01])
def test_adaptive_cleaned_does_not_collapse(rho, adjacency):
    """500 unit rows at a budget too small for a search: nearly all keep their norm; of 20 runs at
    most 8 lower the bound below a half.
    """
    rows = np.random.default_rng(0).standard_normal((500, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    procedure = AdaptiveCleaned(strength=Gaussian(math.sqrt(2 * rho)))
    chosen = [run(procedure, rows, seed, adjacency).row_norm for seed in range(20)]
    assert sum(bound < 0.5 for bound in chosen) <= 8


def _laplace_sigma(epsilon, d, adjacency):
    replaced = min(d + 1, math.sqrt((d * d + 3 * d) / 2))
    scale = (replaced if adjacency is case.REPLACE else (d + 1) / 2) / epsilon
    return np.full(d * (d + 1) // 2, math.sqrt(2) * scale)


def _wishart_sigma(epsilon, d, adjacency):
    """Diagonal sqrt(d + 1)/c, off it smaller by sqrt(2), c = epsilon/2 or epsilon."""
    s = math.sqrt(d + 1) * (2 if adjacency is case.REPLACE else 1) / epsilon
    full = np.full((d, d), s / math.sqrt(2))
    np.fill_diagonal(full, s)
    return case.upper(full)


SHARED_L2 = {case.REPLACE: lambda d: math.sqrt(2) if d > 1 else 1.0, case.ADD: lambda d: 1.0}

SHARED_L1 = {case.REPLACE: lambda d: 2.0 if d > 1 else 1.0, case.ADD: lambda d: 1.0}


CASES = [
    case.Case(
        "gauss",
        lambda mu, d, k: Gauss(strength=Gaussian(mu)),
        deviation=case.symmetric_sigma,
    ),
    case.Case(
        "gauss of filled rows",
        lambda mu, d, k: GaussCov(mu=mu),
        query=lambda rows, adjacency: second_moment(case.open_rows(rows), case.FILLED, adjacency),
        run=lambda step, rows, adjacency, gate: step.run(case.open_rows(rows), case.FILLED, gate),
    ),
    case.Case(
        "gauss on directions",
        lambda mu, d, k: GaussCov(mu=mu),
        query=case.direction_moment,
        run=case.on_directions,
        deviation=case.symmetric_sigma,
    ),
    case.Case("cleaned", lambda mu, d, k: Cleaned(strength=Gaussian(mu)), may_coincide=True),
    case.Case(
        "projection",
        lambda mu, d, k: Projection(strength=Gaussian(mu)),
        may_coincide=True,
    ),
    case.Case(
        "laplace",
        lambda epsilon, d, k: Laplace(strength=Pure(epsilon)),
        norm="l1",
        sensitivity=case.UPPER_L1,
        worst_pair=case.all_entries,
        attained=0.95,
        deviation=_laplace_sigma,
        **case.PURE,
    ),
    case.Case(
        "wishart",
        lambda epsilon, d, k: Wishart(strength=Pure(epsilon)),
        norm="nuclear",
        sensitivity=case.NUCLEAR,
        may_coincide=True,
        exact=False,
        **case.PURE,
    ),
    case.Case(
        "wishart uncleaned",
        lambda epsilon, d, k: WishartCov(epsilon=epsilon, clean=False),
        norm="nuclear",
        sensitivity=case.NUCLEAR,
        deviation=_wishart_sigma,
        exact=False,
        **case.PURE,
    ),
    case.Case(
        "separate",
        lambda mu, d, k: Separate(strength=Gaussian(mu)),
        may_coincide=True,
        exact=False,
    ),
    case.Case(
        "separate pure",
        lambda epsilon, d, k: Separate(strength=Pure(epsilon)),
        norm="l1",
        sensitivity=case.UPPER_L1,
        worst_pair=case.all_entries,
        attained=0.95,
        may_coincide=True,
        exact=False,
        **case.PURE,
    ),
    case.Case(
        "adaptive",
        lambda mu, d, k: Adaptive(strength=Gaussian(mu), n_columns=d),
        query=case.norms,
        norm="linf",
        sensitivity=case.ONE,
        worst_pair=case.long_and_short,
        may_coincide=True,
        exact=False,
        trials=1000,
        shows=False,
    ),
    case.Case(
        "adaptive pure",
        lambda epsilon, d, k: Adaptive(strength=Pure(epsilon), n_columns=d),
        query=case.norms,
        norm="linf",
        sensitivity=case.ONE,
        worst_pair=case.long_and_short,
        may_coincide=True,
        exact=False,
        trials=1000,
        shows=False,
        **case.PURE,
    ),
    case.Case(
        "adaptive-cleaned",
        lambda mu, d, k: AdaptiveCleaned(strength=Gaussian(mu)),
        query=case.norms,
        norm="linf",
        sensitivity=case.ONE,
        worst_pair=case.long_and_short,
        may_coincide=True,
        trials=1000,
        shows=False,
    ),
    case.Case(
        "exponential",
        lambda mu, d, k: Exponential(strength=Gaussian(mu), n_columns=d),
        query=lambda rows, adjacency: eigenvalues(case.moment(rows, adjacency)),
        company=case.one_axis,
        norm="l2",
        sensitivity=SHARED_L2,
        may_coincide=True,
        exact=False,
        trials=1000,
        shows=False,
    ),
    case.Case(
        "exponential pure",
        lambda epsilon, d, k: Exponential(strength=Pure(epsilon), n_columns=d),
        query=lambda rows, adjacency: eigenvalues(case.moment(rows, adjacency)),
        company=case.one_axis,
        norm="l1",
        sensitivity=SHARED_L1,
        may_coincide=True,
        exact=False,
        trials=1000,
        shows=False,
        **case.PURE,
    ),
    case.Case(
        "direction",
        lambda epsilon, d, k: BinghamDirection(epsilon=epsilon, concentrated=False),
        run=case.one_step(case.moment),
        read=lambda u: case.upper(np.outer(u, u)),
        norm="nuclear",
        sensitivity=case.NUCLEAR,
        may_coincide=True,  # in one dimension
        exact=False,
        **case.PURE,
    ),
    case.Case(
        "coinpress",
        lambda mu, d, k: CoinPress(strength=Gaussian(mu)),
        exact=False,
        trials=1000,
        shows=False,
    ),
    case.Case("zero", lambda mu, d, k: Zero(), free=True, may_coincide=True),
]
