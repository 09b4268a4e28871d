"""Private numbers about spectra: the law of their noise, and what they find."""

import math
from dataclasses import replace

import numpy as np
import pytest

from eigenveil.exact import (
    Clip,
    along,
    eigengap,
    eigenvalues,
    leading,
    second_moment,
    weighted_eigenvalues,
)
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms import (
    GaussianNoise,
    LaplaceNoise,
    PrivateEigenvalues,
    PrivateNoiseVariance,
    PrivateRank,
    PrivateVariances,
    bulk_weights,
    release,
)
from eigenveil.numerics import FixedPoint, SimulationSource
from eigenveil.papers.kpca import PrivateGap
from eigenveil.privacy import Adjacency, Budget, Gaussian, strength
from eigenveil.rows import open_rows
from tests.conformance import case
from tests.statistics import scale_p_value, variance_p_value

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
BOTH = pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)
HALF = GaussianNoise(mu=strength(Budget(epsilon=0.5, delta=1e-6), Gaussian, "gaussian"))


def spiked(n, d, spikes, seed):
    """Unit noise and spikes along the first axes, and the clip that cuts few of its rows."""
    rows = np.random.default_rng(seed).standard_normal((n, d))
    rows[:, : len(spikes)] *= np.sqrt(1 + np.array(spikes))
    return rows, Clip(row_norm=math.sqrt(1.5 * (d + sum(spikes))))


def moment(rows, adjacency=REPLACE, clip=None):
    return second_moment(open_rows(rows), clip or Clip(row_norm=1.0), adjacency)


def run(mechanism, query, seed=0):
    return release(mechanism, query, ledger=None, noise=SimulationSource(seed))


def stretched(query, entries):
    """The same bounds on many numbers that stand far apart, so that one draw shows the law."""
    values = np.arange(entries, 0, -1, dtype=np.int64) << 40
    return replace(query, value=FixedPoint(values, -32), trace_bound=math.inf), values * 2.0**-32


@BOTH
@pytest.mark.parametrize("mechanism", [PrivateEigenvalues, PrivateVariances])
def test_the_law_of_the_noise(mechanism, adjacency):
    """False alarm 2e-6 each; 3 % of the scale are 8 standard errors at 40,000 entries."""
    whole = moment(np.eye(4), adjacency)
    query = leading(whole, 3) if mechanism is PrivateEigenvalues else along(whole, np.eye(4)[:3])
    query, values = stretched(query, 40_000)
    l2, l1 = (math.sqrt(2), 2.0) if adjacency is REPLACE else (1.0, 1.0)
    gaussian = run(mechanism(noise=GaussianNoise(mu=0.5)), query)
    noise = gaussian.values / query.unit - values
    assert variance_p_value(noise, 2 * l2) > 1e-6
    assert variance_p_value(noise, 2 * l2 * 0.97) < 1e-6
    assert variance_p_value(noise, 2 * l2 * 1.03) < 1e-6
    assert gaussian.deviation == pytest.approx(2 * l2 * query.unit)
    laplace = run(mechanism(noise=LaplaceNoise(epsilon=0.5)), query)
    noise = laplace.values / query.unit - values
    assert scale_p_value(noise, 2 * l1) > 1e-6
    assert scale_p_value(noise, 2 * l1 * 0.97) < 1e-6
    assert laplace.deviation == pytest.approx(math.sqrt(2) * 2 * l1 * query.unit)


@BOTH
def test_the_law_of_the_noise_of_a_rank(adjacency):
    """False alarm 2e-6; a tenth of the scale is 6 standard errors or more at 4,000 entries."""
    query, values = stretched(eigenvalues(moment(np.eye(4), adjacency)), 4000)
    query = replace(query, value=FixedPoint(query.value.units[::-1], -32), count=None)
    l2, l1 = (math.sqrt(2), 2.0) if adjacency is REPLACE else (1.0, 1.0)
    gaussian = run(PrivateRank(noise=GaussianNoise(mu=0.5), max_rank=1, rows=1e6), query)
    noise = gaussian.eigenvalues / query.unit - values
    assert variance_p_value(noise, 2 * l2) > 1e-6
    assert variance_p_value(noise, 2 * l2 * 0.9) < 1e-6
    assert variance_p_value(noise, 2 * l2 * 1.1) < 1e-6
    laplace = run(PrivateRank(noise=LaplaceNoise(epsilon=0.5), max_rank=1, rows=1e6), query)
    noise = laplace.eigenvalues / query.unit - values
    assert scale_p_value(noise, 2 * l1) > 1e-6
    assert scale_p_value(noise, 2 * l1 * 0.9) < 1e-6


@BOTH
def test_a_single_number_needs_less_noise(adjacency):
    """One eigenvalue, or one direction: neither rises by more than 1 nor falls."""
    whole = moment(np.eye(3), adjacency)
    for query in (leading(whole, 1), along(whole, np.eye(3)[:1])):
        assert dict(query.sensitivities) == {"l1": 1.0, "l2": 1.0}


@BOTH
def test_the_law_of_scalar_noise(adjacency):
    """False alarm 2e-6; 15 % of the scale are 8 standard errors at 1,500 draws."""
    rows, clip = spiked(500, 6, [5.0], 0)
    whole = moment(rows, adjacency, clip)
    weights = bulk_weights(6, 500)
    for mechanism, query, bound in (
        (PrivateGap, eigengap(whole, 1), 2.0 if adjacency is REPLACE else 1.0),
        (PrivateNoiseVariance, weighted_eigenvalues(whole, weights), weights.max()),
    ):
        value = query.value.to_float()[0]
        released = [run(mechanism(noise=GaussianNoise(mu=2.0)), query, s) for s in range(1500)]
        noise = np.array([r.value for r in released]) / query.unit - value
        assert variance_p_value(noise, bound / 2) > 1e-6
        assert variance_p_value(noise, 0.85 * bound / 2) < 1e-6
        assert variance_p_value(noise, 1.15 * bound / 2) < 1e-6
        assert released[0].deviation == pytest.approx(bound / 2 * query.unit)


@pytest.mark.parametrize("adjacency", [REPLACE, pytest.param(ADD, marks=pytest.mark.audit)])
@pytest.mark.parametrize("noise", [GaussianNoise(mu=0.5), LaplaceNoise(epsilon=0.5)], ids=str)
def test_the_lower_bound_fails_as_often_as_it_says(noise, adjacency):
    """beta = 0.1 of 3,000: 300 +- 16.4, five standard errors. A margin a quarter short fails
    more than 450 times.
    """
    query = eigengap(moment(np.repeat(np.eye(3), [200, 50, 1], axis=0), adjacency), 1)
    gap = query.value.to_float()[0] * query.unit
    mechanism = PrivateGap(noise=noise, beta=0.1)
    released = [run(mechanism, query, s) for s in range(3000)]
    failures = sum(r.lower > gap for r in released)
    assert 218 <= failures <= 382
    short = sum(r.value - 0.75 * (r.value - r.lower) > gap for r in released)
    assert short > 382


@BOTH
def test_eigenvalues_stay_possible(adjacency):
    query = leading(moment(np.random.default_rng(0).standard_normal((30, 6)), adjacency), 5)
    for seed in range(20):
        released = run(PrivateEigenvalues(noise=GaussianNoise(mu=0.2)), query, seed)
        assert (np.diff(released.values) <= 0).all()
        assert (released.values >= 0).all()
        assert released.values.sum() <= query.trace_bound * (1 + 1e-12)
        variances = run(PrivateVariances(noise=GaussianNoise(mu=0.01)), query, seed)
        assert (variances.values >= 0).all()


def test_variances_are_those_along_the_directions():
    rows = np.random.default_rng(1).standard_normal((400, 5)) / 10
    turned = np.linalg.qr(np.random.default_rng(2).standard_normal((5, 5)))[0]
    expected = ((rows @ turned[:3].T) ** 2).mean(axis=0)
    query = along(moment(rows), turned[:3])
    released = run(PrivateVariances(noise=GaussianNoise(mu=1e5)), query)
    assert released.values == pytest.approx(expected, rel=1e-3)


@BOTH
def test_the_rank_of_spikes_is_found(adjacency):
    """20 tables, epsilon = 0.5: 3 spikes of 10 above unit noise."""
    found = []
    for seed in range(20):
        rows, clip = spiked(2000, 20, [10.0] * 3, seed)
        mechanism = PrivateRank(noise=HALF, max_rank=8, rows=2000)
        released = run(mechanism, eigenvalues(moment(rows, adjacency, clip)), seed)
        found.append(released.rank)
        assert (np.diff(released.eigenvalues) <= 0).all()
    assert found.count(3) >= 19


@BOTH
@pytest.mark.parametrize(("n", "d"), [(2000, 20), (300, 60), (40, 60)])
def test_pure_noise_has_no_rank(adjacency, n, d):
    """The largest eigenvalue passes once in a hundred times; two of 20 have probability 0.02.

    Seeded: a test that looked at the privacy noise alone would name a rank every time.
    """
    found = []
    for seed in range(20):
        rows, clip = spiked(n, d, [], seed)
        mechanism = PrivateRank(noise=GaussianNoise(mu=20.0), max_rank=8, rows=n)
        found.append(run(mechanism, eigenvalues(moment(rows, adjacency, clip)), seed).rank)
    assert found.count(None) >= 19


def test_a_budget_too_small_for_the_rank():
    rows, clip = spiked(300, 10, [10.0], 0)
    query = eigenvalues(moment(rows, REPLACE, clip))
    mechanism = PrivateRank(noise=GaussianNoise(mu=0.005), max_rank=3)
    assert [run(mechanism, query, seed).rank for seed in range(20)].count(None) >= 19


def test_an_exact_low_rank_is_found():
    """No bulk at all: the denominator is the privacy noise, not a noisy zero of either sign."""
    rows = np.random.default_rng(0).standard_normal((500, 2)) @ np.eye(12)[:2] / 3
    query = eigenvalues(moment(rows))
    mechanism = PrivateRank(noise=GaussianNoise(mu=1.0), max_rank=6)
    assert [run(mechanism, query, seed).rank for seed in range(20)].count(2) >= 19


def test_the_noise_variance_is_found():
    released = []
    mechanism = PrivateNoiseVariance(
        noise=GaussianNoise(mu=strength(Budget(epsilon=1.0, delta=1e-6), Gaussian, "gaussian"))
    )
    for seed in range(10):
        rows, clip = spiked(2000, 20, [10.0] * 3, seed)
        query = weighted_eigenvalues(moment(rows, REPLACE, clip), bulk_weights(20, 2000, 3))
        released.append(run(mechanism, query, seed).value)
    assert np.abs(np.array(released) - 1).max() < 0.15
    assert np.mean(released) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(("d", "n", "spikes"), [(1, 5, 0), (2, 9, 0), (2, 9, 1), (30, 7, 2)])
def test_weights_recover_the_scale_of_the_law(d, n, spikes):
    """Applied to the quantiles themselves they give the variance, whatever the window."""
    weights = bulk_weights(d, n, spikes)
    assert (weights >= 0).all()
    assert not weights[:spikes].any()
    assert not weights[min(n, d) :].any()
    used = weights[weights > 0]
    assert weights @ (weights / (used @ used)) == pytest.approx(1.0)


def test_bad_parameters_are_refused():
    whole, private = moment(np.eye(3)), moment(np.eye(3), ADD)
    for k in (0, 3, 4):
        with pytest.raises(InvalidParameterError, match="fewer components than columns"):
            eigengap(whole, k)
    for m in (0, 4):
        with pytest.raises(InvalidParameterError, match="number of eigenvalues"):
            leading(whole, m)
    for rank in (0, 3):
        with pytest.raises(InvalidParameterError, match="max_rank"):
            run(PrivateRank(noise=GaussianNoise(mu=1.0), max_rank=rank), eigenvalues(whole))
    with pytest.raises(InvalidParameterError, match="pass rows"):
        run(PrivateRank(noise=GaussianNoise(mu=1.0), max_rank=1), eigenvalues(private))
    for beta in (0.0, 0.5):
        with pytest.raises(InvalidParameterError, match="beta"):
            PrivateGap(noise=GaussianNoise(mu=1.0), beta=beta)
    with pytest.raises(InvalidParameterError, match="no eigenvalues"):
        bulk_weights(3, 10, 3)
    with pytest.raises(ValueError, match="weights"):
        weighted_eigenvalues(whole, np.array([1.0, -1.0, 0.0]))


def _leading(rows, adjacency):
    moment = case.moment(rows, adjacency)
    return leading(moment, min(2, len(moment.value.units)))


def _along(rows, adjacency):
    """Two directions, or the only one."""
    moment = case.moment(rows, adjacency)
    return along(moment, case.turned(len(moment.value.units))[:2])


def _bulk(rows, adjacency):
    moment = case.moment(rows, adjacency)
    return weighted_eigenvalues(moment, bulk_weights(len(moment.value.units), case.ROWS))


def _spectrum(rows, adjacency):
    return eigenvalues(case.moment(case.two_columns(rows), adjacency))


def _gap(rows, adjacency):
    return eigengap(case.moment(case.two_columns(rows), adjacency), 1)


def _heaviest(d, adjacency):
    """The axis that raises the largest eigenvalue with a weight, in the company of one axis."""
    heaviest = np.eye(d)[np.argmax(bulk_weights(d, case.ROWS))]
    return heaviest, None if adjacency is case.ADD else np.zeros(d)


ONE_OR_SHARED = {  # of one number, or of two that share what a row adds
    "l2": {case.REPLACE: lambda d: 1.0 if d == 1 else math.sqrt(2), case.ADD: lambda d: 1.0},
    "l1": {case.REPLACE: lambda d: 1.0 if d == 1 else 2.0, case.ADD: lambda d: 1.0},
}

EIGENVALUES = {
    "query": _leading,
    "run": case.one_step(_leading),
    "read": lambda released: released.values,
    "company": case.one_axis,
    "may_coincide": True,
    "exact": False,
    "shows": False,
}

VARIANCES = {
    "query": _along,
    "run": case.one_step(_along),
    "read": lambda released: released.values,
    "worst_pair": case.two_directions,
    "may_coincide": True,
    "exact": False,
    "shows": False,
}

GAP = {
    "query": _gap,
    "run": case.one_step(_gap),
    "read": lambda released: np.array([released.value]),
    "company": case.one_axis,
    "sensitivity": case.NUCLEAR,
    "may_coincide": True,
    "exact": False,
    "shows": False,
}


CASES = [
    case.Case(
        "eigenvalues",
        lambda mu, d, k: PrivateEigenvalues(noise=GaussianNoise(mu=mu)),
        norm="l2",
        sensitivity=ONE_OR_SHARED["l2"],
        **EIGENVALUES,
    ),
    case.Case(
        "eigenvalues pure",
        lambda epsilon, d, k: PrivateEigenvalues(noise=LaplaceNoise(epsilon=epsilon)),
        norm="l1",
        sensitivity=ONE_OR_SHARED["l1"],
        **(EIGENVALUES | case.PURE),
    ),
    case.Case(
        "variances",
        lambda mu, d, k: PrivateVariances(noise=GaussianNoise(mu=mu)),
        norm="l2",
        sensitivity=ONE_OR_SHARED["l2"],
        **VARIANCES,
    ),
    case.Case(
        "variances pure",
        lambda epsilon, d, k: PrivateVariances(noise=LaplaceNoise(epsilon=epsilon)),
        norm="l1",
        sensitivity=ONE_OR_SHARED["l1"],
        **(VARIANCES | case.PURE),
    ),
    case.Case(
        "gap",
        lambda mu, d, k: PrivateGap(noise=GaussianNoise(mu=mu)),
        norm="l2",
        **GAP,
    ),
    case.Case(
        "gap pure",
        lambda epsilon, d, k: PrivateGap(noise=LaplaceNoise(epsilon=epsilon)),
        norm="l1",
        **(GAP | case.PURE),
    ),
    case.Case(
        "rank",
        lambda mu, d, k: PrivateRank(noise=GaussianNoise(mu=mu), max_rank=1, rows=case.ROWS),
        query=_spectrum,
        run=case.one_step(_spectrum),
        read=lambda released: np.append(released.eigenvalues, released.rank or 0),
        company=case.one_axis,
        norm="l2",
        may_coincide=True,
        exact=False,
        trials=1000,
        shows=False,
    ),
    case.Case(
        "noise-variance",
        lambda mu, d, k: PrivateNoiseVariance(noise=GaussianNoise(mu=mu)),
        query=_bulk,
        run=case.one_step(_bulk),
        read=lambda released: np.array([released.value]),
        company=case.one_axis,
        norm="l2",
        sensitivity={
            a: lambda d: bulk_weights(d, case.ROWS).max() for a in (case.REPLACE, case.ADD)
        },
        worst_pair=_heaviest,
        may_coincide=True,
        exact=False,
        trials=1000,
        shows=False,
    ),
]
