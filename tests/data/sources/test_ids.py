"""Ids that say whose a row is."""

import math

import numpy as np
import pandas as pd
import pytest

from eigenveil.data.sources import ArraySource, GroupedSource
from eigenveil.exceptions import InvalidDataError


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
    assert source.unit_sizes.tolist() == [2, 1, 1]
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


@pytest.mark.parametrize(
    "ids",
    [
        [7, "7", 8],
        np.array([7, "7", 8.0], object),
        pd.Series(["7", 7, 7], dtype=object),
        ["7", b"7", "8"],
    ],
    ids=range(4),
)
def test_an_id_is_of_one_type(ids):
    """A column that was read in parts may hold one person as 7 and as "7"."""
    with pytest.raises(InvalidDataError, match="store them as one type"):
        GroupedSource(ArraySource(np.zeros((3, 1))), ids)
    numbers = GroupedSource(ArraySource(np.zeros((3, 1))), [7, 7.0, np.int8(7)])
    assert numbers.unit_sizes.tolist() == [3]


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
    assert GroupedSource(ArraySource(np.zeros((6, 1))), ids).unit_sizes.tolist() == [4, 2]
