"""Rows that are others in another reading."""

import numpy as np
import pytest

from eigenveil import Ledger, PrivateCovariance, PrivatePCA
from eigenveil.exact import Clip, distance_counts, second_moment
from eigenveil.exceptions import InvalidDataError
from eigenveil.privacy import Adjacency
from eigenveil.rows import (
    Divide,
    Fingerprint,
    GroupedSource,
    IterableSource,
    PairedSource,
    Readings,
    open_rows,
    tables,
)

REPLACE = Adjacency.REPLACE_ONE
CLIP = Clip(row_norm=4.0)
ROWS = np.random.default_rng(0).standard_normal((300, 4)).round(2)
IDS = np.repeat(np.arange(30), 10)
CHANGED = r"^the table changed while it was read: .* what was charged before stays charged$"


class Loader:
    """Chunks of what a function makes of the rows and of the number of the reading."""

    def __init__(self, change, rows=ROWS):
        self.change, self.rows, self.readings = change, rows, 0

    def __iter__(self):
        rows = self.change(self.rows, self.readings)
        self.readings += 1
        yield from np.array_split(rows, 7)


def shuffling(rows, reading):
    return np.random.default_rng(reading).permutation(rows)


def steady(rows, reading):
    return rows


def replacing(rows, reading):
    """One entry of the second reading differs in its last bit."""
    other = rows.copy()
    if reading:
        other[77, 2] = np.nextafter(other[77, 2], 9.0)
    return other


def repeating(rows, reading):
    """As many rows, but one of them twice."""
    return np.vstack([rows[:-1], rows[:1]]) if reading else rows


def source_of(change):
    return IterableSource(Loader(change), n_columns=4)


def foreign_of(change):
    class Foreign:
        n_columns, feature_names, rereadable = 4, None, True
        loader = Loader(change)

        def chunks(self):
            return iter(self.loader)

    return open_rows(Foreign())


def scaled_of(change):
    return source_of(change).map(Divide(np.arange(1.0, 5)))


OPENED = pytest.mark.parametrize("opened", [source_of, foreign_of, scaled_of])


def numbers(*chunks):
    found = Fingerprint()
    for chunk in chunks:
        found.add(chunk)
    return found.numbers.tolist()


def test_a_fingerprint_is_of_rows_as_they_are_read():
    whole = ROWS.round(1)
    expected = numbers(whole)
    pieces = [whole[:1], whole[1:1], whole[1:250], whole[250:]]
    wide = np.zeros((300, 8))
    wide[:, ::2] = whole
    for same in (pieces, [np.asfortranarray(whole)], [wide[:, ::2]], [whole.astype(np.longdouble)]):
        assert numbers(*same) == expected
    single = whole.astype(np.float32)
    assert numbers(single) == numbers(single.astype(np.float64))
    counts = np.arange(12).reshape(3, 4)
    assert numbers(counts) == numbers(counts.astype(np.float64)) == numbers(counts.astype(np.int8))
    odd = np.array([[0.0, np.nan]])
    assert numbers(odd) == numbers(np.array([[-0.0, -np.nan]]))


def test_a_fingerprint_tells_rows_apart():
    other = ROWS.copy()
    other[5, 1] = np.nextafter(other[5, 1], np.inf)
    exchanged = ROWS.copy()
    exchanged[[3, 9], 2] = exchanged[[9, 3], 2]
    twice = np.vstack([ROWS[:-1], ROWS[:1]])
    swapped = ROWS[:, [1, 0, 2, 3]]
    whole = np.rint(ROWS)
    changed = whole.copy()
    changed[0, 0] += 1
    for one, another in (
        *((ROWS, table) for table in (other, exchanged, twice, swapped, ROWS[1:])),
        (whole, changed),
        (ROWS, np.vstack([ROWS, np.zeros((1, 4))])),
    ):
        assert numbers(one)[:2] != numbers(another)[:2]


def test_order_has_a_sum_of_its_own():
    turned = numbers(ROWS[::-1])
    assert turned[:2] == numbers(ROWS)[:2]
    assert turned[2] != numbers(ROWS)[2]


def test_whose_rows_they_are_belongs_to_a_fingerprint():
    first, second = Fingerprint(), Fingerprint()
    first.add(ROWS, IDS)
    second.add(ROWS, np.roll(IDS, 1))
    assert first.numbers.tolist()[:2] != second.numbers.tolist()[:2]


def test_no_hash_is_that_of_another_row():
    """Of few columns of small whole numbers too, whose low bits are all zero."""
    grid = np.stack(np.meshgrid(*[np.arange(40.0)] * 3), axis=-1).reshape(-1, 3)
    assert len({numbers(row[None])[1] for row in grid[:20_000]}) == 20_000


@OPENED
@pytest.mark.parametrize("change", [replacing, repeating])
def test_other_rows_are_refused(opened, change):
    source = opened(change)
    second_moment(source, CLIP, REPLACE)
    with pytest.raises(InvalidDataError, match=CHANGED):
        second_moment(source, CLIP, REPLACE)


@OPENED
def test_sums_do_not_mind_another_order(opened):
    source = opened(shuffling)
    assert source.count_rows() == 300
    found = [second_moment(source, CLIP, REPLACE).value.units for _ in range(3)]
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


@OPENED
@pytest.mark.parametrize("before", [0, 1])
def test_ids_beside_rows_in_another_order_are_refused(opened, before):
    """Read once, rows would be those of other persons already."""
    source = opened(shuffling)
    for _ in range(before):
        second_moment(source, CLIP, REPLACE)
    with pytest.raises(InvalidDataError, match=CHANGED):
        second_moment(GroupedSource(source, IDS), CLIP, REPLACE)
    with pytest.raises(InvalidDataError, match=CHANGED):
        GroupedSource(opened(shuffling), IDS).whole_units()
    kept = second_moment(GroupedSource(opened(steady), IDS), CLIP, REPLACE)
    assert kept.sensitivity("frobenius") < 2


def test_persons_of_a_shuffling_loader_are_refused_before_a_charge(tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", epsilon=4, delta=1e-5, unit="person")
    model = PrivateCovariance(epsilon=1, delta=1e-6, row_norm=4.0, ledger=ledger)
    with pytest.raises(InvalidDataError, match=CHANGED):
        model.fit(Loader(shuffling), groups=IDS)
    assert ledger.entries == ()


def test_what_was_charged_before_a_change_stays_charged(tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", epsilon=4, delta=1e-5)

    def late(rows, reading):
        return rows if reading < 6 else -rows[::-1] * 2

    with pytest.raises(InvalidDataError, match="stays charged"):
        PrivatePCA(1, epsilon=1, delta=1e-6, ledger=ledger).fit(
            Loader(late, np.tile(ROWS, (20, 1)))
        )
    charge, mark = ledger.entries
    assert mark.failed == charge.number


def test_a_reading_that_is_given_up_is_not_compared():
    source = source_of(replacing)
    next(iter(tables(source)))
    assert second_moment(source, CLIP, REPLACE).count == len(ROWS)


def test_distances_and_pairs_are_of_one_table():
    source = source_of(replacing)
    source.count_rows()
    with pytest.raises(InvalidDataError, match=CHANGED):
        distance_counts(source, CLIP, REPLACE)
    with pytest.raises(InvalidDataError, match=CHANGED):
        PairedSource(source, REPLACE, lambda n: np.arange(n))


def test_a_first_reading_may_be_that_of_others():
    readings = Readings(np.array(numbers(ROWS)))
    assert len(list(readings.compared(iter([ROWS[:9], ROWS[9:]])))) == 2
    with pytest.raises(InvalidDataError, match=CHANGED):
        list(readings.compared(iter([ROWS[:9]])))
