"""Eigenvalue cleaning and projections."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize

from eigenveil.exact import GaussianLaw, WishartLaw, add_symmetric_gaussian, two_sided_wishart
from eigenveil.numerics import (
    FixedPoint,
    SimulationSource,
    clean_eigenvalues,
    epanechnikov_hilbert,
    map_eigenvalues,
    project_to_simplex,
)


def gaussian(d, scale, seed):
    zero = FixedPoint(np.zeros((d, d), dtype=np.int64), -60)
    noise = add_symmetric_gaussian(zero, scale, SimulationSource(seed)).to_float()
    return noise, GaussianLaw(d, scale)


def wishart(d, scale, seed):
    """Two-sided Wishart noise with the second moments of Gaussian noise of ``scale``."""
    c = math.sqrt(d + 1) / scale
    return two_sided_wishart(d, c, SimulationSource(seed)), WishartLaw(d, c)


both_laws = pytest.mark.parametrize("draw", [gaussian, wishart])


def cleaned_error(truth, draw, scale, seed):
    """Frobenius errors: cleaned, and with the best eigenvalues for the same noisy basis."""
    noise, law = draw(len(truth), scale, seed)
    values, vectors = np.linalg.eigh(truth + noise)
    best = np.maximum(np.einsum("ji,jk,ki->i", vectors, truth, vectors), 0)
    cleaned = clean_eigenvalues(values, law)
    return tuple(np.linalg.norm((vectors * x) @ vectors.T - truth) for x in (cleaned, best))


def kernel(t):
    return 3 / (4 * math.sqrt(5)) * (1 - t * t / 5)


@pytest.mark.parametrize("u", [0.0, 0.3, 1.7, 2.2, 2.3, 4.0, 60.0, 150.0, -1.0])
def test_the_hilbert_transform_against_quadrature(u):
    edge = math.sqrt(5)
    if abs(u) < edge:
        # quad's Cauchy weight integrates f(t)/(t - u) in the sense of the principal value.
        expected = -quad(kernel, -edge, edge, weight="cauchy", wvar=u)[0]
    else:
        expected = quad(lambda t: kernel(t) / (u - t), -edge, edge)[0]
    assert epanechnikov_hilbert(np.array([u]))[0] == pytest.approx(expected, rel=1e-7, abs=1e-12)


def test_the_ends_of_the_kernel_are_finite():
    ends = np.array([-math.sqrt(5), math.sqrt(5), 0.0, math.inf, -math.inf])
    assert np.isfinite(epanechnikov_hilbert(ends)).all()


@pytest.mark.parametrize(
    ("spectrum", "scale"),
    [
        (np.geomspace(1e-3, 1, 120), 0.02),
        (np.r_[np.full(117, 0.05), 1.0, 1.5, 2.0], 0.04),
        (np.linspace(0, 1, 120), 0.03),
    ],
    ids=["geometric", "spikes", "linear"],
)
@both_laws
def test_nearly_as_good_as_the_oracle(spectrum, scale, draw):
    q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((120, 120)))
    truth = (q * spectrum) @ q.T
    errors = np.mean([cleaned_error(truth, draw, scale, seed) for seed in range(8)], axis=0)
    raw = scale * math.sqrt(120 * 121 / 2)
    assert errors[0] < 1.05 * errors[1]
    assert errors[0] < 0.9 * raw


def test_the_law_matters():
    """A spike near the edge of two-sided Wishart noise is worse cleaned as if in Gaussian noise."""
    truth = np.zeros((100, 100))
    truth[0, 0] = 16.0
    errors = []
    for seed in range(10):
        noise, law = wishart(100, 1.0, seed)
        values, vectors = np.linalg.eigh(truth + noise)
        cleaned = (clean_eigenvalues(values, each) for each in (law, GaussianLaw(100, 1.0)))
        errors.append([np.linalg.norm((vectors * x) @ vectors.T - truth) for x in cleaned])
    right, wrong = np.mean(errors, axis=0)
    assert right < 0.95 * wrong


@both_laws
@pytest.mark.parametrize("d", [1, 2, 3, 40])
def test_nothing_is_made_of_pure_noise(draw, d):
    """About one draw in ten thousand stands out, and one trace in a thousand; 2 of 200 may.

    In one dimension a Laplace variable clears three standard deviations in 0.7 % of draws: 6 may.
    """
    found = sum(
        clean_eigenvalues(np.linalg.eigvalsh(noise), law).any()
        for noise, law in (draw(d, 1.0, seed) for seed in range(200))
    )
    assert found <= (6 if d == 1 else 2)


@both_laws
@pytest.mark.parametrize("spike", [3.0, 10.0, 60.0])
def test_nothing_is_made_of_a_noisy_centre(draw, spike):
    """A rank-one error of known expected size: the floor is passed about once in a hundred."""
    rng = np.random.default_rng(1)
    found = 0
    for seed in range(100):
        error = rng.standard_normal(40) * math.sqrt(spike / 40)
        noise, law = draw(40, 1.0, seed)
        values = np.linalg.eigvalsh(noise + np.outer(error, error))
        found += clean_eigenvalues(values, law, spike=spike).any()
    assert found <= 6  # probability 1e-4 at 1 %


@both_laws
def test_a_multiple_of_the_identity_is_recovered(draw):
    noise, law = draw(60, 1.0, 0)
    cleaned = clean_eigenvalues(np.linalg.eigvalsh(5.0 * np.eye(60) + noise), law)
    assert np.ptp(cleaned) == 0
    assert cleaned[0] == pytest.approx(5.0, abs=0.6)  # the mean has standard error 0.13


def test_a_trace_that_stands_out_lowers_the_limit():
    """A top eigenvalue between the limits of one in a hundred and one in ten thousand."""
    law = GaussianLaw(100, 1.0)
    values = np.linspace(-law.edge, law.edge, 100) * 0.85
    values[-1] = (law.floor() + law.ceiling) / 2
    values -= values.mean()
    values[-1] = (law.floor() + law.ceiling) / 2
    assert not clean_eigenvalues(values, law).any()
    assert np.ptp(clean_eigenvalues(values + 0.5, law)) > 0


def test_one_eigenvalue_and_tiny_noise():
    for law in (GaussianLaw(1, 1.0), WishartLaw(1, math.sqrt(2))):
        assert clean_eigenvalues(np.array([7.0]), law)[0] == pytest.approx(7.0 * (1 - 9 / 49))
    values = np.array([0.5, 1.0, 4.0])
    for law in (GaussianLaw(3, 1e-9), WishartLaw(3, 2e9)):
        assert clean_eigenvalues(values, law) == pytest.approx(values, rel=1e-6)


@both_laws
@pytest.mark.parametrize("d", [1, 2, 3, 30])
def test_cleaned_values_are_monotone_and_within_the_trace(draw, d):
    noise, law = draw(d, 0.3, 1)
    values = np.linalg.eigvalsh(np.diag(np.linspace(3, 0, d)) + noise)
    cleaned = clean_eigenvalues(values, law, trace_bound=0.4 * d)
    assert (np.diff(cleaned) >= 0).all()
    assert (cleaned >= 0).all()
    assert 0 < cleaned.sum() <= 0.4 * d + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_the_simplex_projection_against_a_solver(seed):
    rng = np.random.default_rng(seed)
    point, total = rng.standard_normal(5), rng.uniform(0.2, 2.0)
    solved = minimize(
        lambda x: np.sum((x - point) ** 2),
        np.full(5, total / 10),
        bounds=[(0, None)] * 5,
        constraints={"type": "ineq", "fun": lambda x: total - x.sum()},
        options={"ftol": 1e-14, "maxiter": 500},
    ).x
    assert project_to_simplex(point, total) == pytest.approx(solved, abs=1e-5)


def test_a_projection_never_increases_the_error():
    rows = np.random.default_rng(2).standard_normal((9, 12)) / 12
    truth = rows.T @ rows
    for seed in range(20):
        noisy = truth + gaussian(12, 0.05, seed)[0]
        projected, _ = map_eigenvalues(noisy, lambda v: project_to_simplex(v, np.trace(truth)))
        assert np.linalg.norm(projected - truth) <= np.linalg.norm(noisy - truth)
        assert np.array_equal(projected, projected.T)
