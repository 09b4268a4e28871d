"""CSV files: records that are one line each, names, cells that are no numbers."""

import csv

import numpy as np
import pytest

from eigenveil import PrivateCovariance
from eigenveil.cli.rows import StdinSource
from eigenveil.exceptions import InvalidDataError
from eigenveil.rows import Reading, open_rows, tables
from tests.data.sources.tables import NEIGHBOURS, SECRET, covariance, read, refused, rows_of


def test_csv_columns_by_name_and_empty_cells(csv):
    got = read(csv, columns=["height", "age"])
    assert np.array_equal(got, [[1.7, 31.0], [1.8, np.nan], [1.6, 45.0]], equal_nan=True)
    assert open_rows(csv, columns=["age"]).schema.feature_names == ("age",)


def test_csv_cells_that_are_no_numbers_are_missing_and_uneven_lines_invalid(tmp_path):
    """A function of that record alone: text, an uneven line, a stray byte."""
    path = tmp_path / "t.csv"
    path.write_bytes(f"a,b\n1,{SECRET}\n2,3\n4\n5,6,7\n\xff,8\n".encode("latin-1"))
    nan = np.nan
    expected = [[1, nan], [2, 3], [np.inf, np.inf], [np.inf, np.inf], [nan, 8]]
    assert np.array_equal(read(path), expected, equal_nan=True)


@pytest.mark.parametrize("mark", [",", ";"])
@pytest.mark.parametrize("encode", [None, {"c": ["x", "y"]}])
def test_an_uneven_line_is_no_row_at_the_centre(mark, encode, tmp_path):
    """A cell that is lost, or one too many, is no missing value: nothing may fill it."""
    path = tmp_path / "t.csv"
    lines = ["a,b,c", "1,2,x", "3,,y", "5,6", "7,8,x,9"] + ["1,2,x"] * 60
    path.write_text("\n".join(lines).replace(",", mark) + "\n")
    told = {"drop": ["c"]} if encode is None else {"encode": encode}
    options = {"epsilon": 9.0, "delta": 1e-6, "row_norm": 9.0, "random_state": 0}
    options["mechanism"] = "gauss"
    source = open_rows(path, **told)
    assert np.isinf(source.whole()[2:4]).all()
    with pytest.raises(InvalidDataError, match="row"):
        PrivateCovariance(**options, on_missing="centre").fit(source)
    zero = PrivateCovariance(**options, on_missing="centre", on_invalid="zero").fit(source)
    assert zero.release_.settings["n_rows"] == 64


def test_a_blank_line_is_a_missing_value_where_records_are_one_cell(tmp_path):
    """Otherwise the number of rows, public under replace-one, would depend on a value."""
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n\n3\n")
    assert np.array_equal(read(path), [[1], [np.nan], [3]], equal_nan=True)


@pytest.mark.parametrize(
    "content",
    ["", "1,2\n3,4\n", "a,a\n1,2\n", "a,b\n1," + "9" * 200_000],
    ids=["empty", "no names", "same name", "huge cell"],
)
def test_csv_without_names_or_out_of_range(tmp_path, content):
    path = tmp_path / "t.csv"
    path.write_text(content)
    with pytest.raises(InvalidDataError) as caught:
        read(path)
    assert "999" not in str(caught.value)


RECORDS = {
    "semicolons": b"SSN 123-45-6789;4711.5;secret\n1;2;3\n",
    "decimal commas": b"Meier;4711,5;secret\n1;2;3\n",
    "tabs": b"Meier\t4711\tsecret\n",
    "bars": b"Meier|4711|secret\n",
    "binary": b"PK\x03\x04Meier,secret\n",
    "not UTF-8": b"M\xfcller,secret\n",
    "a quote over lines": b'"a,b\nMeier,4711\nMeier,secret\n',
    "a telephone number": b"Meier,030/4711-12,secret\n",
    "a date": b"Meier,2020-02-03,secret\n",
    "a number": b"Meier,12,secret\n",
    "a number behind a mark": "Meier,\ufeff4711e4,secret\n".encode(),
    "a sum of money": b"Meier,$4711.5E-4,secret\n",
}


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("columns", [None, ["other"]])
def test_a_first_line_that_may_be_a_record_is_not_quoted(tmp_path, name, columns):
    path = tmp_path / "t.csv"
    path.write_bytes(RECORDS[name])
    with pytest.raises(InvalidDataError, match=r"^t\.csv ") as error:
        open_rows(path, columns=columns)
    for cell in ("123", "4711", "secret", "Meier", "2020"):
        assert cell not in str(error.value)


def test_names_with_digits_and_marks_are_names(tmp_path):
    names = ("1007_s_at", "1e", "rs123", "k__A|p__B", "rate; %", "2ndFloor", "$")
    path = tmp_path / "t.csv"
    path.write_text(",".join(names) + "\n1,2,3,4,5,6,7\n")
    assert open_rows(path).schema.feature_names == names


def test_csv_with_an_unnamed_index(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(",a\n0,5\n1,6\n")
    with pytest.raises(InvalidDataError, match="row index"):
        open_rows(path)
    assert np.array_equal(read(path, columns=["a"]), [[5], [6]])


def test_csv_in_another_encoding_says_what_to_do(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("größe,b\n1,2\n".encode("latin-1"))
    with pytest.raises(InvalidDataError, match="not in UTF-8"):
        read(path)


def test_csv_in_many_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("eigenveil.rows.csv._MAX_LINES", 7)
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "\n" * 15 + "".join(f"{i},{-i}\n" for i in range(50)))
    assert np.array_equal(read(path), [[i, -i] for i in range(50)])


LINES = [f"{i},{i % 7},{i % 5}" for i in range(306)]


def with_cells(**lines):
    """A table of 306 records in which some lines, counted with the header, are others."""
    content = ["a,note,who", *LINES]
    for number, line in lines.items():
        content[int(number[1:]) - 1] = line
    return "\n".join(content) + "\n"


DAMAGED = {
    # the line that is named, and the file
    "a quote that is never closed": (8, with_cells(_8=f'5,"{SECRET},1')),
    "two stray quotes in two rows": (8, with_cells(_8=f'5,"{SECRET},1', _200='5,6",1')),
    "a line break in a cell": (4, with_cells(_4=f'5,"{SECRET}\n6",1')),
    "text after a closing quote": (3, with_cells(_3=f'5,"{SECRET}"7,1')),
    "a carriage return in a cell": (5, with_cells(_5=f"5,{SECRET}\r,1")),
    "a line break in a table of carriage returns": (
        5,
        with_cells(_5="5,6\r\n,1").replace("\r\n", "\f").replace("\n", "\r").replace("\f", "\n"),
    ),
    "a NUL": (307, with_cells(_307="5,\0,1")),
    "a cell without end": (2, with_cells(_2=f"5,{'9' * (csv.field_size_limit() + 1)},1")),
    "a quote in the first line": (1, with_cells(_1=f'a,"note {SECRET},who')),
    "a quote on the last line, which has no end": (307, with_cells(_307='5,"6,1')[:-1]),
}


@pytest.mark.parametrize("batch", [3, 1 << 14])
@pytest.mark.parametrize("name", DAMAGED)
def test_a_record_that_is_not_one_line_is_refused_by_its_number(name, batch, tmp_path, monkeypatch):
    """Silently, the 306 records were 6: what is published, and what noise is calibrated to."""
    line, content = DAMAGED[name]
    monkeypatch.setattr("eigenveil.rows.csv._MAX_LINES", batch)
    path = tmp_path / "t.csv"
    path.write_text(content, newline="")
    sources = [
        lambda: open_rows(path, columns=["a"]),
        lambda: StdinSource(content, Reading(columns=["a"])),
    ]
    readings = [lambda source: source.count_rows(), rows_of]
    for opened in sources:
        for reading in readings:
            message = refused(lambda reading=reading, opened=opened: reading(opened()))
            assert f"line {line}: remove stray quotes" in message
            assert "save the table as parquet" in message
    for reading in (
        lambda source: list(source.labels()),
        lambda source: list(source.labelled_chunks()),
    ):
        message = refused(lambda reading=reading: reading(open_rows(path, ["a"], "who").rows))
        assert f"line {line}:" in message


@NEIGHBOURS
def test_a_stray_quote_charges_nothing(adjacency, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(DAMAGED["two stray quotes in two rows"][1])
    private = covariance(tmp_path, adjacency)
    assert "line 8:" in refused(lambda: private.fit(open_rows(path, ["a", "who"])))
    assert private.ledger.entries == ()


@pytest.mark.parametrize(
    "content",
    [
        b"a,b\n1,2\n3,4\n",
        b"a,b\n1,2\n3,4",
        b"a,b\r\n1,2\r\n3,4\r\n",
        b"a,b\r\n1,2\r\n3,4",
        b"a,b\r1,2\r3,4\r",
        b"\xef\xbb\xbfa,b\n1,2\n3,4\n",
        b"a,b\n\n1,2\n\n\n3,4\n\n",
        b'"a",b\n"1","2"\n3,"4"\n',
        b'a,b,c\n1,2,"x, ""y"""\n3,4,5\' 11"\n',
    ],
)
@pytest.mark.parametrize("batch", [1, 1 << 14])
def test_files_that_are_as_they_should_be(content, batch, tmp_path, monkeypatch):
    monkeypatch.setattr("eigenveil.rows.csv._MAX_LINES", batch)
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    for source in (
        open_rows(path, ["a", "b"]),
        StdinSource(content.decode("utf-8-sig"), Reading(columns=["a", "b"])),
    ):
        assert np.array_equal(rows_of(source), [[1, 2], [3, 4]])
        assert source.n_rows == source.count_rows() == 2


def test_lines_are_counted_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("eigenveil.rows.csv._BLOCK_CHARACTERS", 10)
    path = tmp_path / "t.csv"
    path.write_text(with_cells())
    assert open_rows(path).count_rows() == 306
    path.write_text(with_cells(_150="1,\0,2"))
    assert "line 150:" in refused(lambda: open_rows(path).count_rows())


def test_a_small_file_is_parsed_once(tmp_path, monkeypatch):
    """Parsing takes longer than all else; what was read stays what it was."""
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n3,4\n")
    source = open_rows(path)
    assert source.count_rows() == 2
    path.unlink()
    for _ in range(2):
        assert np.concatenate(list(tables(source))).tolist() == [[1, 2], [3, 4]]
