"""Digits and breast cancer, mean of 20: ours against the noise as published at the same budget.

The published form puts N(0, s^2) on every entry of the upper triangle and calibrates by
sqrt(2 ln(1.25/delta))/epsilon, which is valid for epsilon < 1 only; it is given our centre, our
clipping and our shares, so that the ratio shows the noise alone. Covariances are clipped like
components. Breast cancer is standardised by its own mean and spread, as the literature does; a
private release could not do that.
"""

import math

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

from eigenveil import PrivateCovariance, PrivatePCA
from eigenveil.numerics import captured_variance, relative_error, top_eigenpairs
from side_by_side import report

DELTA, REPEATS = 1e-6, 20


def tables():
    cancer = load_breast_cancer().data
    standard = (cancer - cancer.mean(axis=0)) / cancer.std(axis=0)  # a benchmark may look
    return [("digits", load_digits().data, (0, 16), 5), ("breast cancer", standard, (-3, 3), 3)]


def clip_length(rows, bounds):
    """Return the root of the mean squared length of rows that are uniform in their ranges."""
    return (bounds[1] - bounds[0]) / 2 * math.sqrt(rows.shape[1] / 3)


def as_published(rows, epsilon, bounds, k, seed):
    """Our centre and clipping, the published noise."""
    norm = clip_length(rows, bounds)
    ours = PrivatePCA(
        k,
        epsilon=epsilon,
        delta=DELTA,
        bounds=bounds,
        row_norm=norm,
        mechanism="analyze-gauss",
        centring="mean",
        random_state=seed,
    ).fit(rows)
    moved = np.clip(rows, *bounds) - ours.mean_
    moved *= np.minimum(1, norm / np.linalg.norm(moved, axis=1))[:, None]
    share = math.sqrt(0.9)
    sigma = (
        math.sqrt(2) * norm**2 / len(rows) * math.sqrt(2 * math.log(1.25 / DELTA)) / epsilon / share
    )
    upper = np.triu(np.random.default_rng(seed).standard_normal((rows.shape[1],) * 2) * sigma)
    noisy = moved.T @ moved / len(rows) + upper + np.triu(upper, 1).T
    return noisy, top_eigenpairs(noisy, k)[1]


def main():
    results = []
    for name, rows, bounds, k in tables():
        truth = np.cov(rows.T, bias=True)
        for epsilon in (0.5, 1.0, 2.0):
            norm = clip_length(rows, bounds)
            budget = {"epsilon": epsilon, "delta": DELTA, "bounds": bounds, "row_norm": norm}
            directions = budget | {"mechanism": "analyze-gauss", "centring": "mean"}
            figures = []
            for seed in range(REPEATS):
                matrix, components = as_published(rows, epsilon, bounds, k, seed)
                pca = PrivatePCA(k, **directions, random_state=seed).fit(rows)
                added = PrivatePCA(k, **directions, adjacency="add-remove", random_state=seed).fit(
                    rows
                )
                covariance, cleaned = (
                    PrivateCovariance(**budget, mechanism=mechanism, random_state=seed).fit(rows)
                    for mechanism in ("gauss", "cleaned")
                )
                figures.append(
                    (
                        captured_variance(components, truth),
                        captured_variance(pca.components_, truth),
                        captured_variance(added.components_, truth),
                        relative_error(matrix, truth),
                        relative_error(covariance.covariance_, truth),
                        relative_error(cleaned.covariance_, truth),
                    )
                )
            means = np.mean(figures, axis=0).tolist()
            published, ours, add_remove, published_error, error, cleaned_error = means
            results.append(
                {
                    "table": name,
                    "k": k,
                    "epsilon": epsilon,
                    "captured, as published": published,
                    "captured": ours,
                    "captured, add-remove": add_remove,
                    "error, as published": published_error,
                    "error, gauss": error,
                    "error, cleaned": cleaned_error,
                    "gauss / published": error / published_error,
                    "cleaned / published": cleaned_error / published_error,
                }
            )
    report("accuracy", results)


if __name__ == "__main__":
    main()
