import numpy as np
import pytest

from eigenveil.datasets import zipf_norms
from eigenveil.exceptions import InvalidParameterError


def test_unit_norms_in_one_bin():
    rows = zipf_norms(500, 7, seed=0)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(np.ones(500))
    assert np.trace(rows.T @ rows) / 500 == pytest.approx(1.0)


def test_bins_have_zipf_shares_and_halving_norms():
    norms = np.linalg.norm(zipf_norms(10_000, 5, 4, seed=1), axis=1)
    shares = 1 / np.arange(1, 5) ** 3
    for k, share in enumerate(shares / shares.sum(), start=1):
        found = np.mean(np.isclose(norms, 2.0 ** (k - 4)))
        assert found == pytest.approx(share, abs=2e-4)


def test_seeded_and_checked():
    assert np.array_equal(zipf_norms(9, 3, 2, seed=5), zipf_norms(9, 3, 2, seed=5))
    assert not np.array_equal(zipf_norms(9, 3, 2, seed=5), zipf_norms(9, 3, 2, seed=6))
    assert zipf_norms(1, 1, 16, seed=0).shape == (1, 1)
    for sizes in ((0, 3, 1), (3, 0, 1), (3, 3, 0)):
        with pytest.raises(InvalidParameterError):
            zipf_norms(*sizes, seed=0)
