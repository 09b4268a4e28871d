"""Seeded fits of every mechanism, budget, neighbouring relation, centre and kind of table.

Every entry is a function without arguments that returns an estimator or a release. Mechanisms are
named by string, and names come from doors only, so that moving code leaves this file as it is.
"""

import io
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

import eigenveil
from eigenveil import (
    ContinualCovariance,
    ContinualPCA,
    PrivateCovariance,
    PrivatePCA,
    PrivatePreprocessor,
    PrivateRegression,
    SpikedModel,
    StreamingPCA,
)

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((4000, 10)) @ RNG.standard_normal((10, 10)) + 5
TARGET = ROWS @ RNG.standard_normal(10) + RNG.standard_normal(4000)
HOLES = np.where(RNG.random(ROWS.shape) < 0.05, np.nan, ROWS)
TOGETHER = np.where(RNG.random((4000, 1)) < 0.3, np.r_[[np.nan] * 3, [0.0] * 7], 0.0) + ROWS
PERSONS = np.repeat(np.arange(1000), 4)
UNITS = np.exp(0.7 * ROWS / 5) * 10.0 ** np.arange(-3, 7)  # skewed, in ten units
MANY = RNG.standard_normal((60_000, 5)) * [5, 3, 1, 1, 1]
MOST = np.tile(MANY, (4, 1))
WIDE = RNG.standard_normal((300, 6000)) + 3 * RNG.standard_normal((300, 1))
LEVELS = np.asarray(["north", "east", "south"])[RNG.integers(0, 3, 4000)]

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "random_state": 1}
LARGE = {"epsilon": 8.0, "delta": 1e-6, "random_state": 1}
RHO = {"rho": 0.1, "random_state": 1}
PURE = {"epsilon": 2.0, "random_state": 1}
BOUNDED = {"row_norm": 30.0}

GAUSSIAN_COMPONENTS = ("analyze-gauss", "spherical", "tangent", "exponential", "power", "oja")
PURE_COMPONENTS = ("wishart", "exponential", "laplace", "correlation")
ONE_PASS = ("oja", "adaptive-oja", "tangent-oja")
GAUSSIAN_COVARIANCES = (
    "adaptive-cleaned",
    "cleaned",
    "elliptical",
    "adaptive",
    "coinpress",
    "exponential",
    "gauss",
    "projection",
    "separate",
    "zero",
)
PURE_COVARIANCES = ("wishart", "adaptive", "exponential", "laplace", "separate", "zero")


def components(rows=ROWS, k=2, budget=BUDGET, groups=None, **options):
    return PrivatePCA(k, **budget, **options).fit(rows, groups=groups)


def covariance(rows=ROWS, budget=BUDGET, groups=None, **options):
    return PrivateCovariance(**budget, **options).fit(rows, groups=groups)


def regression(rows=ROWS, target=TARGET, budget=BUDGET, groups=None, **options):
    return PrivateRegression(**budget, **options).fit(rows, target, groups=groups)


def stream(rows=ROWS, days=1, persons=None, budget=LARGE, **options):
    found = StreamingPCA(2, **budget, **options)
    owners = [None] * days if persons is None else np.array_split(persons, days)
    for part, ids in zip(np.array_split(rows, days), owners, strict=True):
        found.partial_fit(part, groups=ids) if ids is not None else found.partial_fit(part)
    return found


def running(kind, days=4, budget=LARGE, persons=None, **options):
    options = {"horizon": 8, "row_norm": 30.0, "centre": 5.0} | options
    found = kind(**budget, **options)
    owners = [None] * days if persons is None else np.array_split(persons, days)
    for part, ids in zip(np.array_split(ROWS, days), owners, strict=True):
        found.partial_fit(part, groups=ids) if ids is not None else found.partial_fit(part)
    return found


def from_file(name, write, fit=components, **reading):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        write(path)
        return fit(eigenveil.open_rows(path, **reading))


def csv_text(rows):
    text = io.StringIO()
    names = ",".join(f"c{j}" for j in range(rows.shape[1]))
    np.savetxt(text, rows, delimiter=",", header=names, comments="", fmt="%.17g")
    return text.getvalue()


def parquet(path):
    import pandas as pd

    frame = pd.DataFrame(ROWS, columns=[f"c{j}" for j in range(10)])
    frame.assign(place=LEVELS).to_parquet(path)


def frame(rows=ROWS, **columns):
    import pandas as pd

    named = pd.DataFrame(rows, columns=[f"c{j}" for j in range(rows.shape[1])])
    return named.assign(**columns)


def dask_rows():
    import dask.array as da

    return da.from_array(ROWS, chunks=(700, 10))


def dask_fit(fit=components):
    import dask

    with dask.config.set(scheduler="synchronous"):
        return fit(dask_rows())


def strict_rows():
    import array_api_strict

    return array_api_strict.asarray(ROWS)


def matrices(path):
    np.save(path, ROWS)


def sparse_rows():
    import scipy.sparse as sp

    return sp.csr_array(np.where(np.abs(ROWS) > 5, ROWS, 0.0))


def federation(kind, **options):
    from eigenveil.federated import Agreement, Limits, Owner, OwnerSettings, simulate

    agreed = Agreement(
        federation="trial",
        kind=kind,
        n_columns=10,
        n_components=2,
        owners={"north": Limits(), "south": Limits()},
        simulated=True,
        **options,
    )
    parts = {"north": ROWS[:2500], "south": ROWS[2500:]}
    owners = {
        name: Owner(
            OwnerSettings(owner=name, federation="trial", epsilon=4.0, delta=1e-6, random_state=i),
            part,
        )
        for i, (name, part) in enumerate(parts.items())
    }
    return simulate(agreed, owners)


def secure(**changes):
    from eigenveil.federated import simulate
    from tests.federated.secure.parties import agreement, simulated, tables

    rows = tables()
    agreed = agreement(rows, **changes)
    return simulate(agreed, simulated(agreed, rows))


def spiked():
    """Return components of the model-based mechanism, which only Python configures."""
    from eigenveil.papers.spiked import Spiked

    model = SpikedModel(
        rank=2, smallest_spike=8.0, largest_spike=40.0, noise_variance=1.0, form="quantile"
    )
    table = RNG.standard_normal((20_000, 10)) * ([6.0, 4.0] + [1.0] * 8)
    return PrivatePCA(mechanism=Spiked(model=model), centring="none", **LARGE).fit(table)


FITS = {}


def add(name, function, /, *arguments, **options):
    assert name not in FITS, name
    FITS[name] = partial(function, *arguments, **options)


# Components
for rows in (60, 1000, 4000):
    add(f"components of {rows} rows", components, ROWS[:rows])
add("components, all", components, k=None, budget=LARGE)
add("components, share", components, k=0.7, budget=LARGE)
add("components, private number", components, k="private", budget=LARGE)
add("components, rho", components, budget=RHO)
add("components, pure", components, budget=PURE)
add("components, add or remove", components, adjacency="add-remove")
add("components, pure, add or remove", components, budget=PURE, adjacency="add-remove")
add("components, row norm", components, **BOUNDED)
add("components, private row norm", components, row_norm="private")
add("components, bounds", components, bounds=(-40, 50))
add("components, bounds and mean", components, bounds=(-40, 50), centring="mean")
for centring in ("none", "mean", "located", "paired"):
    add(f"components, centre {centring}", components, centring=centring, row_norm=40.0)
add("components, scales stated", components, scale=np.linspace(1, 3, 10))
add("components, scales private", components, UNITS, scale="private", budget=LARGE)
add("components, scales private, few rows", components, ROWS[:900], scale="private")
add("components, scales private, pure", components, scale="private", budget=PURE)
add("components, scales private, one by one", components, scale="private", mechanism="spherical")
add("components, missing", components, HOLES, on_missing="centre")
add("components, missing together", components, TOGETHER, on_missing="centre", budget=LARGE)
add("components, invalid", components, HOLES, on_invalid="zero")
add("components, persons", components, groups=PERSONS)
add("components, persons, pure", components, groups=PERSONS, budget=PURE)
add("components, persons, scales", components, groups=PERSONS, scale="private", budget=LARGE)
add("components, persons, add or remove", components, groups=PERSONS, adjacency="add-remove")
add("components, map of scores", components, budget=LARGE, show_scores=True)
add("components, variances", components, variances=True, mechanism="spherical")
add("components, wide", components, WIDE, k=1, budget=LARGE)
add("components, float32", components, ROWS.astype(np.float32))
for name in GAUSSIAN_COMPONENTS:
    add(f"components by {name}", components, mechanism=name, budget=LARGE)
    add(f"components by {name}, rho", components, mechanism=name, budget={**RHO, "rho": 1.0})
for name in PURE_COMPONENTS:
    add(f"components by {name}, pure", components, mechanism=name, budget=PURE)
for name in ("adaptive-oja", "tangent-oja"):
    add(f"components by {name}", components, MANY, mechanism=name, budget=LARGE)
add("components by boxed-oja", components, MANY, mechanism="boxed-oja", budget=LARGE, row_norm=20.0)
add("components by deflation", components, MOST, mechanism="deflation", budget=LARGE, row_norm=20.0)
for name in ("dp-pca", "shuffled-oja"):
    add(
        f"components by {name}",
        components,
        MOST,
        1,
        mechanism=name,
        row_norm=20.0,
        budget={"epsilon": 0.9, "delta": 0.01, "random_state": 1},
    )
add(
    "components by gap-projector",
    components,
    MANY,
    mechanism="gap-projector",
    budget=LARGE,
    row_norm=15.0,
)

# Covariances
add("covariance", covariance)
add("covariance of units", covariance, UNITS, budget=LARGE)
add("covariance, same unit", covariance, scale="same")
add("covariance, rho", covariance, budget=RHO)
add("covariance, pure", covariance, budget=PURE)
add("covariance, pure, bounds", covariance, budget=PURE, bounds=(-40, 50))
add("covariance, add or remove", covariance, adjacency="add-remove", budget=LARGE)
add("covariance, row norm, add or remove", covariance, adjacency="add-remove", **BOUNDED)
add("covariance, bounds", covariance, bounds=(-40, 50))
add("covariance, private row norm", covariance, mechanism="gauss", row_norm="private")
add(
    "covariance, scales private",
    covariance,
    scale="private",
    mechanism="cleaned",
    row_norm="private",
    budget=LARGE,
)
add("covariance, missing", covariance, HOLES, on_missing="centre", budget=LARGE)
add("covariance, missing together", covariance, TOGETHER, on_missing="centre", budget=LARGE)
add("covariance, persons", covariance, groups=PERSONS, budget=LARGE)
add("covariance, few rows", covariance, ROWS[:900], budget=LARGE)
for name in GAUSSIAN_COVARIANCES:
    add(f"covariance by {name}", covariance, mechanism=name, **BOUNDED)
for name in PURE_COVARIANCES:
    add(f"covariance by {name}, pure", covariance, mechanism=name, budget=PURE, **BOUNDED)

# Regressions
add("regression", regression)
add("regression, pure", regression, budget={"epsilon": 3.0, "random_state": 1})
add("regression of few rows", regression, ROWS[:150], TARGET[:150], means_alone=True)
add("regression, add or remove", regression, adjacency="add-remove", budget=LARGE)
add("regression, bounds", regression, bounds=(-40, 50), budget=LARGE)
add("regression of units", regression, UNITS, budget=LARGE)
add("regression, persons", regression, groups=PERSONS, budget=LARGE)
add("regression, missing", regression, HOLES, on_missing="centre", budget=LARGE)
add("regression, two targets", regression, target=np.c_[TARGET, ROWS[:, 0] ** 2], budget=LARGE)

# Streams and running releases
add("stream", stream, MANY, days=5)
add("stream, unit rows", stream, MANY, days=2, centring="none")
add("stream, row norm", stream, MANY, days=2, row_norm=30.0)
add("stream, scales private", stream, MANY, days=3, scale="private")
add("stream, persons", stream, MANY, days=3, persons=np.arange(60_000), max_arrivals=1)
for name in ONE_PASS:
    add(f"stream by {name}", stream, MANY, days=3, mechanism=name)
add("running covariance", running, ContinualCovariance)
add("running components", running, ContinualPCA, n_components=2)
add("running covariance, persons", running, ContinualCovariance, persons=PERSONS, days_per_group=2)
add(
    "preprocessor",
    lambda: components(
        PrivatePreprocessor(encode={"place": ["north", "south"]}).fit_transform(frame(place=LEVELS))
    ),
)

# Where rows lie
add("CSV", from_file, "t.csv", lambda path: path.write_text(csv_text(ROWS)))
add(
    "CSV of missing values",
    from_file,
    "t.csv",
    lambda path: path.write_text(csv_text(HOLES)),
    partial(components, on_missing="centre"),
)
add("parquet", from_file, "t.parquet", parquet, drop=["place"])
add(
    "parquet, levels", from_file, "t.parquet", parquet, encode={"place": ["north", "east", "south"]}
)
add("parquet, covariance", from_file, "t.parquet", parquet, covariance, drop=["place"])
add("npy", from_file, "t.npy", matrices)
add("frame", lambda: components(frame()))
add(
    "frame, levels found",
    lambda: components(
        eigenveil.open_rows(frame(place=LEVELS), encode={"place": "private"}), budget=LARGE
    ),
)
add("frame, regression", lambda: PrivateRegression(**LARGE).fit(frame(), TARGET))
add("sparse", lambda: components(sparse_rows()))
add(
    "chunks",
    lambda: components(
        iter(np.array_split(ROWS, 7)), mechanism="analyze-gauss", centring="none", row_norm=40.0
    ),
)
add("dask", dask_fit)
add("dask, covariance", dask_fit, covariance)
add("array API", lambda: components(strict_rows()))
add("array API, covariance", lambda: covariance(strict_rows(), scale="same"))

# Several owners
add("components by spiked", spiked)
add("owners, components", federation, "pca")
add("owners, covariance", federation, "covariance")
add("secure sums, components", secure)
add("secure sums, covariance", secure, kind="covariance")
