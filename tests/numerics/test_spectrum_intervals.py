"""Intervals of noisy eigenvalues: they cover where a bootstrap of one spectrum does not."""

import numpy as np
from scipy.stats import binom

from eigenveil.numerics.cleaning import clean_eigenvalues
from eigenveil.numerics.spectrum_intervals import SimulatedSpectra
from eigenveil.numerics.symmetric import GaussianLaw

ROWS, NOISE, TAILS = 2000, 0.25, (0.05, 0.95)
SPECTRUM = np.array([0.5, 1.0, 2.0, 4.0, 8.0])


def draws(rng, count, d):
    """Wishart matrices of mean 1, about, and isotropic noise."""
    rows = rng.standard_normal((count, d, d)) / np.sqrt(ROWS)  # of W, to first order
    noise = rng.standard_normal((count, d, d)) * NOISE
    return np.eye(d) + (rows + rows.swapaxes(1, 2)), (noise + noise.swapaxes(1, 2)) / 2


def released(spectrum, wishart, noise):
    root = np.sqrt(spectrum)
    return np.linalg.eigvalsh(wishart * np.outer(root, root) + noise)


def found(observed, rng, count=40):
    """Return the ends, and those of a bootstrap of the cleaned spectrum."""
    d = observed.size
    described = clean_eigenvalues(observed, GaussianLaw(d, NOISE))
    wishart, noise = draws(rng, count, d)
    spectra = SimulatedSpectra(observed, described)
    values = released(described, wishart, noise)
    for each in zip(values, wishart, noise, strict=True):
        spectra.add(*each)
    off = np.quantile(values - described, TAILS[::-1], axis=0, method="weibull")
    return spectra.ends(TAILS), observed[:, None] - off.T


def test_ends_cover_an_eigenvalue_that_noise_pushes_about():
    """A two-sided binomial test at 1e-4 of the second smallest eigenvalue, one trial a table.

    Intervals that are a fifth too narrow, and a bootstrap of one spectrum, are rejected.
    """
    rng, tables, hits = np.random.default_rng(0), 450, np.zeros(3)
    for observed in released(SPECTRUM, *draws(rng, tables, SPECTRUM.size)):
        ends, plain = (each[1] for each in found(observed, rng))
        for i, (pair, factor) in enumerate(((ends, 1.0), (ends, 0.8), (plain, 1.0))):
            hits[i] += abs(SPECTRUM[1] - pair.mean()) <= factor * (pair[1] - pair[0]) / 2
    low, high = binom.ppf([5e-5, 1 - 5e-5], tables, 0.9)
    assert low <= hits[0] <= high
    assert hits[1] < low
    assert hits[2] < low


def test_windows_leave_the_ends_where_the_whole_matrix_has_them(monkeypatch):
    spectrum = np.geomspace(0.5, 20.0, 12)
    rng = np.random.default_rng(1)
    observed = released(spectrum, *(each[0] for each in draws(rng, 1, 12)))
    ends = [found(observed, np.random.default_rng(2), 200)[0]]
    monkeypatch.setattr("eigenveil.numerics.spectrum_intervals._WINDOW", 12)
    ends.append(found(observed, np.random.default_rng(2), 200)[0])
    width = ends[1][:, 1] - ends[1][:, 0]
    assert (np.abs(ends[0] - ends[1]) < 0.15 * width[:, None]).all()


def test_an_eigenvalue_alone_and_one_drowned_in_noise_have_ends():
    rng = np.random.default_rng(3)
    for observed in (np.array([1.0]), np.array([-0.3, 0.1, 0.2])):
        ends, _ = found(observed, rng)
        assert ends.shape == (observed.size, 2)
        assert (ends[:, 0] >= 0).all()
        assert (ends[:, 0] <= ends[:, 1]).all()
