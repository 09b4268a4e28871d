"""A fit of a parquet file by one process, and by one and two workers of a local Dask cluster.

2,000,000 x 100 of float32 in row groups of 50,000. Wanted: two workers at least 1.6 times as fast
as one, with the bits of one process (seeded noise). ``--rows`` makes it smaller. Other programs on
the machine take cores away, so wall times mean something on an idle one only. ``busy`` is what the
caller and its busiest worker need of the processor, one after the other. ``waited`` is how long the
busiest thread of a worker was ready to run while others had the cores: zero on an idle machine.

``--generated 100000000`` instead fits so many rows of 20 columns that two workers generate, a
quarter of a million at a time, and tells the largest memory of a worker.
"""

import argparse
import math
import os
import resource
import tempfile
import threading
import time
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from distributed import Client, LocalCluster
from threadpoolctl import threadpool_limits

from eigenveil import PrivatePCA
from eigenveil.engines import on_cluster
from eigenveil.rows import open_rows
from side_by_side import report

COLUMNS, GROUP, FEW, PARTITION = 100, 50_000, 20, 250_000
MEMORY = "2GiB"  # of a worker


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
    before, start, busy = waited(), time.perf_counter(), time.process_time()
    model = PrivatePCA(5, epsilon=1.0, delta=1e-6, random_state=0).fit(source)
    spent = {"seconds": time.perf_counter() - start, "busy": time.process_time() - busy}
    return {**spent, "waited": ready(before, waited())}, model.components_


def waited():
    """Seconds on the processor, and ready for it, of every thread of this process."""
    found = {}
    for thread in Path("/proc/self/task").glob("*"):  # none where there is no /proc
        with suppress(OSError):
            busy, waiting, _ = (thread / "schedstat").read_text().split()
            found[thread.name] = (int(busy) / 1e9, int(waiting) / 1e9)
    return found


def ready(before, after):
    """How long the thread that was busiest meanwhile was ready and had no core."""
    none = (0.0, 0.0)
    spent = (np.subtract(after[name], before.get(name, none)) for name in after)
    return float(max(spent, key=lambda pair: pair[0], default=(0.0, math.nan))[1])


@contextmanager
def workers(count):
    """Processes with one thread each; every half minute a line says how far they are."""
    cluster = LocalCluster(
        n_workers=count,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        memory_limit=MEMORY,
    )
    over, start = threading.Event(), time.perf_counter()

    def tell():
        while not over.wait(30):
            sums = cluster.scheduler.task_prefixes.get("of_part")
            done = 0 if sums is None else sums.state_counts["memory"]
            say(f"{time.perf_counter() - start:.0f} s, {done:,} partitions summed")

    with cluster, Client(cluster) as client:
        threading.Thread(target=tell, daemon=True).start()
        yield client
        over.set()


def say(line):
    print(line, flush=True)


def on_workers(client, source):
    """As `fitted`, with the seconds of the busiest worker on top, and how long it waited."""
    before, states = client.run(time.process_time), client.run(waited)
    spent, components = fitted(source)
    after, states_after = client.run(time.process_time), client.run(waited)
    busiest = max(after, key=lambda name: after[name] - before[name])
    spent["busy"] += after[busiest] - before[busiest]
    spent["waited"] = ready(states[busiest], states_after[busiest])
    return spent, components


def from_parquet(n, counts):
    table = []
    with tempfile.TemporaryDirectory() as folder:
        path, small = Path(folder) / "t.parquet", Path(folder) / "small.parquet"
        say(f"writing {n:,} x {COLUMNS}")
        write(path, n)
        write(small, GROUP)
        say("one process")
        with threadpool_limits(1):
            spent, expected = fitted(open_rows(path))
        table.append({"engine": "one process", "workers": 0, **spent, "same": True})
        for count in counts:
            say(f"{count} of Dask's workers")
            with workers(count) as client:
                fitted(on_cluster(open_rows(small)))  # imports on workers
                spent, found = on_workers(client, on_cluster(open_rows(path)))
            same = bool(np.array_equal(found, expected))
            table.append({"engine": "Dask", "workers": count, **spent, "same": same})
    for row in table:
        row |= {"rows": n, "columns": COLUMNS}
        row["times_one_worker"] = table[1]["seconds"] / row["seconds"]
        row["busy_ratio"] = table[1]["busy"] / row["busy"]
    report("dask", table)


def generated(n):
    """Rows that no machine holds, in partitions that are made anew in every pass."""
    with workers(2) as client:
        size = min(PARTITION, n)
        rows = da.random.default_rng(0).standard_normal((n, FEW), chunks=(size, FEW))
        rows = rows * (1 / np.sqrt(np.arange(1, FEW + 1)))
        spent, found = on_workers(client, rows)
        memory = client.run(lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    captured = float((found**2 @ (1 / np.arange(1.0, FEW + 1))).sum())
    best = float((1 / np.arange(1.0, len(found) + 1)).sum())
    row = {"rows": n, "columns": FEW, "workers": 2, **spent}
    peak = max(memory.values()) / 2**20
    report("dask_generated", [{**row, "peak_gb_of_a_worker": peak, "captured": captured / best}])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--generated", type=int, help="rows of 20 columns, instead of a file")
    doublings = [2**i for i in range(max(2, os.cpu_count() or 1).bit_length())]
    parser.add_argument("--workers", type=int, nargs="+", default=doublings)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    if chosen.generated:
        generated(chosen.generated)
    else:
        from_parquet(chosen.rows, chosen.workers)


if __name__ == "__main__":
    main()
