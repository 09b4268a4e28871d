"""Excess error of the private regression on tables as people have them.

Five parts, one line of `results/regression_real.csv` for each table and budget:

- real: real tables and their targets, whole and cut to few rows, delta = 1e-6; rows fitted.
- few, and the same with add/remove neighbours: 850 rows, where a search may find nothing.
- textbook: the tables and budgets of `bench_regression.py`; errors on rows left out.
- implied: what `regression` reads off a released covariance of features and target together.

The excess error is the mean squared error less that of ordinary least squares, as a share of the
variance of the target; "to mean" is the mean squared error over that variance. A fit that is
refused before its charge, or that fails after it, counts as the mean of the target; the latter is
counted as lost. Medians are compared; means and worst single fits are kept beside them.

`results/regression_before.csv` has the figures before the regression changed; `--before` writes it.

    python benchmarks/bench_regression_real.py [--quick] [--before] [--only real,few]
"""

import argparse
import csv
import time
import warnings

import numpy as np
from threadpoolctl import threadpool_limits

from bench_regression import EPSILONS as TEXTBOOK_EPSILONS
from bench_regression import split as train_and_test
from bench_regression import tables as textbook_tables
from eigenveil import PrivateCovariance, PrivateRegression
from eigenveil.exceptions import EigenveilError, NothingFoundError
from eigenveil.release import regression
from real_tables import CUTS, TARGETS, cut_table, real_tables, split
from side_by_side import RESULTS, geometric_mean, keep, say
from tables import tick

DELTA = 1e-6
EPSILONS, FEW_EPSILONS, IMPLIED_EPSILONS = (1.0, 3.0), (0.3, 1.0, 3.0), (1.0, 4.0)
FEW_ROWS, FEW_TABLES = 850, ("concrete", "airfoil")
REPEATS, SPLITS, RUNS_PER_SPLIT = 31, 4, 6
LEAST_EXCESS = 1e-4  # in ratios; smaller ones are the same
NEGLIGIBLE_EXCESS = 1e-3  # more than before that hardly counts
LARGER_ALLOWED, MEAN_ALLOWED, IMPLIED_ALLOWED = 1.10, 1.02, 1.05
ENOUGH = 100  # rows times epsilon from which on the mean must not be lost against
PARTS = ("real", "few", "few, add/remove", "textbook", "implied")


class Target:
    """Rows to fit, rows to predict, and the errors that predictions are compared with."""

    def __init__(self, rows, target, test=None, wanted=None):
        self.rows, self.target = rows, target
        self.test = rows if test is None else test
        self.wanted = target if wanted is None else wanted
        design, other = (np.column_stack([np.ones(len(t)), t]) for t in (rows, self.test))
        # Columns of length 1, so that units do not matter to the rank.
        lengths = np.linalg.norm(design, axis=0)
        slopes = np.linalg.lstsq(design / lengths, target, rcond=None)[0]
        self.variance = float(self.wanted.var())
        self.least = self.error(other / lengths @ slopes)
        self.of_mean = self.error(np.full(len(self.wanted), target.mean()))

    def error(self, predicted):
        """Return the mean squared error over the variance of the target."""
        return float(np.mean((self.wanted - predicted) ** 2) / self.variance)

    def of_fit(self, **stated):
        """Return the error of one private regression, and whether it was refused or lost."""
        try:
            model = PrivateRegression(**stated).fit(self.rows, self.target)
        except EigenveilError as problem:
            lost = isinstance(problem, NothingFoundError)
            return self.of_mean, not lost, lost
        return self.error(model.predict(self.test)), False, False

    def of_covariance(self, **stated):
        """Return the error of the slopes that a released covariance implies."""
        table = np.column_stack([self.rows, self.target])
        try:
            release = PrivateCovariance(**stated).fit(table).release_
        except EigenveilError as problem:
            lost = isinstance(problem, NothingFoundError)
            return self.of_mean, not lost, lost
        slopes = regression(release, table.shape[1] - 1).coefficients
        predicted = self.test @ slopes[:-1]
        return self.error(predicted - predicted.mean() + self.target.mean()), False, False


def line(part, name, cells, epsilon, fits):
    """Return one line of the CSV; a pair of cells and fits for each split."""
    excess = [error - one.least for one, (error, _, _) in zip(cells, fits, strict=True)]
    means = [error / one.of_mean for one, (error, _, _) in zip(cells, fits, strict=True)]
    return {
        "part": part,
        "table": name,
        "rows": len(cells[0].rows),
        "columns": cells[0].rows.shape[1],
        "epsilon": epsilon,
        "least squares": float(np.mean([one.least for one in cells])),
        "excess, median": float(np.median(excess)),
        "excess, mean": float(np.mean(excess)),
        "excess, worst": max(excess),
        "to mean, median": float(np.median(means)),
        "to mean, mean": float(np.mean(means)),
        "to mean, worst": max(means),
        "fits": len(fits),
        "refused": sum(refused for _, refused, _ in fits),
        "lost": sum(lost for _, _, lost in fits),
    }


def real_targets(cuts=CUTS):
    """Yield name and target of every table that has one, whole and cut."""
    for name, (rows, names) in real_tables().items():
        if name not in TARGETS:
            continue
        yield name, Target(*split(name, rows, names))
        for size in cuts:
            some = cut_table(rows, names, size)
            if some is not None and TARGETS[name] in some[1]:
                yield f"{name}/{size}", Target(*split(name, *some))


def real_lines(part, options):
    repeats = 3 if options.quick else REPEATS
    cuts, epsilons = (CUTS, EPSILONS) if part == "real" else ((FEW_ROWS,), FEW_EPSILONS)
    stated = {"adjacency": "add-remove"} if part.endswith("add/remove") else {}
    for name, one in real_targets((1500,) if options.quick and part == "real" else cuts):
        if part != "real" and not ("/" in name and name.startswith(FEW_TABLES)):
            continue
        for epsilon in epsilons:
            fits = [
                one.of_fit(epsilon=epsilon, delta=DELTA, random_state=seed, **stated)
                for seed in range(repeats)
            ]
            yield line(part, name, [one] * repeats, epsilon, fits)
        tick()


def textbook_lines(part, options):
    splits, runs = (2, 1) if options.quick else (SPLITS, RUNS_PER_SPLIT)
    for name, rows, target in textbook_tables():
        cells = []
        for seed in range(splits):
            fit, left = train_and_test(len(rows), seed)
            cells += [Target(rows[fit], target[fit], rows[left], target[left])] * runs
        delta = 1 / len(cells[0].rows) ** 2
        for epsilon in TEXTBOOK_EPSILONS:
            fits = [
                one.of_fit(epsilon=epsilon, delta=delta, random_state=seed, means_alone=True)
                for seed, one in enumerate(cells)
            ]
            yield line(part, name, cells, epsilon, fits)
        tick()


def implied_lines(part, options):
    repeats = 2 if options.quick else 5
    for name, one in real_targets(()):
        for epsilon in IMPLIED_EPSILONS:
            fits = [
                one.of_covariance(epsilon=epsilon, delta=DELTA, random_state=seed)
                for seed in range(repeats)
            ]
            yield line(part, name, [one] * repeats, epsilon, fits)
        tick()


LINES = dict(
    zip(
        PARTS,
        (real_lines, real_lines, real_lines, textbook_lines, implied_lines),
        strict=True,
    )
)


# What is wanted of the figures


def stored(name):
    """Return the lines of a CSV that was kept."""
    path = RESULTS / f"{name}.csv"
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return [
            {key: text if key in ("part", "table") else float(text) for key, text in row.items()}
            for row in csv.DictReader(file)
        ]


def summarise(part, measured, before):
    """Print what is wanted of one part, beside what was measured."""
    rows = [row for row in measured if row["part"] == part]
    print(f"\n{part}")
    if not part.startswith("implied"):
        told = {key(row): row for row in before}
        ratios = [(ratio(row, told[key(row)]), row) for row in rows if key(row) in told]
        whole = [value for value, row in ratios if "/" not in row["table"]]
        ratios.sort(key=lambda pair: -pair[0])
        if whole:
            middle = geometric_mean(whole)
            limit = 0.65 if part == "real" else None
            say("excess / before, whole tables, geometric mean", middle, limit)
        if ratios:
            say("excess / before, geometric mean", geometric_mean([v for v, _ in ratios]))
            say("worst", ratios[0][0], None, cell(ratios[0][1]))
            larger = [row for _, row in ratios if is_larger(row, told[key(row)])]
            print("larger than before in:", "; ".join(map(cell, larger)) or "no cell")
    some = [row for row in rows if row["rows"] * row["epsilon"] >= ENOUGH]
    allowed = IMPLIED_ALLOWED if part.startswith("implied") else MEAN_ALLOWED
    for which in ("median", "mean", "worst"):
        worst = max(some, key=lambda row: row[f"to mean, {which}"])
        limit = allowed if which == "mean" else None
        say(
            f"error / that of the mean, {which} fit", worst[f"to mean, {which}"], limit, cell(worst)
        )
    above = sum(row["to mean, mean"] > allowed for row in some)
    say(f"cells above {allowed}, of {len(some)}", above, 0)
    say("fits lost after the charge", sum(row["lost"] for row in rows), 0)
    say("fits refused", sum(row["refused"] for row in rows))


def key(row):
    return row["part"], row["table"], row["epsilon"]


def ratio(row, before):
    """Return the excess error over that of before; what hardly counts is the same."""
    now, then = (max(LEAST_EXCESS, one["excess, median"]) for one in (row, before))
    return now / then


def is_larger(row, before):
    """Return whether the excess error grew by more than is allowed."""
    now, then = (one["excess, median"] for one in (row, before))
    return now > LARGER_ALLOWED * max(0.0, then) + NEGLIGIBLE_EXCESS


def cell(row):
    return f"{row['table']}, {row['rows']:g} x {row['columns']:g}, epsilon {row['epsilon']:g}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one cut, few fits; keeps nothing")
    parser.add_argument("--before", action="store_true", help="keep the figures to compare with")
    parser.add_argument("--only", default=None, help="a part, or several separated by semicolons")
    options = parser.parse_args()
    parts = options.only.split(";") if options.only else PARTS
    start = time.perf_counter()
    measured = []
    for part in parts:
        measured += LINES[part](part, options)
    name = "regression_before" if options.before else "regression_real"
    if not options.quick:
        others = [row for row in stored(name) if row["part"] not in parts]
        keep(name, sorted([*others, *measured], key=lambda row: PARTS.index(row["part"])))
    before = measured if options.before else stored("regression_before")
    for part in parts:
        summarise(part, measured, before)
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
