"""[Fed] Algorithm 1: its noise, what it spends, and multiple robustness."""

import math
from dataclasses import replace

import numpy as np
import pytest

from eigenveil import PrivatePCA
from eigenveil.exact import Clip
from eigenveil.exceptions import (
    BudgetExceededError,
    InvalidBudgetError,
    InvalidParameterError,
    UnsupportedNotionError,
)
from eigenveil.federated import assembled, leading_basis, weights
from eigenveil.mechanisms import Gate, Spherical
from eigenveil.numerics import SimulationSource, SystemSource, subspace_distance
from eigenveil.papers.fed import SpikedClient
from eigenveil.papers.spiked import Spiked, SpikedModel, SpikedValues
from eigenveil.privacy import Adjacency, Budget, Gaussian, Kind, Ledger, delta_of, split, strength
from eigenveil.rows import open_rows
from tests.mechanisms.test_spiked import observed
from tests.statistics import variance_p_value

REPLACE = Adjacency.REPLACE_ONE
CLIP = Clip(row_norm=1.0)  # whose bound is not used
D, K, SPIKE, NOISE = 12, 2, 10.0, 2.0
MODEL = SpikedModel(
    rank=K, smallest_spike=SPIKE, largest_spike=SPIKE, noise_variance=NOISE, form="federated"
)
COVARIANCE = np.diag(np.append(np.full(K, SPIKE + NOISE), np.full(D - K, NOISE)))


def client(**changes):
    numbers = {"epsilon": 0.8, "delta": 0.05, "model": MODEL, "calibration": "printed"}
    return SpikedClient(**(numbers | changes))


def gate(cost, seed=0, ledger=None):
    noise = SimulationSource(seed) if ledger is None else SystemSource()
    return Gate(cost, label="x", adjacency=REPLACE, ledger=ledger, noise=noise)


def draw(n, rng):
    """Rows of the model along the first axes, without loss of generality."""
    return rng.standard_normal((n, D)) * np.sqrt(np.diag(COVARIANCE))


def entries(matrix):
    """Diagonal, then the rest of the upper triangle."""
    return np.diag(matrix), matrix[np.triu_indices(len(matrix), 1)]


def printed_alpha_squared(n, epsilon, delta):
    ratio = NOISE / SPIKE
    size = ratio * (ratio + 1) * D * (K + math.log(n)) / n**2
    return 8 / epsilon**2 * math.log(2.5 / delta) * size


def printed_beta_squared(n, epsilon, delta):
    size = (SPIKE**2 * (K + math.log(n)) ** 2 + NOISE**2 * D**2) / n**2
    return 8 / epsilon**2 * math.log(2.5 / delta) * size


def test_noise_is_that_of_the_printed_algorithm():
    """False alarm 4e-6 in all. A scale 8 % off is seen in the 26,000 entries beside the diagonal of
    the first step, one 30 % off, less than sqrt(2), in each kind of entries.
    """
    n, one = 500, client()
    rows = draw(n, np.random.default_rng(0))
    moment = rows.T @ rows / n
    top = np.linalg.eigh(moment)[1][:, -K:]
    basis = np.linalg.qr(np.random.default_rng(1).standard_normal((D, K)))[0]
    source, noise = open_rows(rows), {"first": [], "second": []}
    for seed in range(400):
        noisy = one.projector().run(source, CLIP, gate(Gaussian(one.strengths[0]), seed)).matrix
        noise["first"].append(entries(noisy - top @ top.T))
        noisy = one.values(source, CLIP, gate(Gaussian(one.strengths[1]), seed), basis)
        noise["second"].append(entries(noisy - basis.T @ (moment - NOISE * np.eye(D)) @ basis))
    scales = {
        "first": printed_alpha_squared(n, one.epsilon, one.delta),
        "second": printed_beta_squared(n, one.epsilon, one.delta),
    }
    for step, square in scales.items():
        diagonal, others = (np.concatenate(part) for part in zip(*noise[step], strict=True))
        for sample, sigma in ((diagonal, math.sqrt(2 * square)), (others, math.sqrt(square))):
            assert variance_p_value(sample, sigma) > 1e-6
            wrong = 1.3 if sample.size < 5000 else 1.08
            assert variance_p_value(sample, wrong * sigma) < 1e-6
            assert variance_p_value(sample, sigma / wrong) < 1e-6


def test_exact_calibration_spends_the_whole_budget_and_the_printed_one_a_part():
    for epsilon, delta in ((0.1, 0.1), (0.8, 0.05), (2.0, 1e-6)):
        exact = client(epsilon=epsilon, delta=delta, calibration="exact")
        assert 0.999 * delta < delta_of(exact.cost(), epsilon) <= delta
        assert exact.strengths[0] == exact.strengths[1]
        printed = client(epsilon=epsilon, delta=delta)
        assert delta_of(printed.cost(), epsilon) < 0.05 * delta
        # Half of epsilon and delta, the classical scale, and sqrt(2) that nothing asks for.
        classical = math.sqrt(2 * math.log(1.25 / (delta / 2))) / (epsilon / 2)
        assert printed.strengths[0] == pytest.approx(1 / (math.sqrt(2) * classical))
    assert exact.kind is Kind.MODEL_BASED
    with pytest.raises(InvalidParameterError, match="not private, for comparison"):
        _ = exact.projector().assumption


def test_rows_of_the_model_exceed_the_printed_sensitivity_but_not_four_times_that():
    """The reason why the source's form is for comparisons only. Of 40 other tables the least moved
    2.4, the most 3.5 times as far as it declares, of 5.0 times with the constant of [Spiked].
    """
    law = SpikedModel(
        rank=1, smallest_spike=10.0, largest_spike=10.0, noise_variance=1.0, form="federated"
    )
    declared = law.projector_sensitivity(5000, 30)
    rng = np.random.default_rng(0)
    worst = [observed(law, 5000, 30, rng) for _ in range(3)]
    assert min(worst) > 1.5 * declared
    assert max(worst) < replace(law, form="printed").projector_sensitivity(5000, 30)


def test_the_printed_calibration_is_refused_where_it_does_not_hold():
    with pytest.raises(InvalidBudgetError, match="use 'exact'"):
        client(epsilon=500.0)
    client(epsilon=500.0, calibration="exact")
    with pytest.raises(InvalidParameterError, match="calibration must be"):
        client(calibration="tight")


def test_a_form_without_a_proof_is_never_charged_for(tmp_path):
    """Neither a ledger nor real noise: it would look like a promise."""
    ledger = Ledger.create(tmp_path / "l", epsilon=8.0, delta=0.5)
    source, one = open_rows(draw(300, np.random.default_rng(0))), client()
    for form in ("federated", "printed"):
        other = replace(one, model=replace(MODEL, form=form))
        for noise, account in ((SystemSource(), None), (SystemSource(), ledger)):
            real = Gate(
                Gaussian(one.strengths[0]),
                label="x",
                adjacency=REPLACE,
                ledger=account,
                noise=noise,
            )
            with pytest.raises(InvalidParameterError, match="not private"):
                other.basis(source, CLIP, real)
        with pytest.raises(InvalidParameterError, match="not private"):
            PrivatePCA(
                epsilon=1.0,
                delta=1e-6,
                mechanism=Spiked(model=other.model),
                centring="none",
                random_state=0,
            ).fit(draw(300, np.random.default_rng(0)))
    assert ledger.entries == ()


def test_each_step_charges_its_own_share(tmp_path):
    one = client(calibration="exact", model=replace(MODEL, form="quantile"))
    ledger = Ledger.create(tmp_path / "l", epsilon=0.9, delta=0.06)
    source = open_rows(draw(300, np.random.default_rng(0)))
    first, second = (Gaussian(mu) for mu in one.strengths)
    basis = one.basis(source, CLIP, gate(first, ledger=ledger))
    assert [entry.cost for entry in ledger.entries] == [first]
    one.values(source, CLIP, gate(second, ledger=ledger), basis)
    assert [entry.cost for entry in ledger.entries] == [first, second]
    with pytest.raises(BudgetExceededError):  # nothing is left
        one.basis(source, CLIP, gate(first, ledger=ledger))


def test_refusals():
    one, source = client(), open_rows(draw(50, np.random.default_rng(0)))
    add = Gate(
        one.projector().cost(),
        label="x",
        adjacency=Adjacency.ADD_REMOVE,
        ledger=None,
        noise=SimulationSource(0),
    )
    with pytest.raises(UnsupportedNotionError, match="replace-one"):
        one.basis(source, CLIP, add)
    with pytest.raises(InvalidParameterError, match="orthonormal"):
        SpikedValues(mu=1.0, model=MODEL, basis=2 * np.eye(D)[:, :K])


@pytest.mark.parametrize(("n", "scaled"), [(50, 1.0), (5000, 1.0), (5000, 100.0)])
def test_the_second_step_never_has_more_noise_than_the_worst_case_needs(n, scaled):
    """Delta_2 may exceed what rows in the model's ball can do."""
    wild = SpikedModel(
        rank=K,
        smallest_spike=SPIKE,
        largest_spike=scaled * SPIKE,
        noise_variance=NOISE,
        form="federated",
    )
    source = open_rows(draw(n, np.random.default_rng(0)))
    step = SpikedValues(mu=1.0, model=wild, basis=np.eye(D)[:, :K])
    noise = step.run(source, CLIP, gate(step.cost())).noise_scale
    ball = (1 + 2.0**-10) * wild.row_norm(n, D)
    assert noise == pytest.approx(
        min(wild.moment_sensitivity(n, D), math.sqrt(2) * ball**2 / n), rel=1e-6
    )


def test_both_rounds_give_a_covariance_better_than_that_of_the_best_owner():
    """Of 60 federations the mean ratio was 0.64, the standard deviation 0.12 and the largest 0.88:
    the mean of 5 is below 1 by six standard deviations.
    """
    sizes, ratios = [1000, 2000, 2000, 3000, 3000], []
    one = client(calibration="exact")
    first, second = (Gaussian(mu) for mu in one.strengths)
    numbers = (sizes, one.epsilon, one.delta, D, K)
    w = weights.printed(*numbers)
    v = weights.printed_values(*numbers, spike=SPIKE, noise_variance=NOISE)
    for seed in range(5):
        rng = np.random.default_rng([7, seed])
        sources = [open_rows(draw(n, rng)) for n in sizes]
        bases = [
            one.basis(source, CLIP, gate(first, 10 * seed + j)) for j, source in enumerate(sources)
        ]

        def error(basis, which, shares, seed=seed, sources=sources):
            found = [
                one.values(sources[j], CLIP, gate(second, 10 * seed + j), basis) for j in which
            ]
            covariance = assembled(basis, found, shares, NOISE).dense()
            return float(np.linalg.norm(covariance - COVARIANCE))

        together = error(leading_basis(bases, w, K), range(5), v)
        best = min(error(bases[j], [j], np.ones(1)) for j in range(5))
        ratios.append(together / best)
    assert np.mean(ratios) < 1


# Multiple robustness: [Fed] section 1.2.

USELESS, FEW = 20, 10  # owners, and records of each


def federation(good, seed, mechanism):
    """Bases of one owner of ``good`` records and of many who know next to nothing."""
    rng, sizes = np.random.default_rng([8, seed]), [good] + [FEW] * USELESS
    epsilon, delta = 0.5, 0.01
    bases = []
    for j, n in enumerate(sizes):
        source = open_rows(draw(n, rng))
        if mechanism == "spherical":
            mu = split(strength(Budget(epsilon=epsilon, delta=delta), Gaussian, "x"), (0.5, 0.5))[0]
            step = Spherical(strength=Gaussian(mu), n_components=K)
            found = step.run(source, CLIP, gate(step.cost(), 100 * seed + j))
            bases.append(found.components.T)
        else:
            one = client(epsilon=epsilon, delta=delta)
            bases.append(one.basis(source, CLIP, gate(one.projector().cost(), 100 * seed + j)))
    return bases, (sizes, epsilon, delta, D, K)


def distance(basis):
    return subspace_distance(basis.T, np.eye(D)[:K])


@pytest.mark.parametrize(
    ("mechanism", "weigh"), [("printed", weights.printed), ("spherical", weights.predicted)]
)
def test_one_consistent_owner_makes_the_result_consistent(mechanism, weigh):
    """Its error falls with the records of one owner, whom equal weights drown.

    Means of 4 federations. In 60 single ones with either mechanism, weighted errors fell by factors
    of 1.9 to 8.6 and ended below 0.03; with equal weights they were above 0.78, 1.5 on average with
    a standard deviation of 0.2; the useless owners, alone, above 1.7. A false alarm has a
    probability below 1e-4.
    """
    errors = {"weighted": [], "equal": [], "others": []}
    for good in (1000, 6000, 36_000):
        found = {name: [] for name in errors}
        for seed in range(4):
            bases, numbers = federation(good, seed, mechanism)
            same = weights.equal(len(bases))
            found["weighted"].append(distance(leading_basis(bases, weigh(*numbers), K)))
            found["equal"].append(distance(leading_basis(bases, same, K)))
            found["others"].append(np.mean([distance(basis) for basis in bases[1:]]))
        for name, each in found.items():
            errors[name].append(float(np.mean(each)))
    weighted = np.array(errors["weighted"])
    assert (weighted[:-1] / weighted[1:] > 1.5).all()
    assert weighted[-1] < 0.06
    assert min(errors["equal"]) > 0.7
    assert min(errors["others"]) > 1.2
