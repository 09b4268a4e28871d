"""Linear regression under differential privacy."""

from numbers import Real
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from eigenveil.estimators.base import (
    TableEstimator,
    check_table,
    filled,
    fitting,
    open_table,
    per_row,
    warn_of_columns,
    warn_of_weakness,
)
from eigenveil.estimators.results import RegressionNumbers, regression_numbers
from eigenveil.exact.gram import public_rows
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.mechanisms.linear_rows import reordered
from eigenveil.messages import Phrase, option
from eigenveil.planning.bounds import OnInvalid, OnMissing, box_of
from eigenveil.planning.linear_release import RegressionResult, release_regression
from eigenveil.planning.request import Request, Targets, encoded_scale, public_scale
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.budget import Budget, as_float
from eigenveil.privacy.ledger import Ledger
from eigenveil.rows.base import RowSource
from eigenveil.rows.column_names import asking_for_regression
from eigenveil.rows.frames import as_table
from eigenveil.rows.memory import ArraySource
from eigenveil.rows.open import is_streamed
from eigenveil.rows.units import GroupedSource


class PrivateRegression(TableEstimator, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Linear or ridge regression, released once with differential privacy.

    No bound on features or targets is needed. Where nothing is stated, coefficients are read off
    the matrix of the default covariance, features and target together, and improved by a sum of
    clipped residuals where its noise is small. Otherwise records are weighed by their length, and
    residuals are summed in up to three stages.

    Parameters
    ----------
    epsilon, delta, rho : float, optional
        The budget of one fit: ``epsilon`` and ``delta``, ``rho`` alone, or ``epsilon`` alone for a
        pure guarantee.
    alpha : float, optional
        Ridge penalty, as a share of the mean squared length of records: 0 is least squares. By
        default it is found from released numbers, at no cost.
    row_norm : float, optional
        Length of scaled rows about their centre that they are pulled in to. By default public
        numbers decide between a private length and rows all scaled to the same length.
    bounds : (low, high) or mapping, optional
        Public ranges of the features, as in `PrivateCovariance`: columns are then divided by half
        their ranges and taken about the middle, and nothing is searched for.
    target_bounds : (low, high), optional
        Public range of the target, or two arrays for several. Needed only for small tables.
    scale : array of shape (n_features,) or "private", optional
        What features are divided by. By default half their ranges where these are stated, otherwise
        private scales under replace-one, and no scales under add/remove.
    centring : {"none", "located"}, optional
        Whether the origin is taken as the centre of the features, or a private one is found.
    means_alone : bool
        Whether to release the means of the targets where public numbers allow no coefficients. By
        default such a fit is refused, and nothing is charged.
    adjacency, on_invalid, on_missing, ledger, random_state
        As in `PrivateCovariance`. A row without its target is invalid.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
        Coefficients; zero for a feature whose private scale did not stand out.
    intercept_ : float or array of shape (n_targets,)
        What is predicted where all features are zero.
    coef_interval_ : array of shape (..., n_features, 2)
        Lower and upper ends of 90 % intervals: what sampling and noise leave. They are about the
        weighted least-squares coefficients of the population, and assume that residuals are
        uncorrelated with the squares of the features. Infinite for a feature that was left out.
    intercept_interval_ : array of shape (..., 2)
        The same for the intercept. Of a median of means nothing tells the error: then it is the
        stated range, or infinite. It is infinite too on small tables where the centre of a feature
        is known up to multiples of some hundred scales.
    noise_share_ : array of shape (..., n_features)
        Share of the squared width of each interval that privacy is responsible for.
    scale_, location_ : arrays of shape (n_features,)
        What features were divided by, infinite for one left out, and taken about.
    means_alone_ : bool
        Whether no coefficients were released, as public numbers allow none or no scale of a target
        was found: every prediction is one private number, a median of means of some rows each, or
        on very small tables a mean.
    n_samples_ : int or None
        None where the number of rows is private; with groups, that of groups.
    shares_ : dict
        How the budget was split, in shares of mu^2, or of a pure epsilon.
    release_ : Release
        The artefact: save it, publish it.
    privacy_ : Guarantee
        The promise; ``privacy_.sentence()`` puts it into words.

    Notes
    -----
    Privacy: protects one row, its features and its targets, or with ``groups`` all rows of one id.
    Each `fit` spends the budget once, in cross-validation too. Public: constructor arguments,
    number of columns, and under replace-one the number of rows, or of groups. Never released:
    residuals, how many rows were clipped or invalid. Predictions are as private as their input.

    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        alpha: float | None = None,
        row_norm: float | None = None,
        bounds: Any = None,
        target_bounds: Any = None,
        scale: Any = None,
        centring: Literal["none", "located"] | None = None,
        means_alone: bool = False,
        adjacency: str = "replace-one",
        on_invalid: OnInvalid = "raise",
        on_missing: OnMissing = "invalid",
        ledger: Ledger | str | Path | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.alpha = alpha
        self.row_norm = row_norm
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.scale = scale
        self.centring = centring
        self.means_alone = means_alone
        self.adjacency = adjacency
        self.on_invalid = on_invalid
        self.on_missing = on_missing
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Self:
        """Release the regression of ``y`` on ``X``.

        ``X`` is a table in memory and ``y`` its targets; or ``X`` is a path or a source of rows and
        ``y`` the name of its target column, or a list of names. ``groups`` holds an id for each
        row: all rows of one id are protected together.
        """
        with fitting(self) as (noise, ledger):
            budget = Budget(epsilon=self.epsilon, delta=self.delta, rho=self.rho)
            adjacency = Adjacency.parse(self.adjacency)
            source = self._open(X, y, adjacency, groups)
            del X, y, groups
            request = self._request(source, budget, adjacency)
            warn_of_weakness(budget, request.n_rows)
            fitted = release_regression(request, source, ledger=ledger, noise=noise)
            del source
            self._hold(fitted)
        warn_of_columns(self)  # outside: made an error, it must not lose the release
        return self

    def _open(self, X: Any, y: Any, adjacency: Adjacency, groups: Any) -> RowSource:
        """Return one table, features first, then targets."""
        if y is None:
            raise InvalidParameterError(
                "requires y to be passed, but the target y is None: pass fit(X, y)"
            )
        if issparse(X):
            X = X.toarray()
        if is_streamed(X):
            return self._open_streamed(X, y, adjacency, groups)
        with asking_for_regression(()):
            features = check_table(self, X, reset=True)
        self._target_names: tuple[str, ...] | None = None
        values = np.asarray(y)
        self._one_target = values.ndim == 1
        targets = as_table(values[:, None] if self._one_target else values)
        if len(targets) != len(features):
            raise InvalidDataError("y must have one value for each row of X, in their order")
        with np.errstate(all="ignore"):  # a warning would tell of a wider float that is too large
            both = np.column_stack(
                [features.astype(np.float64, copy=False), targets.astype(np.float64, copy=False)]
            )
        source: RowSource = ArraySource(both)
        return source if groups is None else GroupedSource(source, groups)

    def _open_streamed(self, X: Any, y: Any, adjacency: Adjacency, groups: Any) -> RowSource:
        names = [y] if isinstance(y, str) else y
        if not (isinstance(names, (list, tuple)) and all(isinstance(n, str) for n in names)):
            raise InvalidParameterError(
                "y must name the target columns of a file or source of rows: pass y='name'"
            )
        with asking_for_regression(names):
            source = reordered(open_table(self, X, adjacency, groups), tuple(names))
        self._target_names = tuple(names)
        self._one_target = isinstance(y, str)
        features = source.n_columns - len(names)
        self.n_features_in_ = features
        assert source.schema.feature_names is not None  # which `reordered` asked for
        self.feature_names_in_ = np.array(source.schema.feature_names[:features], dtype=object)
        return source

    def _request(self, source: RowSource, budget: Budget, adjacency: Adjacency) -> Request:
        if self.centring not in (None, "none", "located"):
            raise InvalidParameterError("centring must be 'none' or 'located'")
        features = self.n_features_in_
        targets = source.n_columns - features
        names = getattr(self, "feature_names_in_", None)
        box, _ = Request.ranges(self.bounds, names, features)
        if isinstance(self.scale, str) and self.scale == "same":
            raise InvalidParameterError(
                option("scale", "same"), " is for covariances: features may be in any units"
            )
        scale = public_scale(self.scale, features, names, source.schema.encoding)
        known = encoded_scale(names, source.schema.encoding)
        all_known = known is not None and not np.isnan(known).any()
        private = isinstance(self.scale, str) and not all_known  # which can be this word only
        return Request(
            releases="regression",
            budget=budget,
            adjacency=adjacency,
            unit=source.units.protects,
            n_columns=features,
            n_rows=public_rows(source) if adjacency.count_is_public and source.rereadable else None,
            rereadable=source.rereadable,
            row_norm=_positive(option("row_norm"), self.row_norm),
            box=box,
            targets=Targets(
                count=targets,
                boxes=_target_boxes(self.target_bounds, targets),
                alpha=_number(option("alpha"), self.alpha),
                accepts_means=bool(self.means_alone),
            ),
            scale=None if private else scale,
            private_scale=private,
            known_scale=known,
            centring=self.centring,
            on_invalid=self.on_invalid,
            on_missing=self.on_missing,
        )

    def _hold(self, fitted: RegressionResult) -> None:
        """Set what follows from a release."""
        numbers = regression_numbers(fitted)
        one = self._one_target
        self.coef_ = numbers.coef[0] if one else numbers.coef
        self.intercept_ = float(numbers.intercept[0]) if one else numbers.intercept
        self.coef_interval_ = numbers.interval[0, :-1] if one else numbers.interval[:, :-1]
        self.intercept_interval_ = numbers.interval[0, -1] if one else numbers.interval[:, -1]
        self.noise_share_ = numbers.noise_share[0] if one else numbers.noise_share
        self.scale_, self.location_ = numbers.scale, numbers.location
        self.means_alone_ = fitted.means_alone
        self.n_samples_, self.privacy_ = fitted.n_rows, fitted.guarantee
        self.shares_ = fitted.shares
        self.release_ = self._release(numbers, fitted)

    def _release(self, numbers: RegressionNumbers, fitted: RegressionResult) -> Any:
        return numbers.release(
            fitted,
            feature_names=getattr(self, "feature_names_in_", None),
            target_names=self._target_names,
            shares=self.shares_,
        )

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the predictions for rows; NOT private with respect to ``X``."""
        check_is_fitted(self)
        coef, intercept = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)

        def of_rows(rows: NDArray[Any]) -> NDArray[np.float64]:
            with np.errstate(invalid="ignore", over="ignore"):
                whole = filled(rows, self.location_, self.on_invalid, self.on_missing)
                predicted: NDArray[np.float64] = whole @ coef.T + intercept
            return predicted[:, 0] if self._one_target else predicted

        return per_row(self, X, of_rows)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        tags.regressor_tags.poor_score = True  # on tables of a few dozen rows
        return tags


def _number(name: Phrase, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidParameterError(name, " must be a number")
    return as_float(value)


def _positive(name: Phrase, value: Any) -> float | None:
    number = _number(name, value)
    if number is not None and not 1e-50 <= number <= 1e50:
        raise InvalidParameterError(name, " must be positive (between 1e-50 and 1e50)")
    return number


def _target_boxes(bounds: Any, n_targets: int) -> tuple[tuple[float, float], ...] | None:
    if bounds is None:
        return None
    low, high = box_of(bounds, n_targets)
    if not (high > low).all():
        raise InvalidParameterError(option("target_bounds"), " leave no room: low equals high")
    return tuple(zip(low.tolist(), high.tolist(), strict=True))
