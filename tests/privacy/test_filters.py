"""A ledger's limit holds whoever chooses the next budget after seeing earlier results."""

import math
from fractions import Fraction

import numpy as np
import pytest

from eigenveil.exceptions import BudgetExceededError, UnsupportedNotionError
from eigenveil.privacy import (
    LEAK_SHARE,
    ZCDP,
    Approx,
    Budget,
    Composed,
    Gaussian,
    Pure,
    Spent,
    admit,
    delta_of,
    epsilon_of,
    fits,
    gaussian_mu,
    largest,
    left,
    rho_of,
    used,
    whole_strength,
)

BUDGET = Budget(epsilon=1.0, delta=1e-6)
KINDS = {
    "Gaussian": Gaussian,
    "pure": Pure,
    "many pure": lambda strength: Composed((Pure(strength),) * 16),
    "mixed": lambda strength: Composed((Gaussian(strength / 10), Pure(strength))),
}
FIRST = [Gaussian(0.05), Gaussian(0.15), Gaussian(0.2), Pure(0.2), Pure(0.6)]


def by_exact_curves(first, second):
    """The rule of fixed budgets, which the adversary breaks."""
    return fits(Composed((first, second)), BUDGET)


def by_filter(first, second):
    spent = admit(BUDGET, Spent(), first)
    return spent is not None and admit(BUDGET, spent, second) is not None


def losses(first):
    """Values of the realised loss, and their probabilities."""
    if isinstance(first, Pure):
        likely = 1 / (1 + math.exp(-first.epsilon))
        return [(first.epsilon, likely), (-first.epsilon, 1 - likely)]
    nodes, weights = np.polynomial.hermite_e.hermegauss(160)
    values = first.mu**2 / 2 + first.mu * nodes
    return list(zip(values, weights / math.sqrt(2 * math.pi), strict=True))


def adversary(first, rule):
    """True delta, over the granted one, of whoever picks the second cost by the realised loss."""
    choices = []
    for kind in KINDS.values():
        try:
            choices.append(kind(largest(lambda s, kind=kind: rule(first, kind(s)), start=0.1)))
        except (BudgetExceededError, ValueError):  # nothing of the kind is admitted
            continue

    def worst(epsilon):
        beyond = max(0.0, -math.expm1(epsilon))
        if epsilon < 0:  # delta(-e) = 1 - exp(-e) (1 - delta(e)) for symmetric pairs
            return max([beyond + math.exp(epsilon) * delta_of(c, -epsilon) for c in choices])
        return max([delta_of(c, epsilon) for c in choices])

    total = math.fsum(p * worst(BUDGET.epsilon - loss) for loss, p in losses(first))
    return total / BUDGET.delta


@pytest.mark.parametrize("first", FIRST, ids=str)
def test_an_adversary_who_sees_results_gets_no_more_than_was_granted(first):
    assert adversary(first, by_filter) <= 1.0


def between(charged, rule):
    """True delta, over the granted one, of whoever charges between the parts of a release.

    First comes a pure release, then half of the mu^2 of a Gaussian one. The third cost is chosen
    by the losses seen so far and drawn at once; or the second half is drawn without it.
    """
    first, whole = Pure(0.2), Gaussian(charged)
    half = Gaussian(charged / math.sqrt(2))
    choices = [half]
    for kind in KINDS.values():
        most = largest(lambda s, kind=kind: rule((first, whole), kind(s)), start=0.1)
        choices.append(Composed((half, kind(most))))

    def worst(epsilon):
        beyond = max(0.0, -math.expm1(epsilon))
        if epsilon < 0:
            return max([beyond + math.exp(epsilon) * delta_of(c, -epsilon) for c in choices])
        return max(delta_of(c, epsilon) for c in choices)

    seen = [(a + b, p * q) for a, p in losses(first) for b, q in losses(half)]
    return math.fsum(p * worst(BUDGET.epsilon - loss) for loss, p in seen) / BUDGET.delta


@pytest.mark.parametrize("charged", [0.02, 0.05, 0.1])
def test_charges_between_the_parts_of_a_release_get_no_more_than_was_granted(charged):
    """In a ledger that counts in epsilon, which is read off the curve of the whole release."""

    def by_filter(before, cost):
        spent = Spent()
        for each in before:
            spent = admit(BUDGET, spent, each)
        return admit(BUDGET, spent, cost) is not None

    assert between(charged, by_filter) <= 1.0
    assert between(charged, lambda before, cost: fits(Composed((*before, cost)), BUDGET)) > 1.0


def test_the_adversary_is_strong_enough_to_break_fixed_budgets():
    assert adversary(Gaussian(0.05), by_exact_curves) > 2.5


@pytest.mark.parametrize("first", [Gaussian(0.1), ZCDP(0.005)], ids=str)
def test_parts_that_may_fail_are_paid_from_their_own_share_of_delta(first):
    """In some branches Gaussian noise, in others failures: their deltas must not be the same."""
    spent = admit(BUDGET, Spent(), first)
    failure = largest(lambda d: admit(BUDGET, spent, Approx(0.0, d)) is not None, start=1e-9)
    mu = largest(lambda mu: admit(BUDGET, spent, Gaussian(mu)) is not None, start=0.1)
    assert failure > 0
    by_noise = delta_of(Composed((first, Gaussian(mu))), BUDGET.epsilon)
    assert by_noise + failure <= BUDGET.delta


def test_the_first_cost_has_its_exact_curve_and_nothing_follows_where_it_takes_all():
    for cost in (
        Gaussian(whole_strength(BUDGET, pure=False)),
        Composed((Gaussian(0.2), Pure(0.06), Pure(0.06))),
        Approx(1.0, 1e-6),
        Pure(1.0),
    ):
        spent = admit(BUDGET, Spent(), cost)
        assert spent is not None
        assert used(BUDGET, spent, cost)[1] == pytest.approx(epsilon_of(cost, 1e-6))
        assert admit(BUDGET, spent, Gaussian(0.15)) is None
        assert admit(BUDGET, spent, Composed(())) == spent


def test_gaussian_costs_add_up_exactly():
    spent = Spent()
    for mu in (0.1, 0.1, 0.15):
        spent = admit(BUDGET, spent, Gaussian(mu))
    assert spent.amount == sum(int(Fraction(mu) ** 2 * 2**128) for mu in (0.1, 0.1, 0.15))
    limit = whole_strength(Budget(epsilon=1.0, delta=float(1e-6 * (1 - LEAK_SHARE))), pure=False)
    rest = math.sqrt(limit**2 - 0.1**2 - 0.1**2 - 0.15**2)
    assert admit(BUDGET, spent, Gaussian(rest * (1 - 1e-9))) is not None
    assert admit(BUDGET, spent, Gaussian(rest * (1 + 1e-9))) is None
    assert left(BUDGET, spent)[1] == pytest.approx(epsilon_of(Gaussian(rest), 1e-6))


def test_a_pure_cost_is_paid_by_the_mu_that_covers_it():
    spent = admit(BUDGET, Spent(), Composed((Gaussian(0.1), Pure(0.05))))
    assert spent.amount * 2.0**-128 == pytest.approx(0.1**2 + gaussian_mu(0.05) ** 2)


def test_what_begins_pure_is_counted_in_epsilon():
    spent = admit(BUDGET, Spent(), Pure(0.5))
    assert spent.currency == "epsilon"
    assert left(BUDGET, spent) == ("epsilon", 0.5)
    noise = admit(BUDGET, spent, Gaussian(0.1))
    assert noise.amount * 2.0**-128 == pytest.approx(0.5 + epsilon_of(Gaussian(0.1), 1e-6 / 16))
    assert admit(BUDGET, admit(BUDGET, spent, Pure(0.5)), Pure(1e-9)) is None


def test_what_begins_with_rho_is_counted_in_rho():
    spent = admit(BUDGET, Spent(), ZCDP(0.005))
    assert spent.currency == "rho"
    after = admit(BUDGET, spent, Composed((Gaussian(0.1), Pure(0.05))))
    assert after.amount * 2.0**-128 == pytest.approx(0.005 + 0.005 + 0.05**2 / 2)
    most = largest(lambda rho: admit(BUDGET, spent, ZCDP(rho)) is not None, start=0.01)
    assert delta_of(ZCDP(0.005 + most), 1.0) == pytest.approx(1e-6 * float(1 - LEAK_SHARE))
    with pytest.raises(BudgetExceededError, match="known in rho only"):
        admit(BUDGET, admit(BUDGET, Spent(), Gaussian(0.1)), ZCDP(0.001))


def test_budgets_of_other_notions_add_up_as_they_are():
    rho = Budget(rho=0.5)
    spent = admit(rho, Spent(), Composed((Gaussian(0.5), Pure(0.5))))
    assert used(rho, spent)[1] == rho_of(Composed((Gaussian(0.5), Pure(0.5)))) == 0.25
    assert admit(rho, spent, ZCDP(0.25)) is not None
    assert admit(rho, spent, ZCDP(0.2501)) is None
    with pytest.raises(UnsupportedNotionError, match="no rho"):
        admit(rho, spent, Approx(0.1, 1e-9))
    pure = Budget(epsilon=1.0)
    spent = admit(pure, Spent(), Pure(0.75))
    assert admit(pure, spent, Pure(0.25)) is not None
    assert admit(pure, spent, Pure(0.2501)) is None
    assert admit(pure, spent, Approx(0.0, 1e-12)) is None
    with pytest.raises(BudgetExceededError, match="cannot pay for Gaussian noise"):
        admit(pure, spent, Gaussian(1e-6))


def test_amounts_are_rounded_up_and_survive_a_round_trip():
    spent = admit(BUDGET, Spent(), Gaussian(1e-30))
    assert (spent.amount, spent.charges) == (1, 1)
    spent = admit(BUDGET, spent, Approx(0.1, 1e-9))
    assert Spent.from_dict(spent.as_dict()) == spent
    assert admit(BUDGET, spent, Composed(())) is spent
