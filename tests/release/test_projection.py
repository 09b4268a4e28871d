"""A loaded release gives the scores that the estimator gives."""

import numpy as np
import pandas as pd
import pytest

from eigenveil import PrivateCovariance, PrivatePCA, Release
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.release import Projection

ROWS = np.random.default_rng(5).standard_normal((300, 4)) * [4, 1, 1, 1] + [9, 0, 0, 0]
FRAME = pd.DataFrame(ROWS, columns=list("abcd"))
BUDGET = {"epsilon": 4.0, "delta": 1e-6}


@pytest.fixture(scope="module")
def fitted():
    return PrivatePCA(2, **BUDGET, bounds=(-30, 30), mechanism="analyze-gauss").fit(FRAME)


@pytest.fixture(scope="module")
def release(fitted, tmp_path_factory):
    return Release.load(fitted.release_.save(tmp_path_factory.mktemp("r") / "release"))


def test_the_numbers_of_the_estimator(fitted, release, tmp_path):
    assert fitted.mean_.any()
    expected = fitted.transform(FRAME)
    FRAME.to_csv(tmp_path / "rows.csv", index=False)
    FRAME.to_parquet(tmp_path / "rows.parquet")
    np.save(tmp_path / "rows.npy", ROWS)
    assert np.array_equal(release.transform(FRAME), expected)
    chunks = (ROWS[i : i + 70] for i in range(0, 300, 70))
    files = [tmp_path / "rows.npy", tmp_path / "rows.csv", str(tmp_path / "rows.parquet")]
    for rows in (ROWS, chunks, *files):
        assert release.transform(rows) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    back = release.inverse_transform(expected)
    assert np.array_equal(back, fitted.inverse_transform(expected))
    assert release.transform(back) == pytest.approx(expected)
    assert release.transform(ROWS[:0]).shape == (0, 2)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_of_a_file_are_found_by_name(release, fitted, tmp_path, suffix):
    other = FRAME[["c", "a", "d", "b"]].assign(id="text")
    path = tmp_path / f"rows.{suffix}"
    other.to_csv(path, index=False) if suffix == "csv" else other.to_parquet(path)
    assert release.transform(path) == pytest.approx(fitted.transform(FRAME))


@pytest.mark.parametrize("rows", [FRAME[["b", "a", "c", "d"]], ROWS[:, :3], FRAME.assign(e=1.0)])
def test_other_columns_are_refused(release, rows):
    with pytest.raises(InvalidDataError):
        release.transform(rows)


def test_scores_of_another_number_are_refused(release):
    with pytest.raises(InvalidDataError, match="scores must have 2 columns"):
        release.inverse_transform(np.ones((3, 4)))


def test_a_covariance_transforms_nothing():
    release = PrivateCovariance(**BUDGET, row_norm=5.0).fit(ROWS).release_
    with pytest.raises(InvalidParameterError, match="PrivatePCA"):
        release.transform(ROWS)


def project(**options):
    return Projection(
        components=np.array([[0.6, 0.8, 0.0]]),
        mean=np.array([1.0, 2.0, 0.0]),
        scale=np.array([2.0, 1.0, np.inf]),
        **options,
    )


def test_invalid_rows_are_refused_or_have_no_score():
    rows = np.array([[1.0, 2.0, 3.0], [np.nan, 2.0, 3.0], [1.0, np.inf, 3.0], [3.0, 3.0, 1e300]])
    with pytest.raises(InvalidDataError, match="NaN or inf"):
        project().scores(rows)
    scores = project(on_invalid="zero").scores(rows)
    assert scores[[0, 3]] == pytest.approx(np.array([[0.0], [1.4]]))
    assert np.isnan(scores[1:3]).all()


def test_an_empty_cell_is_filled_by_the_mean():
    rows = np.array([[np.nan, 3.0, np.nan], [5.0, np.nan, 1.0]])
    scores = project(on_missing="centre").scores(rows)
    assert scores == pytest.approx(np.array([[0.8], [1.2]]))
    assert np.isnan(rows[0, 0])  # the caller's table is left alone
    with pytest.raises(InvalidDataError, match="NaN or inf"):
        project(on_missing="centre").scores(np.array([[np.inf, 3.0, 1.0]]))
