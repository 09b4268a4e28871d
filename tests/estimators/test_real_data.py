"""Real files beside the checkout, where they are present."""

from pathlib import Path

import numpy as np
import pytest

from eigenveil import PrivateCovariance, PrivatePCA
from eigenveil.numerics import captured_variance
from eigenveil.rows import open_rows

DATA = Path(__file__).parents[3] / "shared" / "data"


def stored(name):
    if not (DATA / name).is_file():
        pytest.skip(f"{name} is not beside this checkout")
    return DATA / name


def test_census_columns_from_parquet():
    pytest.importorskip("pyarrow")
    path = stored("adult_train.parquet")
    chosen = ["age", "education_num", "hours_per_week"]
    source = open_rows(path, columns=chosen)
    bounds = ([0, 0, 0], [120, 20, 100])
    fitted = PrivateCovariance(
        epsilon=1.0, delta=1e-6, mechanism="cleaned", bounds=bounds, scale=1.0, random_state=0
    ).fit(source)
    rows = np.concatenate(list(open_rows(path, columns=chosen).chunks()))
    spread = np.sqrt(np.diag(np.cov(rows.T, bias=True)))
    # 32,561 rows: the noise on a variance is 1.2 within the ranges, less than half of that within
    # what rows reach; the variances are 6.6 to 186.
    assert fitted.noise_scale_ < 0.6
    # Clipping where noise and loss are least takes a few hundredths of the heaviest tail.
    assert np.diag(fitted.covariance_) == pytest.approx(spread**2, rel=0.05, abs=3)
    assert list(fitted.feature_names_in_) == chosen


def test_images_from_a_memory_map(tmp_path):
    with np.load(stored("mnist.npz")) as stack:
        images = stack["x_train"][:10_000].reshape(10_000, 784)
    np.save(tmp_path / "mnist.npy", images)  # 8-bit integers, read without conversion
    fitted = PrivatePCA(
        10, epsilon=2.0, delta=1e-6, bounds=(0, 255), row_norm=2300.0, random_state=0
    )
    fitted.fit(tmp_path / "mnist.npy")
    share = captured_variance(fitted.components_, np.cov(images.T, bias=True))
    assert share > 0.8
