"""How often intervals hold the truth: 90 % ones of releases of simulated tables.

The truth is that of the law that rows are drawn from, as the release saw it: within its limits,
about its centre. So sampling counts and clipping does not. Each entry is the share of tables and
columns (or pairs, components, coefficients) whose interval holds it; those of one table hang
together, so the standard error is that of the tables' own shares.

Rows are normal, except where a release is called "t" (elliptical, t of 5 degrees of freedom),
"skewed" (shifted exponential), "lognormal" or "zeros" (six of ten entries are zero). Features of
regressions may be skewed, as nothing is assumed about them. A column that was left out has no
interval, and its part of the mean belongs to the intercept.

    python benchmarks/bench_coverage.py [--tables 200] [--draws 100] [--only gauss ...]
"""

import argparse
import csv
from dataclasses import replace
from functools import cached_property

import numpy as np
from threadpoolctl import threadpool_limits

from eigenveil import ContinualCovariance, PrivateCovariance, PrivatePCA, PrivateRegression
from eigenveil.estimators.intervals import intervals
from eigenveil.exceptions import NothingFoundError
from seen import Limits, Truth
from side_by_side import RESULTS, report

SLOPES = np.array([1.0, -0.5, 0.25, 0.0, 0.5])
BUDGET = {"delta": 1e-6}
FIRST = 50_000  # seed: the forms of intervals were chosen on tables of smaller ones
REFERENCE = 300_000  # rows that stand for the law
KEYS = ("release", "rows", "epsilon", "interval")


class Law:
    """Rows of mean 1 in every column, with a spectrum along fixed components."""

    def __init__(self, *spectrum, kind="normal"):
        self.spectrum, self.kind, self.d = np.array(spectrum), kind, len(spectrum)
        self.basis = np.linalg.qr(np.random.default_rng(7).standard_normal((self.d, self.d)))[0]
        self.covariance = (self.basis * self.spectrum) @ self.basis.T

    def rows(self, n, seed):
        """Draw a table."""
        random = np.random.default_rng(seed)
        along = random.standard_normal((n, self.d))
        if self.kind == "t":  # of unit variance
            along *= np.sqrt(3 / random.chisquare(5, size=(n, 1)))
        if self.kind == "skewed":
            along = random.exponential(size=(n, self.d)) - 1
        rows = along @ (self.basis * np.sqrt(self.spectrum)).T + 1.0
        if self.kind == "lognormal":
            return np.exp(rows / np.sqrt(self.covariance.diagonal()))
        if self.kind == "zeros":
            return np.where(random.random(rows.shape) < 0.6, 0.0, np.exp(rows / 2))
        return rows

    @cached_property
    def reference(self):
        """Many rows, whose moments are about those of the law."""
        return self.rows(REFERENCE, 0)


APART = Law(8.0, 4.0, 2.0, 1.0, 0.5)
EQUAL = Law(5.0, 1.0, 1.0, 1.0, 1.0)
NEAR = Law(5.0, 1.2, 1.0, 0.8, 0.5)
WIDE = Law(*np.geomspace(8.0, 0.25, 12))
WIDER = Law(*np.geomspace(8.0, 0.25, 40))
TAILS, SKEWED, LOGNORMAL, ZEROS = (
    Law(8.0, 4.0, 2.0, 1.0, 0.5, kind=kind) for kind in ("t", "skewed", "lognormal", "zeros")
)


def holds(ends, truth):
    inside = (ends[..., 0] <= truth) & (truth <= ends[..., 1])
    return inside[np.isfinite(ends[..., 0])]


def signed(components, ends):
    """The true components, with the signs of the intervals."""
    middle = ends.mean(axis=-1)
    return components * np.sign(np.einsum("ij,ij->i", components, middle))[:, None]


def loading_hits(basis, found, k):
    """First and last of k components, and the largest loading of the last."""
    truth = signed(basis.T[:k], found.loadings[:k])
    most = np.abs(truth[-1]).argmax()
    return {
        "first loadings": holds(found.loadings[0], truth[0]),
        f"loadings {k}": holds(found.loadings[k - 1], truth[k - 1]),
        f"largest of loadings {k}": holds(found.loadings[k - 1, most], truth[k - 1, most]),
    }


def covariance_hits(law, fitted):
    found = intervals(fitted.release_)
    limits = Limits.of(fitted)
    stated = fitted.release_.settings["row_norm"] or np.inf
    limits = replace(limits, row_norm=min(limits.row_norm, stated))
    truth = Truth.of(law.reference, limits)
    values, vectors = np.linalg.eigh(truth.covariance)
    spectrum = values[::-1]
    pairs = np.triu_indices(law.d, 1)
    return {
        "means": holds(found.means, truth.mean),
        "variances": holds(found.variances, truth.covariance.diagonal()),
        "correlations": holds(found.correlations[pairs], truth.correlation[pairs]),
        "first eigenvalue": holds(found.eigenvalues[:1], spectrum[:1]),
        "last eigenvalue": holds(found.eigenvalues[-1:], spectrum[-1:]),
        "eigenvalues": holds(found.eigenvalues, spectrum),
        **(loading_hits(vectors[:, ::-1], found, 3) if (np.diff(law.spectrum) < 0).all() else {}),
    }


def covariance(mechanism, n, epsilon, law=APART, **given):
    def hits(seed, draws):
        estimator = PrivateCovariance(
            epsilon=epsilon, **BUDGET, mechanism=mechanism, random_state=seed, **given
        )
        return covariance_hits(law, estimator.fit(law.rows(n, seed)))

    return n, epsilon, hits


def continual(n, epsilon):
    def hits(seed, draws):
        days = ContinualCovariance(
            horizon=30,
            epsilon=epsilon,
            **BUDGET,
            row_norm=14.0,
            centre=np.ones(APART.d),
            random_state=seed,
        )
        for part in np.array_split(APART.rows(n, seed), 5):
            days.partial_fit(part)
        return covariance_hits(APART, days)

    return n, epsilon, hits


def components(n, epsilon):
    def hits(seed, draws):
        pca = PrivatePCA(2, epsilon=epsilon, **BUDGET, random_state=seed).fit(APART.rows(n, seed))
        found = intervals(pca.release_, draws=draws, seed=seed)
        truth = signed(APART.basis.T[:2], found.loadings)
        beside = np.abs(APART.basis[:, 2]).argmax()  # the column of the next component
        return loading_hits(APART.basis, found, 2) | {
            "loadings towards the next": holds(found.loadings[:, beside], truth[:, beside])
        }

    return n, epsilon, hits


def regression(features, n, epsilon):
    def hits(seed, draws):
        random = np.random.default_rng(seed)
        rows = features(n, seed, random)
        target = rows @ SLOPES + 2 * random.standard_normal(n)
        model = PrivateRegression(epsilon=epsilon, **BUDGET, random_state=seed).fit(rows, target)
        kept = np.isfinite(model.scale_)
        return {
            "coefficients": holds(model.coef_interval_[kept], SLOPES[kept]),
            "largest coefficient": holds(model.coef_interval_[:1][kept[:1]], SLOPES[:1][kept[:1]]),
            "intercept": holds(model.intercept_interval_[None], SLOPES[~kept].sum()),
        }

    return n, epsilon, hits


def regressions(features):
    return [regression(features, n, e) for n, e in ((5000, 0.5), (5000, 1.0), (20_000, 1.0))]


CELLS = {
    "gauss": [
        covariance("gauss", n, e, row_norm=14.0)
        for n, e in ((2000, 4.0), (20_000, 0.5), (20_000, 1.0))
    ],
    "gauss, near eigenvalues": [covariance("gauss", 2000, 4.0, NEAR, row_norm=12.0)],
    "gauss, equal eigenvalues": [covariance("gauss", 2000, 4.0, EQUAL, row_norm=12.0)],
    "gauss, 12 columns": [covariance("gauss", 5000, 2.0, WIDE, row_norm=18.0)],
    "cleaned": [covariance("cleaned", 2000, 4.0, row_norm=14.0)],
    "continual": [continual(20_000, 1.0)],
    "default": [covariance("auto", n, e) for n, e in ((2000, 4.0), (20_000, 1.0))],
    "default, same units": [covariance("auto", 2000, 4.0, scale="same")],
    "default, t": [covariance("auto", n, e, TAILS) for n, e in ((2000, 4.0), (20_000, 1.0))],
    "default, skewed": [covariance("auto", n, e, SKEWED) for n, e in ((2000, 4.0), (20_000, 1.0))],
    "default, lognormal": [covariance("auto", 20_000, e, LOGNORMAL) for e in (1.0, 4.0)],
    "default, zeros": [covariance("auto", 20_000, e, ZEROS) for e in (1.0, 4.0)],
    "components": [components(2000, 4.0)],
    "gauss, drowned": [covariance("gauss", 5000, 1.0, WIDER, row_norm=25.0)],
    "gauss, t": [covariance("gauss", 20_000, 4.0, TAILS, row_norm=40.0)],
    "regression": regressions(lambda n, seed, random: APART.rows(n, seed + 10**6)),
    "regression, independent": regressions(lambda n, s, random: random.normal(1.0, size=(n, 5))),
    "regression, skewed": regressions(lambda n, s, random: random.exponential(size=(n, 5))),
}


def measured(hits, tables, draws):
    """Return the shares of each kind of interval, table by table."""
    found = {}
    for seed in range(FIRST, FIRST + tables):
        try:
            each = hits(seed, draws)
        except NothingFoundError:
            continue
        for what, inside in each.items():
            if inside.size:
                found.setdefault(what, []).append(inside.mean())
    return found


def kept_lines():
    path = RESULTS / "coverage.csv"
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    return {tuple(line[key] for key in KEYS): line for line in lines}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--only", nargs="*", default=list(CELLS), choices=list(CELLS))
    given = parser.parse_args()
    lines = kept_lines()
    with threadpool_limits(1):
        for name in given.only:
            for n, epsilon, hits in CELLS[name]:
                for what, shares in measured(hits, given.tables, given.draws).items():
                    key = (name, str(n), str(epsilon), what)
                    line = lines.setdefault(key, dict(zip(KEYS, key, strict=True)))
                    line["tables"], line["covered"] = len(shares), round(float(np.mean(shares)), 4)
                    error = np.std(shares) / np.sqrt(len(shares))
                    line["standard_error"] = round(float(error), 4)
                    print(*line.values(), flush=True)
    columns = (*KEYS, "tables", "covered", "standard_error")
    order = {name: i for i, name in enumerate(CELLS)}
    current = (line for line in lines.values() if line["release"] in order)
    whole = sorted(current, key=lambda line: order[line["release"]])
    report("coverage", [{name: line.get(name, "") for name in columns} for line in whole])


if __name__ == "__main__":
    main()
