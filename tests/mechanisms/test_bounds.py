"""Ranges and lengths that are none."""

import numpy as np
import pytest

from eigenveil import PrivateCovariance, PrivatePCA
from eigenveil.exceptions import EigenveilError, InvalidBudgetError, InvalidParameterError
from eigenveil.planning import Situation, box_of, by_column
from eigenveil.privacy import Budget

ROWS = np.random.default_rng(0).standard_normal((40, 3))
HUGE = 10**400  # larger than any float
RAGGED = [[[1], [2, 3]], 1]


@pytest.mark.parametrize("bounds", [RAGGED, tuple(RAGGED), (0, HUGE), ([0, HUGE, 1], 1), [], 3.0])
def test_odd_bounds_are_refused_in_words(bounds):
    with pytest.raises(InvalidParameterError, match="bounds"):
        box_of(bounds, 3)
    with pytest.raises(InvalidParameterError, match="bounds"):
        PrivatePCA(1, rho=1.0, bounds=bounds).fit(ROWS)


def test_what_is_no_range_is_none_by_column():
    assert not by_column(RAGGED)
    assert by_column(([0, 0], 1))


@pytest.mark.parametrize("argument", ["row_norm", "scale"])
def test_numbers_beyond_floats_are_refused(argument):
    options = {"row_norm": 1.0, argument: HUGE}
    with pytest.raises(EigenveilError):
        PrivateCovariance(rho=1.0, **options).fit(ROWS)


def test_budgets_and_situations_beyond_floats_are_refused():
    for budget in ({"rho": HUGE}, {"epsilon": HUGE}, {"epsilon": 1, "delta": HUGE}):
        with pytest.raises(InvalidBudgetError):
            Budget(**budget)
    usual = {"task": "pca", "n": 100, "d": 3, "k": 1, "budget": Budget(rho=1.0)}
    for odd in ({"row_norm": HUGE}, {"spread": HUGE}, {"d": HUGE}, {"d": 2**27 + 1}):
        with pytest.raises(InvalidParameterError):
            Situation(**{**usual, **odd})
