"""Warnings about released components: post-processing of released numbers alone."""

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from eigenveil.exceptions import ComponentsWarning
from eigenveil.text import percent
from eigenveil.wording import SAME_UNIT, option

__all__ = ["warn_of_components"]

_MIN_SHARE = 0.5  # of the released variance, in one column
_MIN_RATIO = 10.0  # of its variance to the mean of the other columns


def warn_of_components(estimator: BaseEstimator) -> None:
    """Warn where no component is clear, or one named column decides them by its unit."""
    clear = estimator.distinguishable_
    if not clear.any():
        if estimator.noise_floor_ > 0:  # otherwise nothing is known about the noise
            warning = ComponentsWarning(
                "no component stands out from the noise, so do not interpret any: give more rows "
                "or a larger budget"
            )
            warnings.warn(warning, stacklevel=3)
        return
    if estimator.scale is not None or not hasattr(estimator, "feature_names_in_"):
        return
    shares = _column_shares(
        estimator.components_[clear], estimator.explained_variance_ratio_[clear]
    )
    column = int(np.argmax(shares))
    if not _dominates(float(shares[column]), shares.size):
        return
    name, share = estimator.feature_names_in_[column], percent(float(shares[column]))
    warning = ComponentsWarning(
        f"the column {str(name)!r} alone holds {share} of the released variance: pass ",
        option("scale", "private"),
        " to standardise columns of different units, or ",
        SAME_UNIT,
    )
    warnings.warn(warning, stacklevel=3)


def _column_shares(
    components: NDArray[np.float64], ratios: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the share of the released variance that components have in each column, at least."""
    return np.asarray(np.minimum(1.0, ratios @ components**2))


def _dominates(share: float, columns: int) -> bool:
    """Return whether a column has most of the variance and far more than an average one."""
    others = (1 - share) / max(1, columns - 1)
    return columns > 1 and share > _MIN_SHARE and share > _MIN_RATIO * others
