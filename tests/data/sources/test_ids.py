"""Ids that say whose a row is."""

import math
import time
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from eigenveil.exceptions import InvalidDataError
from eigenveil.rows import ArraySource, GroupedSource, count_units, open_rows, person_label


class Unhashable:
    __hash__ = None


IDS = {
    "list": ["x", "y", "x", "z"],
    "integers": np.array([3, 1, 3, 2], dtype=np.uint8),
    "floats": np.array([3.5, 1.0, 3.5, np.inf]),
    "text": np.array(["x", "y", "x", "z"]),
    "bytes": np.array([b"x", b"y", b"x", b"z"]),
    "space": ["x ", "y", " x", "z"],
    "dates": np.array(["2020-01-02", "2020-01-01", "2020-01-02", "2021-01-01"], "M8[D]"),
    "series": pd.Series(["x", "y", "x", "z"], index=[9, 8, 7, 6]),
    "categories": pd.Series(["x", "y", "x", "z"], dtype="category"),
    "nullable": pd.Series([3, 1, 3, 2], dtype="Int64"),
    "objects": np.array([3, 7, 3.0, True], dtype=object),
    "generator": None,
}


@pytest.mark.parametrize("kind", IDS)
def test_ids_of_every_kind(kind):
    ids = IDS[kind] if kind != "generator" else (name for name in "xyxz")
    source = GroupedSource(ArraySource(np.zeros((4, 1))), ids)
    assert source.units.sizes.tolist() == [2, 1, 1]
    ((_, units),) = source.unit_tables()
    assert units.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize(
    "ids",
    [
        ["x", None, "secret", "z"],
        ["x", math.nan, "secret", "z"],
        np.array(["x", np.nan, "secret", "z"]),
        ["x", "", "secret", "z"],
        [1.0, math.nan, 2.0, 3.0],
        np.array([1.0, np.nan, 2.0, 3.0]),
        pd.Series([1, None, 2, 3], dtype="Int64"),
        pd.Series(["a", None, "secret", "d"]),
        np.array(["NaT", "2020-01-01", "2020-01-02", "2020-01-03"], "M8[ns]"),
        np.ma.masked_array([1, 2, 3, 4], mask=[0, 1, 0, 0]),
        [Unhashable(), 1, 2, 3],
    ],
)
def test_a_missing_id_is_an_error_that_shows_none(ids):  # whatever it is written as
    with pytest.raises(InvalidDataError, match="no id") as caught:
        GroupedSource(ArraySource(np.zeros((4, 1))), ids)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("word", ["", " ", "NA", "n/a", "None", "NULL", "<NA>", "NaT", "nan"])
def test_words_for_no_id(word):
    for ids in (["a", word], [b"a", word.encode()]):
        with pytest.raises(InvalidDataError, match="no id"):
            GroupedSource(ArraySource(np.zeros((2, 1))), ids)


BIG = 2**53 + 1  # which no float holds
SAME = {
    "a number": [7, 7.0, "7", "0007", " 7 ", "7.0", "+7", "7e0", "70e-1", b"7", np.int8(7)],
    "other types": [7, True * 7, np.float32(7), Decimal("7.00"), Fraction(7), "\uff17", "\u0667"],
    "a truth value": [1, True, np.bool_(True), "01"],
    "zero": [0, "0", "-0", -0.0, "000", "0.0", "0e9"],
    "no whole number": [0.25, "0.25", ".25", "00.250", "25e-2", Decimal("0.25")],
    "a large number": [BIG, str(BIG), f"{BIG}.0", f"0{BIG}"],
    "a larger one": [10**400, "1e400", "10e399"],
    "beyond all floats": [math.inf, "inf", "Infinity"],
    "text": ["Jos\u00e9", " Jose\u0301\t", "Jos\u00e9".encode(), "\ufeffJos\u00e9"],
    "a day": [date(2026, 1, 1), datetime(2026, 1, 1), np.datetime64("2026-01"), "2026-01-01"],
    "a moment": [
        datetime(2026, 1, 1, 5, tzinfo=timezone(timedelta(hours=2))),
        datetime(2026, 1, 1, 3),
        pd.Timestamp("2026-01-01 03:00"),
    ],
}
OTHERS = ["7", "70", "-7", "7a", "1_0", "10", "7,0", "0.7", "x7", BIG, BIG - 1, "1e400", "1e401"]


@pytest.mark.parametrize("kind", SAME)
def test_ids_that_are_equal_as_numbers_or_text_are_one_person(kind):
    ids = SAME[kind]
    array = np.empty(len(ids), dtype=object)
    array[:] = ids
    for given in (ids, array, array[::-1]):
        source = GroupedSource(ArraySource(np.zeros((len(ids), 1))), given)
        assert source.units.sizes.tolist() == [len(ids)]
    (label,) = {person_label(each) for each in ids}
    assert person_label(label) == label


def test_other_ids_are_other_persons():
    assert len({person_label(each) for each in OTHERS}) == len(OTHERS)
    source = GroupedSource(ArraySource(np.zeros((len(OTHERS), 1))), OTHERS)
    assert count_units(source) == len(OTHERS)


def test_a_long_id_is_read_in_no_time():
    """A search for a number that tries every split of the digits would take hours."""
    begun = time.process_time()
    assert person_label("1" * 300_000 + "x") == "1" * 300_000 + "x"
    assert time.process_time() - begun < 5


def test_no_refusal_tells_of_mixed_ids():
    """Whether a column mixes text and numbers may depend on one record."""
    for ids in ([7, "x", 8.5], pd.Series(["7", 7, date(2026, 1, 1)], dtype=object)):
        source = GroupedSource(ArraySource(np.zeros((3, 1))), ids)
        assert count_units(source) == len({person_label(each) for each in ids})


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.xlsx"])
def test_files_know_a_person_by_every_spelling(name, tmp_path):
    path = tmp_path / name
    ids = ["7", "0007", "7.0", " 7", "8"]
    frame = pd.DataFrame({"who": ids, "x": range(5)})
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        pytest.importorskip("openpyxl")
        frame["who"] = np.array([7, "0007", 7.0, " 7", 8], dtype=object)
        frame.to_excel(path, index=False)
    source = open_rows(path, unit="who")
    assert source.units.sizes.tolist() == [4, 1]
    assert source.units.ids() == ["7", "8"]


@pytest.mark.parametrize(
    "ids",
    [
        [("s", 1), ("s", np.nan), ("s", np.nan)],
        pd.MultiIndex.from_arrays([["s"] * 3, [1, np.nan, np.nan]]),
        np.array([(1, np.nan)] * 3, dtype=[("a", int), ("b", float)]),
        [frozenset("a")] * 3,
    ],
    ids=range(4),
)
def test_composite_ids_are_refused(ids):
    """Parts may be missing, or of two types, and then one person is many."""
    with pytest.raises(InvalidDataError, match="ids are text or numbers"):
        GroupedSource(ArraySource(np.zeros((3, 1))), ids)


def test_spellings_that_look_the_same_are_the_same():
    ids = ["7", "\ufeff7", "7\u200b", " 7 ", "e\u0301", "\u00e9"]
    assert GroupedSource(ArraySource(np.zeros((6, 1))), ids).units.sizes.tolist() == [4, 2]
