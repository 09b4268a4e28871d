"""A fit of a parquet file by one process, and by one and two workers of a local Dask cluster.

2,000,000 x 100 of float32 in row groups of 50,000. Wanted: two workers at least 1.6 times as fast
as one, with the bits of one process (seeded noise). ``--rows`` makes it smaller; other programs on
the machine take cores away, so ratios mean something on an idle one only.
"""

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from distributed import Client, LocalCluster
from threadpoolctl import threadpool_limits

from eigenveil import PrivatePCA
from eigenveil.data import open_rows
from eigenveil.data.distributed.cluster import on_cluster
from side_by_side import report

COLUMNS, GROUP = 100, 50_000


def write(path, n):
    """Row groups of standard normal numbers with decaying variances."""
    rng = np.random.default_rng(0)
    spread = (1 / np.sqrt(np.arange(1, COLUMNS + 1))).astype(np.float32)
    names = [f"c{j}" for j in range(COLUMNS)]
    schema = pa.schema([(name, pa.float32()) for name in names])
    with pyarrow.parquet.ParquetWriter(path, schema) as file:
        for start in range(0, n, GROUP):
            rows = rng.standard_normal((min(GROUP, n - start), COLUMNS), dtype=np.float32) * spread
            file.write_table(pa.table(dict(zip(names, rows.T.copy(), strict=True)), schema=schema))


def fitted(source):
    """Seconds of a fit, and its components."""
    start = time.perf_counter()
    model = PrivatePCA(5, epsilon=1.0, delta=1e-6, random_state=0).fit(source)
    return time.perf_counter() - start, model.components_


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    n = parser.parse_args().rows
    warnings.simplefilter("ignore")
    table = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        write(path, n)
        with threadpool_limits(1):
            seconds, expected = fitted(open_rows(path))
        table.append({"engine": "one process", "workers": 0, "seconds": seconds, "same": True})
        for workers in (1, 2):
            cluster = LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
            )
            with cluster, Client(cluster):
                fitted(on_cluster(open_rows(path)))  # imports on workers
                seconds, found = fitted(on_cluster(open_rows(path)))
            same = bool(np.array_equal(found, expected))
            table.append({"engine": "Dask", "workers": workers, "seconds": seconds, "same": same})
    for row in table:
        row |= {"rows": n, "columns": COLUMNS, "times_one_worker": table[1]["seconds"]}
        row["times_one_worker"] /= row["seconds"]
    report("dask", table)


if __name__ == "__main__":
    main()
