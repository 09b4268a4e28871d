"""What each mechanism for components at pure epsilon promises beyond its noise."""

import math

import numpy as np
import pytest

from eigenveil.exact import (
    SMALLEST_NORM,
    Clip,
    along,
    along_with_rest,
    compressed_with_rest,
    second_moment,
)
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms import Gate, WishartComponents, WishartCov
from eigenveil.numerics import SimulationSource, captured_variance, top_eigenpairs
from eigenveil.papers.covrev import ExponentialComponents, LapCov, LaplaceComponents
from eigenveil.privacy import Adjacency, Gaussian, Ledger, Pure, epsilon_of, rho_of
from eigenveil.rows import open_rows
from tests.conformance import case
from tests.numerics.test_bingham import deviations, exact_moments

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
BOTH = pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)
UNIT = Clip(row_norm=1.0)


def run(procedure, rows, seed=0, adjacency=REPLACE, clip=UNIT, ledger=None):
    source = seed if isinstance(seed, SimulationSource) else SimulationSource(seed)
    gate = Gate(procedure.cost(), label="x", adjacency=adjacency, ledger=ledger, noise=source)
    return procedure.run(open_rows(rows), clip, gate)


def gaussian_rows(n, d, seed=0):
    """Three strong directions of different strength in a turned basis."""
    rng = np.random.default_rng(seed)
    scales = np.concatenate([[1.0, 0.7, 0.5], np.full(d - 3, 0.05)]) / 3
    return rng.standard_normal((n, d)) * scales @ np.linalg.qr(rng.standard_normal((d, d)))[0].T


@BOTH
@pytest.mark.parametrize(
    ("components", "matrix"),
    [
        (
            WishartComponents(strength=Pure(1.0), n_components=2),
            WishartCov(epsilon=1.0, clean=False),
        ),
        (LaplaceComponents(strength=Pure(1.0), n_components=2), LapCov(epsilon=1.0)),
    ],
    ids=["wishart", "laplace"],
)
def test_components_are_those_of_the_noisy_matrix(components, matrix, adjacency):
    """The same seed gives the same noise."""
    rows = gaussian_rows(500, 6)
    found, noisy = (run(m, rows, 1, adjacency, Clip(row_norm=2.0)) for m in (components, matrix))
    values, vectors = top_eigenpairs(noisy.matrix, 2)
    assert found.components == pytest.approx(vectors, abs=1e-12)
    assert found.eigenvalues == pytest.approx(values, rel=1e-12)
    assert found.trace == pytest.approx(np.trace(noisy.matrix))
    assert (found.noise_scale, found.law) == (noisy.noise_scale, noisy.law)


@BOTH
def test_the_wishart_law_is_in_the_units_of_the_caller(adjacency):
    """Diagonal noise of sqrt(d + 1)/c, c = epsilon/2 or epsilon, times R^2 (over n)."""
    mechanism = WishartComponents(strength=Pure(0.5), n_components=1)
    found = run(mechanism, np.zeros((40, 3)), 0, adjacency, Clip(row_norm=6.0))
    expected = math.sqrt(4) * 2 / 0.5 * 36 / 40 if adjacency is REPLACE else math.sqrt(4) / 0.5 * 36
    assert found.law.deviation == pytest.approx(expected)
    assert found.noise_scale == pytest.approx(expected)


def test_normalised_rows_need_no_bound():
    """A clip far below every norm: lengths of rows do not matter at all."""
    rows = gaussian_rows(3000, 8)
    lengths = 2.0 ** np.random.default_rng(1).integers(-60, 60, len(rows))
    clip = Clip(row_norm=SMALLEST_NORM)
    mechanism = WishartComponents(strength=Pure(1.0), n_components=3)
    found, stretched = (
        run(mechanism, table, 0, clip=clip) for table in (rows, rows * lengths[:, None])
    )
    assert np.array_equal(found.components, stretched.components)
    assert captured_variance(found.components, rows.T @ rows) > 0.95


@pytest.mark.parametrize("k", [1, 3, 40])
def test_the_shares_of_the_exponential_mechanism(k):
    """A tenth for the values, equal shares for the directions."""
    for strength in (0.1, 2.0):
        pure = ExponentialComponents(strength=Pure(strength), n_components=k)
        assert epsilon_of(pure.cost(), 0.0) == pytest.approx(strength)
        assert epsilon_of(pure.steps[1].cost(), 0.0) == pytest.approx(strength / 10)
        concentrated = ExponentialComponents(strength=Gaussian(strength), n_components=k)
        assert rho_of(concentrated.cost()) == pytest.approx(strength**2 / 2)
        assert rho_of(concentrated.steps[1].cost()) == pytest.approx(strength**2 / 20)


def weighted_axes(counts):
    """Unit rows along turned axes, so many along each: the second moment has these eigenvalues."""
    d = len(counts)
    basis = np.linalg.qr(np.random.default_rng(d).standard_normal((d, d)))[0]
    return np.repeat(basis.T, counts, axis=0)


def standardised(components, matrix, strength):
    """For each direction, how far u'Cu lies from its mean given the directions before it.

    In the complement of those the law is Bingham's with the compressed matrix, whose moments
    `exact_moments` has from contour integrals. Mean 0 and variance 1 if the strength is right.
    """
    d = len(matrix)
    scores = []
    for j in range(min(len(components), d - 1)):
        complement = np.linalg.qr(np.vstack([components[:j], np.eye(d)]).T)[0][:, j:]
        values = np.linalg.eigvalsh(complement.T @ matrix @ complement)
        gaps = values[-1] - values
        mean, variance = exact_moments(gaps, strength)
        x = values[-1] - components[j] @ matrix @ components[j]
        scores.append((x - mean[-1]) / math.sqrt(variance[-1]))
    return scores


@pytest.mark.parametrize(
    ("notion", "adjacency"), [("pure", REPLACE), ("concentrated", ADD)], ids=["pure", "rho"]
)
@pytest.mark.parametrize(
    ("counts", "k", "budget", "draws", "off"),
    [
        ([12, 6, 2], 2, 3.0, 500, 1.5),
        pytest.param([9, 3], 2, 2.0, 1000, 1.4, marks=pytest.mark.audit),
        pytest.param([60, 40, 20] + [4] * 47, 3, 8.0, 150, 1.15, marks=pytest.mark.audit),
    ],
    ids=["d=3", "d=2", "d=50"],
)
def test_every_direction_has_the_law_its_share_allows(
    counts, k, budget, draws, off, notion, adjacency
):
    """Means of standardised scores within 5 standard errors, and every squared coordinate of the
    first direction within 6: false alarm 1e-4 over all, with room for skewness. A strength that is
    off is rejected for each of the directions.
    """
    rows = weighted_axes(counts)
    matrix = rows.T @ rows
    if notion == "pure":  # Delta = 2
        procedure, strength = (
            ExponentialComponents(strength=Pure(budget), n_components=k),
            0.9 * budget / k / 2,
        )
    else:  # Delta = 1, k epsilon^2/8 = 0.9 mu^2/2
        procedure = ExponentialComponents(strength=Gaussian(budget), n_components=k)
        strength = math.sqrt(8 * 0.9 * budget**2 / 2 / k)
    source = SimulationSource(k)
    drawn = [run(procedure, rows, source, adjacency).components for _ in range(draws)]

    def errors(strength):
        scores = np.array([standardised(u, matrix, strength) for u in drawn])
        return np.abs(scores.mean(axis=0)) * math.sqrt(draws)

    assert np.all(errors(strength) < 5)
    assert np.all(errors(off * strength) > 5)
    values, basis = np.linalg.eigh(matrix)
    first = np.array([components[0] for components in drawn]) @ basis
    assert np.max(np.abs(deviations(first, values[-1] - values, strength))) < 6


@BOTH
def test_all_directions_leave_the_last_no_choice(adjacency):
    """It is not drawn: its share is left over, and the gate would still pay for it."""
    for d in (1, 2, 4):
        procedure = ExponentialComponents(strength=Pure(1.0), n_components=d)
        source = SimulationSource(0)
        gate = Gate(procedure.cost(), label="x", adjacency=adjacency, ledger=None, noise=source)
        rows = np.random.default_rng(d).standard_normal((50, d))
        found = procedure.run(open_rows(rows), UNIT, gate)
        assert found.components @ found.components.T == pytest.approx(np.eye(d), abs=1e-12)
        gate.draw(procedure.steps[0], second_moment(open_rows(rows), UNIT, adjacency))


@BOTH
def test_more_directions_than_columns_are_refused_before_the_charge(adjacency, tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=5.0, adjacency=adjacency)
    with pytest.raises(InvalidParameterError, match="between 1 and the number of columns"):
        run(
            ExponentialComponents(strength=Pure(1.0), n_components=4),
            np.ones((5, 3)),
            0,
            adjacency,
            ledger=ledger,
        )
    assert ledger.entries == ()


@BOTH
def test_moments_along_directions_move_no_further_than_declared(adjacency):
    """Any row against any other, or none; rows along two of the directions attain the bounds."""
    rng = np.random.default_rng(0)
    directions = np.linalg.qr(rng.standard_normal((6, 6)))[0][:, :4]
    shared = rng.standard_normal((3, 6))
    rows = [*directions.T, *rng.standard_normal((10, 6)), np.zeros(6), np.full(6, 1e300)]
    declared = {"l1": 2.0, "l2": math.sqrt(2)} if adjacency is REPLACE else {"l1": 1.0, "l2": 1.0}
    largest = dict.fromkeys(declared, 0.0)
    for row in rows:
        for other in rows if adjacency is REPLACE else [None]:
            first = np.vstack([shared, row])
            second = shared if other is None else np.vstack([shared, other])
            one, two = (
                along(second_moment(open_rows(table), UNIT, adjacency), directions.T)
                for table in (first, second)
            )
            assert one.sensitivities == pytest.approx(declared)
            gap = one.value.to_float() - two.value.to_float()
            for norm, order in (("l1", 1), ("l2", 2)):
                size = np.linalg.norm(gap, order)
                assert size <= declared[norm] * (1 + 1e-9)
                largest[norm] = max(largest[norm], size)
    assert largest == pytest.approx(declared, rel=1e-4)


@BOTH
def test_exponential_finds_the_truth_and_its_moments(adjacency):
    """With a large budget, in both notions, the trace among them."""
    rows = gaussian_rows(2000, 6)
    rows /= np.maximum(1, np.linalg.norm(rows, axis=1))[:, None]
    truth = rows.T @ rows / (len(rows) if adjacency is REPLACE else 1)
    values, vectors = top_eigenpairs(truth, 3)
    for procedure in (
        ExponentialComponents(strength=Pure(4000.0), n_components=3),
        ExponentialComponents(strength=Gaussian(4000.0), n_components=3),
    ):
        found = run(procedure, rows, 0, adjacency)
        assert np.abs(np.sum(found.components * vectors, axis=1)) == pytest.approx(1, abs=1e-2)
        assert found.eigenvalues == pytest.approx(values, rel=1e-2)
        assert found.trace == pytest.approx(np.trace(truth), rel=1e-2)
        assert found.law is None


@BOTH
def test_exponential_moments_are_possible_ones_whatever_the_noise(adjacency):
    """Non-increasing, non-negative, within the trace; deviation sqrt(2) Delta/(0.1 epsilon)."""
    rows = np.vstack([np.eye(4)] * 5)
    for seed in range(20):
        found = run(
            ExponentialComponents(strength=Pure(0.5), n_components=3), rows, seed, adjacency
        )
        assert np.all(np.diff(found.eigenvalues) <= 0)
        assert found.eigenvalues[-1] >= 0
        assert found.eigenvalues.sum() <= found.trace * (1 + 1e-12)
    unit = 2 / 20 if adjacency is REPLACE else 1
    assert found.noise_scale == pytest.approx(math.sqrt(2) / (0.1 * 0.5) * unit)


def test_wishart_captures_most():
    """Mean of 10 at epsilon = 1, 5,000 x 20, k = 3; the others lose at least five times as much."""
    rows = gaussian_rows(5000, 20)
    truth = rows.T @ rows
    lost = {
        name: np.mean([1 - captured_variance(run(m, rows, s).components, truth) for s in range(10)])
        for name, m in {
            "wishart": WishartComponents(strength=Pure(1.0), n_components=3),
            "exponential": ExponentialComponents(strength=Pure(1.0), n_components=3),
            "laplace": LaplaceComponents(strength=Pure(1.0), n_components=3),
        }.items()
    }
    assert lost["wishart"] < 0.2 * min(lost["exponential"], lost["laplace"])


@BOTH
def test_what_is_left_of_the_trace_costs_nothing_more(adjacency):
    """A row adds its coordinates squared and the rest: of sum 1, and block by block."""
    rng = np.random.default_rng(0)
    directions = np.linalg.qr(rng.standard_normal((6, 6)))[0][:, :3]
    shared = rng.standard_normal((3, 6))
    rows = [*directions.T, *np.eye(6), *rng.standard_normal((10, 6)), np.zeros(6)]
    largest = dict.fromkeys(("l1", "l2", "frobenius"), 0.0)
    for row in rows:
        for other in rows if adjacency is REPLACE else [None]:
            first = np.vstack([shared, row])
            second = shared if other is None else np.vstack([shared, other])
            moments = [second_moment(open_rows(t), UNIT, adjacency) for t in (first, second)]
            one, two = (along_with_rest(moment, directions.T) for moment in moments)
            gap = one.value.to_float() - two.value.to_float()
            largest["l1"] = max(largest["l1"], np.linalg.norm(gap, 1) / one.sensitivity("l1"))
            largest["l2"] = max(largest["l2"], np.linalg.norm(gap, 2) / one.sensitivity("l2"))
            one, two = (compressed_with_rest(moment, directions) for moment in moments)
            gap = one.value.to_float() - two.value.to_float()
            size = np.linalg.norm(gap) / one.sensitivity("frobenius")
            largest["frobenius"] = max(largest["frobenius"], size)
    assert all(1 - 1e-3 < share <= 1 + 1e-9 for share in largest.values())


CASES = [
    case.Case(
        "wishart components",
        lambda epsilon, d, k: WishartComponents(strength=Pure(epsilon), n_components=k),
        read=case.components,
        norm="nuclear",
        sensitivity=case.NUCLEAR,
        exact=False,
        **case.PURE,
    ),
    case.Case(
        "exponential components",
        lambda mu, d, k: ExponentialComponents(strength=Gaussian(mu), n_components=k),
        read=case.components,
        norm="nuclear",
        sensitivity=case.NUCLEAR,
        exact=False,
    ),
    case.Case(
        "exponential components, pure",
        lambda epsilon, d, k: ExponentialComponents(strength=Pure(epsilon), n_components=k),
        read=case.components,
        norm="nuclear",
        sensitivity=case.NUCLEAR,
        exact=False,
        **case.PURE,
    ),
    case.Case(
        "laplace components",
        lambda epsilon, d, k: LaplaceComponents(strength=Pure(epsilon), n_components=k),
        read=case.components,
        norm="l1",
        sensitivity=case.UPPER_L1,
        worst_pair=case.all_entries,
        attained=0.95,
        **case.PURE,
    ),
]
