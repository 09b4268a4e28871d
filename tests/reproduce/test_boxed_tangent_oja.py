"""TAdaDPO in a box: what it finds, what it costs, and that it sees tangent parts alone."""

import numpy as np
import pytest

from eigenveil import PrivatePCA
from eigenveil.exceptions import InvalidParameterError
from eigenveil.numerics import SimulationSource
from eigenveil.papers.kpca import (
    BoxedOja,
    BoxedTangentOja,
    SpikedRate,
    printed_cost,
)
from eigenveil.privacy import Pure
from eigenveil.rows import MatrixSource, open_rows
from tests.mechanisms.test_dp_pca import CLIP, D, off, planes, spiked
from tests.mechanisms.test_spread import gate


def test_it_costs_what_adadpo_does_and_finds_the_plane():
    mechanism = BoxedTangentOja(strength=Pure(1.0), delta=0.01, n_components=2)
    assert (
        mechanism.cost()
        == BoxedOja(strength=Pure(1.0), delta=0.01, n_components=2).cost()
        == printed_cost(1.0, 0.01)
    )
    source = MatrixSource([planes(15 * mechanism.first_batch(D))], D)
    found = mechanism.run(source, CLIP, gate(mechanism))
    assert off(found.components, 2) < 0.1
    assert found.eigenvalues == pytest.approx([1.0, 0.5], abs=0.15)  # of the warm start


def test_with_the_papers_learning_rates_values_stay_those_of_the_warm_start():
    rate = SpikedRate(n=10**5, noise=0.05, leading=1.0, gap=1.0)
    size = BoxedTangentOja(strength=Pure(1.0), delta=0.01, n_components=1).first_batch(D)
    mechanism = BoxedTangentOja(
        strength=Pure(1.0),
        delta=0.01,
        n_components=1,
        batch_size=size,
        schedule=rate,
        warm_batches=5,
    )
    found = mechanism.run(open_rows(spiked(9 * size, sigma=0.05)), CLIP, gate(mechanism))
    assert off(found.components) < 0.3
    assert found.eigenvalues[0] == pytest.approx(1.0, abs=0.3)


def test_tangent_steps_see_nothing_along_the_basis():
    """Records that move along the released basis alone leave a tangent step as it is."""
    mechanism = BoxedTangentOja(strength=Pure(1.0), delta=0.01, n_components=1, warm_batches=1)
    size = mechanism.first_batch(D)
    basis = np.eye(D)[:, :1]
    seen = []
    for length in (0.5, 1.0):
        start = mechanism.start(D, CLIP, gate(mechanism))
        start = type(start)(basis, basis * 0.7, 1.0, 0, 1, 0.01, 0.01)
        rows = np.zeros((size, D))
        rows[:, 0] = length
        rows[:, 1] = 0.01 * np.random.default_rng(0).standard_normal(size)
        reader = _one_batch(rows, size, gate(mechanism))
        after = mechanism.step(start, reader, CLIP, gate(mechanism))
        seen.append(after)
    # The tangent part of (l, e) is l e: of one order, though the whole is l^2 against 1e-4.
    assert all(abs(one.basis[0, 0]) > 0.99 for one in seen)
    assert all(one.values(1)[0] == pytest.approx(0.7, abs=0.05) for one in seen)


def _one_batch(rows, size, charged):
    from eigenveil.exact import Batches

    return Batches(open_rows(rows), charged.adjacency).take(size)


def test_as_a_mechanism_of_the_estimator(monkeypatch):
    monkeypatch.setattr("eigenveil.estimators.base.SystemSource", lambda: SimulationSource(0))
    rows = spiked(90_000, sigma=0.05)
    model = PrivatePCA(
        1, epsilon=1.0, delta=0.01, mechanism=BoxedTangentOja(warm_batches=2), centring="none"
    ).fit(rows)
    assert off(model.components_) < 0.2
    with pytest.raises(InvalidParameterError, match="histograms"):
        BoxedTangentOja(strength=Pure(1.0), delta=0.01, n_components=1, centre="mean")
