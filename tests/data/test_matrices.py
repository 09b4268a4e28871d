"""Matrices as records."""

import numpy as np
import pytest

from eigenveil.exact import BasisProduct, Batches, Clip, update_counts, update_sum
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.privacy import Adjacency
from eigenveil.rows import MatrixChunk, MatrixSource

REPLACE = Adjacency.REPLACE_ONE
MATRICES = np.random.default_rng(0).standard_normal((30, 4, 4))
SYMMETRIC = (MATRICES + MATRICES.transpose(0, 2, 1)) / 2
COLUMNS = np.linalg.qr(np.random.default_rng(1).standard_normal((4, 2)))[0]


class LowRank:
    """Matrices as their factors."""

    def __init__(self, factors):
        self.factors = factors

    def __len__(self):
        return len(self.factors)

    def __getitem__(self, which):
        return LowRank(self.factors[which])

    def times(self, columns):
        return self.factors @ (self.factors.transpose(0, 2, 1) @ columns)


def all_of(batch, at_a_time=7):
    return np.vstack(list(batch.products(COLUMNS, at_a_time)))


def test_products_are_those_of_the_symmetric_part():
    batch = Batches(MatrixSource([MATRICES[:11], MATRICES[11:]], 4), REPLACE).take(30)
    assert batch.records == range(30)
    assert all_of(batch) == pytest.approx(SYMMETRIC @ COLUMNS)


def test_any_object_with_products_will_do():
    factors = np.random.default_rng(2).standard_normal((20, 4, 2))
    assert isinstance(LowRank(factors), MatrixChunk)
    assert not isinstance(MATRICES, MatrixChunk)
    batch = Batches(MatrixSource(iter([LowRank(factors)]), 4), REPLACE).take(15)
    assert all_of(batch) == pytest.approx((factors @ factors.transpose(0, 2, 1) @ COLUMNS)[:15])


def test_parts_keep_their_positions():
    batches = Batches(MatrixSource([MATRICES[:4], MATRICES[4:17], MATRICES[17:]], 4), REPLACE)
    batches.take(3)
    part = batches.take(20).slice(1, 16)
    assert part.records == range(4, 19)
    assert all_of(part) == pytest.approx(SYMMETRIC[4:19] @ COLUMNS)
    with pytest.raises(InvalidParameterError, match="part of a batch"):
        part.slice(-1, 2)


def test_sums_do_not_depend_on_chunks_or_order():
    clip, view = Clip(row_norm=2.0), BasisProduct(COLUMNS, 0.2 * COLUMNS)
    order = np.random.default_rng(3).permutation(30)
    seen = set()
    for chunks in ([MATRICES], list(MATRICES[:, None]), [MATRICES[order]]):
        batch = Batches(MatrixSource(chunks, 4), REPLACE).take(30)
        units = update_sum(batch, clip, view, REPLACE, 1.5).value.units
        counts = update_counts(batch, clip, view, REPLACE).value.units
        seen.add((units.tobytes(), counts.tobytes()))
    assert len(seen) == 1


@pytest.mark.parametrize(
    "chunk", [np.eye(4), np.zeros((2, 4, 3)), np.zeros((2, 3, 3)), "text", [[1, 2]], None]
)
def test_other_shapes_are_refused(chunk):
    with pytest.raises(InvalidDataError, match=r"shape \(m, 4, 4\)"):
        Batches(MatrixSource(iter([chunk]), 4), REPLACE)


def test_a_stream_of_matrices_is_read_once():
    source = MatrixSource(iter([MATRICES]), 4)
    assert not source.rereadable
    Batches(source, REPLACE).take(5)
    with pytest.raises(InvalidDataError, match="read already"):
        Batches(source, REPLACE)
    again = MatrixSource([MATRICES], 4)
    for _ in range(2):
        assert Batches(again, REPLACE).take(5).records == range(5)
