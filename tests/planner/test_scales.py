"""What a plan says about private scales, beside what fits find."""

import warnings

import numpy as np
import pytest

from eigenveil import PrivatePCA
from eigenveil.exceptions import ColumnsLeftOutWarning, TooFewRowsError
from eigenveil.planner import Situation
from eigenveil.planner.scales import expected_scales
from eigenveil.privacy.budget import Budget


def situation(n, d, epsilon=1.0, **others):
    budget = Budget(epsilon=epsilon, delta=1e-6)
    return Situation(task="pca", n=n, d=d, k=1, budget=budget, **others)


@pytest.mark.parametrize(("n", "d"), [(1200, 10), (2000, 10), (3000, 30)])
@pytest.mark.filterwarnings("ignore::eigenveil.exceptions.WholeTurnsWarning")
def test_scales_that_are_expected_are_found(n, d):
    """All scales in nine of ten releases: 4 of 10 or more without have a probability of 1.3 %. At
    least nine of ten lie within a factor of 2.
    """
    assert expected_scales(situation(n, d)) == d
    found = []
    for seed in range(10):
        rng = np.random.default_rng([seed, n])
        units = 10.0 ** rng.uniform(-3, 5, d)
        rows = units * (rng.standard_normal((n, d)) + 50)
        budget = {"epsilon": 1.0, "delta": 1e-6, "random_state": seed}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColumnsLeftOutWarning)
            found.append(PrivatePCA(1, **budget, scale="private").fit(rows).scale_ / units)
    found = np.array(found)
    assert np.isinf(found).any(axis=1).sum() < 4
    assert (np.abs(np.log2(found)) < 1).mean() > 0.9


def test_where_none_are_expected_a_fit_is_refused():
    assert expected_scales(situation(500, 10)) == 0
    rows = np.random.default_rng(0).standard_normal((500, 10))
    refused = "too few rows for private scales of 10 columns at this budget: state scale or bounds"
    named = {"mechanism": "tangent", "scale": "private"}
    with pytest.raises(TooFewRowsError, match=refused):
        PrivatePCA(1, epsilon=1.0, delta=1e-6, **named).fit(rows)
    assert expected_scales(situation(500, 10, adjacency="add-remove")) == 0


def test_columns_whose_scale_is_known_are_not_searched_for():
    assert expected_scales(situation(950, 30)) == 0
    assert expected_scales(situation(950, 30, known_scales=20)) == 10
    assert expected_scales(situation(950, 30, known_scales=30)) == 0


def test_many_columns_are_simulated_by_few():
    assert expected_scales(situation(10**6, 100_000, epsilon=4.0)) == 100_000
