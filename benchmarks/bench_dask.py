"""A fit of a parquet file by one process, and by one and two workers of a local Dask cluster.

2,000,000 x 100 of float32 in row groups of 50,000. Wanted: two workers at least 1.6 times as fast
as one, with the bits of one process (seeded noise). ``--rows`` makes it smaller. Other programs on
the machine take cores away, so wall times mean something on an idle one only; ``busy`` is what the
caller and its busiest worker need of the processor, one after the other.

``--generated 100000000`` instead fits so many rows of 20 columns that two workers generate, a
hundred thousand at a time, and tells the largest memory of a worker.
"""

import argparse
import resource
import tempfile
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from distributed import Client, LocalCluster
from threadpoolctl import threadpool_limits

from eigenveil import PrivatePCA
from eigenveil.data import open_rows
from eigenveil.data.distributed.cluster import on_cluster
from side_by_side import report

COLUMNS, GROUP, FEW = 100, 50_000, 20


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
    """Seconds of a fit, of the processor too, and its components."""
    start, busy = time.perf_counter(), time.process_time()
    model = PrivatePCA(5, epsilon=1.0, delta=1e-6, random_state=0).fit(source)
    return time.perf_counter() - start, time.process_time() - busy, model.components_


@contextmanager
def workers(count):
    """Processes with one thread each."""
    cluster = LocalCluster(
        n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, Client(cluster) as client:
        yield client


def on_workers(client, source):
    """As `fitted`, with the seconds of the busiest worker on top."""
    before = client.run(time.process_time)
    seconds, busy, components = fitted(source)
    after = client.run(time.process_time)
    return seconds, busy + max(after[name] - before[name] for name in after), components


def from_parquet(n):
    table = []
    with tempfile.TemporaryDirectory() as folder:
        path, small = Path(folder) / "t.parquet", Path(folder) / "small.parquet"
        write(path, n)
        write(small, GROUP)
        with threadpool_limits(1):
            seconds, busy, expected = fitted(open_rows(path))
        row = {"engine": "one process", "workers": 0, "seconds": seconds, "busy": busy}
        table.append({**row, "same": True})
        for count in (1, 2):
            with workers(count) as client:
                fitted(on_cluster(open_rows(small)))  # imports on workers
                seconds, busy, found = on_workers(client, on_cluster(open_rows(path)))
            row = {"engine": "Dask", "workers": count, "seconds": seconds, "busy": busy}
            table.append({**row, "same": bool(np.array_equal(found, expected))})
    for row in table:
        row |= {"rows": n, "columns": COLUMNS}
        row["times_one_worker"] = table[1]["seconds"] / row["seconds"]
        row["busy_ratio"] = table[1]["busy"] / row["busy"]
    report("dask", table)


def generated(n):
    """Rows that no machine holds, in partitions that are made anew in every pass."""
    with workers(2) as client:
        size = min(100_000, n)
        rows = da.random.default_rng(0).standard_normal((n, FEW), chunks=(size, FEW))
        rows = rows * (1 / np.sqrt(np.arange(1, FEW + 1)))
        seconds, busy, found = on_workers(client, rows)
        memory = client.run(lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    captured = float((found**2 @ (1 / np.arange(1.0, FEW + 1))).sum())
    best = float((1 / np.arange(1.0, len(found) + 1)).sum())
    row = {"rows": n, "columns": FEW, "workers": 2, "seconds": seconds, "busy": busy}
    peak = max(memory.values()) / 2**20
    report("dask_generated", [{**row, "peak_gb_of_a_worker": peak, "captured": captured / best}])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--generated", type=int, help="rows of 20 columns, instead of a file")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    if chosen.generated:
        generated(chosen.generated)
    else:
        from_parquet(chosen.rows)


if __name__ == "__main__":
    main()
