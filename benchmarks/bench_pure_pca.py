"""Captured variance of components at pure epsilon, and the exponential mechanism at k = 3.

Gaussian rows in a random basis, variances 1/j for j <= k and a tail beyond. They are clipped at the
95 % quantile of the norm, which a simulation of the model gives: public numbers only. Normalised
rows are clipped far below any norm, which leaves their directions. Shares of what the best k
components of the table capture, mean of 20; `exponential s` are seconds of one release, from rows
to components.
"""

import statistics
import time

import numpy as np
from threadpoolctl import threadpool_limits

from eigenveil.exact import SMALLEST_NORM, Clip, second_moment
from eigenveil.mechanisms import Gate, WishartComponents, release
from eigenveil.numerics import SimulationSource, captured_variance, top_eigenpairs
from eigenveil.papers.covrev import ExponentialComponents, LaplaceComponents
from eigenveil.privacy import Adjacency, Pure
from eigenveil.rows import open_rows
from side_by_side import report
from tables import means, summarise, tick

REPEATS, QUANTILE = 20, 0.95
WEAK, STRONG = 0.002, 0.02  # tails; at d = 50 the strong one adds 0.9 to a leading 2.28
EPSILONS, LEAST = (0.5, 1.0, 2.0), (0.94, 0.98, 0.99)
GRID = [
    (10_000, 50, 5, WEAK),
    (10_000, 50, 5, STRONG),
    (10_000, 50, 3, WEAK),
    (10_000, 200, 5, WEAK),
    (50_000, 200, 5, WEAK),
]
WANTED = {
    (10_000, 50, 5, WEAK, epsilon): least for epsilon, least in zip(EPSILONS, LEAST, strict=True)
}
RATIOS = {
    "lost, wishart / laplace": "for orientation",
    "lost, wishart / exponential": "for orientation",
}


def model(n, d, k, tail, seed):
    """Rows before they are turned: their norms are those of the model."""
    variances = np.full(d, tail)
    variances[:k] = 1 / np.arange(1, k + 1)
    return np.random.default_rng(seed).standard_normal((n, d)) * np.sqrt(variances)


def clips(d, k, tail):
    norms = np.linalg.norm(model(100_000, d, k, tail, seed=1), axis=1)
    yield "clipped", Clip(row_norm=float(np.quantile(norms, QUANTILE)))
    yield "normalised", Clip(row_norm=SMALLEST_NORM)


def captured(rows, truth, clip, k, epsilon, query, seed):
    """One repetition of every mechanism."""
    noise = SimulationSource(seed)
    procedure = ExponentialComponents(strength=Pure(epsilon), n_components=k)
    gate = Gate(procedure.cost(), label="x", adjacency=query.adjacency, ledger=None, noise=noise)
    start = time.perf_counter()
    drawn = procedure.run(open_rows(rows), clip, gate)
    seconds = time.perf_counter() - start
    wishart, laplace = (
        release(mechanism(strength=Pure(epsilon), n_components=k), query, ledger=None, noise=noise)
        for mechanism in (WishartComponents, LaplaceComponents)
    )
    figures = {"wishart": wishart, "exponential": drawn, "laplace": laplace}
    shares = {name: captured_variance(found.components, truth) for name, found in figures.items()}
    return shares, seconds


def main():
    results = []
    for n, d, k, tail in GRID:
        basis, _ = np.linalg.qr(np.random.default_rng(d).standard_normal((d, d)))
        rows = model(n, d, k, tail, seed=0) @ basis.T
        truth = rows.T @ rows / n
        for kind, clip in clips(d, k, tail):
            query = second_moment(open_rows(rows), clip, Adjacency.REPLACE_ONE)
            _, best = top_eigenpairs(query.value.to_float(), k)
            for epsilon in EPSILONS:
                runs = [
                    captured(rows, truth, clip, k, epsilon, query, seed) for seed in range(REPEATS)
                ]
                mean = means([shares for shares, _ in runs])
                lost = {name: 1 - share for name, share in mean.items()}
                wanted = WANTED.get((n, d, k, tail, epsilon), "")
                results.append(
                    {
                        "n": n,
                        "d": d,
                        "k": k,
                        "tail": tail,
                        "rows": kind,
                        "epsilon": epsilon,
                        **mean,
                        "without noise": captured_variance(best, truth),
                        "wanted of wishart": wanted,
                        "met": "" if wanted == "" else mean["wishart"] >= wanted,
                        "lost, wishart / laplace": lost["wishart"] / lost["laplace"],
                        "lost, wishart / exponential": lost["wishart"] / lost["exponential"],
                        "exponential s": statistics.median(seconds for _, seconds in runs),
                    }
                )
                tick()
    report("pure_pca", results)
    summarise(results, RATIOS)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
