"""Rows changed one by one: divided columns, coordinates along a few directions."""

from dataclasses import replace

import numpy as np
import pytest

from eigenveil.exact import (
    LARGEST_NORM,
    Clip,
    LengthOutside,
    Project,
    public_rows,
    second_moment,
    total,
)
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.privacy import GROUP, Adjacency
from eigenveil.rows import (
    ArraySource,
    Divide,
    GroupedSource,
    IterableSource,
    PairedSource,
    RowSource,
    open_rows,
    paired,
    sampled,
)
from tests.data.sources.tables import read

RNG = np.random.default_rng(3)
D, K = 37, 3
BASIS = np.linalg.qr(RNG.standard_normal((D, K)))[0]
CENTRE = 5 * RNG.standard_normal(D)
ROWS = CENTRE + RNG.standard_normal((400, D))
CLIP = Clip(row_norm=LARGEST_NORM, centre=CENTRE)
REPLACE = Adjacency.REPLACE_ONE


def projected(rows: object, clip: Clip = CLIP) -> np.ndarray:
    return np.concatenate(list(ArraySource(rows).map(Project(clip, BASIS)).chunks()))


def test_coordinates_are_those_of_the_rows():
    wanted = (ROWS - CENTRE) @ BASIS
    assert np.abs(projected(ROWS) - wanted).max() < 1e-6
    assert projected(ROWS).shape == (400, K)


def test_no_row_feels_the_others():
    together = projected(ROWS)
    for size in (1, 3, 17):
        parts = [projected(ROWS[start : start + size]) for start in range(0, 400, size)]
        np.testing.assert_array_equal(np.concatenate(parts), together)
    backwards = projected(np.asfortranarray(ROWS[::-1]))
    np.testing.assert_array_equal(backwards[::-1], together)


def test_sums_of_projected_rows_are_exact():
    clip = Clip(row_norm=4.0)
    source = ArraySource(ROWS).map(Project(CLIP, BASIS))
    query = second_moment(source, clip, REPLACE)
    assert query.exact
    chunked = IterableSource([ROWS[:7], ROWS[7:]]).map(Project(CLIP, BASIS))
    again = second_moment(chunked, clip, REPLACE)
    np.testing.assert_array_equal(query.value.units, again.value.units)
    inside = projected(ROWS)
    reference = inside.T @ inside / len(inside)
    np.testing.assert_allclose(query.value.to_float() * query.unit, reference, atol=0.2)


def test_an_empty_cell_lies_at_the_centre_and_an_infinite_one_is_invalid():
    rows = ROWS[:6].copy()
    rows[0, :5] = np.nan
    rows[1] = np.nan
    rows[2, 3] = np.inf
    with pytest.raises(InvalidDataError, match="missing or infinite"):
        projected(rows)
    filled = Clip(row_norm=1.0, centre=CENTRE, on_missing="centre", on_invalid="zero")
    moved = np.where(np.isnan(rows), CENTRE, rows) - CENTRE
    kept = [0, 1, 3, 4, 5]
    found = projected(rows, filled)
    np.testing.assert_allclose(found[kept], moved[kept] @ BASIS, atol=1e-6)
    assert np.isnan(found[2]).all()  # for whoever sums them
    dropped = projected(rows, Clip(row_norm=1.0, centre=CENTRE, on_invalid="zero"))
    assert np.isnan(dropped[:3]).all()
    assert np.isfinite(dropped[3:]).all()


@pytest.mark.parametrize("size", [1e-310, 1e-160, 1e149, 1e200, 1e308])
def test_no_finite_row_stops_a_run(size):
    rows = np.array([np.full(D, size), -np.full(D, size), ROWS[0]])
    far = Clip(row_norm=LARGEST_NORM, centre=np.full(D, 1e30))
    for clip in (CLIP, far):
        assert np.isfinite(projected(rows, clip)).all()
    second_moment(ArraySource(rows).map(Project(far, BASIS)), Clip(row_norm=1.0), REPLACE)


def test_entries_are_clamped_and_columns_scaled_before():
    scale = np.linspace(1, 2, D)
    box = (np.full(D, -1.0), np.full(D, 1.0))
    source = ArraySource(ROWS).map(Divide(scale))
    clip = Clip(row_norm=1.0, box=box)
    found = np.concatenate(list(source.map(Project(clip, BASIS)).chunks()))
    np.testing.assert_allclose(found, np.clip(ROWS / scale, *box) @ BASIS, atol=1e-6)


def test_rows_keep_their_owners():
    source = GroupedSource(ArraySource(ROWS), np.arange(400) // 4).map(Project(CLIP, BASIS))
    assert source.units.protects == GROUP
    assert public_rows(source) == 100
    clip = Clip(row_norm=50.0)
    found = total(source, clip, REPLACE)
    assert found.protects == GROUP
    assert found.count == 100
    # Four rows of one person weigh as one.
    wanted = projected(ROWS).mean(axis=0)
    np.testing.assert_allclose(found.value.to_float() * found.unit, wanted, atol=1e-3)
    with pytest.raises(InvalidParameterError, match="protected together"):
        list(source.chunks())


def test_a_sample_of_filled_rows_is_checked_once_they_are_filled():
    rows = ROWS.copy()
    rows[::3, 2] = np.nan
    clip = Clip(row_norm=1.0, centre=CENTRE, on_missing="centre")
    source = ArraySource(rows).map(Project(clip, BASIS))

    def every_other(n, size):
        return np.arange(size) * 2

    some = sampled(source, 0.5, REPLACE, every_other, Clip(row_norm=1.0).check)
    assert some.n_columns == K
    assert public_rows(some) == 200


def test_lengths_beside_the_basis():
    beside = np.concatenate(list(ArraySource(ROWS).map(LengthOutside(CLIP, BASIS)).chunks()))
    moved = ROWS - CENTRE
    wanted = np.linalg.norm(moved - moved @ BASIS @ BASIS.T, axis=1)
    np.testing.assert_allclose(beside[:, 0], wanted, rtol=1e-6)
    alone = [
        np.concatenate(list(ArraySource(row[None]).map(LengthOutside(CLIP, BASIS)).chunks()))
        for row in ROWS[:50]
    ]
    np.testing.assert_array_equal(np.concatenate(alone), beside[:50])
    odd = np.array([np.full(D, 1e308), np.full(D, np.nan), CENTRE])
    clip = replace(CLIP, on_invalid="zero")
    found = np.concatenate(list(ArraySource(odd).map(LengthOutside(clip, BASIS)).chunks()))[:, 0]
    assert np.isfinite(found[0])
    assert np.isnan(found[1])
    assert found[2] == 0


def test_scaled_columns(csv):
    rows = np.array([[2.0, 30.0, 7.0], [4.0, 60.0, 7.0]])
    source = open_rows(rows).map(Divide(np.array([2.0, 10.0, np.inf])))
    assert np.array_equal(read(source), [[1, 3], [2, 6]])
    assert isinstance(source, RowSource)
    named = open_rows(csv, columns=["age", "height"]).map(Divide(np.array([1.0, 2.0])))
    assert named.schema.feature_names == ("age", "height")
    assert not open_rows(iter([rows])).map(Divide(np.ones(3))).rereadable
    assert np.array_equal(np.abs(read(paired(source, REPLACE, np.arange))), [[0.5, 1.5]])
    pairs = PairedSource(source, REPLACE, np.arange)
    assert isinstance(pairs, RowSource)
    assert np.array_equal(np.abs(read(pairs)), [[0.5, 1.5]])
