"""What holds of the arrays of every release, whatever its mechanism and its records.

`check_arrays` refuses anything else, when a release is saved and when it is read, so that pages,
figures, exports and scores rely on it. All of it follows from how releases are made:

- every number is finite, but for two: the scale of a column that was left out is infinite, and a
  centre that was not found is NaN throughout;
- arrays have the shapes below, for d columns and k components, 1 <= k <= d;
- components have length 1 and are zero where a column was left out;
- variances are not negative, and their ratios sum to 1 at most;
- reliability and agreement lie between 0 and 1, and a component stands out (1) or does not (0);
- mixing of components and errors of loadings come together, lie between 0 and 1, rows of mixing sum
  to 1 at most, and both are NaN in the rows of components about which nothing is stated;
- a covariance is symmetric; as noise may do that, it may be indefinite;
- coefficients are zero where a column was left out, and intervals begin before they end.

Sizes and signs beyond that are not restricted: noise may produce them.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import AlteredReleaseError

Arrays = Mapping[str, NDArray[np.float64]]

_REQUIRED = {
    "pca": (
        "components",
        "explained_variance",
        "explained_variance_ratio",
        "reliability",
        "distinguishable",
        "mean",
        "scale",
    ),
    "covariance": ("covariance", "location"),
    "regression": ("coef", "intercept", "interval", "noise_share", "location", "scale"),
}
# d columns, k components, m eigenvalues of the columns that were not left out; q targets, d + 1
# intervals of a target and 2 ends of each
_SHAPES = {
    "components": "kd",
    "explained_variance": "k",
    "explained_variance_ratio": "k",
    "eigenvalues": "k",
    "reliability": "k",
    "agreement": "k",
    "component_mixing": "kk",
    "loading_errors": "kd",
    "distinguishable": "k",
    "mean": "d",
    "scale": "d",
    "covariance": "dd",
    "location": "d",
    "noisy_eigenvalues": "m",
    "noisy_covariance": "dd",
    "covariance_noise": "dd",
    "fourth_moments": "dd",
    "pairs_present": "dd",
    "turn": "d",
    "clipping_scale": "d",
    "coef": "qd",
    "intercept": "q",
    "interval": "qe2",
    "noise_share": "qd",
    "score_counts": "bb",
    "kind_score_counts": "gbb",
    "score_reach": "2",
}
_MATRICES = ("covariance", "noisy_covariance", "covariance_noise", "fourth_moments")
_OF_SINGLE = {"component_mixing", "loading_errors"}
_ROUNDING = 1e-6  # far above that of any computation, far below what a reader would see
_ROWS = 256  # of a matrix, at a time


def check_arrays(kind: str, settings: Mapping[str, Any], arrays: Arrays) -> None:
    """Raise `VerificationError` unless the arrays can be those of a release."""
    needed = set(_REQUIRED[kind])
    if kind == "pca" and settings.get("matrix_floor", settings["noise_floor"]) > 0:
        needed.add("eigenvalues")  # which are compared with it
    if not needed <= arrays.keys():
        raise AlteredReleaseError(f"arrays.npz does not hold a {kind} release")
    if any(array.dtype != np.float64 for array in arrays.values()):
        raise AlteredReleaseError("arrays.npz holds other things than numbers")
    _check_shapes(kind, settings, arrays)
    for name, array in arrays.items():
        if name in ("mean", "location") and np.isnan(array).all():
            continue  # pairs of rows have no centre, nor has a count that was too small
        # Infinite: the scale of a column that was left out, an interval that nothing bounds.
        positive = array > 0
        usable = {"scale": positive, "clipping_scale": positive, "interval": ~np.isnan(array)}
        if name in _OF_SINGLE:  # NaN where nothing is stated of a component
            usable[name] = np.isfinite(array) | np.isnan(array).all(axis=1, keepdims=True)
        if not usable.get(name, np.isfinite(array)).all():
            raise AlteredReleaseError(f"arrays.npz holds no usable numbers in {name!r}")
    _require("explained_variance", arrays, lambda array: array.min() >= 0)
    for name in ("explained_variance_ratio", "reliability", "agreement", "noise_share"):
        _require(name, arrays, lambda a: a.min() >= 0 and a.max() <= 1 + _ROUNDING)
    _require("explained_variance_ratio", arrays, lambda array: array.sum() <= 1 + _ROUNDING)
    _check_single(arrays)
    _require("distinguishable", arrays, lambda array: np.isin(array, (0, 1)).all())
    _require("components", arrays, lambda array: _is_unit(array, arrays["scale"]))
    for name in (*_MATRICES, "pairs_present"):
        _require(name, arrays, _is_symmetric)
    for name in ("covariance_noise", "fourth_moments"):
        _require(name, arrays, lambda array: array.min() >= 0)
    _require("pairs_present", arrays, lambda a: a.min() > 0 and a.max() <= 1 + _ROUNDING)
    _require("turn", arrays, lambda array: array.min() > 0)
    _require("score_reach", arrays, lambda array: array.min() > 0)
    _require("score_counts", arrays, lambda array: array.size > 0)
    _require("kind_score_counts", arrays, lambda array: _adds_up(array, arrays["score_counts"]))
    _require("interval", arrays, lambda array: (array[..., 0] <= array[..., 1]).all())
    if kind == "regression":
        _require("coef", arrays, lambda array: not array[:, np.isinf(arrays["scale"])].any())


def _require(name: str, arrays: Arrays, holds: Callable[[NDArray[np.float64]], Any]) -> None:
    """Refuse an array that is there and that no release can have."""
    if name in arrays and not holds(arrays[name]):
        raise AlteredReleaseError(f"arrays.npz holds impossible numbers in {name!r}")


def _check_shapes(kind: str, settings: Mapping[str, Any], arrays: Arrays) -> None:
    d = settings["n_features"]
    k = len(np.atleast_1d(arrays["components"])) if kind == "pca" else d
    m = np.size(arrays["noisy_eigenvalues"]) if "noisy_eigenvalues" in arrays else d
    q = np.size(arrays["intercept"]) if kind == "regression" else 1
    b = len(arrays["score_counts"]) if np.ndim(arrays.get("score_counts", 0)) == 2 else 0
    if ("score_counts" in arrays) != ("scores" in settings and "score_reach" in arrays):
        raise AlteredReleaseError("release.json says two things about scores")
    scores = settings.get("scores", {})
    by_kind = "score_counts" in arrays and "kind_score_counts" in arrays
    if not (
        ("column" in scores) == ("levels" in scores) == by_kind == ("kind_score_counts" in arrays)
    ):
        raise AlteredReleaseError("release.json says two things about scores")
    if "score_counts" in arrays and not (kind == "pca" and k > 1):
        raise AlteredReleaseError("arrays.npz holds a map of scores without two components")
    sizes = {"d": d, "k": k, "m": m, "q": q, "e": d + 1, "2": 2, "b": b}
    sizes["g"] = len(scores.get("levels", ())) + 1
    if not (1 <= k <= d and 1 <= m <= d and q >= 1):
        raise AlteredReleaseError("arrays.npz has another number of columns than release.json")
    for name, shape in _SHAPES.items():
        if name in arrays and arrays[name].shape != tuple(sizes[size] for size in shape):
            raise AlteredReleaseError("arrays.npz has another number of columns than release.json")
    image = settings.get("image")
    if image is not None and not (len(image) == 2 and image[0] * image[1] == d):
        raise AlteredReleaseError("release.json states an image of another number of columns")
    for names, size in ((settings["feature_names"], d), (settings.get("target_names"), q)):
        if names is not None and len(names) != size:
            raise AlteredReleaseError("release.json has not one name for each column")


def _check_single(arrays: Arrays) -> None:
    """Refuse statements about single components that no release can have."""
    if len(_OF_SINGLE & arrays.keys()) == 1:
        raise AlteredReleaseError("arrays.npz states single components by half")
    if "component_mixing" not in arrays:
        return
    mixing, errors = arrays["component_mixing"], arrays["loading_errors"]
    if (np.isnan(mixing).any(axis=1) != np.isnan(errors).any(axis=1)).any():
        raise AlteredReleaseError("arrays.npz states single components by half")
    for name in _OF_SINGLE:
        known = np.nan_to_num(arrays[name])
        _require(name, {name: known}, lambda a: a.min() >= 0 and a.max() <= 1 + _ROUNDING)
    sums = np.nan_to_num(mixing).sum(axis=1)
    _require("component_mixing", arrays, lambda _: (sums <= 1 + _ROUNDING).all())
    out = np.nan_to_num(errors[:, np.isinf(arrays["scale"])])
    _require("loading_errors", arrays, lambda _: not out.any())


def _is_unit(rows: NDArray[np.float64], scale: NDArray[np.float64]) -> bool:
    if (np.abs(rows) > 1 + _ROUNDING).any() or rows[:, np.isinf(scale)].any():
        return False
    return bool((np.abs(np.linalg.norm(rows, axis=1) - 1) <= _ROUNDING).all())


def _adds_up(parts: NDArray[np.float64], whole: NDArray[np.float64]) -> bool:
    most = _ROUNDING * max(1.0, float(np.abs(parts).sum()))
    return bool((np.abs(parts.sum(axis=0) - whole) <= most).all())


def _is_symmetric(matrix: NDArray[np.float64]) -> bool:
    most = _ROUNDING * max(float(matrix.max()), -float(matrix.min()))
    # Some rows at a time need no more memory; halves, as a difference may overflow.
    return all(
        bool((np.abs(matrix[i : i + _ROWS] / 2 - matrix.T[i : i + _ROWS] / 2) <= most).all())
        for i in range(0, len(matrix), _ROWS)
    )
