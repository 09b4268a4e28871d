"""Oja: the noise that the proof states, what a batch spends, and faults that would show."""

import math

import numpy as np
import pytest

from eigenveil.audit import audit
from eigenveil.exact import BasisProduct, Clip, updates
from eigenveil.exact import basis_products as moment_columns
from eigenveil.exceptions import BudgetExceededError, InvalidParameterError
from eigenveil.mechanisms import Gate, GaussianNoise, Oja, OnePassState
from eigenveil.numerics import SimulationSource, SystemSource
from eigenveil.privacy import Adjacency, Gaussian
from eigenveil.rows import Batch, open_rows
from tests.conformance import batches, case
from tests.statistics import variance_p_value

REPLACE = Adjacency.REPLACE_ONE
UNIT = Clip(row_norm=1.0, normalise=True)


def gate(cost, noise=None):
    return Gate(cost, label="x", adjacency=REPLACE, ledger=None, noise=noise or SystemSource())


@pytest.mark.parametrize(("k", "apart"), [(1, 1.0), (3, math.sqrt(2))])
def test_noise_has_the_scale_the_proof_states(k, apart):
    """False alarm 2e-6; 3 % off lies 8 standard errors out at 40,000 entries."""
    d, mu, m = 20, 0.7, 50
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((d, k)))[0]
    rows = np.random.default_rng(1).standard_normal((m, d))
    query = updates.update_sum(Batch(rows, 0), UNIT, updates.BasisProduct(basis), REPLACE)
    exact = query.value.to_float() * query.unit
    source = SimulationSource(2)
    noise = np.array(
        [
            gate(Gaussian(mu), source).draw(GaussianNoise(mu=mu), query).values - exact
            for _ in range(40_000 // (d * k))
        ]
    )
    sigma = apart / (m * mu)
    assert variance_p_value(noise.ravel(), sigma) > 1e-6
    assert variance_p_value(noise.ravel(), sigma * 1.03) < 1e-6
    assert variance_p_value(noise.ravel(), sigma * 0.97) < 1e-6


def test_every_batch_is_paid_and_none_twice():
    mechanism = Oja(strength=Gaussian(1.0), n_components=1)
    opened = gate(mechanism.cost())
    start = mechanism.start(4, UNIT, opened)
    rows = np.random.default_rng(3).standard_normal((30, 4))
    first = mechanism.step(start, Batch(rows[:10], 0), UNIT, opened)
    second = mechanism.step(first, Batch(rows[10:20], 10), UNIT, opened)
    assert second.records == 20
    with pytest.raises(BudgetExceededError):
        mechanism.step(second, Batch(rows[10:20], 10), UNIT, opened)
    with pytest.raises(InvalidParameterError, match="order of their records"):
        mechanism.step(second, Batch(rows[:10], 0), UNIT, opened)


def accused(step_on, seed=4):
    """Audit of what two steps release, on neighbours that differ in the first batch."""
    mechanism = Oja(strength=Gaussian(1.5), n_components=1)
    basis = np.eye(4)
    rows = np.repeat(basis[2:3], 4, axis=0)
    first, second = (np.vstack([rows, basis[i]]) for i in range(2))
    source = SimulationSource(seed)

    def release(table):
        opened = gate(mechanism.cost(), source)
        seen = []
        for position in range(2):
            start = OnePassState(basis, np.zeros((4, 4)))
            iterate = mechanism.step(start, step_on(table, position), UNIT, opened)
            seen.append((iterate.image @ iterate.basis.T)[np.triu_indices(4)])
        return np.concatenate(seen)

    return audit(
        lambda: release(first),
        lambda: release(second),
        cost=mechanism.cost(),
        trials=2500,
        alpha=1e-3,
    ).violated


@pytest.mark.audit
def test_a_batch_that_is_used_twice_would_be_accused():
    """Under other positions the gate lets it pass, and the audit does not: 1.5 sqrt(2) for 1.5.

    An honest second batch is accused with probability 1e-3 at most.
    """
    assert not accused(lambda table, i: Batch(table if i == 0 else 0 * table, i * len(table)))
    assert accused(lambda table, i: Batch(table, i * len(table)))


@pytest.mark.audit
def test_a_sensitivity_too_small_would_be_accused(monkeypatch):
    monkeypatch.setattr(moment_columns, "_columns_sensitivity", lambda view, adjacency: 0.9)
    assert accused(lambda table, i: Batch(table if i == 0 else 0 * table, i * len(table)))


def test_more_columns_cost_no_accuracy():
    """The noise on an entry is that of one column, but for sqrt(2), however many there are."""
    rows = np.random.default_rng(5).standard_normal((4000, 30))
    scales = []
    for k in (1, 3, 8):
        mechanism = Oja(strength=Gaussian(1.0), n_components=k)
        found = mechanism.run(open_rows(rows), UNIT, gate(mechanism.cost()))
        assert found.components.shape == (k, 30)
        assert found.components @ found.components.T == pytest.approx(np.eye(k), abs=1e-9)
        scales.append(found.noise_scale)
    assert max(scales) == pytest.approx(min(scales), rel=1e-3)


def test_numerics_are_exact():
    mechanism = Oja(strength=Gaussian(1.0), n_components=1)
    opened = gate(mechanism.cost())
    mechanism.run(open_rows(np.random.default_rng(6).standard_normal((500, 3))), UNIT, opened)
    assert opened.exact


def _updates(clip):
    def query(rows, adjacency):
        return moment_columns.moment_columns(
            Batch(rows, 0), clip, BasisProduct(batches.columns(rows.shape[1])), adjacency
        )

    return query


BATCH = 8


def _one_step_of_a_pass(mechanism, rows, adjacency, gate):
    """The estimate that one batch gives: all that it releases."""
    basis = batches.columns(rows.shape[1])
    batch, start = Batch(rows, 0), OnePassState(basis, np.zeros_like(basis))
    return mechanism.step(start, batch, case.DIRECTIONS, gate)


CASES = [
    case.Case(
        "oja",
        lambda mu, d, k: Oja(strength=Gaussian(mu), n_components=k, batch_size=BATCH),
        **batches.ONE_PASS,
        query=_updates(case.DIRECTIONS),
        run=batches.one_pass(case.DIRECTIONS),
        trials=500,
        shows=False,
    ),
    case.Case(
        "oja step",
        lambda mu, d, k: Oja(strength=Gaussian(mu), n_components=k),
        **(batches.ONE_PASS | {"read": batches.estimate}),
        query=_updates(case.DIRECTIONS),
        run=_one_step_of_a_pass,
        may_coincide=True,
    ),
    case.Case(
        "oja clipped",
        lambda mu, d, k: Oja(strength=Gaussian(mu), n_components=k, batch_size=BATCH),
        **batches.ONE_PASS,
        query=_updates(case.CLIP),
        run=batches.one_pass(case.CLIP),
        trials=500,
        shows=False,
    ),
]
