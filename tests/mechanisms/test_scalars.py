"""Private numbers find what they look for, at the probability they promise."""

import math

import numpy as np
import pytest

from eigenveil.exact import Bounded, Clip, add_noise, norm_counts, rows_beyond, trace
from eigenveil.exceptions import InvalidBudgetError, InvalidParameterError
from eigenveil.mechanisms import (
    Gate,
    GaussianNoise,
    LaplaceNoise,
    PrivateQuantile,
    PrivateTrace,
    SparseVector,
    release,
    sparse_vector,
)
from eigenveil.mechanisms import median_of_means as quantile
from eigenveil.numerics import FixedPoint, SimulationSource
from eigenveil.papers.covrev import ClippingThreshold, NoiseBound, PrivateRadius
from eigenveil.papers.kpca import StabilityHistogram
from eigenveil.privacy import Adjacency
from eigenveil.rows import open_rows
from tests.conformance import case
from tests.statistics import scale_p_value, variance_p_value

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
BOTH = pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)


def run(mechanism, query, seed=0):
    return release(mechanism, query, ledger=None, noise=SimulationSource(seed))


def queries(values, **changes):
    fields = {
        "value": FixedPoint(np.asarray(values, dtype=np.int64), 0),
        "sensitivities": {"linf": 1.0},
        "adjacency": REPLACE,
        "unit": 1.0,
        "count": 10,
        "exact": True,
    }
    return Bounded(**(fields | changes))


def norms(rows, adjacency=REPLACE, row_norm=16.0):
    return norm_counts(open_rows(rows), Clip(row_norm=row_norm), adjacency)


def sphere(n, radius, d=3, seed=0):
    rows = np.random.default_rng(seed).standard_normal((n, d))
    return rows * (radius / np.linalg.norm(rows, axis=1, keepdims=True))


def test_the_search_stops_within_its_slack():
    """Lemma 5 with slack (6/epsilon) log(2t/beta): fails with probability beta, in 400 runs at
    beta = 0.1 more than 64 times with probability 1e-4.
    """
    mechanism = SparseVector(epsilon=0.5)
    values = np.arange(-2000.0, 2000.0, 20.0)
    slack = mechanism.slack(values.size, 0.1)
    assert slack == pytest.approx(12 * math.log(2 * 200 / 0.1))
    wrong = 0
    for seed in range(400):
        k = run(mechanism, queries(values), seed)
        reached = values[k] if k < values.size else math.inf
        wrong += reached < -slack or values[:k].max(initial=-math.inf) > slack
    assert wrong <= 64


def test_the_law_of_the_search():
    """One query at -10: it is answered where Lap(4) - Lap(2) reaches 10.

    10,000 draws, five standard errors; without noise on the threshold the chance is 0.041, with
    half of the noise 0.0045.
    """
    expected = (16 * math.exp(-10 / 4) - 4 * math.exp(-10 / 2)) / (2 * (16 - 4))
    source = SimulationSource(0)
    query = queries([-10])
    hits = np.mean(
        [
            release(SparseVector(epsilon=1.0), query, ledger=None, noise=source) == 0
            for _ in range(10_000)
        ]
    )
    error = math.sqrt(expected * (1 - expected) / 10_000)
    assert abs(hits - expected) < 5 * error
    assert abs(math.exp(-10 / 4) / 2 - expected) > 5 * error


@pytest.mark.parametrize("epsilon", [1.0, 1e-5])
def test_the_noise_of_search_and_quantile(epsilon, monkeypatch):
    """Scales as the proofs have them, on a grid that divides 1 however large they are."""
    seen = []

    def recording(query, sigma, source, *, law, grid):
        seen.append((sigma, grid))
        return add_noise(query, sigma, source, law=law, grid=grid)

    for module in (sparse_vector, quantile):
        monkeypatch.setattr(module, "add_noise", recording)
    run(SparseVector(epsilon=epsilon), queries([1, 2]))
    run(PrivateQuantile(epsilon=epsilon, level=0.5), norms(np.ones((3, 2))))
    scales = [sigma * epsilon for sigma, _ in seen]
    assert scales == pytest.approx([2.0, 4.0, 2.0])
    assert all(grid <= 0 for _, grid in seen)


def test_the_search_without_an_answer():
    assert run(SparseVector(epsilon=1.0), queries(np.full(7, -10_000))) == 7
    assert run(SparseVector(epsilon=1.0), queries([-10_000, 10_000, -10_000])) == 1
    assert run(SparseVector(epsilon=1.0), queries([])) == 0


def test_the_search_is_refused_where_its_proof_does_not_hold():
    with pytest.raises(InvalidParameterError, match="sensitivity 1"):
        run(SparseVector(epsilon=1.0), queries([1], sensitivities={"linf": 2.0}))
    with pytest.raises(InvalidParameterError, match="no bound in the linf norm"):
        run(SparseVector(epsilon=1.0), queries([1], sensitivities={"l1": 1.0}))
    with pytest.raises(InvalidBudgetError, match="too small"):
        SparseVector(epsilon=1e-7)


@BOTH
@pytest.mark.parametrize("radius", [10.0, 0.01, 1e-30])
def test_the_radius_holds_nearly_all_rows(adjacency, radius):
    """Lemma 9: at most sqrt(2) times the largest norm, few rows beyond; beta = 0.05, of 40 runs 9
    may fail (probability 1e-4).
    """
    mechanism = PrivateRadius(epsilon=1.0)
    rows = sphere(2000, radius)
    slack = SparseVector(epsilon=1.0).slack(2044, 0.05)
    wrong = 0
    for seed in range(40):
        found = 16.0 * 2.0 ** (-run(mechanism, norms(rows, adjacency), seed) / 2)
        beyond = np.sum(np.linalg.norm(rows, axis=1) > found)
        wrong += found > 1.42 * radius or beyond > 2 * slack
    assert wrong <= 9


def test_the_number_of_rows_stays_private():
    assert norms(np.ones((3, 2)), ADD).count is None
    assert norms(np.ones((3, 2)), REPLACE).count == 3


def test_the_radius_of_nothing():
    assert run(PrivateRadius(epsilon=1.0), norms(np.zeros((2000, 2)))) >= 2000


@BOTH
@pytest.mark.parametrize("noise", [GaussianNoise(mu=0.5), LaplaceNoise(epsilon=0.5)])
def test_the_trace_and_its_upper_limit(noise, adjacency):
    """The limit fails with probability 0.05: of 400, more than 41 with probability 1e-5, fewer
    than 4 with probability 1e-5. The noise is that of a number which one row moves by 1: a false
    alarm once in a million, and a scale a third off has 1e-9.
    """
    rows = sphere(50, 2.0)
    query = trace(open_rows(rows), Clip(row_norm=4.0), adjacency)
    truth = 4.0 * (1 if adjacency is REPLACE else 50)
    found = [run(PrivateTrace(noise=noise), query, seed) for seed in range(400)]
    assert 4 <= sum(answer.upper < truth for answer in found) <= 41
    assert np.mean([answer.value for answer in found]) == pytest.approx(truth, rel=0.1)
    errors = (np.array([answer.value for answer in found]) - truth) / query.unit
    p_value = variance_p_value if isinstance(noise, GaussianNoise) else scale_p_value
    assert p_value(errors, 1 / 0.5) > 1e-6
    assert p_value(errors, 1.5 / 0.5) < 1e-6
    assert p_value(errors, 0.67 / 0.5) < 1e-6
    if adjacency is REPLACE:
        assert max(answer.upper for answer in found) <= 16.0


@BOTH
@pytest.mark.parametrize(("level", "expected"), [(0.3, 2.0), (0.5, 4.0), (0.7, 8.0)])
def test_the_quantile(level, expected, adjacency):
    """A fifth of the rows in every other bracket up to 16: a margin of 100 rows at epsilon 1 fails
    with probability e^-40.
    """
    rows = np.vstack([sphere(200, 2.0 ** (j - 0.25)) for j in range(5)])
    for seed in range(10):
        j = run(PrivateQuantile(epsilon=1.0, level=level), norms(rows, adjacency), seed)
        assert 16.0 * 2.0 ** (-j / 2) == expected


@BOTH
def test_the_quantile_of_norms_that_agree(adjacency):
    """All rows in one bracket: with brackets as candidates it is found nearly always.

    n = 400, epsilon = 1/4: each of 2044 empty brackets misses 200 rows, 25 noise scales; one of
    them wins with probability below 2044 * 14 * exp(-25) < 1e-6.
    """
    rows = np.full((400, 2), 0.6 * math.sqrt(0.5))
    for seed in range(20):
        j = run(PrivateQuantile(epsilon=0.25, level=0.5), norms(rows, adjacency), seed)
        assert j == 9  # 16 * 2^-4.5 is the end above 0.6


def test_impossible_quantiles():
    for level in (0.0, 1.0, math.nan):
        with pytest.raises(InvalidParameterError, match="between 0 and 1"):
            PrivateQuantile(epsilon=1.0, level=level)
    with pytest.raises(InvalidBudgetError, match="too small"):
        PrivateQuantile(epsilon=1e-7, level=0.5)


@BOTH
def test_the_histogram_shows_full_bins_only(adjacency):
    rows = np.vstack([sphere(400, 7.0), sphere(1, 1.9)])
    for seed in range(20):
        found = run(StabilityHistogram(epsilon=1.0, delta=1e-6), norms(rows, adjacency), seed)
        assert list(found) == [2]
        assert found[2] == pytest.approx(400, abs=40)


@BOTH
def test_a_bin_of_one_row_shows_with_probability_delta(adjacency):
    """4,000 draws at delta = 0.05; five standard errors, and a threshold without its 1 would
    show it far more often.
    """
    query = norms(sphere(1, 7.0), adjacency)
    mechanism = StabilityHistogram(epsilon=1.0, delta=0.05)
    source = SimulationSource(0)
    shown = [bool(release(mechanism, query, ledger=None, noise=source)) for _ in range(4000)]
    assert np.mean(shown) == pytest.approx(0.05, abs=5 * math.sqrt(0.05 * 0.95 / 4000))


@BOTH
def test_the_noise_of_a_full_bin(adjacency):
    """Laplace of scale 2 or 1: 2,000 draws, and a scale off by 15 % lies 6 standard errors out."""
    query = norms(sphere(1000, 7.0), adjacency)
    mechanism = StabilityHistogram(epsilon=1.0, delta=1e-6)
    source = SimulationSource(0)
    found = np.array([release(mechanism, query, ledger=None, noise=source)[2] for _ in range(2000)])
    scale = 2.0 if adjacency is REPLACE else 1.0
    assert scale_p_value(found - 1000, scale) > 1e-6
    assert scale_p_value(found - 1000, 1.15 * scale) < 1e-6


def test_a_histogram_of_larger_steps_is_refused():
    with pytest.raises(InvalidParameterError, match="by 1 at most"):
        run(
            StabilityHistogram(epsilon=1.0, delta=0.1),
            queries([5], sensitivities={"l1": 2.0, "linf": 2.0}),
        )


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, math.nan])
def test_a_histogram_needs_a_delta(delta):
    with pytest.raises(InvalidParameterError, match="delta"):
        StabilityHistogram(epsilon=1.0, delta=delta)


def threshold(noise):
    return ClippingThreshold(
        radius=PrivateRadius(epsilon=2.0),
        trace=PrivateTrace(noise=GaussianNoise(mu=2.0)),
        search=SparseVector(epsilon=2.0),
        noise=noise,
    )


@BOTH
@pytest.mark.parametrize("scale", [1.0, 1e-12])
def test_the_threshold_balances_bias_and_noise(adjacency, scale):
    """20,000 rows of norm 1/8 and 400 of norm 8: in units of 64 the bias is 400 until tau reaches
    1/8. Noise of 2e5 tau^2 falls below it at tau = 1/4, and one step back is 1/2; the search errs
    by a few rows.
    """
    rows = np.vstack([sphere(20_000, 0.12), sphere(400, 7.9)]) * scale

    def found(noise):
        mechanism = threshold(noise)
        gate = Gate(
            mechanism.cost(),
            label="x",
            adjacency=adjacency,
            ledger=None,
            noise=SimulationSource(0),
        )
        return mechanism.run(open_rows(rows), Clip(row_norm=16.0 * scale), gate) / scale

    noisy = NoiseBound(frobenius=2e5, operator=1e5, values=1e3)
    quiet = NoiseBound(frobenius=0.1, operator=0.1, values=0.1)
    assert found(noisy) == pytest.approx(0.5)
    assert found(quiet) >= 4.0


def test_noise_bounds():
    bound = NoiseBound(frobenius=10.0, operator=4.0, values=1.0)
    assert bound.at(1.0, 1e6) == 10.0
    assert bound.at(1.0, 1.0) == 2 * 2 + 1
    assert bound.at(0.5, 1.0) == min(2.5, 2 + 0.25)


def _beyond(rows, adjacency):
    return rows_beyond(case.norms(rows, adjacency))


def _number(released):
    return np.array([float(released)])


def _threshold(mu, d, k):
    """Three equal shares of rho."""
    each = mu / math.sqrt(3)
    return ClippingThreshold(
        radius=PrivateRadius(epsilon=each),
        trace=PrivateTrace(noise=GaussianNoise(mu=each)),
        search=SparseVector(epsilon=each),
        noise=NoiseBound(frobenius=3.0, operator=1.0, values=1.0),
    )


COUNTED = {  # numbers found by counting rows
    "query": case.norms,
    "run": case.one_step(case.norms),
    "read": _number,
    "norm": "linf",
    "sensitivity": case.ONE,
    "worst_pair": case.long_and_short,
    "strength_of": case.pure_of,
    "may_coincide": True,
    "shows": False,
}


CASES = [
    case.Case(
        "trace",
        lambda mu, d, k: PrivateTrace(noise=GaussianNoise(mu=mu)),
        query=case.row_trace,
        run=case.one_step(case.row_trace),
        read=lambda released: np.array([released.value]),
        shows=False,
        norm="l2",
        sensitivity=case.ONE,
        worst_pair=case.long_and_short,
        may_coincide=True,
    ),
    case.Case(
        "trace pure",
        lambda epsilon, d, k: PrivateTrace(noise=LaplaceNoise(epsilon=epsilon)),
        query=case.row_trace,
        run=case.one_step(case.row_trace),
        read=lambda released: np.array([released.value]),
        shows=False,
        norm="l1",
        sensitivity=case.ONE,
        worst_pair=case.long_and_short,
        may_coincide=True,
        **case.PURE,
    ),
    case.Case(
        "sparse-vector",
        lambda epsilon, d, k: SparseVector(epsilon=epsilon),
        **(COUNTED | {"query": _beyond, "run": case.one_step(_beyond)}),
    ),
    case.Case(
        "radius",
        lambda epsilon, d, k: PrivateRadius(epsilon=epsilon),
        **COUNTED,
    ),
    case.Case(
        "quantile",
        lambda epsilon, d, k: PrivateQuantile(epsilon=epsilon, level=0.5),
        **COUNTED,
    ),
    case.Case(
        "threshold",
        _threshold,
        **(COUNTED | {"run": case.procedure, "strength_of": case.mu_of, "trials": 1000}),
    ),
    case.Case(
        "histogram",
        lambda epsilon, d, k: StabilityHistogram(epsilon=epsilon, delta=1e-3),
        ledger={"epsilon": 50.0, "delta": 0.5},
        **(
            COUNTED
            | {
                "read": lambda released: np.array([released.get(j, 0.0) for j in range(3)]),
                "norm": "l1",
                "sensitivity": case.NUCLEAR,
                "strength_of": lambda cost: cost.epsilon,
            }
        ),
    ),
]
