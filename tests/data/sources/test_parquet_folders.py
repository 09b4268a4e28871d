"""Several parquet files as one table, here and on object stores."""

import numpy as np
import pandas as pd
import pytest

from eigenveil.engines import opened_part
from eigenveil.exact import Clip, second_moment
from eigenveil.exceptions import InvalidDataError
from eigenveil.privacy import Adjacency
from eigenveil.rows import address_of, open_rows, remote_files

pytest.importorskip("pyarrow", reason="needs the extra parquet")

ROWS = np.random.default_rng(0).standard_normal((40, 3))
IDS = [f"p{i % 7}" for i in range(40)]
CLIP = Clip(row_norm=2.0)


def moment(source):
    return second_moment(source, CLIP, Adjacency.REPLACE_ONE).value.units


@pytest.fixture
def folder(tmp_path):
    frame = pd.DataFrame(ROWS, columns=list("abc")).assign(who=IDS)
    place = tmp_path / "table"
    place.mkdir()
    for number, some in enumerate((slice(0, 5), slice(5, 33), slice(33, 40))):
        frame[some].to_parquet(place / f"part-{number}.parquet", index=False, row_group_size=10)
    (place / "_SUCCESS").write_text("")
    return place


@pytest.mark.parametrize("kind", ["folder", "address", "address as a path"])
def test_a_folder_is_one_table(folder, kind):
    place = {"folder": folder, "address": f"file://{folder}"}.get(kind)
    place = type(folder)(f"file://{folder}") if place is None else place
    source = open_rows(place, ["a", "b", "c"])
    assert source.n_rows == 40
    assert source.schema.feature_names == ("a", "b", "c")
    assert np.array_equal(source.whole(), ROWS)
    persons = open_rows(place, ["a", "b", "c"], "who")
    assert sorted(persons.units.sizes) == [5, 5, 6, 6, 6, 6, 6]


@pytest.mark.parametrize("kind", ["folder", "address"])
@pytest.mark.parametrize("name", ["year=2024", "more.parquet", "_delta_log", "_temporary"])
def test_a_folder_inside_is_refused(folder, kind, name):
    """It may hold a part of the table, or say which files are out of date."""
    (folder / name).mkdir()
    with pytest.raises(InvalidDataError, match="holds another folder"):
        open_rows(folder if kind == "folder" else f"file://{folder}")


@pytest.mark.parametrize("kind", ["folder", "address"])
def test_files_of_programs_that_write_there_are_no_parts(folder, kind):
    first = (folder / "part-0.parquet").read_bytes()
    for name in ("._part-0.parquet", "_tmp.parquet", "_metadata", "part-3.parquet.tmp"):
        (folder / name).write_bytes(first)
    (folder / ".part-0.parquet.crc").write_bytes(b"crc")
    (folder / ".release-draft").mkdir()
    source = open_rows(folder if kind == "folder" else f"file://{folder}", ["a", "b", "c"])
    assert source.n_rows == 40


def test_parts_are_row_groups_and_add_up(folder):
    parts = open_rows(folder, ["a", "b", "c"]).parts()
    assert [part.n_rows for part in parts] == [5, 10, 10, 8, 7]
    assert np.array_equal(sum(moment(opened_part(part)) for part in parts), moment(open_rows(ROWS)))


def test_files_of_other_columns_are_refused_by_name(folder):
    pd.DataFrame({"a": [1.0]}).to_parquet(folder / "z.parquet")
    with pytest.raises(InvalidDataError, match=r"z\.parquet has other columns"):
        open_rows(folder)


def test_a_file_that_changes_is_noticed_there_too(folder):
    source = open_rows(f"file://{folder}", ["a"])
    pd.DataFrame({"a": [1.0], "b": 1.0, "c": 1.0}).to_parquet(folder / "part-1.parquet")
    with pytest.raises(InvalidDataError, match="changed while it was read"):
        source.whole()


def test_nothing_there_is_said_without_the_address(tmp_path):
    (tmp_path / "empty").mkdir()
    secret = tmp_path / "secret-key"
    for place in (tmp_path / "empty", f"file://{tmp_path}/empty", f"file://{secret}/t.csv"):
        with pytest.raises(InvalidDataError) as caught:
            open_rows(place)
        assert "secret-key" not in str(caught.value)
    with pytest.raises(InvalidDataError, match="did not answer"):
        remote_files("file://host/odd")


def test_addresses_are_told_from_paths():
    assert address_of("s3://bucket/a.parquet") == "s3://bucket/a.parquet"
    assert address_of("s3:/bucket/a.parquet") == "s3://bucket/a.parquet"  # as a path has it
    assert address_of("gs://bucket/folder") == "gs://bucket/folder"
    assert address_of("file:/tmp/x") == "file:///tmp/x"
    for path in ("a.csv", "C:/a.csv", "/s3/a.parquet", "s3.csv", "http://x/y.csv"):
        assert address_of(path) is None
