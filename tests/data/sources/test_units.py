"""Rows of which several belong to one person."""

import numpy as np
import pandas as pd
import pytest

from eigenveil.exact import public_rows, second_moment
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.privacy import GROUP, Adjacency, Unit
from eigenveil.rows import (
    ArraySource,
    Divide,
    GroupedSource,
    IterableSource,
    LabelledSource,
    PairedSource,
    open_rows,
    tables,
)
from tests.data.persons import CLIP, STATISTICS, listed

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE


def test_rows_of_persons_are_not_read_as_plain_rows():
    source = listed([np.ones((4, 2)), np.zeros((4, 2))])
    for refusing in (source, source.map(Divide(np.ones(2)))):
        with pytest.raises(InvalidParameterError, match="protected together"):
            list(tables(refusing))
        with pytest.raises(InvalidParameterError, match="protected together"):
            PairedSource(refusing, REPLACE, np.arange)
        assert refusing.units.protects == GROUP
        assert public_rows(refusing) == 2
    with pytest.raises(InvalidParameterError, match="say already"):
        GroupedSource(source, np.arange(8))
    assert open_rows(source) is source


@pytest.mark.parametrize("ids", [[1, 2, 3], [1, 2, 3, 4, 5], []])
def test_one_id_for_each_row(ids):
    rows = np.zeros((4, 1))
    with pytest.raises(InvalidDataError, match="one id for each row"):
        GroupedSource(ArraySource(rows), ids)
    streamed = GroupedSource(IterableSource([rows[:2], rows[2:]]), ids)
    with pytest.raises(InvalidDataError, match="one id for each row"):
        second_moment(streamed, CLIP, ADD)


@pytest.mark.parametrize("ids", [7, "abcd", np.zeros((4, 1)), None])
def test_ids_must_be_a_column(ids):
    with pytest.raises(InvalidParameterError, match="one id for each row"):
        GroupedSource(ArraySource(np.zeros((4, 1))), ids)


@pytest.fixture
def table():
    rng = np.random.default_rng(10)
    frame = pd.DataFrame(rng.standard_normal((60, 3)), columns=list("abc"))
    frame.insert(1, "patient", [f"p {i}" for i in rng.integers(0, 11, 60)])
    return frame


def write(frame, path):
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, row_group_size=13)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("numbers", [False, True])
def test_files_say_whose_rows_they_hold(table, tmp_path, monkeypatch, suffix, numbers):
    if numbers:
        table["patient"] = table["patient"].str[2:].astype(int)
    monkeypatch.setattr("eigenveil.rows.csv._MAX_LINES", 7)
    source = open_rows(write(table, tmp_path / f"t{suffix}"), unit="patient")
    assert isinstance(source, LabelledSource)
    assert (source.schema.feature_names, source.n_columns) == (("a", "b", "c"), 3)
    assert source.units.protects == Unit("person", "patient")
    expected = GroupedSource(ArraySource(table[list("abc")].to_numpy()), table["patient"])
    assert np.array_equal(source.units.sizes, expected.units.sizes)
    for statistic in STATISTICS.values():
        found, wanted = (statistic(s, CLIP, REPLACE) for s in (source, expected))
        assert np.array_equal(found.value.units, wanted.value.units)
        assert found.protects == Unit("person", "patient")
    assert len(np.vstack(list(tables(source.rows)))) == 60
    fewer = open_rows(tmp_path / f"t{suffix}", columns=["c", "a"], unit="patient")
    assert fewer.schema.feature_names == ("c", "a")
    plain = open_rows(tmp_path / f"t{suffix}", columns=["c", "a"])
    assert np.array_equal(*(np.vstack(list(tables(s))) for s in (fewer.rows, plain)))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_file_may_not_leave_a_row_without_an_owner(table, tmp_path, suffix):
    table.loc[3, "patient"] = None
    source = open_rows(write(table, tmp_path / f"t{suffix}"), unit="patient")
    with pytest.raises(InvalidDataError, match="no id"):
        second_moment(source, CLIP, REPLACE)


def test_an_uneven_line_has_no_owner(tmp_path):
    (tmp_path / "t.csv").write_text("a,patient\n1,p\n2,p,3\n")
    with pytest.raises(InvalidDataError, match="no id"):
        public_rows(open_rows(tmp_path / "t.csv", unit="patient"))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_the_column_of_the_unit(table, tmp_path, suffix):
    path = write(table, tmp_path / f"t{suffix}")
    with pytest.raises(InvalidDataError, match="no column 'person'"):
        open_rows(path, unit="person")
    with pytest.raises(InvalidParameterError, match="no feature"):
        open_rows(path, columns=["a", "patient"], unit="patient")
    np.save(tmp_path / "t.npy", np.zeros((2, 2)))
    for data in (tmp_path / "t.npy", np.zeros((2, 2))):
        with pytest.raises(InvalidParameterError, match="groups=ids"):
            open_rows(data, unit="patient")


def test_a_column_of_dates_is_no_unit(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "day": pd.to_datetime(["2020-01-01", "2020-01-02"])})
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(InvalidDataError, match="text or whole numbers"):
        open_rows(tmp_path / "t.parquet", unit="day")


@pytest.mark.parametrize("change", ["another row", "another person"])
def test_a_file_that_changes_between_reads_is_refused(table, tmp_path, change):
    """The weights are those of the first read: more rows would weigh too much."""
    path = write(table, tmp_path / "t.csv")
    source = open_rows(path, unit="patient")
    second_moment(source, CLIP, REPLACE)
    more = table.iloc[:1] if change == "another row" else table.iloc[:1].assign(patient="new")
    write(pd.concat([table, more]), path)
    with pytest.raises(InvalidDataError, match="changed while"):
        second_moment(source, CLIP, REPLACE)


def test_a_file_that_shrank_is_refused(table, tmp_path):
    """Pairs would take the rows of one person for those of another."""
    path = write(table, tmp_path / "t.csv")
    source = open_rows(path, unit="patient")
    assert source.units.sizes.sum() == len(table)
    write(table[:-3], path)
    with pytest.raises(InvalidDataError, match="changed while it was read"):
        list(source.unit_chunks())
