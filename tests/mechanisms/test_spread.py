"""PrivRange: the statistic against a loop, what it finds, what it needs."""

import math

import numpy as np
import pytest

from eigenveil.audit import audit
from eigenveil.exact import BasisProduct, Clip
from eigenveil.exceptions import InvalidDataError, InvalidParameterError, NothingFoundError
from eigenveil.mechanisms import Gate, release
from eigenveil.numerics import SimulationSource
from eigenveil.papers.kpca import ZERO_SPREAD, PrivateSpread, quarter_octave, spread_counts
from eigenveil.privacy import Adjacency, Approx, Ledger, noise_scale
from eigenveil.rows import Batch, MatrixBatch, MatrixSource
from tests.conformance import case

REPLACE = Adjacency.REPLACE_ONE
CLIP = Clip(row_norm=8.0)
NOTHING = np.empty((0, 3))
VIEW = BasisProduct(np.eye(3)[:, :2])


def gate(mechanism, seed=0, ledger=None):
    return Gate(
        mechanism.cost(),
        label="x",
        adjacency=REPLACE,
        ledger=ledger,
        noise=SimulationSource(seed),
    )


def matrices(array):
    (chunk,) = MatrixSource([array], array.shape[1]).chunks()
    return MatrixBatch([chunk], 0)


def by_hand(products, blocks):
    """Bins of block maxima, written as Algorithm 4 is, with bins of powers of 2^(1/4)."""
    size = len(products) // (2 * blocks)
    differences = [products[2 * i + 1] - products[2 * i] for i in range(len(products) // 2)]
    found = []
    for j in range(blocks):
        some = differences[j * size : (j + 1) * size]
        largest = max(
            np.linalg.eigvalsh(sum(np.outer(g[:, r], g[:, r]) for g in some) / (2 * size))[-1]
            for r in range(products.shape[2])
        )
        found.append(math.floor(4 * math.log2(largest)))
    return found


@pytest.mark.parametrize("away", [np.empty((0, 3)), np.eye(3)[1:2]], ids=["all", "beside"])
@pytest.mark.parametrize("of", ["rows", "matrices"])
@pytest.mark.parametrize("n", [40, 43])
def test_blocks_are_counted_as_the_algorithm_has_it(of, n, away):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, 3))
    if of == "rows":
        records, products = Batch(rows, 0), np.einsum("ij,ik->ijk", rows, rows[:, :2])
    else:
        array = rng.standard_normal((n, 3, 3))
        array += array.transpose(0, 2, 1)
        records, products = matrices(array), array[:, :, :2]
    products = products - away.T @ (away @ products)
    query = spread_counts(records, CLIP, VIEW, REPLACE, 5, away)
    # Bins from 2 R^4 = 2^13 down: the one below 2^(q+1)/4 has the number 52 - (q + 1).
    expected = np.bincount([51 - q for q in by_hand(products, 5)], minlength=ZERO_SPREAD + 1)
    assert np.array_equal(query.value.units, expected)
    assert query.records == range(n)


def test_every_record_moves_one_block():
    rows = np.random.default_rng(0).standard_normal((48, 3))
    counts = spread_counts(Batch(rows, 0), CLIP, VIEW, REPLACE, 6, NOTHING).value.units
    moved = []
    for i in range(48):
        other = rows.copy()
        other[i] = 5.0
        changed = spread_counts(Batch(other, 0), CLIP, VIEW, REPLACE, 6, NOTHING).value.units
        moved.append(np.abs(changed - counts).sum())
    assert set(moved) == {2}


def test_bins():
    assert quarter_octave(0.0) == ZERO_SPREAD
    assert quarter_octave(1e-300) == ZERO_SPREAD
    assert quarter_octave(2.0) == 0  # rounding may lead beyond the largest value
    assert [quarter_octave(2 ** (-j / 4) * 0.99) for j in range(5)] == list(range(5))


def test_the_spread_of_normal_products():
    """The variance of x_1^2 is 2, that of x_1 x_2 is 1. One block of 125 pairs is off by 40 % with
    probability below 1e-2, and the answer 2 l is at most twice the true value.
    """
    rows = np.random.default_rng(0).standard_normal((60_000, 3))
    mechanism = PrivateSpread(epsilon=1.0, delta=0.01)
    for seed in range(10):
        found = mechanism.estimate(Batch(rows, 0), CLIP, VIEW, gate(mechanism, seed), NOTHING)
        assert 1.9 < found < 5.0


def test_equal_records_have_no_spread():
    mechanism = PrivateSpread(epsilon=1.0, delta=0.01)
    batch = Batch(np.ones((mechanism.needed_records, 3)), 0)
    assert mechanism.estimate(batch, CLIP, VIEW, gate(mechanism), NOTHING) == 0.0


@pytest.mark.parametrize("delta", [1e-2, 1e-9])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_an_eighth_of_the_blocks_is_enough(epsilon, delta):
    """Noise takes off what is left above the threshold with probability zeta = 0.01 at most."""
    mechanism = PrivateSpread(epsilon=epsilon, delta=delta)
    scale = noise_scale(2.0, epsilon)
    threshold = 1 + scale * math.log(0.5 / delta)
    missed = 0.5 * math.exp(-(mechanism.blocks / 8 - threshold) / scale)
    assert missed <= 0.01 * math.exp(1.0 / scale)  # the 1 of the threshold


def test_too_few_records_are_refused_before_the_charge(tmp_path):
    mechanism = PrivateSpread(epsilon=1.0, delta=0.01)
    ledger = Ledger.create(tmp_path / "l", epsilon=10.0, delta=0.5, adjacency=REPLACE)
    needed = mechanism.needed_records
    assert needed == 16 * (1 + math.ceil(16 * math.log(1e4)))
    batch = Batch(np.ones((needed - 1, 3)), 0)
    with pytest.raises(InvalidDataError, match=f"needs {needed} records"):
        mechanism.estimate(batch, CLIP, VIEW, gate(mechanism, ledger=ledger), NOTHING)
    assert ledger.entries == ()


def test_blocks_that_do_not_agree_are_charged(tmp_path):
    """A block for every quarter octave: none has more votes than one or two."""
    mechanism = PrivateSpread(epsilon=1.0, delta=1e-6)
    n = mechanism.needed_records
    rows = np.random.default_rng(0).standard_normal((n, 3))
    rows *= 2.0 ** (-13 * np.arange(n)[:, None] / n)
    ledger = Ledger.create(tmp_path / "l", epsilon=10.0, delta=0.5, adjacency=REPLACE)
    with pytest.raises(NothingFoundError, match="the budget is spent"):
        mechanism.estimate(Batch(rows, 0), CLIP, VIEW, gate(mechanism, ledger=ledger), NOTHING)
    assert len(ledger.entries) == 1


class Leaky(PrivateSpread):
    """A planted fault: one vote shows forty times as often as it may."""

    def cost(self):
        return Approx(self.epsilon, self.delta / 40)


@pytest.mark.parametrize(("kind", "guilty"), [(PrivateSpread, False), (Leaky, True)])
def test_an_audit_finds_a_threshold_that_is_too_low(kind, guilty):
    """One block, whose two records are equal or not. Accuses a correct mechanism with probability
    at most 1e-3; 400 against 10 of 1,000 answers that the neighbour never gives.
    """
    mechanism, source = kind(epsilon=1.0, delta=0.4), SimulationSource(0)
    queries = [
        spread_counts(Batch(rows, 0), CLIP, VIEW, REPLACE, 1, NOTHING)
        for rows in (np.eye(3)[:2], np.ones((2, 3)))
    ]

    def run(query):
        found = release(mechanism, query, ledger=None, noise=source)
        return np.array([-1.0 if found is None else found])

    report = audit(
        lambda: run(queries[0]),
        lambda: run(queries[1]),
        cost=mechanism.cost(),
        trials=1000,
        alpha=1e-3,
        continuous=False,
    )
    assert report.violated is guilty


@pytest.mark.parametrize("wrong", [{"delta": 0.0}, {"delta": 1.0}, {"zeta": 0.0}, {"zeta": 1.0}])
def test_impossible_probabilities(wrong):
    with pytest.raises(InvalidParameterError, match="between 0 and 1"):
        PrivateSpread(**({"epsilon": 1.0, "delta": 0.01} | wrong))


def _spreads(rows, adjacency):
    """Pairs of rows, each a block; one at the origin for each, so that no row is left over."""
    d = rows.shape[1]
    batch = Batch(np.vstack([rows, np.zeros(rows.shape)]), 0)
    view = BasisProduct(np.full((d, 1), 1 / math.sqrt(d)))
    return spread_counts(batch, case.CLIP, view, adjacency, len(rows), np.empty((0, d)))


CASES = [
    case.Case(
        "spread",
        lambda epsilon, d, k: PrivateSpread(epsilon=epsilon, delta=1e-3),
        query=_spreads,
        run=case.one_step(_spreads),
        read=lambda released: np.array([-1.0 if released is None else released]),
        norm="l1",
        sensitivity=case.NUCLEAR,
        worst_pair=case.long_and_short,
        strength_of=lambda cost: cost.epsilon,
        ledger={"epsilon": 50.0, "delta": 0.5},
        may_coincide=True,
        trials=300,
        shows=False,
        adjacencies=(case.REPLACE,),
        persons=False,
    ),
]
