import numpy as np
import pytest

from eigenveil.exceptions import InvalidParameterError
from eigenveil.planning import Situation, choose, predict, spiked
from eigenveil.privacy import Adjacency, Budget

BUDGET = Budget(epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ("flat", [1, 1, 1, 1]),
        ("decaying", [1, 1 / 2, 1 / 3, 1 / 4]),
        ("steep", [1, 1 / 4, 1 / 9, 1 / 16]),
        (spiked(2, 9.0), [10, 10, 1, 1]),
        (np.array([1.0, 4.0, 2.0, 0.0]), [4, 2, 1, 0]),
    ],
    ids=str,
)
def test_spectra_are_descending_shares(shape, wanted):
    values = Situation(task="covariance", n=10, d=4, budget=BUDGET, spectrum=shape).eigenvalues
    np.testing.assert_allclose(values, np.array(wanted) / sum(wanted))


@pytest.mark.parametrize("task", ["pca", "covariance"])
@pytest.mark.parametrize(
    "odd",
    [
        {"row_norm": 1e-40, "reach": 1e40, "bounded": True},  # whose ratio squared overflows
        {"row_norm": 1e40, "reach": 1e-40, "bounded": True},
        {"row_norm": 1.0, "spread": 1e9},
        {"bounded": True, "spread": 1e-9},
        {"row_norm": 1.0, "spectrum": [1e308, 1e308, 1e308]},
        {"row_norm": 1.0, "spectrum": [1e308, 1.0, 0.0]},
    ],
    ids=str,
)
def test_numbers_far_apart_stop_no_plan(task, odd):
    k, mechanism = (1, "analyze-gauss") if task == "pca" else (None, "gauss")
    situation = Situation(task=task, n=40, d=3, k=k, budget=BUDGET, **odd)
    choose(situation)
    error = predict(situation, mechanism).error
    assert error is not None
    assert np.isfinite(error)


def test_a_situation_can_be_remembered_whatever_its_spectrum():
    one, other = (
        Situation(task="pca", n=10, d=2, k=1, budget=BUDGET, spectrum=np.array([2.0, 1.0]))
        for _ in range(2)
    )
    assert one == other
    assert hash(one) == hash(other)
    assert Situation(task="pca", n=10, d=3, budget=BUDGET, adjacency="add_remove").adjacency is (
        Adjacency.ADD_REMOVE
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"task": "means"},
        {"n": 0},
        {"n": 2**38 + 1},
        {"d": 2.5},
        {"k": 5},
        {"k": True},
        {"task": "covariance", "k": 1},
        {"budget": 1.0},
        {"row_norm": -1.0},
        {"spread": float("inf")},
        {"spread": 1e200},
        {"spread": 1e-200},
        {"spectrum": "round"},
        {"spectrum": [1.0, 2.0]},
        {"spectrum": [1.0, 1.0, 1.0, -1.0]},
        {"spectrum": [0.0, 0.0, 0.0, 0.0]},
        {"spectrum": spiked(5, 1.0)},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(InvalidParameterError):
        Situation(**{"task": "pca", "n": 100, "d": 4, "budget": BUDGET} | wrong)


def test_spikes_are_positive():
    with pytest.raises(InvalidParameterError):
        spiked(0, 1.0)
    with pytest.raises(InvalidParameterError):
        spiked(1, -1.0)
