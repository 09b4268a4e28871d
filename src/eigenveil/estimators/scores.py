"""What estimators of components share once they are fitted: scores of rows, and the release."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from eigenveil.data.sources import is_streamed, open_rows
from eigenveil.estimators.base import PrivateEstimator
from eigenveil.exceptions import InvalidDataError
from eigenveil.release.projection import Projection

__all__ = ["ComponentEstimator"]


class ComponentEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):  # type: ignore[misc]
    """Scores along released components, and rows from scores."""

    components_: NDArray[np.float64]
    n_components_: int
    explained_variance_: NDArray[np.float64]
    explained_variance_ratio_: NDArray[np.float64]
    reliability_: NDArray[np.float64]
    distinguishable_: NDArray[np.bool_]
    mean_: NDArray[np.float64]
    scale_: NDArray[np.float64]
    on_invalid: Literal["raise", "zero"]
    on_missing: Literal["invalid", "centre"]

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, then scores of the same rows; what `transform` says about privacy holds."""
        if is_streamed(X):
            X = open_rows(X)
            if not X.rereadable:  # say so before anything is charged
                raise InvalidDataError(
                    "rows that can be read once cannot be fitted and transformed"
                )
        return super().fit_transform(X, y, **fit_params)

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Scores of the rows of ``X``. They are NOT private with respect to ``X``.

        With ``on_invalid="zero"`` a row with a missing or infinite value has NaN scores; with
        ``on_missing="centre"`` missing ones are taken as ``mean_``.
        """
        return self._per_row(X, lambda rows: self._projection().scores(rows))

    def inverse_transform(self, X: Any) -> NDArray[np.float64]:
        """Rows with the given scores; as private as the scores are."""
        check_is_fitted(self)
        return self._projection().rows(X)

    def _projection(self) -> Projection:
        return Projection(
            components=self.components_,
            mean=self.mean_,
            scale=self.scale_,
            on_invalid=self.on_invalid,
            on_missing=self.on_missing,
        )

    def _arrays(self, eigenvalues: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Of the release; ``eigenvalues`` as the mechanism gave them."""
        return {
            "components": self.components_,
            "explained_variance": self.explained_variance_,
            "explained_variance_ratio": self.explained_variance_ratio_,
            "eigenvalues": eigenvalues,
            "reliability": self.reliability_,
            "distinguishable": self.distinguishable_.astype(np.float64),
            "mean": self.mean_,
            "scale": self.scale_,
        }

    @property
    def _n_features_out(self) -> int:
        return self.n_components_
