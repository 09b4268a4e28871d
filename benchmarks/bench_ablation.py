"""What each step of the default covariance is worth.

The default is fitted as it is and with one step taken out, on four groups of tables, delta = 1e-6:

- whole: real tables in their own units; error in standard deviations, as in `bench_real.py`.
- cut: the same tables, cut to 1,500 and 3,000 rows.
- textbook: cells of the grid of Dong, Liang, Yi 2022, `row_norm=1` stated; relative Frobenius
  error. Of all steps only those of `elliptical` run there.
- wide: images, text and made tables of many columns; error in standard deviations.

`results/ablation.csv` has one line for each table, budget and step. The ratio of a step is the
geometric mean error without it over that with it. A step stays if it pays 3 % in one group or
prevents a failure there: a single fit with an error above 1.2. A mean is astray where the root mean
square of its errors exceeds one standard deviation of the columns: that is shown, not judged.

    python benchmarks/bench_ablation.py [--quick] [--only cut,wide]
"""

import argparse
import csv
import math
import time
import warnings
from contextlib import ExitStack
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

from bench_real import DELTA, EPSILONS, LARGEST_ERROR, in_deviations
from eigenveil import PrivateCovariance
from eigenveil.exceptions import EigenveilError
from eigenveil.mechanisms import (
    NoisyMean,
    column_scale,
    columns,
    distances,
    elliptical,
    front,
    prepared,
)
from eigenveil.numerics import relative_error
from other_tables import other_tables
from real_tables import cut, real_tables
from side_by_side import RESULTS, geometric_mean, keep
from tables import tick, zipf

GROUPS = ("whole", "cut", "textbook", "wide")
SEEDS = {"whole": 3, "cut": 3, "textbook": 5, "wide": 2}
GAIN = 1.03  # that a step has to pay in one group
CUTS = (1500, 3000)
LARGE = ("labsup", "movies", "nlswork", "pol", "protein")  # left out among whole tables: slow
WIDE = (
    "digits",
    "mnist, middle",
    "mnist, 182 pixels",
    "text",
    "breast cancer",
    "breast cancer in ranges",
    "normal, 50 columns",
    "t5, 50 columns",
    "low rank",
    "sparse flags",
)
WIDE_ROWS = 6000  # at most
RHOS = (0.1, 1.0)
TEXTBOOK = (  # rows, columns, bins of norms
    *((1000, d, 1) for d in (10, 50, 200)),
    *((4000, d, 1) for d in (50, 200)),
    *((16_000, d, 1) for d in (50, 200)),
    *((5000, 200, bins) for bins in (4, 8)),
    (16_000, 50, 4),
)
NO_LIMIT = 1e40  # in scales, on a coordinate
AS_IS = "as it is"


# Steps to take out: what to replace, each as (owner, attribute, value).


def second_mean():
    """Leave the centre at the first mean, with the error that this one has."""
    drawn, divided = front.Front.mean, prepared.Table.divided
    error = 0.0

    def mean(self, share, source, clip, gate):
        nonlocal error
        if share == 0:
            return NoisyMean(np.zeros(source.n_columns), None, error)
        found = drawn(self, share, source, clip, gate)
        error = found.squared_error
        return found

    def finer(self, factor):
        nonlocal error
        error *= float(np.mean(factor**-2))
        return divided(self, factor)

    return (
        (front.Front, "_again_share", 0.0),
        (front.Front, "mean", mean),
        (prepared.Table, "divided", finer),
    )


def cleaning():
    """Take the other candidate whatever the risks."""
    drawn = elliptical._drawn_towards_shape
    return ((elliptical, "_drawn_towards_shape", lambda *given: (drawn(*given)[0], -math.inf)),)


STEPS = {
    "first matrix": lambda: ((front, "_REFINED", 0.0),),
    "second mean": second_mean,
    "circles beyond two": lambda: (
        (front, "_MOST_CIRCLES", 2),
        (front, "_WIDE_CIRCLES", math.inf),
    ),
    "fine distance brackets": lambda: ((distances, "_FINE_SHARE", 0.0),),
    "common unit": lambda: (
        (columns, "_UNIT_COLUMNS", math.inf),
        (column_scale._SeenCounts, "one_unit", lambda self: None),
    ),
    "column limits": lambda: ((front, "_LEAST_LIMIT", NO_LIMIT),),
    "route of unit rows": lambda: ((elliptical, "_prefers_unit_rows", lambda *given: False),),
    "cleaning candidate": cleaning,
    "limited translation": lambda: ((elliptical, "_MAX_TRANSLATION", math.inf),),
    "zero for unclear columns": lambda: (
        (columns.Columns, "kept", lambda self, clearness, noise, refined: clearness > -math.inf),
    ),
    "pooling of both draws": lambda: (
        (elliptical._Eigen, "pooled", lambda self, other: elliptical._Eigen.of(other)),
    ),
    "fourth moments": lambda: (
        (elliptical, "SPREAD_SHARE", 0.0),
        (elliptical, "FourthMoments", SimpleNamespace(of=lambda whole: None)),
    ),
}
OF_FRONT = (
    "first matrix",
    "second mean",
    "circles beyond two",
    "common unit",
    "column limits",
    "zero for unclear columns",
)


def without(step):
    """Return a context in which a step of the default is left out."""
    stack = ExitStack()
    for owner, name, value in () if step == AS_IS else STEPS[step]():
        stack.enter_context(patch.object(owner, name, value))
    return stack


# Tables


def tables(group, quick):
    """Yield name, rows, the error of a fit, and what is stated besides, for each budget."""
    for name, rows in (textbook if group == "textbook" else free)(group, quick):
        if group == "textbook":
            truth = np.cov(rows.T, bias=True)
            budgets = [{"rho": rho, "row_norm": 1.0} for rho in RHOS]
            yield name, rows, lambda matrix, truth=truth: relative_error(matrix, truth), budgets
        else:
            budgets = [{"epsilon": epsilon, "delta": DELTA} for epsilon in EPSILONS]
            yield name, rows, in_deviations(rows), budgets


def textbook(group, quick):
    for n, d, bins in TEXTBOOK[:2] if quick else TEXTBOOK:
        yield f"zipf {n} x {d}, {bins}", zipf(n, d, bins).rows


def free(group, quick):
    """Yield tables in their own units."""
    if group == "wide":
        for name, rows in other_tables():
            if name in (WIDE[:1] if quick else WIDE):
                yield name, varying(rows[:WIDE_ROWS])
        return
    found = {name: rows for name, (rows, _) in real_tables().items()}
    for name in list(found)[:2] if quick else found:
        if group == "cut":
            for size in CUTS:
                if (some := cut(found[name], size)) is not None:
                    yield f"{name}/{size}", some
        elif name not in LARGE:
            yield name, found[name]


def varying(rows):
    return rows[:, np.ptp(rows, axis=0) > 0]


# Fits


def fitted(rows, error, seeds, stated):
    """Return errors of single fits, and how many means are astray."""
    errors, astray = [], 0
    for seed in range(1, seeds + 1):
        try:
            private = PrivateCovariance(random_state=seed, **stated).fit(rows)
        except EigenveilError:  # refused: the zero matrix
            errors.append(1.0)
            continue
        found = error(private.covariance_)
        errors.append(found if math.isfinite(found) else math.inf)
        off = (private.location_ - rows.mean(axis=0)) / rows.std(axis=0)
        astray += float(np.sqrt(np.mean(off**2))) > 1
    return errors, astray


def group_lines(group, quick):
    """Yield the lines of the CSV of one group."""
    seeds = 1 if quick else SEEDS[group]
    steps = [AS_IS, *STEPS]
    if group == "textbook":
        steps = [step for step in steps if step not in OF_FRONT]
    for name, rows, error, budgets in tables(group, quick):
        for stated in budgets:
            for step in steps:
                with without(step):
                    errors, astray = fitted(rows, error, seeds, stated)
                yield {
                    "group": group,
                    "table": name,
                    "rows": len(rows),
                    "columns": rows.shape[1],
                    "budget": stated.get("epsilon", stated.get("rho")),
                    "without": step,
                    "geometric mean": geometric_mean(errors),
                    "worst": max(errors),
                    "fits": len(errors),
                    "above": sum(error > LARGEST_ERROR for error in errors),
                    "astray": astray,
                }
        tick()


# What the figures say


def ratio(lines, group, step):
    """Return the ratio of geometric means, its standard error in logarithms, and failures.

    Failures and means astray are counted beyond those of the default as it is. None where the
    step does not run on tables of the group.
    """
    cells = {}
    for row in lines:
        if row["group"] == group and row["without"] in (AS_IS, step):
            cells.setdefault((row["table"], row["budget"]), {})[row["without"]] = row
    pairs = [(cell[step], cell[AS_IS]) for cell in cells.values() if step in cell]
    if not pairs:
        return None
    logs = [math.log(a["geometric mean"] / b["geometric mean"]) for a, b in pairs]
    spread = float(np.std(logs, ddof=1)) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
    more = {name: sum(a[name] - b[name] for a, b in pairs) for name in ("above", "astray")}
    return math.exp(float(np.mean(logs))), spread, more["above"], more["astray"]


def judged(found):
    """Return why a step stays, by the groups in which it runs, and where it costs as much."""
    pays = [group for group, (times, *_) in found.items() if times >= GAIN]
    costs = [group for group, (times, *_) in found.items() if 1 / times >= GAIN]
    prevented = sum(max(0, above) for _, _, above, _ in found.values())
    reasons = [f"pays in {', '.join(pays)}"] * bool(pays)
    reasons += [f"prevents {prevented}"] * (prevented > 0)
    words = "; ".join(reasons) if reasons else "FAILS THE RULE"
    return words + (f"; costs in {', '.join(costs)}" if costs else "")


def summarise(lines):
    """Print the ratio, its error, and the failures of every step."""
    groups = [group for group in GROUPS if any(row["group"] == group for row in lines)]
    for group in groups:
        own = [row for row in lines if row["group"] == group and row["without"] == AS_IS]
        fits, above, astray = (sum(row[n] for row in own) for n in ("fits", "above", "astray"))
        middle = geometric_mean([row["geometric mean"] for row in own])
        print(
            f"{group}: {len(own)} cells, {fits} fits, geometric mean error {middle:.3g}, "
            f"{above} above {LARGEST_ERROR}, {astray} means astray"
        )
    print("\nwithout a step: ratio, failures more (means astray more)")
    for step in STEPS:
        found = {group: ratio(lines, group, step) for group in groups}
        cells = (
            f"{group} -"
            if one is None
            else f"{group} {one[0]:.3f} ±{one[1]:.3f} {one[2]:+d} ({one[3]:+d})"
            for group, one in found.items()
        )
        words = judged({group: one for group, one in found.items() if one is not None})
        print(f"{step}: {'; '.join(cells)}\n    {words}")


def stored():
    """Return the lines that were kept."""
    path = RESULTS / "ablation.csv"
    if not path.is_file():
        return []
    numbers = dict.fromkeys(("rows", "columns", "fits", "above", "astray"), int)
    numbers |= dict.fromkeys(("budget", "geometric mean", "worst"), float)
    with path.open(newline="") as file:
        return [
            {key: numbers.get(key, str)(cell) for key, cell in row.items()}
            for row in csv.DictReader(file)
        ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few tables, one seed; keeps nothing")
    parser.add_argument("--only", default=",".join(GROUPS), help="groups, separated by commas")
    options = parser.parse_args()
    groups, start = options.only.split(","), time.process_time()
    lines = [line for group in groups for line in group_lines(group, options.quick)]
    if not options.quick:
        others = [row for row in stored() if row["group"] not in groups]
        lines = sorted([*others, *lines], key=lambda row: GROUPS.index(row["group"]))
        keep("ablation", lines)
    summarise(lines)
    print(f"{time.process_time() - start:.0f} s of processor time")


if __name__ == "__main__":
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
