"""The auditor stays silent on the truth and catches every planted fault."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from eigenveil.audit import audit, audit_mechanism
from eigenveil.exact import (
    GAUSSIAN,
    LAPLACE,
    Clip,
    add_noise,
    grid_exponent,
    second_moment,
    two_sided_wishart,
)
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms import GaussCov, release
from eigenveil.numerics import FixedPoint, SimulationSource, normals
from eigenveil.papers.covrev import draw_bingham
from eigenveil.privacy import Adjacency, Gaussian, Pure
from eigenveil.rows import open_rows

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
MU, D = 1.5, 10
UPPER = np.triu_indices(D)
COMPANY = np.random.default_rng(0).standard_normal((5, D)) / 10
AXES = np.eye(D)
# Orthogonal rows whose outer products differ off the diagonal only.
DIAGONALS = (AXES[0] + AXES[1]) / math.sqrt(2), (AXES[0] - AXES[1]) / math.sqrt(2)


def query(row, adjacency=REPLACE, norm=1.0):
    rows = COMPANY if row is None else np.vstack([row, COMPANY])
    return second_moment(open_rows(rows), Clip(row_norm=norm), adjacency)


def read(released):
    return released.matrix[UPPER]


def difference(left, right):
    return (left.value.to_float() - right.value.to_float())[UPPER]


@dataclass(frozen=True)
class QuietNoise:
    """Noise smaller than declared by a factor."""

    mu: float
    factor: float
    name = "quiet noise"
    exact = True

    def cost(self):
        return Gaussian(self.mu)

    def perturb(self, query, noise):
        return GaussCov(mu=self.mu / self.factor).perturb(query, noise)


@dataclass(frozen=True)
class QuietOffDiagonal:
    """The papers' isotropy misread: off-diagonal noise a further sqrt(2) too small."""

    mu: float
    name = "quiet off-diagonal"
    exact = True

    def cost(self):
        return Gaussian(self.mu)

    def perturb(self, query, noise):
        right = GaussCov(mu=self.mu).perturb(query, noise)
        value = query.value.to_float() * query.unit
        off = value + (right.matrix - value) / math.sqrt(2)
        np.fill_diagonal(off, right.matrix.diagonal())
        return replace(right, matrix=off)


def run(mechanism, pair, seed, trials, *, know_direction=True, alpha=1e-3):
    left, right = pair
    return audit_mechanism(
        mechanism,
        left,
        right,
        noise=SimulationSource(seed),
        trials=trials,
        read=read,
        direction=difference(left, right) if know_direction else None,
        alpha=alpha,
    )


@pytest.mark.parametrize("know_direction", [True, pytest.param(False, marks=pytest.mark.audit)])
def test_silent_on_the_correct_mechanism(know_direction):
    """Ten audits at alpha = 1e-3: a false alarm over all seeds has probability 1e-2."""
    pairs = [
        tuple(map(query, DIAGONALS)),
        (query(AXES[0]), query(AXES[1])),
        (query(AXES[0]), query(np.zeros(D))),
        (query(AXES[0], ADD), query(None, ADD)),
        (query(AXES[0] * 1e9), query(AXES[0] * 1e-9)),
    ]
    for seed, pair in enumerate(pairs):
        report = run(GaussCov(mu=MU), pair, seed, 400, know_direction=know_direction)
        assert not report.violated, str(report)


@pytest.mark.audit
def test_the_lower_bound_approaches_the_truth():
    report = run(GaussCov(mu=MU), tuple(map(query, DIAGONALS)), 1, 8000)
    # mu = 1.5 is epsilon = 7.05 at delta = 1e-5; sampling can only show the middle of the curve.
    assert 2.0 < report.epsilon_lower_bound < report.claimed_epsilon
    assert "no violation found" in str(report)


@pytest.mark.parametrize(
    ("less", "trials", "know_direction"),
    [
        (0.6, 1000, True),
        pytest.param(0.8, 5000, True, marks=pytest.mark.audit),
        pytest.param(0.8, 5000, False, marks=pytest.mark.audit),
    ],
)
def test_catches_noise_that_is_too_small(less, trials, know_direction):
    pair = tuple(map(query, DIAGONALS))
    report = run(QuietNoise(MU, less), pair, 2, trials, know_direction=know_direction)
    assert report.violated
    assert str(report).startswith("VIOLATED")


def test_catches_a_sensitivity_without_its_sqrt_two():
    pair = tuple(replace(query(row), sensitivities={"frobenius": 1.0}) for row in DIAGONALS)
    assert run(GaussCov(mu=MU), pair, 3, 2000).violated


def test_catches_off_diagonal_noise_too_small():
    assert run(QuietOffDiagonal(MU), tuple(map(query, DIAGONALS)), 4, 2000).violated


def test_catches_clipping_at_the_data_s_own_maximum():
    """The bound follows the largest row, so noise and scale tell whether it is there."""

    def runner(row):
        rows = np.vstack([row, COMPANY])
        bounded = query(row, norm=float(np.linalg.norm(rows, axis=1).max()))
        source = SimulationSource(5)
        return lambda: read(release(GaussCov(mu=MU), bounded, ledger=None, noise=source))

    report = audit(runner(AXES[0] * 20), runner(AXES[0]), cost=Gaussian(MU), trials=60, alpha=1e-3)
    assert report.violated


@pytest.mark.parametrize("paired", [False, True])
def test_catches_a_reused_seed(paired):
    """A fixed seed for all runs, or the same seeds on both tables."""

    def runner(row):
        value = query(row).value
        seeds = iter(range(1000))
        scale = math.sqrt(2) / MU

        def once():
            source = SimulationSource(next(seeds) if paired else 9)
            flat = FixedPoint(value.units[UPPER], value.exponent)
            grid = grid_exponent(scale, value.exponent)
            return add_noise(flat, scale, source, law=GAUSSIAN, grid=grid).to_float()

        return once

    report = audit(runner(AXES[0]), runner(AXES[1]), cost=Gaussian(MU), trials=16)
    assert report.duplicates
    assert report.violated
    assert report.epsilon_lower_bound == math.inf
    assert "noise was reused" in str(report)


def test_catches_division_by_a_private_count():
    """Dividing sum and noise by the exact n puts n into the scale of the output."""

    def runner(n):
        bounded = second_moment(open_rows(np.tile(AXES[0], (n, 1))), Clip(row_norm=1.0), ADD)
        source = SimulationSource(6)
        return lambda: read(release(GaussCov(mu=MU), bounded, ledger=None, noise=source)) / n

    report = audit(runner(1), runner(2), cost=Gaussian(MU), trials=200, alpha=1e-3)
    assert report.violated


def test_catches_a_coordinate_without_noise():
    """An exact count beside a noisy matrix."""

    def runner(row, seed):
        bounded = query(row, ADD)
        source = SimulationSource(seed)
        rows = len(COMPANY) + (row is not None)
        return lambda: np.append(
            read(release(GaussCov(mu=MU), bounded, ledger=None, noise=source)), rows
        )

    report = audit(runner(AXES[0], 7), runner(None, 8), cost=Gaussian(MU), trials=100, alpha=1e-3)
    assert report.violated


def test_a_readout_with_few_values_is_no_sign_of_reused_noise():
    pair = tuple(map(query, DIAGONALS))
    source = SimulationSource(10)
    sides = [
        lambda side=side: np.round(
            read(release(GaussCov(mu=MU), side, ledger=None, noise=source))[:4] / 5
        )
        for side in pair
    ]
    assert audit(*sides, cost=Gaussian(MU), trials=200, alpha=1e-3).duplicates
    assert not audit(*sides, cost=Gaussian(MU), trials=200, alpha=1e-3, continuous=False).violated


def test_one_free_number_shown_three_times_may_repeat_by_chance():
    """At d = 1 component, eigenvalue and trace are one number on a grid of 2**20 points."""
    bounded = second_moment(open_rows(np.ones((3, 1))), Clip(row_norm=1.0), REPLACE)
    source = SimulationSource(11)

    def once():
        value = release(GaussCov(mu=MU), bounded, ledger=None, noise=source).matrix[0, 0]
        return np.array([1.0, value, value])

    assert not audit(once, once, cost=Gaussian(MU), trials=2000, alpha=1e-3).violated


def test_other_costs_are_tested_against_their_own_curve():
    """Noise-free randomised response at twice the declared epsilon is caught; the right one not."""

    def runner(mean, seed):
        bits = np.random.default_rng(seed)
        return lambda: (bits.random(3) < mean).astype(float)[:1]

    likely = math.exp(1.0) / (1 + math.exp(1.0))
    sides = runner(likely, 1), runner(1 - likely, 2)
    assert not audit(*sides, cost=Pure(1.0), trials=4000, alpha=1e-3).violated
    sides = runner(likely, 3), runner(1 - likely, 4)
    assert audit(*sides, cost=Pure(0.5), trials=4000, alpha=1e-3).violated


def pure_audit(left, right, epsilon, trials=8000):
    return audit(left, right, cost=Pure(epsilon), trials=trials, alpha=1e-3)


@pytest.mark.parametrize(
    ("factor", "sides", "caught"),
    [(1.0, 2, False), (2.0, 2, True), (1.0, 1, True)],
    ids=["right", "c too large", "one-sided"],
)
def test_faults_of_the_wishart_mechanism(factor, sides, caught):
    """A row more or less in two columns, read along it or by the support of one-sided noise.

    The one-sided noise of the literature only adds: a matrix below the table's own cannot occur.
    """
    epsilon = 1.0
    row = np.diag([1.0, 0.0])
    c = factor * epsilon

    def runner(moment, seed):
        source = SimulationSource(seed)

        def once():
            if sides == 2:
                return (moment + two_sided_wishart(2, c, source))[:1, 0]
            root = normals(source, (2, 3)) / math.sqrt(2 * c)
            return np.linalg.eigvalsh(moment + root @ root.T - row)[:1]

        return once

    report = pure_audit(runner(row, 1), runner(np.zeros((2, 2)), 2), epsilon)
    assert report.violated == caught


@pytest.mark.parametrize(("factor", "caught"), [(1.0, False), (3.0, True)], ids=["right", "wrong"])
def test_faults_of_the_exponential_mechanism(factor, caught):
    """An exponent three times too large, on two tables of one row whose normalisers agree."""
    epsilon = 2.0

    def runner(moment, seed):
        source = SimulationSource(seed)
        return lambda: draw_bingham(moment, factor * epsilon / 2, source)[:1] ** 2

    sides = runner(np.diag([1.0, 0.0]), 1), runner(np.diag([0.0, 1.0]), 2)
    assert pure_audit(*sides, epsilon, trials=2500).violated == caught


@pytest.mark.parametrize("fault", [None, "quiet queries", "exact threshold"])
def test_faults_of_the_sparse_vector_technique(fault):
    """Nineteen queries that go up while the last goes down: the worst neighbours there are."""
    epsilon = 1.0
    scale = {None: 4.0, "quiet queries": 0.5, "exact threshold": 1.0}[fault] / epsilon
    zero = FixedPoint(np.zeros(1, dtype=np.int64), -20)

    def runner(first, last, seed):
        source = SimulationSource(seed)
        queries = FixedPoint(np.array([first] * 19 + [last]) << 20, -20)

        def once():
            noisy = add_noise(queries, scale, source, law=LAPLACE, grid=-16).to_float()
            threshold = 2.5
            if fault != "exact threshold":
                noise = add_noise(zero, 2 / epsilon, source, law=LAPLACE, grid=-16)
                threshold += float(noise.to_float()[0])
            above = np.flatnonzero(noisy >= threshold)
            return np.array([float(above.size > 0 and above[0] == 19)])

        return once

    report = pure_audit(runner(0, 1, 1), runner(1, 0, 2), epsilon)
    assert report.violated == (fault is not None)


def test_too_few_trials_are_refused():
    with pytest.raises(InvalidParameterError, match="16 trials"):
        audit(lambda: np.zeros(3), lambda: np.zeros(3), cost=Gaussian(1.0), trials=15)
