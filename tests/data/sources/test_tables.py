"""One table in memory: entries that are no numbers, types and shapes that are no table."""

from datetime import date
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from eigenveil.exceptions import InvalidDataError
from eigenveil.rows import as_table
from tests.data.sources.tables import SECRET


def test_missing_values_of_nullable_frames_are_nan():
    frame = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [0.5, 1.5]})
    assert np.array_equal(as_table(frame), [[1, 0.5], [np.nan, 1.5]], equal_nan=True)


def test_numbers_beyond_all_floats_make_their_row_invalid():
    """No warning, and no refusal of the table."""
    wide = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.longdouble)
    wide[1, 0] = np.longdouble("1e4000")
    for table in (wide.astype(object), np.ma.array(wide), [[1.0, 2.0], [10**400, 4.0]]):
        rows = as_table(table)
        assert np.isinf(rows[1, 0])
        assert (rows[0] == [1.0, 2.0]).all()


def cells(*entries):
    """An array of objects: the entries, one in a row, beside a column of ones."""
    table = np.ones((len(entries), 2), dtype=object)
    for row, entry in zip(table, entries, strict=True):
        row[0] = entry
    return table


class Strange:
    def __float__(self):
        raise RuntimeError(SECRET)


ENTRIES = [
    (SECRET, np.nan),
    ("", np.nan),
    (" 1.5 ", 1.5),
    (b"1.5", 1.5),
    (None, np.nan),
    (pd.NA, np.nan),
    (Decimal("2.5"), 2.5),
    (Fraction(1, 4), 0.25),
    (True, 1.0),
    (10**400, np.inf),
    (np.float32(0.5), 0.5),
    (1j, np.nan),
    (np.complex64(1j), np.nan),
    (date(2020, 2, 3), np.nan),
    (np.datetime64("2020-02-03"), np.nan),
    (np.timedelta64(7, "s"), np.nan),
    ([1.0], np.nan),
    (np.array([1.0]), np.nan),
    ({"a": 1}, np.nan),
    (Strange(), np.nan),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("other", [0.5, SECRET, 10**400, 1j])
def test_an_entry_is_converted_by_itself(other):
    """Whatever is in other rows; one that is no number makes its own row invalid."""
    for entry, expected in ENTRIES:
        rows = as_table(cells(other, entry, 7))
        assert np.array_equal(rows[1:], [[expected, 1], [7, 1]], equal_nan=True)
    masked = np.ma.array(cells(other, 3, 7), mask=[[0, 0], [0, 0], [1, 0]])
    assert np.array_equal(as_table(masked)[1:], [[3, 1], [np.nan, 1]], equal_nan=True)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("entry", [SECRET, b"text", 1j, date(2020, 2, 3), np.datetime64("2020")])
def test_a_list_has_no_type_but_that_of_its_entries(entry):
    for rows in ([[1.0, 2.0], [entry, 4.0]], [(1.0, 2.0), (entry, 4.0)]):
        assert np.array_equal(as_table(rows), [[1, 2], [np.nan, 4]], equal_nan=True)


@pytest.mark.parametrize(
    "table",
    [
        [[1.0, 2.0], [3.0]],
        [[1.0, 2.0], [3.0, [4.0]]],
        [SECRET, SECRET],
        np.array([[1.0, 2.0], [3.0]], dtype=object),
        np.array([["1", "2"]]),
        np.array([[b"1", b"2"]]),
        np.ma.array([["1", "2"]]),
        np.ma.array([[1j, 2.0]]),
        np.array([["2020-02-03"]], dtype="M8[D]"),
        np.zeros((2, 2), dtype=[("a", float)]),
    ],
)
def test_what_is_no_table_of_numbers_by_type_or_shape_is_refused(table):
    with pytest.raises(InvalidDataError):
        as_table(table)
