"""A covariance matrix under differential privacy."""

import math
from collections.abc import Callable
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from eigenveil.data.sources import RowSource
from eigenveil.estimators.base import Asked, Family, Outcome, PrivateEstimator, mean_score
from eigenveil.estimators.bounds import RowNorm, StatedBounds, box_of, by_column
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.additive import Allowance
from eigenveil.mechanisms.base import Procedure
from eigenveil.mechanisms.centred import CENTRE_SHARE, Centred, CentredResult, Uncentred
from eigenveil.mechanisms.covariance.adaptive import AdaptiveCov
from eigenveil.mechanisms.covariance.adaptive_cleaned import AdaptiveCleanedCov
from eigenveil.mechanisms.covariance.cleaned import CleanedCov
from eigenveil.mechanisms.covariance.coinpress import CoinPressCov
from eigenveil.mechanisms.covariance.exponential import ExponentialCov
from eigenveil.mechanisms.covariance.gauss import GaussCov, NoisyMatrix
from eigenveil.mechanisms.covariance.laplace import LapCov
from eigenveil.mechanisms.covariance.projection import ProjectedCov
from eigenveil.mechanisms.covariance.separate import SeparateCov
from eigenveil.mechanisms.covariance.wishart import WishartCov
from eigenveil.mechanisms.covariance.zero import ZeroCov
from eigenveil.mechanisms.lifted import Lifted
from eigenveil.mechanisms.located import SHARES, Located, enough_rows
from eigenveil.mechanisms.mean import PrivateMean
from eigenveil.mechanisms.ranged import RADIUS_SHARE, Ranged
from eigenveil.mechanisms.scalars.column_scale import ColumnScale
from eigenveil.mechanisms.scaled import SCALE_SHARE, Scaled
from eigenveil.numerics.spectral import map_eigenvalues, project_to_simplex
from eigenveil.planner import Situation
from eigenveil.planner.stages import Centring, too_few
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.cost import Gaussian, Pure
from eigenveil.privacy.ledger import Ledger
from eigenveil.release.artefact import Release

__all__ = ["PrivateCovariance"]


def _has_precision(estimator: "PrivateCovariance") -> bool:
    """Before a fit nobody knows; after it the error says why there is none."""
    return not hasattr(estimator, "covariance_") or estimator.precision_ is not None


class PrivateCovariance(PrivateEstimator):
    """A covariance matrix, released once with differential privacy.

    Parameters
    ----------
    epsilon, delta, rho : float, optional
        The budget of one fit: ``epsilon`` and ``delta``, ``rho`` alone, or ``epsilon`` alone for a
        pure guarantee.
    mechanism : str
        ``"auto"`` lets the planner choose from public numbers and records why:
        ``"adaptive-cleaned"`` as a rule, ``"wishart"`` for a pure epsilon. ``"cleaned"`` takes the
        known noise off the eigenvalues; ``"adaptive-cleaned"`` first lowers the bound on rows
        privately, which is better where the stated bound is generous, and worse where variances
        rest on a few far rows.
        To compare: ``"projection"``, ``"gauss"``, ``"separate"``, ``"adaptive"``,
        ``"exponential"``, ``"coinpress"``, ``"laplace"``, ``"zero"``; see the README.
    trace_bound : float, optional
        Public bound on the total variance, if a smaller one than ``row_norm`` squared is known. It
        is enforced after the noise, whichever the mechanism. Of scaled columns, with ``scale``.
    row_norm : float or "private", optional
        Clipping distance of a row from the centre. A smaller one means less noise, and smaller
        variances if rows lie beyond it. ``"private"`` needs no bound: without ``bounds`` the centre
        is found by 0.15 of the budget (0.25 of a pure epsilon) and up to three searches, and a
        tenth at most buys the radius, from the 75 % quantile of distances up to 8 times that, the
        more rows the farther. With ``bounds`` it is bought within them.
    scale : array of shape (n_features,) or "private", optional
        What columns are divided by before rows are clipped and noise is added, for columns of
        different units; ``covariance_`` is in the units of the data. ``"private"`` finds scales
        with a tenth of the budget, for replace-one neighbours. ``row_norm`` is a distance of scaled
        rows, ``bounds`` are those of the columns as they are.
    bounds, assume_centered, adjacency, on_invalid, on_missing, ledger, random_state
        As in `PrivatePCA`, except that ``bounds`` alone clip at the distance from the start (the
        middle of the box, or the origin if centred) to its farthest corner, and that columns are
        divided by half their ranges where these are stated one by one, so that a wide column does
        not drown the others; not with a ``row_norm`` or ``trace_bound`` in the units of the data.

    Attributes
    ----------
    covariance_ : array of shape (n_features, n_features)
        Symmetric; positive semi-definite except under ``"gauss"``, ``"laplace"``, ``"adaptive"``
        and ``"coinpress"``. A column whose private scale did not stand out has zeros.
    correlation_ : array of shape (n_features, n_features)
        Of ``covariance_``: positive semi-definite with ones on the diagonal, NaN in rows and
        columns of a column whose released variance is not positive.
    scale_ : array of shape (n_features,)
        What columns were divided by, infinite for a column that was left out; ones by default.
    shares_ : dict
        With ``row_norm="private"`` or ``scale="private"``: how the budget was split, in shares of
        mu^2, or of a pure epsilon. Searches for a centre come on top.
    precision_ : array of shape (n_features, n_features)
        The inverse of ``covariance_``, only where that is positive definite.
    mechanism_, choice_ : str
        The mechanism, and why ``"auto"`` chose it.
    location_ : array of shape (n_features,)
        The released centre; zero if ``assume_centered``.
    n_samples_ : int
        None where the number of rows is private; with groups, that of groups.
    noise_scale_ : float
        Standard deviation of the noise on a diagonal entry, on an eigenvalue under ``"separate"``
        and ``"exponential"``; public. This and the next two are those of scaled columns.
    noisy_eigenvalues_ : array
        Descending eigenvalues before the mechanism changed them, where it did, or of scaled rows:
        to be compared with ``noise_floor_``.
    row_norm_ : float
        The bound on rows, where the mechanism chose it privately.
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
    number of rows, or of groups. Never released: row norms, how many rows were clipped or invalid,
    how many rows an id has. What `mahalanobis` and `score` return is not private with respect to
    their input.

    """

    mechanisms: ClassVar[dict[str, Family[NoisyMatrix]]] = {
        "cleaned": Family(gaussian=lambda mu, asked: CleanedCov(mu=mu), semidefinite=True),
        "adaptive-cleaned": Family(
            gaussian=lambda mu, asked: AdaptiveCleanedCov.gaussian(mu),
            one_pass=False,
            semidefinite=True,
        ),
        "wishart": Family(
            pure=lambda epsilon, asked: WishartCov(epsilon=epsilon),
            lifted=lambda epsilon, row_norm: Lifted(
                inner=WishartCov(epsilon=epsilon, clean=False), row_norm=row_norm
            ),
            semidefinite=True,
        ),
        "gauss": Family(gaussian=lambda mu, asked: GaussCov(mu=mu)),
        "projection": Family(gaussian=lambda mu, asked: ProjectedCov(mu=mu), semidefinite=True),
        "separate": Family(
            gaussian=lambda mu, asked: SeparateCov.gaussian(mu),
            pure=lambda epsilon, asked: SeparateCov.pure(epsilon),
            semidefinite=True,
        ),
        "adaptive": Family(
            gaussian=lambda mu, asked: AdaptiveCov.gaussian(mu, asked.n_columns),
            pure=lambda epsilon, asked: AdaptiveCov.pure(epsilon, asked.n_columns),
            one_pass=False,
        ),
        "exponential": Family(
            gaussian=lambda mu, asked: ExponentialCov.concentrated(mu, asked.n_columns),
            pure=lambda epsilon, asked: ExponentialCov.pure(epsilon, asked.n_columns),
            semidefinite=True,
        ),
        "coinpress": Family(gaussian=lambda mu, asked: CoinPressCov.gaussian(mu), one_pass=False),
        "laplace": Family(pure=lambda epsilon, asked: LapCov(epsilon=epsilon)),
        "zero": Family(
            gaussian=lambda mu, asked: ZeroCov(),
            pure=lambda epsilon, asked: ZeroCov(),
            semidefinite=True,
        ),
    }
    pure_default = "wishart"
    one_pass = "cleaned"
    subject = "a covariance"

    # The mean squared distance of rows in the box from their mean is at most its reach squared.
    shrink = 1.0

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        mechanism: str = "auto",
        row_norm: RowNorm | None = None,
        bounds: Any = None,
        trace_bound: float | None = None,
        assume_centered: bool = False,
        scale: Any = None,
        adjacency: str = "replace-one",
        on_invalid: Literal["raise", "zero"] = "raise",
        on_missing: Literal["invalid", "centre"] = "invalid",
        ledger: Ledger | str | Path | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.mechanism = mechanism
        self.row_norm = row_norm
        self.bounds = bounds
        self.trace_bound = trace_bound
        self.assume_centered = assume_centered
        self.scale = scale
        self.adjacency = adjacency
        self.on_invalid = on_invalid
        self.on_missing = on_missing
        self.ledger = ledger
        self.random_state = random_state

    # From the arguments to a procedure: public numbers only.

    @property
    def _by_range(self) -> bool:
        """Whether columns are divided by half their ranges, so that a wide one drowns no other.

        A stated length or trace is one of columns as they are.
        """
        as_they_are = self.trace_bound is not None or isinstance(self.row_norm, Real)
        return self.scale is None and not as_they_are and by_column(self._ranges())

    def _public_scale(self, n_columns: int) -> NDArray[np.float64] | None:
        if not self._by_range:
            return super()._public_scale(n_columns)
        low, high = box_of(self._ranges(), n_columns)
        half = (high - low) / 2
        narrowest = half[half > 0].min()  # for what has no range
        return np.asarray(np.maximum(half, narrowest))

    def _scale_words(self, result: CentredResult[Any]) -> tuple[str, ...]:
        if self._by_range:
            return ("columns divided by half their stated ranges",)
        return super()._scale_words(result)

    def _situation(self, budget: Budget, adjacency: Adjacency, source: RowSource) -> Situation:
        both = not (self.row_norm is None or self.bounds is None or isinstance(self.row_norm, str))
        reach = self._bounds("auto", source.n_columns, None).start.row_norm if both else None
        return Situation(
            task="covariance",
            n=self._public_rows(adjacency, source),
            d=source.n_columns,
            budget=budget,
            adjacency=adjacency,
            row_norm=None if isinstance(self.row_norm, str) else self.row_norm,
            private_radius=isinstance(self.row_norm, str),
            bounded=self.bounds is not None,
            per_column=by_column(self._ranges()),
            reach=reach,
            assume_centered=bool(self.assume_centered),
            one_pass=not source.rereadable,
            unit=source.protects.name,
        )

    def _consider(self, asked: Asked) -> Asked:
        if isinstance(self.scale, str):
            self._check_private_scale(asked.adjacency)
        if not (self._bought(asked) and asked.adjacency.count_is_public):
            return asked
        if not asked.source.rereadable:
            raise self._read_once()
        if asked.n_rows is not None:
            return asked
        return replace(asked, n_rows=self._public_rows(asked.adjacency, asked.source))

    def _bought(self, asked: Asked) -> bool:
        """Whether a radius or scales are bought, so that the release has stages."""
        return asked.stated.private or isinstance(self.scale, str)

    def _shares_of(self, asked: Asked) -> dict[str, float]:
        """Of the budget, by stage."""
        shares = {}
        if isinstance(self.scale, str):
            shares["scale"] = SCALE_SHARE
        if self._centring() == "located":
            shares["centre"] = sum(SHARES[asked.pure])
        elif not (self.assume_centered and asked.adjacency.count_is_public):
            shares["centre"] = CENTRE_SHARE
        if asked.stated.private:
            shares["radius"] = RADIUS_SHARE
        shares["matrix"] = 1 - sum(shares.values())
        return shares

    def _centring(self) -> Centring:
        """How the centre is found: by a mean within a stated bound, or without any."""
        if self.assume_centered:
            return "none"
        return "located" if isinstance(self.row_norm, str) and self.bounds is None else "mean"

    def _about(self, asked: Asked) -> Callable[[float], Procedure[CentredResult[Any]]]:
        self._shares: dict[str, float] | None = None
        if not self._bought(asked):
            return super()._about(asked)
        budget = self._strength(asked, Pure if asked.pure else Gaussian)
        if asked.stated.private and too_few(Allowance(budget, asked.pure), asked.n_rows):
            raise self._too_few()
        self._shares = shares = self._shares_of(asked)

        def build(parameter: float) -> Procedure[CentredResult[Any]]:
            whole = Allowance(parameter, asked.pure)
            inner = self._inner(asked, whole.part(shares["matrix"]))
            if asked.stated.private:
                inner = Ranged.build(whole, asked.n_rows, inner, columns=asked.n_columns)
            centred = self._centred(asked, whole, shares, inner)
            if "scale" not in shares:
                return centred
            scale = ColumnScale(noise=whole.part(shares["scale"]).noise())
            return Scaled(scale=scale, inner=centred)

        return build

    def _centred(
        self, asked: Asked, whole: Allowance, shares: dict[str, float], inner: Procedure[Any]
    ) -> Procedure[CentredResult[Any]]:
        row_norm = asked.stated.clip.row_norm
        if self._centring() == "located":
            persons = asked.protects.owns_many  # of whom there is no sample by position
            share = 1.0 if persons else enough_rows(whole, asked.n_rows, asked.n_columns)
            return Located.build(whole, asked.n_rows, inner, share=share, directions=False)
        if "centre" not in shares:
            return Uncentred(inner=inner, row_norm=row_norm)
        return Centred(
            mean=PrivateMean(noise=whole.part(shares["centre"]).noise()),
            inner=inner,
            row_norm=row_norm,
            fixed_centre=self.assume_centered,
        )

    def _reads_once(self, asked: Asked, procedure: Procedure[Any]) -> bool:
        return not self._bought(asked) and super()._reads_once(asked, procedure)

    def _words(self, stated: StatedBounds, result: CentredResult[Any]) -> tuple[str, ...]:
        words = super()._words(stated, result)
        if self._centring() == "located":
            words = (*words, "the centre is private, found without a bound")
        return (*words, *self._scale_words(result))

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Release the covariance of ``X``: an array, a data frame, a path, or chunks.

        ``groups`` holds an id for each row: all rows of one id are protected together.
        """
        with self._renewed():
            outcome = self._release(X, groups, trace_bound=self.trace_bound)
        del X, groups
        noisy: NoisyMatrix = outcome.result.inner
        self._place(outcome, self._held(noisy.matrix * outcome.per_row, outcome))
        self.n_samples_ = outcome.n_rows
        self.privacy_ = outcome.guarantee
        arrays = {"covariance": self.covariance_, "location": self.location_}
        scaled = bool((self.scale_ != 1).any())
        if scaled:
            arrays["scale"] = self.scale_
        settings = self._settings(
            outcome,
            noisy.noise_scale,
            noisy.law,
            unit=outcome.per_row,
            error=outcome.result.centre_error,
        )
        if self._shares is not None:
            self.shares_ = {stage: round(share, 12) for stage, share in self._shares.items()}
            settings |= {"centring": self._centring(), "shares": self.shares_}
        if self.trace_bound is not None:
            settings["trace_bound"] = float(self.trace_bound)
        if noisy.row_norm is not None:
            self.row_norm_ = settings["chosen_row_norm"] = noisy.row_norm
        values = noisy.noisy_eigenvalues
        if values is None and scaled:  # those of covariance_ are in other units
            values = np.asarray(np.linalg.eigvalsh(noisy.matrix), dtype=np.float64)
        if values is not None:
            self.noisy_eigenvalues_ = values[::-1] * outcome.per_row
            arrays["noisy_eigenvalues"] = self.noisy_eigenvalues_
        self.release_ = Release(
            kind="covariance",
            mechanism=outcome.mechanism,
            guarantee=outcome.guarantee,
            settings=settings,
            arrays=arrays,
        )
        return self

    def _place(self, outcome: Outcome[Any], matrix: NDArray[np.float64]) -> None:
        """Matrix and centre for all columns, in the units of the data."""
        self.scale_ = self._scales(outcome.result)
        kept = np.flatnonzero(np.isfinite(self.scale_))
        scale = self.scale_[kept]
        self.covariance_ = np.zeros((self.n_features_in_, self.n_features_in_))
        self.covariance_[np.ix_(kept, kept)] = matrix * np.outer(scale, scale)
        self.location_ = np.zeros(self.n_features_in_)
        self.location_[kept] = outcome.result.centre * scale
        if self._by_range:
            low, high = box_of(self._ranges(), self.n_features_in_)
            constant = low == high  # by what was stated
            self.covariance_[constant] = self.covariance_[:, constant] = 0.0
            self.location_[constant] = low[constant]

    def _held(self, matrix: NDArray[np.float64], outcome: Outcome[Any]) -> NDArray[np.float64]:
        """The matrix with at most the trace that was stated, or that the bound on rows allows."""
        bound = math.inf if self.trace_bound is None else float(self.trace_bound)
        if outcome.n_rows is None and self.mechanisms[outcome.mechanism].semidefinite:
            bound = min(bound, outcome.stated.clip.row_norm**2)  # a noisy count may be too small
        if bound == math.inf:
            return matrix
        held, _ = map_eigenvalues(matrix, lambda values: project_to_simplex(values, bound))
        return held

    @property
    def correlation_(self) -> NDArray[np.float64]:
        """Correlations of ``covariance_``; NaN for columns without a positive variance.

        Of an indefinite matrix the nearest positive semi-definite one is taken, once its diagonal
        is 1 so that units do not matter; that raises the diagonal, which is brought back to 1.
        """
        check_is_fitted(self)
        variances = self.covariance_.diagonal()
        kept = np.flatnonzero(variances > 0)
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
        """Squared Mahalanobis distances of rows from `location_`; NOT private as to ``X``.

        As `score`, only where there is a `precision_`.
        """
        check_is_fitted(self)
        precision = self.precision_

        def distances(rows: NDArray[Any]) -> NDArray[np.float64]:
            with np.errstate(invalid="ignore", over="ignore"):
                centred = self._floats(rows, self.location_) - self.location_
                squares: NDArray[np.float64] = np.sum(centred @ precision * centred, axis=1)
            return squares

        return self._per_row(X, distances)

    @available_if(_has_precision)  # type: ignore[untyped-decorator]
    def score(self, X: Any, y: Any = None) -> float:
        """Mean Gaussian log-likelihood of the rows of ``X``; NOT private with respect to ``X``."""
        distance = mean_score(self.mahalanobis(X))
        volume = float(np.linalg.slogdet(self.covariance_)[1])
        return -(distance + volume + self.n_features_in_ * math.log(2 * math.pi)) / 2

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
