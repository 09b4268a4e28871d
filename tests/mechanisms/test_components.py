"""How far released directions can be relied on."""

import numpy as np
import pytest

from eigenveil.exact import GaussianLaw
from eigenveil.mechanisms import NoisyMatrix, leading

SPECTRUM = np.array([0.30, 0.25, 0.21, 0.17, 0.05, 0.02])  # of six columns of one table


def releases(scale, k, repeats=300):
    """What is said of the last component, and what is left of it in the table's own k."""
    d = SPECTRUM.size
    law = GaussianLaw(d, scale)
    said, left = [], []
    for seed in range(repeats):
        entries = np.random.default_rng(seed).standard_normal((d, d)) * scale / np.sqrt(2)
        noise = (entries + entries.T) / np.sqrt(2)
        found = leading(NoisyMatrix(np.diag(SPECTRUM) + noise, scale, law), k)
        assert found.components.shape == (k, d)
        said.append(found.reliability[-1])
        left.append(float(np.sum(found.components[-1, :k] ** 2)))
    return np.array(said), np.array(left)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_directions_among_others_of_their_size(k):
    """Others are no bulk of noise here: what stands apart from them is relied on, with a bound.

    Means of 300 releases: the bound holds by far more than their standard error.
    """
    said, left = releases(1e-3, k)
    assert said.min() > 0.95
    assert said.mean() <= left.mean() + 1e-4


@pytest.mark.parametrize("k", [1, 2, 3])
def test_directions_that_noise_mixes_with_others_are_not_relied_on(k):
    said, left = releases(0.05, k)  # an edge of 0.17 beside gaps of 0.05
    assert said.mean() < 0.1 < left.mean()


def test_all_directions_are_told_from_each_other():
    said, _ = releases(1e-3, 6)
    assert said.min() > 0.9
    assert releases(0.05, 6)[0].mean() < 0.1


@pytest.mark.parametrize(
    ("d", "k"),
    [(2, 1), (3, 2), (5, 1), (5, 4), (10, 1), (10, 5), (10, 9), (30, 15), (30, 24), (6, 6)],
)
def test_directions_of_equal_variance_are_not_relied_on(d, k):
    """However many are released: noise alone about a common level claims 1 % of the time.

    Five or more of 100 at that rate: 3.4e-3 by the binomial law, for the seeds that are fixed.
    """
    law = GaussianLaw(d, 1.0)
    claimed = 0
    for seed in range(100):
        entries = np.random.default_rng(seed).standard_normal((d, d)) / np.sqrt(2)
        noise = (entries + entries.T) / np.sqrt(2)
        found = leading(NoisyMatrix(100 * np.eye(d) + noise, 1.0, law), k)
        claimed += (found.reliability > 0).any()
    assert claimed < 5
