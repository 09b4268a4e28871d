"""TruncatedMean: bins, boxes, shares, noise, and the audit of a box that is too wide."""

import math
from dataclasses import replace

import numpy as np
import pytest

from eigenveil.audit import audit
from eigenveil.exact import BasisProduct, Clip
from eigenveil.exceptions import InvalidDataError, InvalidParameterError, NothingFoundError
from eigenveil.mechanisms import Gate, GaussianNoise, release
from eigenveil.numerics import FixedPoint, SimulationSource
from eigenveil.papers.kpca import (
    CoordinateCentre,
    PrivateSpread,
    TruncatedMean,
    box_sum,
    boxed_mean,
    coordinate_counts,
    halves,
    printed_cost,
    split_bins,
)
from eigenveil.privacy import Adjacency, Approx, Composed, Ledger, delta_of
from eigenveil.rows import Batch
from tests.conformance import batches, case
from tests.mechanisms.test_spread import NOTHING, gate, matrices
from tests.statistics import variance_p_value

REPLACE = Adjacency.REPLACE_ONE
CLIP = Clip(row_norm=8.0)
VIEW = BasisProduct(np.eye(3)[:, :2])


def normal_rows(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, 3))


def products_of(rows):
    return np.einsum("ij,ik->ijk", rows, rows[:, :2])


@pytest.mark.parametrize("away", [np.empty((0, 3)), np.eye(3)[1:2]], ids=["all", "beside"])
def test_entries_are_counted_by_bin(away):
    rows = normal_rows(300)
    query = coordinate_counts(Batch(rows, 0), CLIP, VIEW, REPLACE, 0.25, away)
    products = products_of(rows)
    products = (products - away.T @ (away @ products)).reshape(300, 6)
    coordinates, bins = split_bins(query.bins)
    for j in range(6):
        found, counts = np.unique(np.floor(products[:, j] / 0.25), return_counts=True)
        assert np.array_equal(bins[coordinates == j], found)
        assert np.array_equal(query.value.units[coordinates == j], counts)


def test_the_centre_is_the_fullest_bin():
    rows = normal_rows(20_000)
    query = coordinate_counts(Batch(rows, 0), CLIP, VIEW, REPLACE, 2.5, NOTHING)
    products = products_of(rows).reshape(-1, 6)
    expected = [
        max(
            zip(*np.unique(np.floor(column / 2.5), return_counts=True), strict=True),
            key=lambda c: c[1],
        )[0]
        for column in products.T
    ]
    mechanism = CoordinateCentre(epsilon=4.0, delta=0.01)
    found = release(mechanism, query, ledger=None, noise=SimulationSource(0))
    near = np.abs(found / 2.5 - expected)
    # Products of two normals are as often in (-w, 0) as in (0, w).
    assert (near[[0, 4]] == 0).all()
    assert near.max() <= 1


def test_noise_of_one_coordinate():
    """Each of four coordinates has one record, which shows with probability delta/4 = 0.05. 2,000
    draws of all four, five standard errors.
    """
    query = coordinate_counts(
        Batch(np.eye(4)[:1], 0),
        Clip(row_norm=1.0),
        BasisProduct(np.eye(4)[:, :1]),
        REPLACE,
        0.1,
        np.empty((0, 4)),
    )
    mechanism, source = CoordinateCentre(epsilon=4.0, delta=0.2), SimulationSource(0)
    shown = [np.isfinite(release(mechanism, query, ledger=None, noise=source)) for _ in range(2000)]
    error = 5 * math.sqrt(0.05 * 0.95 / 8_000)
    assert np.mean(shown) == pytest.approx(0.05, abs=error)


@pytest.mark.parametrize("coordinates", [1, 7, 200, 1000])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("delta", [0.05, 1e-7])
@pytest.mark.parametrize("composition", ["basic", "advanced"])
def test_all_coordinates_cost_no_more_than_is_said(coordinates, epsilon, delta, composition):
    """The exact composition of the pure parts, which knows nothing of the lemma."""
    centre = CoordinateCentre(epsilon=epsilon, delta=delta, composition=composition)
    one = centre.histogram(coordinates)
    spent = Composed((Approx(one.epsilon, one.delta),) * coordinates)
    assert delta_of(spent, epsilon) <= delta
    if composition == "basic":  # and no more is left than rounding takes
        assert one.epsilon * coordinates == pytest.approx(epsilon, rel=1e-11)


def test_advanced_composition_is_refused_beyond_its_range():
    CoordinateCentre(epsilon=0.9, delta=0.1, composition="advanced")
    CoordinateCentre(epsilon=5.0, delta=0.1, composition="basic")
    with pytest.raises(InvalidParameterError, match=r"epsilon = 1\.8.*smaller budget"):
        TruncatedMean.build(1.9, 0.1, "advanced")


def test_the_sum_in_a_box():
    rows, centre = normal_rows(200), np.full((3, 2), 0.5)
    view = replace(VIEW, centre=centre)
    query = box_sum(Batch(rows, 0), CLIP, view, REPLACE, 0.75, NOTHING)
    expected = np.clip(products_of(rows) - centre, -0.75, 0.75).mean(axis=0)
    assert np.allclose(query.value.to_float() * query.unit, expected, atol=1e-6)


def corners(sign):
    """Records far beyond one corner of the box or the opposite one, in honest company."""
    array = np.zeros((50, 3, 3))
    array[0] = sign * np.ones((3, 3))
    return matrices(array)


def test_opposite_corners_attain_the_sensitivity():
    one, other = (box_sum(corners(sign), CLIP, VIEW, REPLACE, 0.1, NOTHING) for sign in (1, -1))
    gap = one.value.to_float() - other.value.to_float()
    assert np.linalg.norm(gap) == pytest.approx(2 * math.sqrt(6), rel=1e-12)
    assert np.linalg.norm(gap) <= one.sensitivity("l2") <= 2 * math.sqrt(6) * (1 + 1e-12)


def boxed(records, noise, source, zeta=0.01):
    allotment = Gate(
        GaussianNoise(mu=noise.mu).cost(),
        label="x",
        adjacency=REPLACE,
        ledger=None,
        noise=source,
    )
    return boxed_mean(noise, records, CLIP, VIEW, allotment, 0.01, zeta, NOTHING)


def test_noise_of_the_mean():
    """3,000 entries: a scale 10 % off lies 7 standard errors out; false alarm 2e-6."""
    source, mu, m = SimulationSource(0), 0.5, 50
    half_width = 3 * 0.01 * math.log(m * 6 / 0.01)
    records = corners(0)
    found = np.array([boxed(records, GaussianNoise(mu=mu), source).values for _ in range(500)])
    sigma = 2 * half_width * math.sqrt(6) / (m * mu)
    assert variance_p_value(found.ravel(), sigma) > 1e-6
    assert variance_p_value(found.ravel(), 1.1 * sigma) < 1e-6
    assert variance_p_value(found.ravel(), 0.9 * sigma) < 1e-6


@pytest.mark.parametrize(("factor", "guilty"), [(1.0, False), (math.sqrt(6), True)])
def test_an_audit_finds_noise_for_the_half_width_of_one_entry(factor, guilty):
    """The planted fault forgets sqrt(dk), 2.4 here; the honest mean passes. Accuses a correct
    mechanism with probability at most 1e-3.
    """
    source, noise = SimulationSource(1), GaussianNoise(mu=factor)
    report = audit(
        lambda: boxed(corners(1), noise, source).values,
        lambda: boxed(corners(-1), noise, source).values,
        cost=GaussianNoise(mu=1.0).cost(),
        trials=500,
        alpha=1e-3,
    )
    assert report.violated is guilty


def test_halves_are_different_records():
    first, second = halves(Batch(normal_rows(101), 7))
    assert (first.records, second.records) == (range(7, 57), range(57, 108))


def test_the_whole_step():
    """Products of normals have means 1 and 0; five deviations of noise, and 0.1 for sampling."""
    mechanism = TruncatedMean.build(1.5, 0.01, "basic")
    rows = normal_rows(20_000)
    found = mechanism.estimate(Batch(rows, 0), CLIP, VIEW, gate(mechanism), NOTHING)
    assert found.deviation < 0.2  # as the mean's half has 10,000 records
    assert np.abs(found.values - np.eye(3)[:, :2]).max() < 5 * found.deviation + 0.1
    away = np.eye(3)[2:]
    beside = mechanism.estimate(Batch(rows, 0), CLIP, VIEW, gate(mechanism), away)
    assert np.abs(beside.values[2]).max() < 1e-12


def test_a_drifting_mean_has_no_centre(tmp_path):
    """Neighbouring records are alike, so there is a spread, but no bin of its width is full."""
    mechanism = TruncatedMean.build(1.0, 1e-3, "basic")
    n = mechanism.needed_records(2)
    values = 0.2 + 0.6 * np.arange(n) / n + 0.0005 * (np.arange(n) % 2)
    rows = np.sqrt(np.column_stack([values, values]))
    ledger = Ledger.create(tmp_path / "l", epsilon=10.0, delta=0.5, adjacency=REPLACE)
    with pytest.raises(NothingFoundError, match=r"centre of some coordinate.*budget is spent"):
        mechanism.estimate(
            Batch(rows, 0),
            Clip(row_norm=2.0),
            BasisProduct(np.eye(2)[:, :1]),
            gate(mechanism, ledger=ledger),
            np.empty((0, 2)),
        )
    assert len(ledger.entries) == 1


def test_small_batches_are_refused_before_the_charge(tmp_path):
    mechanism = TruncatedMean.build(1.0, 1e-3, "basic")
    needed = mechanism.needed_records(6)
    ledger = Ledger.create(tmp_path / "l", epsilon=10.0, delta=0.5, adjacency=REPLACE)
    with pytest.raises(InvalidDataError, match=f"6 coordinates needs {needed} records"):
        mechanism.estimate(
            Batch(normal_rows(needed - 1), 0), CLIP, VIEW, gate(mechanism, ledger=ledger), NOTHING
        )
    assert ledger.entries == ()


def test_the_spread_may_not_cost_more_than_the_rest():
    mechanism = TruncatedMean.build(1.0, 1e-3, "basic")
    with pytest.raises(InvalidParameterError, match="no more than the other half"):
        replace(mechanism, spread=PrivateSpread(epsilon=1.0, delta=5e-4))


def test_the_printed_cost():
    cost = printed_cost(1.0, 0.01)
    assert cost == TruncatedMean.build(1.0, 0.01, "advanced").cost()
    assert 0.005 < delta_of(cost, 1.0) < 0.01


def _coordinates(rows, adjacency):
    """Entries of Aq in bins of width 0.01, empty ones included."""
    d = rows.shape[1]
    view, away = BasisProduct(np.full((d, 1), 1 / math.sqrt(d))), np.empty((0, d))
    query = coordinate_counts(Batch(rows, 0), case.CLIP, view, adjacency, 0.01, away)
    numbers = np.arange(-102, 102) + (1 << 31)
    filled = ((np.arange(d)[:, None] << 32) + numbers).ravel()
    return replace(query, value=FixedPoint(case.dense_counts(query, filled), 0), bins=None)


def _truncated_mean(mechanism, rows, adjacency, gate):
    """The rows are in the half that the mean is of."""
    d = rows.shape[1]
    batch = Batch(batches.among(rows, mechanism.needed_records(d), first=False), 0)
    view = BasisProduct(np.full((d, 1), 1 / math.sqrt(d)))
    return mechanism.estimate(batch, case.CLIP, view, gate, np.empty((0, d)))


CASES = [
    case.Case(
        "truncated-mean",
        batches.truncated,
        query=_coordinates,
        run=_truncated_mean,
        read=lambda released: released.values.ravel(),
        norm="l1",
        sensitivity={case.REPLACE: lambda d: 2.0 * d},
        worst_pair=case.long_and_short,
        **batches.PRINTED,
    ),
]
