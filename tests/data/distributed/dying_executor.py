"""``dying_executor.py MARKER``: a sum on a cluster of Spark, one of whose executors is killed.

`local-cluster` starts executors as processes of their own. Exits with 1 where the sum has other
bits than that of one machine; the marker is there if an executor was killed.
"""

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

from eigenveil.exact import Clip, second_moment
from eigenveil.privacy import Adjacency
from eigenveil.rows import open_rows

MARKER = Path(sys.argv[1])


def pass_on(batches):
    """Rows as they are; but the first time the executor of one partition is killed."""
    from pyspark import TaskContext

    if TaskContext.get().partitionId() == 1 and not MARKER.exists():
        MARKER.touch()
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text()  # of Python, a child of Java
        os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
    yield from batches


def summed(table):
    clip = Clip(row_norm=3.0)
    return second_moment(open_rows(table), clip, Adjacency.REPLACE_ONE).value.units


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(sys.path))
        .getOrCreate()
    )
    rows = np.random.default_rng(0).standard_normal((500, 4)) + 1
    frame = session.createDataFrame(pd.DataFrame(rows, columns=list("abcd"))).repartition(5)
    same = np.array_equal(summed(frame.mapInArrow(pass_on, frame.schema)), summed(rows))
    session.stop()
    sys.exit(not same)
