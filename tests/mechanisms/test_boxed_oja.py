"""Boxed Oja: what it finds, what it costs, what it refuses."""

import math
from dataclasses import replace

import numpy as np
import pytest

from eigenveil.exact import BasisProduct, update_sum
from eigenveil.exceptions import BudgetExceededError, InvalidDataError, InvalidParameterError
from eigenveil.mechanisms import GaussianNoise, OnePassState
from eigenveil.papers.kpca import BoxedOja, boxed_oja, halves, printed_cost
from eigenveil.privacy import Adjacency, Ledger, Pure
from eigenveil.rows import Batch, MatrixSource, open_rows
from tests.conformance import batches, case
from tests.mechanisms.test_dp_pca import CLIP, D, off, planes, spiked
from tests.mechanisms.test_spread import gate

CENTRES = pytest.mark.parametrize("centre", ["mean", "histograms"])


@CENTRES
def test_two_components_of_matrices(centre):
    mechanism = BoxedOja(strength=Pure(1.0), delta=0.01, n_components=2, centre=centre)
    assert mechanism.cost() == printed_cost(1.0, 0.01)
    source = MatrixSource([planes(15 * mechanism.first_batch(D))], D)
    found = mechanism.run(source, CLIP, gate(mechanism))
    assert off(found.components, 2) < 0.1
    assert found.eigenvalues == pytest.approx([1.0, 0.5], abs=0.1)


@CENTRES
def test_a_component_of_rows_whose_trace_is_bought_on_the_way(centre):
    """Rows spread about their mean as far as it is long; noise on the trace is below 0.01."""
    mechanism = BoxedOja(strength=Pure(1.0), delta=0.01, n_components=1, centre=centre)
    rows = spiked(15 * mechanism.first_batch(D), sigma=0.05)
    found = mechanism.run(open_rows(rows), CLIP, gate(mechanism))
    assert off(found.components) < 0.1
    assert found.trace == pytest.approx(1 + 4 * 0.05**2, abs=0.05)


def test_a_gaussian_centre_needs_fewer_records():
    """At 40 columns the histograms of all coordinates have few votes each."""
    mean, histograms = (
        BoxedOja(strength=Pure(1.0), delta=1e-3, n_components=2, centre=centre).needed_records(40)
        for centre in ("mean", "histograms")
    )
    assert mean < histograms / 3


def test_tables_are_as_large_as_their_first_batch_needs():
    """Of the fewest records, no batch is too small; of fewer, the first one is."""
    mechanism = BoxedOja(strength=Pure(1.0), delta=1e-3, n_components=2)
    needed, fewest = mechanism.needed_records(D), mechanism.fewest(D)
    assert min(mechanism.sizes(needed, D)) >= fewest
    assert min(mechanism.sizes(needed - 3, D)) < fewest


def test_the_noise_is_that_of_the_box(monkeypatch):
    """2 R sqrt(dk)/(m mu) with nine tenths of mu^2; R is the printed half-width and the margin."""
    seen = []
    drawn = boxed_oja.boxed_mean

    def watched(noise, records, clip, view, gate, width, zeta, away, margin):
        seen.append((noise.mu, len(records.records), width, zeta, margin))
        return drawn(noise, records, clip, view, gate, width, zeta, away, margin=margin)

    monkeypatch.setattr(boxed_oja, "boxed_mean", watched)
    mechanism = BoxedOja(strength=Pure(1.0), delta=0.01, n_components=2)
    batch = Batch(spiked(mechanism.fewest(D)), 0)
    noisy = mechanism.estimate(
        batch, CLIP, BasisProduct(np.eye(D)[:, :2]), gate(mechanism), np.empty((0, D))
    )
    ((mu, m, width, zeta, margin),) = seen
    assert mu == pytest.approx(mechanism.mu * math.sqrt(0.9), rel=1e-6)
    assert m == len(batch.records) // 2
    assert margin > 0
    half_width = margin + 3 * width * math.log(m * 2 * D / zeta)
    expected = 2 * half_width * math.sqrt(2 * D) / (m * mu)
    assert noisy.deviation == pytest.approx(expected, rel=1e-3)


@CENTRES
def test_a_batch_is_paid_once(centre):
    mechanism = BoxedOja(strength=Pure(1.0), delta=0.01, n_components=1, centre=centre)
    opened = gate(mechanism)
    batch = Batch(spiked(mechanism.fewest(D)), 0)
    start = OnePassState(np.eye(D)[:, :1], np.zeros((D, 1)))
    mechanism.advance(start, batch, CLIP, opened)
    _, second = halves(batch)
    again = update_sum(second, CLIP, BasisProduct(start.basis), Adjacency.REPLACE_ONE)
    with pytest.raises(BudgetExceededError, match="more than its share"):
        opened.draw(GaussianNoise(mu=mechanism.mu), again)


def test_a_centre_that_is_not_paid_for_is_refused(monkeypatch):
    """A planted fault: mean and rough mean spend all of mu each."""
    monkeypatch.setattr(boxed_oja, "split", lambda mu, shares: (mu, mu))
    mechanism = BoxedOja(strength=Pure(1.0), delta=0.01, n_components=1)
    batch = Batch(spiked(mechanism.fewest(D)), 0)
    start = OnePassState(np.eye(D)[:, :1], np.zeros((D, 1)))
    with pytest.raises(BudgetExceededError, match="more than its share"):
        mechanism.step(start, batch, CLIP, gate(mechanism))


def test_refusals_come_before_the_charge(tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=10.0, delta=0.5, adjacency=Adjacency.REPLACE_ONE)
    small = BoxedOja(
        strength=Pure(1.0), delta=0.01, n_components=2, centre="histograms", batch_size=64
    )
    with pytest.raises(InvalidParameterError, match="'boxed-oja' needs batches of"):
        small.run(open_rows(spiked(500)), CLIP, gate(small, ledger=ledger))
    growing = BoxedOja(strength=Pure(1.0), delta=0.01, n_components=2)
    needed = growing.needed_records(D)
    with pytest.raises(InvalidDataError, match=f"needs {needed} records"):
        growing.run(open_rows(spiked(needed - 1)), CLIP, gate(growing, ledger=ledger))
    assert ledger.entries == ()
    with pytest.raises(InvalidParameterError, match="'mean' or 'histograms'"):
        BoxedOja(centre="median")


def _boxed(centre):
    """A batch of the least size."""

    def build(epsilon, d, k):
        mechanism = BoxedOja(strength=Pure(epsilon), delta=0.1, n_components=k, centre=centre)
        fewest = batches.with_truncated(mechanism).fewest(d)
        return batches.with_truncated(replace(mechanism, batch_size=fewest))

    return build


CASES = [
    case.Case(
        f"boxed-oja {centre}",
        _boxed(centre),
        query=case.row_trace,
        run=batches.one_batch,
        read=case.components,
        norm="l2",
        sensitivity=case.ONE,
        worst_pair=case.long_and_short,
        **batches.PRINTED,
    )
    for centre in ("mean", "histograms")
]
