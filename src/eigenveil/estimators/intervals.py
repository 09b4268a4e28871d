r"""What sampling and noise together leave of a release, from released and public numbers.

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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from eigenveil.estimators.component_intervals import component_intervals
from eigenveil.exceptions import EmptyCellsWarning, InvalidDataError, InvalidParameterError
from eigenveil.numerics.cleaning import entry_noise
from eigenveil.numerics.moment_intervals import Moments
from eigenveil.release.artefact import Release
from eigenveil.report.views import feature_names, unknown_turns
from eigenveil.text import listed
from eigenveil.wording import REPLACE_ONE, option

__all__ = ["Intervals", "intervals"]

_FEWEST = 20  # draws

Matrix = NDArray[np.float64]


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
