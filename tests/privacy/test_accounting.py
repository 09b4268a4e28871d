"""Composition and conversion, against 60-digit arithmetic and a second accountant."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eigenveil.exceptions import InvalidParameterError, UnsupportedNotionError
from eigenveil.privacy import (
    CURVE_ERROR,
    ZCDP,
    Approx,
    Budget,
    Composed,
    Gaussian,
    Pure,
    compose,
    covers,
    delta_of,
    epsilon_of,
    fits,
    gaussian_delta,
    native,
    rho_of,
    split,
)


@mp.workdps(60)
def exact_gaussian_delta(mu, epsilon):
    mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
    high, low = epsilon / mu + mu / 2, epsilon / mu - mu / 2
    return mp.ncdf(-low) - mp.exp(epsilon) * mp.ncdf(-high)


@mp.workdps(60)
def exact_mixed_delta(mu, pure, epsilon):
    """Every sign pattern of the randomised responses, one by one."""
    total = mp.mpf(0)
    for signs in np.ndindex(*(2,) * len(pure)):
        probability, loss = mp.mpf(1), mp.mpf(0)
        for sign, eps0 in zip(signs, pure, strict=True):
            likely = mp.exp(eps0) / (1 + mp.exp(eps0))
            probability *= likely if sign else 1 - likely
            loss += eps0 if sign else -eps0
        total += probability * exact_gaussian_delta(mu, epsilon - loss)
    return total


@pytest.mark.parametrize("mu", [1e-6, 1e-3, 0.1, 0.49999, 0.5, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("ratio", [-2.0, 0.0, 0.3, 1.0, 5.0, 9.0])
def test_gaussian_curve_is_accurate_to_the_declared_error(mu, ratio):
    epsilon = ratio * mu
    exact = exact_gaussian_delta(mu, epsilon)
    assert abs(gaussian_delta(mu, epsilon) / exact - 1) < CURVE_ERROR / 5
    assert delta_of(Gaussian(mu), max(epsilon, 0.0)) >= exact_gaussian_delta(mu, max(epsilon, 0))


@given(st.lists(st.floats(1e-3, 5), min_size=1, max_size=6))
@example([1.1, 3.129006221757147, 0.109375, 0.1199568347155402])
@mp.workdps(60)
def test_gaussian_steps_compose_in_mu_and_round_up(steps):
    total = compose(*map(Gaussian, steps))
    exact = mp.sqrt(sum(mp.mpf(mu) ** 2 for mu in steps))
    assert isinstance(total, Gaussian)
    assert exact <= total.mu <= exact * (1 + mp.mpf("1e-15"))


@pytest.mark.parametrize("pure", [(0.3,), (0.3, 0.3), (0.1, 0.7, 0.2), (0.5,) * 5])
@pytest.mark.parametrize("mu", [0.2, 1.3])
@pytest.mark.parametrize("epsilon", [0.05, 0.8, 2.5])
def test_gaussian_with_pure_parts_is_exact(mu, pure, epsilon):
    cost = compose(Gaussian(mu), *map(Pure, pure))
    exact = exact_mixed_delta(mu, pure, epsilon)
    assert exact <= delta_of(cost, epsilon) <= exact * (1 + 3 * CURVE_ERROR)


@pytest.mark.parametrize(("mu", "pure"), [(0.5, (0.3,)), (1.0, (0.2, 0.4))])
def test_second_opinion_on_gaussian_with_pure_parts(mu, pure):
    other = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-4)
    for eps0 in pure:
        step = pld.from_privacy_parameters(
            common.DifferentialPrivacyParameters(eps0, 0), value_discretization_interval=1e-4
        )
        other = other.compose(step)
    cost = compose(Gaussian(mu), *map(Pure, pure))
    for epsilon in (0.5, 1.0, 2.0):
        ours, theirs = delta_of(cost, epsilon), other.get_delta_for_epsilon(epsilon)
        assert ours <= theirs * (1 + 1e-9)  # theirs is pessimistic by its grid
        assert ours == pytest.approx(theirs, rel=2e-3)


def test_many_distinct_pure_parts_are_bounded_from_above():
    """15 distinct epsilons have 2^15 sums: rounded up to a grid, never below the exact sum."""
    pure = [0.05 + 0.013 * i for i in range(15)]
    losses, chances = np.zeros(1), np.ones(1)
    for eps0 in pure:
        likely = 1 / (1 + math.exp(-eps0))
        losses = np.concatenate([losses + eps0, losses - eps0])
        chances = np.concatenate([chances * likely, chances * (1 - likely)])
    law = list(zip(losses.tolist(), chances.tolist(), strict=True))
    for epsilon in (0.5, 2.0):
        exact = math.fsum(p * gaussian_delta(0.3, epsilon - loss) for loss, p in law)
        bound = delta_of(compose(Gaussian(0.3), *map(Pure, pure)), epsilon)
        assert exact < bound < exact * 1.01


def test_pure_parts_alone():
    assert delta_of(Pure(0.5), 0.5) == 0
    assert epsilon_of(compose(Pure(0.25), Pure(0.5)), 0.0) == 0.75
    # One randomised response of eps0 at epsilon < eps0: p - e^epsilon (1 - p).
    p = math.exp(0.5) / (1 + math.exp(0.5))
    assert delta_of(Pure(0.5), 0.2) == pytest.approx(p - math.exp(0.2) * (1 - p), rel=1e-9)
    assert epsilon_of(Gaussian(1.0), 0.0) == math.inf


def test_approximate_parts_add_their_delta():
    alone = delta_of(compose(Gaussian(0.4), Pure(0.1)), 1.0)
    assert delta_of(compose(Gaussian(0.4), Approx(0.1, 1e-7)), 1.0) == pytest.approx(alone + 1e-7)
    assert epsilon_of(Approx(1.0, 1e-6), 1e-6) == 1.0
    assert epsilon_of(Approx(1.0, 1e-6), 1e-7) == math.inf


@pytest.mark.parametrize("rho", [1e-12, 1e-3, 0.1, 2.0])
@mp.workdps(60)
def test_zcdp_conversion_against_a_search_in_sixty_digits(rho):
    epsilon = rho + 5 * math.sqrt(rho)

    def delta(alpha):
        excess = alpha - 1
        exponent = excess * (alpha * mp.mpf(rho) - mp.mpf(epsilon))
        return mp.exp(exponent) / excess * (1 - 1 / alpha) ** alpha

    # The stationary point near (epsilon - rho) / (2 rho), refined by golden-section search.
    low, high = mp.mpf(1), 1 + 4 * mp.mpf(epsilon) / rho
    ratio = (mp.sqrt(5) - 1) / 2
    for _ in range(250):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, b) if delta(a) < delta(b) else (a, high)
    best = delta((low + high) / 2)
    assert best <= delta_of(ZCDP(rho), epsilon) <= best * (1 + mp.mpf("1e-6"))


def test_very_small_costs_compose():
    """The square of mu underflows; its root must not."""
    tiny = compose(Gaussian(1e-170), Gaussian(1e-170))
    assert tiny.mu == pytest.approx(2**0.5 * 1e-170, rel=1e-12)


def test_zcdp_in_and_out():
    assert rho_of(Gaussian(0.5)) == pytest.approx(0.125)
    assert rho_of(compose(ZCDP(0.1), Pure(0.2), Gaussian(0.2))) == pytest.approx(0.1 + 0.02 + 0.02)
    # A Gaussian known only as zCDP loses 5 to 14 % of epsilon, and never gains.
    for mu in (0.1, 0.5, 2.0):
        loose, exact = epsilon_of(ZCDP(mu**2 / 2), 1e-6), epsilon_of(Gaussian(mu), 1e-6)
        assert exact * 1.01 < loose < exact * 1.2
    with pytest.raises(UnsupportedNotionError):
        rho_of(Approx(1.0, 1e-6))


@given(
    mu=st.floats(0.01, 3),
    eps0=st.floats(0.01, 1),
    rho=st.floats(0, 0.5),
    delta=st.floats(1e-9, 1e-2),
)
@settings(max_examples=60, deadline=None)
def test_epsilon_and_delta_are_consistent(mu, eps0, rho, delta):
    cost = compose(Gaussian(mu), Pure(eps0), ZCDP(rho))
    epsilon = epsilon_of(cost, delta)
    assert delta_of(cost, epsilon) <= delta
    assert epsilon == 0 or delta_of(cost, epsilon * (1 - 1e-6)) > delta
    assert fits(cost, Budget(epsilon=max(epsilon, 1e-9), delta=delta))
    assert delta_of(compose(cost, Gaussian(0.1)), epsilon) >= delta_of(cost, epsilon)


@given(mu=st.floats(1e-6, 50), cut=st.floats(0.01, 0.99))
def test_shares_compose_to_at_most_the_whole(mu, cut):
    steps = split(mu, (cut, 1 - cut))
    assert covers(Gaussian(mu), Composed(tuple(map(Gaussian, steps))))
    assert compose(*map(Gaussian, steps)).mu == pytest.approx(mu, rel=1e-9)


def test_shares_above_the_whole_are_refused():
    for shares in [(0.6, 0.5), (0.5, -0.1), (), (0.0, 1.0)]:
        with pytest.raises(InvalidParameterError):
            split(1.0, shares)


def test_covers_compares_part_by_part():
    whole = compose(Gaussian(1.0), Pure(0.5), Pure(0.5))
    assert covers(whole, compose(Gaussian(0.5), Gaussian(0.75), Pure(0.5), Pure(0.3)))
    assert not covers(whole, Gaussian(1.0000001))
    assert not covers(whole, Pure(0.6))  # two halves do not pay for one larger step
    assert not covers(whole, compose(*[Pure(0.1)] * 3))
    assert not covers(whole, ZCDP(0.01))
    assert not covers(Pure(1.0), Approx(0.5, 1e-9))


def test_every_cost_has_a_native_name():
    text = native(compose(Gaussian(0.5), Pure(0.25), ZCDP(0.125), Approx(0.1, 1e-7)))
    for part in ("mu = 0.5", "epsilon = 0.25", "rho = 0.125", "delta = 1e-07"):
        assert part in text


def test_two_pure_parts_whose_sum_rounds_down():
    """0.8 + 7.2 exceeds 8 as binary numbers do: there is a delta, small and not zero."""
    cost = Composed((Pure(0.8), Pure(7.2)))
    excess = Fraction(0.8) + Fraction(7.2) - 8
    assert excess > 0
    both = 1 / (1 + math.exp(-0.8)) / (1 + math.exp(-7.2))
    assert delta_of(cost, 8.0) >= both * float(excess)
    assert delta_of(cost, math.nextafter(8.0, 9.0)) == 0.0
