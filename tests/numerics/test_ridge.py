"""Ridge regression on noisy moments: shrinks what is noise, leaves what stands out."""

import numpy as np
import pytest
from scipy.stats import binom

from eigenveil.numerics import RidgeState

D = 6


def problem(seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(500, D))
    gram, beta = rows.T @ rows / 500, rng.normal(size=D)
    return gram, beta, rng


def stages(gram, beta, deviations, rng, *, noise_scale=0.0, **options):
    """One sum about the coefficients so far for each deviation."""
    noise = rng.normal(size=gram.shape) * noise_scale / np.sqrt(2)
    state = RidgeState.start(gram + (noise + noise.T) / np.sqrt(2), noise_scale)
    for deviation in deviations:
        g = gram @ (beta - state.coefficients()) + deviation * rng.normal(size=D)
        state = state.updated(g, noise_variance=deviation**2, sampling_variance=0.0, **options)
    return state


def test_without_noise_stages_solve_the_equations():
    """What may be clipped leaves 2 % of the distance at each stage."""
    gram, beta, rng = problem()
    state = stages(gram, beta, [1e-10] * 5, rng)
    assert state.coefficients() == pytest.approx(beta, abs=1e-6)
    assert np.abs(state.noise()).max() < 1e-6


def test_a_stated_penalty_is_that_of_ridge_regression():
    gram, beta, rng = problem()
    state = stages(gram, beta, [1e-10] * 6, rng, shrinks=False)
    expected = np.linalg.solve(gram + 0.3 * np.eye(D), gram @ beta)
    assert state.coefficients(0.3) == pytest.approx(expected, abs=1e-5)


def test_noise_alone_gives_no_coefficients_but_intervals():
    """The mean squared coefficient is below a quarter of what solving would give."""
    gram, _, rng = problem()
    found = []
    for _ in range(200):
        state = stages(gram, np.zeros(D), [0.1], rng)
        found.append(np.sum(state.coefficients() ** 2))
        assert (state.noise().diagonal() > 0.5 * 0.01).all()
    assert np.mean(found) < D * 0.01 / 4


def test_shrinking_is_better_than_solving_where_noise_is_large():
    errors = []
    for seed in range(200):
        gram, beta, rng = problem(seed)
        shrunk = stages(gram, beta, [1.0], rng).coefficients()
        plain = stages(gram, beta, [1.0], rng, shrinks=False).coefficients()
        errors.append([np.sum((b - beta) ** 2) for b in (shrunk, plain)])
    shrunk, plain = np.mean(errors, axis=0)
    assert shrunk < 0.85 * plain


def test_intervals_cover_the_largest_coefficient():
    """A two-sided binomial test at 1e-4, one trial for each problem.

    Intervals that are a fifth too narrow, and intervals about shrunk coefficients, are rejected.
    """
    problems, hits = 700, np.zeros(3)
    for seed in range(problems):
        gram, beta, rng = problem(seed)
        beta[:-1] /= 4
        beta[-1] = 3.0
        state = stages(gram, beta, [0.6, 0.5], rng, noise_scale=0.02)
        half = 1.645 * np.sqrt(state.noise()[-1, -1])
        middle, shrunk = state.middle()[-1], state.coefficients()[-1]
        for i, (about, factor) in enumerate(((middle, 1.0), (middle, 0.8), (shrunk, 1.0))):
            hits[i] += abs(beta[-1] - about) <= factor * half
    low, high = binom.ppf([5e-5, 1 - 5e-5], problems, 0.9)
    assert low <= hits[0] <= high
    assert hits[1] < low
    assert hits[2] < low


def test_variances_are_those_of_the_errors():
    """Over 400 problems, the mean of squared errors over variances is 1 with a spread of 0.03."""
    ratios = []
    for seed in range(400):
        gram, beta, rng = problem(seed)
        state = stages(gram, beta, [0.2, 0.1, 0.05], rng, noise_scale=0.02)
        ratios.append(np.mean((state.middle() - beta) ** 2 / state.noise().diagonal()))
    assert 0.85 < np.mean(ratios) < 1.15


def test_a_matrix_that_noise_hides_does_not_make_stages_diverge():
    gram = np.diag([1.0, 0.3, 0.02, 0.01, 0.01, 0.0])
    beta = np.ones(D)
    for seed in range(50):
        rng = np.random.default_rng(seed)
        state = stages(gram, beta, [0.01] * 5, rng, noise_scale=0.02)
        assert np.abs(state.coefficients()).max() < 5


def test_what_sampling_leaves_is_the_inverse_of_the_gram_matrix():
    gram, beta, rng = problem()
    state = stages(gram, beta, [0.1], rng)
    assert state.sampling(0.02) == pytest.approx(0.02 * np.linalg.inv(gram), rel=1e-6, abs=1e-9)


def test_a_matrix_of_zeros_gives_zeros():
    state = RidgeState.start(np.zeros((2, 2)), 0.0)
    state = state.updated(np.ones(2), noise_variance=1.0, sampling_variance=0.0)
    assert not state.coefficients().any()
    assert np.isfinite(state.noise()).all()
