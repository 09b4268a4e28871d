"""What estimators of components share once they are fitted: scores of rows, and a density."""

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from eigenveil.estimators.base import TableEstimator, filled, mean_score, per_row
from eigenveil.exceptions import InvalidDataError
from eigenveil.numerics.component_law import ComponentGroup
from eigenveil.release.projection import Projection
from eigenveil.rows.open import is_streamed, open_rows


class ComponentEstimator(
    TableEstimator,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Scores along released components, and rows from scores."""

    components_: NDArray[np.float64]
    n_components_: int
    explained_variance_: NDArray[np.float64]
    explained_variance_ratio_: NDArray[np.float64]
    reliability_: NDArray[np.float64]
    reproducibility_: NDArray[np.float64]
    loading_errors_: NDArray[np.float64]
    component_groups_: tuple[ComponentGroup, ...]
    distinguishable_: NDArray[np.bool_]
    mean_: NDArray[np.float64]
    scale_: NDArray[np.float64]
    on_invalid: Literal["raise", "zero"]
    on_missing: Literal["invalid", "centre"]

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, then return scores of the same rows; what `transform` says about privacy holds."""
        if is_streamed(X):
            X = open_rows(X)
            if not X.rereadable:  # say so before anything is charged
                raise InvalidDataError(
                    "rows that can be read once cannot be fitted and transformed"
                )
        return super().fit_transform(X, y, **fit_params)

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return scores of the rows of ``X``. They are NOT private with respect to ``X``.

        With ``on_invalid="zero"`` a row with a missing or infinite value has NaN scores; with
        ``on_missing="centre"`` missing ones are taken as ``mean_``.
        """
        return per_row(self, X, lambda rows: self.projection.scores(rows))

    def inverse_transform(self, X: Any) -> NDArray[np.float64]:
        """Return rows with the given scores; as private as the scores are."""
        return self.projection.rows(X)

    @property
    def projection(self) -> Projection:
        """The map from rows to scores and back."""
        check_is_fitted(self)
        return Projection(
            components=self.components_,
            mean=self.mean_,
            scale=self.scale_,
            on_invalid=self.on_invalid,
            on_missing=self.on_missing,
        )

    @property
    def _n_features_out(self) -> int:
        return self.n_components_


def _has_density(pca: Any) -> bool:
    """Return whether the release says how likely a row is, as far as it is known.

    Asked before a fit too: cross-validation then stops before anything is charged.
    """
    plan = getattr(pca, "plan_", None)
    if plan is None:
        modelled = getattr(pca.mechanism, "assumption", None) is not None
        shares = pca.row_norm is None and pca.bounds is None and not (modelled or pca.variances)
    else:
        shares = plan.normalise and not plan.variances
    if shares:
        raise AttributeError(
            "shares of variance make no density: state row_norm, or pass variances=True"
        )
    if pca.centring == "paired" if plan is None else np.isnan(pca.mean_).any():
        raise AttributeError(
            "pairs of rows have no centre to measure from: pass centring='located', or give more "
            "rows or a larger budget"
        )
    if plan is not None and not pca.is_regular:
        raise AttributeError("the released covariance is singular: ask for fewer components")
    return True


class GaussianDensity(ComponentEstimator):
    """The Gaussian law that released components and what is left over stand for."""

    @property
    def noise_variance_(self) -> float:
        """Variance of a direction outside the components: what is left over, spread evenly."""
        check_is_fitted(self)
        others = self._n_kept - self.n_components_
        if others <= 0:
            return 0.0
        model = getattr(self.plan_.entry, "model", None)
        if model is not None:
            return float(model.noise_variance)
        share = float(self.explained_variance_ratio_.sum())
        whole = float(self.explained_variance_.sum()) / share if share else 0.0
        return max(0.0, whole * (1 - share)) / others

    @property
    def _n_kept(self) -> int:
        return int(np.isfinite(self.scale_).sum())

    @property
    def is_regular(self) -> bool:
        """Whether `get_covariance` has an inverse on the columns that were not left out."""
        full = self._n_kept == self.n_components_
        return bool(self.explained_variance_.min() > 0 and (full or self.noise_variance_ > 0))

    def get_covariance(self) -> NDArray[np.float64]:
        """Return the covariance that components and what is left over stand for (scaled columns).

        Variance outside the components is spread evenly; post-processing.
        """
        noise = self.noise_variance_
        above = self.explained_variance_ - noise
        covariance: NDArray[np.float64] = (self.components_.T * above) @ self.components_
        kept = np.isfinite(self.scale_)  # columns that were left out have no variance here
        np.fill_diagonal(covariance, covariance.diagonal() + np.where(kept, noise, 0.0))
        return covariance

    @available_if(_has_density)  # type: ignore[untyped-decorator]
    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Return the log-likelihood of every row of ``X``. It is NOT private as to ``X``.

        That of a Gaussian with the released centre and `get_covariance`, over the columns that
        were not left out. There is one only where variances are in the units of the data and a
        centre was released: with ``row_norm``, with ``variances``, or of a model.
        """
        return per_row(self, X, self._log_density)

    def _log_density(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        kept = np.isfinite(self.scale_)
        loadings, noise = self.components_[:, kept], self.noise_variance_
        others = self._n_kept - self.n_components_
        rows = filled(rows, self.mean_, self.on_invalid, self.on_missing)
        scores = self.projection.scores(rows)
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = (rows[:, kept] - self.mean_[kept]) / self.scale_[kept]
            distance = np.sum(scores**2 / self.explained_variance_, axis=1)
            if others:
                distance += np.sum((scaled - scores @ loadings) ** 2, axis=1) / noise
        volume = np.log(self.explained_variance_).sum() + 2 * np.log(self.scale_[kept]).sum()
        volume += others * math.log(noise) if others else 0.0
        density: NDArray[np.float64] = -(distance + volume + kept.sum() * math.log(2 * math.pi)) / 2
        return density

    @available_if(_has_density)  # type: ignore[untyped-decorator]
    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean of `score_samples`, of the rows that have one; NOT private either."""
        return mean_score(self.score_samples(X))
