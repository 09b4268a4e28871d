"""How often intervals hold the truth: 90 % ones of releases of simulated normal tables.

The truth is that of the law that rows are drawn from, so that sampling counts. Each entry is the
share of tables and columns (or pairs, components, coefficients) whose interval holds it; those of
one table hang together, so the standard error is that of the tables' own shares.

    python benchmarks/bench_coverage.py [--tables 200] [--draws 100] [--only elliptical]
"""

import argparse
import csv

import numpy as np
from threadpoolctl import threadpool_limits

from eigenveil import ContinualCovariance, PrivateCovariance, PrivatePCA, PrivateRegression
from eigenveil.estimators.intervals import intervals
from eigenveil.exceptions import NothingFoundError
from side_by_side import RESULTS, report

D = 5
SPECTRUM = np.array([8.0, 4.0, 2.0, 1.0, 0.5])
BASIS = np.linalg.qr(np.random.default_rng(7).standard_normal((D, D)))[0]
COVARIANCE = (BASIS * SPECTRUM) @ BASIS.T
SLOPES = np.array([1.0, -0.5, 0.25, 0.0, 0.5])
BUDGET = {"delta": 1e-6}


def normal_rows(n, seed):
    random = np.random.default_rng(seed)
    return random.standard_normal((n, D)) @ (BASIS * np.sqrt(SPECTRUM)).T + 1.0


def holds(ends, truth):
    inside = (ends[..., 0] <= truth) & (truth <= ends[..., 1])
    return inside[~np.isnan(ends[..., 0])]


def signed(components, ends):
    """The true components, with the signs of the intervals."""
    middle = ends.mean(axis=-1)
    return components * np.sign(np.einsum("ij,ij->i", components, middle))[:, None]


def covariance_hits(release, draws, seed):
    found = intervals(release, draws=draws, seed=seed)
    deviations = np.sqrt(COVARIANCE.diagonal())
    correlation = COVARIANCE / np.outer(deviations, deviations)
    pairs = np.triu_indices(D, 1)
    return {
        "means": holds(found.means, np.ones(D)),
        "variances": holds(found.variances, COVARIANCE.diagonal()),
        "correlations": holds(found.correlations[pairs], correlation[pairs]),
        "first eigenvalue": holds(found.eigenvalues[:1], SPECTRUM[:1]),
        "eigenvalues": holds(found.eigenvalues, SPECTRUM),
        "first loadings": holds(found.loadings[:1], signed(BASIS.T[:1], found.loadings[:1])),
    }


def covariance(mechanism, n, epsilon, **given):
    def hits(seed, draws):
        estimator = PrivateCovariance(
            epsilon=epsilon, **BUDGET, mechanism=mechanism, random_state=seed, **given
        )
        return covariance_hits(estimator.fit(normal_rows(n, seed)).release_, draws, seed)

    return hits


def continual(n, epsilon):
    def hits(seed, draws):
        days = ContinualCovariance(
            horizon=30,
            epsilon=epsilon,
            **BUDGET,
            row_norm=14.0,
            centre=np.ones(D),
            random_state=seed,
        )
        for part in np.array_split(normal_rows(n, seed), 5):
            days.partial_fit(part)
        return covariance_hits(days.release_, draws, seed)

    return hits


def components(n, epsilon):
    def hits(seed, draws):
        pca = PrivatePCA(2, epsilon=epsilon, **BUDGET, random_state=seed).fit(normal_rows(n, seed))
        found = intervals(pca.release_, draws=draws, seed=seed)
        return {
            "first loadings": holds(found.loadings[:1], signed(BASIS.T[:1], found.loadings[:1]))
        }

    return hits


def regression(n, epsilon):
    def hits(seed, draws):
        rows = normal_rows(n, seed)
        target = rows @ SLOPES + 2 * np.random.default_rng(seed + 10**6).standard_normal(n)
        model = PrivateRegression(epsilon=epsilon, **BUDGET, random_state=seed).fit(rows, target)
        return {"coefficients": holds(model.coef_interval_, SLOPES)}

    return hits


CELLS = {
    "gauss": [
        (n, e, covariance("gauss", n, e, row_norm=14.0))
        for n, e in ((2000, 4.0), (20_000, 0.5), (20_000, 1.0))
    ],
    "cleaned": [(n, e, covariance("cleaned", n, e, row_norm=14.0)) for n, e in ((2000, 4.0),)],
    "continual": [(n, e, continual(n, e)) for n, e in ((20_000, 1.0),)],
    "elliptical": [(n, e, covariance("elliptical", n, e)) for n, e in ((2000, 4.0),)],
    "components": [(n, e, components(n, e)) for n, e in ((2000, 4.0),)],
    "regression": [(n, e, regression(n, e)) for n, e in ((5000, 0.5), (5000, 1.0), (20_000, 1.0))],
}


def kept_lines(only):
    """What was measured of other releases before, where one is measured again."""
    path = RESULTS / "coverage.csv"
    if not only or not path.exists():
        return []
    with path.open(newline="") as file:
        return [line for line in csv.DictReader(file) if line["release"] != only]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--only", default="", choices=("", *CELLS))
    given = parser.parse_args()
    lines = []
    with threadpool_limits(1):
        for name, cells in CELLS.items():
            for n, epsilon, hits in cells if given.only in ("", name) else ():
                found = {}
                for seed in range(given.tables):
                    try:
                        each = hits(seed, given.draws)
                    except NothingFoundError:
                        continue
                    for what, inside in each.items():
                        if inside.size:
                            found.setdefault(what, []).append(inside.mean())
                for what, shares in found.items():
                    error = np.std(shares) / np.sqrt(len(shares))
                    lines.append(
                        {
                            "release": name,
                            "rows": n,
                            "epsilon": epsilon,
                            "interval": what,
                            "tables": len(shares),
                            "covered": float(np.mean(shares)),
                            "standard_error": float(error),
                        }
                    )
                    print(*lines[-1].values(), flush=True)
    report("coverage", [*kept_lines(given.only), *lines])


if __name__ == "__main__":
    main()
