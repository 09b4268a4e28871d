"""A fresh covariance, or fresh components, of everything so far, every day under one budget."""

from pathlib import Path
from typing import Any

import numpy as np

from eigenveil.estimators.daily import DailyEstimator
from eigenveil.estimators.running_results import (
    DailyPlan,
    DailyRun,
    running_components,
    running_covariance,
    running_settings,
)
from eigenveil.estimators.scores import ComponentEstimator
from eigenveil.exceptions import BoundsRequiredError, InvalidParameterError
from eigenveil.mechanisms.gate import proofs_of
from eigenveil.messages import option
from eigenveil.planning.bounds import OnInvalid, OnMissing, StatedBounds
from eigenveil.privacy.adjacency import Unit
from eigenveil.privacy.ledger import Ledger
from eigenveil.release.artefact import Release


class ContinualCovariance(DailyEstimator):
    """A covariance of everything so far, released anew every day under one budget.

    Hand over the rows of a day by `partial_fit`. Mean and covariance of all days so far are then
    released with fresh noise, and all these releases together cost the budget once. The noise
    grows slowly with the horizon: docs/continual.md has a table.

    Parameters
    ----------
    horizon : int
        Largest number of days that may come, from 1 to 10,000.
    epsilon, delta, rho : float, optional
        The budget of all days: ``epsilon`` and ``delta``, or ``rho`` alone.
    row_norm : float
        Public clipping distance of a row from the centre: rows beyond it are pulled in.
    centre : array of shape (n_features,) or {name: number}, optional
        A public point that rows are taken about, the origin by default; never the data's own mean.
        A good one allows a small ``row_norm``. The covariance is about the private mean all the
        same.
    scale : array of shape (n_features,) or {name: number}, optional
        Public scales that columns are divided by before rows are clipped.
    days_per_group : int, optional
        Protect persons instead of rows: `partial_fit` is then told whose each row is, and a person
        counts on so many days at most. The number of rows is private then, and so is whether
        anybody came.
    on_invalid : {"raise", "zero"}
        Whether a row with a missing or infinite value is refused, with its day, or contributes
        nothing.
    on_missing : {"invalid", "centre"}
        Whether an empty cell (NaN) makes its row invalid or is taken as the stated centre's.
    ledger : Ledger or path, optional
        Charged once for all days, before any noise is drawn. With a state it also notes, at no
        cost, every draw, so that an older copy of the state is noticed.
    state : path, optional
        Where days are kept between calls, so that they survive the process. The file is PRIVATE: it
        holds the exact second moment of every day.
    random_state : int, optional
        Seed of a simulation, which is marked as not private.

    Attributes
    ----------
    covariance_ : array of shape (n_features, n_features)
        Covariance of clipped rows of all days so far: positive semi-definite.
    location_ : array of shape (n_features,)
        Private mean of clipped rows.
    location_noise_ : array of shape (n_features,)
        Standard deviation of the noise on each entry of ``location_``.
    scale_ : array of shape (n_features,)
        What columns are divided by; ones by default.
    day_ : int
        How many days were released.
    n_samples_ : int or None
        Rows so far; None where their number is private.
    noise_scale_ : float
        Standard deviation of the noise on a diagonal entry before cleaning, of scaled columns.
    noise_floor_ : float
        Eigenvalue that noise alone rarely exceeds (about 1 %), of scaled columns.
    mechanism_ : str
        ``"continual"``.
    release_ : Release
        The artefact of today: save it, publish it.
    privacy_ : Guarantee
        The promise, for all days together.

    Notes
    -----
    Privacy: protects one row against another that arrives in its place, or with ``days_per_group``
    all rows of one id, added or removed. Public: the number of days, and that of rows where single
    rows are protected. Whoever chooses later rows may look at earlier releases. With a state or a
    ledger every day needs a label, ``partial_fit(rows, batch="2026-11-15")``, which is refused the
    second time; rows are never compared. A state needs 8 (d + 1)(d + 2) bytes a day; the memory is
    that, twice.

    """

    def __init__(
        self,
        *,
        horizon: int,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        row_norm: float | None = None,
        centre: Any = None,
        scale: Any = None,
        days_per_group: int | None = None,
        on_invalid: OnInvalid = "raise",
        on_missing: OnMissing = "invalid",
        ledger: Ledger | str | Path | None = None,
        state: str | Path | None = None,
        random_state: int | None = None,
    ) -> None:
        self.horizon = horizon
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.row_norm = row_norm
        self.centre = centre
        self.scale = scale
        self.days_per_group = days_per_group
        self.on_invalid = on_invalid
        self.on_missing = on_missing
        self.ledger = ledger
        self.state = state
        self.random_state = random_state

    def _stated(self) -> StatedBounds:
        if self.row_norm is None:
            raise BoundsRequiredError(
                "a running covariance needs a bound: give ",
                option("row_norm", "R"),
                " for the distance of a row from the centre, never taken from the data",
            )
        return super()._stated()

    def _hold(self, run: DailyRun) -> None:
        plan, found = run.plan, running_covariance(run)
        self.covariance_, self.location_ = found.covariance, found.location
        self.noise_scale_, self.noise_floor_ = found.noise_scale, found.noise_floor
        self.location_noise_, self.scale_ = found.centre_noise * plan.scale, plan.scale
        settings = running_settings(run, found, getattr(self, "feature_names_in_", None))
        arrays = {"covariance": found.covariance, "location": found.location}
        arrays["noisy_covariance"] = found.noisy
        if (plan.scale != 1).any():
            values = np.linalg.eigvalsh(found.covariance / np.outer(plan.scale, plan.scale))
            descending = np.array(values[::-1], dtype=np.float64)
            arrays |= {"scale": plan.scale, "noisy_eigenvalues": descending}
        self.release_ = Release(
            kind="covariance",
            mechanism=plan.mechanism.name,
            guarantee=self.privacy_,
            proofs=proofs_of(plan.mechanism),
            settings=settings | {"centre_noise": found.centre_noise},
            arrays=arrays,
        )


class ContinualPCA(DailyEstimator, ComponentEstimator):
    """Principal components of everything so far, released anew every day under one budget.

    As `ContinualCovariance`, which describes the parameters; without a ``row_norm`` every row is
    scaled to unit length about the stated centre, so that no bound is needed, only directions
    count, and no mean is released.

    Parameters
    ----------
    n_components : int
        How many components to release.
    horizon, epsilon, delta, rho, row_norm, centre, scale, days_per_group, on_invalid, \
on_missing, ledger, state, random_state
        As in `ContinualCovariance`.

    Attributes
    ----------
    components_, explained_variance_, explained_variance_ratio_, reproducibility_, \
component_groups_, loading_errors_, reliability_, distinguishable_, n_components_, mean_, scale_, \
noise_scale_, noise_floor_
        As in `PrivatePCA`; ``mean_`` is the stated centre where rows have unit length.
    day_, n_samples_, mechanism_, release_, privacy_
        As in `ContinualCovariance`.

    """

    _fixed = (*DailyEstimator._fixed, "n_components")

    def __init__(
        self,
        n_components: int,
        *,
        horizon: int,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        row_norm: float | None = None,
        centre: Any = None,
        scale: Any = None,
        days_per_group: int | None = None,
        on_invalid: OnInvalid = "raise",
        on_missing: OnMissing = "invalid",
        ledger: Ledger | str | Path | None = None,
        state: str | Path | None = None,
        random_state: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.horizon = horizon
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.row_norm = row_norm
        self.centre = centre
        self.scale = scale
        self.days_per_group = days_per_group
        self.on_invalid = on_invalid
        self.on_missing = on_missing
        self.ledger = ledger
        self.state = state
        self.random_state = random_state

    def _plan(self, d: int, unit: Unit) -> DailyPlan:
        k = self.n_components
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= d:
            raise InvalidParameterError(
                option("n_components"), f" must be between 1 and the number of columns, {d}"
            )
        return super()._plan(d, unit)

    def _hold(self, run: DailyRun) -> None:
        mechanism, found = run.plan.mechanism, running_components(run, int(self.n_components))
        self.__dict__.update(found.attributes())
        settings = running_settings(run, found, getattr(self, "feature_names_in_", None))
        self.release_ = found.release(
            mechanism.name, self.privacy_, settings, proofs=proofs_of(mechanism)
        )
