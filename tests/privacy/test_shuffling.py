"""Amplification by shuffling: the closed form, its range, and its inverse."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import binom

from eigenveil.exceptions import InvalidParameterError
from eigenveil.privacy import (
    amplified,
    amplified_delta,
    gaussian_delta,
    local_epsilon,
    local_mu,
    shuffling,
)


def written_out(local, n, delta):
    """The theorem in 50 digits."""
    with mp.workdps(50):
        e = mp.exp(mp.mpf(local))
        spread = 8 * mp.sqrt(e * mp.log(4 / mp.mpf(delta))) / mp.sqrt(n) + 8 * e / n
        return mp.log(1 + (e - 1) / (e + 1) * spread)


def delta_among_clones(epsilon, local, n):
    """Exact delta of the pair that n pure randomisers are no easier to tell apart than.

    (A + B, C - A + 1 - B) and (A + 1 - B, C - A + B), C clones of which A are of the first kind.
    """
    likely = math.exp(local) / (1 + math.exp(local))
    total = 0.0
    for clones, chance in enumerate(binom.pmf(np.arange(n), n - 1, math.exp(-local))):
        if chance > 1e-18:
            a = np.arange(clones + 2)
            fewer, same = binom.pmf(a - 1, clones, 0.5), binom.pmf(a, clones, 0.5)
            one = likely * fewer + (1 - likely) * same
            other = (1 - likely) * fewer + likely * same
            total += chance * np.maximum(one - math.exp(epsilon) * other, 0).sum()
    return total


CELLS = [(n, delta) for n in (150, 400, 2000) for delta in (0.5, 1e-2, 1e-3)]


@pytest.mark.parametrize(("n", "delta"), CELLS)
def test_clones_hide_one_record_as_the_closed_form_says(n, delta):
    """It is generous: an eighth of it, at the upper end of the range, is refuted."""
    top = math.log(n / (16 * math.log(4 / delta)))
    for share in (0.1, 0.5, 0.999):
        epsilon = amplified(share * top, n, delta)
        assert delta_among_clones(epsilon, share * top, n) <= delta
    if delta == 1e-3 and n > 150:
        assert delta_among_clones(math.log1p(math.expm1(epsilon) / 8), 0.999 * top, n) > delta


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 5.0])
@pytest.mark.parametrize(("n", "delta"), [(300, 1e-2), (10_000, 1e-5), (10**7, 1e-9)])
def test_the_inverse_is_exact_and_on_the_side_of_privacy(n, delta, epsilon):
    local = local_epsilon(epsilon, delta, n)
    with mp.workdps(50):
        top = mp.log(n / (16 * mp.log(4 / mp.mpf(delta))))
    assert written_out(local, n, delta) <= epsilon
    assert local <= top
    more = local * (1 + 1e-10)
    assert written_out(more, n, delta) > epsilon or more > top
    assert written_out(local, n, delta) <= amplified(local, n, delta) <= epsilon


def test_outside_its_range_it_refuses_and_says_how_many_records_it_needs():
    local, delta = 2.0, 1e-3
    needed = math.ceil(16 * math.exp(local) * math.log(4 / delta))
    assert amplified(local, needed, delta) < local
    with pytest.raises(InvalidParameterError, match=f"it needs {needed} at this budget"):
        amplified(local, needed - 1, delta)
    with pytest.raises(InvalidParameterError, match="it needs"):
        amplified(800.0, 10**9, delta)  # beyond all floats
    fewest = math.ceil(16 * math.log(8 / delta))
    assert local_mu(1.0, delta, fewest) > 0
    with pytest.raises(InvalidParameterError, match=f"it needs {fewest} "):
        local_mu(1.0, delta, fewest - 1)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_both_parts_of_delta_add_up(epsilon):
    n, delta = 100_000, 1e-6
    local = local_epsilon(epsilon, delta / 2, n)
    local_delta = gaussian_delta(local_mu(epsilon, delta, n), local)
    reached = amplified(local, n, delta / 2)  # below epsilon where the range of the theorem ends
    assert reached <= epsilon
    spent = delta / 2 + amplified_delta(reached, local, local_delta, n)
    assert spent == pytest.approx(delta, rel=1e-6)
    assert spent <= delta
    by_hand = n * (math.exp(reached) + 1) * (1 + math.exp(-local) / 2) * local_delta
    assert amplified_delta(reached, local, local_delta, n) == pytest.approx(by_hand)
    # Noise smaller by a thousandth breaks the budget.
    weaker = gaussian_delta(local_mu(epsilon, delta, n) * 1.001, local)
    assert delta / 2 + amplified_delta(reached, local, weaker, n) > delta


@pytest.mark.parametrize("n", [300, 5000, 10**6])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_a_larger_epsilon_never_buys_more_noise(n, delta):
    strengths = [local_mu(epsilon, delta, n) for epsilon in np.geomspace(0.01, 20, 60).tolist()]
    assert strengths == sorted(strengths)


def test_more_records_need_less_noise_each_and_few_no_more_than_none_shuffled():
    strengths = [local_mu(0.5, 1e-6, n) for n in (300, 1000, 10**4, 10**6, 10**8)]
    assert strengths == sorted(strengths)
    assert strengths[0] == shuffling._mu(0.5, 1e-6) < strengths[1]
