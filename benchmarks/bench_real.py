"""The default covariance on tables as people have them, and on the tables of the papers.

Five parts, delta = 1e-6 unless said, one line of `results/real.csv` for each table and budget:

- raw: real tables in their own units, whole and cut to few rows; error in standard deviations.
- standardised: the same tables, columns divided by their deviations.
- other: images, text, categories and made tables, columns divided by their deviations.
- textbook, pure: the grid of Dong, Liang, Yi 2022, `row_norm=1` stated, against the mechanisms as
  published and our own; relative Frobenius error.
- same units: tables whose columns share a unit, stated as such; relative Frobenius error.

An error in standard deviations is that of the matrix whose rows and columns are divided by the
table's own deviations; relative, so that the zero matrix has 1. A fit that is refused before its
charge counts as the zero matrix. A fit that fails after its charge counts as that, too, and is a
defect; so is a release that is not finite.

`results/real_before.csv` has the figures of the mechanisms that the default is compared with,
measured before it changed: `elliptical`, then the default, and `cleaned` with a private radius.
`--before` measures them again and needs that version.

    python benchmarks/bench_real.py [--quick] [--before] [--only raw,standardised]
"""

import argparse
import csv
import math
import time
import warnings

import numpy as np
from threadpoolctl import threadpool_limits

from eigenveil import PrivateCovariance
from eigenveil.cli.demo import _tables as demo_tables
from eigenveil.exceptions import EigenveilError, NothingFoundError
from eigenveil.numerics import relative_error
from eigenveil.papers.covrev import (
    adaptive_cov,
    gauss_cov,
    lap_cov,
    separate_cov,
    separate_cov_pure,
)
from other_tables import other_tables
from real_tables import whole_and_cut
from side_by_side import RESULTS, geometric_mean, keep, say
from tables import generated, tick, zipf

DELTA, EPSILONS, PURE_EPSILONS = 1e-6, (1.0, 4.0), (0.3, 1.0, 3.0)
REPEATS, WIDE_REPEATS, TEXTBOOK_REPEATS, SAME_UNIT_REPEATS = 3, 2, 5, 8
WIDE_COLUMNS = 100  # from here on fewer repeats
MANY_ROWS = 5000  # from here on raw units may cost little
ENOUGH_ROWS = 900  # from here on no single table may lose much
LARGEST_ERROR = 1.2  # of a good fit; the zero matrix has 1
PARTS = ("raw", "standardised", "other", "textbook", "pure", "same units")
TODAY = {"elliptical": {}, "cleaned": {"row_norm": "private"}}
OWN = ("cleaned", "adaptive-cleaned", "gauss", "projection", "adaptive", "separate")
OWN_PURE = ("wishart", "laplace", "separate", "adaptive")
TEXTBOOK = [  # rows, columns, bins of norms, rho
    *((1000, d, 1, 0.1) for d in (10, 50, 200)),
    *((4000, d, 1, 0.1) for d in (50, 200)),
    *((16_000, d, 1, 0.1) for d in (50, 200, 400)),
    *((50_000, 200, bins, 0.1) for bins in (1, 2, 4, 8, 16)),
    (5000, 200, 4, 0.1),
    (400_000, 50, 4, 0.1),
    *((50_000, 200, 4, rho) for rho in (0.001, 0.01, 1.0, 10.0)),
]
QUICK_ROWS = 5000  # of the largest textbook table of a quick run
QUICK_CUTS = (1500,)


def fitted_errors(rows, error, repeats, **stated):
    """Return errors of single fits, and how many fits failed after the charge."""
    errors, lost = [], 0
    for seed in range(1, repeats + 1):
        try:
            private = PrivateCovariance(random_state=seed, **stated).fit(rows)
        except EigenveilError as problem:
            lost += isinstance(problem, NothingFoundError)
            errors.append(1.0)
            continue
        finite = bool(np.isfinite(private.covariance_).all())
        lost += not finite
        errors.append(error(private.covariance_) if finite else math.inf)
    return errors, lost


def line(part, name, rows, budget, mechanism, errors, lost=0):
    """Return one line of the CSV."""
    return {
        "part": part,
        "table": name,
        "rows": len(rows),
        "columns": rows.shape[1],
        "budget": budget,
        "mechanism": mechanism,
        "mean": float(np.mean(errors)),
        "worst": max(errors),
        "fits": len(errors),
        "above": sum(error > LARGEST_ERROR for error in errors),
        "lost": lost,
    }


def in_deviations(rows):
    """Return the error of a matrix in standard deviations of the columns."""
    truth = np.cov(rows.T, bias=True)
    units = np.outer(*2 * [np.sqrt(truth.diagonal())])
    return lambda matrix: relative_error(matrix / units, truth / units)


def repeats_of(rows, options):
    if options.quick:
        return 1
    return WIDE_REPEATS if rows.shape[1] >= WIDE_COLUMNS else REPEATS


def real_lines(part, options):
    """Yield errors in standard deviations."""
    if part == "other":
        tables = other_tables()
    else:
        tables = whole_and_cut(*([QUICK_CUTS] if options.quick else []))
    sides = {"default": {}}
    if options.before and part != "raw":
        sides |= {name: {"mechanism": name} | more for name, more in TODAY.items()}
    for name, rows in tables:
        given = rows if part == "raw" else rows / rows.std(axis=0)
        error = in_deviations(given)
        for epsilon in EPSILONS:
            for side, stated in sides.items():
                found = fitted_errors(
                    given, error, repeats_of(rows, options), epsilon=epsilon, delta=DELTA, **stated
                )
                yield line(part, name, rows, epsilon, side, *found)
            tick()


def published(table, rho, seed):
    rng = np.random.default_rng(seed)
    return {
        "published gauss": gauss_cov(table.truth, table.n, rho, rng),
        "published separate": separate_cov(table.truth, table.n, rho, rng),
        "published adaptive": adaptive_cov(table.norms, table.moment, rho, rng),
    }


def published_pure(table, epsilon, seed):
    rng = np.random.default_rng(seed)
    return {
        "published laplace": lap_cov(table.truth, table.n, epsilon, rng),
        "published separate": separate_cov_pure(table.truth, table.n, epsilon, rng),
    }


def textbook_lines(part, options):
    """Yield relative Frobenius errors on the grid, of all sides."""
    pure = part == "pure"
    draw, own = (published_pure, OWN_PURE) if pure else (published, OWN)
    own = {name: {"mechanism": name} for name in own}
    if options.before:
        own["elliptical"] = {"mechanism": "elliptical"}
    repeats = 1 if options.quick else TEXTBOOK_REPEATS
    for (n, d, bins), budgets in textbook_cells(pure, options.quick).items():
        table = zipf(n, d, bins)
        truth = np.cov(table.rows.T, bias=True)
        norm = np.linalg.norm(table.truth)
        name = f"zipf {n} x {d}, {bins}"
        for budget in budgets:
            drawn = [draw(table, budget, seed) for seed in range(repeats)]
            for side in drawn[0]:
                errors = [table.error(one[side]) / norm for one in drawn]
                yield line(part, name, table.rows, budget, side, errors)
            for side, stated in {"default": {}, **own}.items():
                found = fitted_errors(
                    table.rows,
                    lambda matrix, truth=truth: relative_error(matrix, truth),
                    repeats,
                    row_norm=1.0,
                    **{"epsilon" if pure else "rho": budget},
                    **stated,
                )
                yield line(part, name, table.rows, budget, side, *found)
            tick()


def textbook_cells(pure, quick):
    """Return the budgets of each table."""
    cells = {}
    for n, d, bins, rho in TEXTBOOK:
        if quick and n > QUICK_ROWS:
            continue
        cells.setdefault((n, d, bins), []).append(rho)
    return dict.fromkeys(cells, PURE_EPSILONS) if pure else cells


def same_unit_lines(part, options):
    """Yield relative Frobenius errors at epsilon = 1 of tables in one unit."""
    digits, cancer = demo_tables()
    cells = (
        ("normal, 50 columns", generated(20_000, 50)),
        ("digits", digits.rows),
        ("breast cancer in ranges", cancer.rows),
    )
    for name, rows in cells:
        truth = np.cov(rows.T, bias=True)
        found = fitted_errors(
            rows,
            lambda matrix, truth=truth: relative_error(matrix, truth),
            1 if options.quick else SAME_UNIT_REPEATS,
            epsilon=1.0,
            delta=DELTA,
            scale="same",
        )
        yield line(part, name, rows, 1.0, "default", *found)
        tick()


LINES = dict.fromkeys(PARTS[:3], real_lines) | {
    "textbook": textbook_lines,
    "pure": textbook_lines,
    "same units": same_unit_lines,
}


# What is wanted of the figures


def stored(name):
    """Return the lines of a CSV that was kept."""
    path = RESULTS / f"{name}.csv"
    if not path.is_file():
        return []
    numbers = {"rows": int, "columns": int, "fits": int, "above": int, "lost": int}
    numbers |= dict.fromkeys(("budget", "mean", "worst"), float)
    with path.open(newline="") as file:
        return [
            {key: numbers.get(key, str)(cell) for key, cell in row.items()}
            for row in csv.DictReader(file)
        ]


class Judged:
    """Figures of one run beside what is wanted of them."""

    def __init__(self, measured, before):
        self.measured = measured
        self.means = {self.key(row): row["mean"] for row in measured}
        self.before = {self.key(row): row["mean"] for row in before}

    @staticmethod
    def key(row, **other):
        """Return what tells a line from others."""
        row = row | other
        return row["part"], row["table"], row["budget"], row["mechanism"]

    def defaults(self, part):
        """Return the lines of the default."""
        return [r for r in self.measured if r["part"] == part and r["mechanism"] == "default"]

    def ratios(self, part, reference):
        """Return the ratio of the default to a reference, and the cell, for each cell."""
        found = [(row["mean"] / reference(row), row) for row in self.defaults(part)]
        return sorted(found, key=lambda pair: -pair[0])

    def raw(self):
        """Print the figures of raw units."""
        rows = self.defaults("raw")
        whole = [r["mean"] for r in rows if not is_cut(r["table"])]
        say("whole tables, geometric mean", geometric_mean(whole), 0.13)
        cut = [r["mean"] for r in rows if is_cut(r["table"])]
        say("cut tables, geometric mean", geometric_mean(cut))
        fits = sum(row["fits"] for row in rows)
        say("share of single fits above 1.2", sum(row["above"] for row in rows) / fits, 0.02)
        worst = max(rows, key=lambda row: row["worst"])
        say("worst single fit", worst["worst"], 2.0, cell(worst))
        like = [r for r in rows if self.key(r, part="standardised") in self.means]
        many = [
            row["mean"] / self.means[self.key(row, part="standardised")]
            for row in like
            if row["rows"] >= MANY_ROWS
        ]
        if many:
            say("raw / standardised from 5,000 rows on", geometric_mean(many), 1.4)

    def standardised(self, part="standardised", limit=1.06):
        """Print ratios to the better of the mechanisms of before and the zero matrix."""
        ratios = self.ratios(
            part, lambda row: min(1.0, *(self.before[self.key(row, mechanism=m)] for m in TODAY))
        )
        if part == "standardised":
            for words, cut in (("whole", False), ("cut", True)):
                some = [ratio for ratio, row in ratios if is_cut(row["table"]) == cut]
                say(f"default / better of before, {words}", geometric_mean(some), limit)
            ratios_of_large = [pair for pair in ratios if pair[1]["rows"] >= ENOUGH_ROWS]
            say("worst, 900 rows or more", ratios_of_large[0][0], 1.5, cell(ratios_of_large[0][1]))
        else:
            some = [ratio for ratio, _ in ratios]
            say("default / better of before", geometric_mean(some), limit)
            say("worst", some[0], None, cell(ratios[0][1]))
        fits = sum(row["fits"] for _, row in ratios)
        above = sum(row["above"] for _, row in ratios)
        say("share of single fits above 1.2", above / fits)

    def other(self):
        """Print the same for tables of other kinds."""
        self.standardised("other", 1.10)

    def textbook(self):
        """Print ratios to the published mechanisms and to our own."""
        self._against_published("textbook", 0.60, 1.0)
        ours = self.ratios("textbook", lambda row: self._best(row, lambda m: m in OWN))
        say("default / our own best, worst", ours[0][0], 1.15, cell(ours[0][1]))

    def pure(self):
        """Print the same for pure budgets."""
        self._against_published("pure", 0.35)
        for epsilon in PURE_EPSILONS:
            self._against_published("pure", budget=epsilon)
        ours = self.ratios("pure", lambda row: self._best(row, lambda m: m in OWN_PURE))
        say("default / our own best, worst", ours[0][0], None, cell(ours[0][1]))

    def same_units(self):
        """Print errors where a common unit is stated."""
        limits = {"normal, 50 columns": 0.046, "digits": 0.405, "breast cancer in ranges": 0.51}
        for row in self.defaults("same units"):
            say(row["table"], row["mean"], limits[row["table"]])

    def _against_published(self, part, middle=None, worst=None, budget=None):
        ratios = self.ratios(part, lambda r: self._best(r, lambda m: m.startswith("published")))
        ratios = [pair for pair in ratios if budget in (None, pair[1]["budget"])]
        words = "" if budget is None else f" at epsilon = {budget:g}"
        found = geometric_mean([ratio for ratio, _ in ratios])
        say(f"default / better published{words}", found, middle)
        say("worst", ratios[0][0], worst, cell(ratios[0][1]))

    def _best(self, row, which):
        """Return the least mean error of the mechanisms of a kind."""
        found = [
            other["mean"]
            for other in self.measured
            if self.key(other)[:3] == self.key(row)[:3] and which(other["mechanism"])
        ]
        return min(found, default=math.nan)

    def summarise(self):
        """Print all figures that were measured."""
        for part in PARTS:
            if not self.defaults(part):
                continue
            print(f"\n{part}")
            getattr(self, part.replace(" ", "_"))()
            lost = sum(row["lost"] for row in self.defaults(part))
            say("fits that failed after the charge", lost, 0)


def is_cut(table):
    return "/" in table


def cell(row):
    return f"{row['table']}, {row['rows']} x {row['columns']}, budget {row['budget']:g}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="few cuts, one seed, small tables; keeps nothing"
    )
    parser.add_argument("--before", action="store_true", help="keep the figures to compare with")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    options = parser.parse_args()
    parts = options.only.split(",")
    start = time.perf_counter()
    measured = []
    for part in parts:
        measured += LINES[part](part, options)
    name = "real_before" if options.before else "real"
    if not options.quick:
        others = [row for row in stored(name) if row["part"] not in parts]
        keep(name, sorted([*others, *measured], key=lambda row: PARTS.index(row["part"])))
    Judged(measured, measured if options.before else stored("real_before")).summarise()
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
