"""Predicted errors of all mechanisms, the best of them, and the budget for a wanted error.

Nothing here reads data: a table is assumed (`Situation`), and noise is drawn from fixed seeds, so
that the same question has the same answer. Predictions are means over releases.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from threadpoolctl import threadpool_limits

from eigenveil.exceptions import EigenveilError, InvalidParameterError
from eigenveil.mechanisms.registry import Mechanism, entries, entry, unknown_mechanism
from eigenveil.numerics.random import SimulationSource
from eigenveil.planning.choice import Choice, as_chosen, choose, plan_of
from eigenveil.planning.plans import plan
from eigenveil.planning.real_tables import added_loss
from eigenveil.planning.rehearsal import with_drawn_rows
from eigenveil.planning.request import Situation
from eigenveil.planning.simulator import Refused, Simulator, Unpredicted
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.guarantee import Kind
from eigenveil.text import rounded_up

_RELEASES, _FEW = (10, 40), 5  # simulated, more of small tables; few of what is drawn one by one
_BATCHED = (6, 16)  # of what sees a sample for each of its batches
_STANDARDISED = (10, 20)  # of what needs a large sample
_WORK = 800  # releases times directions
_MARGIN = 1.15  # on both sides of a band, for what the assumed table leaves out
_SMALLEST_BUDGET, _LARGEST_BUDGET = 1e-4, 1e4
MOST_SEARCHED_ROWS = 2**27
_STEPS = 12  # of a bisection, on a logarithmic scale
_TRIVIAL = "zero"  # serves everything and says nothing
_ALL = "all directions are released: nothing can be lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What to expect of one mechanism.

    Attributes
    ----------
    mechanism : str
        Its name.
    error : float, optional
        Mean error of a release; None where there is no prediction.
    low, high : float, optional
        Eight of ten releases from tables as assumed lie between; 15 % are added on either side. Of
        standardised components: eight of ten releases of real tables.
    how : str
        ``"closed form"`` or ``"simulation"``; empty where there is no error.
    why : str
        Where ``error`` is None, what stands in the way; where it is 0 in any case, why.
    refusal : EigenveilError, optional
        What a fit would raise, where the mechanism cannot serve the situation; ``why`` has its
        words for Python.
    measure : str
        What an error is.
    distance : float, optional
        Of components: mean Frobenius distance of the projectors, released and best.
    shares : tuple of (str, float)
        How the budget is split among stages; searches for a distance come on top.
    reliability : tuple of (float, float, float)
        Of components, one by one: what a release is expected to state, and between which numbers
        eight of ten would lie; 0 where it is not clear of noise. Empty where it is not known.

    """

    mechanism: str
    measure: str
    error: float | None = None
    low: float | None = None
    high: float | None = None
    how: Literal["closed form", "simulation", ""] = ""
    why: str = ""
    refusal: EigenveilError | None = field(default=None, repr=False, compare=False)
    distance: float | None = None
    shares: tuple[tuple[str, float], ...] = ()
    reliability: tuple[tuple[float, float, float], ...] = ()

    @property
    def serves(self) -> bool:
        """Whether the mechanism can serve the situation, predicted or not."""
        return self.refusal is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """A mechanism, how it splits the budget, and how it compares.

    Attributes
    ----------
    mechanism : str
        What ``mechanism="auto"`` uses; where that cannot serve, the best that can.
    reason : str
        One sentence of public numbers.
    rule : str
        The same without numbers, beside predictions.
    prediction : Prediction
        Of that mechanism.
    predictions : tuple of Prediction
        Of all mechanisms, the smallest error first.
    unit_rows : bool
        Whether components are those of rows scaled to unit length, not the covariance's own.
    private_radius : bool
        Whether rows are clipped at a private radius although none is asked for.
    standardised : bool
        Whether components are those of standardised columns.

    """

    mechanism: str
    reason: str
    rule: str
    prediction: Prediction
    predictions: tuple[Prediction, ...]
    unit_rows: bool
    private_radius: bool
    standardised: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """The answer to an inverse question; ``value`` is None where nothing would do."""

    value: float | None
    mechanism: str
    words: str


def predict(situation: Situation, mechanism: str) -> Prediction:
    """Return the error of one mechanism."""
    known = [one.name for one in _worst_case(situation)]
    if mechanism not in known:
        raise unknown_mechanism(mechanism, known)
    return _predict(situation, mechanism)


def predictions(
    situation: Situation, *, standardised: bool | None = None
) -> tuple[Prediction, ...]:
    """Return predictions for all worst-case mechanisms of one target, the smallest error first.

    Those that cannot serve the situation come last and say why. ``standardised`` asks for those
    that release components of standardised columns, or for the others, which divide columns by
    rough scales; by default as the situation has it.
    """
    wanted = situation.standardises if standardised is None else standardised
    entries = [one for one in _worst_case(situation) if one.standardises == wanted]
    found = [_predict(situation, one.name) for one in entries]
    return _ordered(found)


def _ordered(found: list[Prediction]) -> tuple[Prediction, ...]:
    """Return the smallest error first, what is not predicted last."""
    return tuple(sorted(found, key=lambda one: math.inf if one.error is None else one.error))


def recommend(situation: Situation) -> Recommendation:
    """Return what to use, and how all others compare.

    Raises
    ------
    InvalidParameterError
        Where no mechanism serves; it says what stands in the way.

    """
    choice, chosen = foresee(situation)
    others = [one for one in predictions(situation) if one.mechanism != choice.mechanism]
    return Recommendation(
        mechanism=choice.mechanism,
        reason=choice.reason,
        rule=choice.rule,
        prediction=chosen,
        predictions=_ordered([chosen, *others]),
        unit_rows=as_chosen(situation, choice)
        .request(entry(situation.releases, choice.mechanism))
        .normalises,
        private_radius=choice.private_radius,
        standardised=entry(situation.releases, choice.mechanism).standardises,
    )


def foresee(situation: Situation) -> tuple[Choice, Prediction]:
    """Return what ``mechanism="auto"`` uses, or the best that serves where that does not.

    It is a part of what `recommend` returns, and takes a part of the time.
    """
    choice = choose(situation)
    wanted = _predict(as_chosen(situation, choice), choice.mechanism, situation)
    if wanted.refusal is None:
        return choice, wanted
    for one in predictions(situation):
        if one.serves and one.mechanism != _TRIVIAL:
            reason = f"the best of those that can serve, which {choice.mechanism!r} cannot"
            return Choice(mechanism=one.mechanism, reason=reason), one
    if situation.standardises:  # there is no other mechanism to name
        raise InvalidParameterError(*wanted.refusal.args)
    raise InvalidParameterError(
        f"no mechanism can serve this; {choice.mechanism!r}: ", *wanted.refusal.args
    )


def needed_epsilon(situation: Situation, error: float) -> Needed:
    """Return the smallest epsilon, or rho, for an ``error`` with the recommended mechanism.

    A delta stays as it is.
    """
    budget = situation.budget
    name = "rho" if budget.epsilon is None else "epsilon"

    def at(size: float) -> Situation:
        changed = Budget(rho=size) if name == "rho" else Budget(epsilon=size, delta=budget.delta)
        return replace(situation, budget=changed)

    return least(
        lambda size: foresee(at(size))[1],
        error,
        _SMALLEST_BUDGET,
        _LARGEST_BUDGET,
        name,
        whole=False,
    )


def needed_rows(situation: Situation, error: float) -> Needed:
    """Return the smallest number of rows for an ``error`` with the recommended mechanism."""
    fewest = float(situation.k or 1)
    return least(
        lambda size: foresee(replace(situation, n=round(size)))[1],
        error,
        max(2.0, fewest),
        float(MOST_SEARCHED_ROWS),
        f"{situation.unit}s",
        whole=True,
    )


def least(
    expected: Callable[[float], Prediction],
    wanted: float,
    low: float,
    high: float,
    name: str,
    *,
    whole: bool,
) -> Needed:
    """Find the least size for an error, by bisection: more budget, or rows, mean less error."""
    if not 0 < wanted < math.inf:
        raise InvalidParameterError("the wanted error must be a positive number")

    floor = expected(high)
    if floor.error is None:
        raise InvalidParameterError(floor.why)

    def reached(size: float) -> Prediction | None:
        try:
            one = expected(size)
        except InvalidParameterError:  # nothing serves with so little
            return None
        return one if one.error is not None and one.error <= wanted else None

    best = reached(high)
    if best is None:
        return Needed(
            value=None,
            mechanism=floor.mechanism,
            words=f"impossible: even with {name} = {high:g} the error of {floor.mechanism!r} "
            f"would be {floor.error:.3g}, as the target of its rows is another one",
        )
    if (first := reached(low)) is not None:
        what, least = (f"number of {name}", f"{low:,.0f}") if whole else (name, f"{low:g}")
        would = f"with {first.mechanism!r} the error would be {first.error:.3g}"
        return Needed(
            value=low,
            mechanism=first.mechanism,
            words=f"any {what} from {least} up: {first.why or would}",
        )
    for _ in range(_STEPS + (8 if whole else 0)):
        if high / low < 1.01 or (whole and high - low <= 1):
            break
        middle = math.sqrt(low * high)
        middle = float(round(middle)) if whole else middle
        if (one := reached(middle)) is not None:
            high, best = middle, one
        else:
            low = middle
    value = float(math.ceil(high)) if whole else rounded_up(high)
    shown = f"{value:,.0f}" if whole else f"{value:g}"
    return Needed(
        value=value,
        mechanism=best.mechanism,
        words=f"{name} of about {shown} with {best.mechanism!r}, whose error would be "
        f"{best.error:.3g}",
    )


def _worst_case(situation: Situation) -> tuple[Mechanism, ...]:
    """Return the mechanisms that make no assumption about the data, and can be asked for."""
    return tuple(
        one
        for one in entries(situation.releases)
        if one.kind is Kind.WORST_CASE and one.standardises <= situation.private_scale
    )


@lru_cache(maxsize=512)
def _predict(situation: Situation, mechanism: str, asked: Situation | None = None) -> Prediction:
    none = Prediction(mechanism=mechanism, measure=situation.measure)
    with threadpool_limits(1):  # matrices are small, and threads that wait are slow
        try:
            simulator = Simulator.of(situation, entry(situation.releases, mechanism), asked)
            shares = {stage: round(share, 12) for stage, share in simulator.plan.shares.items()}
            return replace(_simulated(simulator, none), shares=tuple(shares.items()))
        except Refused as refusal:
            error = refusal.error.with_traceback(None)  # which would keep tables alive
            return replace(none, why=str(error), refusal=error)
        except Unpredicted as missing:
            return replace(none, why=str(missing))


def _simulated(simulator: Simulator, empty: Prediction) -> Prediction:
    situation = simulator.situation
    if situation.k == situation.d:
        none = replace(empty, error=0.0, low=0.0, high=0.0, distance=0.0)
        return replace(none, how="closed form", why=_ALL)
    if simulator.plan.entry.name == _TRIVIAL:
        return replace(empty, error=1.0, low=1.0, high=1.0, how="closed form")
    found = [simulator.simulate(SimulationSource(seed)) for seed in _seeds(simulator)]
    mean = banded(empty, [one.error for one in found])
    if situation.task == "covariance":
        return mean
    if simulator.plan.entry.standardises:
        mean = _of_real_tables(mean, situation)
    assert mean.high is not None  # simulated
    distance = float(np.mean([one.distance for one in found]))
    # All is the most to lose.
    mean = replace(mean, high=min(1.0, mean.high), distance=distance)
    return replace(mean, reliability=_reliability([one.reliability for one in found]))


def _of_real_tables(found: Prediction, situation: Situation) -> Prediction:
    """Return the prediction with what real tables add to the loss."""
    assert found.error is not None  # simulated
    assert found.low is not None
    assert found.high is not None
    added = added_loss(situation)
    error = min(1.0, found.error + added.mean)
    return replace(
        found, error=error, low=found.low * added.easier, high=max(error, found.high + added.most)
    )


def _reliability(found: list[tuple[float, ...]]) -> tuple[tuple[float, float, float], ...]:
    """Return the mean and eight of ten for each component; nothing where one run says nothing."""
    if not all(found):
        return ()
    low, high = np.quantile(found, [0.1, 0.9], axis=0)
    return tuple(zip(np.mean(found, axis=0).tolist(), low.tolist(), high.tolist(), strict=True))


def _seeds(simulator: Simulator) -> range:
    if simulator.plan.entry.slow:
        return range(_FEW)
    (fewest, most), work = _RELEASES, _WORK
    if simulator.plan.entry.standardises:
        fewest, most = _STANDARDISED
    if simulator.plan.entry.batches:
        (fewest, most), work = _BATCHED, _WORK // 2
    return range(min(most, max(fewest, work // simulator.table.d)))


def banded(empty: Prediction, errors: list[float]) -> Prediction:
    """Return a prediction with the mean of simulated errors, and where eight of ten lie."""
    low, high = np.quantile(errors, [0.1, 0.9])
    return replace(
        empty,
        error=float(np.mean(errors)),
        low=min(float(low) / _MARGIN, float(np.mean(errors))),
        high=max(float(high) * _MARGIN, float(np.mean(errors))),
        how="simulation",
    )


def private_scale_share(situation: Situation, mechanism: str) -> float:
    """Return the share of the budget that private scales of components take.

    ``"auto"`` takes the mechanism that is chosen for them.

    Raises
    ------
    EigenveilError
        Where public numbers rule private scales out: what a fit would raise.

    """
    found = replace(situation, private_scale=True, same_units=False)
    asked = None
    if mechanism == "auto":
        asked, choice = found, choose(found)
        mechanism, found = choice.mechanism, as_chosen(found, choice)
    planned = plan_of(found, entry(found.releases, mechanism), asked)
    if situation.n is not None:
        planned = with_drawn_rows(planned, situation.n)
    return planned.shares.get("scale", 0.0)


def default_scale_share(situation: Situation, mechanism: str) -> float | None:
    """Return the share of the budget that a covariance spends on scales unless told otherwise.

    None where it looks for none: columns are bounded, few rows are there, or no matrix is asked
    for.
    """
    found = replace(situation, same_units=False)
    choice = choose(found)
    try:
        if choice.mechanism == mechanism:
            found = as_chosen(found, choice)
        asked = found.request(entry(situation.releases, mechanism))
        sought = asked.any_units or (choice.private_scale and asked.private_scale)
        if asked.counted and situation.n is not None:
            return with_drawn_rows(plan(asked), situation.n).shares["scale"]
        return plan(asked).shares["scale"] if sought else None
    except EigenveilError:
        return None
