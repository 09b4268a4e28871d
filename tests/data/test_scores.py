"""Counts of rows on a plane: every row in one cell, whoever owns it."""

import numpy as np
import pytest

from eigenveil.exact import Clip, Frame, score_counts
from eigenveil.privacy import Adjacency
from eigenveil.rows import GroupedSource, open_rows

ONE = 1 << 20
FRAME = Frame(np.eye(3)[:2], np.array([2.0, 1.0]), 4)
CLIP = Clip(row_norm=1e6, on_invalid="zero", on_missing="invalid")
ROWS = np.array(
    [
        [-1.9, -0.9, 7.0],  # the first cell
        [1.9, 0.9, 0.0],  # the last
        [0.1, -0.6, 0.0],
        [0.1, -0.6, 99.0],
        [2.01, 0.0, 0.0],  # beyond the frame
        [-1.99, -0.99, 0.0],  # within its corner
        [np.nan, 0.0, 0.0],
        [1e308, 1e308, 1e308],
    ]
)


def counts(source, **options):
    return score_counts(source, CLIP, FRAME, Adjacency.REPLACE_ONE, **options).value.units


def test_every_row_is_in_one_cell():
    found = counts(open_rows(ROWS))
    expected = np.zeros(17)
    expected[[0, 15]] = 2, 1
    expected[2 * 4 + 0] = 2
    expected[16] = 3
    np.testing.assert_array_equal(found / ONE, expected)


def test_neither_order_nor_chunks_matter():
    rows = np.random.default_rng(0).standard_normal((500, 3))
    whole = counts(open_rows(rows))
    np.testing.assert_array_equal(whole, counts(open_rows(rows[::-1])))
    np.testing.assert_array_equal(whole, sum(counts(open_rows(row[None])) for row in rows))


def test_rows_of_a_person_share_one_count():
    found = counts(GroupedSource(open_rows(ROWS[:4]), np.array([0, 0, 0, 1])))
    assert found[15] == ONE // 3
    assert found[8] == ONE // 3 + ONE
    assert found.sum() <= 2 * ONE


@pytest.mark.parametrize(("adjacency", "l2"), [("replace-one", 2**0.5), ("add-remove", 1.0)])
def test_what_one_row_moves(adjacency, l2):
    neighbours = Adjacency.parse(adjacency)
    query = score_counts(open_rows(ROWS), CLIP, FRAME, neighbours)
    assert query.sensitivity("l2") == l2
    assert query.sensitivity("l1") == (2.0 if adjacency == "replace-one" else 1.0)
    assert query.count == (8 if adjacency == "replace-one" else None)
