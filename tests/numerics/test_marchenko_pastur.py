"""Quantiles of the law of Marchenko and Pastur, against integrals and simulated noise."""

import numpy as np
import pytest
from scipy.integrate import quad

from eigenveil.numerics import highest, upper_quantiles


def density(x, aspect):
    low, high = (1 - np.sqrt(aspect)) ** 2, (1 + np.sqrt(aspect)) ** 2
    return np.sqrt(max(0.0, (x - low) * (high - x))) / (2 * np.pi * x * min(1, aspect))


@pytest.mark.parametrize("aspect", [0.01, 0.3, 0.95, 1.0, 1.2, 8.0])
def test_quantiles_are_those_of_the_density(aspect):
    levels = np.array([0.05, 0.3, 0.5, 0.8])
    top = (1 + np.sqrt(aspect)) ** 2
    for level, point in zip(levels, upper_quantiles(levels, aspect), strict=True):
        mass, _ = quad(density, point, top, args=(aspect,))
        assert mass == pytest.approx(level, abs=1e-7)


@pytest.mark.parametrize("aspect", [1e-8, 1e-3, 1.0, 1e3])
def test_the_ends(aspect):
    ends = upper_quantiles(np.array([0.0, 1.0]), aspect)
    edges = np.array([(1 + np.sqrt(aspect)) ** 2, (1 - np.sqrt(aspect)) ** 2])
    assert ends == pytest.approx(edges, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize(("n", "d"), [(1000, 200), (300, 300), (200, 600)])
def test_simulated_noise_lies_on_the_quantiles(n, d):
    """Single eigenvalues scatter by less than their spacing; the means by far less."""
    rows = np.random.default_rng(0).standard_normal((n, d))
    m = min(n, d)
    values = np.linalg.eigvalsh(rows.T @ rows / n)[::-1][:m]
    expected = upper_quantiles((np.arange(m) + 0.5) / m, d / n)
    assert np.abs(values - expected).mean() < 0.03 * expected.mean()
    assert np.abs(values - expected).max() < 0.12 * expected.max()
    wrong = upper_quantiles((np.arange(m) + 0.5) / m, 1.3 * d / n)
    assert np.abs(values - wrong).mean() > 0.05 * expected.mean()


@pytest.mark.parametrize(("n", "d"), [(100, 5), (400, 40), (50, 100)])
def test_the_largest_rarely_exceeds_its_limit(n, d):
    """1 % for large tables, less for small ones: more than 12 of 400 has probability 1e-3."""
    rng = np.random.default_rng(1)
    tables = (rng.standard_normal((n, d)) for _ in range(400))
    largest = np.array([np.linalg.norm(rows, 2) ** 2 / n for rows in tables])
    assert (largest > highest(d, n)).sum() <= 12
    assert (largest > (1 + np.sqrt(d / n)) ** 2).sum() > 12
