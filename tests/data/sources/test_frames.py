"""Data frames as tables of numbers."""

import subprocess
import sys
import traceback
from decimal import Decimal

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from eigenveil import PrivatePCA, StreamingPCA
from eigenveil.exceptions import InvalidDataError
from eigenveil.rows import as_table, is_frame, names

SECRET = "secret98765"
MIXED = pd.DataFrame(
    {
        "whole": [1, 2, 3],
        "truth": [True, False, True],
        "gap": pd.array([1, None, 3], dtype="Int64"),
        "real": [1.5, 2.0, np.nan],
        "unsure": pd.array([True, None, False], dtype="boolean"),
    }
)
KINDS = {
    "pandas": lambda frame: frame,
    "pandas on arrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "narwhals": nw.from_native,
}
EVERY = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())


@EVERY
def test_missing_is_nan_and_truth_is_a_number(kind):
    expected = [[1, 1, 1, 1.5, 1], [2, 0, np.nan, 2, np.nan], [3, 1, 3, np.nan, 0]]
    assert is_frame(kind(MIXED))
    assert np.array_equal(as_table(kind(MIXED)), expected, equal_nan=True)


@EVERY
@pytest.mark.parametrize("column", ["whole", "truth", "gap", "real", "unsure"])
def test_columns_of_one_type(kind, column):
    table = as_table(kind(MIXED[[column]]))
    expected = MIXED[[column]].astype("Float64").to_numpy(np.float64, na_value=np.nan)
    assert np.array_equal(table, expected, equal_nan=True)


@EVERY
def test_no_rows(kind):
    assert as_table(kind(MIXED.iloc[:0])).shape == (0, 5)


def test_large_integers_are_rounded_and_stop_nothing():
    """Whether a run stops must not hang on how large a number is."""
    large = [2**62 + 1, None, -(2**60) - 1]
    for frame in (pa.table({"a": large}), pl.DataFrame({"a": large})):
        assert as_table(frame)[[0, 2], 0] == pytest.approx([2.0**62, -(2.0**60)])


def test_decimals_are_numbers():
    prices = {"a": [Decimal("1.5"), None]}
    for frame in (pa.table(prices), pl.DataFrame(prices)):
        assert np.array_equal(as_table(frame), [[1.5], [np.nan]], equal_nan=True)


def test_single_precision_stays_and_pandas_is_not_copied():
    table = as_table(pl.DataFrame({"a": np.ones(2, np.float32), "b": np.ones(2, np.float32)}))
    assert table.dtype == np.float32
    frame = pd.DataFrame(np.ones((4, 3)))
    assert np.shares_memory(as_table(frame), frame.to_numpy())


@pytest.mark.parametrize(
    "column",
    [
        [SECRET, "b"],
        pd.Categorical([1, 2]),
        pd.Categorical([SECRET, "b"]),
        pd.to_datetime(["2026-01-01", "2026-01-02"]),
        pd.to_timedelta([1, 2]),
        pd.Series([1j, 2.0]),
        pd.arrays.SparseArray([0.0, 1.0]),
    ],
    ids=["text", "codes", "category", "date", "span", "complex", "sparse"],
)
def test_other_columns_are_refused_by_name_and_type_alone(column):
    frame = pd.DataFrame({"age": [1.0, 2.0], "workclass": column})
    with pytest.raises(InvalidDataError) as caught:
        as_table(frame)
    assert str(caught.value).startswith(
        "column 'workclass' holds no numbers: leave out with open_rows(X, drop=['workclass']); "
    )
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_cells_of_mixed_columns_are_looked_at_one_by_one():
    """A record with text turns a column of numbers into one of objects: that tells of it alone."""
    mixed = pd.Series([1, SECRET, None, True, 10**400, 2.5], dtype=object)
    table = as_table(pd.DataFrame({"age": np.ones(6), "mixed": mixed}))
    expected = [1.0, np.nan, np.nan, 1.0, np.inf, 2.5]
    assert np.array_equal(table[:, 1], expected, equal_nan=True)


@pytest.mark.parametrize("kind", [pl.DataFrame, pa.table])
@pytest.mark.parametrize("column", [[SECRET], [None], [[1.0, 2.0]], [b"1"]])
def test_polars_and_pyarrow_columns_are_refused_by_name(kind, column):
    with pytest.raises(InvalidDataError, match=r"^column 'w' holds no numbers: leave") as no:
        as_table(kind({"age": [1.0], "w": column}))
    assert SECRET not in "".join(traceback.format_exception(no.value))


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]),
        pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], ["a", "a"]),
    ],
)
def test_a_name_stands_for_one_column(frame):
    with pytest.raises(InvalidDataError, match=r"^two columns have the same name, 'a': rename one"):
        as_table(frame)


def test_a_name_that_may_be_a_value_is_not_shown_for_being_there_twice():
    frame = pd.DataFrame([[1.0, 2.0]], columns=["47.11", "47.11"])
    with pytest.raises(InvalidDataError, match="named like a value") as refused:
        as_table(frame)
    assert "47" not in str(refused.value)


def test_lazy_frames_and_columns_say_what_to_do():
    lazy = pl.LazyFrame({"a": [1.0]})
    for frame in (lazy, nw.from_native(lazy)):
        with pytest.raises(InvalidDataError, match=r"pass what its collect\(\) gives"):
            as_table(frame)
    for column in (pl.Series([1.0]), pd.Series([1.0])):
        with pytest.raises(InvalidDataError, match="two-dimensional"):
            as_table(column)
    with pytest.raises(InvalidDataError, match="no columns"):
        as_table(pd.DataFrame(index=range(3)))


def test_names_need_not_be_text():
    assert np.array_equal(as_table(pd.DataFrame([[1.0, 2]], columns=[5, 3])), [[1, 2]])
    nested = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])
    assert np.array_equal(as_table(pd.DataFrame([[1.0, 2]], columns=nested)), [[1, 2]])


def read_without_header(tmp_path, first):
    """What pandas makes of a file whose first line is a record."""
    (tmp_path / "t.csv").write_text(f"{first}\n1,2\n3,4\n")
    return pd.read_csv(tmp_path / "t.csv")


@EVERY
@pytest.mark.parametrize("first", ["5.1,3.5", "5.1,5.1", "Meier,3.5", "2020-02-03,x", "-1e5,x"])
def test_a_first_record_is_not_taken_for_names(kind, first, tmp_path):
    frame = read_without_header(tmp_path, first)
    for table in (frame, frame.assign(word=SECRET)):
        for refuses in (as_table, names):
            with pytest.raises(InvalidDataError) as caught:
                refuses(kind(table))
            assert str(caught.value) == (
                "the frame has a column named like a value, perhaps of a first record: "
                "read the file with header=None, or name all columns"
            )


def test_a_value_that_pandas_numbered_is_a_value(tmp_path):
    frame = read_without_header(tmp_path, "5.1,5.1")
    assert list(frame) == ["5.1", "5.1.1"]
    with pytest.raises(InvalidDataError, match="named like a value"):
        as_table(frame[["5.1.1"]])


@pytest.mark.filterwarnings("ignore:the release has no centre")  # pairs have none
@pytest.mark.parametrize(
    "estimator",
    [
        PrivatePCA(1, rho=1.0),
        StreamingPCA(1, rho=1e6, centring="none", batch_size=1),
    ],
)
def test_estimators_and_releases_take_no_record_for_names(estimator, tmp_path):
    frame = read_without_header(tmp_path, "5.1,3.5")
    refused = "named like a value, perhaps of a first record"
    with pytest.raises(InvalidDataError, match=refused):
        estimator.fit(frame)
    with pytest.raises(InvalidDataError, match=refused):
        estimator.fit(iter([frame]))
    release = PrivatePCA(1, rho=1.0, centring="none").fit(frame.to_numpy()).release_
    with pytest.raises(InvalidDataError, match=refused):
        release.transform(frame)
    numbered = pd.read_csv(tmp_path / "t.csv", header=None)
    fitted = estimator.fit(numbered)
    assert fitted.release_.feature_names is None
    assert release.transform(numbered).shape == (3, 1)
    assert estimator.fit(frame.set_axis(["a", "b"], axis=1)).release_.feature_names == ("a", "b")


def test_labels_that_are_not_text_are_no_names():
    numbered = pd.DataFrame([[1.0, 2.0]])
    assert names(numbered) is None
    assert names(pa.Table.from_pandas(numbered)) == ("0", "1")  # pandas notes that it counted
    with pytest.raises(InvalidDataError, match="named like a value"):
        names(pl.from_pandas(numbered))
    with pytest.raises(InvalidDataError, match=r"^column number 2 holds no numbers"):
        as_table(pd.DataFrame([[1.0, SECRET]], columns=[5.1, 98765.4]))


def test_arrays_need_no_frame_library():
    script = (
        "import sys, numpy; from eigenveil.rows import as_table; "
        "as_table(numpy.ones((2, 2))); as_table([[1, 2]]); "
        "assert not {'narwhals', 'pandas', 'polars', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
