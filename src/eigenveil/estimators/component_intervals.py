r"""Intervals of released components by parametric bootstrap.

Tables of normal rows like the one that a release describes are drawn again and again, each is
released like the first, and how far those releases are from what they were drawn from is taken for
how far the first one is from the truth: with :math:`\theta` a number of the release and
:math:`\theta^*` those of new releases, the interval is :math:`\theta - q(\theta^* - \theta)`, q two
quantiles. They cover as stated where rows are about normal, hardly any are clipped and eigenvalues
stand apart: docs/intervals.md has what was measured.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.estimators.pca import PrivatePCA
from eigenveil.exceptions import NothingFoundError
from eigenveil.numerics.cleaning import variance_shares
from eigenveil.numerics.random import NoiseSource, SimulationSource, SystemSource, normals
from eigenveil.release.artefact import Release

__all__ = ["component_intervals"]

Matrix = NDArray[np.float64]


def component_intervals(
    release: Release, rows: int, level: float, draws: int, seed: int | None
) -> tuple[Matrix, Matrix]:
    """Return the ends of intervals of explained variances and of loadings."""
    bits: NoiseSource = SystemSource() if seed is None else SimulationSource(seed)
    again = _released(release, rows, draws, bits.bound_to(np.array([rows, draws])))
    tails = [(1 - level) / 2, (1 + level) / 2]
    ends = []
    for name in ("explained_variance", "components"):
        found = release.arrays[name]
        errors = np.array([each[name] for each in again]) - found
        low, high = np.quantile(errors, tails, axis=0, method="weibull")
        ends.append(np.stack([found - high, found - low], axis=-1))
    return ends[0], ends[1]


def _released(
    release: Release, rows: int, draws: int, source: NoiseSource
) -> list[dict[str, Matrix]]:
    """Return the numbers of releases of tables like the one that a release describes."""
    arrays, asked = release.arrays, _asked(release)
    scale, components = arrays["scale"], arrays["components"]
    k, d = components.shape
    shares = np.append(
        arrays["explained_variance_ratio"],
        np.full(d - k, max(0.0, 1 - arrays["explained_variance_ratio"].sum()) / max(1, d - k)),
    )
    unit_rows = asked["row_norm"] is None
    variance = variance_shares(np.sort(shares)) if unit_rows else np.sort(shares)
    total = 1.0
    if not unit_rows and shares[0] > 0:
        total = float(arrays["explained_variance"][0]) / float(shares[0])
    others = np.linalg.qr(components.T, mode="complete")[0][:, k:].T
    basis = np.vstack([components, others])
    described = (basis.T * (variance[::-1] * total)) @ basis
    asked |= {"n_components": k}
    again = []
    for _ in range(draws):
        table = _table(arrays["mean"] / scale, described, rows, source) * scale
        try:
            fitted = PrivatePCA(**asked, random_state=_seed(source)).fit(table)
        except NothingFoundError:
            continue
        overlap = np.einsum("ij,ij->i", fitted.components_, components)
        signs = np.where(overlap < 0, -1.0, 1.0)
        again.append(
            {
                "explained_variance": fitted.explained_variance_,
                "components": fitted.components_ * signs[:, None],
            }
        )
    return again


def _table(mean: Matrix, covariance: Matrix, rows: int, source: NoiseSource) -> Matrix:
    """Return normal rows."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(mean + normals(source, (rows, len(mean))) @ root.T)


def _asked(release: Release) -> dict[str, Any]:
    """Return the arguments of an estimator that would release alike."""
    settings = release.settings
    budget = dict.fromkeys(("epsilon", "delta", "rho")) | release.guarantee.budget.as_dict()
    bounds, row_norm = settings["bounds"], settings["row_norm"]
    if row_norm is not None and row_norm == settings.get("chosen_row_norm"):
        row_norm = "private"
    scale: Any = release.arrays.get("scale", np.ones(1))
    if "scale" in settings.get("shares", {}):
        scale = "private"
    elif (scale == 1).all():
        scale = None
    return budget | {
        "mechanism": release.mechanism,
        "row_norm": row_norm,
        "scale": scale,
        "bounds": None if bounds is None else (bounds["low"], bounds["high"]),
        "centring": settings.get("centring"),
        "adjacency": release.guarantee.adjacency.value,
    }


def _seed(source: NoiseSource) -> int:
    return int(source.words(1)[0] >> np.uint64(33))
