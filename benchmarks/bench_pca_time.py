"""Seconds for private components against scikit-learn's PCA, and how wide a table may be.

Wanted: at most twice the time of scikit-learn at 50,000 x 200 and 10,000 x 784; less than its time
at 2,000 x 20,000; 200,000 columns below 120 s and 3 GB; seconds that grow with the columns
and no faster. k = 10 at epsilon = 1, delta = 1e-6; k = 5 on the widest. All with one thread: two
threads of a BLAS wait for each other many times in a thin product, and on a machine that is busy
with other work may take forty times as long as one.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time

import numpy as np
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

from eigenveil import PrivatePCA
from side_by_side import interleave, median_ratio, report
from tables import tick

# Rows, columns, signal, epsilon, repeats, largest ratio wanted.
CELLS = [
    (50_000, 200, 3.0, 1.0, 7, 2.0),
    (10_000, 784, 3.0, 1.0, 5, 2.0),
    (2000, 20_000, 3.0, 1.0, 5, 1.0),
    (2000, 20_000, 0.1, 1.0, 3, 1.0),
    (2000, 20_000, 3.0, 20.0, 1, ""),
]
WIDTHS = (10_000, 20_000, 50_000, 100_000, 200_000)


def table(n, d, signal, dtype=np.float64):
    """Noise of variance 1, and 20 directions with ``signal`` times its whole variance.

    Their shares fall as 1/j; the mean of every column is 1/2.
    """
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, 21)
    spread = np.sqrt(signal * d * shares / shares.sum())
    basis = (np.linalg.qr(rng.standard_normal((d, 20)))[0] * spread).T.astype(dtype)
    rows = np.empty((n, d), dtype)
    for chunk in np.array_split(rows, 40):
        rng.standard_normal(out=chunk, dtype=dtype)
        chunk += rng.standard_normal((len(chunk), 20), dtype=dtype) @ basis
        chunk += dtype(0.5)
    return rows


def private(rows, k=10, epsilon=1.0, **options):
    return PrivatePCA(k, epsilon=epsilon, delta=1e-6, **options).fit(rows)


def against_sklearn():
    for n, d, signal, epsilon, repeats, most in CELLS:
        rows = table(n, d, signal)
        widest = float(np.abs(rows).max())
        bounds = {"bounds": (-widest, widest)}  # not private, and neither is the benchmark
        sides = {
            "scikit-learn": lambda rows=rows: PCA(10).fit(rows),
            "default": lambda rows=rows, e=epsilon: private(rows, epsilon=e),
            "bounds": lambda rows=rows, e=epsilon, b=bounds: private(rows, epsilon=e, **b),
            "spherical, bounds": lambda rows=rows, e=epsilon, b=bounds: private(
                rows, epsilon=e, mechanism="spherical", **b
            ),
        }
        times = interleave(sides, repeats)
        for name, seconds in times.items():
            ratio = median_ratio(seconds, times["scikit-learn"])
            judged = most != "" and name in ("default", "bounds")
            yield {
                "rows": n,
                "columns": d,
                "signal": signal,
                "epsilon": epsilon,
                "side": name,
                "median_s": statistics.median(seconds),
                "ratio": ratio,
                "wanted": most if judged else "",
                "met": ratio <= most if judged else "",
                "load": round(os.getloadavg()[0], 1),
            }
        tick()


def fit_once(d):
    """In a process of its own: the peak of memory is that of this fit and its table."""
    rows = table(2000, d, 3.0, np.float32)
    start = time.perf_counter()
    private(rows, k=5)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"seconds": seconds, "peak_gib": peak}))


def wide():
    for d in WIDTHS:
        command = [sys.executable, __file__, str(d)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, check=True, text=True
        )
        found = json.loads(done.stdout)
        last = d == WIDTHS[-1]
        yield {
            "rows": 2000,
            "columns": d,
            "seconds": found["seconds"],
            "microseconds per column": 1e6 * found["seconds"] / d,
            "peak GiB": found["peak_gib"],
            "table GiB": 2000 * d * 4 / 2**30,
            "wanted": "120 s, 3 GB" if last else "",
            "met": found["seconds"] < 120 and found["peak_gib"] * 2**30 < 3e9 if last else "",
            "load": round(os.getloadavg()[0], 1),
        }
        tick()


def main():
    report("pca_wide", list(wide()))  # first: a process starts with the peak of its parent
    report("pca_time", list(against_sklearn()))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        fit_once(int(sys.argv[1]))
    else:
        with threadpool_limits(1):
            main()
