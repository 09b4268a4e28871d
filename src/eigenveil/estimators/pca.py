"""Principal components under differential privacy."""

import math
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from eigenveil.data.source import as_table, is_streamed, open_rows, tables
from eigenveil.estimators.base import Build, Family, PrivateEstimator
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.mechanisms.base import Procedure
from eigenveil.mechanisms.pca.analyze_gauss import AnalyzeGauss
from eigenveil.mechanisms.pca.components import NoisyComponents
from eigenveil.privacy.ledger import Ledger
from eigenveil.release.artefact import Release

__all__ = ["PrivatePCA"]


class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):  # type: ignore[misc]
    """Leading principal components, released once with differential privacy.

    Parameters
    ----------
    n_components : int, optional
        How many components to release; all of them by default.
    epsilon, delta, rho : float, optional
        The budget of one fit: ``epsilon`` and ``delta``, or ``rho`` alone.
    mechanism : {"analyze-gauss"}
        How noise is added.
    row_norm : float, optional
        Public clipping distance of a row from the centre.
    bounds : (low, high), optional
        Public range of the entries: two numbers, or two arrays with one number per column.
        One of ``row_norm`` and ``bounds`` is needed. With both, ``row_norm`` clips; with
        ``bounds`` alone, rows are clipped at 1/sqrt(3) of the way to the farthest corner, which
        helps directions and shrinks eigenvalues: state ``row_norm`` where eigenvalues matter.
    assume_centered : bool
        Take the origin as the centre. Otherwise a tenth of mu^2 buys a private mean.
    adjacency : {"replace-one", "add-remove"}
        Which tables count as neighbours. Under ``"add-remove"`` the number of rows is private
        and is estimated from the same tenth.
    on_invalid : {"raise", "zero"}
        Whether a row with a missing or infinite value stops the fit or contributes nothing.
    ledger : Ledger or path, optional
        Charged before any noise is drawn; refuses what it cannot cover.
    random_state : int, optional
        Seed of a simulation. A seeded fit is marked as not private.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Directions of largest variance, as rows.
    explained_variance_, explained_variance_ratio_, singular_values_ : arrays
        Noisy eigenvalues (never below zero), their share of the noisy trace, and the square
        root of eigenvalue times number of rows.
    mean_ : array of shape (n_features,)
        The released centre.
    n_components_, n_samples_ : int
        ``n_samples_`` is None where the number of rows is private.
    noise_scale_ : float
        Standard deviation of the noise on a diagonal entry of the covariance; public.
    noise_floor_ : float
        Eigenvalue that noise alone, of matrix and centre, rarely exceeds (about 1 %); public.
    release_ : Release
        The artefact: save it, publish it.
    privacy_ : Guarantee
        The promise; ``privacy_.sentence()`` puts it into words.

    Privacy
    -------
    Protects one row. Each `fit` spends the budget once. Public: constructor arguments, number
    of columns, and under replace-one the number of rows. Never released: row norms, how many
    rows were clipped or invalid. `transform` output is not private with respect to its input.

    """

    # The builders take the number of components.
    mechanisms: ClassVar[dict[str, Family[NoisyComponents]]] = {
        "analyze-gauss": Family(gaussian=lambda mu, k: AnalyzeGauss(mu=mu, n_components=k))
    }
    default = pure_default = "analyze-gauss"

    # Clip at the root mean square distance of a point uniform on the box: directions gain more
    # from the smaller noise, which grows with the square of the bound, than clipping costs them.
    shrink = 1 / math.sqrt(3)

    def __init__(
        self,
        n_components: int | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        mechanism: str | None = None,
        row_norm: float | None = None,
        bounds: Any = None,
        assume_centered: bool = False,
        adjacency: str = "replace-one",
        on_invalid: Literal["raise", "zero"] = "raise",
        ledger: Ledger | str | Path | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.mechanism = mechanism
        self.row_norm = row_norm
        self.bounds = bounds
        self.assume_centered = assume_centered
        self.adjacency = adjacency
        self.on_invalid = on_invalid
        self.ledger = ledger
        self.random_state = random_state
        self.n_components = n_components

    def _build(self, build: Build[Any], parameter: float, n_columns: int) -> Procedure[Any]:
        k = n_columns if self.n_components is None else int(self.n_components)
        if not 1 <= k <= n_columns:
            raise InvalidParameterError(
                f"n_components must be between 1 and the number of columns, {n_columns}"
            )
        return build(parameter, k)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Release the components of ``X``: an array, a data frame, a path, or chunks."""
        wanted = self.n_components
        if wanted is not None and (
            isinstance(wanted, bool) or not isinstance(wanted, (int, np.integer))
        ):
            raise InvalidParameterError("n_components must be a positive integer")
        outcome = self._release(X)
        del X
        noisy: NoisyComponents = outcome.result.inner
        self.components_ = noisy.components
        self.explained_variance_ = np.maximum(noisy.eigenvalues * outcome.per_row, 0.0)
        # The trace bounds the sum of its positive eigenvalues only without noise.
        whole = max(noisy.trace * outcome.per_row, float(self.explained_variance_.sum()))
        self.explained_variance_ratio_ = self.explained_variance_ / (whole or 1.0)
        self.mean_ = outcome.result.centre
        self.n_components_ = len(self.components_)
        self.n_samples_ = outcome.n_rows
        rows = 1.0 / outcome.per_row if outcome.n_rows is None else outcome.n_rows
        self.singular_values_ = np.sqrt(self.explained_variance_ * rows)
        self.privacy_ = outcome.guarantee
        self.release_ = Release(
            kind="pca",
            mechanism=outcome.mechanism,
            guarantee=outcome.guarantee,
            settings=self._settings(outcome, noisy.noise_scale, noisy.law),
            arrays={
                "components": self.components_,
                "explained_variance": self.explained_variance_,
                "explained_variance_ratio": self.explained_variance_ratio_,
                "mean": self.mean_,
            },
        )
        return self

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

        With ``on_invalid="zero"`` a row with a missing or infinite value has NaN scores.
        """
        check_is_fitted(self)
        if not is_streamed(X):
            return self._scores(self._check_table(X, reset=False))
        source = open_rows(X)
        self._check_columns(source)
        scores = [self._scores(chunk) for chunk in tables(source)]
        return np.concatenate([np.empty((0, self.n_components_)), *scores])

    def _scores(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        rows = rows.astype(np.float64, copy=False)
        if self.on_invalid == "raise" and not np.isfinite(rows).all():
            raise InvalidDataError("a row to transform holds NaN or inf: fill it or drop the row")
        with np.errstate(invalid="ignore"):
            scores: NDArray[np.float64] = (rows - self.mean_) @ self.components_.T
        scores[~np.isfinite(scores).all(axis=1)] = np.nan
        return scores

    def inverse_transform(self, X: Any) -> NDArray[np.float64]:
        """Rows with the given scores; as private as the scores are."""
        check_is_fitted(self)
        scores = as_table(X)
        if scores.shape[1] != self.n_components_:
            raise InvalidDataError(f"scores must have {self.n_components_} columns")
        rows: NDArray[np.float64] = scores @ self.components_ + self.mean_
        return rows

    @property
    def _n_features_out(self) -> int:
        return self.n_components_
