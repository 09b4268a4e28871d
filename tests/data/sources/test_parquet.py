"""Parquet files: types, names, files that are damaged."""

import json
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eigenveil.exceptions import InvalidDataError, MissingExtraError
from eigenveil.rows import open_rows
from tests.data.sources.tables import SECRET, TABLE, read, refused, rows_of


def test_parquet_types_nulls_and_columns(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    table = {"a": [1, 2, None], "b": [0.5, None, 1.5], "t": [SECRET] * 3, "f": [True, False, True]}
    pq.write_table(pa.table(table), path, row_group_size=2)
    got = read(path, columns=["f", "a", "b"])
    expected = [[1, 1, 0.5], [0, 2, np.nan], [1, np.nan, 1.5]]
    assert np.array_equal(got, expected, equal_nan=True)
    with pytest.raises(InvalidDataError, match="column 't' holds no numbers"):
        open_rows(path)


def test_parquet_index_and_repeated_names(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    named = pd.DataFrame({"a": [1.0, 2.0]}, index=pd.Index([7, 9], name="patient"))
    for frame in (named, named.rename_axis(None)):
        frame.to_parquet(path)
        assert open_rows(path).schema.feature_names == ("a",)
    named.to_parquet(path)
    assert np.array_equal(read(path, columns=["patient"]), [[7], [9]])
    named[[]].to_parquet(path)
    with pytest.raises(InvalidDataError, match="no columns"):
        open_rows(path)
    named.to_parquet(path)
    assert np.array_equal(read(path), [[1.0], [2.0]])
    pq.write_table(pa.Table.from_arrays([pa.array([1.0])] * 2, names=["a", "a"]), path)
    with pytest.raises(InvalidDataError, match="same name"):
        open_rows(path)


def test_a_parquet_file_cut_short_inside_a_column(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": np.random.default_rng(0).standard_normal(5000)}), path)
    content = bytearray(path.read_bytes())
    content[4:80] = bytes(76)
    path.write_bytes(content)
    with pytest.raises(InvalidDataError, match="damaged or truncated"):
        read(path)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    path.write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'eigenveil\[parquet\]'"):
        open_rows(path)


@pytest.mark.parametrize(
    "noted",
    [
        b"{",
        b"[1, 2]",
        b"\xff",
        b'{"index_columns": 5}',
        b'{"column_indexes": [{}]}',
        b'{"column_indexes": [{"pandas_type": 7}]}',
        b"[" * 100_000,
    ],
)
def test_odd_notes_of_pandas_in_a_parquet_file(noted, tmp_path):
    path = tmp_path / "t.parquet"
    table = pa.table({"a": [1.0]}).replace_schema_metadata({b"pandas": noted})
    pq.write_table(table, path)
    assert "not a readable parquet file" in refused(lambda: open_rows(path))


def test_parquet_files_cut_anywhere(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": TABLE[:, 0], "n": [{"x": [1.0]}] * 50}), path)
    content = path.read_bytes()
    assert np.array_equal(rows_of(open_rows(path, ["a"]))[:, 0], TABLE[:, 0])
    assert "column 'n' holds no numbers" in refused(lambda: open_rows(path))
    for size in range(0, len(content), 7):
        path.write_bytes(content[:size])
        refused(lambda: open_rows(path))
        path.write_bytes(content[:size] + content[-8:])
        refused(lambda: rows_of(open_rows(path)))


def test_a_parquet_file_must_hold_as_many_rows_as_it_says(tmp_path):
    """Their number is taken from its last lines, before a row is read."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": np.arange(306.0)}), path, row_group_size=306, compression="none")
    content = path.read_bytes()
    number = b"\xe4\x04"  # 306, as thrift writes it
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    assert content.count(number, footer) >= 2
    refusals = 0
    place = content.find(number, footer)
    while place >= 0:
        path.write_bytes(content[:place] + b"\x8c\x01" + content[place + 2 :])
        try:
            source = open_rows(path)
            assert len(rows_of(source)) == source.n_rows
        except InvalidDataError as error:
            refusals += "damaged or truncated" in str(error)
        place = content.find(number, place + 1)
    assert refusals >= 2


def headerless(folder, values):
    """As pandas reads a file whose first line is a record."""
    path = folder / "bare.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in values) + "\n")
    return pd.read_csv(path)


def test_a_first_record_as_names_in_a_parquet_file(tmp_path):
    path = tmp_path / "t.parquet"
    for first in ([5.1, 3.5], [5.1, 5.1], ["Meier", 5.1], ["2020-02-03", "x"]):
        headerless(tmp_path, [first, [1, 2], [3, 4]]).to_parquet(path)
        for columns in (None, ["age"]):
            message = refused(lambda columns=columns: open_rows(path, columns))
            assert message.startswith("t.parquet has a column named like a value")
            assert "header=None" in message
            assert "5.1" not in message
            assert "2020" not in message


def test_positions_are_no_record_in_a_parquet_file(tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame(TABLE).to_parquet(path)
    noted = json.loads(pq.read_schema(path).metadata[b"pandas"])
    assert noted["column_indexes"][0]["pandas_type"] == "int64"
    assert open_rows(path).schema.feature_names == ("0", "1", "2")
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
    assert "header=None" in refused(lambda: open_rows(path))


def test_only_positions_are_numbers_that_pandas_gave(tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame(TABLE).to_parquet(path)
    table = pq.read_table(path)
    renamed = table.rename_columns(["0", "5.1", "2"])
    pq.write_table(renamed.replace_schema_metadata(table.schema.metadata), path)
    assert "header=None" in refused(lambda: open_rows(path))
