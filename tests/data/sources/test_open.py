"""From whatever a caller passes to a source."""

import numpy as np
import pandas as pd
import pytest

from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.rows import ArraySource, IterableSource, open_rows
from tests.data.sources.tables import SECRET, read


def test_tables_in_memory_and_streams_are_told_apart():
    class Again:
        def __iter__(self):
            return iter([np.ones((2, 3)), np.zeros((1, 3))])

    for table in ([[1, 2], [3, 4]], pd.DataFrame({"a": [1, 2]}), np.ones((2, 2))):
        assert isinstance(open_rows(table), ArraySource)
    source = open_rows(Again())
    assert isinstance(source, IterableSource)
    assert source.rereadable

    class Once:
        def __init__(self):
            self.shared = iter([np.ones((2, 3)), np.zeros((1, 3))])

        def __iter__(self):
            return self.shared

    once = open_rows(Once())
    assert not once.rereadable
    assert len(np.concatenate(list(once.chunks()))) == 3


@pytest.mark.parametrize(
    "data",
    [
        np.ones(3),
        np.ones((2, 2, 2)),
        np.ones((2, 0)),
        np.array([[SECRET]]),
        np.array([[1j]]),
        iter([]),
        42,
        "missing.csv",
        "unknown.xlsx",
    ],
)
def test_unusable_rows_are_refused_in_one_line(data):
    with pytest.raises(InvalidDataError) as caught:
        read(data)
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_columns_must_exist(csv, tmp_path):
    with pytest.raises(InvalidDataError, match="no column 'weight': did you mean 'height'"):
        open_rows(csv, columns=["weight"])
    with pytest.raises(InvalidParameterError, match="one column twice"):
        open_rows(csv, columns=["age", "age"])
    with pytest.raises(InvalidParameterError, match="empty"):
        open_rows(csv, columns=[])
    with pytest.raises(InvalidParameterError, match="slice"):
        open_rows(np.ones((1, 1)), columns=["a"])
    np.save(tmp_path / "t.npy", np.ones((1, 1)))
    with pytest.raises(InvalidParameterError, match="slice"):
        open_rows(tmp_path / "t.npy", columns=["a"])
    other = tmp_path / "t.txt"
    other.write_text("x")
    with pytest.raises(InvalidDataError, match=r"give a \.csv, \.tsv, \.csv\.gz, \.parquet"):
        open_rows(other)
