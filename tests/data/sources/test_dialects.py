"""CSV files as other programs write them: separators, decimal commas, compression, encodings."""

import gzip

import numpy as np
import pytest

from eigenveil.exceptions import InvalidDataError
from eigenveil.rows import open_rows
from tests.data.sources.tables import SECRET, refused

NAN = np.nan


def written(path, text, encoding="utf-8"):
    data = text.encode(encoding)
    path.write_bytes(gzip.compress(data) if path.suffix.lower() == ".gz" else data)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "T.CSV.GZ"])
@pytest.mark.parametrize("mark", [";", "\t", ","])
def test_cells_are_separated_as_the_names_are(tmp_path, name, mark):
    text = "a|b|c\n1|2.5|3\n4|x|\n".replace("|", mark)
    source = open_rows(written(tmp_path / name, text))
    assert source.schema.feature_names == ("a", "b", "c")
    np.testing.assert_array_equal(source.whole(), [[1, 2.5, 3], [4, NAN, NAN]])
    assert source.count_rows() == 2


def test_decimal_commas(tmp_path):
    source = open_rows(written(tmp_path / "t.csv", 'a;b\n1,5;2\n"3,25";4.5\n1.000,5;<0,5\n'))
    np.testing.assert_array_equal(source.whole(), [[1.5, 2], [3.25, 4.5], [NAN, NAN]])
    limited = open_rows(tmp_path / "t.csv", censored="limit")
    assert limited.whole()[2, 1] == 0.5


@pytest.mark.parametrize("mark", [";", "\t", ","])
@pytest.mark.parametrize(
    ("decimal", "expected"),
    [
        (None, [[809, 1], [NAN, 2], [NAN, 3]]),
        (".", [[809, 1], [1000, 2], [1, 3]]),
        (",", [[809, 1], [1, 2], [1000, 3]]),
    ],
)
def test_thousands_are_read_by_the_stated_decimal_mark(tmp_path, mark, decimal, expected):
    """Without one, a cell that may be a thousand or one is invalid, as a word among numbers is."""
    path = written(tmp_path / "t.csv", 'a|b\n809|1\n"1,000"|2\n1.000|3\n'.replace("|", mark))
    if decimal is None and mark == ",":
        expected = [*expected[:2], [1, 3]]  # the comma separates cells, so the point is decimal
    np.testing.assert_array_equal(open_rows(path, decimal=decimal).whole(), expected)
    assert open_rows(path).count_rows() == 3


def test_names_that_hold_other_marks_stay_whole(tmp_path):
    path = written(tmp_path / "t.csv", "weight; kg,height,k|m\n1,2,3\n")
    assert open_rows(path).schema.feature_names == ("weight; kg", "height", "k|m")
    path = written(tmp_path / "u.csv", '"a, b";c\n1;2\n')
    assert open_rows(path).schema.feature_names == ("a, b", "c")


@pytest.mark.parametrize("mark", [";", "\t"])
def test_a_first_record_is_not_taken_for_names(tmp_path, mark):
    path = written(tmp_path / "t.csv", f"Meier;4711,5;{SECRET}\n1;2;3\n".replace(";", mark))
    told = refused(lambda: open_rows(path))
    assert "needs a first line" in told
    assert "4711" not in told


@pytest.mark.parametrize("mark", [";", "\t", ","])
def test_stray_quotes_are_refused_by_their_line(tmp_path, mark):
    path = written(tmp_path / "t.csv", f'a;b\n1;2\n"3;{SECRET}\n5;6\n'.replace(";", mark))
    told = refused(lambda: open_rows(path).whole())
    assert "line 3" in told


def test_other_encodings_are_named(tmp_path):
    path = written(tmp_path / "t.csv", "größe;ort\n1,5;Köln\n2;Köln\n", "latin-1")
    told = refused(lambda: open_rows(path))
    assert "is not in UTF-8: save it so, or pass encoding='latin-1'" in told
    source = open_rows(path, encoding="latin-1", encode={"ort": ["Köln"]})
    assert source.schema.feature_names == ("größe", "ort=Köln")
    np.testing.assert_array_equal(source.whole(), [[1.5, 1], [2, 1]])


def test_a_damaged_archive_is_refused(tmp_path):
    path = written(tmp_path / "t.csv.gz", "a,b\n" + "1,2\n" * 4000)
    path.write_bytes(path.read_bytes()[:-20])
    assert "not a readable CSV file" in refused(lambda: open_rows(path).whole())
    (tmp_path / "u.csv.gz").write_bytes(b"a,b\n1,2\n")
    assert "not a readable CSV file" in refused(lambda: open_rows(tmp_path / "u.csv.gz"))


def test_other_archives_are_another_kind_of_file(tmp_path):
    path = written(tmp_path / "t.json.gz", "{}")
    with pytest.raises(InvalidDataError, match="another kind of file"):
        open_rows(path)
