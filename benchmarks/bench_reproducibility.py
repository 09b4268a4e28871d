"""Whether what releases state of single components is true, on real tables and images.

Components as they are (``row_norm="private"``), of unit rows (``mechanism="tangent"``, what the
default takes of most tables), both with delta = 1e-6, of unit rows at a pure epsilon
(``mechanism="wishart"``), and of standardised columns (``scale="private"``); k up to 6. Every
release is compared with the eigenvectors of the very matrix that it added noise to, recorded as the
mechanism took it; of standardised columns after division by the released standard deviations.
`results/reproducibility.csv` has
one line for each table, kind, budget and rank:

- stated, actual: mean over releases of the stated and of the actual squared cosine with the
  component of the same rank without noise;
- span: mean of `reliability_`, which is about the span of all;
- closed: share of releases in which the rank is the last one of a group that is told apart;
- group_stated, group_actual: mean share of such groups in the span of the same ranks;
- signs, signs_right: number of signs called certain, and the share of them that is right.

Refused fits are counted and left out. A small table's releases differ by centre and radius too:
each is compared with its own matrix.

    python benchmarks/bench_reproducibility.py [--releases 30] [--jobs 2] [--only bfi,digits]
"""

import argparse
import csv
import time
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from eigenveil import PrivatePCA
from eigenveil.exact import MomentProducts
from eigenveil.exceptions import EigenveilError
from eigenveil.mechanisms import AnalyzeGauss, GaussCov, WishartCov
from real_tables import DATA, real_tables
from side_by_side import RESULTS, keep

KINDS = {
    "as they are": {"row_norm": "private"},
    "unit rows": {"mechanism": "tangent"},
    "pure": {"mechanism": "wishart", "delta": None},
    "standardised": {"scale": "private"},
}
EPSILONS, DELTA, MOST = (0.5, 1.0, 3.0), 1e-6, 6
MARGIN = 0.05  # by which a statement may exceed what is true
CLEAR = 0.97  # actual squared cosine from which statements should be high
NAME = "reproducibility"


def tables():
    """Return {name: rows}: real tables, digits, and images of 14 x 14 means of pixels."""
    found = {name: rows for name, (rows, _) in real_tables().items()}
    found["digits"] = load_digits().data
    if (path := DATA / "mnist.npz").is_file():
        with np.load(path) as stored:
            pixels = stored["x_train"].astype(np.float64)
        found["mnist 14 x 14"] = pixels.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(-1, 196)
    return found


class Recorder:
    """The second moments that mechanisms add noise to, while it is entered."""

    def __enter__(self):
        self.moments = []
        self.kept = {kind: kind.perturb for kind in (GaussCov, WishartCov, AnalyzeGauss)}
        for kind, perturb in self.kept.items():
            kind.perturb = self._recording(perturb)
        return self

    def __exit__(self, *_):
        for kind, perturb in self.kept.items():
            kind.perturb = perturb

    def _recording(self, perturb):
        def recorded(mechanism, query, noise):
            if isinstance(query, MomentProducts):
                self.moments.append(query.times(np.eye(query.value.units.size)))
            else:
                self.moments.append(query.value.to_float())
            return perturb(mechanism, query, noise)

        return recorded


def measured(rows, seed, **stated):
    """Return arrays by rank of one release: stated, actual, span, groups and signs."""
    with Recorder() as recorder:
        found = PrivatePCA(random_state=seed, **({"delta": DELTA} | stated)).fit(rows)
    recorded = recorder.moments[0]
    if found.mechanism_ == "correlation":  # the last is that of clipped rows
        deviations = found.scale_ / found.release_.arrays["clipping_scale"]
        recorded = recorder.moments[-1] / np.outer(deviations, deviations)
    values, vectors = np.linalg.eigh(recorded)
    assert len(values) == found.components_.shape[1] == len(recorded)
    truth = vectors[:, ::-1].T
    components, k = found.components_, len(found.components_)
    cosines = components @ truth[:k].T
    actual = cosines**2
    closed, together, held = np.zeros(k), np.full(k, np.nan), np.full(k, np.nan)
    for group in found.component_groups_:
        if group.closed:
            own = slice(group.first - 1, group.last)
            closed[group.last - 1], together[group.last - 1] = 1, group.share
            held[group.last - 1] = actual[own, own].sum() / (group.last - group.first + 1)
    certain = np.abs(components) > 3 * found.loading_errors_
    along = np.sign(cosines.diagonal())[:, None] * truth[:k]
    right = certain & (along * components > 0)
    return np.array(
        [
            found.reproducibility_,
            actual.diagonal(),
            found.reliability_,
            closed,
            together,
            held,
            certain.sum(axis=1),
            right.sum(axis=1),
        ]
    )


def lines(job):
    """Return the lines of one table, kind and budget."""
    name, rows, kind, epsilon, releases = job
    k = min(MOST, rows.shape[1])
    runs, refused, reason = [], 0, ""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(1, releases + 1):
            try:
                runs.append(measured(rows, seed, n_components=k, epsilon=epsilon, **KINDS[kind]))
            except EigenveilError as problem:
                refused, reason = refused + 1, str(problem)
        print(f"{name}, {kind}, epsilon {epsilon:g}: {refused} refused {reason[:60]}", flush=True)
        if not runs:
            return []
        stack = np.array(runs)
        means = np.nanmean(stack, axis=0)
    cells = []
    for j in range(k):
        stated, actual, span, closed, together, held, certain, right = means[:, j].tolist()
        cells.append(
            {
                "table": name,
                "rows": len(rows),
                "columns": rows.shape[1],
                "kind": kind,
                "epsilon": epsilon,
                "rank": j + 1,
                "releases": len(runs),
                "refused": refused,
                "stated": round(stated, 4),
                "median_stated": round(float(np.nanmedian(stack[:, 0, j])), 4),
                "actual": round(actual, 4),
                "span": round(span, 4),
                "closed": round(closed, 4),
                "group_stated": round(together, 4),
                "group_actual": round(held, 4),
                "signs": round(certain * len(runs)),
                "signs_right": round(right / certain, 4) if certain else "",
            }
        )
    return cells


def summarise(cells):
    """Print what is wanted of each kind beside what was measured."""
    for kind in [*KINDS, ""]:
        some = [c for c in cells if kind in ("", c["kind"]) and not np.isnan(c["stated"])]
        if not some:
            continue
        stated, actual = (np.array([c[name] for c in some]) for name in ("stated", "actual"))
        print(f"\n{kind or 'all'}: {len(some)} of {len(cells)} cells")
        print(f"  actual >= stated - {MARGIN}: {np.mean(actual >= stated - MARGIN):.3f} (.95)")
        high = [c["median_stated"] for c in some if c["actual"] > CLEAR]
        if high:
            print(f"  median stated where actual > {CLEAR}: {np.median(high):.4f} (.98)")
        print(f"  mean stated {stated.mean():.3f}, actual {actual.mean():.3f}")
        groups = [c for c in some if c["closed"] > 0]
        kept = [c["group_actual"] >= c["group_stated"] - MARGIN for c in groups]
        if kept:
            print(f"  groups that hold: {np.mean(kept):.3f} of {len(kept)}")
        signs = sum(c["signs"] for c in some)
        right = sum(c["signs"] * c["signs_right"] for c in some if c["signs"])
        if signs:
            print(f"  signs right: {right / signs:.4f} of {signs}")
        worst = sorted(some, key=lambda c: c["actual"] - c["stated"])[:5]
        for c in worst:
            print(
                f"  {c['table']}, {c['kind']}, epsilon {c['epsilon']:g}, rank {c['rank']}: "
                f"stated {c['stated']:.2f}, actual {c['actual']:.2f}"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--releases", type=int, default=30, help="of each cell")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", default="", help="tables, separated by commas; keeps nothing")
    parser.add_argument("--again", action="store_true", help="summarise the CSV that was kept")
    options = parser.parse_args()
    if options.again:
        with (RESULTS / f"{NAME}.csv").open(newline="") as file:
            text = ("table", "kind")
            rows = csv.DictReader(file)
            cells = [{k: v if k in text else float(v or "nan") for k, v in r.items()} for r in rows]
        return summarise(cells)
    start = time.perf_counter()
    only = [name for name in options.only.split(",") if name]
    jobs = [
        (name, rows, kind, epsilon, options.releases)
        for name, rows in tables().items()
        if not only or name in only
        for kind in KINDS
        for epsilon in EPSILONS
    ]
    with ProcessPoolExecutor(options.jobs) as pool:
        cells = [cell for found in pool.map(lines, jobs) for cell in found]
    if not only:
        keep(NAME, cells)
    summarise(cells)
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
