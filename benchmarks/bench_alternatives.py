"""Components of the digits and of breast cancer by libraries that people use, told what they need.

`pip install diffprivlib 'opendp[scikit-learn]'` first.
They promise a pure epsilon, so eigenveil is run at the same pure epsilon too, and at delta = 1e-6,
its usual promise. diffprivlib and OpenDP are told ranges of the columns and a bound on the length
of rows; eigenveil is told nothing. The R package dppca is not run: its directions are those of Kim,
Jung 2025, whose release is here as their program prints it. The number is the variance that the
components keep, relative to ordinary PCA; mean of 20 releases. OpenDP is left out on the digits,
where one fit of 64 columns took more than a minute.
"""

import sys
import time
import warnings
from functools import cache
from types import SimpleNamespace

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

from eigenveil import PrivatePCA
from eigenveil.numerics.metrics import captured_variance
from eigenveil.reproduce.printed.kim_jung import all_pairs, kim_jung
from side_by_side import report

EPSILON, DELTA, REPEATS, WIDEST_OPENDP = 1.0, 1e-6, 20, 50


def tables():
    """Rows, a range that all columns have, and the number of components."""
    cancer = load_breast_cancer().data
    return [
        ("digits, 1,797 x 64", load_digits().data, (0.0, 16.0), 5),
        # Divided by its own largest values, which are taken as public: ranges of 0 to 1.
        ("breast cancer, 569 x 30", cancer / cancer.max(axis=0), (0.0, 1.0), 3),
    ]


@cache
def pairs(table):
    """The mean of all pairs of rows, which does not depend on a seed."""
    return all_pairs(next(rows for name, rows, _, _ in tables() if name == table))


def sides(table, rows, bounds, k, epsilon, seed):
    """Yield names and functions that return components."""
    import diffprivlib
    import opendp.prelude as dp

    n, d = rows.shape
    middle, half = sum(bounds) / 2, (bounds[1] - bounds[0]) / 2
    length = half * np.sqrt(d)  # of rows about the middle of their ranges
    yield (
        "eigenveil, told nothing",
        lambda: PrivatePCA(k, epsilon=epsilon, delta=DELTA, random_state=seed).fit(rows),
    )
    yield (
        "eigenveil, pure epsilon, told nothing",
        lambda: PrivatePCA(k, epsilon=epsilon, random_state=seed).fit(rows),
    )
    yield (
        "diffprivlib, pure epsilon, told ranges and length",
        lambda: diffprivlib.models.PCA(
            k,
            epsilon=epsilon,
            bounds=([bounds[0] - middle] * d, [bounds[1] - middle] * d),
            data_norm=length,
            random_state=seed,
        ).fit(rows - middle),
    )
    yield (
        "Kim, Jung 2025, as in R dppca, told nothing",
        lambda: SimpleNamespace(
            components_=kim_jung(pairs(table), n, k, epsilon, DELTA, np.random.default_rng(seed))
        ),
    )
    if d > WIDEST_OPENDP:
        return
    yield (
        "OpenDP, pure epsilon, told length and middle",
        lambda: dp.sklearn.decomposition.PCA(
            epsilon=epsilon, row_norm=length, n_samples=n, n_features=d, n_components=k
        ).fit(rows - middle),
    )


def main(repeats):
    results = []
    for table, rows, bounds, k in tables():
        truth = np.cov(rows.T, bias=True)
        kept, seconds = {}, {}
        for seed in range(repeats):
            for name, fit in sides(table, rows, bounds, k, EPSILON, seed):
                start = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # about budgets, of the others
                    components = np.asarray(fit().components_)[:k]
                seconds.setdefault(name, []).append(time.perf_counter() - start)
                orthonormal = np.linalg.qr(components.T)[0].T
                kept.setdefault(name, []).append(captured_variance(orthonormal, truth))
        results += [
            {
                "table": table,
                "k": k,
                "epsilon": EPSILON,
                "side": name,
                "repeats": len(values),
                "captured": float(np.mean(values)),
                "standard error": float(np.std(values, ddof=1) / np.sqrt(len(values))),
                "median seconds": float(np.median(seconds[name])),
            }
            for name, values in kept.items()
        ]
    report("alternatives", results)


if __name__ == "__main__":
    try:
        import diffprivlib  # noqa: F401
        import opendp.prelude
    except ImportError:
        sys.exit(print("left out: pip install diffprivlib 'opendp[scikit-learn]' first"))
    opendp.prelude.enable_features("contrib", "idealized-numerics", "honest-but-curious")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else REPEATS)
