"""Exports hold the same numbers as the release, and its promise."""

import csv
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest

from eigenveil import PrivateCovariance, PrivatePCA
from eigenveil.exceptions import InvalidDataError, InvalidParameterError, MissingExtraError
from eigenveil.release.export import export
from tests.storage.test_reservation import FullDisk

RNG = np.random.default_rng(3)
NAMES = ["rs1", "rs2", "rs3", "rs4"]
ROWS = RNG.standard_normal((60, 4)) * [3, 1, 1, 2] + [1000, 0, -5, 2]
FRAME = pd.DataFrame(ROWS, columns=NAMES)
BUDGET = {"epsilon": 2.0, "delta": 1e-6}


@pytest.fixture(scope="module")
def release():
    made = PrivatePCA(2, **BUDGET, scale=[3.0, 1.0, 1.0, 2.0]).fit(FRAME).release_
    # A table as small as this one has no centre; give it one, so that it matters.
    return replace(made, arrays={**made.arrays, "mean": np.array([1000.0, 0.1, -5.0, 2.0])})


@pytest.fixture(scope="module")
def left_out(release):
    """As if the third column had found no private scale."""
    arrays = {name: array.copy() for name, array in release.arrays.items()}
    arrays["components"][:, 2] = 0
    arrays["mean"][2] = 0
    arrays["scale"][2] = np.inf
    return replace(release, arrays=arrays)


def by_hand(frame):
    """Scores from a table of loadings."""
    loadings = frame[[name for name in frame if name.startswith("PC")]].to_numpy()
    return (ROWS - frame["mean"].to_numpy()) / frame["scale"].to_numpy() @ loadings


@pytest.mark.parametrize("which", ["release", "left_out"])
def test_csv_loadings_give_the_scores(which, request, tmp_path):
    release = request.getfixturevalue(which)
    written = export(release, tmp_path / "loadings.csv")
    assert sorted(p.name for p in written) == ["loadings.csv", "loadings.csv.statement.txt"]
    exact = dict.fromkeys(("mean", "scale", "PC1", "PC2"), float)
    frame = pd.read_csv(tmp_path / "loadings.csv", converters=exact)
    assert list(frame) == ["feature", "mean", "scale", "PC1", "PC2"]
    assert list(frame["feature"]) == NAMES
    assert np.array_equal(frame[["PC1", "PC2"]].to_numpy().T, release.arrays["components"])
    assert by_hand(frame) == pytest.approx(release.transform(ROWS), rel=1e-12)
    statement = (tmp_path / "loadings.csv.statement.txt").read_text("utf-8")
    assert statement == release.guarantee.sentence() + "\n"


def test_parquet_loadings_give_the_scores(release, tmp_path):
    (path,) = export(release, tmp_path / "loadings.parquet")
    assert by_hand(pd.read_parquet(path)) == pytest.approx(release.transform(ROWS), rel=1e-12)
    metadata = pyarrow.parquet.read_schema(path).metadata
    assert metadata[b"eigenveil"].decode() == release.guarantee.sentence()


def test_columns_without_names_are_numbered(tmp_path):
    release = PrivatePCA(1, **BUDGET).fit(ROWS).release_
    export(release, tmp_path / "a.csv")
    assert list(pd.read_csv(tmp_path / "a.csv")["feature"]) == ["x0", "x1", "x2", "x3"]
    with pytest.raises(InvalidDataError, match="columns have names"):
        export(release, tmp_path / "a.plink")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_covariance_is_a_matrix_with_names(suffix, tmp_path):
    release = PrivateCovariance(**BUDGET, row_norm=5.0).fit(FRAME).release_
    path = export(release, tmp_path / f"c.{suffix}")[-1]
    frame = pd.read_csv(path) if suffix == "csv" else pd.read_parquet(path)
    frame = frame.set_index("feature")
    assert list(frame) == list(frame.index) == NAMES
    assert frame.to_numpy() == pytest.approx(release.arrays["covariance"], rel=1e-15)
    with pytest.raises(InvalidParameterError, match="no components"):
        export(release, tmp_path / "c", "plink")


@pytest.mark.parametrize("which", ["release", "left_out"])
def test_plink_sums_and_constants_give_the_scores(which, request, tmp_path):
    """What plink2 --score does: the sum of weight times count over the lines of the table."""
    release = request.getfixturevalue(which)
    statement, table = export(release, tmp_path / "w", "plink", alleles=["A", "C", "G", "T"])
    with open(table, newline="") as file:
        header, *lines = csv.reader(file, delimiter="\t")
    assert header == ["#ID", "A1", "PC1", "PC2"]
    assert [line[:2] for line in lines] == [[n, a] for n, a in zip(NAMES, "ACGT", strict=True)]
    sums = ROWS @ np.array([line[2:] for line in lines], dtype=float)
    text = statement.read_text("utf-8")
    assert text.startswith(release.guarantee.sentence() + "\n")
    assert "--score-col-nums 3-4" in text
    constants = [float(line.split()[1]) for line in text.splitlines() if line.startswith("  PC")]
    assert sums + constants == pytest.approx(release.transform(ROWS), abs=1e-9)


def test_plink_without_alleles_has_dots(release, tmp_path):
    table = export(release, tmp_path / "w.plink")[-1]
    assert {line.split("\t")[1] for line in table.read_text().splitlines()[1:]} == {"."}
    for wrong, error in ((["A"], InvalidParameterError), (["A", "C", "G", ""], InvalidDataError)):
        with pytest.raises(error):
            export(release, tmp_path / "v.plink", alleles=wrong)
    spaced = replace(
        release, settings={**release.settings, "feature_names": ["a b", "c", "d", "e"]}
    )
    with pytest.raises(InvalidDataError, match="spaces"):
        export(spaced, tmp_path / "v.plink")


def test_exports_never_overwrite(release, tmp_path):
    (tmp_path / "a.csv.statement.txt").write_text("mine")
    with pytest.raises(InvalidParameterError, match="exists already"):
        export(release, tmp_path / "a.csv")
    assert not (tmp_path / "a.csv").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidParameterError, match="choose a writable place"):
        export(release, tmp_path / "file" / "a.csv")


def test_a_full_disk_leaves_no_half_exports(release, tmp_path, monkeypatch):
    (tmp_path / "small").mkdir()
    FullDisk(monkeypatch, tmp_path / "small" / "a.csv", suffix=".csv")
    with pytest.raises(InvalidParameterError, match="choose a writable place"):
        export(release, tmp_path / "small" / "a.csv")
    assert list((tmp_path / "small").iterdir()) == []


@pytest.mark.parametrize("name", ["a.xlsx", "a"])
def test_unknown_formats_name_the_known(release, tmp_path, name):
    with pytest.raises(InvalidParameterError, match="csv, parquet, plink"):
        export(release, tmp_path / name)
    with pytest.raises(InvalidParameterError, match="leave them out"):
        export(release, tmp_path / "a.csv", alleles=["A"] * 4)


def test_a_missing_extra_is_named(release, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"eigenveil\[parquet\]"):
        export(release, tmp_path / "a.parquet")


@pytest.mark.parametrize("name", ["=1+1", "+x", "-x", "@x", "\tx"])
def test_a_name_that_is_a_formula_is_not_for_spreadsheets(release, tmp_path, name):
    names = {"feature_names": [name, "b", "c", "d"]}
    odd = replace(release, settings={**release.settings, **names})
    with pytest.raises(InvalidDataError, match="export parquet instead"):
        export(odd, tmp_path / "a.csv")
    export(odd, tmp_path / "a.parquet")
    assert list(pd.read_parquet(tmp_path / "a.parquet")["feature"]) == names["feature_names"]


def named(release, *names):
    return replace(release, settings={**release.settings, "feature_names": list(names)})


def test_csv_spells_out_what_a_terminal_would_obey(release, tmp_path):
    odd = named(release, "a\x1b[2K", "b\r\nc", "d\u202e", "e")
    table = export(odd, tmp_path / "a.csv")[-1].read_text("utf-8")
    assert table.replace("\n", "").isprintable()
    spelled = ["a\\x1b[2K", "b\\r\\nc", "d\\u202e", "e"]
    assert [line.split(",")[0] for line in table.splitlines()[1:]] == spelled
    frame = FRAME.set_axis(odd.feature_names, axis=1)
    matrix = PrivateCovariance(**BUDGET, row_norm=5.0).fit(frame).release_
    header = export(matrix, tmp_path / "c.csv")[-1].read_text("utf-8").splitlines()[0]
    assert header.split(",") == ["feature", *spelled]
    export(odd, tmp_path / "a.parquet")
    assert list(pd.read_parquet(tmp_path / "a.parquet")["feature"]) == list(odd.feature_names)


def test_names_that_look_the_same_are_not_for_csv(release, tmp_path):
    with pytest.raises(InvalidDataError, match="the same name once"):
        export(named(release, "a\n", "a\\n", "c", "d"), tmp_path / "a.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a\x1b", "a\u202e", "a\xa0b", "a\nb"])
def test_plink_takes_no_control_characters(release, tmp_path, name):
    with pytest.raises(InvalidDataError, match="control characters"):
        export(named(release, name, "b", "c", "d"), tmp_path / "a.plink")


def test_weights_that_no_number_can_hold(release, tmp_path):
    tiny = replace(release, arrays={**release.arrays, "scale": np.full(4, 1e-310)})
    with pytest.raises(InvalidDataError, match="export parquet instead"):
        export(tiny, tmp_path / "a", "plink")
    export(tiny, tmp_path / "a", "parquet")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_column_called_feature_stays_apart_from_the_names(suffix, tmp_path):
    frame = FRAME.set_axis(["feature", "feature_", "c", "d"], axis=1)
    release = PrivateCovariance(**BUDGET, row_norm=5.0).fit(frame).release_
    path = export(release, tmp_path / f"c.{suffix}")[-1]
    read = pd.read_csv(path) if suffix == "csv" else pd.read_parquet(path)
    assert list(read) == ["feature__", "feature", "feature_", "c", "d"]
    assert read["feature"].to_numpy() == pytest.approx(release.arrays["covariance"][0])


def test_exports_stay_out_of_releases(tmp_path):
    release = PrivatePCA(2, **BUDGET).fit(FRAME).release_
    folder = release.save(tmp_path / "r")
    for place in (folder / "x.csv", folder / "deep" / "x.csv"):
        with pytest.raises(InvalidParameterError, match="is a release folder"):
            export(release, place)
    type(release).verify(folder)
