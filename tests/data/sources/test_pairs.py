"""Pairs of rows and of persons: one replaced replaces one pair."""

import itertools
import math
import os

import numpy as np
import pytest

from eigenveil.exact import second_moment
from eigenveil.exceptions import InvalidDataError, InvalidParameterError, UnsupportedNotionError
from eigenveil.privacy import Adjacency
from eigenveil.rows import (
    ArraySource,
    Divide,
    GroupedSource,
    IterableSource,
    NpySource,
    PairedSource,
    PairedUnits,
    count_units,
    open_rows,
    paired,
    shuffled,
    tables,
)
from tests.data.persons import CLIP, distance, listed, people
from tests.data.sources.tables import read

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE


def permuted(n):
    return np.random.default_rng(n).permutation(n)


def differences(rows):
    return read(PairedSource(open_rows(rows), Adjacency.REPLACE_ONE, permuted))


def pairs(n):
    """Who is paired with whom, from differences of unit vectors."""
    found = differences(np.eye(n))
    return np.argmax(found, axis=1), np.argmin(found, axis=1)


@pytest.mark.parametrize("n", [2, 3, 4, 7, 50, 501])
def test_every_row_has_one_partner(n):
    first, second = pairs(n)
    assert len(first) == n // 2
    assert len({*first, *second}) == 2 * (n // 2)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_pairing_depends_on_the_order_alone(seed):
    rows = np.random.default_rng(seed).standard_normal((101, 3)) * 10.0 ** (5 * seed)
    first, second = pairs(101)
    expected = (rows[first] - rows[second]) / 2
    assert np.array_equal(differences(rows), expected)
    for other in (iter(np.array_split(rows, 7)), IterableSource([rows[:1], rows[1:]])):
        assert np.array_equal(differences(other), expected)


def test_partners_are_scattered():
    """A table sorted by a value, or in time, still shows its variance in the differences."""
    first, second = pairs(2000)
    assert (np.abs(first - second) == 1).sum() <= 5
    for period in (1, 2, 10, 1000):
        values = (np.arange(4000) // period % (4000 // period)).astype(float)[:, None]
        spread = 2 * np.mean(differences(values) ** 2)
        assert spread == pytest.approx(values.var(), rel=0.1)


def test_one_row_replaced_is_one_difference_replaced():
    rows = np.random.default_rng(0).standard_normal((31, 4))
    before = differences(rows)
    changed = []
    for i in range(31):
        for row in (np.zeros(4), np.full(4, 1e308), np.full(4, np.nan), rows[(i + 1) % 31]):
            neighbour = rows.copy()
            neighbour[i] = row
            after = differences(neighbour)
            changed.append(int((before != after).any(axis=1).sum()))
    assert sorted(set(changed)) == [0, 1]
    assert changed.count(0) == 4  # of the row that is left out


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, np.int64, np.int8, np.uint8, np.bool_, np.longdouble]
)
def test_differences_of_other_dtypes_are_those_of_floats(dtype):
    rows = np.random.default_rng(0).integers(0, 2 if dtype is np.bool_ else 120, (9, 3))
    got = differences(rows.astype(dtype))
    assert got.dtype == np.float64
    assert np.array_equal(got, differences(rows.astype(np.float64)))


@pytest.mark.filterwarnings("error")
def test_differences_neither_overflow_nor_warn():
    assert np.abs(differences([[1.7e308], [-1.7e308]])).item() == 1.7e308
    assert np.isinf(differences([[np.inf], [np.inf]])).all()
    assert np.isinf(differences([[np.nan], [-np.inf]])).all()  # invalid, not missing
    assert np.isinf(differences([[np.inf], [1.0]])).all()
    assert np.isnan(differences([[np.nan], [1.0]])).all()
    scale = np.array([1e-50, np.inf])
    scaled = read(open_rows([[1e300, 5.0], [1.0, np.inf]]).map(Divide(scale)))
    assert np.array_equal(scaled, [[1e300], [1e50]])  # it was a number, and stays one
    missing = read(open_rows([[np.inf], [np.nan]]).map(Divide(np.array([1e-9]))))
    assert np.array_equal(missing, [[np.inf], [np.nan]], equal_nan=True)


def test_pairs_need_two_rows_of_a_public_number():
    for rows in (np.empty((0, 2)), np.ones((1, 2))):
        with pytest.raises(InvalidDataError, match="two rows at least"):
            PairedSource(open_rows(rows), Adjacency.REPLACE_ONE, permuted)
    with pytest.raises(UnsupportedNotionError, match="replace-one"):
        PairedSource(open_rows(np.ones((4, 2))), Adjacency.ADD_REMOVE, permuted)


@pytest.mark.parametrize("dtype", ["<f8", "<f4", "<i8"])
def test_long_rows_are_read_where_they_lie(dtype, tmp_path, monkeypatch):
    rows = (np.random.default_rng(0).standard_normal((41, 7)) * 9).astype(dtype)
    order = np.random.default_rng(1).permutation(41)

    def differences(source):
        pairs = PairedSource(source, Adjacency.REPLACE_ONE, lambda n: order[:n])
        return np.concatenate([chunk.copy() for chunk in pairs.chunks()])

    expected = differences(open_rows(rows))
    monkeypatch.setattr("eigenveil.rows.base._LONG_ROW", 1)
    monkeypatch.setattr("eigenveil.rows.npy._LONG_ROW_BYTES", 1)
    assert np.array_equal(differences(open_rows(rows)), expected)
    np.save(tmp_path / "rows.npy", rows)
    source = NpySource(tmp_path / "rows.npy")
    assert np.array_equal(differences(source), expected)
    pairs = PairedSource(source, Adjacency.REPLACE_ONE, lambda n: order[:n])
    list(pairs.chunks())
    before = (tmp_path / "rows.npy").stat()
    np.save(tmp_path / "rows.npy", rows[::-1])
    os.utime(tmp_path / "rows.npy", ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(InvalidDataError, match="changed while it was read"):
        list(pairs.chunks())
    np.save(tmp_path / "rows.npy", rows[:40])
    with pytest.raises(InvalidDataError, match="changed while it was read"):
        list(pairs.chunks())


def test_pairs_come_in_a_random_order():
    """Sorted by their first row, batches of a sorted table would be sorted too."""
    rng = np.random.default_rng(0)
    rows = np.arange(2000.0)[:, None]
    pairs = PairedSource(open_rows(rows), Adjacency.REPLACE_ONE, rng.permutation)
    mixed = shuffled(pairs, rng.permutation, lambda chunk: None)
    before, after = (np.concatenate(list(source.chunks()))[:, 0] for source in (pairs, mixed))
    assert np.array_equal(np.sort(before), np.sort(after))
    assert not np.array_equal(before, after)


def unit_differences(source, order=np.arange):
    pairs = paired(source, REPLACE, order)
    chunks = list(pairs.unit_tables())
    return pairs, np.vstack([c for c, _ in chunks]), np.concatenate([u for _, u in chunks])


def test_pairs_of_persons_go_round_the_shorter_one():
    rows = np.arange(8.0)[:, None] ** 2
    source = GroupedSource(ArraySource(rows), list("abacabbd"))  # a: 0 2 4, b: 1 5 6, c: 3, d: 7
    pairs, found, units = unit_differences(source)
    assert (count_units(source), pairs.units.sizes.tolist(), units.tolist()) == (
        4,
        [3, 3],
        [0, 0, 0, 1, 1, 1],
    )
    a, b, c, d = [0, 4, 16], [1, 25, 36], [9], [49]
    first = [(x - c[0]) / 2 for x in a]  # the first half is paired with the second: a-c, b-d
    second = [(x - d[0]) / 2 for x in b]
    assert found[:, 0].tolist() == [*first, *second]
    uneven = GroupedSource(ArraySource(rows), list("aaaaabbb"))
    _, found, _ = unit_differences(uneven)
    a, b = rows[:5, 0], rows[5:, 0]
    assert found[:, 0].tolist() == ((a - b[[0, 1, 2, 0, 1]]) / 2).tolist()


def test_a_replaced_person_replaces_one_pair():
    """Whatever the numbers of rows: the sum moves by sqrt(2) at most, and that is attained."""
    rng = np.random.default_rng(7)
    company = [rng.standard_normal((m, 3)) for m in (3, 1, 8, 2, 5)]
    bound = math.sqrt(2)
    for one, other in itertools.combinations([*people(), rng.standard_normal((70, 3))], 2):
        sums = [
            second_moment(
                PairedUnits(listed([person, *company]), REPLACE, np.arange), CLIP, REPLACE
            )
            for person in (one, other)
        ]
        assert distance(*sums, "frobenius") <= bound
        assert sums[0].count == sums[1].count == 3
    axes = 2 * np.eye(3)
    ends = [
        second_moment(
            PairedUnits(listed([np.tile(axis, (m, 1)), np.zeros((4, 3))]), REPLACE, np.arange),
            CLIP,
            REPLACE,
        )
        for axis, m in ((axes[0], 9), (axes[1], 2))
    ]
    assert distance(*ends, "frobenius") >= bound * (1 - 2.0**-11)


def test_pairs_of_persons_of_one_row_are_pairs_of_rows():
    rng = np.random.default_rng(8)
    rows = rng.integers(0, 9, (101, 3))
    for scale in (None, np.array([2.0, np.inf, 3.0])):
        plain, shared = ArraySource(rows), GroupedSource(ArraySource(rows), rng.permutation(101))
        if scale is not None:
            plain, shared = plain.map(Divide(scale)), shared.map(Divide(scale))

        def order(n):
            return np.random.default_rng(n).permutation(n)

        expected = np.vstack(list(tables(paired(plain, REPLACE, order))))
        pairs, found, _ = unit_differences(shared, order)
        assert np.array_equal(found, expected)
        assert (pairs.n_columns, pairs.rereadable) == (plain.n_columns, True)


def test_pairs_are_read_in_chunks_alike(monkeypatch):
    persons = [np.random.default_rng(m).standard_normal((m, 3)) for m in (5, 1, 30, 7, 2, 2)]
    _, whole, owners = unit_differences(listed(persons))
    monkeypatch.setattr("eigenveil.rows.base._CHUNK_BYTES", 24 * 4)
    streamed = listed(persons)
    streamed.rows = IterableSource([streamed.rows.array[i : i + 3] for i in range(0, 47, 3)])
    _, again, units = unit_differences(streamed)
    assert np.array_equal(whole, again)
    assert np.array_equal(owners, units)


def test_pairs_need_a_public_number_of_two_persons():
    source = listed([np.ones((4, 2)), np.zeros((4, 2))])
    with pytest.raises(UnsupportedNotionError, match="replace-one"):
        paired(source, ADD, np.arange)
    with pytest.raises(InvalidDataError, match="two persons"):
        paired(listed([np.ones((4, 2))]), REPLACE, np.arange)
    with pytest.raises(InvalidParameterError, match="PairedSource"):
        PairedUnits(ArraySource(np.ones((4, 2))), REPLACE, np.arange)
