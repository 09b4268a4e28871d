"""Lazy and dense noise give releases of the same law."""

import math
import tracemalloc
from functools import cache

import numpy as np
import pytest
from scipy.stats import ks_2samp

from eigenveil.exact import Clip, LazyGaussian, moment_products, second_moment
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms import AnalyzeGauss, analyze_gauss, release, wide
from eigenveil.numerics import SimulationSource
from eigenveil.privacy import Adjacency, Gaussian
from eigenveil.rows import open_rows
from tests.conformance import case
from tests.numerics.test_lazy import Forgetful, Loud

REPLACE = Adjacency.REPLACE_ONE
D, K, DRAWS = 40, 2, 400
ROWS = open_rows(np.repeat(np.eye(D)[:K], [60, 40], axis=0))
CLIP = Clip(row_norm=1.0)
DENSE = second_moment(ROWS, CLIP, REPLACE)
LAZY = moment_products(ROWS, CLIP, REPLACE)
# Eigenvalues 60 and 40 against critical ones of sqrt(d/2) sqrt(2)/mu: drowned, at the edge, clear.
LEVELS = {"below": 0.06, "near": 0.13, "above": 0.4}


@cache
def sample(mu, law):
    """Overlaps with the two true directions, two eigenvalues and the trace."""
    lazy = law is not None
    mechanism = AnalyzeGauss(strength=Gaussian(mu), n_components=K, lazy=lazy)
    source = SimulationSource(int(lazy))
    drawn = []
    for _ in range(DRAWS):
        out = release(mechanism, LAZY if lazy else DENSE, ledger=None, noise=source)
        overlaps = np.sum(out.components[:, :K] ** 2, axis=0)
        drawn.append([*overlaps, *out.eigenvalues, out.trace])
    return np.array(drawn)


def least_p_value(mu, law=LazyGaussian):
    dense, lazy = sample(mu, None), sample(mu, law)
    return min(ks_2samp(a, b).pvalue for a, b in zip(dense.T, lazy.T, strict=True))


@pytest.mark.parametrize(
    "level",
    ["near", *(pytest.param(level, marks=pytest.mark.audit) for level in ("below", "above"))],
)
def test_lazy_and_dense_releases_have_one_law(level):
    """Two-sample tests of five numbers at 1e-6 each: false alarm 5e-6 per level."""
    assert least_p_value(LEVELS[level]) > 1e-6


@pytest.mark.parametrize("fault", [Forgetful, Loud])
def test_wrong_lazy_noise_is_rejected(monkeypatch, fault):
    monkeypatch.setattr(analyze_gauss, "LazyGaussian", fault)
    assert least_p_value(LEVELS["near"], fault) < 1e-6


def test_eigenvalues_are_those_of_the_noisy_matrix_along_the_components():
    """All directions: nothing is left to converge, and the eigenvalues add up to the trace."""
    rows = open_rows(np.random.default_rng(0).standard_normal((30, 5)))
    query = moment_products(rows, CLIP, REPLACE)
    mechanism = AnalyzeGauss(strength=Gaussian(1.0), n_components=5, lazy=True)
    out = release(mechanism, query, ledger=None, noise=SimulationSource(1))
    assert out.eigenvalues.sum() == pytest.approx(out.trace)
    assert out.components @ out.components.T == pytest.approx(np.eye(5))
    assert out.noise_scale == pytest.approx(math.sqrt(2) / 30)
    assert out.law.scale == out.noise_scale


def test_much_data_shows_through():
    query = moment_products(ROWS, CLIP, REPLACE)
    mechanism = AnalyzeGauss(strength=Gaussian(1e6), n_components=2, lazy=True)
    out = release(mechanism, query, ledger=None, noise=SimulationSource(1))
    assert out.eigenvalues == pytest.approx([0.6, 0.4], abs=1e-4)
    assert np.abs(out.components[:, :2]) == pytest.approx(np.eye(2), abs=1e-4)
    assert out.trace == pytest.approx(1.0, abs=1e-4)


def test_seeds_are_bound_to_the_whole_table():
    """Tables with one diagonal do not share noise: their releases would show the difference."""
    tables = [np.array([[1.0, sign, 0.0, 0.0]] * 5) for sign in (1.0, -1.0)]
    queries = [moment_products(open_rows(table), CLIP, REPLACE) for table in tables]
    assert np.array_equal(queries[0].value.units, queries[1].value.units)
    mechanism = AnalyzeGauss(
        strength=Gaussian(1e-6), n_components=1, lazy=True
    )  # nothing but noise
    first, second = (
        release(mechanism, query, ledger=None, noise=SimulationSource(1)).components[0]
        for query in queries
    )
    assert np.abs(first - second).max() > 0.01


@pytest.mark.parametrize(
    ("lazy", "query", "message"), [(True, DENSE, "moment_products"), (False, LAZY, "square")]
)
def test_each_form_asks_for_its_statistic(lazy, query, message):
    mechanism = AnalyzeGauss(strength=Gaussian(1.0), n_components=1, lazy=lazy)
    with pytest.raises(InvalidParameterError, match=message):
        release(mechanism, query, ledger=None, noise=SimulationSource(0))


def test_numerics_and_the_switch_are_public():
    assert AnalyzeGauss(strength=Gaussian(1.0), n_components=1).exact
    assert not AnalyzeGauss(strength=Gaussian(1.0), n_components=1, lazy=True).exact
    assert wide(200_000, 5)
    assert not wide(784, 10)
    assert not wide(5000, 500)  # a basis nearly as large as the matrix


def test_the_matrix_is_never_formed():
    """50,000 columns: it would fill 20 GB."""
    table = np.random.default_rng(0).standard_normal((20, 50_000), dtype=np.float32)
    mechanism = AnalyzeGauss(strength=Gaussian(1e4), n_components=1, lazy=True)
    tracemalloc.start()
    query = moment_products(open_rows(table), Clip(row_norm=300.0), REPLACE)
    release(mechanism, query, ledger=None, noise=SimulationSource(0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6  # 100 columns, three times over, are set aside


CASES = [
    case.Case(
        "analyze-gauss",
        lambda mu, d, k: AnalyzeGauss(strength=Gaussian(mu), n_components=k),
        read=case.projector,
    ),
    case.Case(
        "analyze-gauss lazy",
        lambda mu, d, k: AnalyzeGauss(strength=Gaussian(mu), n_components=k, lazy=True),
        read=case.projector,
        exact=False,
    ),
]
