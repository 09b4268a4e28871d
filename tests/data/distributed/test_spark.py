"""Data frames of a real local Spark, where Java and pyspark are at hand."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from eigenveil import PrivatePCA
from eigenveil.exact import Clip, second_moment, total
from eigenveil.exceptions import InvalidDataError, UnsupportedNotionError
from eigenveil.privacy import Adjacency
from eigenveil.rows import open_rows

pytest.importorskip("pyspark", reason="needs the extra spark")
if shutil.which("java") is None:
    pytest.skip("needs Java", allow_module_level=True)

pytestmark = pytest.mark.audit  # a minute, most of it Java's
ROWS = np.random.default_rng(0).standard_normal((500, 4)) + 1
CLIP = Clip(row_norm=3.0)
REPLACE = Adjacency.REPLACE_ONE


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def frame(spark):
    return spark.createDataFrame(pd.DataFrame(ROWS, columns=list("abcd"))).repartition(5)


def test_sums_have_the_bits_of_one_machine(spark, frame):
    skewed = frame.where("a > 1").union(frame.where("a <= 1").coalesce(1))
    for some in (frame, frame.coalesce(1), skewed):
        source, expected = open_rows(some), open_rows(ROWS)
        for statistic in (second_moment, total):
            found = statistic(source, CLIP, REPLACE)
            assert np.array_equal(found.value.units, statistic(expected, CLIP, REPLACE).value.units)
        assert source.count_rows() == 500
    assert source.schema.feature_names == tuple("abcd")


def test_an_estimator_takes_a_frame(frame):
    model = PrivatePCA(2, epsilon=8.0, delta=1e-6, mechanism="spherical", random_state=1).fit(frame)
    other = PrivatePCA(2, epsilon=8.0, delta=1e-6, mechanism="spherical", random_state=1).fit(ROWS)
    assert np.array_equal(model.components_, other.components_)
    assert list(model.feature_names_in_) == list("abcd")


def test_what_cannot_be_is_refused(spark, frame):
    with pytest.raises(InvalidDataError, match="'name' does not hold numbers"):
        open_rows(spark.createDataFrame([("x", 1.0)], ["name", "a"]))
    with pytest.raises(UnsupportedNotionError, match="Spark"):
        PrivatePCA(2, epsilon=1.0, delta=1e-6).fit(frame, groups=np.arange(500))
    with pytest.raises(InvalidDataError, match="missing or infinite"):
        second_moment(open_rows(frame.selectExpr("a", "if(a > 1, null, b) as b")), CLIP, REPLACE)
    with pytest.raises(InvalidDataError, match="could not be computed"):
        open_rows(frame.selectExpr("raise_error(string(a))::double as a")).count_rows()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc")
def test_an_executor_that_dies_changes_nothing(tmp_path):
    """In a process of its own: there is one Spark in each, and `local` has no executors."""
    script = Path(__file__).with_name("dying_executor.py")
    done = subprocess.run(
        [sys.executable, script, tmp_path / "killed"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "killed").exists()
