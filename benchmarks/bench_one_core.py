"""Default fits beside scikit-learn's PCA, and a covariance beside numpy's, on one core.

Both sides run in one process, in turns, with one thread. Wanted: ratios of at most 1.5 at
50,000 x 200 and 100,000 x 100, 1.2 at 10,000 x 784, and 1.5 for the covariance. ``--repeats`` says
how often a side runs; compared are seconds of the processor, which other programs hardly stretch.
"""

import argparse
import statistics
import time
import warnings

import numpy as np
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

from eigenveil import PrivateCovariance, PrivatePCA
from side_by_side import median_ratio, report

SIZES = ((10_000, 50), (50_000, 200), (100_000, 100), (10_000, 784))
K = 5


def sides(rows):
    """What is compared, by the job: ours and theirs."""
    length = float(np.sqrt(rows.shape[1]))
    return {
        "components": (
            lambda: PrivatePCA(K, epsilon=1.0, delta=1e-6).fit(rows),
            lambda: PCA(K).fit(rows),
        ),
        "covariance, bound stated": (
            lambda: PrivateCovariance(
                epsilon=1.0, delta=1e-6, row_norm=length, mechanism="gauss"
            ).fit(rows),
            lambda: np.cov(rows.T),
        ),
        "covariance": (
            lambda: PrivateCovariance(epsilon=1.0, delta=1e-6).fit(rows),
            lambda: np.cov(rows.T),
        ),
    }


def seconds(job):
    """Seconds of the processor."""
    start = time.process_time()
    job()
    return time.process_time() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=11)
    repeats = parser.parse_args().repeats
    warnings.simplefilter("ignore")
    table = []
    for n, d in SIZES:
        spread = 1 / np.sqrt(np.arange(1, d + 1))
        rows = np.random.default_rng(0).standard_normal((n, d)) * spread + 1
        for job, (ours, theirs) in sides(rows).items():
            ours(), theirs()
            pairs = [(seconds(ours), seconds(theirs)) for _ in range(repeats)]
            own, other = zip(*pairs, strict=True)
            table.append(
                {
                    "job": job,
                    "rows": n,
                    "columns": d,
                    "ours_ms": 1000 * statistics.median(own),
                    "theirs_ms": 1000 * statistics.median(other),
                    "ratio": median_ratio(own, other),
                    "ratio_of_least": min(own) / min(other),
                    "repeats": repeats,
                }
            )
    report("one_core", table)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
