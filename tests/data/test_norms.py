"""Counts of row norms and statistics of second moments."""

import math

import numpy as np
import pytest

from eigenveil.exact import (
    BRACKETS,
    NO_EXPONENT,
    Clip,
    column_counts,
    compressed,
    distance_counts,
    eigenvalues,
    norm_counts,
    rows_beyond,
    second_moment,
    trace,
    weighted_counts,
)
from eigenveil.exceptions import InvalidDataError
from eigenveil.privacy import Adjacency
from eigenveil.rows import open_rows

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
CLIP = Clip(row_norm=4.0, on_invalid="zero")


def counts(rows, adjacency=REPLACE, clip=CLIP):
    return norm_counts(open_rows(np.asarray(rows, dtype=float)), clip, adjacency)


def test_rows_are_counted_by_exponent():
    rows = [[9.0, 0], [4.0, 0], [3.9, 0], [2.0, 0], [1.9, 0], [0, 1.0], [0, 0], [np.nan, 1.0]]
    found = counts(rows).value.units
    # From 2.83 on: exponent 0; from 2 to 2.83: 1; from 1.41 to 2: 2; from 1 to 1.41: 3.
    assert found[:4].tolist() == [3, 1, 1, 1]
    assert found[NO_EXPONENT] == 2
    assert found.sum() == 8
    assert rows_beyond(counts(rows)).value.units[:5].tolist() == [3, 4, 5, 6, 6]


@pytest.mark.parametrize("per_octave", [2, 4, 8])
def test_distances_are_counted_in_parts_of_octaves(per_octave):
    rng = np.random.default_rng(0)
    rows = 2.0 ** rng.uniform(-600, 20, (500, 1))
    ends = 4.0 * 2.0 ** -(np.arange(100.0) / per_octave)[:, None]  # brackets end below these
    table = np.vstack([rows, ends, [[0.0], [np.nan], [np.inf], [1e308], [1e-308]]])
    found = distance_counts(open_rows(table), CLIP, ADD, per_octave).value.to_float()
    last = NO_EXPONENT // 2 * per_octave
    assert found.size == last + 1
    with np.errstate(divide="ignore"):
        places = np.ceil(-per_octave * np.log2(rows / 4)) - 1
    expected = np.bincount(np.clip(places, 0, last - 1).astype(int).ravel(), minlength=last + 1)
    expected[0] += 1  # 4 itself
    expected[: ends.size - 1] += 1
    expected[last] += 3
    expected[0] += 1  # 1e308
    expected[last] += 1  # 1e-308: below the smallest normal number
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("size", [1e308, 1e-308, 5e-324, 1e200, 1e-200])
def test_extreme_norms_have_a_place(size):
    found = counts([[size, size]]).value.units
    assert found.sum() == 1
    relative = size / 4 * np.sqrt(2)
    (place,) = np.flatnonzero(found)
    if relative < 2.0**-1022:
        assert place == NO_EXPONENT
    elif relative >= 1:
        assert place == 0
    else:
        assert place == math.floor(-2 * math.log2(relative))


def test_a_difference_that_overflows_is_far_away():
    clip = Clip(row_norm=1.0, centre=np.full(2, -1e308))
    assert counts([[1e308, 1.5e308]], clip=clip).value.units[0] == 1


def test_weights_are_held_to_one():
    base = counts([[0.8, 0.8], [3.0, 0]])
    weights = np.zeros((2, NO_EXPONENT + 1))
    weights[0, [0, 3]] = 0.3, 1.0
    answer = weighted_counts(base, weights).value
    assert answer.to_float() == pytest.approx([1.3, 0.0], abs=1e-8)
    with pytest.raises(ValueError, match="between 0 and 1"):
        weighted_counts(base, weights * 2)


def test_an_empty_table_is_an_error_only_where_its_size_is_public():
    empty = np.empty((0, 2))
    with pytest.raises(InvalidDataError, match="no rows"):
        counts(empty)
    assert not counts(empty, ADD).value.units.any()
    with pytest.raises(InvalidDataError, match="no rows"):
        trace(open_rows(empty), CLIP, REPLACE)


def test_the_trace_is_that_of_the_second_moment():
    rows = np.random.default_rng(0).standard_normal((300, 5))
    for adjacency in (REPLACE, ADD):
        moment = second_moment(open_rows(rows), CLIP, adjacency)
        found = trace(open_rows(rows), CLIP, adjacency)
        assert found.value.units[0] == np.trace(moment.value.units)
        assert found.unit == moment.unit
        assert found.trace_bound == moment.trace_bound


@pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)
def test_eigenvalues_and_compressions(adjacency):
    rows = np.random.default_rng(0).standard_normal((300, 5))
    moment = second_moment(open_rows(rows), CLIP, adjacency)
    matrix = moment.value.to_float()
    values = eigenvalues(moment)
    assert values.value.to_float() == pytest.approx(np.linalg.eigvalsh(matrix), abs=1e-8)
    assert not values.exact
    basis = np.linalg.qr(np.random.default_rng(1).standard_normal((5, 3)))[0]
    part = compressed(moment, basis)
    assert part.value.to_float() == pytest.approx(basis.T @ matrix @ basis, abs=1e-8)
    assert part.sensitivities == moment.sensitivities
    assert not part.exact


def test_lifted_rows_hold_sum_and_count():
    rows = np.random.default_rng(0).standard_normal((500, 3))
    rows[3, 0] = np.nan
    clip = Clip(row_norm=10.0, on_invalid="zero", lift=0.5)
    moment = second_moment(open_rows(rows), clip, ADD)
    matrix = moment.value.to_float() * moment.unit
    valid = np.delete(rows, 3, axis=0)
    assert matrix[:3, :3] == pytest.approx(valid.T @ valid, rel=1e-4, abs=0.02)
    assert matrix[:3, 3] / 5.0 == pytest.approx(valid.sum(axis=0), rel=1e-4, abs=0.02)
    assert matrix[3, 3] / 25.0 == pytest.approx(499, rel=1e-4)


def test_a_transform_is_applied_before_clipping():
    rows = np.array([[1.0, 0.0], [0.0, 1.0]])
    clip = Clip(row_norm=2.0, transform=np.diag([2.0, 100.0]))
    moment = second_moment(open_rows(rows), clip, REPLACE)
    found = moment.value.to_float() * moment.unit
    assert found == pytest.approx(np.diag([2.0, 2.0]), rel=1e-4)
    assert not moment.exact


def magnitudes(rows, adjacency=REPLACE, clip=CLIP):
    return column_counts(open_rows(np.asarray(rows, dtype=float)), clip, adjacency)


def filled(counts):
    """Brackets that hold a row, by column."""
    return [
        {BRACKETS[int(e)]: int(column[e]) for e in np.flatnonzero(column)}
        for column in counts.value.units
    ]


def test_entries_are_counted_by_octaves():
    rows = [[1.0, -4.0], [0.25, 0.0], [0.49, 2.0**-200], [1.99, 1e308], [np.nan, 1.0]]
    assert filled(magnitudes(rows)) == [{-2: 2, 0: 2}, {2: 1, BRACKETS[-1]: 1}]


def test_extreme_entries_have_a_place():
    lowest, highest = 2.0 ** BRACKETS[0], 2.0 ** (BRACKETS[-1] + 1)
    assert filled(magnitudes([[lowest], [np.nextafter(lowest, 0)]])) == [{BRACKETS[0]: 1}]
    just_below = np.nextafter(highest, 0)
    assert filled(magnitudes([[just_below], [highest], [1.7e308]])) == [{BRACKETS[-1]: 3}]
    assert filled(magnitudes([[5e-324], [0.0], [-0.0]])) == [{}]
    far = Clip(row_norm=1.0, centre=np.array([-1e308]))  # the difference overflows
    assert filled(magnitudes([[1.5e308]], clip=far)) == [{BRACKETS[-1]: 1}]


@pytest.mark.parametrize("d", [1, 2, 5])
def test_how_far_one_row_moves_the_counts_of_columns(d):
    """sqrt(d) instead of sqrt(2 d) would be too little for replaced rows."""
    company = np.random.default_rng(0).standard_normal((6, d))
    wild = [np.ones(d), np.full(d, 4.0), np.zeros(d), np.full(d, 1e308), np.full(d, np.nan)]
    furthest = {REPLACE: 0.0, ADD: 0.0}
    for row in wild:
        with_row = np.vstack([company, row])
        for adjacency, others in ((REPLACE, wild), (ADD, [None])):
            for other in others:
                without = company if other is None else np.vstack([company, other])
                first, second = magnitudes(with_row, adjacency), magnitudes(without, adjacency)
                gap = (first.value.units - second.value.units).ravel()
                squared = int(gap @ gap)
                assert squared <= first.sensitivity("l2") ** 2
                assert np.abs(gap).sum() <= first.sensitivity("l1")
                furthest[adjacency] = max(furthest[adjacency], squared)
    assert furthest == {REPLACE: 2 * d, ADD: d}


def test_magnitudes_of_a_table_in_any_order_and_chunks():
    rows = np.random.default_rng(0).standard_normal((500, 3)) * [1e-9, 1.0, 1e9]
    expected = magnitudes(rows).value.units
    for other in (rows[::-1], iter(np.array_split(rows, 7)), np.asfortranarray(rows)):
        assert np.array_equal(column_counts(open_rows(other), CLIP, REPLACE).value.units, expected)
    counted = magnitudes(rows)
    assert (counted.count, magnitudes(rows, ADD).count) == (500, None)
    with pytest.raises(InvalidDataError, match="no rows"):
        magnitudes(np.empty((0, 2)))
    assert not magnitudes(np.empty((0, 2)), ADD).value.units.any()


def test_a_normalised_row_is_measured_before_it_is():
    """Distances and octaves are those of rows about the centre, however they are clipped later."""
    rows = np.random.default_rng(0).standard_normal((50, 3)) * 100
    clip = Clip(row_norm=4.0, on_invalid="zero", normalise=True)
    assert np.array_equal(counts(rows, clip=clip).value.units, counts(rows).value.units)
    assert np.array_equal(magnitudes(rows, clip=clip).value.units, magnitudes(rows).value.units)
