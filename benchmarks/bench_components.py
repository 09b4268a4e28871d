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

MAX_BEHIND, MAX_STANDARD_ERRORS = 0.02, 2.5  # a cell beyond both is behind the best method before
LARGE_EPSILON, MIN_SHARE_OF_CUTS = 3.0, 0.90
MAX_GEOMETRIC_LOSS = 0.0025
MIN_SHARE = 1e-3  # in logarithms of shares
MIN_LOSS = 1e-5  # in logarithms of losses
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
    order = {name: at for at, name in enumerate(TABLES)}
    cells = sorted(found, key=lambda c: (order[c[0]], *c[1:3], METHODS.index(c[3])))
    return [line(*cell, found[cell]) for cell in cells]


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


def summarise_shares(name, lines):
    """Print mean shares and losses of one method."""
    by_rank = {k: [row["mean"] for row in lines if row["k"] == k] for k in RANKS}
    means = "  ".join(f"{k}: {statistics.fmean(s):.4f}" for k, s in by_rank.items() if s)
    print(f"\n{name}, {len(lines)} cells; mean share for k = {means}")
    shares = [max(row["mean"], MIN_SHARE) for row in lines]
    print(f"1 - geometric mean of shares: {1 - geometric_mean(shares):.4f}")
    losses = [max(1 - row["mean"], MIN_LOSS) for row in lines]
    limit = MAX_GEOMETRIC_LOSS if name == PCA else None
    say("geometric mean of losses (1 - share)", geometric_mean(losses), limit)
    cuts = [row for row in lines if is_cut(row) and row["epsilon"] == LARGE_EPSILON]
    if cuts:
        low = [row for row in cuts if row["mean"] < MIN_SHARE_OF_CUTS]
        say("cells of cut tables below .90 at eps 3", len(low), 0 if name == PCA else None)
        worst = min(cuts, key=lambda row: row["mean"])
        print(f"worst of these: {worst['mean']:.3f} ({cell(worst)})")
    say("lost fits", sum(row["lost"] for row in lines), 0 if name == PCA else None)
    say("refused fits", sum(row["refused"] for row in lines))


def summarise(lines, before):
    """Print figures of every method; compare components with the best method before."""
    for method in METHODS:
        some = [row for row in lines if row["method"] == method]
        if some:
            summarise_shares(method, some)
            summarise_behind(some, best_of(before))
    if len({row["method"] for row in lines}) > 1:
        summarise_shares("best of these in each cell", list(best_of(lines).values()))


def summarise_behind(lines, best):
    """Print by how much cells are behind the best method before."""
    pairs = [(row, best[key(row)]) for row in lines if key(row) in best]
    if not pairs:
        return
    behind = sorted(
        (
            (old["mean"] - new["mean"], new, old)
            for new, old in pairs
            if old["mean"] - new["mean"]
            > max(
                MAX_BEHIND,
                MAX_STANDARD_ERRORS * math.hypot(old["standard_error"], new["standard_error"]),
            )
        ),
        key=lambda found: -found[0],
    )
    ratios = [max(n["mean"], MIN_SHARE) / max(o["mean"], MIN_SHARE) for n, o in pairs]
    print(f"1 - geometric mean of share / best before: {1 - geometric_mean(ratios):.4f}")
    print(f"cells behind the best before: {len(behind)} of {len(pairs)}")
    for by, new, old in behind[:5]:
        print(f"  {by:.3f}: {new['mean']:.3f}, {old['method']} {old['mean']:.3f} ({cell(new)})")


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
    keep(name, [*(row for row in stored(name) if row["table"] not in TABLES), *lines])
    summarise(lines, lines if options.before else stored("components_before"))
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
