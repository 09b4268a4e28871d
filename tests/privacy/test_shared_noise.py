"""Shares of one noise: the bound against exact convolutions, and what it costs."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr

from eigenveil.exceptions import InvalidBudgetError, InvalidParameterError
from eigenveil.privacy import SharedNoise, gaussian_delta


def _noise(t: int, scale: float, change: float) -> SharedNoise:
    """Shares on a grid of 1: coarse, where the term for rounding is most of it."""
    return SharedNoise(
        sensitivity=change, columns=1, symmetric=False, honest=t, scale=scale, grid=0
    )


def _law(queries: list[float], scale: float) -> np.ndarray:
    """The exact law of the sum of rounded Gaussians on -300, ..., 300."""
    units = np.arange(-300, 301)
    law = np.zeros(601)
    law[300] = 1.0
    for query in queries:
        each = ndtr((units + 0.5 - query) / scale) - ndtr((units - 0.5 - query) / scale)
        law = np.convolve(law, each)[300:901]
    return law


def _ratio(t: int, scale: float, change: float, offset: float, *, drop: bool = False) -> float:
    """The largest exact delta over what the bound allows, over a range of epsilons."""
    others = [0.3 * u for u in range(t - 1)]
    first, second = _law([offset, *others], scale), _law([offset + change, *others], scale)
    mu = change / (scale * math.sqrt(t)) if drop else _noise(t, scale, change).mu()
    worst = 0.0
    for epsilon in np.array([0.05, 0.5, 1.0, 1.5, 2.0]) * mu:
        exact = max(
            np.maximum(a - math.exp(epsilon) * b, 0.0).sum()
            for a, b in ((first, second), (second, first))
        )
        worst = max(worst, exact / gaussian_delta(mu, epsilon))
    return worst


CASES = [
    (t, scale, change, offset)
    for t in (1, 2, 3, 7)
    for scale in (0.25, 0.5, 2.0)
    for change in (0.5, 1.0, 1.5, 3.5)
    for offset in (0.0, 0.25, 0.5)
]


def test_the_sum_is_as_private_as_the_bound_says():
    worst = max(_ratio(*case) for case in CASES)
    assert 0.9 < worst < 1 + 1e-6  # true, and nearly attained


def test_without_the_term_for_rounding_the_claim_is_false():
    assert max(_ratio(*case, drop=True) for case in CASES) > 2


@pytest.mark.parametrize("t", [2, 3, 8, 9])
def test_a_change_can_be_split_for_the_stated_price(t):
    # Whole numbers elsewhere, the remainder at the own: sum of squares <= x^2/t + t/4.
    for x in np.linspace(0, 3 * t, 997):
        whole = math.floor(x / t)
        up = np.arange(t)  # of the t - 1 others
        rest = x - (t - 1) * whole - up
        squares = up * (whole + 1) ** 2 + (t - 1 - up) * whole**2 + rest**2
        assert squares.min() <= x * x / t + t / 4 + 1e-9


def test_calibrated_shares_promise_what_was_asked_for():
    for mu, d, t in ((0.1, 1000, 70), (0.02, 1000, 70), (1.0, 1, 1), (3.0, 30, 7)):
        for symmetric in (False, True):
            noise = SharedNoise.calibrated(
                mu, sensitivity=math.sqrt(2), columns=d, symmetric=symmetric, honest=t
            )
            assert noise.mu() <= mu
            ideal = math.sqrt(2) / (mu * math.sqrt(t))
            assert 1 <= noise.scale / ideal < 1 + 2e-4
            smallest = noise.scale / math.sqrt(2) if symmetric else noise.scale
            assert 2.0**23 <= smallest / 2.0**noise.grid <= 2.0**24


@pytest.mark.parametrize(("mu", "excess"), [(0.1, 2e-5), (0.02, 4e-4)])
def test_the_excess_of_rounding_at_small_mu(mu, excess):
    noise = SharedNoise.calibrated(
        mu, sensitivity=math.sqrt(2), columns=1000, symmetric=True, honest=70
    )
    without = Fraction(2) / (70 * Fraction(noise.scale) ** 2)
    assert 1 < Fraction(noise.mu()) ** 2 / without < 1 + excess


def test_with_fewer_honest_owners_the_promise_weakens_as_stated():
    noise = SharedNoise.calibrated(0.1, sensitivity=2.0, columns=50, symmetric=False, honest=7)
    for h in range(1, 8):
        assert noise.mu(h) == pytest.approx(0.1 * math.sqrt(7 / h), rel=1e-6)
    assert noise.mu(20) == noise.mu()  # of more, any seven
    assert noise.deviation(10) == pytest.approx(2.0 / 0.1 * math.sqrt(10 / 7), rel=1e-6)


def test_a_budget_that_rounding_would_exceed_is_refused():
    with pytest.raises(InvalidBudgetError, match="too small"):
        SharedNoise.calibrated(1e-9, sensitivity=1.0, columns=1000, symmetric=True, honest=70)


@pytest.mark.parametrize(
    "wrong", [{"honest": 0}, {"columns": 0}, {"scale": 0.0}, {"scale": math.inf}, {"honest": 1.5}]
)
def test_impossible_shares_are_refused(wrong):
    values = {"sensitivity": 1.0, "columns": 1, "symmetric": False, "honest": 1, "scale": 1.0}
    with pytest.raises(InvalidParameterError):
        SharedNoise(**{**values, "grid": 0, **wrong})


def test_nobody_is_promised_anything_without_an_honest_owner():
    with pytest.raises(InvalidParameterError):
        _noise(3, 1.0, 1.0).mu(0)
