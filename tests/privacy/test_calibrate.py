from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.dp_event import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from hypothesis import example, given
from hypothesis import strategies as st

from eigenveil.exceptions import InvalidBudgetError, UnsupportedNotionError
from eigenveil.privacy import (
    ZCDP,
    Approx,
    Budget,
    Composed,
    Gaussian,
    Pure,
    fits,
    noise_scale,
    strength,
)
from tests.privacy.test_accounting import exact_gaussian_delta

EPSILONS = np.geomspace(0.01, 20, 25)
DELTAS = np.geomspace(1e-12, 0.1, 24)


@pytest.mark.parametrize("epsilon", EPSILONS.tolist())
def test_noise_is_private_and_within_1e_9_of_the_optimum(epsilon):
    """600 cells: the exact delta never exceeds the target, a billionth less noise exceeds it."""
    for delta in DELTAS.tolist():
        mu = strength(Budget(epsilon=epsilon, delta=delta), Gaussian, "gauss")
        sigma = noise_scale(1.0, mu)
        with mp.workdps(60):
            assert exact_gaussian_delta(1 / mp.mpf(sigma), epsilon) <= mp.mpf(delta)
            assert exact_gaussian_delta(1 / (mp.mpf(sigma) * (1 - mp.mpf("1e-9"))), epsilon) > delta


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (8.0, 1e-5)])
def test_second_opinion(epsilon, delta):
    sigma = 1 / strength(Budget(epsilon=epsilon, delta=delta), Gaussian, "gauss")
    accountant = PLDAccountant().compose(GaussianDpEvent(sigma))
    assert accountant.get_epsilon(delta) == pytest.approx(epsilon, rel=1e-3)


@given(rho=st.floats(1e-6, 100))
def test_rho_gives_sqrt_two_rho_rounded_down(rho):
    budget = Budget(rho=rho)
    mu = strength(budget, Gaussian, "gauss")
    assert fits(Gaussian(mu), budget)
    assert mu == pytest.approx((2 * rho) ** 0.5, rel=1e-14)


BUDGETS = [Budget(epsilon=1.0, delta=1e-6), Budget(epsilon=0.03), Budget(rho=0.1)]
COSTS = {
    "one": lambda s: Gaussian(s),
    "stages": lambda s: Composed((Gaussian(0.3 * s), Gaussian(0.1 * s), Gaussian(0.9 * s))),
    "pure": lambda s: Pure(s),
    "pure stages": lambda s: Composed((Pure(0.3 * s), Pure(0.7 * s))),
    "beside what was spent": lambda s: Composed((Gaussian(0.2), Gaussian(s))),
    "beside a pure step": lambda s: Composed((Pure(0.01), Pure(s))),
    "of two kinds": lambda s: Composed((Pure(0.2 * s), Gaussian(s))),
    "pure and not proportional": lambda s: Pure(s**3 / (1 + s)),
    "concentrated": lambda s: ZCDP(s * s / 2),
    "approximate": lambda s: Composed((Approx(s, 1e-7), Gaussian(s / 2))),
}


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("budget", BUDGETS, ids=["delta", "pure", "rho"])
def test_no_cost_exceeds_the_budget_and_a_little_more_would(budget, cost):
    pure = budget.is_pure and "pure" not in cost
    if pure or (budget.rho is not None and cost == "approximate"):
        with pytest.raises(UnsupportedNotionError):
            strength(budget, COSTS[cost], "x")
        return
    found = strength(budget, COSTS[cost], "x")
    assert fits(COSTS[cost](found), budget)
    assert not fits(COSTS[cost](found * (1 + 1e-10)), budget)


def test_stages_are_calibrated_by_few_costs():
    asked = []
    strength(BUDGETS[0], lambda s: asked.append(s) or COSTS["stages"](s), "x")
    assert len(asked) <= 5
    asked.clear()
    strength(BUDGETS[0], lambda s: asked.append(s) or COSTS["of two kinds"](s), "x")
    assert len(asked) <= 25


@given(sensitivity=st.floats(1e-9, 1e9), mu=st.floats(1e-6, 1e3))
@example(sensitivity=2.0**0.5, mu=0.236704)
def test_sigma_rounds_up(sensitivity, mu):
    sigma = noise_scale(sensitivity, mu)
    assert Fraction(sigma) * Fraction(mu) >= Fraction(sensitivity)
    assert sigma <= sensitivity / mu * (1 + 1e-15)


@pytest.mark.parametrize("one", [1, np.float32(1), np.int64(1), np.float64(1)])
def test_any_real_number_is_a_budget(one):
    assert Budget(epsilon=one, delta=1e-6) == Budget(epsilon=1.0, delta=1e-6)


def test_a_pure_budget_is_refused_with_advice():
    with pytest.raises(UnsupportedNotionError, match="give delta"):
        strength(Budget(epsilon=1.0), Gaussian, "gauss")


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"delta": 1e-6},
        {"epsilon": 0.0, "delta": 1e-6},
        {"epsilon": -1.0, "delta": 1e-6},
        {"epsilon": float("nan"), "delta": 1e-6},
        {"epsilon": float("inf")},
        {"epsilon": 1.0, "delta": 0.0},
        {"epsilon": 1.0, "delta": 1.0},
        {"epsilon": 1.0, "delta": -0.1},
        {"epsilon": 1.0, "rho": 0.1},
        {"rho": 0.1, "delta": 1e-6},
        {"rho": 0.0},
        {"rho": -1.0},
        {"epsilon": "1", "delta": 1e-6},
        {"epsilon": True},
    ],
)
def test_impossible_budgets_are_refused(arguments):
    with pytest.raises(InvalidBudgetError):
        Budget(**arguments)
