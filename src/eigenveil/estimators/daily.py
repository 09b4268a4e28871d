"""Running releases: days come in, are kept, paid for once, and released."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from eigenveil.estimators.arrivals import ArrivalEstimator, Run, positive, stated_bounds
from eigenveil.estimators.base import check_columns, require_label
from eigenveil.estimators.persons import CappedRows, Persons
from eigenveil.estimators.running_results import (
    DailyPlan,
    DailyRun,
    daily_adjacency,
    running_promise,
)
from eigenveil.estimators.state import DailyProgress, State
from eigenveil.exact.clip import LARGEST_NORM
from eigenveil.exact.daily_moments import DailyMoments, packed
from eigenveil.exceptions import InvalidDataError, InvalidParameterError
from eigenveil.mechanisms.continual import ContinualCov, DailyGate
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.homogeneous_rows import LIFT
from eigenveil.messages import Phrase, option
from eigenveil.planning.bounds import StatedBounds
from eigenveil.planning.request import public_scale
from eigenveil.privacy.adjacency import Adjacency, Unit
from eigenveil.privacy.calibrate import strength
from eigenveil.rows.base import RowSource
from eigenveil.rows.maps import Divide
from eigenveil.rows.memory import require_hidden_count
from eigenveil.rows.units import grouped

_HORIZON = Phrase(python="horizon", shell="--horizon", file="the horizon")

_DAYS_PER_GROUP = Phrase(
    python="days_per_group", shell="--days-per-group", file="the days of a group"
)

_MOST_DAYS = 10_000  # of a horizon


class DailyEstimator(ArrivalEstimator):
    """An estimator that days are handed to, one by one."""

    _progress = DailyProgress
    _fixed = (*ArrivalEstimator._fixed, "horizon", "centre", "days_per_group")

    horizon: int
    row_norm: float | None
    centre: Any
    scale: Any
    days_per_group: int | None

    def fit(self, X: Any, y: Any = None, *, groups: Any = None, batch: str | None = None) -> Self:
        """Start afresh with ``X`` as the rows of the first day; the budget is spent anew."""
        require_label(self, batch)
        with self._opened(afresh=True) as state:
            self._take(state, X, groups, batch)
        return self

    def partial_fit(
        self, X: Any, y: Any = None, *, groups: Any = None, batch: str | None = None
    ) -> Self:
        """Take in the rows of a day, and release everything so far anew.

        ``batch`` names the day and is refused the second time; with a state or a ledger every day
        needs one. ``groups`` says whose each row is, where ``days_per_group`` is stated.
        """
        require_label(self, batch)
        with self._opened() as state:
            self._take(state, X, groups, batch)
        return self

    def restore(self) -> Self:
        """Return what was released last, from the state; a day that was cut off is finished."""
        with self._opened() as state:
            self._recall(state)
            if state.progress.released < state.progress.days:
                self._release(state)
            else:
                self._publish(self._run(state))
        return self

    def _given(self) -> dict[str, Any]:
        return {"kind": type(self).__name__, **super()._given()}

    def _persons(self) -> Persons:
        return Persons(key=b"")

    # From rows to a day.

    def _take(self, state: State[DailyProgress], X: Any, groups: Any, label: str | None) -> None:
        """Take in the rows of a day, and release everything so far."""
        if state.progress.released < state.progress.days:  # its call was cut off
            self._release(state)
        earlier = dict(vars(self))
        try:
            self._arrive(state, X, groups, label)
        except BaseException:
            self.__dict__ = earlier
            raise
        self._release(state)

    def _arrive(self, state: State[DailyProgress], X: Any, groups: Any, label: str | None) -> None:
        """Check everything that can be checked, then keep the second moment of the day."""
        progress = state.progress
        source = self._table(state, X, daily_adjacency(of_persons=self.days_per_group is not None))
        del X
        state.require_new(label)  # which tells more than that the days are over
        if progress.days >= self._horizon:
            raise InvalidParameterError(
                f"the horizon of {self.horizon} days is over: start anew, with another budget"
            )
        assert state.persons is not None  # of every running release
        came: list[bytes] = []
        if self.days_per_group is None:
            if groups is not None or source.units.protects.owns_many:
                raise InvalidParameterError(
                    "say on how many days a person comes at most: ", _DAYS_PER_GROUP
                )
        else:
            most = positive(_DAYS_PER_GROUP, self.days_per_group, self._horizon)
            source = source if groups is None else grouped(source, groups)
            if not source.units.protects.owns_many:
                raise InvalidParameterError(
                    "say whose each row is: pass groups, one id for each row"
                )
            arrival = state.arrival(source)
            admitted = state.persons.admitted(arrival.persons, most)
            came = [arrival.persons[place] for place in admitted]
            source = CappedRows(arrival, admitted, source.units.protects)
        unit = source.units.protects
        plan = self._plan(source.n_columns, unit)
        held = {"width": plan.width, "unit": [unit.name, unit.column]}
        if any(state.settings.get(name, value) != value for name, value in held.items()):
            raise InvalidDataError("the days began with another unit: name the same column")
        self._gate(state, plan)  # is there a ledger, and does it have the budget
        rows = _held(source)
        plan.clip.check(rows)
        moments = DailyMoments.none(plan.width)
        if progress.sums is not None:
            moments = progress.moments(exact=state.exact)
        counted = moments.and_then(source.map(Divide(plan.scale)), plan.clip)
        if counted.count == 0 and plan.adjacency.count_is_public:
            raise InvalidDataError("the table has no rows: check the file, the filter or the path")
        state.settings |= held | self._columns()
        # That they came is noted before what they brought: too much of it is safe.
        state.persons.arrive(dict.fromkeys(came))
        state.labels += [] if label is None else [label]
        progress.sums, progress.count, state.exact = counted.sums, counted.count, counted.exact

    def _table(self, state: State[Any], X: Any, adjacency: Adjacency) -> RowSource:
        source = super()._table(state, X, adjacency)
        if state.begun:
            require_hidden_count(source, adjacency)
            check_columns(self, source)
        return source

    # Public numbers, and what is charged for.

    @property
    def _horizon(self) -> int:
        return positive(_HORIZON, self.horizon, _MOST_DAYS)

    def _plan(self, d: int, unit: Unit) -> DailyPlan:
        most = 1
        if self.days_per_group is not None:
            most = positive(_DAYS_PER_GROUP, self.days_per_group, self._horizon)
        mu = strength(self._budget, lambda mu: ContinualCov(mu=mu, horizon=1).cost(), "continual")
        scale = public_scale(self.scale, d, getattr(self, "feature_names_in_", None))
        scale = np.ones(d) if scale is None else scale
        stated = self._stated()
        lift = 0.0 if stated.clip.normalise else LIFT
        clip = replace(stated.clip, centre=self._stated_centre(d, scale), lift=lift)
        mechanism = ContinualCov(mu=mu, horizon=self._horizon, days=most)
        return DailyPlan(mechanism=mechanism, d=d, clip=clip, scale=scale, stated=stated, unit=unit)

    def _stated(self) -> StatedBounds:
        if isinstance(self.row_norm, str) or isinstance(self.scale, str):
            raise InvalidParameterError(
                "running releases take numbers that are stated for ",
                option("row_norm"),
                " and scales",
            )
        return stated_bounds(self, self.row_norm, centred=True)

    def _stated_centre(self, d: int, scale: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return the stated centre in scaled units."""
        if self.centre is None:
            return None
        try:
            given = self.centre
            if isinstance(given, Mapping):
                given = [given[name] for name in self.feature_names_in_]
            centre = np.array(np.broadcast_to(given, (d,)), dtype=np.float64) / scale
        except (TypeError, ValueError, OverflowError, KeyError, AttributeError):
            centre = np.array([np.nan])
        if not (np.abs(centre) <= LARGEST_NORM).all():
            raise InvalidParameterError(
                "centre must be one number per column, in their order or by name; never take it "
                "from the data"
            )
        return centre

    def _gate(self, state: State[DailyProgress], plan: DailyPlan) -> Gate:
        """Return the allotment, charged once for all processes."""
        if state.gate is None:
            label = f"{plan.mechanism.name} {state.name}"
            gate = self._allotment(DailyGate, state, plan, label, protects=plan.unit)
            gate.go_on(plan.mechanism, state.progress.released)
            state.gate = gate
        return state.gate

    def _run(self, state: State[DailyProgress]) -> DailyRun:
        """Return the days with their plan and their allotment, for this call."""
        self._recall(state)
        plan = self._plan(state.settings["n_features"], Unit(*state.settings["unit"]))
        return Run(state, plan, self._gate(state, plan))

    def _release(self, state: State[DailyProgress]) -> None:
        """Draw on the newest day: noted before, kept afterwards, noted again, then published."""
        run, progress = self._run(state), state.progress
        mechanism, moments = run.plan.mechanism, progress.moments(exact=state.exact)
        earlier, progress.attempts = progress.attempts, progress.next_attempt
        self._keep(state)
        state.note(earlier, progress.attempts, run.plan.unit, "draws")
        try:
            drawn = packed(mechanism.draw(moments, run.gate).matrix)
        except BaseException:
            state.gate = None  # nobody has seen what was drawn, if anything: the day is drawn again
            raise
        before = np.empty((0, drawn.size)) if progress.drawn is None else progress.drawn
        progress.drawn = np.vstack([before, drawn])
        state.entry = None if run.gate.entry is None else run.gate.entry.hash
        state.exact = run.gate.exact
        progress.attempts += 1
        self._keep(state)
        self._publish(run)

    # After the noise.

    def _publish(self, run: DailyRun) -> None:
        """Set what was released last; no record is in reach of it."""
        state, plan, kept = run.state, run.plan, run.state.progress.attempts
        ledger = state.account
        if state.path is not None and ledger is not None and ledger.spent_to(state.name) != kept:
            # From here on no copy of the state from before the draw was kept can draw it again.
            state.note(kept - 1, kept, plan.unit, "draws")
        self.day_, self.n_samples_ = state.progress.released, None
        if plan.adjacency.count_is_public:
            self.n_samples_ = state.progress.count
        self.mechanism_ = plan.mechanism.name
        self.privacy_ = running_promise(run, self._budget, simulated=self.random_state is not None)
        self._hold(run)

    @abstractmethod
    def _hold(self, run: DailyRun) -> None:
        """Set attributes and artefact."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "privacy_")


def _held(source: RowSource) -> NDArray[Any]:
    """Return the rows of a day, which are read more than once."""
    return source.whole_units()[0] if source.units.protects.owns_many else source.whole()
