"""Weights: the formulas, the errors they stand for, and what one owner can at most be worth."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigenveil.exact import Clip
from eigenveil.exceptions import InvalidParameterError
from eigenveil.federated import weights
from eigenveil.mechanisms import AnalyzeGauss, Gate, Spherical
from eigenveil.numerics import SimulationSource
from eigenveil.planning import Situation, predict
from eigenveil.privacy import Adjacency, Budget, Gaussian, split, strength
from eigenveil.rows import open_rows

OWNERS = {"n": [500, 4000, 900], "epsilon": [0.5, 1.0, 2.0], "delta": [0.1, 1e-3, 1e-6]}


def test_far_too_much_noise_takes_the_weight_away():
    assert weights.sound([1.0, 2.0, 9.0]).tolist() == [1.0, 1.0, 1.0]
    assert weights.sound([1.0, 1.0, 1e30, 100.0]) == pytest.approx([1.0, 1.0, 1e-58, 0.01])
    assert weights.sound([1e-90, 1e-3, 1.0]).tolist() == pytest.approx([1.0, 1.0, 1e-4])
    assert weights.sound([0.0, 0.0, 1.0]).tolist() == [1.0, 1.0, 1e-200]
    assert weights.sound([3.0]).tolist() == [1.0]


def inverse(squares):
    return 1 / np.array(squares) / np.sum(1 / np.array(squares))


def test_printed_weights_are_those_of_theorem_1():
    """Term by term, with lambda and sigma^2, which cancel."""
    d, k, ratio, squares = 30, 4, 0.1, []
    for n, epsilon, delta in zip(*OWNERS.values(), strict=True):
        privacy = d * math.sqrt(k * (k + math.log(n))) / (n * epsilon)
        psi = math.sqrt(k * d / n) + privacy * math.sqrt(math.log(2.5 / delta))
        squares.append(((ratio + math.sqrt(ratio)) * psi) ** 2)
    assert weights.printed(**OWNERS, d=d, k=k) == pytest.approx(inverse(squares))


def test_printed_value_weights_are_those_of_theorem_2():
    d, k, spike, noise, squares = 30, 4, 7.0, 2.0, []
    for n, epsilon, delta in zip(*OWNERS.values(), strict=True):
        size = spike**2 * (k + math.log(n)) ** 2 + noise**2 * d**2
        beta_squared = 8 / epsilon**2 * math.log(2.5 / delta) * size / n**2
        squares.append((spike**2 + noise**2) / n + beta_squared)
    found = weights.printed_values(**OWNERS, d=d, k=k, spike=spike, noise_variance=noise)
    assert found == pytest.approx(inverse(squares))


KINDS = {
    "printed": lambda *owner: weights.printed(*owner, 20, 2),
    "printed values": lambda *owner: weights.printed_values(
        *owner, 20, 2, spike=10.0, noise_variance=1.0
    ),
    "predicted": lambda *owner: weights.predicted(*owner, 20, 2),
    "predicted values": lambda *owner: weights.predicted_values(*owner, 2),
}


@pytest.mark.parametrize("kind", KINDS)
def test_more_records_or_budget_count_for_more(kind):
    """The formula printed after the theorem has it the other way round."""
    of = KINDS[kind]
    for better, worse in (
        ((1000, 1.0, 1e-3), (500, 1.0, 1e-3)),
        ((1000, 1.0, 1e-3), (1000, 0.5, 1e-3)),
        ((1000, 1.0, 1e-3), (1000, 1.0, 1e-6)),
    ):
        found = of(*zip(better, worse, strict=True))
        assert found.sum() == pytest.approx(1)
        assert found[0] > found[1] > 0
    assert of([700] * 4, [0.3] * 4, [0.01] * 4) == pytest.approx(np.full(4, 0.25))


D, K, BUDGET = 20, 2, {"epsilon": 1.0, "delta": 1e-5}
SHARES = 1 / np.arange(1.0, D + 1) / np.sum(1 / np.arange(1.0, D + 1))


def lost(mechanism, n, row_norm, seed):
    """Variance that the components of one owner miss, by the law of its rows."""
    rows = np.random.default_rng([n, seed]).standard_normal((n, D)) * np.sqrt(SHARES)
    gate = Gate(
        mechanism.cost(),
        label="x",
        adjacency=Adjacency.REPLACE_ONE,
        ledger=None,
        noise=SimulationSource(seed),
    )
    found = mechanism.run(open_rows(rows), Clip(row_norm=row_norm), gate).components
    return float(SHARES[:K].sum() - np.einsum("ij,j,ij->", found, SHARES, found))


@pytest.mark.parametrize(
    ("name", "build", "row_norm"),
    [("spherical", Spherical, 1.0), ("analyze-gauss", AnalyzeGauss, 1 / 0.7)],
)
def test_predicted_weights_are_inverse_squared_errors(name, build, row_norm):
    """From owners whom noise harms most to owners whom their sample does.

    The mean of 30 tables has a standard error of 6 %, and that of 150 was within 7 % of what the
    weights say: the probability of a false alarm is below 1e-3. Weights without the term of
    sampling, or without that of noise, are off by 60 % at least.
    """
    mu = split(strength(Budget(**BUDGET), Gaussian, "x"), (0.5, 0.5))[0]
    mechanism = build(strength=Gaussian(mu), n_components=K)
    sizes = [1000, 6000, 36_000]
    squares = [np.mean([lost(mechanism, n, row_norm, seed) for seed in range(30)]) for n in sizes]
    found = weights.predicted(sizes, *BUDGET.values(), D, K, name)
    ratio = found * squares
    assert ratio == pytest.approx(np.full(3, ratio.mean()), rel=0.35)


def test_predicted_weights_agree_with_the_planner_where_noise_decides():
    """The planner knows no error of sampling: it compares with the table's own components."""
    sizes = [2000, 4000, 8000]
    budget = Budget(rho=strength(Budget(**BUDGET), Gaussian, "x") ** 2 / 4)  # half of mu^2
    errors = [
        predict(
            Situation(task="pca", n=n, d=100, k=4, budget=budget, assume_centered=True), "spherical"
        ).error
        for n in sizes
    ]
    ratio = weights.predicted(sizes, *BUDGET.values(), 100, 4) * errors
    assert ratio == pytest.approx(np.full(3, ratio.mean()), rel=0.25)


def test_an_owner_is_weighted_by_its_own_mechanism():
    """Clipped rows are shorter than their bound, unit rows are not."""
    names = ["spherical", "tangent", "analyze-gauss"]
    found = weights.predicted([1000] * 3, *BUDGET.values(), 200, 5, names)
    assert found[0] == found[1] > 3 * found[2]
    much = weights.predicted([10**8] * 3, 100.0, 0.1, 20, 2, names)  # where sampling is all
    assert much == pytest.approx(np.full(3, 1 / 3), rel=1e-3)
    with pytest.raises(InvalidParameterError, match="mechanism of each owner"):
        weights.predicted([1000] * 3, *BUDGET.values(), 200, 5, names[:2])
    with pytest.raises(InvalidParameterError, match="mechanism of each owner"):
        weights.predicted([1000], *BUDGET.values(), 200, 5, "zero")


def test_a_larger_share_moves_weights_from_noise_to_sampling():
    """n^2 where noise decides, n where sampling does."""
    ratios = [
        np.divide(*weights.predicted([20_000, 10_000], *BUDGET.values(), D, K, share=share))
        for share in (1e-6, 0.5, 1.0)
    ]
    assert 4 > ratios[0] > 3.99 > ratios[1] > ratios[2] > 2
    own = weights.predicted([20_000] * 2, *BUDGET.values(), D, K, share=[0.9, 0.1])
    assert own[0] > own[1]


def test_all_directions_leave_records_to_count():
    assert weights.predicted([1000, 3000], 1.0, 1e-5, 5, 5) == pytest.approx([0.25, 0.75])


def test_predicted_value_weights_are_inverse_squared_errors():
    """GaussCov on rows of the assumed law: Frobenius error of 4,000 tables, 3 standard errors are
    6 %; false alarm below 1e-2, and seeded.
    """
    k, sizes, rng = 3, [50, 500], np.random.default_rng(0)
    values = 0.49 / np.arange(1.0, k + 1) / np.sum(1 / np.arange(1.0, k + 1))
    mu = strength(Budget(**BUDGET), Gaussian, "x") * math.sqrt(0.5)
    squares = []
    for n in sizes:
        rows = rng.standard_normal((4000, n, k)) * np.sqrt(values)
        error = np.einsum("tni,tnj->tij", rows, rows) / n - np.diag(values)
        noise = rng.standard_normal((4000, k, k)) * math.sqrt(2) / (n * mu)
        squares.append(np.sum((error + (noise + noise.swapaxes(1, 2)) / 2) ** 2, axis=(1, 2)))
    found = weights.predicted_values(sizes, *BUDGET.values(), k)
    assert found == pytest.approx(inverse([np.mean(one) for one in squares]), rel=0.06)


@given(
    st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=30),
    st.floats(0.01, 1.0),
)
def test_no_weight_is_above_the_cap(values, most):
    before = np.array(values) / np.sum(values)
    found, cut = weights.capped(values, most)
    assert found.sum() == pytest.approx(1)
    if most * len(values) <= 1 + 1e-9:
        assert (found == 1 / len(values)).all()
        return
    assert found.max() <= most * (1 + 1e-12)
    assert (cut == (before > most)).all()
    assert (found[cut] == most).all()
    below = found < most * (1 - 1e-9)
    if below.any():  # the others keep their proportions, and lose nothing
        assert found[below] / found[below].sum() == pytest.approx(
            before[below] / before[below].sum()
        )
    assert (found[~cut] >= before[~cut] * (1 - 1e-12)).all()


def test_what_is_cut_goes_to_the_others_and_is_named():
    found, cut = weights.capped([8.0, 1.0, 1.0], 0.5)
    assert found == pytest.approx([0.5, 0.25, 0.25])
    assert cut.tolist() == [True, False, False]
    # What the first loses would lift the second above the cap, who has lost nothing for all that.
    found, cut = weights.capped([7.0, 2.5, 0.25, 0.25], 0.4)
    assert found == pytest.approx([0.4, 0.4, 0.1, 0.1])
    assert cut.tolist() == [True, False, False, False]
    found, cut = weights.capped([3.0, 1.0], 0.4)
    assert found.tolist() == [0.5, 0.5]
    assert cut.tolist() == [True, False]
    found, cut = weights.capped([3.0, 1.0], 1.0)
    assert found.tolist() == [0.75, 0.25]
    assert not cut.any()


def test_each_may_have_a_cap_of_its_own():
    found, cut = weights.capped([8.0, 1.0, 1.0], [1.0, 0.5, 0.5])
    assert found == pytest.approx([0.8, 0.1, 0.1])
    assert not cut.any()
    found, cut = weights.capped([1.0, 8.0, 1.0], [1.0, 0.5, 0.5])
    assert found == pytest.approx([0.25, 0.5, 0.25])
    assert cut.tolist() == [False, True, False]
    found, cut = weights.capped([0.0, 8.0], [1.0, 0.5])  # there is nobody else
    assert found.tolist() == [0.0, 1.0]


def test_equal():
    assert weights.equal(4).tolist() == [0.25] * 4


@pytest.mark.parametrize(
    "call",
    [
        lambda: weights.equal(0),
        lambda: weights.printed([], [], [], 5, 2),
        lambda: weights.printed([0], 1.0, 0.1, 5, 2),
        lambda: weights.printed([math.nan], 1.0, 0.1, 5, 2),
        lambda: weights.printed([10], 0.0, 0.1, 5, 2),
        lambda: weights.printed([10], math.inf, 0.1, 5, 2),
        lambda: weights.printed([10], 1.0, 1.0, 5, 2),
        lambda: weights.predicted([10], 1.0, 0.1, 5, 6),
        lambda: weights.predicted([10, 20], 1.0, 0.1, 5, 2, share=[0.5, 0.0]),
        lambda: weights.predicted_values([10], 1.0, 0.1, 2, share=1.5),
        lambda: weights.capped([], 0.5),
        lambda: weights.capped([1.0, -1.0], 0.5),
        lambda: weights.capped([1.0, math.inf], 0.5),
        lambda: weights.capped([1.0, 1.0], 0.0),
        lambda: weights.capped([1.0, 1.0], math.nan),
    ],
)
def test_refused(call):
    with pytest.raises(InvalidParameterError):
        call()
