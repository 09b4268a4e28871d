"""Current components, covariance, promise and artefact of a stream or continual release."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.estimators.arrivals import ArrivalPlan, Run
from eigenveil.estimators.results import ComponentResult, component_result, public_settings
from eigenveil.estimators.state import DailyProgress
from eigenveil.estimators.stream_run import StreamPlan, StreamRun
from eigenveil.exact.clip import Clip
from eigenveil.exact.daily_moments import day_sensitivity, unpacked
from eigenveil.exact.symmetric import GaussianLaw
from eigenveil.mechanisms.components import leading
from eigenveil.mechanisms.continual import ContinualCov
from eigenveil.mechanisms.gate import proofs_of
from eigenveil.mechanisms.gauss import NoisyMatrix
from eigenveil.mechanisms.homogeneous_rows import schur_complement, unlifted
from eigenveil.mechanisms.row_bounds import RowBounds
from eigenveil.mechanisms.standardising import standardised_by_itself
from eigenveil.numerics.spectral import map_eigenvalues, project_to_simplex
from eigenveil.planning.bounds import invalid_words
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.clauses import CENTRE_CLAUSES, limits_clause
from eigenveil.privacy.guarantee import Guarantee, Numerics
from eigenveil.release.artefact import Release
from eigenveil.text import plural

_SCALED = "columns divided by scales stated by the caller"


def published(
    run: StreamRun, *, budget: Budget, simulated: bool, feature_names: NDArray[np.object_] | None
) -> tuple[ComponentResult, Guarantee, Release] | None:
    """Return the newest components with their promise and artefact; None before there are any.

    No record is in reach of it.
    """
    plan, progress = run.plan, run.state.progress
    iterate, bounds, hidden = progress.iterate, progress.bounds, None
    if iterate is None or math.isinf(iterate.noise_variance):  # a centre or a trace at most
        return None
    k = plan.mechanism.n_components
    if bounds is None or bounds.columns is None:
        noisy = iterate.components(k)
    else:
        noisy, bounds, hidden = standardised_by_itself(iterate, bounds, k)
    if progress.used < plan.needed:  # a random start may still show
        noisy = replace(noisy, reliability=np.zeros(len(noisy.components)))
    stated = run.stated
    columns = None if bounds is None else bounds.columns
    scale = plan.scale if columns is None else columns.scale
    found = component_result(
        noisy,
        centre=np.zeros(plan.d) if bounds is None else bounds.centre,
        centre_error=0.0 if bounds is None else bounds.centre_error,
        scale=np.ones(plan.d) if scale is None else scale,
        shares=stated.clip.normalise,
    )
    promise = _promise(
        run,
        budget,
        (
            *stated.words,
            *_prepared_words(run, bounds),
            *run.state.settings["read"]["remarks"],
            *invalid_words(stated.start.on_invalid, stated.start.on_missing, corrects=False),
            *_used_once(plan),
        ),
        simulated=simulated,
        arrival=progress.arrival,
        arrivals=plan.max_arrivals if progress.arrival and plan.unit.owns_many else None,
    )
    settings = public_settings(
        n_features=plan.d,
        n_rows=progress.used,
        stated=stated,
        centred=plan.centred,
        on_invalid=stated.start.on_invalid,
        on_missing=stated.start.on_missing,
        noise_scale=found.noise_scale,
        noise_floor=found.noise_floor,
        reason="",
        feature_names=feature_names,
        balance=run.gate.balance,
        encoding=run.state.settings["read"]["encoding"],
    )
    settings["centring"] = "none" if plan.centred else "located"
    if hidden is not None:
        settings["hidden_columns"] = np.flatnonzero(hidden).tolist()
    if bounds is not None and bounds.clipped is not None:
        settings["chosen_row_norm"] = bounds.clipped
    first = () if plan.preparation is None else plan.preparation.proofs
    proofs = ("streaming", *first, *proofs_of(plan.mechanism))
    released = found.release(plan.mechanism.name, promise, settings, proofs=proofs)
    return found, promise, released


def _promise(
    run: Run[Any, Any],
    budget: Budget,
    words: Sequence[str],
    *,
    simulated: bool,
    arrival: bool,
    arrivals: int | None = None,
) -> Guarantee:
    """Return the promise for all releases together."""
    state, plan = run.state, run.plan
    return Guarantee(
        budget=budget,
        cost=plan.charge,
        adjacency=plan.adjacency,
        protects=plan.unit,
        bounds=tuple(words),
        numerics=Numerics.EXACT if state.exact else Numerics.IDEALISED,
        simulated=simulated,
        ledger=run.gate.receipt,
        arrival=arrival,
        merged_ids=state.merged_ids,
        arrivals=arrivals,
    )


def _prepared_words(run: StreamRun, bounds: RowBounds | None) -> Iterator[str]:
    """Describe what the first batch released, as far as it was asked for."""
    plan, before = run.plan, run.state.progress.bounds
    if plan.centred:
        yield CENTRE_CLAUSES["none"]
    else:
        apart = bounds is None or bounds.columns is None
        only = " from records used for nothing else" if apart else ""
        yield f"{CENTRE_CLAUSES['located']} without a bound{only}"
    if plan.scale is not None:
        yield _SCALED
    if bounds is None or bounds.clipped is None:
        return
    if bounds.columns is None:
        yield "rows of earlier batches pulled in to a distance that suits fewer records"
        return
    yield "columns divided by private scales, which every batch makes finer"
    yield (
        "each batch pulled in within its own scales, earlier ones to a distance that suits fewer "
        "records"
    )
    columns = bounds.columns
    assert before is not None
    assert before.columns is not None  # of which these came
    reach = columns.limit * before.columns.scale / columns.scale
    yield limits_clause(float(reach.min()), float(reach.max()), float(columns.turn.min()))


def _used_once(plan: StreamPlan) -> tuple[str, ...]:
    """Say why a stream costs the budget once."""
    together = "so all releases of this stream together cost the budget once"
    if not plan.unit.owns_many:
        return (f"every record is used in one batch only, {together}",)
    name, most = plan.unit.name, plan.max_arrivals
    return (
        f"of each arrival one row of a {name} is used at most, chosen at random and in secret, and "
        f"of the whole stream {most} {plural('row', most)}; every row is used in one batch only, "
        f"{together}",
    )


def daily_adjacency(*, of_persons: bool) -> Adjacency:
    """Return the neighbours: rows arrive one in place of another, persons come and go."""
    return Adjacency.ADD_REMOVE if of_persons else Adjacency.REPLACE_ONE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunningCovariance:
    """Mean and covariance so far, in the units of the data.

    Attributes
    ----------
    covariance, location : arrays
        As released.
    noisy : array
        The covariance before it was cleaned.
    noise_scale, noise_floor, centre_noise : float
        Public facts about the noise, in scaled units.

    """

    covariance: NDArray[np.float64]
    location: NDArray[np.float64]
    noisy: NDArray[np.float64]
    noise_scale: float
    noise_floor: float
    centre_noise: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DailyPlan(ArrivalPlan[ContinualCov]):
    """How days are released; public numbers."""

    clip: Clip
    scale: NDArray[np.float64]  # that columns are divided by

    @property
    def adjacency(self) -> Adjacency:
        """Replace-one where a row arrived; persons come and go with all their rows."""
        return daily_adjacency(of_persons=self.unit.owns_many)

    @property
    def width(self) -> int:
        """Number of columns of the matrices."""
        return self.clip.width(self.d)


DailyRun = Run[DailyProgress, DailyPlan]


def running_covariance(run: DailyRun) -> RunningCovariance:
    """Return mean and covariance of everything so far, cleaned of the known noise."""
    noisy, plan, clip = _running(run), run.plan, run.plan.clip
    found = unlifted(noisy, clip, public=plan.adjacency.count_is_public)
    assert found.inner.law is not None  # there is noise
    per_row = 1.0 if found.noisy_count is None else 1 / found.noisy_count
    matrix = found.inner.matrix * per_row
    most = clip.row_norm**2
    if np.trace(matrix) > most:  # a noisy count may be too small
        matrix, _ = map_eigenvalues(matrix, lambda values: project_to_simplex(values, most))
    off_diagonal = noisy.noise_scale * per_row / math.sqrt(2)
    units = np.outer(plan.scale, plan.scale)
    assert found.inner.unbiased is not None  # it was cleaned
    return RunningCovariance(
        covariance=matrix * units,
        noisy=found.inner.unbiased * per_row * units,
        location=_within(found.centre, clip) * plan.scale,
        noise_scale=noisy.noise_scale * per_row,
        noise_floor=found.inner.law.scaled(per_row).floor(),
        centre_noise=off_diagonal / (clip.lift * clip.row_norm),
    )


def running_components(run: DailyRun, k: int) -> ComponentResult:
    """Return the leading components of everything so far."""
    noisy, plan, clip = _running(run), run.plan, run.plan.clip
    centre = np.zeros(plan.d) if clip.centre is None else clip.centre
    if clip.lift:
        constant = (clip.lift * clip.row_norm) ** 2
        corner = max(constant, float(noisy.matrix[-1, -1]))
        if plan.adjacency.count_is_public:
            corner = constant
        per_row, side = constant / corner, noisy.matrix[:-1, -1]
        stretch = 1 + float(side @ side) / corner**2
        scale = noisy.noise_scale * per_row * stretch
        matrix = schur_complement(noisy.matrix, corner) * per_row
        noisy = NoisyMatrix(matrix, noisy.noise_scale * per_row, GaussianLaw(plan.d, scale))
        offset = side * (clip.lift * clip.row_norm / corner)
        centre = _within(centre + offset, clip)
    return component_result(
        leading(noisy, k),
        centre=centre,
        centre_error=0.0,
        scale=plan.scale,
        shares=clip.normalise,
    )


def running_promise(run: DailyRun, budget: Budget, *, simulated: bool) -> Guarantee:
    """Return the promise for all days together."""
    plan, clip, many = run.plan, run.plan.clip, run.plan.unit.owns_many
    horizon, most = plan.mechanism.horizon, plan.mechanism.days
    enters = (
        f"the rows of one {plan.unit.name} count on its first {most} days, those of one day "
        "together as one row, and not at all later"
        if many
        else "every row enters on one day"
    )
    scaled = bool((plan.scale != 1).any())
    words = (
        *plan.stated.words,
        CENTRE_CLAUSES["none"] if clip.centre is None else "the centre is stated by the caller",
        *((_SCALED,) if scaled else ()),
        *invalid_words(clip.on_invalid, clip.on_missing, corrects=False),
        f"{enters}; all releases up to day {horizon} together cost the budget once",
    )
    return _promise(run, budget, words, simulated=simulated, arrival=not many)


def running_settings(
    run: DailyRun,
    found: ComponentResult | RunningCovariance,
    feature_names: NDArray[np.object_] | None,
) -> dict[str, Any]:
    """Return the public settings of today's release."""
    plan, clip, progress = run.plan, run.plan.clip, run.state.progress
    settings = public_settings(
        n_features=plan.d,
        n_rows=progress.count if plan.adjacency.count_is_public else None,
        stated=plan.stated,
        centred=clip.centre is None and not clip.lift,
        on_invalid=clip.on_invalid,
        on_missing=clip.on_missing,
        noise_scale=found.noise_scale,
        noise_floor=found.noise_floor,
        reason="",
        feature_names=feature_names,
        balance=run.gate.balance,
    )
    centring = "none" if clip.centre is None else "stated"
    return settings | {
        "centring": "mean" if clip.lift else centring,
        "day": progress.released,
        "horizon": plan.mechanism.horizon,
    }


def _running(run: DailyRun) -> NoisyMatrix:
    """Return the second moment so far, of rows or, where their number is private, as a sum."""
    plan, progress, day = run.plan, run.state.progress, run.state.progress.released
    assert progress.drawn is not None  # a day was released
    matrices = np.tensordot(plan.mechanism.weights(day), progress.drawn, axes=1)
    public = plan.adjacency.count_is_public
    unit = plan.clip.radius**2 / (progress.count if public else 1)
    scale = plan.mechanism.noise(day) * day_sensitivity(plan.width, plan.adjacency)
    law = GaussianLaw(plan.width, scale * unit)
    return NoisyMatrix(unpacked(matrices) * unit, law.scale, law)


def _within(centre: NDArray[np.float64], clip: Clip) -> NDArray[np.float64]:
    """Return the point of the ball that holds the rows which is nearest to ``centre``."""
    stated = np.zeros(len(centre)) if clip.centre is None else clip.centre
    offset = centre - stated
    length = float(np.linalg.norm(offset))
    return stated + offset * min(1.0, clip.row_norm / length if length else 1.0)
