"""Seconds and memory of ``eigenveil fit`` on a parquet file of 2,000,000 x 100, start to end.

Beside it a bare pass: pyarrow's batches, one BLAS product each, an eigendecomposition; no privacy.
Both run as processes of their own, in turns, on files as different writers lay them out. Wanted: at
most 1.5 times the seconds of the bare pass, and below 500 MB. ``--rows`` makes it smaller.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from side_by_side import median_ratio, report

COLUMNS = 100
GROUP = 1 << 16
LAYOUTS = {
    "plain pages": {"row_group_size": GROUP, "use_dictionary": False},
    "dictionary pages": {"row_group_size": GROUP},
    "one million rows a group": {},  # pyarrow's own choice
}
FIT = [sys.executable, "-m", "eigenveil", "fit"]
SIDES = {
    "fit": ["--k", "5"],
    "fit, row norm": ["--k", "5", "--row-norm", "40"],
    "fit, centred, one pass": ["--k", "5", "--mechanism", "spherical", "--centring", "none"],
}


def bare(path):
    """What anybody would write who need not protect anything."""
    second, total, rows = 0.0, 0.0, 0
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(GROUP):
            table = np.column_stack([column.to_numpy() for column in batch.columns])
            second = second + table.T @ table
            total = total + table.sum(axis=0)
            rows += len(table)
    mean = total / rows
    np.linalg.eigh(second / rows - np.outer(mean, mean))


def write(path, rows, **layout):
    """Rows of variances that fall as 1/j, about a mean of 3."""
    rng = np.random.default_rng(0)
    mix = np.linalg.qr(rng.standard_normal((COLUMNS, COLUMNS)))[0]
    mix *= np.sqrt(COLUMNS / np.arange(1, COLUMNS + 1))[:, None]
    size = min(rows, 1 << 20)
    writer, done = None, 0
    while done < rows:
        part = rng.standard_normal((min(size, rows - done), COLUMNS)) @ mix + 3.0
        table = pa.table({f"x{j}": part[:, j] for j in range(COLUMNS)})
        if writer is None:
            dictionary = layout.get("use_dictionary", True)
            writer = pq.ParquetWriter(path, table.schema, use_dictionary=dictionary)
        writer.write_table(table, row_group_size=layout.get("row_group_size"))
        done += len(part)
    writer.close()


def run(command):
    """Seconds and peak megabytes of a process."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(process.stderr.read().decode())
    return time.perf_counter() - start, usage.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def measure(rows, repeats):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.parquet")
        for layout in LAYOUTS:
            # By another process: the peak of a child begins at what its parent holds.
            subprocess.run(
                [sys.executable, __file__, "--write", layout, path, str(rows)], check=True
            )
            seconds = {"bare pass": [], **{side: [] for side in SIDES}}
            memory = dict.fromkeys(seconds, 0.0)
            for repeat in range(repeats):
                for side in seconds:
                    command = [sys.executable, __file__, "--bare", str(path)]
                    if side in SIDES:
                        out = ["--epsilon", "1", "--delta", "1e-6", "-o"]
                        name = f"{layout}-{side}-{repeat}".replace(" ", "-")
                        command = [*FIT, str(path), *SIDES[side], *out, str(Path(folder, name))]
                    spent, peak = run(command)
                    seconds[side].append(spent)
                    memory[side] = max(memory[side], peak)
            for side, spent in seconds.items():
                yield {
                    "layout": layout,
                    "rows": rows,
                    "side": side,
                    "seconds": round(float(np.median(spent)), 2),
                    "ratio": round(median_ratio(spent, seconds["bare pass"]), 2),
                    "peak MB": round(memory[side]),
                }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--bare", help=argparse.SUPPRESS)
    parser.add_argument("--write", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.bare:
        bare(asked.bare)
    elif asked.write:
        layout, path, rows = asked.write
        write(path, int(rows), **LAYOUTS[layout])
    else:
        report("fit", list(measure(asked.rows, asked.repeats)))


if __name__ == "__main__":
    main()
