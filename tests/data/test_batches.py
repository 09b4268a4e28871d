"""Batches by position: every record once, in order, from any source."""

import numpy as np
import pytest

from eigenveil.exact import Batches
from eigenveil.exceptions import InvalidDataError, UnsupportedNotionError
from eigenveil.privacy import Adjacency
from eigenveil.rows import (
    ArraySource,
    Divide,
    GroupedSource,
    IterableSource,
    MatrixSource,
    open_rows,
)

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
ROWS = np.random.default_rng(0).standard_normal((50, 3))


def taken(source, sizes):
    batches = Batches(source, REPLACE)
    return [batches.take(size) for size in sizes]


def chunks(sizes):
    return iter(np.split(ROWS, np.cumsum(sizes)))


@pytest.mark.parametrize(
    "source",
    [
        lambda: ArraySource(ROWS),
        lambda: IterableSource(chunks([7, 0, 20, 1])),
        lambda: IterableSource(chunks([1] * 49)),
        lambda: IterableSource([ROWS[:25], ROWS[25:]]),
        lambda: IterableSource(chunks([13])).map(Divide(np.ones(3))),
    ],
)
def test_every_record_comes_once_and_in_order(source):
    found = taken(source(), [1, 7, 2, 20, 30, 5])
    assert found[-1] is None
    assert [batch.records for batch in found[:-1]] == [
        range(1),
        range(1, 8),
        range(8, 10),
        range(10, 30),
        range(30, 50),  # the last one is short
    ]
    for batch in found[:-1]:
        assert np.array_equal(batch.array, ROWS[batch.records.start : batch.records.stop])


def test_files_give_the_batches_of_the_array(tmp_path):
    frame = pytest.importorskip("pandas").DataFrame(ROWS, columns=["a", "b", "c"])
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    np.save(tmp_path / "t.npy", ROWS)
    for name in ("t.csv", "t.parquet", "t.npy"):
        for batch in taken(open_rows(tmp_path / name), [11, 17, 100]):
            assert np.array_equal(batch.array, ROWS[batch.records.start : batch.records.stop])


def test_memory_that_is_filled_again_hands_no_record_out_twice():
    """Else rows of one chunk would appear at the positions of another, in two batches."""

    def reader():
        buffer = np.empty((10, 3))
        for start in range(0, 50, 10):
            buffer[:] = ROWS[start : start + 10]
            yield buffer

    found = taken(IterableSource(reader()), [10, 25, 15])
    assert np.array_equal(np.vstack([batch.array for batch in found]), ROWS)

    def matrices():
        for chunk in reader():
            yield chunk[:, :, None] * np.ones(3)

    def refilled():
        buffer = np.empty((10, 3, 3))
        for chunk in matrices():
            buffer[:] = chunk
            yield buffer

    for one, other in zip(
        taken(MatrixSource(refilled(), 3), [10, 25]),
        taken(MatrixSource(list(matrices()), 3), [10, 25]),
        strict=True,
    ):
        columns = np.eye(3)[:, :1]
        assert np.array_equal(
            np.vstack(list(one.products(columns, 4))), np.vstack(list(other.products(columns, 4)))
        )


@pytest.mark.parametrize("source", [ArraySource(ROWS), MatrixSource([np.eye(3)[None]], 3)])
def test_neighbours_with_another_number_of_rows_are_refused(source):
    with pytest.raises(UnsupportedNotionError, match="replace-one"):
        Batches(source, ADD)


def test_persons_with_several_rows_are_refused():
    persons = GroupedSource(ArraySource(ROWS), np.arange(50) // 2)
    for source in (persons, persons.map(Divide(np.ones(3)))):
        with pytest.raises(UnsupportedNotionError, match="several batches"):
            Batches(source, REPLACE)


def test_a_stream_cannot_be_read_twice():
    source = IterableSource(chunks([5]))
    taken(source, [50])
    with pytest.raises(InvalidDataError, match="read already"):
        Batches(source, REPLACE)


def test_a_chunk_of_another_width_is_refused():
    batches = Batches(IterableSource(iter([ROWS, ROWS[:, :2]])), REPLACE)
    with pytest.raises(InvalidDataError, match="same number of columns"):
        batches.take(100)


def test_an_empty_table_has_no_batch():
    assert taken(ArraySource(np.empty((0, 3))), [5]) == [None]
    assert taken(MatrixSource([], 3), [5]) == [None]


def test_batches_of_an_array_are_views_of_it():
    """Copying them took longer than all products with them."""
    rows = np.zeros((50_000, 100))  # several chunks
    reader = Batches(ArraySource(rows), Adjacency.REPLACE_ONE)
    sizes = []
    while (batch := reader.take(30_000)) is not None:
        assert np.shares_memory(batch.array, rows)
        sizes.append(len(batch.records))
    assert sizes == [30_000, 20_000]
