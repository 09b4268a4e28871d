"""Test error of private linear regression: ours against AdaSSP and Iterative Hessian Mixing.

Both sides in one process, delta = 1/n^2, four fifths of the rows for training. Theirs, as
published: columns standardised, an intercept column, rows divided by their largest norm and targets
by their largest value, all of it read off the data and taken as stated; add/remove neighbours.
Ours: the columns as they are, nothing stated, replace-one neighbours, which cost more noise; scales
and centres are bought from the same budget. Where public numbers tell that the range of the target
cannot be found, it is stated, as it is for theirs; where they allow no coefficients, the private
mean of the target is the prediction. A search that finds nothing counts as a prediction of zero.
"stated scales" divides by the scales that theirs are given.

Errors are mean squared ones on the rows left out, in units of the variance of the target there.
Tables of ../shared/data/regression are used where they are present.

    python benchmarks/bench_regression.py [--splits 4] [--runs 5]
"""

import argparse
import math
import warnings

import numpy as np
from sklearn.datasets import load_diabetes
from threadpoolctl import threadpool_limits

from eigenveil import PrivateRegression
from eigenveil.exceptions import NothingFoundError, TooFewRowsError
from published_regression import adassp, iterative_hessian_mixing
from side_by_side import report
from tables import present, tick

EPSILONS = (0.1, 0.25, 0.63, 1.58, 4.0, 10.0)
COUNTED = 4.0  # largest epsilon of the summary
THEIRS = ("adassp", "adassp exact", "hessian mixing")


def tables():
    for name in ("airfoil", "concrete", "pol", "protein"):
        if path := present(f"regression/{name}.npz"):
            with np.load(path) as stored:
                yield name, stored["X"].astype(float), stored["y"].astype(float)
    yield ("diabetes", *load_diabetes(return_X_y=True, scaled=False))
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(5000, 10)) * np.exp(rng.normal(size=10)) + 5
    slopes = rng.normal(size=10) / rows.std(axis=0)
    yield "different units", rows, rows @ slopes + rng.normal(size=5000)
    rows = rng.normal(size=(20_000, 40)) / np.sqrt(np.arange(1, 41))
    tails = 2 * rng.standard_t(3, size=20_000)
    yield "heavy tails", rows, 3 * rows[:, :5].sum(axis=1) + tails + 100
    yield "no signal", rng.normal(size=(3000, 8)), rng.normal(size=3000) + 2


def split(n, seed):
    order = np.random.default_rng(seed).permutation(n)
    return order[: 4 * n // 5], order[4 * n // 5 :]


def published(rows, target, test, method, epsilon, delta, rng):
    """Predictions of a published method, with its preprocessing taken as stated."""
    centre, scale = rows.mean(axis=0), rows.std(axis=0)
    scale[scale == 0] = 1.0
    design, other = (np.column_stack([np.ones(len(t)), (t - centre) / scale]) for t in (rows, test))
    longest, largest = np.linalg.norm(design, axis=1).max(), np.abs(target).max()
    b = method(design / longest, target / largest, epsilon, delta, rng)
    return other / longest @ b * largest


def ours(rows, target, test, epsilon, delta, seed, **stated):
    """Predictions, and whether the range of the target had to be stated."""
    budget = {"epsilon": epsilon, "delta": delta, "random_state": seed, "means_alone": True}
    try:
        model = PrivateRegression(**budget, **stated).fit(rows, target)
    except TooFewRowsError:  # from public numbers: nothing is spent yet
        largest = float(np.abs(target).max())
        stated = {**stated, "target_bounds": (-largest, largest)}
        return PrivateRegression(**budget, **stated).fit(rows, target).predict(test), 1.0
    except NothingFoundError:
        return np.zeros(len(test)), 0.0
    return model.predict(test), 0.0


def errors(rows, target, epsilon, seed, runs):
    """One split: errors of all sides over the variance of what is predicted."""
    fit, left = split(len(rows), seed)
    (x, y), (test, wanted) = (rows[fit], target[fit]), (rows[left], target[left])
    delta, unit = 1 / len(fit) ** 2, wanted.var()
    design, other = (np.column_stack([np.ones(len(t)), t]) for t in (x, test))
    best = other @ np.linalg.lstsq(design, y, rcond=None)[0]
    scale = x.std(axis=0)
    scale[scale == 0] = 1.0
    found = []
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        guess = {
            "mean": np.full(len(wanted), y.mean()),
            "least squares": best,
            "adassp": published(x, y, test, adassp, epsilon, delta, rng),
            "adassp exact": published(
                x, y, test, lambda *a: adassp(*a, exact=True), epsilon, delta, rng
            ),
            "hessian mixing": published(x, y, test, iterative_hessian_mixing, epsilon, delta, rng),
        }
        number = 100 * seed + run
        guess["ours"], stated = ours(x, y, test, epsilon, delta, number)
        guess["stated scales"], _ = ours(x, y, test, epsilon, delta, number, scale=scale)
        found.append(
            {name: float(np.mean((wanted - g) ** 2) / unit) for name, g in guess.items()}
            | {"range stated": stated}
        )
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--tables", help="names of the tables to run, separated by commas")
    options = parser.parse_args()
    results = []
    for name, rows, target in tables():
        if options.tables and name not in options.tables.split(","):
            continue
        for epsilon in EPSILONS:
            parts = []
            for seed in range(options.splits):
                parts.append(errors(rows, target, epsilon, seed, options.runs))
                tick()
            cell = {side: float(np.mean([part[side] for part in parts])) for side in parts[0]}
            excess = {side: cell[side] - cell["least squares"] for side in cell}
            better = min(excess["adassp"], excess["hessian mixing"])
            results.append(
                {"table": name, "n": 4 * len(rows) // 5, "p": rows.shape[1], "epsilon": epsilon}
                | cell
                | {
                    "excess / better": max(excess["ours"], 1e-4) / max(better, 1e-4),
                    "stated / better": max(excess["stated scales"], 1e-4) / max(better, 1e-4),
                    "ours / mean": cell["ours"] / cell["mean"],
                }
            )
    report("regression", results)
    counted = [row for row in results if row["epsilon"] <= COUNTED]
    for name in ("excess / better", "stated / better"):
        middle = math.exp(np.mean([math.log(row[name]) for row in counted]))
        print(f"{name}, geometric mean up to epsilon = {COUNTED:g}: {middle:.3f}; wanted: .5")
    for row in counted:
        if row["ours / mean"] > 1.02:
            print("worse than the mean by more than 2 %:", row["table"], row["epsilon"])


if __name__ == "__main__":
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
