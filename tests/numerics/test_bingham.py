import math

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import hyp1f1, iv

from eigenveil.numerics import SimulationSource
from eigenveil.papers.covrev import draw_bingham
from eigenveil.papers.covrev import exponential as bingham

NODES, WEIGHTS = np.polynomial.legendre.leggauss(150)


def sample(matrix, strength, count, seed):
    source = SimulationSource(seed)
    return np.array([draw_bingham(matrix, strength, source) for _ in range(count)])


def rotation(d):
    return np.linalg.qr(np.random.default_rng(d).standard_normal((d, d)))[0]


def rotated(values, basis):
    matrix = (basis * values) @ basis.T
    return (matrix + matrix.T) / 2


def spectrum(d):
    """A leading eigenvalue, a ramp, and a repeated one."""
    return np.concatenate([[2.0], np.linspace(1, 0, d - d // 4 - 1), np.zeros(d // 4)])


def exact_moments(gaps, strength):
    """Mean and variance of every u_i^2 and, last, of x = sum_i gap_i u_i^2.

    The normalising constant of exp(-sum_i a_i u_i^2), a = strength * gap, is up to a factor
    c(a) = 1/(2 pi i) times the integral of exp(t) prod (t + a_i)^(-1/2), an inverse Laplace
    transform; each derivative in a_i brings down 1/(2 (t + a_i)). The path leaves the saddle point
    in a straight line that leans to the left; by symmetry its upper half is enough.
    """
    decay = strength * gaps
    saddle = brentq(lambda t: np.sum(0.5 / (t + decay)) - 1, 0.25, decay.size)
    lean, length = 1j * np.exp(0.25j), 50 / math.sin(0.25)
    x = (NODES + 1) / 2
    t = saddle + lean * length * x**2
    shifted = t[:, None] + decay
    logs = t - saddle - 0.5 * np.sum(np.log(shifted / (saddle + decay)), axis=1)
    measure = np.exp(logs) * lean * x * WEIGHTS
    half = 0.5 / shifted

    def expect(values):
        return (measure @ values).imag / measure.sum().imag

    linear, pairs = half @ gaps, half**2 @ gaps**2
    mean = np.append(expect(half), expect(linear))
    square = np.append(expect(3 * half**2), expect(linear**2 + 2 * pairs))
    return mean, square - mean**2


def deviations(draws, gaps, strength):
    """Standard errors between the means of u_i^2 and x in the eigenbasis and the exact ones."""
    mean, variance = exact_moments(gaps, strength)
    squares = draws**2
    observed = np.append(squares.mean(axis=0), (squares @ gaps).mean())
    return (observed - mean) / np.sqrt(variance / len(draws))


@pytest.mark.parametrize("d", [2, 10, 50, 200])
@pytest.mark.parametrize("top", [1, 2])
@pytest.mark.parametrize("strength", [0.1, 1.0, 30.0, 250.0])
def test_the_exact_moments_agree_with_the_two_valued_case(d, top, strength):
    """With two eigenvalues the law is a tilted Beta law: Kummer functions."""
    top = min(top, d - 1)
    mean, variance = exact_moments((np.arange(d) >= top).astype(float), strength)
    a, b = top / 2, d / 2
    first = a / b * hyp1f1(a + 1, b + 1, strength) / hyp1f1(a, b, strength)
    second = a * (a + 1) / (b * (b + 1)) * hyp1f1(a + 2, b + 2, strength) / hyp1f1(a, b, strength)
    assert mean[:top].sum() == pytest.approx(first, rel=1e-10)
    assert mean[:-1].sum() == pytest.approx(1, rel=1e-10)
    assert mean[-1] == pytest.approx(1 - first, rel=1e-9)
    assert variance[-1] == pytest.approx(second - first**2, rel=1e-6)


def test_two_dimensions_on_a_known_answer():
    """False alarm 1e-8 at 6 standard errors; strengths 0 and 1/2 are 13 of them away."""
    by_bessel = (1 + iv(1, 0.25) / iv(0, 0.25)) / 2

    def density(angle):
        return math.exp((3 * math.cos(angle) ** 2 + math.sin(angle) ** 2) / 4)

    mass = quad(density, 0, math.pi)[0]
    by_integral = quad(lambda t: math.cos(t) ** 2 * density(t), 0, math.pi)[0] / mass
    assert by_integral == pytest.approx(by_bessel, rel=1e-9)
    assert by_bessel == pytest.approx(0.5620, abs=5e-5)

    squares = sample(np.diag([3.0, 1.0]), 0.25, 6000, 1)[:, 0] ** 2
    error = squares.std() / math.sqrt(squares.size)
    assert abs(squares.mean() - by_bessel) < 6 * error
    assert abs(squares.mean() - 0.5) > 6 * error  # strength 0
    assert abs(squares.mean() - (1 + iv(1, 0.5) / iv(0, 0.5)) / 2) > 6 * error  # twice the strength


SIZES = [(2, 5000, 1.2), (10, 2500, 1.2), (50, 800, 1.1), (200, 250, 1.1)]
STRENGTHS = [1 / 6, 2.0, 1e3]


@pytest.mark.parametrize(
    ("size", "strength"),
    [
        pytest.param(
            size,
            strength,
            marks=() if (i + j) % 3 == 1 and i < 3 else pytest.mark.audit,
            id=f"{i}-{j}",
        )
        for i, size in enumerate(SIZES)
        for j, strength in enumerate(STRENGTHS)
    ],
)
def test_second_moments(size, strength):
    """In every eigendirection, for a rotated matrix; a strength that is off is rejected.

    Means of 250 or more draws pass 6 standard errors with probability below 2e-7 even where
    u_i^2 is as skewed as chi-square: false alarm 2e-4 over all 798 of them. With a strength off by
    10 % (20 % for d = 2 and 10) x moves by 10 standard errors; weak laws are 8 from the uniform.
    """
    d, count, off = size
    values, basis = spectrum(d), rotation(d)
    draws = sample(rotated(values, basis), strength * d, count, d) @ basis
    gaps = values[0] - values
    assert np.max(np.abs(deviations(draws, gaps, strength * d))) < 6
    wrong = strength * off if strength > 1 else 0.0
    assert abs(deviations(draws, gaps, wrong * d)[-1]) > 6


def divided(x, d, b):
    return -x - d / 2 * np.log1p(2 * x / b)


def omitted(x, d, b):
    return -x


@pytest.mark.parametrize("fault", [divided, omitted])
def test_a_wrong_correction_of_the_envelope_is_rejected(fault, monkeypatch):
    """The check of the second moments sees the factor divided by or left out; false alarm 1e-7."""
    gaps = np.array([0.0, 0.5, 1.0, 1.0])
    assert np.max(np.abs(deviations(sample(np.diag(-gaps), 4.0, 2000, 2), gaps, 4.0))) < 6
    monkeypatch.setattr(bingham, "_log_acceptance", fault)
    assert abs(deviations(sample(np.diag(-gaps), 4.0, 2000, 2), gaps, 4.0)[-1]) > 6


@pytest.mark.parametrize(("d", "b"), [(1, 1.0), (2, 1.3), (200, 1.0), (200, 150.0)])
def test_the_acceptance_is_a_probability_with_maximum_one(d, b):
    peak = (d - b) / 2
    x = np.append(np.linspace(0, 4 * d, 1001), peak)
    log_acceptance = bingham._log_acceptance(x, d, b)
    log_bound = -peak + d / 2 * math.log(d / b)
    assert log_acceptance == pytest.approx(
        -x + d / 2 * np.log1p(2 * x / b) - log_bound, rel=1e-9, abs=1e-9
    )
    assert np.max(log_acceptance) == log_acceptance[-1] == 0


def test_the_law_turns_with_the_matrix():
    """15 entries of E[uu'] within 6 standard errors, false alarm 1e-7; the unturned law is far."""
    basis = rotation(5)
    values = np.array([2.0, 1.0, 1.0, 0.5, 0.0])
    draws = sample(rotated(values, basis), 4.0, 3000, 3)
    products = draws[:, :, None] * draws[:, None, :]
    error = products.std(axis=0) / math.sqrt(len(draws))
    law = np.diag(exact_moments(2 - values, 4.0)[0][:-1])
    assert np.all(np.abs(products.mean(axis=0) - basis @ law @ basis.T) < 6 * error)
    assert np.any(np.abs(products.mean(axis=0) - law) > 6 * error)


def test_unit_vectors_with_fair_signs():
    """False alarm 1e-6; 2000 signs tell 1/2 from 0.6."""
    draws = sample(rotated(spectrum(6), rotation(6)), 5.0, 2000, 4)
    assert np.linalg.norm(draws, axis=1) == pytest.approx(np.ones(2000), rel=1e-12)
    for positive in np.sum(draws > 0, axis=0).tolist():
        assert stats.binomtest(positive, 2000, 0.5).pvalue > 1e-6 / 6
        assert stats.binomtest(positive, 2000, 0.6).pvalue < 1e-6


def test_one_dimension_is_a_fair_sign():
    """False alarm 1e-6; 2000 signs tell 1/2 from 0.6."""
    draws = sample(np.array([[-3.0]]), 1e8, 2000, 5)[:, 0]
    assert set(draws.tolist()) == {-1.0, 1.0}
    positive = int(np.sum(draws > 0))
    assert stats.binomtest(positive, 2000, 0.5).pvalue > 1e-6
    assert stats.binomtest(positive, 2000, 0.6).pvalue < 1e-6


@pytest.mark.parametrize(
    ("matrix", "strength"), [(np.diag([2.0, 1.0, 0.0]), 0.0), (7.0 * np.eye(3), 1e8)]
)
def test_no_preference_is_uniform_on_the_sphere(matrix, strength):
    """A height on the sphere is uniform (Archimedes); false alarm 3e-6, and a tilt is seen."""
    uniform = stats.uniform(-1, 2).cdf
    for heights in sample(matrix, strength, 1000, 6).T:
        assert stats.kstest(heights, uniform).pvalue > 1e-6
    assert stats.kstest(sample(np.diag([2.0, 0.0, 0.0]), 1.0, 1000, 6)[:, 0], uniform).pvalue < 1e-6


def test_a_repeated_top_eigenvalue_gives_a_uniform_circle():
    """False alarm 1e-6; a strength of 1 within the plane is seen."""
    draws = sample(np.diag([1.0, 1.0, 0.0]), 1e8, 2000, 7)
    assert np.max(np.abs(draws[:, 2])) < 1e-3
    uniform = stats.uniform(-math.pi, 2 * math.pi).cdf
    assert stats.kstest(np.arctan2(draws[:, 1], draws[:, 0]), uniform).pvalue > 1e-6
    tilted = sample(np.diag([1.0, 1 - 1e-8, 0.0]), 1e8, 2000, 7)
    doubled = np.arctan2(2 * tilted[:, 0] * tilted[:, 1], tilted[:, 0] ** 2 - tilted[:, 1] ** 2)
    assert stats.kstest(doubled, uniform).pvalue < 1e-6


def test_a_huge_strength_returns_the_top_eigenvector():
    """Twice strength times the distance is chi-square; false alarm 1e-6, and 1.1 of it is seen."""
    distance = np.sum(sample(np.diag([1.0] + [0.0] * 19), 1e8, 1000, 8)[:, 1:] ** 2, axis=1)
    assert np.max(distance) < 1e-6
    assert stats.kstest(2e8 * distance, stats.chi2(19).cdf).pvalue > 1e-6
    assert stats.kstest(2.2e8 * distance, stats.chi2(19).cdf).pvalue < 1e-6
