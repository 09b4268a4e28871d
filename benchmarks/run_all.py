"""Benchmarks in turn, each with a time limit: what ``make bench`` and ``make bench-all`` run.

``make bench`` runs those whose tables README and docs/scaling.md show, in sizes that take about
twenty minutes on two idle cores; ``--all`` every script as it is. A script that takes longer than
its limit is ended, and what it measured the last time stays in ``results``. What became of each,
and how long it took, is kept as ``results/bench.csv``. Names of scripts choose some of them:
``python benchmarks/run_all.py one_core peers``.
"""

import argparse
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from side_by_side import report

FOLDER = Path(__file__).parent
# Arguments of every run; the picture of `scaling` has a curve of what `dask` measures.
SHOWN = {
    "one_core": [[]],
    "csv": [[]],
    "cost": [[]],
    "wide": [[]],
    "dask": [[], ["--generated", "100000000"]],
    "scaling": [[]],
    "device": [[]],
    "peers": [["--limit", "60"]],
}
# On one core ratios of the processor's time mean something; these are about using all.
ALL_CORES = ("wide", "dask", "device")


def run(name, arguments, limit):
    """What became of one script."""
    row = {"benchmark": " ".join([name, *arguments])}
    print(f"\n{row['benchmark']}", flush=True)
    if name == "device" and not has_gpu():
        return row | {"became": "left out: no GPU here", "seconds": 0.0, "cpu_seconds": 0.0}
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    script = subprocess.Popen(
        [sys.executable, str(FOLDER / f"bench_{name}.py"), *arguments],
        env=os.environ | ({} if name in ALL_CORES else one),
        start_new_session=True,  # a group of its own, to be ended with its processes
    )
    try:
        became = "failed" if script.wait(limit) else "finished"
    except subprocess.TimeoutExpired:
        became = f"did not finish in {limit:g} s"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(script.pid, signal.SIGKILL)
        script.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return row | {
        "became": became,
        "seconds": time.perf_counter() - start,
        "cpu_seconds": busy,
    }


def has_gpu():
    """Whether PyTorch is installed and finds a GPU."""
    if find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--all", action="store_true", help="every script")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for a script")
    chosen = parser.parse_args()
    scripts = {path.stem.removeprefix("bench_"): [[]] for path in sorted(FOLDER.glob("bench_*.py"))}
    if chosen.names:
        runs = {name: (scripts | SHOWN)[name] for name in chosen.names}
    else:
        runs = scripts if chosen.all else SHOWN
    table = [
        run(name, arguments, chosen.limit) for name, each in runs.items() for arguments in each
    ]
    report("bench", table)
    sys.exit(any(row["became"] == "failed" for row in table))


if __name__ == "__main__":
    main()
