"""Partitions of Spark that are computed anew for every job, with a stand-in for a frame."""

import numpy as np
import pytest

from eigenveil.exact import Clip, second_moment
from eigenveil.exceptions import InvalidDataError
from eigenveil.privacy import Adjacency
from eigenveil.rows import open_rows, sampled

pytest.importorskip("pyarrow", reason="needs the extra parquet")

from tests.data.distributed.stand_in import Frame, without_spark

ROWS = np.random.default_rng(0).standard_normal((500, 4)) + 1
CLIP = Clip(row_norm=3.0)
REPLACE = Adjacency.REPLACE_ONE
CHANGED = "changed while it was read"


@pytest.fixture(autouse=True)
def tasks(monkeypatch):
    without_spark(monkeypatch)


def frame(order):
    return Frame("abcd", lambda: np.array_split(order(ROWS), 5))


def shuffled(rows):
    return np.random.default_rng().permutation(rows)


def inside(rows):
    """In another order inside every partition, as after a shuffle of Spark."""
    return np.concatenate([shuffled(part) for part in np.array_split(rows, 5)])


def test_sums_do_not_mind_the_order_inside_a_partition():
    expected = second_moment(open_rows(ROWS), CLIP, REPLACE).value.units
    source = open_rows(frame(inside))
    for _ in range(2):
        assert np.array_equal(second_moment(source, CLIP, REPLACE).value.units, expected)
    assert np.array_equal(np.sort(source.whole(), axis=0), np.sort(ROWS, axis=0))


def test_a_frame_without_partitions_has_no_rows():
    source = open_rows(Frame("abcd", list))
    assert not second_moment(source, CLIP, Adjacency.ADD_REMOVE).value.units.any()
    assert source.whole().shape == (0, 4)
    with pytest.raises(InvalidDataError, match="no rows"):
        second_moment(source, CLIP, REPLACE)


@pytest.mark.parametrize(
    "read",
    [
        lambda source: source.whole(),
        lambda source: [second_moment(source, CLIP, REPLACE) for _ in range(2)],
        lambda source: sampled(source, 0.1, REPLACE, lambda n, size: np.arange(size), CLIP.check),
    ],
    ids=["whole", "two sums", "sample"],
)
def test_partitions_that_hold_other_rows_each_time_are_refused(read):
    with pytest.raises(InvalidDataError, match=CHANGED):
        read(open_rows(frame(shuffled)))
