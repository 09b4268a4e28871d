"""The projector's sensitivity, the test before it, and what a refusal costs."""

import math
from dataclasses import replace

import numpy as np
import pytest

from eigenveil.audit import audit
from eigenveil.exact import Clip, eigengap, projector, projector_sensitivity, second_moment
from eigenveil.exceptions import GapTooSmallError, InvalidParameterError, UnsupportedNotionError
from eigenveil.mechanisms import AnalyzeGauss, Gate, GaussCov, GaussianNoise, release
from eigenveil.numerics import SimulationSource
from eigenveil.papers.kpca import GapProjector, PrivateGap, ProjectorStep
from eigenveil.privacy import (
    Adjacency,
    Budget,
    Gaussian,
    Ledger,
    delta_of,
    gaussian_delta,
    strength,
)
from eigenveil.rows import open_rows
from tests.conformance import case
from tests.statistics import variance_p_value

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
BOTH = pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)
CLIP = Clip(row_norm=1.0)


def bounded(query, k, gap):
    return projector(query, k, projector_sensitivity(gap, query.adjacency))


def moment(rows, adjacency):
    return second_moment(open_rows(rows), CLIP, adjacency)


def reach(adjacency):
    return 2.0 if adjacency is REPLACE else 1.0


def gap_of(query, k):
    values = np.linalg.eigvalsh(query.value.to_float())
    return float(values[-k] - values[-k - 1])


def run(mechanism, rows, adjacency, seed=0, ledger=None, clip=CLIP):
    noise = SimulationSource(seed)
    gate = Gate(mechanism.cost(), label="x", adjacency=adjacency, ledger=ledger, noise=noise)
    return mechanism.run(open_rows(rows), clip, gate)


def turning_pair(g, adjacency):
    """Tables whose first has the gap g and whose projectors are D(g) apart."""
    angle = math.acos(-reach(adjacency) / g)
    y = np.array([math.cos(angle / 2), math.sin(angle / 2)])
    if adjacency is ADD:
        table = np.tile([1.0, 0.0], (g, 1))
        return table, np.vstack([table, y])
    x = np.array([-y[1], y[0]])  # x and y together are the identity: the gap is that of the rest
    table = np.vstack([np.tile([1.0, 0.0], (g, 1)), y, x])
    return table, np.vstack([table[:-1], y])


def change(first, second, adjacency, k, gap):
    """Distance of two projectors over the declared sensitivity."""
    queries = [bounded(moment(rows, adjacency), k, gap) for rows in (first, second)]
    distance = np.linalg.norm(queries[0].value.to_float() - queries[1].value.to_float())
    return distance / queries[0].sensitivity("frobenius")


@BOTH
def test_the_sensitivity_is_never_exceeded(adjacency):
    rng = np.random.default_rng(0)
    tried = 0
    for _ in range(400):
        d = int(rng.integers(2, 6))
        k = int(rng.integers(1, d))
        axes = np.repeat(np.eye(d), rng.integers(0, 12, d), axis=0)
        rows = np.vstack([axes, rng.standard_normal((2, d)) / 3])
        near = rng.standard_normal((2, d)) + 3 * np.eye(d)[rng.integers(0, d, 2)]
        row, other = near / np.linalg.norm(near, axis=1, keepdims=True)
        first = np.vstack([rows, row])
        second = rows if adjacency is ADD else np.vstack([rows, other])
        for one, two in ((first, second), (second, first)):
            gap = gap_of(moment(one, adjacency), k)
            if gap > 1.001 * reach(adjacency):
                tried += 1
                assert change(one, two, adjacency, k, gap) <= 1 + 1e-6
    assert tried > 200


@BOTH
@pytest.mark.parametrize("g", [3, 10, 100])
def test_the_sensitivity_is_attained(adjacency, g):
    """So a bound 2 % smaller would be exceeded."""
    first, second = turning_pair(g, adjacency)
    gap = gap_of(moment(first, adjacency), 1)
    assert gap == pytest.approx(g, abs=1e-3)
    assert change(first, second, adjacency, 1, gap) > 0.999
    bound = bounded(moment(first, adjacency), 1, gap).sensitivity("frobenius")
    c = reach(adjacency)
    assert bound == pytest.approx(math.sqrt(1 - math.sqrt(1 - (c / gap) ** 2)), rel=1e-9)


@BOTH
def test_no_bound_without_a_gap(adjacency):
    query = moment(np.eye(3), adjacency)
    for gap in (reach(adjacency), 0.5, 0.0 + 1e-9, math.nan):
        with pytest.raises(InvalidParameterError, match="gap exceeds"):
            bounded(query, 1, gap)


@pytest.mark.audit
@BOTH
def test_the_audit_of_the_projector(adjacency):
    """Silent as it stands (false alarm 1e-3); noise for half of the sensitivity is caught."""
    tables = turning_pair(30, adjacency)
    queries = [bounded(moment(rows, adjacency), 1, 29.9) for rows in tables]
    step = ProjectorStep(mu=4.0, delta=1e-9, n_components=1)

    def reports(factor):
        source = SimulationSource(1)

        def side(query):
            bound = factor * query.sensitivity("frobenius")
            changed = replace(query, sensitivities={"frobenius": bound})
            u = release(step, changed, ledger=None, noise=source)[0]
            return np.outer(u, u)[np.triu_indices(2)]

        sides = (lambda: side(queries[0]), lambda: side(queries[1]))
        return audit(*sides, cost=Gaussian(step.mu), trials=1200, alpha=1e-3)

    assert not reports(1.0).violated
    assert reports(0.5).violated


class Recording(Gate):
    def draw(self, step, query):
        answer = super().draw(step, query)
        self.steps = [*getattr(self, "steps", []), (step, query, answer)]
        return answer


@BOTH
def test_the_projector_gets_the_noise_of_the_released_gap(adjacency):
    """The bound of step 3 is that of the lower limit of step 1, in units of the ball."""
    rows = np.repeat(np.eye(3), [900, 40, 3], axis=0)
    mechanism = GapProjector(strength=Gaussian(2.0), delta=1e-5, n_components=1)
    noise = SimulationSource(0)
    gate = Recording(mechanism.cost(), label="x", adjacency=adjacency, ledger=None, noise=noise)
    mechanism.run(open_rows(5.0 * rows), Clip(row_norm=5.0), gate)
    (_, first, gap), (step, second, directions), (_, third, _) = gate.steps
    lower = gap.lower / first.unit
    # Phi^-1(1 - 1e-6) is 4.7534
    margin = 4.7534 * reach(adjacency) / (2.0 * math.sqrt(0.1))
    assert lower == pytest.approx(gap.value / first.unit - margin, abs=1e-2)
    c = reach(adjacency)
    expected = math.sqrt(1 - math.sqrt(1 - (c / lower) ** 2))
    assert second.sensitivity("frobenius") == pytest.approx(expected, rel=1e-6)
    assert step.mu == pytest.approx(2.0 * math.sqrt(0.8))
    assert third.value.units.shape == (2, 2)  # and what is left of the trace
    assert np.linalg.norm(directions) == pytest.approx(1.0)


def test_the_law_of_the_projector_noise():
    """GaussCov's, at that sensitivity: 5 % of the scale are 7 standard errors at 9,000 entries."""
    query = bounded(moment(np.repeat(np.eye(30), [60] + [1] * 29, axis=0), REPLACE), 1, 50.0)
    draws = [
        release(GaussCov(mu=2.0), query, ledger=None, noise=SimulationSource(s)).matrix
        for s in range(20)
    ]
    value = query.value.to_float()
    weights = np.where(np.eye(30) > 0, 1.0, math.sqrt(2))
    upper = np.triu_indices(30)
    noise = np.concatenate([((m - value) * weights)[upper] for m in draws])
    scale = math.sqrt(1 - math.sqrt(1 - (2 / 50) ** 2)) / 2
    assert variance_p_value(noise, scale) > 1e-6
    assert variance_p_value(noise, 0.95 * scale) < 1e-6
    assert variance_p_value(noise, 1.05 * scale) < 1e-6


@BOTH
@pytest.mark.parametrize(
    ("rows", "k"),
    [
        (np.repeat(np.eye(4), 100, axis=0), 2),  # equal eigenvalues
        (np.eye(4)[:1], 1),
        (np.zeros((10, 3)), 1),
        (np.repeat(np.eye(4), [5, 1, 1, 1], axis=0), 1),  # a gap within the margin
    ],
    ids=["equal", "one row", "zero", "small"],
)
def test_a_refusal_is_charged_and_says_what_to_try(adjacency, rows, k, tmp_path):
    """Refuses but with probability 1e-5."""
    ledger = Ledger.create(tmp_path / "l", epsilon=3.0, delta=1e-4, adjacency=adjacency)
    mechanism = GapProjector(strength=Gaussian(0.5), delta=1e-5, n_components=k)
    with pytest.raises(GapTooSmallError, match="analyze-gauss") as refusal:
        run(mechanism, rows, adjacency, ledger=ledger)
    assert not any(character.isdigit() for character in str(refusal.value))
    assert "\n" not in str(refusal.value)
    (entry,) = ledger.entries
    assert entry.cost == mechanism.cost()


class Unequal(GapProjector):
    """A gap that is far better known than the projector will be."""

    gap = PrivateGap(noise=GaussianNoise(mu=20.0), beta=1e-4)
    projector = ProjectorStep(mu=0.5, delta=1e-4, n_components=1)
    values = GaussCov(mu=1.0)


def test_a_gap_that_is_safe_but_drowned_is_refused():
    """Noise for a gap of about 11 at mu = 0.5 drowns an eigenvalue of 1 in 400 columns, not in 3:
    the limits are at 40 and 3.5.
    """
    rows = np.tile(np.eye(400)[0], (12, 1))
    mechanism = Unequal(n_components=1)
    with pytest.raises(GapTooSmallError):
        run(mechanism, rows, REPLACE)
    assert run(mechanism, rows[:, :3], REPLACE).components.shape == (1, 3)
    for gap, drowned in ((39.0, True), (41.0, False)):
        query = bounded(moment(rows, REPLACE), 1, gap)
        assert (mechanism.projector.reliability(query) == 0) is drowned


def test_all_components_are_refused_before_the_charge(tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=3.0, delta=1e-4)
    for k in (3, 4):
        with pytest.raises(InvalidParameterError, match="fewer components than columns"):
            run(
                GapProjector(strength=Gaussian(0.5), delta=1e-5, n_components=k),
                np.eye(3),
                REPLACE,
                ledger=ledger,
            )
    assert ledger.entries == ()


def test_only_for_epsilon_and_delta():
    def cost_of(mu):
        return GapProjector(strength=Gaussian(mu), delta=1e-6, n_components=2).cost()

    mu = strength(Budget(epsilon=1.0, delta=1e-6), cost_of, "gap-projector")
    assert delta_of(cost_of(mu), 1.0) <= 1e-6
    assert gaussian_delta(mu, 1.0) == pytest.approx(0.9e-6, rel=1e-6)
    for budget in (Budget(rho=0.1), Budget(epsilon=1.0)):
        with pytest.raises(UnsupportedNotionError):
            strength(budget, cost_of, "gap-projector")


def test_the_gap_fails_as_often_as_is_paid_for():
    mechanism = GapProjector(strength=Gaussian(1.0), delta=1e-5, n_components=1)
    assert mechanism.gap.beta == mechanism.projector.delta == pytest.approx(1e-6)


@BOTH
def test_components_are_ordered_and_near(adjacency):
    """n = 20,000, spikes of 20, 12 and 8: the subspace, and single directions by line 4."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((20_000, 20))
    rows[:, :3] *= np.sqrt([21.0, 13.0, 9.0])
    clip = Clip(row_norm=10.0)
    budget = Budget(epsilon=2.0, delta=1e-6)
    mu = strength(
        budget,
        lambda m: GapProjector(strength=Gaussian(m), delta=1e-6, n_components=3).cost(),
        "gap-projector",
    )
    released = run(
        GapProjector(strength=Gaussian(mu), delta=1e-6, n_components=3), rows, adjacency, clip=clip
    )
    assert released.components @ released.components.T == pytest.approx(np.eye(3), abs=1e-9)
    assert np.linalg.norm(released.components[:, 3:]) < 0.1
    assert (np.abs(np.diag(released.components[:, :3])) > 0.98).all()
    scale = 1.0 if adjacency is REPLACE else 20_000
    plain = run(AnalyzeGauss(strength=Gaussian(50.0), n_components=3), rows, adjacency, clip=clip)
    assert released.eigenvalues / scale == pytest.approx(plain.eigenvalues / scale, rel=0.1)
    assert released.trace / scale == pytest.approx(plain.trace / scale, rel=0.1)
    assert (released.reliability > 0.99).all()  # what the public noise leaves of a projector


def test_no_search_from_a_public_start_before_the_noise(monkeypatch):
    """A leading eigenvector orthogonal to the start of the solver is found all the same."""
    from eigenveil.numerics import spectral

    d = 300
    monkeypatch.setattr(spectral, "_TIGHT_SIZE", 100)
    start = np.cos(np.outer(np.arange(d) ** 2.0, np.arange(1, 4) ** 0.5))
    basis = np.linalg.qr(np.column_stack([start, np.eye(d)]))[0]
    hidden, other = basis[:, 4], np.linalg.qr(start)[0][:, 0]
    rows = np.vstack([np.tile(hidden, (60, 1)), np.tile(other, (20, 1))])
    found = projector(moment(rows, REPLACE), 1, 1.0).value.to_float()
    assert hidden @ found @ hidden > 0.999


def _tested(mechanism, rows, adjacency, gate):
    """A refusal is an outcome like any other."""
    rows = case.with_a_gap(rows)
    try:
        return case.projector(case.procedure(mechanism, rows, adjacency, gate))
    except GapTooSmallError:
        return case.upper(np.zeros((rows.shape[1], rows.shape[1])))


CASES = [
    case.Case(
        "gap-projector",
        lambda mu, d, k: GapProjector(
            strength=Gaussian(mu), delta=1e-3, n_components=min(k, max(1, d - 1))
        ),
        query=lambda rows, adjacency: eigengap(case.moment(case.with_a_gap(rows), adjacency), 1),
        run=_tested,
        read=lambda released: released,
        company=case.one_axis,
        norm="l2",
        sensitivity=case.NUCLEAR,
        strength_of=lambda cost: cost.parts[0].mu,
        ledger={"epsilon": 50.0, "delta": 0.5},
        may_coincide=True,
        exact=False,
        trials=1000,
        shows=False,
    ),
]
