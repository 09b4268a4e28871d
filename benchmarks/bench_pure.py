"""Frobenius error at pure epsilon on the grid of Dong, Liang, Yi 2022, Appendix J.

As published: see `eigenveil.reproduce.printed`. `raw` is two-sided Wishart noise without cleaning;
the oracle knows the best eigenvalues for its basis. Mean of 10; the exponential mechanism, which is
slow, of 2 and for d <= 100 only.
"""

import numpy as np
from threadpoolctl import threadpool_limits

from eigenveil.mechanisms import WishartCov
from eigenveil.papers.covrev import (
    Adaptive,
    Exponential,
    LapCov,
    Separate,
    lap_cov,
    separate_cov_pure,
)
from eigenveil.privacy import Pure
from side_by_side import report
from tables import means, summarise, tick, zipf

REPEATS, SLOW_REPEATS, SLOW_COLUMNS = 10, 2, 100
EPSILONS = (0.3, 1.0, 3.0)
GRID = [
    *((n, d, 1) for n in (1000, 4000, 16000, 64000) for d in (20, 50, 100, 200)),
    *((50000, 200, bins) for bins in (1, 2, 4, 8)),
    *((50000, d, 4) for d in (50, 100, 400)),
]
WANTED = {
    "wishart / published": "wanted: mean <= 0.35",
    "wishart / zero": "wanted: worst <= 1.05",
    "wishart / oracle": "for orientation",
    "raw / published": "for orientation",
    "laplace / published": "for orientation",
}


def errors(table, epsilon, seed):
    """One repetition; raw, cleaned and the oracle share one draw of noise."""
    rng = np.random.default_rng(seed)
    n, d, truth = table.n, table.d, table.truth
    raw = table.release(WishartCov(epsilon=epsilon, clean=False), seed)
    estimates = {
        "published laplace": lap_cov(truth, n, epsilon, rng),
        "published separate": separate_cov_pure(truth, n, epsilon, rng),
        "laplace": table.release(LapCov(epsilon=epsilon), seed),
        "separate": table.run(Separate(strength=Pure(epsilon)), seed)[0].matrix,
        "adaptive": table.run(Adaptive(strength=Pure(epsilon), n_columns=d), seed)[0].matrix,
        "raw": raw,
        "wishart": table.release(WishartCov(epsilon=epsilon), seed),
        "oracle": table.oracle(raw),
        "zero": np.zeros_like(truth),
    }
    if seed < SLOW_REPEATS and d <= SLOW_COLUMNS:
        estimates["exponential"] = table.run(
            Exponential(strength=Pure(epsilon), n_columns=d), seed
        )[0].matrix
    return {name: table.error(matrix) for name, matrix in estimates.items()}


def main():
    results = []
    for n, d, bins in GRID:
        table = zipf(n, d, bins)
        for epsilon in EPSILONS:
            mean = means([errors(table, epsilon, seed) for seed in range(REPEATS)])
            mean.setdefault("exponential", "")
            better = min(mean["published laplace"], mean["published separate"])
            results.append(
                {
                    "table": "zipf",
                    "n": n,
                    "d": d,
                    "N": bins,
                    "epsilon": epsilon,
                    **mean,
                    "wishart / published": mean["wishart"] / better,
                    "wishart / zero": mean["wishart"] / mean["zero"],
                    "wishart / oracle": mean["wishart"] / mean["oracle"],
                    "raw / published": mean["raw"] / better,
                    "laplace / published": mean["laplace"] / mean["published laplace"],
                }
            )
            tick()
    report("pure", results)
    summarise(results, WANTED)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
