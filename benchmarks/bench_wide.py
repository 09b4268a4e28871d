"""Leading components of a table with very many columns, from a float32 file that is mapped.

Wanted: 1,000 rows of 1,000,000 columns and k = 5 in less than 60 s and 8 GB. Each size is fitted by
a process of its own, whose largest memory is that of its pages, those of the mapped file included.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from side_by_side import report

SIZES = ((1_000, 10_000), (1_000, 100_000), (1_000, 1_000_000))
K = 5
WORKER = """
import json, resource, sys, time, warnings
warnings.simplefilter("ignore")
from eigenveil import PrivatePCA
from eigenveil.exact import open_rows
start, cpu = time.perf_counter(), time.process_time()
model = PrivatePCA(int(sys.argv[2]), epsilon=1.0, delta=1e-6).fit(open_rows(sys.argv[1]))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu,
                  "peak_gb": peak / 2**20}))
"""


def write(path, n, d):
    """Rows with K strong directions, a block at a time."""
    rng = np.random.default_rng(0)
    strong = rng.standard_normal((K, d), dtype=np.float32)
    file = np.lib.format.open_memmap(path, "w+", np.float32, (n, d))
    for start in range(0, n, 100):
        scores = rng.standard_normal((len(file[start : start + 100]), K), dtype=np.float32)
        noise = rng.standard_normal((len(scores), d), dtype=np.float32)
        file[start : start + 100] = scores @ strong + noise
    file.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=SIZES[-1][1], help="columns")
    largest = parser.parse_args().largest
    table = []
    for n, d in SIZES:
        if d > largest:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.npy"
            write(path, n, d)
            done = subprocess.run(
                [sys.executable, "-c", WORKER, str(path), str(K)],
                capture_output=True,
                text=True,
                check=True,
            )
        table.append({"rows": n, "columns": d, "k": K, **json.loads(done.stdout)})
    report("wide", table)


if __name__ == "__main__":
    main()
