"""Whole persons as neighbours: the right weights stay silent, and every forgotten one is caught.

An audit at alpha = 1e-3 accuses a correct mechanism with at most that probability over seeds.
"""

import math

import numpy as np
import pytest

from eigenveil.audit import audit, audit_mechanism
from eigenveil.exact import Clip, count, gram, norm_counts, second_moment, total
from eigenveil.mechanisms import (
    Gate,
    GaussCov,
    GaussianNoise,
    Paired,
    PrivateMean,
    PrivateQuantile,
    Spherical,
)
from eigenveil.numerics import SimulationSource
from eigenveil.privacy import GROUP, Adjacency, Gaussian
from eigenveil.rows import ArraySource, GroupedSource, Units

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
MU, D = 1.5, 4
AXES = np.eye(D)
CLIP = Clip(row_norm=1.0)
COMPANY = [np.random.default_rng(m).standard_normal((m, D)) / 10 for m in (1, 2, 8)]
# Orthogonal rows whose outer products differ off the diagonal only.
DIAGONALS = (AXES[0] + AXES[1]) / math.sqrt(2), (AXES[0] - AXES[1]) / math.sqrt(2)
UPPER = np.triu_indices(D)


def table(row, m):
    """One person with m rows, among others; none with m = 0."""
    persons = [*COMPANY, np.repeat(np.atleast_2d(row), m, axis=0)]
    ids = np.repeat(np.arange(4), [len(rows) for rows in persons])
    return GroupedSource(ArraySource(np.vstack(persons)), ids)


def attack(mechanism, queries, read, seed, trials=800):
    left, right = queries
    return audit_mechanism(
        mechanism,
        left,
        right,
        noise=SimulationSource(seed),
        trials=trials,
        read=read,
        alpha=1e-3,
    )


def read_matrix(released):
    return released.matrix[UPPER]


def moments(first, second, adjacency=REPLACE):
    sources = [table(*first), table(*second)]
    return [second_moment(source, CLIP, adjacency) for source in sources]


@pytest.mark.parametrize(
    ("first", "second", "adjacency"),
    [
        ((DIAGONALS[0], 200), (DIAGONALS[1], 1), REPLACE),
        pytest.param((DIAGONALS[0], 9), (DIAGONALS[1], 9), REPLACE, marks=pytest.mark.audit),
        pytest.param((np.array(DIAGONALS), 1), (AXES[2], 3), REPLACE, marks=pytest.mark.audit),
        ((AXES[0], 12), (AXES[0], 0), ADD),
    ],
)
def test_a_person_is_hidden_in_a_second_moment(first, second, adjacency):
    report = attack(GaussCov(mu=MU), moments(first, second, adjacency), read_matrix, 1)
    assert not report.violated, str(report)
    assert 0 < report.epsilon_lower_bound < report.claimed_epsilon


@pytest.mark.parametrize("m", [2, 50])
def test_rows_without_their_root_are_caught(m, monkeypatch):
    """Weight 1 in a second moment: m rows move it m times as far."""
    monkeypatch.setattr(Units, "sizes", np.ones(4, dtype=np.int64))
    queries = moments((DIAGONALS[0], m), (DIAGONALS[1], m))
    assert attack(GaussCov(mu=MU), queries, read_matrix, 2).violated


def totals(first, second, adjacency=REPLACE):
    sources = [table(*first), table(*second)]
    return [total(source, CLIP, adjacency) for source in sources]


def read_mean(released):
    count = [] if released.count is None else [released.count]
    return np.append(released.offset, count)


MEAN = PrivateMean(noise=GaussianNoise(mu=MU))


@pytest.mark.parametrize(("m", "k"), [(1, 1), (25, 25), (300, 1)])
def test_a_person_is_hidden_in_a_mean(m, k):
    report = attack(MEAN, totals((AXES[0], m), (-AXES[0], k)), read_mean, 3)
    assert not report.violated, str(report)
    assert 0 < report.epsilon_lower_bound < report.claimed_epsilon


@pytest.mark.parametrize("m", [4, 50])
def test_the_root_in_place_of_the_number_is_caught_in_a_mean(m, monkeypatch):
    """Weight 1/sqrt(m), right for a second moment: m equal rows move a sum sqrt(m) times as far."""
    prepared = gram._prepared
    monkeypatch.setattr(gram, "_prepared", lambda source, clip, linear: prepared(source, clip))
    queries = totals((AXES[0], m), (-AXES[0], m))
    assert attack(MEAN, queries, read_mean, 4).violated


def counts(first, second):
    return [count(table(*side), CLIP) for side in (first, second)]


def test_persons_are_counted_not_rows(monkeypatch):
    mechanism, sides = GaussianNoise(mu=MU), ((AXES[0], 40), (AXES[0], 0))

    def read(released):
        return released.values

    report = attack(mechanism, counts(*sides), read, 5)
    assert not report.violated, str(report)
    monkeypatch.setattr(Units, "sizes", None)
    monkeypatch.setattr(
        GroupedSource, "unit_tables", lambda self: ((rows, None) for rows, _ in self.unit_chunks())
    )
    assert attack(mechanism, counts(*sides), read, 5).violated


def distances(m, k):
    return [
        norm_counts(table(row, n), Clip(row_norm=1.0), REPLACE)
        for row, n in ((AXES[0] * 0.9, m), (AXES[0] * 0.01, k))
    ]


def test_a_person_is_one_distance(monkeypatch):
    """The median of three small norms and one; with 60 rows the one would decide it."""
    mechanism = PrivateQuantile(epsilon=1.0, level=0.5)

    def run(seed):
        return audit(
            *(_runner(mechanism, query, seed) for query in distances(60, 60)),
            cost=mechanism.cost(),
            trials=2500,
            alpha=1e-3,
            continuous=False,
        )

    report = run(6)
    assert not report.violated, str(report)
    monkeypatch.setattr(Units, "sizes", None)
    assert run(6).violated


def _runner(mechanism, query, seed):
    source = SimulationSource(seed)

    def once():
        gate = Gate(
            mechanism.cost(),
            label="x",
            adjacency=REPLACE,
            ledger=None,
            noise=source,
            protects=GROUP,
        )
        return np.array([float(gate.draw(mechanism, query))])

    return once


@pytest.mark.parametrize("weighted", [True, False])
def test_a_person_is_hidden_in_pairs(weighted, monkeypatch):
    """Directions of differences: six persons at the origin, and one who is exchanged."""
    if not weighted:
        unweighted = lambda protects, sizes: Units(protects, np.ones_like(sizes))  # noqa: E731
        monkeypatch.setattr("eigenveil.rows.derived.Units", unweighted)

    def runner(row, m, seed):
        persons = [np.zeros((3, D))] * 6 + [np.repeat(row[None], m, axis=0), np.zeros((2, D))]
        ids = np.repeat(np.arange(8), [len(rows) for rows in persons])
        rows = GroupedSource(ArraySource(np.vstack(persons)), ids)
        step = Paired(inner=GaussCov(mu=MU))
        source = SimulationSource(seed)

        def once():
            gate = Gate(
                step.cost(),
                label="x",
                adjacency=REPLACE,
                ledger=None,
                noise=source,
                protects=GROUP,
            )
            return read_matrix(step.run(rows, CLIP, gate).inner)

        return once

    sides = runner(2 * DIAGONALS[0], 30, 7), runner(2 * DIAGONALS[1], 5, 8)
    report = audit(*sides, cost=Gaussian(MU), trials=700, alpha=1e-3)
    assert report.violated != weighted, str(report)


@pytest.mark.audit
def test_a_person_is_hidden_in_components():
    """Through a whole mechanism that needs no bound: rows of any length."""
    mechanism = Spherical(strength=Gaussian(MU), n_components=1)

    def runner(row, m, seed):
        rows, source = table(row, m), SimulationSource(seed)

        def once():
            gate = Gate(
                mechanism.cost(),
                label="x",
                adjacency=REPLACE,
                ledger=None,
                noise=source,
                protects=GROUP,
            )
            released = mechanism.run(rows, CLIP, gate)
            direction = released.components[0]
            return np.append(np.outer(direction, direction)[UPPER], released.eigenvalues)

        return once

    sides = runner(1e6 * AXES[0], 400, 9), runner(AXES[1], 1, 10)
    report = audit(*sides, cost=Gaussian(MU), trials=700, alpha=1e-3)
    assert not report.violated, str(report)
