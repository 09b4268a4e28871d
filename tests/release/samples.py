"""Releases made by hand, so that every number in a picture is known."""

import numpy as np

from eigenveil import Release
from eigenveil.privacy import Adjacency, Budget, Gaussian, Guarantee

HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a & 'b'", "$x_{1$")


def guarantee(**changes):
    fields = {
        "budget": Budget(epsilon=1.0, delta=1e-6),
        "cost": Gaussian(0.2),
        "adjacency": Adjacency.REPLACE_ONE,
        "bounds": ("rows within 1",),
    }
    return Guarantee(**(fields | changes))


def settings(d, **changes):
    fields = {
        "n_features": d,
        "n_rows": 1000,
        "row_norm": 1.0,
        "bounds": None,
        "assume_centered": False,
        "on_invalid": "raise",
        "noise_scale": 0.01,
        "noise_floor": 0.1,
        "feature_names": None,
    }
    return fields | changes


def components(
    rows,
    eigenvalues,
    *,
    reliability=None,
    clear=None,
    scale=None,
    mixing=None,
    errors=None,
    simulated=False,
    **changes,
):
    rows = np.asarray(rows, dtype=float)
    k, d = rows.shape
    single = {}
    if mixing is not None:
        errors = np.full((k, d), 0.1) if errors is None else errors
        single = {"component_mixing": np.asarray(mixing, dtype=float), "loading_errors": errors}
    positive = np.maximum(np.asarray(eigenvalues, dtype=float), 0)
    return Release(
        kind="pca",
        mechanism="tangent",
        guarantee=guarantee(simulated=simulated),
        settings=settings(d, **({"matrix_floor": 0.1} | changes)),
        arrays={
            "components": rows,
            "eigenvalues": np.asarray(eigenvalues, dtype=float),
            "explained_variance_ratio": positive / max(1.0, float(positive.sum())),
            "reliability": np.full(k, 0.9) if reliability is None else np.asarray(reliability),
            "distinguishable": np.ones(k) if clear is None else np.asarray(clear, dtype=float),
            "scale": np.ones(d) if scale is None else np.asarray(scale, dtype=float),
            **single,
        },
    )


def covariance(matrix, *, simulated=False, noisy=None, **changes):
    matrix = np.asarray(matrix, dtype=float)
    arrays = {"covariance": matrix}
    if noisy is not None:
        arrays["noisy_eigenvalues"] = np.asarray(noisy, dtype=float)
    return Release(
        kind="covariance",
        mechanism="cleaned",
        guarantee=guarantee(simulated=simulated),
        settings=settings(len(matrix), **changes),
        arrays=arrays,
    )


def regression(coef, intercept, half, *, shares, **changes):
    """Return a regression; half the width of the intercept's interval is the last of a target."""
    coef, intercept = np.asarray(coef, dtype=float), np.asarray(intercept, dtype=float)
    whole = np.column_stack([coef, intercept])
    half = np.asarray(half, dtype=float)
    d = coef.shape[1]
    return Release(
        kind="regression",
        mechanism="linear",
        guarantee=guarantee(),
        settings=settings(d, **({"shares": shares, "interval_level": 0.9} | changes)),
        arrays={
            "coef": coef,
            "intercept": intercept,
            "interval": np.stack([whole - half, whole + half], axis=-1),
            "noise_share": np.full(coef.shape, 0.5),
            "location": np.zeros(d),
            "scale": np.ones(d),
        },
    )
