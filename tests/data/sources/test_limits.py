"""Squares of clipped rows, and marks of rows that a limit changed."""

import warnings

import numpy as np
import pytest

from eigenveil.data import Clip
from eigenveil.data.sources import ArraySource, ChangedSource, SquaredSource
from eigenveil.exceptions import InvalidDataError
from tests.data.sources.tables import read

ROWS = np.random.default_rng(3).standard_normal((300, 4)) * [5.0, 1.0, 0.1, 1.0]
CENTRE = np.array([1.0, 0.0, 0.0, -1.0])
CLIP = Clip(row_norm=3.0, centre=CENTRE, box=(CENTRE - 2, CENTRE + 2))
HUGE = np.array([1.7e308, 1e308, -1e200, 1e154, 1e-160, -1e-308, 0.0])


def squares(rows, clip=CLIP):
    return read(SquaredSource(ArraySource(rows), clip))


def marks(rows, clip=CLIP, turn=None):
    return read(ChangedSource(ArraySource(rows), clip, turn))[:, 0]


def test_squares_are_those_of_limited_and_clipped_rows():
    z = np.clip(ROWS - CENTRE, -2, 2)
    z *= np.minimum(1, 3 / np.linalg.norm(z, axis=1))[:, None]
    np.testing.assert_allclose(squares(ROWS), (z / 3) ** 2, atol=1e-15)


@pytest.mark.parametrize("box", [None, CLIP.box])
def test_no_row_is_longer_than_one_or_anything_but_a_number(box):
    rows = np.stack(np.meshgrid(HUGE, -HUGE, HUGE[::2], HUGE[1::2]), axis=-1).reshape(-1, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = squares(rows, Clip(row_norm=3.0, centre=CENTRE, box=box))
    assert np.isfinite(found).all()
    assert np.linalg.norm(found, axis=1).max() <= 1 + 1e-15


def test_each_row_has_the_same_bits_in_any_company():
    whole = squares(ROWS)
    for i in (0, 7, 299):
        assert (squares(ROWS[i : i + 1]) == whole[i]).all()
    assert (squares(ROWS[::-1].copy())[::-1] == whole).all()
    company = np.vstack([ROWS, np.full((1, 4), 1e308)])
    assert (squares(company)[:-1] == whole).all()


def test_marks_say_which_rows_a_limit_changed():
    rows = np.array(
        [
            [1.0, 0.0, 0.0, -1.0],  # at the centre
            [3.0, 0.0, 0.0, -1.0],  # at a column limit
            [3.1, 0.0, 0.0, -1.0],
            [2.9, 1.9, 1.9, -1.0],  # longer than 3 only
            [1.0, 100.0, 0.0, -1.0],  # at the centre but for whole turns
            [np.nan, 0.0, 0.0, -1.0],
        ]
    )
    clip = Clip(row_norm=3.0, centre=CENTRE, box=CLIP.box, on_missing="centre")
    np.testing.assert_array_equal(
        marks(rows, clip, np.full(4, 50.0)), [-0.5, -0.5, 0.5, 0.5, 0.5, -0.5]
    )


def test_invalid_rows_are_left_to_whoever_reads():
    rows = np.vstack([ROWS[:2], np.full((1, 4), np.nan)])
    clip = Clip(row_norm=3.0, on_invalid="zero")
    assert np.isnan(squares(rows, clip)[2]).all()
    assert np.isnan(marks(rows, clip)[2])
    with pytest.raises(InvalidDataError):
        squares(rows, Clip(row_norm=3.0))
