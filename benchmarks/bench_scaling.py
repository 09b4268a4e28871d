"""What a default fit costs as rows, columns and components grow: curves, and a table of prices.

Seconds of the processor on one core, least of three. The slope in rows is the price of a row;
beside it stands that of scikit-learn's PCA on the same rows. A fourth curve, of workers, is drawn
from what `bench_dask.py` kept. `docs/scaling.md` reads the table.
"""

import argparse
import csv
import time
import warnings
from functools import partial

import matplotlib
import numpy as np
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

from eigenveil import PrivatePCA
from side_by_side import RESULTS, report

matplotlib.use("Agg")
from matplotlib import pyplot as plt

CURVES = {
    "rows": [(n, 50, 5) for n in (5_000, 20_000, 80_000, 320_000)],
    "columns": [(20_000, d, 5) for d in (25, 50, 100, 200, 400, 800)],
    "components": [(20_000, 100, k) for k in (1, 2, 4, 8, 16, 32)],
}


def seconds(job):
    """The least of three."""
    found = []
    for _ in range(3):
        start = time.process_time()
        job()
        found.append(time.process_time() - start)
    return min(found)


def draw(table):
    """Three curves, ours and theirs, and one of workers."""
    figure, places = plt.subplots(1, 4, figsize=(13, 3), layout="constrained")
    for place, curve in zip(places[:3], CURVES, strict=True):
        some = [row for row in table if row["curve"] == curve]
        for side, label in (("seconds", "eigenveil"), ("sklearn_seconds", "scikit-learn")):
            place.loglog(
                [row[curve] for row in some], [row[side] for row in some], "o-", label=label
            )
        place.set(xlabel=curve, ylabel="seconds of one core")
    places[0].legend(frameon=False)
    with (RESULTS / "dask.csv").open(newline="") as file:
        kept = [row for row in csv.DictReader(file) if row["engine"] == "Dask"]
    counts = [int(row["workers"]) for row in kept]
    places[3].plot(counts, [float(row["busy"]) for row in kept], "o-")
    places[3].set(xlabel="workers", ylabel="seconds, caller and busiest", xticks=counts)
    places[3].set_ylim(bottom=0)
    figure.savefig(RESULTS / "scaling.png", dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=320_000, help="rows")
    most = parser.parse_args().most
    warnings.simplefilter("ignore")
    table = []
    for curve, points in CURVES.items():
        for n, d, k in points:
            if n > most:
                continue
            spread = 1 / np.sqrt(np.arange(1, d + 1))
            rows = np.random.default_rng(0).standard_normal((n, d)) * spread + 1
            ours = seconds(partial(PrivatePCA(k, epsilon=1.0, delta=1e-6).fit, rows))
            theirs = seconds(partial(PCA(k).fit, rows))
            row = {"curve": curve, "rows": n, "columns": d, "components": k, "seconds": ours}
            row |= {"sklearn_seconds": theirs, "ratio": ours / theirs}
            table.append({**row, "microseconds_per_row": 1e6 * ours / n})
    draw(table)
    report("scaling", table)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
