"""Samples of rows, and rows in a random order."""

import numpy as np
import pytest

from eigenveil.exact import BasisProduct, Batches, Clip, moment_columns, second_moment, total, trace
from eigenveil.exceptions import InvalidParameterError, UnsupportedNotionError
from eigenveil.privacy import Adjacency
from eigenveil.rows import (
    ArraySource,
    Batch,
    Divide,
    GroupedSource,
    IterableSource,
    ShuffledBatch,
    open_rows,
    sampled,
    shuffled,
)

REPLACE = Adjacency.REPLACE_ONE
ROWS = np.random.default_rng(0).standard_normal((50, 3))


def kept(table, share, source=None, check=lambda rows: None):
    """The rows of a sample whose places a fixed generator draws."""

    def sample(n, size):
        return np.sort(np.random.default_rng(n).choice(n, size, replace=False))

    source = open_rows(table) if source is None else source
    return np.concatenate(
        list(sampled(source, share, Adjacency.REPLACE_ONE, sample, check).chunks())
    )


def test_a_sample_is_one_of_the_drawn_places():
    table = np.arange(90_000.0).reshape(-1, 3)
    rows = kept(table, 0.1)
    assert len(rows) == 3000
    # The same places of any other table, however it comes in chunks.
    other = np.random.default_rng(0).standard_normal(table.shape)
    places = (rows[:, 0] / 3).astype(int)
    # Whatever entries are, and whatever a row of its type does when it is read.
    strange = np.full((len(table), 3), 1.0, dtype=np.longdouble)
    strange[places[::2]] = np.longdouble("1e400")  # infinite where it is a double
    strange[places[1::4]] = np.nan
    strange[places[3::4]] = -1e308
    assert len(kept(strange, 0.1)) == len(places)
    assert np.array_equal(kept(other, 0.1), other[places])
    pieces = IterableSource(np.array_split(other, 7))
    assert np.array_equal(kept(None, 0.1, pieces), other[places])
    assert np.array_equal(
        kept(None, 0.1, open_rows(other).map(Divide(np.array([1, 2.0, np.inf])))),
        other[places][:, :2] / [1, 2.0],
    )


def test_a_sample_is_drawn_once_every_row_was_seen_and_needs_a_public_count():
    seen = []

    def sample(n, size):
        assert sum(seen) == n == 70_000
        return np.arange(size)

    def note(rows):
        seen.append(len(rows))

    sampled(open_rows(np.ones((70_000, 40))), 0.01, Adjacency.REPLACE_ONE, sample, note)
    with pytest.raises(UnsupportedNotionError, match="replace-one"):
        sampled(open_rows(np.ones((4, 1))), 0.5, Adjacency.ADD_REMOVE, sample, note)
    everything = open_rows(np.ones((4, 1)))
    assert sampled(everything, 1.0, Adjacency.ADD_REMOVE, sample, note) is everything


def test_persons_are_never_sampled_by_position():
    rows = ArraySource(np.zeros((100, 1)))
    grouped = GroupedSource(rows, np.arange(100) // 2)
    for source in (grouped, grouped.map(Divide(np.ones(1)))):
        assert sampled(source, 0.1, Adjacency.REPLACE_ONE, None, lambda rows: None) is source


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int16, np.longdouble])
def test_shuffled_rows_are_gathered_a_few_at_a_time(kind, monkeypatch):
    """What is summed over them is what is summed over the same rows side by side."""
    monkeypatch.setattr("eigenveil.rows.derived._MIN_GATHERED_ROWS", 4)
    monkeypatch.setattr("eigenveil.rows.derived._GATHERED_BYTES", 1)
    rows = np.asfortranarray(np.round(9 * ROWS).astype(kind))
    order = np.random.default_rng(1).permutation(50)
    mixed = shuffled(ArraySource(rows), lambda n: order[:n], lambda chunk: None)
    reader = Batches(mixed, REPLACE)
    found = [reader.take(size) for size in (1, 7, 42)]
    assert reader.take(1) is None
    parts = [found[0], found[1], found[2].slice(3, 30), found[2].slice(30, 99)]
    clip = Clip(row_norm=2.0, normalise=True)
    view = BasisProduct(np.linalg.qr(ROWS[:3, :2])[0])
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


@pytest.mark.parametrize("layout", [np.asfortranarray, lambda rows: np.repeat(rows, 2, 1)[:, ::2]])
def test_rows_are_gathered_from_any_layout(layout):
    rows = np.arange(60.0).reshape(20, 3)
    order = np.random.default_rng(0).permutation(20)
    source = shuffled(open_rows(layout(rows)), lambda n: order, lambda chunk: None)
    assert np.array_equal(np.concatenate([np.array(c) for c in source.chunks()]), rows[order])
