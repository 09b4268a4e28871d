"""A covariance matrix under differential privacy."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from eigenveil.estimators.base import (
    TableEstimator,
    filled,
    fit_release,
    fitting,
    foresee_release,
    mean_score,
    per_row,
    warn_of_columns,
    warn_of_empty_cells,
    warn_of_hidden_variances,
    warn_of_turns,
)
from eigenveil.estimators.results import limits_of, noise_of_means, public_settings
from eigenveil.exact.clip import LARGEST_NORM
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.gauss import NoisyMatrix
from eigenveil.mechanisms.registry import CovarianceMechanism
from eigenveil.numerics.cleaning import clear_variances, correlation_noise, entry_noise
from eigenveil.numerics.spectral import map_eigenvalues, project_to_simplex
from eigenveil.planning.bounds import OnInvalid, OnMissing, RowNorm
from eigenveil.planning.execution import FitResult
from eigenveil.planning.request import Centring
from eigenveil.privacy.clauses import KNOWN_TURN
from eigenveil.privacy.guarantee import Guarantee
from eigenveil.privacy.ledger import Ledger
from eigenveil.release.artefact import Release


def _has_precision(estimator: "PrivateCovariance") -> bool:
    """Return whether there is a precision; after a fit an error says why there is none."""
    if not hasattr(estimator, "covariance_"):
        return True
    if np.isnan(estimator.location_).any():
        raise AttributeError(
            "this release has no centre to measure from: release with centring='located', with "
            "more rows or a larger budget"
        )
    return estimator.precision_ is not None


class PrivateCovariance(TableEstimator, BaseEstimator):  # type: ignore[misc]
    """A covariance matrix, released once with differential privacy.

    Parameters
    ----------
    epsilon, delta, rho : float, optional
        The budget of one fit: ``epsilon`` and ``delta``, ``rho`` alone, or ``epsilon`` alone for a
        pure guarantee.
    mechanism : str or CovarianceMechanism
        A name, or one of `eigenveil.mechanisms.covariance` with options, such as
        ``Cleaned(trace_bound=40.0)``. ``"auto"`` lets the planner choose from public numbers and
        records why: ``"elliptical"`` as a rule, which needs no bound; ``"cleaned"`` where rows can
        be read once only. ``eigenveil mechanisms`` lists all.
    row_norm : float or "private", optional
        Clip rows at this distance from the centre. A smaller one means less noise, and smaller
        variances if rows lie beyond it. ``"private"`` buys the distance at which noise and loss
        together are least, with a tenth of the budget at most. The default mechanism does so by
        itself.
    scale : array of shape (n_features,), {name: number}, "private" or "same", optional
        Divide columns of different units by these numbers before rows are clipped and noise is
        added; ``covariance_`` is in the units of the data. ``"private"`` finds scales with 0.02 to
        0.4 of the budget, for replace-one neighbours. ``row_norm`` is then a distance of scaled
        rows; ``bounds`` stay in the units of the data. The default mechanism finds scales by
        itself where no bound is stated and columns are not more than rows; a private number of
        rows is counted first, with noise. ``"same"`` states that all columns share one unit, and
        spends nothing on scales.
    centring : {"none", "mean", "located", "paired"}, optional
        How to find the centre. ``"none"`` takes the origin, ``"mean"`` a private mean within the
        stated bound. ``"located"`` needs no bound. ``"paired"`` takes differences of pairs of rows,
        which have no centre. The default is ``"located"``; for small tables it is ``"mean"`` where
        a clipping mechanism is told ranges, otherwise ``"paired"``.
    bounds, adjacency, on_invalid, on_missing, ledger, random_state
        As in `PrivatePCA`, with two differences. ``bounds`` alone clip at the distance from the
        middle of the box (the origin if centred) to its farthest corner. Ranges stated one by one
        also divide each column by half its range, so that a wide column does not drown the others;
        not with a ``row_norm`` or a ``trace_bound`` in the units of the data.

    Attributes
    ----------
    covariance_ : array of shape (n_features, n_features)
        Symmetric; positive semi-definite except under ``"gauss"``, ``"laplace"``, ``"adaptive"``
        and ``"coinpress"``. A column whose private scale did not stand out has zeros.
    correlation_ : array of shape (n_features, n_features)
        Correlations of ``covariance_``: positive semi-definite with ones on the diagonal. A column
        whose released variance cannot be told from noise has NaN.
    correlation_noise_ : array of shape (n_features, n_features)
        Standard deviation of the noise on each correlation: what a strong one is compared with.
    covariance_noise_ : array of shape (n_features, n_features)
        Standard deviation of the noise on each entry of ``covariance_``, before shrinkage; zero for
        a column that was left out.
    changed_share_, changed_share_noise_ : float
        Share of the rows that a limit changed (a noisy number), and its standard deviation; where
        the default mechanism knows the number of rows.
    scale_ : array of shape (n_features,)
        What columns were divided by, infinite for a column that was left out; ones where nothing
        was.
    shares_ : dict
        How the budget was split, in shares of mu^2, or of a pure epsilon, searches among them.
    precision_ : array of shape (n_features, n_features)
        The inverse of ``covariance_``, only where that is positive definite.
    mechanism_, choice_ : str
        The mechanism, and why ``"auto"`` chose it.
    location_ : array of shape (n_features,)
        The released centre; zero with ``centring="none"``, NaN where pairs of rows have none or
        a noisy count of rows is too small.
    location_noise_ : array of shape (n_features,)
        Standard deviation of the noise on each entry of ``location_``, as expected from public
        numbers and what was found; NaN for a column that was left out, or without a centre,
        infinite where means are known up to multiples of ``turn_`` only, as rows are few.
    n_samples_ : int
        Number of rows, with groups that of groups. Where it is private: the number of rows drawn
        at random after a noisy count (0 if too small), else None.
    noise_scale_ : float
        Standard deviation of the noise on a diagonal entry, on an eigenvalue under ``"separate"``
        and ``"exponential"``; public. This and the next two are those of scaled columns.
    noisy_eigenvalues_ : array
        Descending eigenvalues before the mechanism changed them, where it did, or of scaled rows:
        to be compared with ``noise_floor_``.
    row_norm_ : float
        The bound on rows, where the mechanism chose it privately.
    column_limit_ : float
        How far from the centre entries were taken, in scales, where the mechanism chose it.
    turn_ : array of shape (n_features,)
        Numbers of which any multiple may have to be added to ``location_``, where the mechanism
        found it without a bound; entries farther than half of it are moved by a multiple.
    noise_floor_ : float
        Eigenvalue that noise alone, of matrix and centre, rarely exceeds (about 1 %); public.
    release_ : Release
        The artefact: save it, publish it.
    privacy_ : Guarantee
        The promise; ``privacy_.sentence()`` puts it into words.

    Notes
    -----
    Privacy: protects one row, or with ``groups`` all rows of one id, each of which then weighs one
    over their number. Each `fit` spends the budget once, in cross-validation too (see
    `PrivatePCA`). Public: constructor arguments, number of columns, and under replace-one the
    number of rows, or of groups. Never released: row norms, how many rows were invalid, how many
    rows an id has; how many rows a limit changed, but for ``changed_share_``. What `mahalanobis`
    and `score` return is not private with respect to their input.

    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        mechanism: str | CovarianceMechanism = "auto",
        row_norm: RowNorm | None = None,
        bounds: Any = None,
        centring: Centring | None = None,
        scale: Any = None,
        adjacency: str = "replace-one",
        on_invalid: OnInvalid = "raise",
        on_missing: OnMissing = "invalid",
        ledger: Ledger | str | Path | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.mechanism = mechanism
        self.row_norm = row_norm
        self.bounds = bounds
        self.centring = centring
        self.scale = scale
        self.adjacency = adjacency
        self.on_invalid = on_invalid
        self.on_missing = on_missing
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Release the covariance of ``X``: an array, a data frame, a path, or chunks.

        ``groups`` holds an id for each row: all rows of one id are protected together.
        """
        with fitting(self) as (noise, ledger):
            fitted = fit_release(self, X, groups, "covariance", noise=noise, ledger=ledger)
            del X, groups
            self._hold(fitted)
        # A warning may be made an error, which must not lose the release.
        warn_of_columns(self)
        warn_of_hidden_variances(self)
        warn_of_turns(self)
        corrects = fitted.plan.corrects_missing
        warn_of_empty_cells(self, fitted.result.pairs_present, corrects=corrects)
        return self

    def promise(self, X: Any) -> Guarantee:
        """Return what a fit of ``X`` would promise; nothing is charged, rows are counted only."""
        return foresee_release(self, X, "covariance")

    def _hold(self, fitted: FitResult[NoisyMatrix]) -> None:
        """Set what follows from a release."""
        plan, request = fitted.plan, fitted.plan.request
        noisy = _of_rows(fitted)
        self._expand_columns(fitted, _bound_trace(noisy.matrix, fitted))
        noise = noisy.entry_noise
        if noise is None:
            noise = entry_noise(np.full(len(noisy.matrix), noisy.noise_scale))
        self.covariance_noise_ = self._in_units(noise)
        self.mechanism_, self.choice_ = plan.entry.name, request.reason
        self.n_samples_ = fitted.n_rows if fitted.drawn_rows is None else fitted.drawn_rows
        self.privacy_ = fitted.guarantee
        self.noise_scale_ = noisy.noise_scale
        error = fitted.result.centre_error
        level = fitted.centre_noises if fitted.has_centre else np.nan
        turn = fitted.result.turn
        if turn is not None:
            level = np.where(turn < KNOWN_TURN, np.inf, level)
        self.location_noise_ = noise_of_means(level, self.scale_)
        self.noise_floor_ = 0.0 if noisy.law is None else noisy.law.floor(error)
        arrays = {"covariance": self.covariance_, "location": self.location_}
        arrays |= self._behind(fitted, noisy)
        if fitted.result.turn is not None:
            arrays["turn"] = self.turn_ = fitted.result.turn * self.scale_
        scaled = bool((self.scale_ != 1).any())
        if scaled:
            arrays["scale"] = self.scale_
        values = noisy.noisy_eigenvalues
        if values is None and scaled:  # those of covariance_ are in other units
            values = np.asarray(np.linalg.eigvalsh(noisy.matrix), dtype=np.float64)
        if values is not None:
            self.noisy_eigenvalues_ = values[::-1]
            arrays["noisy_eigenvalues"] = self.noisy_eigenvalues_
        if noisy.entry_noise is not None:  # otherwise it follows from noise_scale
            arrays["covariance_noise"] = self.covariance_noise_
        self.release_ = Release(
            kind="covariance",
            mechanism=plan.entry.name,
            guarantee=fitted.guarantee,
            proofs=fitted.proofs,
            settings=self._settings(fitted),
            arrays=arrays,
        )

    def _behind(self, fitted: FitResult[NoisyMatrix], noisy: NoisyMatrix) -> dict[str, Any]:
        """Return what intervals follow from, where noise of a known law was added to a matrix."""
        entry = fitted.plan.entry
        known = (
            isinstance(entry, CovarianceMechanism)
            and entry.gaussian_noise
            and noisy.law is not None
        )
        if not known or fitted.plan.pure:
            return {}
        found = noisy.matrix if noisy.unbiased is None else noisy.unbiased
        arrays = {"noisy_covariance": self._in_units(found)}
        if noisy.spread is not None:
            arrays["fourth_moments"] = self._in_units(noisy.spread.fourth, 2)
        if noisy.pairs is not None and len(noisy.pairs) == len(self.scale_):
            arrays["pairs_present"] = noisy.pairs
        return arrays

    def _in_units(self, matrix: NDArray[np.float64], power: int = 1) -> NDArray[np.float64]:
        """Return entries of scaled columns in the units of the data; zero for those left out."""
        kept = np.flatnonzero(np.isfinite(self.scale_))
        whole = np.zeros((self.scale_.size, self.scale_.size))
        scale = self.scale_[kept] ** power
        whole[np.ix_(kept, kept)] = matrix * np.outer(scale, scale)
        return whole

    def _settings(self, fitted: FitResult[NoisyMatrix]) -> dict[str, Any]:
        plan = fitted.plan
        settings = public_settings(
            n_features=self.n_features_in_,
            n_rows=fitted.n_rows,
            stated=fitted.stated,
            centred=plan.request.centred,
            on_invalid=self.on_invalid,
            on_missing=self.on_missing,
            noise_scale=self.noise_scale_,
            noise_floor=self.noise_floor_,
            reason=plan.request.reason,
            feature_names=getattr(self, "feature_names_in_", None),
            balance=fitted.balance,
            encoding=getattr(self, "encoding_", None),
        )
        self.shares_ = fitted.shares
        centring = "paired" if fitted.result.differences else plan.centring
        settings |= {"centring": centring, "shares": self.shares_}
        if fitted.has_centre:
            settings["centre_noise"] = fitted.centre_noise
        entry = plan.entry
        if isinstance(entry, CovarianceMechanism) and entry.trace_bound is not None:
            settings["trace_bound"] = float(entry.trace_bound)
        released = fitted.result
        settings |= limits_of(released, released.inner.row_norm)
        if released.inner.row_norm is not None:
            self.row_norm_ = settings["chosen_row_norm"]
        if released.column_limit is not None:
            self.column_limit_ = settings["column_limit"]
        spread = released.inner.spread
        if spread is not None:
            self.changed_share_, self.changed_share_noise_ = spread.changed, spread.changed_noise
            settings["changed_share"] = spread.changed
            settings["changed_share_noise"] = spread.changed_noise
        return settings

    def _expand_columns(self, fitted: FitResult[NoisyMatrix], matrix: NDArray[np.float64]) -> None:
        """Set matrix and centre for all columns, in the units of the data."""
        released, request, d = fitted.result, fitted.plan.request, self.n_features_in_
        scale = released.scale if released.scale is not None else request.column_scale
        self.scale_ = np.ones(d) if scale is None else scale
        self.covariance_ = self._in_units(matrix)
        self.location_ = np.full(d, np.nan if released.differences else 0.0)
        kept = np.isfinite(self.scale_)
        self.location_[kept] = released.centre * self.scale_[kept]
        if request.divides_by_ranges and request.box is not None:
            low, high = request.box
            constant = low == high  # by what was stated
            self.covariance_[constant] = self.covariance_[:, constant] = 0.0
            self.location_[constant] = low[constant]

    @property
    def correlation_(self) -> NDArray[np.float64]:
        """Correlations of ``covariance_``; NaN for columns whose variance may be noise.

        Of an indefinite matrix the nearest positive semi-definite one is taken, once its diagonal
        is 1 so that units do not matter; that raises the diagonal, which is brought back to 1.
        """
        check_is_fitted(self)
        variances = self.covariance_.diagonal()
        clear = clear_variances(variances, self.covariance_noise_.diagonal())
        kept = np.flatnonzero(clear)
        correlation = np.full(self.covariance_.shape, np.nan)
        if kept.size:
            deviations = np.sqrt(variances[kept])
            among = self.covariance_[np.ix_(kept, kept)] / deviations / deviations[:, None]
            positive, _ = map_eigenvalues(among, lambda values: np.maximum(values, 0.0))
            length = np.sqrt(positive.diagonal())
            among = np.clip(positive / length / length[:, None], -1.0, 1.0)
            np.fill_diagonal(among, 1.0)
            correlation[np.ix_(kept, kept)] = (among + among.T) / 2
        return correlation

    @property
    def correlation_noise_(self) -> NDArray[np.float64]:
        """Standard deviation of the noise on each entry of ``correlation_``, to first order."""
        check_is_fitted(self)
        return correlation_noise(self.covariance_, self.covariance_noise_)

    @property
    def precision_(self) -> NDArray[np.float64]:
        """The inverse of ``covariance_``; there is none unless that is positive definite."""
        check_is_fitted(self)
        values, vectors = np.linalg.eigh(self.covariance_)
        if not values[0] > values.size * np.finfo(np.float64).eps * values[-1]:
            raise AttributeError(
                "no precision_: the released covariance_ is singular or indefinite; release with "
                "a larger budget, more rows or fewer columns, or use np.linalg.pinv knowingly"
            )
        inverse: NDArray[np.float64] = (vectors / values) @ vectors.T
        return inverse

    @available_if(_has_precision)  # type: ignore[untyped-decorator]
    def mahalanobis(self, X: Any) -> NDArray[np.float64]:
        """Return squared Mahalanobis distances of rows from `location_`; NOT private as to ``X``.

        As `score`, only where there is a `precision_`.
        """
        check_is_fitted(self)
        precision = self.precision_

        def distances(rows: NDArray[Any]) -> NDArray[np.float64]:
            with np.errstate(invalid="ignore", over="ignore"):
                centred = filled(rows, self.location_, self.on_invalid, self.on_missing)
                centred = centred - self.location_
                if hasattr(self, "turn_"):  # a mean that is off by whole turns is as good
                    centred = centred - self.turn_ * np.round(centred / self.turn_)
                squares: NDArray[np.float64] = np.sum(centred @ precision * centred, axis=1)
            return squares

        return per_row(self, X, distances)

    @available_if(_has_precision)  # type: ignore[untyped-decorator]
    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean Gaussian log-likelihood of the rows of ``X``; NOT private with respect to
        ``X``.
        """
        distance = mean_score(self.mahalanobis(X))
        volume = float(np.linalg.slogdet(self.covariance_)[1])
        constant = float(self.n_features_in_) * math.log(2 * math.pi)
        return -(distance + volume + constant) / 2

    def error_norm(
        self,
        comp_cov: Any,
        norm: Literal["frobenius", "spectral"] = "frobenius",
        scaling: bool = True,
        squared: bool = True,
    ) -> float:
        """Error against another covariance, as scikit-learn's covariance estimators have it.

        ``scaling`` divides the squared norm by the number of columns. Against a matrix computed
        from records it is NOT private.
        """
        check_is_fitted(self)
        error = np.asarray(comp_cov, dtype=np.float64) - self.covariance_
        if norm not in ("frobenius", "spectral"):
            raise InvalidParameterError("norm must be 'frobenius' or 'spectral'")
        square = float(np.linalg.norm(error, "fro" if norm == "frobenius" else 2) ** 2)
        square /= len(error) if scaling else 1
        return square if squared else math.sqrt(square)


def _of_rows(fitted: FitResult[NoisyMatrix]) -> NoisyMatrix:
    """Return the released second moment as that of single rows in which no cell is empty."""
    noisy = fitted.result.inner.scaled(fitted.per_row * fitted.result.pair_factor**2)
    if fitted.result.pairs_present is None:
        return noisy
    entry = fitted.plan.entry
    noisy = noisy.allowing_for(fitted.result.pairs_present)
    if not (isinstance(entry, CovarianceMechanism) and entry.semidefinite):
        return noisy
    positive, _ = map_eigenvalues(noisy.matrix, lambda values: np.maximum(values, 0.0))
    return replace(noisy, matrix=positive)


def _bound_trace(
    matrix: NDArray[np.float64], fitted: FitResult[NoisyMatrix]
) -> NDArray[np.float64]:
    """Return the matrix with at most the trace that was stated, or that bounded rows allow."""
    entry = fitted.plan.entry
    assert isinstance(entry, CovarianceMechanism)  # which releases a matrix
    bound = math.inf if entry.trace_bound is None else float(entry.trace_bound)
    if fitted.n_rows is None and entry.semidefinite:
        bound = min(bound, fitted.stated.clip.row_norm**2)  # a noisy count may be too small
    if fitted.result.differences and entry.semidefinite:
        bound = min(bound, fitted.plan.stated.clip.row_norm**2)  # as rows about a centre have
    if bound >= LARGEST_NORM**2:
        return matrix
    held, _ = map_eigenvalues(matrix, lambda values: project_to_simplex(values, bound))
    return held
