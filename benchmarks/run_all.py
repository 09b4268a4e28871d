"""Every benchmark in turn, each with a time limit: what ``make bench`` runs.

A script that takes longer is ended, and what it measured the last time stays in ``results``. What
became of each, and how long it took, is kept as ``results/bench.csv``. Names of scripts choose
some of them: ``python benchmarks/run_all.py one_core peers``.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from side_by_side import report

FOLDER = Path(__file__).parent
# On one core ratios of the processor's time mean something; these are about using all.
ALL_CORES = ("wide", "dask", "device")


def run(script, limit):
    """What became of one script."""
    name = script.stem.removeprefix("bench_")
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, str(script)],
            env=os.environ | ({} if name in ALL_CORES else one),
            timeout=limit,
            check=False,
        )
        became = "failed" if done.returncode else "finished"
    except subprocess.TimeoutExpired:
        became = f"did not finish in {limit:g} s"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    seconds = time.perf_counter() - start
    return {"benchmark": name, "became": became, "seconds": seconds, "cpu_seconds": busy}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for a script")
    chosen = parser.parse_args()
    scripts = sorted(FOLDER.glob("bench_*.py"))
    if chosen.names:
        scripts = [script for script in scripts if script.stem[len("bench_") :] in chosen.names]
    table = []
    for script in scripts:
        print(f"\n{script.name}", flush=True)
        table.append(run(script, chosen.limit))
    report("bench", table)
    sys.exit(any(row["became"] == "failed" for row in table))


if __name__ == "__main__":
    main()
