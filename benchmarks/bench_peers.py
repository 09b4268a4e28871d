"""Components of the digits and of breast cancer by libraries that people use, told what they need.

`pip install diffprivlib 'opendp[scikit-learn]'` first: both are imported here and nowhere else.
They promise a pure epsilon, so eigenveil is run at the same pure epsilon too, and at delta = 1e-6, its
usual promise. diffprivlib and OpenDP are told ranges of the columns and a bound on the length of
rows; eigenveil is told nothing. The number is the variance that the components keep, relative to
ordinary PCA; mean of 20 releases, of OpenDP on the digits of 2, as each takes minutes.
"""

import sys
import time
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

from eigenveil import PrivatePCA
from eigenveil.numerics.metrics import captured_variance
from side_by_side import report

EPSILON, DELTA, REPEATS, SLOW_REPEATS = 1.0, 1e-6, 20, 2


def tables():
    """Rows, a range that all columns have, and the number of components."""
    cancer = load_breast_cancer().data
    return [
        ("digits, 1,797 x 64", load_digits().data, (0.0, 16.0), 5),
        # Divided by its own largest values, which are taken as public: ranges of 0 to 1.
        ("breast cancer, 569 x 30", cancer / cancer.max(axis=0), (0.0, 1.0), 3),
    ]


def sides(rows, bounds, k, epsilon, seed):
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
            for name, fit in sides(rows, bounds, k, EPSILON, seed):
                slow = name.startswith("OpenDP") and rows.shape[1] > 50
                if slow and seed >= SLOW_REPEATS:
                    continue
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
    report("peers", results)


if __name__ == "__main__":
    import opendp.prelude

    opendp.prelude.enable_features("contrib", "idealized-numerics", "honest-but-curious")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else REPEATS)
