"""Predictions of the planner for regressions beside releases of `PrivateRegression`.

Normal features, a fresh table and fresh slopes for every release; the error is the extra squared
error of predictions beyond the best line, as a share of the target's variance. Neighbouring
features have no correlation, or 0.5. "predicted" assumes what the planner does by default,
whichever they have; "stated" is told the correlation. Wanted: within a factor of 1.5 of the median
in 90 % of the cells. A cell where the planner says that a release would refuse, and it does, has no
ratio.

    python benchmarks/bench_plan_regression.py [--repeats 40]
"""

import argparse

import numpy as np
from threadpoolctl import threadpool_limits

from eigenveil import PrivateRegression
from eigenveil.exceptions import NothingFoundError, TooFewRowsError
from eigenveil.planning import RegressionSituation
from eigenveil.planning.predict_regression import predict_regression
from eigenveil.privacy import Budget
from side_by_side import report

DELTA = 1e-6
SIZES = [(500, 3), (2000, 3), (10_000, 3), (2000, 10), (10_000, 10), (40_000, 10), (20_000, 30)]
LAWS = {"independent": 0.0, "correlated": 0.5}


def measured(n, p, epsilon, r2, law, seed):
    # Tables of their own for every cell: an unlucky one would count in all of a size.
    random = np.random.default_rng([seed, n, p, round(100 * epsilon), round(10 * r2)])
    covariance = law ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
    root = np.linalg.cholesky(covariance)
    rows = random.standard_normal((n, p)) @ root.T
    slopes = random.standard_normal(p)
    slopes *= np.sqrt(r2 / (slopes @ covariance @ slopes))
    target = rows @ slopes + np.sqrt(1 - r2) * random.standard_normal(n)
    budget = {"epsilon": epsilon, "delta": DELTA, "random_state": seed}
    model = PrivateRegression(**budget, means_alone=True).fit(rows, target)
    off = model.coef_ - slopes
    return float(off @ covariance @ off + model.intercept_**2)


def cell(n, p, epsilon, r2, name, repeats):
    """One line: the median error of releases, and what was expected of them."""
    law, errors = LAWS[name], []
    asked = RegressionSituation(n=n, p=p, budget=Budget(epsilon=epsilon, delta=DELTA), r2=r2)
    known = RegressionSituation(n=n, p=p, budget=asked.budget, r2=r2, correlation=law)
    expected, stated = (predict_regression(situation).error for situation in (asked, known))
    for seed in range(repeats):
        try:
            errors.append(measured(n, p, epsilon, r2, law, 1000 + seed))
        except (NothingFoundError, TooFewRowsError):
            continue
    middle = np.median(errors) if errors else None
    ratios = [np.nan if None in (one, middle) else one / middle for one in (expected, stated)]
    return {
        "features": name,
        "rows": n,
        "p": p,
        "epsilon": epsilon,
        "r2": r2,
        "predicted": expected,
        "stated": stated,
        "measured": middle,
        "released": len(errors),
        "ratio": ratios[0],
        "stated ratio": ratios[1],
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=40)
    repeats = parser.parse_args().repeats
    lines = []
    with threadpool_limits(1):
        for n, p in SIZES:
            for epsilon in (0.3, 1.0, 4.0):
                for r2 in (0.2, 0.8):
                    for name in LAWS:
                        lines.append(cell(n, p, epsilon, r2, name, repeats))
                        print(*lines[-1].values(), flush=True)
    report("plan_regression", lines)
    for name in LAWS:
        for ratio in ("ratio", "stated ratio"):
            ratios = np.array([line[ratio] for line in lines if line["features"] == name])
            ratios = ratios[~np.isnan(ratios)]
            within = np.mean((ratios <= 1.5) & (ratios >= 1 / 1.5))
            print(f"{name}, {ratio}: {within:.0%} of {ratios.size} cells within a factor of 1.5")


if __name__ == "__main__":
    main()
