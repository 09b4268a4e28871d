"""Frobenius error on the grid of Dong, Liang, Yi 2022: ours against the mechanisms as published.

As published: N(0, s^2) on every entry of the upper triangle. The oracle knows the best
eigenvalues for the noisy basis that `cleaned` has; no mechanism with that basis can beat it.
AdaptiveCov is not in this table yet. MNIST is read from ../shared/data where it is present.
"""

import math
import sys
from pathlib import Path

import numpy as np

from eigenveil.data import Clip, open_rows, second_moment
from eigenveil.datasets import zipf_norms
from eigenveil.mechanisms import CleanedCov, GaussCov, ProjectedCov, release
from eigenveil.numerics.random import SimulationSource
from eigenveil.privacy.adjacency import Adjacency
from side_by_side import report

REPEATS = 10
MNIST = Path(__file__).parents[2] / "shared" / "data" / "mnist.npz"
ZIPF = [
    *((n, d, 1, 0.1) for n in (1000, 4000, 16000) for d in (50, 200, 800)),
    *((50000, 200, bins, 0.1) for bins in (1, 2, 4, 8, 16)),
    *((50000, 200, bins, rho) for bins in (1, 4) for rho in (0.01, 1.0)),
]


def published_gauss(truth, n, rho, rng):
    upper = np.triu(rng.standard_normal(truth.shape) / (n * math.sqrt(rho)))
    return truth + upper + np.triu(upper, 1).T


def published_separate(truth, n, rho, rng):
    """Eigenvalues and eigenvectors apart, half of rho each."""
    _, vectors = np.linalg.eigh(published_gauss(truth, n, rho / 2, rng))
    values = np.linalg.eigvalsh(truth)
    values = values + rng.standard_normal(values.size) * math.sqrt(2 / rho) / n
    return (vectors * values) @ vectors.T


def errors(rows, rho, seed):
    """One repetition; all of ours share one draw of noise."""
    query = second_moment(open_rows(rows), Clip(row_norm=1.0), Adjacency.REPLACE_ONE)
    truth = query.value.to_float() * query.unit
    rng = np.random.default_rng(seed)
    mu, n = math.sqrt(2 * rho), len(rows)

    def ours(mechanism):
        return release(mechanism, query, ledger=None, noise=SimulationSource(seed)).matrix

    gauss = ours(GaussCov(mu=mu))
    _, basis = np.linalg.eigh(gauss)
    best = np.maximum(np.einsum("ji,jk,ki->i", basis, truth, basis), 0)
    estimates = {
        "published gauss": published_gauss(truth, n, rho, rng),
        "published separate": published_separate(truth, n, rho, rng),
        "gauss": gauss,
        "projection": ours(ProjectedCov(mu=mu)),
        "cleaned": ours(CleanedCov(mu=mu)),
        "oracle": (basis * best) @ basis.T,
        "zero": np.zeros_like(truth),
    }
    return {name: float(np.linalg.norm(matrix - truth)) for name, matrix in estimates.items()}


def tables():
    for n, d, bins, rho in ZIPF:
        yield (
            {"table": "zipf", "n": n, "d": d, "N": bins, "rho": rho},
            zipf_norms(n, d, bins, seed=n + d + bins),
        )
    if not MNIST.is_file():
        print(f"MNIST is left out: no {MNIST.name} beside the checkout")
        return
    with np.load(MNIST) as stored:
        images = stored["x_train"].reshape(60_000, 784) / (255 * 28.0)  # no row exceeds norm 1
    for n in (5000, 20000, 60000):
        for rho in (0.01, 0.1, 1.0):
            yield {"table": "mnist", "n": n, "d": 784, "N": "", "rho": rho}, images[:n]


def main():
    results = []
    for cell, rows in tables():
        runs = [errors(rows, cell["rho"], seed) for seed in range(REPEATS)]
        mean = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
        better = min(mean["published gauss"], mean["published separate"])
        ratios = {
            "gauss / published": mean["gauss"] / mean["published gauss"],
            "cleaned / published": mean["cleaned"] / better,
            "cleaned / oracle": mean["cleaned"] / mean["oracle"],
            "cleaned / zero": mean["cleaned"] / mean["zero"],
        }
        results.append({**cell, **mean, **ratios})
        print(".", end="", flush=True, file=sys.stderr)
    report("covariance", results)
    for name in ("gauss / published", "cleaned / published", "cleaned / oracle", "cleaned / zero"):
        values = [row[name] for row in results]
        middle = math.exp(np.mean(np.log(values)))
        print(f"{name}: geometric mean {middle:.3f}, worst {max(values):.3f}")


if __name__ == "__main__":
    main()
