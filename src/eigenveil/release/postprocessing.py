"""What a released covariance is used for: functions of a saved release, free of further cost.

Everything here is computed from released numbers, so it is as private as the release itself;
what is made of new rows is NOT private with respect to those rows. A released matrix may be
indefinite: negative eigenvalues are taken as zero.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.numerics.cleaning import clear_variances, correlation_noise, entry_noise
from eigenveil.numerics.random import SimulationSource, SystemSource, normals
from eigenveil.release.artefact import Release
from eigenveil.report.views import unknown_turns

_LEAST_UNIQUE = 0.005  # share of a column's variance that is its own
_ROUNDS, _CLOSE = 2000, 1e-9  # of Lawley's equations
_RANK = 1e-10  # share of the largest eigenvalue below which one counts as zero

Matrix = NDArray[np.float64]


def sample(release: Release, n_rows: int, seed: int | None = None) -> Matrix:
    """Return a synthetic table: normal rows with the released mean and covariance.

    It follows first and second moments only, and holds nothing of single records.
    """
    if isinstance(n_rows, bool) or not isinstance(n_rows, int) or n_rows < 0:
        raise InvalidParameterError("the number of rows must be a whole number, zero or more")
    values, vectors = _eigenpairs(release)
    shape = (n_rows, values.size)
    bits = SystemSource() if seed is None else SimulationSource(seed)
    normal = normals(bits.bound_to(np.array(shape)), shape)
    return np.asarray(_location(release) + (normal * np.sqrt(values)) @ vectors.T)


def whitening(release: Release) -> Matrix:
    """Return W such that (x - location) W has unit variances and no correlations.

    Directions without a released variance are left out: W then maps to zero along them.
    """
    values, vectors = _eigenpairs(release)
    inverse = np.where(values > 0, 1 / np.sqrt(np.where(values > 0, values, 1.0)), 0.0)
    return np.asarray((vectors * inverse) @ vectors.T)


def partial_correlations(release: Release) -> Matrix:
    """Return the correlation of every two columns given all others.

    Needs a covariance whose eigenvalues are all positive.
    """
    values, vectors = _eigenpairs(release)
    if not (values > 0).all():
        raise InvalidDataError(
            "the released covariance is singular or indefinite, so that partial correlations do "
            "not exist: release with a larger budget, more rows or fewer columns"
        )
    precision = (vectors / values) @ vectors.T
    scale = np.sqrt(precision.diagonal())
    partial = -precision / np.outer(scale, scale)
    np.fill_diagonal(partial, 1.0)
    return np.asarray(partial)


def partial_correlation_threshold(release: Release, level: float = 0.99) -> Matrix:
    """Return what partial correlations have to exceed to be told from none.

    With probability ``level`` noise and, where the number of rows is public, sampling leave every
    partial correlation that is zero below it. To first order in the noise, for normal rows.
    """
    if not 0 < level < 1:
        raise InvalidParameterError("level must lie between 0 and 1, such as 0.99")
    partial_correlations(release)  # refuses what has none
    scale = release.arrays.get("scale", np.ones(len(_matrix(release))))
    precision = np.linalg.inv(_matrix(release) / np.outer(scale, scale))
    # A change E of the covariance changes the precision P by -PEP.
    reach = np.linalg.norm(precision, axis=0) / np.sqrt(precision.diagonal())
    variance = np.outer(reach, reach) ** 2 * release.settings["noise_scale"] ** 2 / 2
    rows = release.settings.get("drawn_rows", release.settings["n_rows"])
    if rows:
        variance += 1 / rows
    pairs = max(1, len(scale) * (len(scale) - 1) // 2)
    quantile = -float(ndtri((1 - level) / 2 / pairs))
    return np.asarray(np.minimum(1.0, quantile * np.sqrt(variance)))


class FactorModel(NamedTuple):
    """Columns as sums of a few common factors and something of their own.

    Attributes
    ----------
    loadings : array of shape (d, k)
        Covariance of each column with each factor, which have variance 1.
    uniquenesses : array of shape (d,)
        Variance of each column that no factor explains.

    """

    loadings: Matrix
    uniquenesses: NDArray[np.float64]


def factor_analysis(release: Release, n_factors: int) -> FactorModel:
    """Return the factor model of largest likelihood for a released covariance.

    By Lawley's equations, uniquenesses kept above half a per cent of each variance. Loadings are
    determined up to a rotation of the factors.
    """
    values, vectors = _eigenpairs(release)
    matrix, d = (vectors * values) @ vectors.T, values.size
    whole = isinstance(n_factors, (int, np.integer)) and not isinstance(n_factors, bool)
    if not (whole and 1 <= n_factors < d):
        raise InvalidParameterError(f"the number of factors must lie between 1 and {d - 1}")
    variances = matrix.diagonal()
    if not (variances > 0).all():
        raise InvalidDataError("a column has no released variance: release without it")
    least, unique = _LEAST_UNIQUE * variances, variances / 2
    loadings = np.zeros((d, n_factors))
    for _ in range(_ROUNDS):
        root = np.sqrt(unique)
        common, basis = np.linalg.eigh(matrix / np.outer(root, root))
        strength = np.sqrt(np.maximum(common[-n_factors:] - 1, 0.0))[::-1]
        loadings = root[:, None] * basis[:, -n_factors:][:, ::-1] * strength
        before, unique = unique, np.maximum(least, variances - (loadings**2).sum(axis=1))
        if np.abs(unique - before).max() <= _CLOSE * variances.max():
            break
    signs = np.where(loadings.sum(axis=0) < 0, -1.0, 1.0)
    return FactorModel(np.asarray(loadings * signs), np.asarray(unique))


def mahalanobis(release: Release, rows: Matrix) -> NDArray[np.float64]:
    """Return squared Mahalanobis distances of rows from the released mean.

    NOT private with respect to ``rows``. Directions without a released variance are left out.
    """
    location = _location(release)
    table = np.asarray(rows, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != location.size:
        raise InvalidDataError("the rows must have the columns of the release")
    squares = ((table - location) @ whitening(release)) ** 2
    return np.asarray(squares.sum(axis=1))


class StandardErrors(NamedTuple):
    """Standard deviations of the noise on what a released covariance says.

    Attributes
    ----------
    means, deviations : arrays of shape (d,)
        On the mean and on the standard deviation of every column.
    correlations : array of shape (d, d)
        On every correlation.

    """

    means: Matrix
    deviations: Matrix
    correlations: Matrix


def standard_errors(release: Release) -> StandardErrors:
    """Return how far noise moves means, standard deviations and correlations, to first order.

    Of noise alone: what clipping, or the model of a mechanism, takes away is not in it. Noise of
    ``gauss`` and ``cleaned`` is all there is beside clipping; ``elliptical`` also assumes a shape.
    NaN where nothing was released, or where a variance cannot be told from noise.
    """
    matrix = _matrix(release)
    variances = matrix.diagonal()
    scale = release.arrays.get("scale", np.ones(variances.size))
    scale = np.where(np.isfinite(scale), scale, np.nan)
    noise = release.settings["noise_scale"] * scale**2
    of_entries = entry_noise(np.nan_to_num(noise))
    if "covariance_noise" in release.arrays:
        of_entries = release.arrays["covariance_noise"]
        noise = np.where(np.isnan(scale), np.nan, of_entries.diagonal())
    clear = clear_variances(variances, np.nan_to_num(noise))
    with np.errstate(invalid="ignore", divide="ignore"):
        deviations = np.where(clear, noise / (2 * np.sqrt(np.abs(variances))), np.nan)
    return StandardErrors(
        means=np.asarray(release.settings.get("centre_noise", np.nan) * scale),
        deviations=np.asarray(deviations),
        correlations=correlation_noise(matrix, of_entries),
    )


def conditional_means(release: Release, rows: Matrix) -> Matrix:
    """Return rows with empty cells (NaN) filled by their mean given the cells that are there.

    NOT private with respect to ``rows``.
    """
    location = _location(release)
    filled = np.array(rows, dtype=np.float64)
    if filled.ndim != 2 or filled.shape[1] != location.size:
        raise InvalidDataError("the rows must have the columns of the release")
    values, vectors = _eigenpairs(release)
    covariance = (vectors * values) @ vectors.T
    patterns, which = np.unique(np.isnan(filled), axis=0, return_inverse=True)
    for i, empty in enumerate(patterns):
        here = np.flatnonzero(which.reshape(-1) == i)
        known = covariance[np.ix_(~empty, ~empty)]
        across = covariance[np.ix_(~empty, empty)]
        slopes = np.linalg.pinv(known, rcond=_RANK, hermitian=True) @ across
        offset = filled[np.ix_(here, np.flatnonzero(~empty))] - location[~empty]
        filled[np.ix_(here, np.flatnonzero(empty))] = location[empty] + offset @ slopes
    return filled


class Regression(NamedTuple):
    """A linear regression of one column on the others.

    Attributes
    ----------
    coefficients : array
        One for each column; that of the target is 0.
    intercept : float
        What is added; NaN where no centre was released.

    """

    coefficients: NDArray[np.float64]
    intercept: float


def regression(release: Release, target: int | str) -> Regression:
    """Return the regression of a column on all others that a released covariance implies.

    Of a federation by secure sums too. Coefficients of standardised columns are drawn to zero by a
    ridge of about the norm of the noise on correlations, as noise would decide on directions of
    little variance. Columns whose variance may be noise have none. `PrivateRegression` spends its
    budget on one target and is the better one where that is all that is asked.
    """
    matrix, place = _matrix(release), _column(release, target)
    scale = release.arrays.get("scale", np.ones(len(matrix)))
    if not np.isfinite(scale[place]):
        raise InvalidDataError("nothing was released about this column: choose another target")
    scale = np.where(np.isfinite(scale), scale, 0.0)
    noise = release.arrays.get("covariance_noise")
    if noise is None:
        noise = entry_noise(release.settings["noise_scale"] * scale**2)
    shown = clear_variances(matrix.diagonal(), noise.diagonal())
    coefficients = np.zeros(scale.size)
    if shown[place]:
        shown[place] = False
        known = np.flatnonzero(shown)
        spread = np.sqrt(matrix.diagonal()[known])
        among = matrix[np.ix_(known, known)] / np.outer(spread, spread)
        errors = correlation_noise(matrix, noise)[np.ix_(known, known)]
        variance = (errors**2).sum() / max(1, known.size * (known.size - 1))
        ridge = np.sqrt(2 * known.size * variance) + _RANK
        values, vectors = np.linalg.eigh(among)
        standard = vectors.T @ (matrix[known, place] / spread)
        standard = vectors @ (standard / (np.maximum(values, 0.0) + ridge))
        coefficients[known] = standard / spread
    location = release.arrays["location"]
    return Regression(coefficients, float(location[place] - coefficients @ location))


def principal_component_regression(
    release: Release, target: int | str, n_components: int
) -> Regression:
    """Return the regression of a column on the leading components of all others.

    Of components below the noise floor of the release, noise decides where they point: ask for
    those that stand out.
    """
    width = len(_matrix(release)) - 1
    whole = isinstance(n_components, (int, np.integer)) and not isinstance(n_components, bool)
    if not (whole and 1 <= n_components <= width):
        raise InvalidParameterError(f"the number of components must lie between 1 and {width}")
    matrix, location = _matrix(release), release.arrays["location"]
    place = _column(release, target)
    scale = release.arrays.get("scale", np.ones(len(matrix)))
    known = np.isfinite(scale) & (np.arange(scale.size) != place)
    if not np.isfinite(scale[place]):
        raise InvalidDataError("nothing was released about this column: choose another target")
    others = matrix[np.ix_(known, known)] / np.outer(scale[known], scale[known])
    values, vectors = np.linalg.eigh(others)
    least = _RANK * max(values[-1], 0.0)
    clear = (np.arange(values.size)[::-1] < n_components) & (values > least)
    inverse = np.where(clear, 1 / np.where(clear, values, 1.0), 0.0)
    found = (vectors * inverse) @ vectors.T @ (matrix[known, place] / scale[known])
    coefficients = np.zeros(scale.size)
    coefficients[known] = found / scale[known]
    return Regression(coefficients, float(location[place] - np.nan_to_num(coefficients) @ location))


def _column(release: Release, target: int | str) -> int:
    names = release.settings.get("feature_names")
    if isinstance(target, str):
        if names is None or target not in names:
            raise InvalidParameterError("no column of this name was released: give its number")
        return int(names.index(target))
    width = len(_matrix(release))
    if isinstance(target, bool) or not isinstance(target, int) or not 0 <= target < width:
        raise InvalidParameterError(f"target must be a column from 0 to {width - 1}, or its name")
    return target


def _eigenpairs(release: Release) -> tuple[NDArray[np.float64], Matrix]:
    """Return eigenvalues, those that are negative or tiny as zero, and eigenvectors."""
    values, vectors = np.linalg.eigh(_matrix(release))
    return np.where(values > _RANK * max(values[-1], 0.0), values, 0.0), vectors


def _matrix(release: Release) -> Matrix:
    """Return the released covariance."""
    if release.kind != "covariance":
        raise InvalidParameterError("this needs a release of a covariance")
    return release.arrays["covariance"]


def _location(release: Release) -> NDArray[np.float64]:
    """Return the released centre."""
    location = release.arrays["location"]
    if not np.isfinite(location).all() or release.settings.get("centring") == "paired":
        raise InvalidDataError("this needs a release with a centre, and this one has none")
    if unknown_turns(release.arrays).any():
        raise InvalidDataError(
            "this needs means, and this release knows them up to multiples of its turns only: "
            "release with more rows or a larger budget"
        )
    return location
