r"""Confidence intervals that cover sampling and noise, from released and public numbers.

Tables of normal rows like the one that a release describes are drawn again and again, each is
released like the first, and how far those releases are from what they were drawn from is taken for
how far the first one is from the truth: with :math:`\theta` a number of the release and
:math:`\theta^*` those of new releases, the interval is :math:`\theta - q(\theta^* - \theta)`, q two
quantiles. They cover as stated where rows are about normal, hardly any are clipped and eigenvalues
stand apart: docs/intervals.md has what was measured.

A release of a covariance holds the second moment with its noise, whose law is known, and often
fourth moments of the rows: intervals of means, variances, correlations, eigenvalues and loadings
follow from them to first order, whatever the law of the rows (`numerics.moment_intervals`). Fourth
moments that were not bought are replaced by what the length of rows allows. Intervals are about the
rows as the release saw them: what lies beyond its limits is not counted. Those of components are
simulated (`component_intervals`). All of it is post-processing, free of cost.

Of n persons, each brings the mean over his rows, which varies no more than one of them drawn at
random does (Jensen), and the noise has the same law.
"""

import math
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from eigenveil.estimators.pca import PrivatePCA
from eigenveil.exceptions import (
    EmptyCellsWarning,
    InvalidDataError,
    InvalidParameterError,
    NothingFoundError,
)
from eigenveil.messages import REPLACE_ONE, option
from eigenveil.numerics.cleaning import entry_noise, variance_shares
from eigenveil.numerics.moment_intervals import Moments
from eigenveil.numerics.random import NoiseSource, SimulationSource, SystemSource, normals
from eigenveil.release.artefact import Release
from eigenveil.report.views import feature_names, unknown_turns
from eigenveil.text import listed

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


_FEWEST = 20  # draws


class Intervals(NamedTuple):
    """Ends of intervals, in the last axis of every array.

    Attributes
    ----------
    means, variances : arrays of shape (d, 2) or None
        Those of every column; None for a release of components.
    correlations : array of shape (d, d, 2) or None
        NaN beside a variance that cannot be told from noise.
    eigenvalues : array of shape (k, 2)
        Those of the covariance, largest first; of components their explained variances.
    loadings : array of shape (k, d, 2)
        Those of the eigenvectors of the noisy matrix; of components with their signs.

    """

    means: Matrix | None
    variances: Matrix | None
    correlations: Matrix | None
    eigenvalues: Matrix
    loadings: Matrix


def intervals(
    release: Release, *, level: float = 0.9, draws: int = 200, seed: int | None = None
) -> Intervals:
    """Return intervals that hold each true number with probability ``level``, one by one.

    ``draws`` is how many releases of components are simulated; a covariance needs none.
    """
    if not 0 < level < 1:
        raise InvalidParameterError("level must lie between 0 and 1, such as 0.9")
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < _FEWEST:
        raise InvalidParameterError(f"draws must be a whole number, at least {_FEWEST}")
    rows = _rows(release)
    if release.kind == "covariance":
        return _of_covariance(release, rows, -float(ndtri((1 - level) / 2)))
    _require_whole(release, release.arrays["mean"], release.arrays["scale"])
    if release.settings.get("on_missing") == "centre":
        warnings.warn(
            "empty cells are not simulated: where many are empty these intervals are too narrow",
            EmptyCellsWarning,
            stacklevel=2,
        )
    values, loadings = component_intervals(release, rows, level, draws, seed)
    return Intervals(None, None, None, values, loadings)


def _rows(release: Release) -> int:
    """Return the number of rows, or of persons; refuse where nobody knows it."""
    if release.kind not in ("pca", "covariance") or release.owners:
        raise InvalidParameterError(
            "intervals are those of one owner's covariance or components; a regression has its own"
        )
    rows = release.settings.get("drawn_rows", release.settings["n_rows"])
    if rows == 0:
        raise InvalidDataError(
            "intervals need a release of rows, and a noisy count of them was too small: give more "
            "rows or a larger budget"
        )
    if rows is None:
        raise InvalidDataError(
            "intervals need a public number of rows, or of persons: release with ", REPLACE_ONE
        )
    return int(rows)


def _require_whole(release: Release, centre: Matrix, scale: Matrix) -> None:
    """Refuse a release that leaves something of the table undescribed."""
    if np.isnan(centre).any():
        raise InvalidDataError(
            "intervals need a release with a centre, and pairs of rows have none: release with "
            "another ",
            option("centring"),
        )
    hidden = release.settings.get("hidden_columns", [])
    left_out = np.union1d(np.flatnonzero(np.isinf(scale)), np.array(hidden, dtype=np.intp))
    if left_out.size:
        raise InvalidDataError(
            f"intervals need all columns, and {listed(feature_names(release.settings, left_out))} "
            "had no private scale that stood out: release again with a stated ",
            option("scale"),
            ", or without them",
        )


def _of_covariance(release: Release, rows: int, z: float) -> Intervals:
    """Return the intervals of a release that adds noise of a known law to a second moment."""
    settings, arrays = release.settings, release.arrays
    scale = arrays.get("scale", np.ones(settings["n_features"]))
    _require_whole(release, arrays["location"], scale)
    if "noisy_covariance" not in arrays:
        raise InvalidDataError(
            f"{release.mechanism!r} states no law of the noise on each entry: release with ",
            option("mechanism", "elliptical"),
            ", 'cleaned' or 'gauss' and an (epsilon, delta) budget for intervals",
        )
    pairs = arrays.get("pairs_present", np.ones((scale.size, scale.size)))
    noise = arrays.get("covariance_noise", entry_noise(settings["noise_scale"] * scale**2))
    length = settings.get("chosen_row_norm") or settings["row_norm"]
    moments = Moments(
        second=arrays["noisy_covariance"],
        noise=noise,
        fourth=arrays.get("fourth_moments", np.full(noise.shape, math.inf)),
        reach=(math.inf if length is None else length) * scale / np.sqrt(pairs.diagonal()),
        rows=rows,
    )
    present = pairs.diagonal()
    squares = moments.variances / (rows * present)
    if "centre_noise" in settings:
        each = settings["centre_noise"] / math.sqrt(float(np.mean(present**-2.0)))
        squares = squares + (each * scale / present) ** 2
    half = np.where(unknown_turns(arrays), math.inf, z * np.sqrt(squares))
    return Intervals(
        means=np.stack([arrays["location"] - half, arrays["location"] + half], axis=-1),
        variances=moments.variance_ends(z),
        correlations=moments.correlation_ends(z),
        eigenvalues=moments.eigenvalue_ends(z),
        loadings=moments.loading_ends(z),
    )
