"""Rows wrapped around circles of one or several lengths, and the centre that their mean shows."""

import math
import warnings

import numpy as np
import pytest

from eigenveil.exact import Clip, OnCircles, circular_mean, total
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.privacy import GROUP, Adjacency
from eigenveil.rows import ArraySource, GroupedSource, IterableSource, open_rows
from tests.data.persons import distance, listed, people
from tests.data.sources.tables import read

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
TURN = np.array([1.0, 16.0, 1e-6, 1e6, 0.3])
D = TURN.size
ROWS = np.random.default_rng(3).standard_normal((300, D)) * TURN
HUGE = [1e308, -1e308, 1.7e308, 1e-308, -1e-320, -1e-17, 0.0, -0.0, 1e17]


LONGER = {"circles": 10, "doublings": 2}  # the most that a fit draws


def circled(rows, **lengths):
    return read(ArraySource(np.asarray(rows)).map(OnCircles(TURN, **lengths)))


def summed(source, adjacency, **options):
    clip = Clip(row_norm=source.change.reach, **options)
    return total(source, clip, adjacency)


def test_coordinates_are_cosines_then_sines():
    angles = 2 * np.pi * ROWS / TURN
    np.testing.assert_allclose(
        circled(ROWS), np.hstack([np.cos(angles), np.sin(angles)]), atol=1e-12
    )
    eighths = np.arange(-16, 17)[:, None] / 8 * TURN
    angles = 2 * np.pi * eighths / TURN
    exact = np.hstack([np.cos(angles), np.sin(angles)])
    np.testing.assert_allclose(circled(eighths), exact, atol=1e-13)


def test_longer_circles_follow_the_first():
    """Angles of shorter circles are doubled ones of the longest: still exact to 1e-8."""
    source = ArraySource(ROWS).map(OnCircles(TURN, **LONGER))
    found = read(source).reshape(len(ROWS), 10, 2, D)
    angles = 2 * np.pi * ROWS[:, None] / source.change.turns
    np.testing.assert_allclose(source.change.turns, TURN * 4.0 ** np.arange(10)[:, None])
    np.testing.assert_allclose(found[:, :, 0], np.cos(angles), atol=1e-8)
    np.testing.assert_allclose(found[:, :, 1], np.sin(angles), atol=1e-8)


@pytest.mark.parametrize("lengths", [{}, LONGER], ids=["one", "ten"])
def test_every_row_has_the_same_length(lengths):
    rows = np.vstack([ROWS, ROWS * 1e9, np.full((len(HUGE), D), np.array(HUGE)[:, None])])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = np.linalg.norm(circled(rows, **lengths), axis=1)
    length = math.sqrt(D * lengths.get("circles", 1))
    np.testing.assert_allclose(found, length, rtol=1e-8 if lengths else 1e-14)
    reach = ArraySource(rows).map(OnCircles(TURN, **lengths)).change.reach
    assert length < reach < 1.001 * length


@pytest.mark.parametrize("lengths", [{}, LONGER], ids=["one", "ten"])
def test_a_row_does_not_depend_on_the_rows_beside_it(lengths):
    rows = np.vstack([ROWS, np.full((2, D), 1e300), np.full((1, D), np.nan), ROWS * 1e20])
    together = circled(rows, **lengths)
    for size in (1, 3, 17):
        parts = [rows[start : start + size] for start in range(0, len(rows), size)]
        alone = [circled(part, **lengths) for part in parts]
        np.testing.assert_array_equal(np.vstack(alone), together)
    backwards = circled(np.asfortranarray(rows[::-1]), **lengths)
    np.testing.assert_array_equal(backwards[::-1], together)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)
@pytest.mark.parametrize("lengths", [{}, {"circles": 3, "doublings": 2}], ids=["one", "three"])
def test_changing_one_row_moves_the_sum_by_the_diameter_at_most(adjacency, lengths):
    """Nearly attained by angles 0 and pi; sqrt(d) would be too little for replaced rows."""
    shifts = [0.0, 0.5, 0.25, -0.3, 7.1]
    others = [TURN * shift for shift in shifts]
    others += [np.full(D, value) for value in (*HUGE, np.nan, np.inf)]
    changed = others if adjacency is REPLACE else [None]
    most = 0.0
    for row in others:
        for other in changed:
            tables = [ROWS if new is None else np.vstack([ROWS, new]) for new in (row, other)]
            found = [
                summed(
                    ArraySource(table).map(OnCircles(TURN, **lengths)), adjacency, on_invalid="zero"
                )
                for table in tables
            ]
            gap = distance(*found, "l2")
            assert gap <= found[0].sensitivity("l2")
            assert distance(*found, "l1") <= found[0].sensitivity("l1")
            most = max(most, gap)
    assert found[0].sensitivity("l2") == (2.0 if adjacency is REPLACE else math.sqrt(2))
    if not lengths:  # angles are half a turn apart on the shortest circle alone
        assert most == pytest.approx(found[0].sensitivity("l2"), abs=2.0**-12)


@pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)
def test_a_person_moves_the_sum_no_further_than_a_row(adjacency):
    persons, turn = people(), np.array([2.0, 4.0, 0.5])

    def found(chosen):
        source = listed(chosen).map(OnCircles(turn))
        assert source.units.protects == GROUP
        return summed(source, adjacency, on_invalid="zero", on_missing="centre")

    whole = found([*persons, persons[0]])
    for person in persons:
        other = found(
            [*persons, person] if adjacency is REPLACE else [*persons, persons[0], person]
        )
        for norm in ("l2", "l1"):
            assert distance(whole, other, norm) <= whole.sensitivity(norm)


def summed_rows(rows, **options):
    """Return integers summed row by row."""
    integers = np.empty(rows.shape)
    Clip(**options).to_integers(rows, integers)
    return integers.sum(axis=0).astype(np.int64)


def test_sums_are_those_of_integer_rows_however_many_are_incomplete():
    """A block of complete rows may be summed at once, any other one row by row."""
    rows = np.tile(ROWS, (40, 1))
    rows[7000, 2] = np.nan
    for table in (rows, rows[:6000]):
        source = ArraySource(table).map(OnCircles(TURN, circles=3, doublings=2))
        found = summed(source, REPLACE, on_missing="centre").value.units
        expected = summed_rows(read(source), row_norm=source.change.reach, on_missing="centre")
        np.testing.assert_array_equal(found, expected)


def test_the_sum_does_not_depend_on_order_or_chunks():
    source = ArraySource(ROWS).map(OnCircles(TURN))
    expected = summed(source, REPLACE).value.units
    for table in (ROWS[::-1], iter(np.array_split(ROWS, 7)), np.asfortranarray(ROWS)):
        other = summed(open_rows(table).map(OnCircles(TURN)), REPLACE)
        np.testing.assert_array_equal(other.value.units, expected)
    assert summed(source, REPLACE).exact


def test_missing_cells_are_filled_and_infinite_ones_invalid():
    rows = ROWS[:5].copy()
    rows[0, 1] = np.nan
    rows[1] = np.nan
    found = circled(rows)
    assert np.isnan(found[0, [1, D + 1]]).all()
    assert np.isfinite(np.delete(found[0], [1, D + 1])).all()
    filled = summed(ArraySource(rows).map(OnCircles(TURN)), REPLACE, on_missing="centre")
    expected = np.nan_to_num(found).mean(axis=0)
    np.testing.assert_allclose(filled.value.to_float() * filled.unit, expected, atol=1e-4)
    with pytest.raises(InvalidDataError, match="missing or infinite"):
        summed(ArraySource(rows).map(OnCircles(TURN)), REPLACE)
    rows[2, 3] = np.inf
    rows[3, 3] = -np.inf
    source = ArraySource(rows).map(OnCircles(TURN))
    assert np.isinf(circled(rows)[[2, 3]][:, [3, D + 3]]).all()
    with pytest.raises(InvalidDataError, match="infinite"):
        summed(source, REPLACE, on_missing="centre")
    left = summed(source, REPLACE, on_missing="centre", on_invalid="zero")
    expected = np.nan_to_num(found[[0, 1, 4]]).sum(axis=0) / 5
    np.testing.assert_allclose(left.value.to_float() * left.unit, expected, atol=1e-4)


def test_the_circular_mean_is_the_centre_up_to_whole_turns():
    centre = np.array([0.4, -3.0, 4e-7, 7.3e6, 0.0])
    rows = centre + 0.02 * TURN * np.random.default_rng(0).standard_normal((4000, D))
    found, turn = circular_mean(circled(rows).mean(axis=0), TURN[None])
    assert (turn == TURN).all()
    away = (found - centre) / TURN
    np.testing.assert_allclose(away, np.rint(away), atol=2e-3)
    assert (np.abs(found) <= TURN / 2).all()


@pytest.mark.parametrize("doublings", [2, 3])
def test_longer_circles_tell_the_turn(doublings):
    """The centre is as fine as the shortest circle shows it, and as far as the longest reaches."""
    centre = np.array([0.4, -3.0, 4e-5, 7.3e7, 30.0])
    rows = centre + 0.05 * TURN * np.random.default_rng(0).standard_normal((4000, D))
    source = ArraySource(rows).map(OnCircles(TURN, circles=5, doublings=doublings))
    found, turn = circular_mean(read(source).mean(axis=0), source.change.turns, 0.01)
    assert (turn == source.change.turns[-1]).all()
    np.testing.assert_allclose((found - centre) / TURN, 0.0, atol=5e-3)


def test_a_turn_that_noise_could_change_is_not_told():
    """Points of rows that hold no values lie in the middle: a longer circle tells less there."""
    centre = np.array([0.4, -3.0, 4e-5, 7.3e7, 30.0])
    rows = centre + 0.05 * TURN * np.random.default_rng(0).standard_normal((4000, D))
    source = ArraySource(rows).map(OnCircles(TURN, circles=5, doublings=2))
    mean = read(source).mean(axis=0)
    mean[: D * 5 * 2 : D] *= 0.3  # of the first column, on all circles
    _, turn = circular_mean(mean, source.change.turns, 0.1)
    assert turn[0] == source.change.turns[1, 0]
    assert (turn[1:] == source.change.turns[-1, 1:]).all()


def test_points_keep_owners():
    source = GroupedSource(ArraySource(ROWS), np.arange(300) // 3)
    for base in (source, IterableSource([ROWS])):
        changed = base.map(OnCircles(TURN))
        assert changed.units.protects == base.units.protects
        assert changed.rereadable == base.rereadable


@pytest.mark.parametrize("turn", [0.0, -1.0, np.nan, np.inf, 1e-200])
def test_refuses_turns_that_are_not_positive_numbers(turn):
    wrong = np.append(TURN[1:], turn)
    for make in (
        lambda: ArraySource(ROWS).map(OnCircles(wrong)),
        lambda: ArraySource(ROWS).map(OnCircles(TURN[1:])),
        lambda: ArraySource(ROWS).map(OnCircles(TURN * 1e90, circles=9, doublings=4)),
    ):
        with pytest.raises(InvalidParameterError, match="number for each column"):
            make()
