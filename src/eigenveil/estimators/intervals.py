r"""What sampling and noise together leave of a release: intervals by parametric bootstrap.

The release itself describes a table of normal rows. Such tables are drawn again and again, each is
released like the first, and how far those releases are from what they were drawn from is taken for
how far the first one is from the truth: with :math:`\theta` a number of the release,
:math:`\theta_0` that of the table it describes and :math:`\theta^*` those of new releases, the
interval is :math:`\theta - q(\theta^* - \theta_0)`, q two quantiles. Correlations are compared by
Fisher's z. Eigenvalues of a matrix with noise as it is (`gauss`) have intervals of their own
(`eigenveil.numerics.spectrum_intervals`). Everything is computed from released and public numbers:
post-processing, free of cost.

Where noise is added to the second moment of rows clipped at a stated length (`gauss`, `cleaned`,
`continual`) its law is drawn from directly; any other mechanism is run on rows. Intervals cover as
stated where rows are about normal, hardly any are clipped and eigenvalues stand apart:
docs/intervals.md has what was measured.

Of n persons, each brings the mean over his rows, which varies no more than one of them drawn at
random does (Jensen): n simulated rows leave as much or more, and the noise has the same law.
"""

import math
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from eigenveil.estimators.covariance import PrivateCovariance
from eigenveil.estimators.pca import PrivatePCA
from eigenveil.exceptions import (
    EmptyCellsWarning,
    InvalidDataError,
    InvalidParameterError,
    NothingFoundError,
)
from eigenveil.numerics.cleaning import clean_eigenvalues
from eigenveil.numerics.correlation import clear_variances
from eigenveil.numerics.random import NoiseSource, SimulationSource, SystemSource
from eigenveil.numerics.spectral import map_eigenvalues
from eigenveil.numerics.spectrum_intervals import SimulatedSpectra
from eigenveil.numerics.symmetric import GaussianLaw
from eigenveil.numerics.unit_rows import variance_shares
from eigenveil.numerics.variates import normals, uniforms
from eigenveil.release.artefact import Release
from eigenveil.report.views import feature_names
from eigenveil.text import listed
from eigenveil.wording import REPLACE_ONE, option

__all__ = ["Intervals", "intervals"]

_ADDITIVE = ("gauss", "cleaned", "continual")
_FEWEST = 20  # draws
_LARGEST = 0.999999  # correlation that has a z

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
        Those of the eigenvectors, with the signs of the release.

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

    For rows that are about normal. ``draws`` is how many releases are simulated.
    """
    if not 0 < level < 1:
        raise InvalidParameterError("level must lie between 0 and 1, such as 0.9")
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < _FEWEST:
        raise InvalidParameterError(f"draws must be a whole number, at least {_FEWEST}")
    rows = _rows(release)
    if release.settings.get("on_missing") == "centre":
        warnings.warn(
            "empty cells are not simulated: where many are empty these intervals are too narrow",
            EmptyCellsWarning,
            stacklevel=2,
        )
    bits: NoiseSource = SystemSource() if seed is None else SimulationSource(seed)
    source = bits.bound_to(np.array([rows, draws]))
    spectra = None
    if release.kind == "pca":
        found, described, again = _of_components(release, rows, draws, source)
    else:
        found, described, again, spectra = _of_covariance(release, rows, draws, source)
    tails = [(1 - level) / 2, (1 + level) / 2]
    ends = {}
    for name, value in found.items():
        errors = np.array([each[name] - described[name] for each in again])
        low, high = np.quantile(errors, tails, axis=0, method="weibull")
        ends[name] = np.stack([value - high, value - low], axis=-1)
    if spectra is not None:
        ends["eigenvalues"] = spectra.ends(tails)[::-1]
    if "z" in ends:
        ends["correlations"] = np.tanh(ends.pop("z"))
    nothing: dict[str, Any] = dict.fromkeys(("means", "variances", "correlations"))
    return Intervals(**nothing | ends)


def _rows(release: Release) -> int:
    """Return the number of rows, or of persons; refuse where the bootstrap would not know it."""
    if release.kind not in ("pca", "covariance") or release.owners:
        raise InvalidParameterError(
            "intervals are those of one owner's covariance or components; a regression has its own"
        )
    rows = release.settings["n_rows"]
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
    left_out = np.flatnonzero(np.isinf(scale))
    if left_out.size:
        raise InvalidDataError(
            f"intervals need all columns, and {listed(feature_names(release.settings, left_out))} "
            "had no private scale that stood out: release again with a stated ",
            option("scale"),
            ", or without them",
        )


Numbers = dict[str, Matrix]


def _of_covariance(
    release: Release, rows: int, draws: int, source: NoiseSource
) -> tuple[Numbers, Numbers, list[Numbers], SimulatedSpectra | None]:
    """Return the numbers of a release, of the table it describes, and of releases of such.

    Where the noise is left as it is, the spectra of those releases come with them.
    """
    settings, arrays = release.settings, release.arrays
    scale = arrays.get("scale", np.ones(settings["n_features"]))
    _require_whole(release, arrays["location"], scale)
    matrix, location = arrays["covariance"], arrays["location"]
    units = np.outer(scale, scale)
    law = GaussianLaw(len(matrix), settings["noise_scale"])
    as_it_is = release.mechanism == "gauss"
    described, _ = map_eigenvalues(
        matrix / units,
        lambda values: clean_eigenvalues(values, law) if as_it_is else np.maximum(values, 0.0),
    )
    described = described * units
    values, vectors = np.linalg.eigh(described)
    kept = clear_variances(matrix.diagonal() / scale**2, np.full(len(matrix), law.scale))
    like = vectors[:, ::-1].T
    spectra = None
    if release.mechanism in _ADDITIVE and "chosen_row_norm" not in settings:
        centre_noise = float(settings.get("centre_noise", 0.0))
        if as_it_is:
            observed: Matrix = np.linalg.eigvalsh(matrix).astype(np.float64)
            spectra = SimulatedSpectra(observed, np.maximum(values, 0.0))
        tables = _noisy(described, scale, rows, law, centre_noise, source, draws, spectra)
    else:
        tables = _released(release, location, described, rows, source, draws)
    again = [_numbers(covariance, location + off, like, kept) for covariance, off in tables]
    found, told = (_numbers(each, location, like, kept) for each in (matrix, described))
    return found, told, again, spectra


def _numbers(covariance: Matrix, mean: Matrix, like: Matrix, kept: NDArray[np.bool_]) -> Numbers:
    """Return means, variances, correlations by their z, eigenvalues and loadings."""
    variances = covariance.diagonal()
    with np.errstate(invalid="ignore", divide="ignore"):
        deviations = np.sqrt(np.where(kept & (variances > 0), variances, np.nan))
        among = np.clip(covariance / np.outer(deviations, deviations), -_LARGEST, _LARGEST)
    np.fill_diagonal(among, np.where(np.isnan(deviations), np.nan, _LARGEST))
    values, vectors = np.linalg.eigh(covariance)
    loadings = vectors[:, ::-1].T
    signs = np.where(np.einsum("ij,ij->i", loadings, like) < 0, -1.0, 1.0)
    return {
        "means": mean,
        "variances": np.array(variances),
        "z": np.arctanh(among),
        "eigenvalues": values[::-1],
        "loadings": loadings * signs[:, None],
    }


def _noisy(
    covariance: Matrix,
    scale: Matrix,
    rows: int,
    law: GaussianLaw,
    centre_noise: float,
    source: NoiseSource,
    draws: int,
    spectra: SimulatedSpectra | None,
) -> Iterator[tuple[Matrix, Matrix]]:
    """Yield released covariances of normal rows, and how far their centres are off.

    Without ``spectra`` they are cleaned, as the release was; otherwise it is given the draws.
    """
    d, units = len(covariance), np.outer(scale, scale)
    values, vectors = np.linalg.eigh(covariance)
    root = np.sqrt(np.maximum(values, 0.0))
    upper = np.triu_indices(d, 1)
    for _ in range(draws):
        triangle = np.zeros((d, d))  # Bartlett's
        freedom = np.maximum(1, rows - 1 - np.arange(d))
        np.fill_diagonal(triangle, np.sqrt(2 * gammaincinv(freedom / 2, uniforms(source, d))))
        triangle.T[upper] = normals(source, (len(upper[0]),))
        wishart = triangle @ triangle.T / rows
        noise = normals(source, (d, d)) * law.scale
        off = centre_noise * normals(source, (d,)) * scale
        added = (noise + noise.T) / 2 * units + np.outer(off, off)
        noisy = (vectors * root) @ wishart @ (vectors * root).T + added
        if spectra is None:
            noisy, _ = map_eigenvalues(noisy / units, lambda each: clean_eigenvalues(each, law))
            noisy = noisy * units
        else:
            spectra.add(np.linalg.eigvalsh(noisy), wishart, vectors.T @ added @ vectors)
        yield noisy, off + vectors @ (root * normals(source, (d,))) / math.sqrt(rows)


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


def _released(
    release: Release,
    location: Matrix,
    covariance: Matrix,
    rows: int,
    source: NoiseSource,
    draws: int,
) -> Iterator[tuple[Matrix, Matrix]]:
    """Yield covariances that the mechanism itself releases of normal rows, and their centres."""
    asked = _asked(release)
    for _ in range(draws):
        table = _table(location, covariance, rows, source)
        try:
            fitted = PrivateCovariance(**asked, random_state=_seed(source)).fit(table)
        except NothingFoundError:
            continue
        yield fitted.covariance_, np.nan_to_num(fitted.location_ - location)


def _of_components(
    release: Release, rows: int, draws: int, source: NoiseSource
) -> tuple[Numbers, Numbers, list[Numbers]]:
    """Return the numbers of a release of components, twice, and of releases of such tables."""
    arrays, asked = release.arrays, _asked(release)
    scale, components = arrays["scale"], arrays["components"]
    _require_whole(release, arrays["mean"], scale)
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
                "eigenvalues": fitted.explained_variance_,
                "loadings": fitted.components_ * signs[:, None],
            }
        )
    numbers = {"eigenvalues": arrays["explained_variance"], "loadings": components}
    return numbers, numbers, again
