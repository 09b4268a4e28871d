"""Algorithm 1 of [Fed], both rounds, and Fed-DP-Oja for several components."""

import numpy as np
import pytest

from eigenveil.exceptions import EigenveilError
from eigenveil.numerics import subspace_distance
from eigenveil.papers import UNIT_ROWS
from eigenveil.papers.fed import Client, algorithm_1, fed_dp_oja
from eigenveil.papers.spiked import SpikedModel, draw_rows

LAW = SpikedModel(
    rank=2, smallest_spike=20.0, largest_spike=20.0, noise_variance=1.0, form="federated"
)


def clients(sizes, d=10, epsilon=1.0):
    rows, truth = draw_rows(sum(sizes), d, 2, 20.0, np.random.default_rng(1))
    parts = np.split(rows, np.cumsum(sizes)[:-1])
    return [Client(part, epsilon, 0.1, LAW) for part in parts], truth


def test_both_rounds_give_a_basis_and_a_covariance():
    found, truth = clients([20_000, 5_000])
    result = algorithm_1(found, 3)
    assert subspace_distance(result.basis.T, truth) < 0.05
    assert result.eigenvalues == pytest.approx([20.0, 20.0], rel=0.1)
    covariance = 20 * truth.T @ truth + np.eye(10)
    error = np.linalg.norm(result.dense() - covariance) / np.linalg.norm(covariance)
    assert error < 0.1


def test_weights_follow_what_owners_declare():
    """A client of few rows and little budget spoils an unweighted aggregate, not a weighted one."""
    found, truth = clients([20_000, 300])
    found[1] = Client(found[1].rows, 0.1, 0.1, LAW)
    errors = {
        weighted: np.mean(
            [
                subspace_distance(algorithm_1(found, seed, weighted=weighted).basis.T, truth)
                for seed in range(0, 100, 20)
            ]
        )
        for weighted in ("printed", "equal")
    }
    assert errors["printed"] < 0.5 * errors["equal"]


def test_fed_dp_oja_has_several_components():
    (one,), _ = clients([2_000])
    basis = fed_dp_oja(one, 0, UNIT_ROWS)
    assert basis.shape == (10, 2)
    assert basis.T @ basis == pytest.approx(np.eye(2), abs=1e-9)
    (few,), _ = clients([60])
    with pytest.raises(EigenveilError):
        fed_dp_oja(few, 0, UNIT_ROWS)
