"""Median of means: where it lands, what a row moves, and how blocks are drawn."""

import itertools
import math

import numpy as np
import pytest

from eigenveil.exact import Clip, value_counts
from eigenveil.exceptions import InvalidBudgetError, InvalidDataError, UnsupportedNotionError
from eigenveil.mechanisms import Gate, MedianOfMeans, blocks_of, findable, free_ends
from eigenveil.numerics import SimulationSource
from eigenveil.privacy import Adjacency, Pure
from eigenveil.rows import GroupedSource, TakeColumns, count_units, open_rows
from tests.conformance import case

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
RANGE = Clip(row_norm=1.0, box=(np.array([-1.0]), np.array([1.0])), on_invalid="zero")
FREE = Clip(row_norm=1.0, on_invalid="zero")
ENDS = np.linspace(-1.0, 1.0, 9)


def found(mechanism, values, clip=FREE, adjacency=REPLACE, seed=0):
    gate = Gate(
        mechanism.cost(),
        label="x",
        adjacency=adjacency,
        ledger=None,
        noise=SimulationSource(seed),
    )
    centre, error = mechanism.run(open_rows(values[:, None]), clip, gate)
    assert error == math.inf
    assert gate.exact
    return float(centre[0])


def counts(values, blocks=None, adjacency=REPLACE, ids=None):
    source = open_rows(np.asarray(values, dtype=float)[:, None])
    source = source if ids is None else GroupedSource(source, np.asarray(ids))
    blocks = None if blocks is None else np.asarray(blocks)
    return value_counts(source, ENDS, adjacency, blocks).value.units[::-1].tolist()


def test_numbers_are_counted_in_brackets_and_beyond_them_at_the_ends():
    assert counts([-0.9, -0.9, 0.1, 5.0, -1e300]) == [3, 0, 0, 0, 1, 0, 0, 1]
    assert counts([0.1, math.nan, math.inf]) == [0, 0, 0, 0, 1, 0, 0, 0]


def test_blocks_and_persons_are_counted_once_at_their_means():
    assert counts([-1.0, 1.0, 0.9, 0.8], blocks=[0, 0, 1, 1]) == [0, 0, 0, 0, 1, 0, 0, 1]
    assert counts([-1.0, 0.9, 1.0, 0.8], ids=[7, 9, 7, 9]) == [0, 0, 0, 0, 1, 0, 0, 1]
    # A block without any number has no mean.
    assert counts([math.nan, math.nan, 0.9], blocks=[0, 0, 1]) == [0] * 7 + [1]
    assert counts([math.nan, 0.9], blocks=[0, 0]) == [0] * 7 + [1]


def test_blocks_need_a_public_number_of_rows():
    """An added row would move those after it to other blocks."""
    with pytest.raises(UnsupportedNotionError, match="replace-one"):
        counts([0.1, 0.2], blocks=[0, 0], adjacency=ADD)
    with pytest.raises(UnsupportedNotionError, match="replace-one"):
        found(MedianOfMeans(epsilon=1.0, block=2.0), np.ones(50), adjacency=ADD)
    with pytest.raises(InvalidDataError, match="no rows"):
        found(MedianOfMeans(epsilon=1.0, block=2.0), np.empty(0))


def test_a_number_beyond_all_floats_says_nothing():
    values = np.ones(200, dtype=np.longdouble)
    values[3] = np.finfo(np.longdouble).max
    assert 0.9 < found(MedianOfMeans(epsilon=5.0), values) < 1.1  # warnings are errors here


def test_the_order_within_a_block_or_a_person_does_not_matter():
    """0.1 + 0.2 + 0.3 is 0.6 or a little more, and a mean of 0.2 an end of brackets."""
    ends = np.array([-1.0, 0.2, 1.0])
    for groups in (None, np.zeros(3, dtype=int)):
        found = set()
        for values in itertools.permutations((0.1, 0.2, 0.3)):
            source = open_rows(np.array(values)[:, None])
            source = source if groups is None else GroupedSource(source, groups)
            blocks = np.zeros(3, dtype=int) if groups is None else None
            found.add(tuple(value_counts(source, ends, REPLACE, blocks).value.units))
        assert len(found) == 1


@pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)
@pytest.mark.parametrize("place", [0.0, 1e-12, -125.0, 1.7e9, 1e40])
def test_it_is_found_wherever_it_lies(place, adjacency):
    """n epsilon = 400: a rank off by a quarter of the rows has probability e^-50 before counting
    brackets, of which there are e^12.5.
    """
    unit = abs(place) / 20 or 1.0
    values = place + unit * np.random.default_rng(0).standard_normal(4000)
    for seed in range(5):
        one = found(MedianOfMeans(epsilon=0.1), values, adjacency=adjacency, seed=seed)
        assert abs(one - place) < 0.7 * unit


def test_blocks_take_the_bias_of_skewed_rows_away():
    """Exponential rows: the median is .31 below the mean, that of means of 8 rows .04.

    Noise on ranks is 2/epsilon: 2 of 10,000 rows, or of 1,250 blocks; a tenth of the bias at most.
    """
    values = np.random.default_rng(1).exponential(size=10_000)
    single, blocks = (
        np.median([found(MedianOfMeans(epsilon=1.0, block=b), values, seed=s) for s in range(9)])
        for b in (1, 8)
    )
    assert single == pytest.approx(math.log(2), abs=0.04)
    assert blocks == pytest.approx(0.959, abs=0.04)


def test_a_range_that_is_much_too_wide_does_no_harm():
    """Rows of deviation 1 in a range of 2,000: an error of 1 has probability below 1e-6."""
    wide = Clip(row_norm=1.0, box=(np.array([-1000.0]), np.array([1000.0])))
    values = 125 + np.random.default_rng(2).standard_normal(2000)
    errors = [found(MedianOfMeans(epsilon=0.1), values, wide, seed=s) - 125 for s in range(20)]
    assert np.abs(errors).max() < 1.0


def test_noise_is_that_of_the_epsilon():
    """Rows at even ranks, n = 1,000: the answer is off by at least r ranks with probability
    e^(-epsilon r/2), about. 400 draws; each bound fails with probability below 1e-6.
    """
    values = (np.arange(1000) + 0.5) / 500 - 1
    ranks = [
        abs(500 * found(MedianOfMeans(epsilon=0.1), values, RANGE, seed=seed))
        for seed in range(400)
    ]
    # Twice the noise would have a mean of 40, half of it 10.
    assert 15.0 < np.mean(ranks) < 26.0


def test_public_numbers_decide_about_blocks():
    sizes = [blocks_of(rows, ranged=True) for rows in (40, 88, 120, 240, 2000)]
    assert sizes == pytest.approx([1.0, 1.6, 2.18, 3.99, 16.4], rel=0.01)
    assert [blocks_of(rows, ranged=False) for rows in (90, 100, 120, 300)] == [1.0, 1.0, 1.2, 3.0]
    assert blocks_of(math.inf, ranged=False) == 1.0
    assert findable(100.0, ranged=False)
    assert not findable(99.0, ranged=False)
    assert findable(40.0, ranged=True)
    assert MedianOfMeans(epsilon=0.3, block=4).cost() == Pure(0.3)
    with pytest.raises(InvalidBudgetError, match="too small"):
        MedianOfMeans(epsilon=1e-7).cost()


def test_free_brackets_are_public_ordered_and_reach_as_far_as_rows_may():
    ends = free_ends()
    assert (np.diff(ends) > 0).all()
    assert (ends[0], ends[-1]) == (-1e50, 1e50)
    assert not ends.flags.writeable
    for size, relative in ((1.0, 5e-4), (125.0, 5e-4), (1e9, 5e-3), (1e-12, 0.01)):
        j = np.searchsorted(ends, size)
        assert ends[j] - ends[j - 1] < relative * size


def _column(rows):
    return case.open_rows(rows).map(TakeColumns(slice(0, 1)))


def _query(block):
    def query(rows, adjacency):
        source, blocks = _column(rows), None
        if block > 1:
            order = case.Arranged.order(count_units(source))
            blocks = np.empty_like(order)
            blocks[order] = np.floor(np.arange(order.size) / block).astype(int)
        return value_counts(source, np.linspace(-1.0, 1.0, 4097), adjacency, blocks)

    return query


def _run(mechanism, rows, adjacency, gate):
    return mechanism.run(_column(rows), RANGE, gate)


_MEDIAN = {
    "run": _run,
    "read": lambda released: released[0],
    "norm": "l1",
    "sensitivity": case.NUCLEAR,
    "worst_pair": case.antipodal,
    "strength_of": case.pure_of,
    "may_coincide": True,
    "shows": False,
}

CASES = [
    case.Case(
        name="median-of-means",
        build=lambda epsilon, d, k: MedianOfMeans(epsilon=epsilon),
        query=_query(1),
        **_MEDIAN,
    ),
    case.Case(
        name="median-of-means of blocks",
        build=lambda epsilon, d, k: MedianOfMeans(epsilon=epsilon, block=1.5),
        query=_query(1.5),
        adjacencies=(REPLACE,),
        # Beside another row in its block a row moves the mean by half: still to another bracket.
        **_MEDIAN,
    ),
]
