"""Streams on tables as people have them, against one release of the whole table.

Two parts, delta = 1e-6, one line of `results/stream_real_PART.csv` for each table, budget and
number of components:

- one-unit: columns divided by their deviations; and two tables whose columns share a unit, as they
  are. Both sides are told nothing else.
- raw: columns in their own units. The stream finds scales (`scale="private"`); what is measured are
  its components as directions of standardised columns. Beside it the same stream on columns that
  were divided by their exact deviations.

A figure is the share of the variance of the best k directions that the released ones hold, the mean
of a few releases. A refusal counts as zero; one after the charge is counted as lost as well.

`results/stream_real_before_one_unit.csv` has the first part as it was while streams scaled rows to
unit length.

    python benchmarks/bench_stream_real.py [--quick] [--only one-unit,raw] [--name stream_real]
"""

import argparse
import itertools
import warnings
from functools import partial

import numpy as np
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from eigenveil import PrivatePCA, StreamingPCA
from eigenveil.exceptions import EigenveilError, NothingFoundError
from eigenveil.numerics import captured_variance
from real_tables import real_tables
from side_by_side import report, say
from tables import tick

DELTA, EPSILONS, COMPONENTS, REPEATS = 1e-6, (1.0, 3.0), (1, 3), 5
MAX_ROWS = 20_000  # of a table; more are left out
PARTS = ("one-unit", "raw")


def tables(part):
    """Yield the name of every table, its rows, and the same in one unit."""
    for name, (rows, _) in real_tables().items():
        if len(rows) > MAX_ROWS:
            rows = rows[np.random.default_rng(0).choice(len(rows), MAX_ROWS, replace=False)]
        rows = rows[:, rows.std(axis=0) > 0]
        yield name, rows, rows / rows.std(axis=0)
    if part == "one-unit":
        rows = np.random.default_rng(0).lognormal(size=(10_000, 8)) * np.linspace(2, 1, 8)
        yield "lognormal", rows, rows
        digits = load_digits().data
        yield "digits", digits, digits


def shares(build, rows, covariance, repeats):
    """Return the mean share of the best directions' variance, and how many releases were lost."""
    held, lost = [], 0
    for seed in range(1, repeats + 1):
        try:
            found = build(seed).fit(rows).components_
        except EigenveilError as problem:
            lost += isinstance(problem, NothingFoundError)
            held.append(0.0)
            continue
        held.append(captured_variance(found, covariance))
    return float(np.mean(held)), lost


def sides(part, k, budget):
    """Return how each side is built, and whether it is given columns in one unit."""

    def stream(seed, **more):
        return StreamingPCA(k, **budget, random_state=seed, **more)

    def whole(seed):
        return PrivatePCA(k, **budget, random_state=seed)

    if part == "one-unit":
        return {"stream": (stream, True), "whole table": (whole, True)}
    private = partial(stream, scale="private")
    return {"stream": (private, False), "scales known": (stream, True)}


def lines(part, repeats):
    """Yield a line for each table, budget and number of components."""
    for name, rows, divided in tables(part):
        covariance = np.cov(divided.T, bias=True)
        for epsilon, k in itertools.product(EPSILONS, COMPONENTS):
            line = {"table": name, "rows": len(rows), "columns": rows.shape[1]}
            line |= {"epsilon": epsilon, "k": k}
            budget = {"epsilon": epsilon, "delta": DELTA}
            for side, (build, in_one_unit) in sides(part, k, budget).items():
                given = divided if in_one_unit else rows
                found = shares(build, given, covariance, repeats)
                line[side], line[f"{side}, lost"] = found
            yield line
        tick()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one release for each cell")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--name", default="stream_real", help="of the CSV")
    options = parser.parse_args()
    for part in options.only.split(","):
        found = list(lines(part, 1 if options.quick else REPEATS))
        report(f"{options.name}_{part.replace('-', '_')}", found)
        names = [side for side in found[0] if f"{side}, lost" in found[0]]
        for side in names:
            say(f"{part}, {side}: mean share", float(np.mean([line[side] for line in found])))
            say(f"{part}, {side}: lost", float(sum(line[f"{side}, lost"] for line in found)))


if __name__ == "__main__":
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
