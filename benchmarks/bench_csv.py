"""Cells of a CSV file that are parsed in a second, with pyarrow and without, beside others.

Wanted: eight million with pyarrow. Of the processor's seconds, on one core; a file of numbers with
six digits, and one with a column of text beside them that is not asked for.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.csv
from threadpoolctl import threadpool_limits

from eigenveil.rows import csv as csv_module
from eigenveil.rows import open_rows
from side_by_side import report


def write(path, n, d, *, text):
    """Numbers, and a column of text in front."""
    rows = np.random.default_rng(0).standard_normal((n, d))
    frame = pd.DataFrame(rows, columns=[f"c{i}" for i in range(d)])
    if text:
        frame.insert(0, "name", [f"row {i}" for i in range(n)])
    frame.to_csv(path, index=False, float_format="%.6g")


def ours(path, d, *, arrow=True):
    """Rows through the source, as a fit reads them."""
    reader = csv_module.plain_reader
    csv_module.plain_reader = reader if arrow else lambda *_: None
    try:
        return sum(map(len, open_rows(path, [f"c{i}" for i in range(d)]).chunks()))
    finally:
        csv_module.plain_reader = reader


def rate(job, cells, repeats):
    """Million cells in a second of the processor, at best."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        job()
        best = min(best, time.process_time() - start)
    return cells / best / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    d, table = 50, []
    alone = pyarrow.csv.ReadOptions(use_threads=False)
    for text in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "t.csv"
            write(path, chosen.rows, d, text=text)
            cells = chosen.rows * d
            jobs = {
                "ours, with pyarrow": lambda path=path: ours(path, d),
                "ours, without": lambda path=path: ours(path, d, arrow=False),
                "pandas": lambda path=path: pd.read_csv(path),
                "pyarrow alone": lambda path=path: pyarrow.csv.read_csv(path, alone),
            }
            for name, job in jobs.items():
                table.append(
                    {
                        "reader": name,
                        "file": "numbers and text" if text else "numbers",
                        "rows": chosen.rows,
                        "columns": d,
                        "million_cells_per_second": rate(job, cells, chosen.repeats),
                    }
                )
    report("csv", table)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
