"""Products with the second moment, without the second moment."""

import tracemalloc

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from eigenveil.exact import Clip, moment_products, products, second_moment
from eigenveil.exceptions import InvalidDataError
from eigenveil.privacy import Adjacency
from eigenveil.rows import open_rows

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
CLIP = Clip(row_norm=4.0, centre=np.full(23, 0.25), centre_error=0.5)


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).standard_normal((301, 23)) * 1.3


@pytest.fixture(params=["kept", "read again"])
def limit(request, monkeypatch):
    if request.param == "read again":
        monkeypatch.setattr(products, "_KEPT_BYTES", 100)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("lift", [0.0, 0.5])
def test_it_stands_for_the_second_moment(rows, limit, adjacency, lift):
    clip = Clip(row_norm=4.0, centre=np.full(23, 0.25), centre_error=0.5, lift=lift)
    dense = second_moment(open_rows(rows), clip, adjacency)
    lazy = moment_products(open_rows(rows), clip, adjacency)
    matrix = dense.value.to_float()
    block = np.linalg.qr(np.random.default_rng(1).standard_normal((len(matrix), 3)))[0]
    for _ in range(2):
        assert lazy.times(block) == pytest.approx(matrix @ block, rel=1e-12)
    assert np.array_equal(lazy.value.units, np.diagonal(dense.value.units))
    assert lazy.trace == float(np.trace(dense.value.units)) * 2.0**dense.value.exponent
    for name in ("sensitivities", "adjacency", "unit", "count", "centre_error", "trace_bound"):
        assert getattr(lazy, name) == getattr(dense, name)
    assert lazy.value.exponent == dense.value.exponent
    assert not lazy.exact


def test_exact_parts_do_not_depend_on_order_or_chunks(rows, tmp_path):
    np.save(tmp_path / "rows.npy", rows)
    expected = moment_products(open_rows(rows), CLIP, REPLACE)
    for other in (rows[::-1], iter([rows[:7], rows[7:]]), tmp_path / "rows.npy"):
        found = moment_products(open_rows(other), CLIP, REPLACE)
        assert np.array_equal(found.value.units, expected.value.units)
        assert np.array_equal(found.fingerprint, expected.fingerprint)


def test_tables_with_the_same_diagonal_have_different_fingerprints():
    one, other = (
        moment_products(open_rows(np.array([[1.0, sign, 0.0]])), Clip(row_norm=2.0), REPLACE)
        for sign in (1.0, -1.0)
    )
    assert np.array_equal(one.value.units, other.value.units)
    assert not np.array_equal(one.fingerprint, other.fingerprint)


def test_rows_that_come_once_are_kept_or_refused(rows, monkeypatch):
    block = np.eye(23)[:, :2]
    once = moment_products(open_rows(iter([rows[:100], rows[100:]])), CLIP, REPLACE)
    again = moment_products(open_rows(rows), CLIP, REPLACE)
    assert once.times(block) == pytest.approx(again.times(block), rel=1e-12)
    monkeypatch.setattr(products, "_KEPT_BYTES", 100)
    with pytest.raises(InvalidDataError, match="pass an array or a file"):
        moment_products(open_rows(iter([rows[:100], rows[100:]])), CLIP, REPLACE)


def test_no_rows_and_no_entries_in_messages(rows):
    with pytest.raises(InvalidDataError, match="no rows"):
        moment_products(open_rows(np.empty((0, 23))), CLIP, REPLACE)
    empty = moment_products(open_rows(np.empty((0, 23))), CLIP, ADD)
    assert np.array_equal(empty.times(np.eye(23)[:, :2]), np.zeros((23, 2)))
    lazy = moment_products(open_rows(rows), CLIP, REPLACE)
    assert "blocks" not in repr(lazy)
    assert "fingerprint" not in repr(lazy)


def test_memory_is_that_of_a_few_columns():
    """50,000 columns: the matrix would fill 20 GB."""
    table = np.random.default_rng(0).standard_normal((40, 50_000), dtype=np.float32)
    tracemalloc.start()
    lazy = moment_products(open_rows(table), Clip(row_norm=100.0), REPLACE)
    lazy.times(np.eye(50_000, 4))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6


def test_products_do_not_depend_on_the_number_of_threads():
    table = np.random.default_rng(3).normal(size=(40, 30_000))
    block = np.linalg.qr(np.random.default_rng(4).normal(size=(30_000, 3)))[0]
    query = moment_products(
        open_rows(table), Clip(row_norm=1.0, normalise=True), Adjacency.REPLACE_ONE
    )
    with threadpool_limits(1, "blas"):
        alone = query.times(block)
    with threadpool_limits(2, "blas"):
        together = query.times(block)
        # What the product leaves is what it found.
        threads = {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}
    assert np.array_equal(alone, together)
    assert threads == {2}
