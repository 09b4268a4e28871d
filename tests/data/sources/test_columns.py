"""Cells that become numbers: levels, dates, decimal commas, limits of detection."""

from datetime import date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.rows import (
    DaysSince,
    Levels,
    Numbers,
    Reading,
    level_of,
    noted_reading,
    open_rows,
    parsed_encode,
    text_columns,
)

NAN = np.nan


def numbers(feature, *cells):
    return feature.numbers(list(cells)).tolist()


def test_levels_are_zero_or_one_and_an_empty_cell_is_missing():
    levels = Levels(("f", "m"))
    assert levels.titles("sex") == ("sex=f", "sex=m")
    got = levels.numbers(["f", " m ", "x", "", None, NAN, "NA"])
    expected = [[1, 0], [0, 1], [0, 0], [NAN] * 2, [NAN] * 2, [NAN] * 2, [NAN] * 2]
    np.testing.assert_array_equal(got, expected)


def test_whole_numbers_are_levels_however_they_are_stored():
    assert [level_of(cell) for cell in (1, 1.0, "1", np.int64(1), True)] == [*["1"] * 4, "True"]
    np.testing.assert_array_equal(Levels(("1",)).numbers([1.0, 2, NAN]), [[1], [0], [NAN]])


def test_days_since_a_date():
    days = DaysSince(date(2024, 1, 1))
    cells = ["2024-01-02", "2023-12-31", " 2024-01-01T12:00 ", "31.1.2024", date(2024, 1, 11)]
    assert [row[0] for row in numbers(days, *cells)] == [1, -1, 0.5, 30, 10]
    assert numbers(days, datetime(2024, 1, 1, 6)) == [[0.25]]
    wrong = ["", None, "01/02/2024", "2024-13-01", "20240102", "soon", 17, "2024-01-01 25:00"]
    assert np.isnan(days.numbers(wrong)).all()


@pytest.mark.parametrize(
    ("censored", "expected"),
    [
        ("missing", [NAN, NAN, NAN, NAN, 7, NAN]),
        ("limit", [0.5, 200, 0.5, 1e-3, 7, NAN]),
        ("half", [0.25, 200, 0.25, 5e-4, 7, NAN]),
    ],
)
def test_values_beyond_a_limit(censored, expected):
    cells = ["<0.5", "> 200", " <= 0.5 ", "<1e-3", "7", "<low"]
    got = Numbers(censored=censored).numbers(cells)[:, 0]
    np.testing.assert_array_equal(got, expected)


SPELLED = {  # as a point is decimal, as either mark may be, as the point is stated, as the comma is
    "1.5": (1.5, 1.5, 1.5, NAN),
    "1,5": (NAN, 1.5, NAN, 1.5),
    "1,000": (NAN, NAN, 1000, 1),
    "1.000": (1, NAN, 1, 1000),
    " -12,345 ": (NAN, NAN, -12345, -12.345),
    "0,125": (NAN, 0.125, NAN, 0.125),
    "0.125": (0.125, 0.125, 0.125, NAN),
    "1234,567": (NAN, 1234.567, NAN, 1234.567),
    "1,0000": (NAN, 1, NAN, 1),
    "\uff11,\uff10\uff10\uff10": (NAN, NAN, 1000, 1),  # digits of Japanese text
    "1,234,567": (NAN, NAN, 1234567, NAN),
    "1.234.567,5": (NAN, NAN, NAN, 1234567.5),
    "1,234.5": (NAN, NAN, 1234.5, NAN),
    "12,34,567": (NAN, NAN, NAN, NAN),
    ",5": (NAN, 0.5, NAN, 0.5),
    "1e3": (1000, 1000, 1000, 1000),
    "<1,000": (NAN, NAN, 1000, 1),
    "<0.5": (0.5, 0.5, 0.5, NAN),
    "low": (NAN,) * 4,
    "$5": (NAN,) * 4,
}


@pytest.mark.parametrize("cell", SPELLED)
def test_a_number_is_read_by_the_decimal_mark(cell):
    read = [Numbers(mark, "limit").numbers([cell])[0, 0] for mark in (None, "either", ".", ",")]
    np.testing.assert_array_equal(read, SPELLED[cell])


AMOUNTS = {
    "13.5%": 13.5,
    "13.5 %": 13.5,
    "$1,200": 1200,
    "-$5": -5,
    "$-5": -5,
    "\u2212$5": -5,
    "($1,200.50)": -1200.5,
    "1,200.50 \u20ac": 1200.5,
    "(1,200) EUR": -1200,
    "$(1,200)": -1200,
    "(5) %%": NAN,
    "$$5": NAN,
    "USD 12": 12,
    "12 EUR": 12,
    "CHF 1'200": 1200,
    "1 200 000 kr": NAN,
    "1\u202f200\u00a0\u20ac": 1200,
    "7": 7,
    "1e3": 1000,
    "<$5": NAN,
    "--5": NAN,
    "($5": NAN,
    "5%%": NAN,
    "$": NAN,
    "12 34": NAN,
    "": NAN,
}


@pytest.mark.parametrize("cell", AMOUNTS)
def test_amounts_are_read_without_their_signs(cell):
    feature = Numbers(".", signs=True)
    np.testing.assert_array_equal(feature.numbers([cell])[0, 0], AMOUNTS[cell])
    assert feature.remark("price") == "'price' is read without percent and currency signs"
    assert np.isnan(Numbers(None, signs=True).numbers(["$1,200", "x"])).all()


def test_columns_of_text_hold_no_number_among_their_first_cells():
    cells = {
        "a": ["1,5", "x"],
        "b": ["<0.5", ""],
        "c": ["low", "nan"],
        "d": ["low", " ", None],
        "e": ["", None],
        "f": ["$5", "n/a"],
        "g": ["1,000", "2,000"],
        "h": [date(2024, 1, 1), None],
        "i": [3, "low"],
    }
    assert text_columns(cells, "either") == {"d": False, "f": True, "g": True, "h": False}
    assert text_columns(cells, ".") == {"a": True, "d": False, "f": True, "h": False}


def frame(kind=pd.DataFrame):
    return kind(
        {
            "patient_id": [7, 7, 9],
            "ward": ["a", "b", None],
            "seen": [date(2024, 1, 2), None, date(2024, 1, 5)],
            "age": [31.0, 32.0, 45.0],
            "crp": ["<0.5", "3.2", None],
        }
    )


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_a_frame_is_read_as_it_is_said(kind):
    source = open_rows(
        frame(kind),
        unit="patient_id",
        encode={"ward": ["a", "b"], "seen": date(2024, 1, 1)},
        censored={"crp": "limit"},
    )
    assert source.schema.feature_names == ("ward=a", "ward=b", "seen", "age", "crp")
    expected = [[1, 0, 1, 31, 0.5], [0, 1, NAN, 32, 3.2], [NAN, NAN, 4, 45, NAN]]
    np.testing.assert_array_equal(source.plain.whole(), expected)
    assert source.units.sizes.tolist() == [2, 1]
    assert source.units.protects.column == "patient_id"
    assert source.schema.encoding == {
        "ward": {"levels": ["a", "b"]},
        "seen": {"days_since": "2024-01-01"},
    }
    assert (
        "'ward' is 0 or 1 for each of 2 levels stated by the caller: 'a', 'b'"
        in source.schema.remarks
    )
    assert "'seen' counts days since 2024-01-01" in source.schema.remarks
    assert "cells such as <0.5 count as that limit" in source.schema.remarks


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".xlsx"])
def test_a_file_is_read_as_it_is_said(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    table = frame().astype({"seen": str})
    {".csv": table.to_csv, ".parquet": table.to_parquet, ".xlsx": table.to_excel}[suffix](
        path, index=False
    )
    source = open_rows(
        path, drop=["patient_id", "seen"], encode={"ward": "private"}, censored={"crp": "half"}
    )
    assert source.schema.undecided == ("ward",)
    assert source.schema.feature_names == ("age", "crp")
    assert [level for levels, _ in source.table.levels_of("ward") for level in levels] == [
        "a",
        "b",
        None,
    ]
    with pytest.raises(InvalidParameterError, match="are to be found privately"):
        source.whole()
    decided = source.table.decided({"ward": ["b"]})
    assert decided.schema.feature_names == ("ward=b", "age", "crp")
    expected = [[0, 31, 0.25], [1, 32, 3.2], [NAN, 45, NAN]]
    np.testing.assert_array_equal(decided.whole(), expected)
    assert decided.schema.remarks[0] == "'ward' is 0 or 1 for each of 1 level found privately: 'b'"
    assert source.schema.undecided == ("ward",)


def test_what_a_release_notes_reads_other_rows_alike():
    encoding = {"ward": {"levels": ["a", "b"]}, "none": {"levels": []}}
    encoding |= {"seen": {"days_since": "2024-01-01"}}
    names = ("ward=a", "ward=b", "seen", "age")
    noted = noted_reading(names, encoding)
    assert noted["columns"] == ["ward", "seen", "age"]
    assert open_rows(frame(), **noted).schema.feature_names == names
    assert noted_reading(("a",), None) == {"columns": ["a"]}


def test_wrong_ways_to_say_it():
    for wrong in (
        ["sex"],
        {"ward": "levels"},
        {"ward": 7},
        {"ward": []},
        {"ward": ["a", ""]},
        {7: ["a"]},
    ):
        with pytest.raises(InvalidParameterError, match="gives for the name of a column"):
            parsed_encode(wrong)
    with pytest.raises(InvalidParameterError, match="twice"):
        parsed_encode({"ward": ["a", "a"]})
    with pytest.raises(InvalidParameterError, match="by a list"):
        Reading(drop="ward")
    with pytest.raises(InvalidParameterError, match="must be 'missing'"):
        Reading(censored="zero")
    with pytest.raises(InvalidParameterError, match="must be 'missing'"):
        Reading(censored={"crp": None})
    with pytest.raises(InvalidParameterError, match="latin-1"):
        Reading(encoding="klingon")
    with pytest.raises(InvalidParameterError, match="no names of columns"):
        open_rows(np.ones((2, 2)), drop=["a"])
    with pytest.raises(InvalidDataError, match="name them by text"):
        open_rows(pd.DataFrame([[1, 2]]), drop=["a"])


def test_a_name_like_a_level_is_refused():
    table = pd.DataFrame({"ward": ["a"], "ward=a": [1.0]})
    with pytest.raises(InvalidDataError, match="'ward=a' is named like a level of 'ward'"):
        open_rows(table, encode={"ward": "private"})
