"""Rows read once, in batches, against mechanisms that read the whole table, at the same budget.

Normal rows with covariance V L V' + sigma^2 I, L from 1 down to 1/2; epsilon = 1, delta = 1e-6;
mean of 10, all on the same rows; the error is |UU' - VV'|_F. One-pass methods have unit rows, which
need no bound ("unit"), and rows clipped at the 90 % quantile of norms of the model ("clipped"), as
analyze-gauss has. The power method, which reads the table in several passes, stands beside them.
"""

import itertools
import math
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

from eigenveil.datasets import SpikedGaussian
from eigenveil.exact import Clip
from eigenveil.exceptions import EigenveilError
from eigenveil.mechanisms import (
    AnalyzeGauss,
    Gate,
    Oja,
    Power,
    Spherical,
    Tangent,
    directions,
)
from eigenveil.numerics import SimulationSource, subspace_distance
from eigenveil.papers.kpca import AdaptiveOja, TangentOja
from eigenveil.privacy import Adjacency, Budget, Gaussian, strength
from eigenveil.rows import open_rows
from side_by_side import report
from tables import tick

REPEATS = 10
PROCESSES = 2
BUDGET = Budget(epsilon=1.0, delta=1e-6)
MU = strength(BUDGET, Gaussian, "gauss")
GRID = list(itertools.product((5_000, 50_000), (20, 100), (1, 5), (0.1, 0.3, 1.0)))
WHOLE = ("spherical", "tangent", "analyze-gauss")
ONCE = ("oja", "adaptive-oja", "tangent-oja")


def calibrated(one, k):
    """The mechanism that the whole budget buys."""

    def make(mu):
        return one(strength=Gaussian(mu), n_components=k)

    return make(strength(BUDGET, lambda mu: make(mu).cost(), "calibrated"))


def one_pass(k):
    """Mechanisms that take unit and clipped rows."""
    return [
        Oja(strength=Gaussian(MU), n_components=k),
        calibrated(AdaptiveOja, k),
        calibrated(TangentOja, k),
        Power(strength=Gaussian(MU), n_components=k),
    ]


def errors(task):
    (n, d, k, noise), seed = task
    spikes = tuple(np.linspace(1.0, 0.5, k).tolist())
    stream = SpikedGaussian(n, d, spikes, noise, seed=seed)
    rows = np.concatenate(list(stream))
    model = np.concatenate(list(SpikedGaussian(4000, d, spikes, noise, seed=10_000)))
    clipped = Clip(row_norm=float(np.quantile(np.linalg.norm(model, axis=1), 0.9)))

    def error(procedure, clip):
        gate = Gate(
            procedure.cost(),
            label=procedure.name,
            adjacency=Adjacency.REPLACE_ONE,
            ledger=None,
            noise=SimulationSource(seed),
        )
        try:
            found = procedure.run(open_rows(rows), clip, gate).components
        except EigenveilError as refusal:
            if seed == 0:
                print(f"\n{procedure.name}, {n} x {d}, k = {k}: {refusal}")
            return math.nan
        return subspace_distance(found, stream.basis.T)

    basis = np.linalg.eigh(rows.T @ rows)[1][:, -k:]
    found = {
        "non-private": subspace_distance(basis.T, stream.basis.T),
        "spherical": error(Spherical(strength=Gaussian(MU), n_components=k), clipped),
        "tangent": error(Tangent(strength=Gaussian(MU), n_components=k), clipped),
        "analyze-gauss": error(AnalyzeGauss(strength=Gaussian(MU), n_components=k), clipped),
    }
    for procedure in one_pass(k):
        found[f"{procedure.name}, unit"] = error(procedure, directions(clipped))
        found[f"{procedure.name}, clipped"] = error(procedure, clipped)
    return found


def main():
    results = []
    with ProcessPoolExecutor(PROCESSES) as pool:
        pending = [
            (cell, [pool.submit(errors, (cell, seed)) for seed in range(REPEATS)]) for cell in GRID
        ]
        for (n, d, k, noise), futures in pending:
            runs = [future.result() for future in futures]
            mean = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
            rivals = {name: value for name, value in mean.items() if name != "non-private"}
            rivals = {name: value for name, value in rivals.items() if not math.isnan(value)}
            winner = min(rivals, key=rivals.get)
            whole = min(rivals[name] for name in WHOLE)
            once = min(value for name, value in rivals.items() if name.split(",")[0] in ONCE)
            results.append(
                {"n": n, "d": d, "k": k, "noise": noise}
                | mean
                | {"winner": winner, "one pass / whole table": once / whole}
            )
            tick()
    report("one_pass", results)
    winners = [row["winner"] for row in results]
    for name in sorted(set(winners)):
        print(f"{name} wins {winners.count(name)} of {len(winners)}")
    ratios = [row["one pass / whole table"] for row in results]
    middle = math.exp(np.mean(np.log(ratios)))
    print(f"one pass / whole table: {min(ratios):.3f} to {max(ratios):.3f}, typically {middle:.3f}")
    unit = [row[f"{name}, unit"] / row[f"{name}, clipped"] for row in results for name in ONCE]
    better = np.mean([ratio < 1 for ratio in unit if not math.isnan(ratio)])
    holds = "holds" if better > 0.5 else "DOES NOT HOLD"
    print(f"{holds}: unit rows are better inside one-pass methods: in {better:.0%} of pairs")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
