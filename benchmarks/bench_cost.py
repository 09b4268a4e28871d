"""Seconds for a covariance release, a Bingham direction, and the exponential mechanism.

Wanted: `cleaned` and `wishart` at most 2.5 times a plain Gram matrix and one eigendecomposition
(d = 1000), a Bingham draw below 50 ms at d = 200, EMCov at d = 200 below 60 s.
"""

import statistics
import time

import numpy as np
from scipy.linalg import eigh
from threadpoolctl import threadpool_limits

from eigenveil.exact import Clip
from eigenveil.mechanisms import Cleaned, Gate, WishartCov
from eigenveil.numerics import SystemSource
from eigenveil.papers.covrev import Exponential, draw_bingham
from eigenveil.privacy import Adjacency, Gaussian, Pure
from eigenveil.rows import open_rows
from side_by_side import interleave, median_ratio, report
from tables import zipf

REPEATS, DRAWS = 7, 25


def run(procedure, rows):
    gate = Gate(
        procedure.cost(),
        label=procedure.name,
        adjacency=Adjacency.REPLACE_ONE,
        ledger=None,
        noise=SystemSource(),
    )
    return procedure.run(open_rows(rows), Clip(row_norm=1.0), gate)


def releases():
    rows = np.random.default_rng(0).standard_normal((20_000, 1000))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    sides = {
        "gram and eigh": lambda: eigh(rows.T @ rows),
        "cleaned": lambda: run(Cleaned(strength=Gaussian(1.0)), rows),
        "wishart": lambda: run(WishartCov(epsilon=1.0), rows),
    }
    for threads in (1, 2):
        with threadpool_limits(threads):
            times = interleave(sides, REPEATS)
        for name, seconds in times.items():
            yield {
                "side": name,
                "threads": threads,
                "median_s": statistics.median(seconds),
                "ratio": median_ratio(seconds, times["gram and eigh"]),
            }


def directions():
    """Spectra 1/j, and one dominant eigenvalue, which is the hardest to sample."""
    for d in (10, 50, 200):
        basis, _ = np.linalg.qr(np.random.default_rng(d).standard_normal((d, d)))
        spectra = {"1/j": 1 / np.arange(1.0, d + 1), "one dominant": np.eye(d)[0]}
        for shape, values in spectra.items():
            matrix = (basis * values) @ basis.T
            for strength, factor in (("weak", 0.1), ("moderate", d), ("strong", 1e4 * d)):
                times = []
                for _ in range(DRAWS):
                    start = time.perf_counter()
                    draw_bingham(matrix, factor, SystemSource())
                    times.append(time.perf_counter() - start)
                yield {
                    "d": d,
                    "spectrum": shape,
                    "strength": strength,
                    "median_ms": 1e3 * statistics.median(times),
                    "mean_ms": 1e3 * statistics.mean(times),
                    "slowest_ms": 1e3 * max(times),
                }


def exponential():
    rows = zipf(50_000, 200, 1).rows
    for budget, procedure in (
        ("epsilon 1", Exponential(strength=Pure(1.0), n_columns=200)),
        ("rho 0.5", Exponential(strength=Gaussian(1.0), n_columns=200)),
    ):
        start = time.perf_counter()
        run(procedure, rows)
        yield {"n": 50_000, "d": 200, "budget": budget, "seconds": time.perf_counter() - start}


def main():
    report("cost", list(releases()))
    with threadpool_limits(1):
        report("bingham", list(directions()))
        report("exponential", list(exponential()))


if __name__ == "__main__":
    main()
