"""Rows within limits of their columns, squares of rows, and marks of rows that a limit changed."""

import warnings

import numpy as np
import pytest

from eigenveil.exact import Clip, Limit, MarkChanged, Square
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.numerics import ColumnLimits
from eigenveil.rows import ArraySource, GroupedSource, open_rows
from tests.data.sources.tables import read

ROWS = np.random.default_rng(3).standard_normal((300, 4)) * [5.0, 1.0, 0.1, 1.0]
CENTRE = np.array([1.0, 0.0, 0.0, -1.0])
CLIP = Clip(row_norm=3.0, centre=CENTRE, box=(CENTRE - 2, CENTRE + 2))
HUGE = np.array([1.7e308, 1e308, -1e200, 1e154, 1e-160, -1e-308, 0.0])


def squares(rows, clip=CLIP):
    return read(ArraySource(rows).map(Square(clip)))


def marks(rows, clip=CLIP, limits=None):
    return read(ArraySource(rows).map(MarkChanged(clip, limits)))[:, 0]


TURN = np.array([1.0, 16.0, 1e-6, 1e6])
FAR_CENTRE = np.array([1990.0, 0.1, 0.0, -5e6])


def limits(**options):
    numbers = {"scale": np.ones(4), "centre": FAR_CENTRE, "turn": TURN, **options}
    return ColumnLimits(**numbers)


def limited(rows, **options):
    return read(ArraySource(np.asarray(rows)).map(Limit(limits(**options))))


def test_folding_drops_whole_turns_only():
    near = FAR_CENTRE + 0.49 * TURN * np.random.default_rng(0).uniform(-1, 1, (200, 4))
    np.testing.assert_array_equal(limited(near), near)
    np.testing.assert_allclose(limited(near + 3 * TURN), near, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(limited(near - TURN), near, rtol=1e-9, atol=1e-9)


def test_columns_are_divided_before_they_are_limited():
    scale = np.array([2.0, 4.0, 0.5, 1e3])
    found = limited(ROWS * scale, scale=scale, centre=CENTRE, turn=np.full(4, 1e9), limit=2.0)
    np.testing.assert_allclose(found, np.clip(ROWS, CENTRE - 2, CENTRE + 2), rtol=1e-15)


def test_limited_rows_lie_within_half_a_turn_and_the_limit():
    rows = np.full((len(HUGE), 4), HUGE[:, None])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        folded, limited_too = limited(rows), limited(rows, limit=0.3)
    assert (np.abs(folded - FAR_CENTRE) <= TURN / 2 * (1 + 1e-9)).all()
    assert (np.abs(limited_too - FAR_CENTRE) <= np.minimum(0.3, TURN / 2) * (1 + 1e-9)).all()
    wide = limited(ROWS.astype(np.longdouble))
    assert wide.dtype == np.float64
    np.testing.assert_array_equal(wide, limited(ROWS))


def test_missing_entries_stay_or_lie_at_the_centre():
    rows = [[np.nan, np.inf, -np.inf, 0.0]]
    np.testing.assert_array_equal(limited(rows)[0, :3], rows[0][:3])
    np.testing.assert_array_equal(limited(rows, fills=True)[0, :3], [1990.0, np.inf, -np.inf])


def test_a_limited_row_does_not_depend_on_the_rows_beside_it():
    rows = np.vstack([ROWS, np.full((2, 4), 1e300), np.full((1, 4), np.nan), ROWS * 1e20])
    together = limited(rows, limit=0.4)
    for size in (1, 3, 17):
        parts = [limited(rows[i : i + size], limit=0.4) for i in range(0, len(rows), size)]
        np.testing.assert_array_equal(np.vstack(parts), together)


def test_limited_rows_keep_names_and_owners(csv):
    named = open_rows(csv, columns=["age", "height"])
    two = {"scale": np.ones(2), "centre": np.zeros(2), "turn": np.ones(2)}
    assert named.map(Limit(limits(**two))).schema.feature_names == ("age", "height")
    owners = np.arange(len(ROWS)) // 3
    source = GroupedSource(ArraySource(ROWS), owners).map(Limit(limits()))
    assert source.units.protects.owns_many
    tables = list(source.unit_tables())
    np.testing.assert_array_equal(np.concatenate([units for _, units in tables]), owners)
    np.testing.assert_array_equal(np.vstack([rows for rows, _ in tables]), limited(ROWS))


def test_rows_are_changed_some_at_a_time():
    """In blocks that stay in cache, with the owners of each."""
    rows = np.random.default_rng(0).standard_normal((100_000, 4))
    owners = np.repeat(np.arange(50_000), 2)
    source = GroupedSource(ArraySource(rows), owners).map(Limit(limits()))
    tables = list(source.unit_tables())
    assert len(tables) > 1
    np.testing.assert_array_equal(np.concatenate([units for _, units in tables]), owners)
    np.testing.assert_array_equal(np.vstack([some for some, _ in tables]), limited(rows))


@pytest.mark.parametrize("turn", [0.0, -1.0, np.nan, np.inf, 1e-200])
def test_refuses_turns_and_centres_that_are_not_numbers(turn):
    for wrong in ({"turn": np.append(TURN[1:], turn)}, {"turn": TURN[1:]}):
        with pytest.raises(InvalidParameterError, match="number for each column"):
            limits(**wrong)
    with pytest.raises(InvalidParameterError, match="finite number for each column"):
        limits(centre=np.full(4, np.inf))


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
    clip = Clip(row_norm=3.0, centre=CENTRE, on_missing="centre")
    turn = np.full(4, 50.0)
    about = limits(centre=CENTRE, turn=turn, limit=2.0, fills=True)
    expected = [-0.5, -0.5, 0.5, 0.5, 0.5, -0.5]
    np.testing.assert_array_equal(marks(rows, clip, about), expected)
    boxed = Clip(row_norm=3.0, centre=CENTRE, box=CLIP.box, on_missing="centre")
    np.testing.assert_array_equal(marks(rows, boxed), expected)


def test_invalid_rows_are_left_to_whoever_reads():
    rows = np.vstack([ROWS[:2], np.full((1, 4), np.nan)])
    clip = Clip(row_norm=3.0, on_invalid="zero")
    assert np.isnan(squares(rows, clip)[2]).all()
    assert np.isnan(marks(rows, clip)[2])
    with pytest.raises(InvalidDataError):
        squares(rows, Clip(row_norm=3.0))
