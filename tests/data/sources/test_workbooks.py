"""Sheets of Excel workbooks."""

import datetime

import numpy as np
import pytest

from eigenveil.data.sources import open_rows
from eigenveil.exceptions import InvalidDataError, MissingExtraError
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
    assert source.feature_names == ("age", "crp", "ward=a", "ward=b", "seen")
    assert source.whole()[:, -1].tolist()[::2] == [1, 2]


def test_columns_of_text_are_refused_by_name(tmp_path):
    path = written(tmp_path / "t.xlsx", ["a", "b"], [1, SECRET])
    told = refused(lambda: open_rows(path).refuse_text())
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
    monkeypatch.setattr("eigenveil.data.sources.workbooks._MAX_BYTES", 10)
    with pytest.raises(InvalidDataError, match="too large"):
        open_rows(path)
