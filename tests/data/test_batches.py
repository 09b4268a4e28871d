"""Batches by position: every record once, in order, from any source."""

import numpy as np
import pytest

from eigenveil.data import Clip, column_counts, norm_counts, open_rows, second_moment, total, trace
from eigenveil.data.batches import Batches
from eigenveil.data.groups import GroupedSource
from eigenveil.data.matrices import MatrixSource
from eigenveil.data.products import moment_products
from eigenveil.data.source import (
    ArraySource,
    Batch,
    IterableSource,
    PairedSource,
    ScaledSource,
    ShuffledBatch,
    records_of,
    shuffled,
)
from eigenveil.data.updates import View, moment_columns
from eigenveil.exceptions import InvalidDataError, InvalidParameterError, UnsupportedNotionError
from eigenveil.privacy.adjacency import Adjacency

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
        lambda: ScaledSource(IterableSource(chunks([13])), np.ones(3)),
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


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int16, np.longdouble])
def test_shuffled_rows_are_gathered_a_few_at_a_time(kind, monkeypatch):
    """What is summed over them is what is summed over the same rows side by side."""
    monkeypatch.setattr("eigenveil.data.source._GATHERED", 4)
    monkeypatch.setattr("eigenveil.data.source._GATHERED_BYTES", 1)
    rows = np.asfortranarray(np.round(9 * ROWS).astype(kind))
    order = np.random.default_rng(1).permutation(50)
    mixed = shuffled(ArraySource(rows), lambda n: order[:n], lambda chunk: None)
    found = taken(mixed, [1, 7, 42, 1])
    assert found.pop() is None
    parts = [found[0], found[1], found[2].slice(3, 30), found[2].slice(30, 99)]
    clip = Clip(row_norm=2.0, normalise=True)
    view = View(np.linalg.qr(ROWS[:3, :2])[0])
    for part in parts:
        assert isinstance(part, ShuffledBatch)
        start, stop = part.records.start, part.records.stop
        beside = Batch(rows[order[start:stop]], start)
        assert part.records == beside.records
        assert (part.n_rows, part.n_columns) == (stop - start, 3)
        assert [len(chunk) for chunk in part.chunks()][:-1] == [4] * ((stop - start - 1) // 4)
        for one in (second_moment, total, trace):
            seen, wanted = (one(batch, clip, REPLACE) for batch in (part, beside))
            assert np.array_equal(seen.value.units, wanted.value.units)
            assert seen.records == wanted.records
        seen, wanted = (moment_columns(batch, clip, view, REPLACE) for batch in (part, beside))
        assert np.array_equal(seen.value.units, wanted.value.units)
        assert "array" not in vars(part)  # never side by side
        assert np.array_equal(part.array, beside.array)
    with pytest.raises(InvalidParameterError):
        found[2].slice(-1, 3)


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


def test_parts_of_a_batch_keep_their_positions():
    _, batch = taken(ArraySource(ROWS), [20, 20])
    part = batch.slice(3, 9)
    assert part.records == range(23, 29)
    assert np.array_equal(part.array, ROWS[23:29])
    assert part.slice(2, 100).records == range(25, 29)
    for start, stop in ((-3, 5), (5, 3), (-3, -1)):
        with pytest.raises(InvalidParameterError, match="part of a batch"):
            batch.slice(start, stop)


@pytest.mark.parametrize(
    "statistic", [second_moment, total, trace, norm_counts, column_counts, moment_products]
)
def test_statistics_of_a_batch_say_whose_they_are(statistic):
    batch = Batch(ROWS[10:30], 10)
    clip = Clip(row_norm=1.0)
    assert statistic(batch, clip, REPLACE).records == range(10, 30)
    assert statistic(ScaledSource(batch, np.ones(3)), clip, REPLACE).records == range(10, 30)
    assert statistic(ArraySource(ROWS), clip, REPLACE).records is None
    assert records_of(batch) == range(10, 30)


@pytest.mark.parametrize("source", [ArraySource(ROWS), MatrixSource([np.eye(3)[None]], 3)])
def test_neighbours_with_another_number_of_rows_are_refused(source):
    with pytest.raises(UnsupportedNotionError, match="replace-one"):
        Batches(source, ADD)


def test_persons_with_several_rows_are_refused():
    persons = GroupedSource(ArraySource(ROWS), np.arange(50) // 2)
    for source in (persons, ScaledSource(persons, np.ones(3))):
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


@pytest.mark.parametrize("layout", [np.asfortranarray, lambda rows: np.repeat(rows, 2, 1)[:, ::2]])
def test_rows_are_gathered_from_any_layout(layout):
    rows = np.arange(60.0).reshape(20, 3)
    order = np.random.default_rng(0).permutation(20)
    source = shuffled(open_rows(layout(rows)), lambda n: order, lambda chunk: None)
    assert np.array_equal(np.concatenate([np.array(c) for c in source.chunks()]), rows[order])


def test_pairs_come_in_a_random_order():
    """Sorted by their first row, batches of a sorted table would be sorted too."""
    rng = np.random.default_rng(0)
    rows = np.arange(2000.0)[:, None]
    pairs = PairedSource(open_rows(rows), Adjacency.REPLACE_ONE, rng.permutation)
    mixed = shuffled(pairs, rng.permutation, lambda chunk: None)
    before, after = (np.concatenate(list(source.chunks()))[:, 0] for source in (pairs, mixed))
    assert np.array_equal(np.sort(before), np.sort(after))
    assert not np.array_equal(before, after)
