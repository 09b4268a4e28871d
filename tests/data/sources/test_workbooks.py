"""Sheets of Excel workbooks."""

import datetime
import re
import zipfile

import numpy as np
import pytest

from eigenveil.exceptions import InvalidDataError, MissingExtraError
from eigenveil.rows import open_rows
from tests.data.sources.tables import SECRET, refused

openpyxl = pytest.importorskip("openpyxl")
NAN = np.nan


def written(path, *rows):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def test_a_sheet_is_a_table(tmp_path):
    path = written(
        tmp_path / "t.xlsx",
        ["age", "crp", "ward", "seen"],
        [31, "<0.5", "a", datetime.date(2024, 1, 2)],
        [None, 3.5, "b", None],
        [],
        [True, "1.5", None, datetime.date(2024, 1, 3)],
    )
    source = open_rows(path, columns=["age", "crp"], censored="limit")
    np.testing.assert_array_equal(source.whole(), [[31, 0.5], [NAN, 3.5], [1, 1.5]])
    assert source.n_rows == 3
    encode = {"ward": ["a", "b"], "seen": datetime.date(2024, 1, 1)}
    source = open_rows(path, encode=encode)
    assert source.schema.feature_names == ("age", "crp", "ward=a", "ward=b", "seen")
    assert source.whole()[:, -1].tolist()[::2] == [1, 2]


def test_columns_of_text_are_refused_by_name(tmp_path):
    path = written(tmp_path / "t.xlsx", ["a", "b"], [1, SECRET])
    told = refused(lambda: open_rows(path).table.refuse_text())
    assert told.startswith("column 'b' holds no numbers")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[1, 2], [3, 4]], "needs a first line with the names"),
        ([], "needs a first line with the names"),
        ([["a", "a"], [1, 2]], "two columns have the same name"),
        ([["a", None, "b"], [1, 2, 3]], "a column has no name"),
    ],
)
def test_sheets_without_names(tmp_path, rows, words):
    assert words in refused(lambda: open_rows(written(tmp_path / "t.xlsx", *rows)))


def test_damaged_workbooks(tmp_path, monkeypatch):
    path = written(tmp_path / "t.xlsx", ["a"], [1])
    whole = path.read_bytes()
    for content in (b"", b"nonsense", whole[: len(whole) // 2]):
        path.write_bytes(content)
        assert "not a readable .xlsx workbook" in refused(lambda: open_rows(path))
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"eigenveil\[excel\]"):
        open_rows(path)


def test_a_sheet_beyond_all_proportion_is_refused(tmp_path, monkeypatch):
    path = written(tmp_path / "t.xlsx", ["a"], [1])
    monkeypatch.setattr("eigenveil.rows.cells._MAX_BYTES", 10)
    with pytest.raises(InvalidDataError, match="too large"):
        open_rows(path)


def rewritten(path, change):
    """Change the first sheet of a workbook, as other programs may write it."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    text = change(parts[sheet].decode())
    assert text.encode() != parts[sheet]
    parts[sheet] = text.encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize("stated", ["A1:B11", "A1", "A1:C1", "B2:C9", "A1:XFD1048576", None])
def test_a_sheet_is_read_to_its_end_whatever_it_says_of_its_size(tmp_path, stated):
    rows = np.arange(120.0).reshape(40, 3)
    path = written(tmp_path / "t.xlsx", ["a", "b", "c"], *rows.tolist())
    said = "" if stated is None else f'<dimension ref="{stated}"/>'
    rewritten(path, lambda text: re.sub(r"<dimension [^>]*/>", said, text))
    source = open_rows(path)
    assert source.schema.feature_names == ("a", "b", "c")
    np.testing.assert_array_equal(source.whole(), rows)


@pytest.mark.parametrize("stated", ["A1:B3", "A1:D3"])
def test_cells_right_of_the_last_name_are_refused(tmp_path, stated):
    path = written(tmp_path / "t.xlsx", ["a", "b"], [1, 2], [3, 4, None, SECRET])
    change = f'<dimension ref="{stated}"/>'
    with zipfile.ZipFile(path) as archive:
        there = change in archive.read("xl/worksheets/sheet1.xml").decode()
    if not there:
        rewritten(path, lambda text: re.sub(r"<dimension [^>]*/>", change, text))
    assert "cells right of its last column name" in refused(lambda: open_rows(path))


def test_a_hidden_sheet_is_not_read(tmp_path):
    path = tmp_path / "t.xlsx"
    for state in ("hidden", "veryHidden"):
        book = openpyxl.Workbook()
        book.active.append(["a"])
        book.active.append([1])
        book.active.sheet_state = state
        book.create_sheet("seen").append(["b"])
        book.save(path)
        assert "the first sheet of t.xlsx is hidden: unhide it" in refused(lambda: open_rows(path))
        book.worksheets[0].sheet_state = "visible"
        book.worksheets[1].sheet_state = "hidden"
        book.save(path)
        assert open_rows(path).schema.feature_names == ("a",)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('<row r="3"', '<row r="2"'),  # two rows of one number
        lambda text: text.replace('<row r="3"', '<row r="1"'),
        lambda text: text.replace('r="B3"', 'r="A3"'),  # two cells at one place
        lambda text: text.replace('r="B3"', 'r="B2"'),
        lambda text: text.replace('r="A3"', 'r="C3"'),
    ],
    ids=range(5),
)
def test_rows_and_cells_that_openpyxl_would_leave_out_are_refused(tmp_path, change):
    path = written(tmp_path / "t.xlsx", ["a", "b"], [1, 2], [3, 4], [5, 6])
    rewritten(path, change)
    told = refused(lambda: open_rows(path))
    assert "out of order" in told or "outside their row" in told


def test_rows_far_below_are_read_at_once(tmp_path):
    path = written(tmp_path / "t.xlsx", ["a", "b"], [1, 2], [3, 4])
    rewritten(path, lambda text: re.sub(r'r="(row r=)?(\w*)3"', r'r="\g<2>1048576"', text))
    assert open_rows(path).n_rows == 2


def test_no_warning_of_openpyxl_quotes_a_cell(tmp_path, recwarn):
    path = tmp_path / "t.xlsx"
    book = openpyxl.Workbook()
    for row in (["a", "b"], [1, 2], [3, 4711e9]):
        book.active.append(row)
    book.active["B3"].number_format = "yyyy-mm-dd"
    book.save(path)
    np.testing.assert_array_equal(open_rows(path).whole(), [[1, 2], [3, np.nan]])
    assert not [each for each in recwarn if "4711" in str(each.message)]


def test_text_cells_of_a_sheet_are_read_by_the_decimal_mark(tmp_path):
    path = written(tmp_path / "t.xlsx", ["a", "b"], ["1,000", "$5"], [7, "12.5%"])
    assert "amounts and percentages" in refused(lambda: open_rows(path).table.refuse_text())
    source = open_rows(path, decimal=".", as_number=["b"])
    np.testing.assert_array_equal(source.whole(), [[1000, 5], [7, 12.5]])


def test_a_sheet_of_text_without_names_is_refused(tmp_path):
    path = written(tmp_path / "t.xlsx", [SECRET, "f"], ["Meier", "m"], ["Schulz", "m"])
    assert "first line of t.xlsx may be a record" in refused(lambda: open_rows(path))
