"""Components of standardised columns: the share of the correlation matrix's variance they hold.

Tables as people have them (`real_tables.py`, without row names), whole and cut to few rows, in
their own units; nothing is stated. Epsilon is .5 (above 10,000 rows only), 1 and 3, delta = 1e-6,
ten fits of each cell.

The share of k released directions V is tr(V C V') over the sum of the k largest eigenvalues of C,
the exact correlation matrix of the table. Columns that a release left out have loading 0. A fit
that raises an error has share 0: it is lost if the error came after the charge, else refused.

`results/components_before.csv` has the shares of four methods, measured before components were
those of standardised columns: `pca` is `PrivatePCA(k, scale="private")`, the others are leading
eigenvectors of `PrivateCovariance(mechanism=..., scale="private").correlation_`, with a private
radius where the mechanism needs one. `--before` measures them again and needs that version.
Without it the benchmark measures `pca` alone, compares each cell with the best of the four, and
keeps `results/components.csv`.

    python benchmarks/bench_components.py [--before] [--only adult,bfi/1500] [--jobs 2]
"""

import argparse
import csv
import math
import multiprocessing
import statistics
import time
import warnings
import zlib
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import product

import numpy as np
from threadpoolctl import threadpool_limits

from eigenveil import PrivateCovariance, PrivatePCA
from eigenveil.exceptions import EigenveilError, NothingFoundError
from real_tables import cut, real_tables
from side_by_side import RESULTS, geometric_mean, keep, say
from tables import tick

DELTA, EPSILONS, RANKS, FITS = 1e-6, (0.5, 1.0, 3.0), (1, 2, 3, 5), 10
SMALLEST_EPSILON_ROWS = 10_000  # smaller tables are not measured at the smallest epsilon
CUT_SIZES = (1500, 3000)
ROW_NAMES = ("rownames",)
PCA = "pca"
COVARIANCES = {  # options of each mechanism
    "elliptical": {},
    "gauss": {"row_norm": "private"},
    "cleaned": {"row_norm": "private"},
}
METHODS = (PCA, *COVARIANCES)
LOST, REFUSED = "lost", "refused"

MAX_LOSS, MAX_STANDARD_ERRORS = 0.02, 2.5  # a cell beyond both is behind the best before
LARGE_EPSILON, MIN_SHARE_OF_CUTS = 3.0, 0.90
MAX_GEOMETRIC_LOSS = 0.0025
MIN_SHARE = 1e-3  # in logarithms of shares
MIN_LOSS = 1e-5  # in logarithms of losses
SHOWN_CELLS = 20  # of those behind the best before
NUMBERS = dict.fromkeys(("rows", "columns", "k", "fits", "lost", "refused"), int)
NUMBERS |= dict.fromkeys(("epsilon", "mean", "standard_error"), float)

TABLES = {}  # {name: rows}, filled before the processes start


def all_tables():
    """Yield the name and the rows of every table, whole and cut, without row names."""
    for name, (rows, columns) in real_tables().items():
        kept = rows[:, [column not in ROW_NAMES for column in columns]]
        yield name, kept
        for size in CUT_SIZES:
            some = cut(kept, size)
            if some is not None:
                yield f"{name}/{size}", some


@cache
def correlation(name):
    """Return the exact correlation matrix of a table."""
    rows = TABLES[name]
    standardised = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    matrix = standardised.T @ standardised / len(rows)
    units = np.sqrt(matrix.diagonal())
    return matrix / units / units[:, None]


def captured_share(components, matrix, k):
    """Return the variance held by the span of k directions, relative to the k best."""
    _, sizes, basis = np.linalg.svd(np.nan_to_num(components), full_matrices=False)
    basis = basis[sizes > 0.5]  # an all-zero component adds nothing to the span
    held = np.einsum("ij,jl,il->", basis, matrix, basis)
    return float(held / np.linalg.eigvalsh(matrix)[-k:].sum())


def leading_eigenvectors(matrix, k):
    """Return eigenvectors as rows; correlations of hidden variances count as zero."""
    return np.linalg.eigh(np.nan_to_num(matrix))[1][:, ::-1][:, :k].T


def all_tasks(methods):
    """Return (table, epsilon, method, ranks, repeat) of every fit, large tables first.

    One released matrix serves every number of components.
    """
    tasks = []
    for name, rows in sorted(TABLES.items(), key=lambda item: -item[1].size):
        ranks = tuple(k for k in RANKS if k < rows.shape[1])
        epsilons = EPSILONS if len(rows) > SMALLEST_EPSILON_ROWS else EPSILONS[1:]
        for epsilon, method in product(epsilons, methods):
            groups = [(k,) for k in ranks] if method == PCA else [ranks]
            tasks += [(name, epsilon, method, *pair) for pair in product(groups, range(FITS))]
    return tasks


def fit_shares(task):
    """Return {k: share} of one fit; in place of the share why there is none."""
    name, epsilon, method, ranks, _ = task
    rows = TABLES[name]
    matrix = correlation(name)
    budget = {
        "epsilon": epsilon,
        "delta": DELTA,
        "scale": "private",
        "random_state": zlib.crc32(repr(task).encode()),
    }
    try:
        if method == PCA:
            (k,) = ranks
            found = {k: PrivatePCA(k, **budget).fit(rows).components_}
        else:
            fitted = PrivateCovariance(mechanism=method, **COVARIANCES[method], **budget).fit(rows)
            found = {k: leading_eigenvectors(fitted.correlation_, k) for k in ranks}
    except NothingFoundError:
        return dict.fromkeys(ranks, LOST)
    except EigenveilError:
        return dict.fromkeys(ranks, REFUSED)
    return {k: captured_share(components, matrix, k) for k, components in found.items()}


def measure(methods, jobs):
    """Return one line of the CSV for each table, epsilon, method and number of components."""
    tasks, found = all_tasks(methods), {}
    # Forked processes share the tables and the warning filters.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
        for task, shares in zip(tasks, pool.map(fit_shares, tasks), strict=True):
            name, epsilon, method, _, i = task
            for k, share in shares.items():
                found.setdefault((name, epsilon, k, method), []).append(share)
            if i == 0:
                tick()
    return [line(*cell, outcomes) for cell, outcomes in found.items()]


def line(name, epsilon, k, method, outcomes):
    shares = [0.0 if share in (LOST, REFUSED) else share for share in outcomes]
    return {
        "table": name,
        "rows": len(TABLES[name]),
        "columns": TABLES[name].shape[1],
        "epsilon": epsilon,
        "k": k,
        "method": method,
        "mean": round(statistics.fmean(shares), 6),
        "standard_error": round(statistics.stdev(shares) / math.sqrt(len(shares)), 6),
        "fits": len(shares),
        "lost": outcomes.count(LOST),
        "refused": outcomes.count(REFUSED),
    }


def stored(name):
    """Return the lines of a CSV that was kept."""
    path = RESULTS / f"{name}.csv"
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return [
            {key: NUMBERS.get(key, str)(text) for key, text in row.items()}
            for row in csv.DictReader(file)
        ]


# Summaries


def cell(row):
    return f"{row['table']}, {row['rows']} x {row['columns']}, eps {row['epsilon']:g}, k {row['k']}"


def key(row):
    return row["table"], row["epsilon"], row["k"]


def is_cut(row):
    return "/" in row["table"]


def best_of(lines):
    """Return the line of largest mean share for each cell."""
    return {key(row): row for row in sorted(lines, key=lambda row: row["mean"])}


def loss_beyond_chance(new, old):
    """Return by how much a cell is behind; 0 where that is little or may be chance."""
    loss = old["mean"] - new["mean"]
    error = math.hypot(old["standard_error"], new["standard_error"])
    return loss if loss > max(MAX_LOSS, MAX_STANDARD_ERRORS * error) else 0.0


def summarise_method(lines, before, judged):
    """Print shares and losses of one method, beside the best before in each cell."""
    by_rank = {k: [row["mean"] for row in lines if row["k"] == k] for k in RANKS}
    means = (f"{k}: {statistics.fmean(shares):.4f}" for k, shares in by_rank.items() if shares)
    print("mean share by k", *means, sep="  ")
    shares = [max(row["mean"], MIN_SHARE) for row in lines]
    say("1 - geometric mean of shares", 1 - geometric_mean(shares))
    losses = [max(1 - row["mean"], MIN_LOSS) for row in lines]
    limit = MAX_GEOMETRIC_LOSS if judged and not is_cut(lines[0]) else None
    say("geometric mean of losses", geometric_mean(losses), limit)
    some = [row for row in lines if is_cut(row) and row["epsilon"] == LARGE_EPSILON]
    if some:
        worst = min(some, key=lambda row: row["mean"])
        low = sum(row["mean"] < MIN_SHARE_OF_CUTS for row in some)
        say("cells below .90 at eps 3", low, 0 if judged else None, f"of {len(some)}")
        say("worst share at eps 3", worst["mean"], None, cell(worst))
    say("lost fits", sum(row["lost"] for row in lines), 0 if judged else None)
    say("refused fits", sum(row["refused"] for row in lines))
    pairs = [(row, before[key(row)]) for row in lines if key(row) in before]
    if not pairs:
        return
    ratios = [max(new["mean"], MIN_SHARE) / max(old["mean"], MIN_SHARE) for new, old in pairs]
    say("1 - geometric mean of share / best before", 1 - geometric_mean(ratios))
    behind = [(loss_beyond_chance(*pair), *pair) for pair in pairs]
    behind = sorted((found for found in behind if found[0]), key=lambda found: -found[0])
    say("cells behind the best", len(behind), 0 if judged else None, f"of {len(pairs)}")
    for loss, new, old in behind[: SHOWN_CELLS if judged else 0]:
        say(f"  {cell(new)}, loss", loss, None, f"{new['mean']:.3f}, {old['method']} before")


def summarise(lines, stored_before=None):
    """Print figures of every method; without figures of before, the methods are compared."""
    best = best_of(lines if stored_before is None else stored_before)
    sides = {method: [row for row in lines if row["method"] == method] for method in METHODS}
    if stored_before is None:
        sides["best of the four"] = [best[place] for place in sorted(best)]
    for name, some in sides.items():
        for words, cuts in (("whole", False), ("cut", True)):
            part = [row for row in some if is_cut(row) == cuts]
            if part:
                print(f"\n{name}, {words} tables, {len(part)} cells")
                summarise_method(part, best, stored_before is not None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--before", action="store_true", help="keep the shares to compare with")
    parser.add_argument("--only", help="tables, separated by commas; a name stands for its cuts")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else None
    for name, rows in all_tables():
        if chosen is None or name in chosen or name.split("/")[0] in chosen:
            TABLES[name] = rows
    start = time.perf_counter()
    lines = measure(METHODS if options.before else (PCA,), options.jobs)
    name = "components_before" if options.before else "components"
    others = [row for row in stored(name) if row["table"] not in TABLES]
    keep(name, sorted([*others, *lines], key=lambda r: (*key(r), METHODS.index(r["method"]))))
    summarise(lines, None if options.before else stored("components_before"))
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
