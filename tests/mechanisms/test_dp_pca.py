"""DP-PCA and deflation: what they find, what they cost, what they refuse."""

from dataclasses import replace
from functools import cached_property

import numpy as np
import pytest

from eigenveil.exact import Clip, total
from eigenveil.exceptions import (
    BudgetExceededError,
    InvalidDataError,
    InvalidParameterError,
)
from eigenveil.mechanisms import GaussianNoise
from eigenveil.papers.dppca import DPPCA, ShuffledOja
from eigenveil.papers.kpca import Deflation, printed_cost
from eigenveil.privacy import Adjacency, Gaussian, Ledger, Pure
from eigenveil.rows import Batch, MatrixSource, open_rows
from tests.conformance import batches, case
from tests.mechanisms.test_spread import gate

CLIP = Clip(row_norm=2.0)
D = 4


def spiked(n, sigma=0.1, seed=0):
    """+-v and noise; the leading direction of xx' is v."""
    rng = np.random.default_rng(seed)
    rows = sigma * rng.standard_normal((n, D))
    rows[:, 0] += rng.choice([-1.0, 1.0], n)
    return rows


def off(components, k=1):
    """Frobenius distance of projectors from the leading axes."""
    return float(np.linalg.norm(components.T @ components - np.diag(np.arange(D) < k)))


@pytest.mark.parametrize("composition", ["basic", "advanced"])
def test_one_component(composition):
    mechanism = DPPCA(strength=Pure(1.0), delta=0.01, composition=composition)
    rows = spiked(15 * mechanism.first_batch(D))
    for seed in range(3):
        found = mechanism.run(open_rows(rows), CLIP, gate(mechanism, seed))
        assert off(found.components) < 0.1
        assert found.eigenvalues[0] == pytest.approx(1.0, abs=0.15)
        assert found.reliability[0] > 0.9


def test_all_batches_cost_what_one_does():
    mechanism = DPPCA(strength=Pure(1.0), delta=0.01)
    assert mechanism.cost() == printed_cost(1.0, 0.01)
    allotment = gate(mechanism)
    rows = open_rows(spiked(mechanism.needed_records(D)))
    mechanism.run(rows, CLIP, allotment)
    query = total(rows, CLIP, Adjacency.REPLACE_ONE)
    with pytest.raises(BudgetExceededError, match="more than its share"):
        allotment.draw(GaussianNoise(mu=1e-3), query)


def test_halves_that_overlap_are_refused(monkeypatch):
    """A planted fault: the spread sees a record of the mean's half."""

    def overlapping(batch):
        middle, size = len(batch.records) // 2, len(batch.records)
        return batch.slice(0, middle + 1), batch.slice(middle, size)

    monkeypatch.setattr("eigenveil.papers.kpca.truncated_mean.halves", overlapping)
    mechanism = DPPCA(strength=Pure(1.0), delta=0.01)
    with pytest.raises(BudgetExceededError, match="more than its share"):
        mechanism.run(open_rows(spiked(mechanism.needed_records(D))), CLIP, gate(mechanism))


def test_what_is_left_at_the_end_of_a_stream_is_not_used():
    mechanism = DPPCA(
        strength=Pure(1.0),
        delta=0.01,
        batch_size=DPPCA(strength=Pure(1.0), delta=0.01).first_batch(D),
    )
    rows = spiked(3 * mechanism.first_batch(D) + 5)
    found = [
        mechanism.run(open_rows(iter([part])), CLIP, gate(mechanism)).components
        for part in (rows, rows[:-5])
    ]
    assert np.array_equal(*found)


def test_refusals_come_before_the_charge(tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=10.0, delta=0.5, adjacency=Adjacency.REPLACE_ONE)
    mechanism = DPPCA(strength=Pure(1.0), delta=0.01)
    needed = mechanism.needed_records(D)
    with pytest.raises(InvalidDataError, match=f"needs {needed} records"):
        mechanism.run(open_rows(spiked(needed - 1)), CLIP, gate(mechanism, ledger=ledger))
    small = DPPCA(strength=Pure(1.0), delta=0.01, batch_size=100)
    with pytest.raises(InvalidParameterError, match=f"batches of {needed // 9} records"):
        small.run(open_rows(spiked(500)), CLIP, gate(small, ledger=ledger))
    assert ledger.entries == ()
    with pytest.raises(InvalidParameterError, match="'deflation' or 'adaptive-oja'"):
        DPPCA(strength=Pure(1.0), delta=0.01, n_components=2)
    with pytest.raises(InvalidParameterError, match=r"epsilon = 1\.8"):
        DPPCA(strength=Pure(2.0), delta=0.01, composition="advanced").cost()


def test_a_direction_beside_others():
    mechanism = DPPCA(strength=Pure(1.0), delta=0.01)
    n = 15 * mechanism.first_batch(D)
    rows = spiked(n, 0.05)
    rows[:, 1] += np.random.default_rng(1).choice([-0.7, 0.7], n)
    batch = Batch(rows, 0)
    away = np.eye(D)[:1]
    vector, value, deviation = mechanism.direction(batch, CLIP, gate(mechanism), away)
    assert abs(vector[0]) < 1e-12
    assert abs(vector[1]) > 0.98
    assert value == pytest.approx(0.49, abs=0.1)
    assert 0 < deviation < 0.05
    assert np.linalg.norm(vector) == pytest.approx(1.0)


class Told(DPPCA):
    """A method for one component that remembers what it was given."""

    name = "told"
    given = cached_property(lambda self: [])

    def cost(self):
        return Gaussian(1.0)

    def check_records(self, d, n, rows_each=1):
        if n < 3:
            raise InvalidDataError("needs 3 records")

    def direction(self, records, clip, gate, away):
        self.given.append((records.records, away.copy()))
        return np.eye(D)[len(away)] + 0.01, 1.0 / (1 + len(away)), 0.01


def test_every_component_has_records_of_its_own():
    told = Told()
    mechanism = Deflation(inner=told, n_components=3)
    found = mechanism.run(open_rows(spiked(100)), CLIP, gate(mechanism))
    assert [records for records, _ in told.given] == [range(33), range(33, 66), range(66, 99)]
    assert [len(away) for _, away in told.given] == [0, 1, 2]
    for _, away in told.given:
        assert np.allclose(away @ away.T, np.eye(len(away)), atol=1e-14)
    assert np.allclose(found.components @ found.components.T, np.eye(3), atol=1e-14)
    assert found.eigenvalues.tolist() == [1.0, 1 / 2, 1 / 3]
    assert mechanism.cost() == told.cost()


def test_shuffled_passes_one_after_the_other():
    """k-DP-Ojas; two random directions are further off with probability above 0.95."""
    n = 80_000
    rows = spiked(n, 0.05)
    rows[:, 1] += np.random.default_rng(1).choice([-0.7, 0.7], n)
    inner = ShuffledOja(strength=Pure(2.0), delta=0.01, n_records=n // 2)
    mechanism = Deflation(inner=inner, n_components=2)
    found = mechanism.run(open_rows(rows), CLIP, gate(mechanism))
    assert off(found.components, 2) < 0.3
    assert found.eigenvalues == pytest.approx([1.0, 0.49], abs=0.2)
    assert found.noise_scale > 0
    other = Deflation(inner=inner, n_components=3)
    with pytest.raises(InvalidDataError, match="give their number"):
        other.run(open_rows(rows), CLIP, gate(other))


def planes(n, seed=0):
    """Matrices diag(1, 0.5, 0, 0) + zz', as an iterator of chunks."""
    z = 0.05 * np.random.default_rng(seed).standard_normal((n, D))
    return np.diag([1.0, 0.5, 0.0, 0.0]) + z[:, :, None] * z[:, None, :]


def test_two_components_of_matrices():
    inner = DPPCA(strength=Pure(1.0), delta=0.01, composition="basic")
    mechanism = Deflation(inner=inner, n_components=2)
    source = MatrixSource([planes(2 * 15 * inner.first_batch(D))], D)
    found = mechanism.run(source, CLIP, gate(mechanism))
    assert off(found.components, 2) < 0.1
    assert found.eigenvalues == pytest.approx([1.0, 0.5], abs=0.1)
    assert (found.reliability == 0).all()  # not known


class Short(Told):
    """The same, of rows that are shorter than 1."""

    def direction(self, records, clip, gate, away):
        direction, value, deviation = super().direction(records, clip, gate, away)
        return direction, 0.3 * value, deviation


def test_shares_of_unit_rows_near_the_centre_are_those_of_all_variance():
    """These rows are shorter, so that the trace is no longer 1."""
    near = Clip(row_norm=1.0, normalise=True, unit_distance=5.0)
    each = Clip(row_norm=1.0, normalise=True)
    everything = Deflation(inner=Short(), n_components=D)
    two = Deflation(inner=Short(), n_components=2)
    rows = spiked(400)
    assert everything.run(open_rows(rows), near, gate(everything)).shares.sum() == pytest.approx(1)
    for clip in (near, each):
        assert two.run(open_rows(rows), clip, gate(two)).trace == 1.0  # the largest it can be


def test_deflation_needs_to_know_how_many_records_there_are(tmp_path):
    mechanism = Deflation(inner=Told(), n_components=2)
    ledger = Ledger.create(tmp_path / "l", rho=10.0, adjacency=Adjacency.REPLACE_ONE)
    with pytest.raises(InvalidDataError, match="must know their number"):
        mechanism.run(open_rows(iter([spiked(10)])), CLIP, gate(mechanism))
    with pytest.raises(InvalidDataError, match="needs 3 records"):
        mechanism.run(open_rows(spiked(5)), CLIP, gate(mechanism, ledger=ledger))
    assert ledger.entries == ()
    with pytest.raises(InvalidDataError, match="a record at least for every component"):
        mechanism.run(open_rows(spiked(1)), CLIP, gate(mechanism))
    beyond = Deflation(inner=Told(), n_components=5)
    with pytest.raises(InvalidParameterError, match="no more than 4 components"):
        beyond.run(open_rows(spiked(10)), CLIP, gate(beyond))


def _dp_pca(epsilon, d, k):
    mechanism = DPPCA(strength=Pure(epsilon), delta=0.1)
    size = batches.with_truncated(mechanism).mean.needed_records(d)
    return batches.with_truncated(replace(mechanism, batch_size=size))


def _one_part_each(mechanism, rows, adjacency, gate):
    n = mechanism.n_components * mechanism.inner.batch_size
    return case.procedure(mechanism, batches.among(rows, n, first=True), adjacency, gate)


CASES = [
    case.Case(
        "dp-pca",
        _dp_pca,
        query=case.row_trace,
        run=batches.one_batch,
        read=case.components,
        norm="l2",
        sensitivity=case.ONE,
        worst_pair=case.long_and_short,
        **batches.PRINTED,
    ),
    case.Case(
        "deflation",
        lambda epsilon, d, k: Deflation(inner=_dp_pca(epsilon, d, k), n_components=k),
        query=case.row_trace,
        run=_one_part_each,
        read=case.components,
        norm="l2",
        sensitivity=case.ONE,
        worst_pair=case.long_and_short,
        **batches.PRINTED,
    ),
]
