"""What running releases share: days come in, are kept, paid for once, and released."""

import os
import threading
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from eigenveil.estimators.base import (
    TableEstimator,
    check_columns,
    check_table,
    noise_and_ledger,
    open_table,
    renewed,
    require_label,
)
from eigenveil.estimators.persons import capped
from eigenveil.estimators.running_results import DailyPlan, daily_adjacency
from eigenveil.estimators.state import DailyState, kept_days
from eigenveil.exact.clip import LARGEST_NORM
from eigenveil.exact.daily_moments import DailyMoments, packed
from eigenveil.exceptions import (
    BudgetExceededError,
    InvalidDataError,
    InvalidParameterError,
    LedgerError,
    StateError,
)
from eigenveil.mechanisms.continual import ContinualCov, DailyGate
from eigenveil.mechanisms.homogeneous_rows import LIFT
from eigenveil.messages import Part, Phrase, option
from eigenveil.planning.bounds import StatedBounds
from eigenveil.planning.request import public_scale
from eigenveil.privacy.adjacency import ROW, Unit
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import strength
from eigenveil.privacy.ledger import Ledger
from eigenveil.rows.base import RowSource
from eigenveil.rows.maps import Divide
from eigenveil.rows.memory import ArraySource, require_hidden_count
from eigenveil.rows.open import is_streamed, open_rows

_HORIZON = Phrase(python="horizon", shell="--horizon", file="the horizon")

_DAYS_PER_GROUP = Phrase(
    python="days_per_group", shell="--days-per-group", file="the days of a group"
)

_MOST_DAYS = 10_000  # of a horizon

_FIXED = (
    "horizon",
    "epsilon",
    "delta",
    "rho",
    "row_norm",
    "centre",
    "scale",
    "days_per_group",
    "on_invalid",
    "on_missing",
    "random_state",
)


class DailyEstimator(TableEstimator, BaseEstimator):  # type: ignore[misc]
    """An estimator that days are handed to, one by one."""

    horizon: int
    epsilon: float | None
    delta: float | None
    rho: float | None
    row_norm: float | None
    centre: Any
    scale: Any
    days_per_group: int | None
    ledger: Ledger | str | Path | None
    state: str | Path | None
    random_state: int | None

    def fit(self, X: Any, y: Any = None, *, groups: Any = None, batch: str | None = None) -> Self:
        """Start afresh with ``X`` as the rows of the first day; the budget is spent anew."""
        if self.state is not None and os.path.lexists(self.state):
            raise StateError(
                f"{Path(self.state).name} holds days, and fit starts afresh: go on with "
                "partial_fit, or choose another state"
            )
        earlier = self.__dict__.pop("_days", None)
        try:
            with renewed(self):
                return self.partial_fit(X, groups=groups, batch=batch)
        except BaseException:
            if earlier is not None:
                self._days = earlier
            raise

    def partial_fit(
        self, X: Any, y: Any = None, *, groups: Any = None, batch: str | None = None
    ) -> Self:
        """Take in the rows of a day, and release everything so far anew.

        ``batch`` names the day and is refused the second time; with a state or a ledger every day
        needs one. ``groups`` says whose each row is, where ``days_per_group`` is stated.
        """
        require_label(self, batch)
        with self._opened() as days:
            if days.released < days.days:  # a call was cut off before its draw was kept
                self._release(days)
            earlier = dict(vars(self))
            try:
                self._arrive(days, X, groups, batch)
            except BaseException:
                self.__dict__ = earlier
                raise
            self._release(days)
        return self

    def restore(self) -> Self:
        """Return what was released last, from the state; a day that was cut off is finished."""
        with self._opened() as days:
            if days.days == 0:
                raise InvalidDataError("no day came yet: call partial_fit first")
            if days.released < days.days:
                self._release(days)
            else:
                self._publish(days)
        return self

    # Where days are kept.

    @contextmanager
    def _opened(self) -> Iterator[DailyState]:
        """Yield the days so far, for this call alone."""
        if self.state is not None:
            with kept_days(self.state) as (path, found):
                yield self._checked(found, path)
            return
        busy = self.__dict__.setdefault("_busy", threading.Lock())
        if not busy.acquire(blocking=False):
            raise StateError("these days are in use by another thread: call again when it ends")
        try:
            self._days = self._checked(vars(self).get("_days"), None)
            yield self._days
        finally:
            busy.release()

    def _checked(self, days: DailyState | None, path: Path | None) -> DailyState:
        """Return the days of these parameters, none if there are none yet."""
        _, ledger = noise_and_ledger(self)
        payer = None if ledger is None else ledger.id
        given = {"kind": type(self).__name__}
        given |= {name: _plain(getattr(self, name)) for name in (*_FIXED, *self._more_fixed)}
        if days is None:
            if hasattr(self, "privacy_"):  # another one would spend the budget again
                raise StateError(
                    "the days so far are not here: go on with the original of this copy, or with "
                    "the state; starting again takes a new estimator"
                )
            return DailyState(settings=given, ledger=payer, path=path)
        if path is None and days.process != os.getpid():
            raise BudgetExceededError(
                "an allotment cannot be spent by a forked process: go on in the one that began"
            )
        for each, value in given.items():
            if days.settings.get(each) != value:
                raise StateError(
                    f"the days began with another {each}: go on with that one, or start anew"
                )
        if days.ledger != payer:
            raise LedgerError(
                "the days are paid from another ledger, or from none: pass the one they began with"
            )
        if path is not None and ledger is not None:
            ledger.require_unspent(days.name, days.attempts)
        return days

    def __getstate__(self) -> dict[str, Any]:
        # Copies have what was released; neither the days nor the allotment.
        return {k: v for k, v in super().__getstate__().items() if k not in ("_days", "_busy")}

    # From rows to a day.

    def _arrive(self, days: DailyState, X: Any, groups: Any, label: str | None) -> None:
        """Check everything that can be checked, then keep the second moment of the day."""
        source = self._table(days, X)
        del X
        days.require_new(label)  # which tells more than that the days are over
        if days.days >= _horizon(self.horizon):
            raise InvalidParameterError(
                f"the horizon of {self.horizon} days is over: start anew, with another budget"
            )
        came, unit = days.persons, ROW
        if self.days_per_group is None:
            if groups is not None or source.units.protects.owns_many:
                raise InvalidParameterError(
                    "say on how many days a person comes at most: ", _DAYS_PER_GROUP
                )
        else:
            most = _whole(_DAYS_PER_GROUP, self.days_per_group, _horizon(self.horizon))
            source, came = capped(source, groups, came, most, merged_ids=days.merged_ids)
            unit = source.units.protects
        plan = self._plan(source.n_columns, unit)
        held = {"width": plan.width, "unit": [unit.name, unit.column]}
        if any(days.settings.get(name, value) != value for name, value in held.items()):
            raise InvalidDataError("the days began with another unit: name the same column")
        self._gate(days, plan)  # is there a ledger, and does it have the budget
        rows = _held(source)
        plan.clip.check(rows)
        moments = DailyMoments.none(plan.width) if days.sums is None else days.moments
        counted = moments.and_then(source.map(Divide(plan.scale)), plan.clip)
        if counted.count == 0 and plan.adjacency.count_is_public:
            raise InvalidDataError("the table has no rows: check the file, the filter or the path")
        names = getattr(self, "feature_names_in_", None)
        days.settings |= held | {
            "n_features": plan.d,
            "feature_names": None if names is None else [str(name) for name in names],
        }
        # That they came is noted before what they brought: too much of it is safe.
        days.persons = came
        days.labels += [] if label is None else [label]
        days.sums, days.count, days.exact = counted.sums, counted.count, counted.exact

    def _table(self, days: DailyState, X: Any) -> RowSource:
        """Return rows with the columns that the first day had."""
        adjacency = daily_adjacency(of_persons=self.days_per_group is not None)
        if days.days == 0:
            return open_table(self, X, adjacency)
        self._recall(days)
        if not is_streamed(X):
            return ArraySource(check_table(self, X, reset=False))
        source = open_rows(X)
        require_hidden_count(source, adjacency)
        check_columns(self, source)
        return source

    def _recall(self, days: DailyState) -> None:
        """Set the columns, where another process was told them."""
        self.n_features_in_ = days.settings["n_features"]
        names = days.settings["feature_names"]
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)

    # Public numbers, and what is charged for.

    @property
    def _budget(self) -> Budget:
        return Budget(epsilon=self.epsilon, delta=self.delta, rho=self.rho)

    def _plan(self, d: int, unit: Unit) -> DailyPlan:
        horizon = _horizon(self.horizon)
        most = 1
        if self.days_per_group is not None:
            most = _whole(_DAYS_PER_GROUP, self.days_per_group, horizon)
        mu = strength(self._budget, lambda mu: ContinualCov(mu=mu, horizon=1).cost(), "continual")
        scale = public_scale(self.scale, d, getattr(self, "feature_names_in_", None))
        scale = np.ones(d) if scale is None else scale
        stated = self._stated()
        lift = 0.0 if stated.clip.normalise else LIFT
        clip = replace(stated.clip, centre=self._stated_centre(d, scale), lift=lift)
        mechanism = ContinualCov(mu=mu, horizon=horizon, days=most)
        return DailyPlan(
            mechanism=mechanism, d=d, clip=clip, scale=scale, stated=stated, protects=unit
        )

    def _stated(self) -> StatedBounds:
        if isinstance(self.row_norm, str) or isinstance(self.scale, str):
            raise InvalidParameterError(
                "running releases take numbers that are stated for ",
                option("row_norm"),
                " and scales",
            )
        if self.row_norm is None:
            unit = StatedBounds.unit_rows(self.on_invalid, self.on_missing)
            return replace(unit, clip=replace(unit.clip, normalise=True))
        return StatedBounds.resolve(
            self.row_norm,
            None,
            scale=None,
            centred=True,
            on_invalid=self.on_invalid,
            on_missing=self.on_missing,
            subject="clipping",
        )

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

    def _gate(self, days: DailyState, plan: DailyPlan) -> DailyGate:
        """Return the allotment, charged once for all processes."""
        if days.gate is not None:
            return days.gate
        noise, ledger = noise_and_ledger(self)
        total, label = plan.mechanism.cost(), f"continual {days.name}"
        entry = days.entry
        if ledger is not None and entry is None:
            # A process may have died between the charge and its note.
            entry = next((each.hash for each in ledger.entries if each.label == label), None)
            if entry is None:
                ledger.check(total, adjacency=plan.adjacency, unit=plan.protects)
        days.gate = DailyGate(
            total,
            label=label,
            adjacency=plan.adjacency,
            ledger=ledger,
            noise=noise,
            protects=plan.protects,
        )
        days.gate.go_on(plan.mechanism, days.released, entry)
        return days.gate

    def _release(self, days: DailyState) -> None:
        """Draw on the newest day: noted before, kept afterwards, noted again, then published."""
        plan = self._recalled_plan(days)
        gate = self._gate(days, plan)
        _, ledger = noise_and_ledger(self)
        earlier, days.attempts = days.attempts, days.next_attempt
        days.save()
        if days.path is not None and ledger is not None:
            ledger.advance(days.name, earlier, days.attempts, plan.protects, "draws")
        try:
            drawn = packed(plan.mechanism.draw(days.moments, gate).matrix)
        except BaseException:
            days.gate = None  # nobody has seen what was drawn, if anything: the day is drawn again
            raise
        before = np.empty((0, drawn.size)) if days.drawn is None else days.drawn
        days.drawn = np.vstack([before, drawn])
        days.entry = None if gate.entry is None else gate.entry.hash
        days.exact = gate.exact
        days.attempts += 1
        days.save()
        self._publish(days)

    def _recalled_plan(self, days: DailyState) -> DailyPlan:
        self._recall(days)
        return self._plan(days.settings["n_features"], Unit(*days.settings["unit"]))

    # After the noise.

    def _publish(self, days: DailyState) -> None:
        """Set what was released last; no record is in reach of it."""
        plan = self._recalled_plan(days)
        gate = self._gate(days, plan)
        _, ledger = noise_and_ledger(self)
        kept = days.attempts
        if days.path is not None and ledger is not None and ledger.spent_to(days.name) != kept:
            # From here on no copy of the state from before the draw was kept can draw it again.
            ledger.advance(days.name, kept - 1, kept, plan.protects, "draws")
        self.day_, self.n_samples_ = days.released, None
        if plan.adjacency.count_is_public:
            self.n_samples_ = days.count
        self.mechanism_ = plan.mechanism.name
        simulated = self.random_state is not None
        self.privacy_ = plan.promise(days, self._budget, simulated=simulated, receipt=gate.receipt)
        self._hold(plan, days, gate)

    @property
    def _more_fixed(self) -> tuple[str, ...]:
        return ()

    @abstractmethod
    def _hold(self, plan: DailyPlan, days: DailyState, gate: DailyGate) -> None:
        """Set attributes and artefact."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "privacy_")


def _horizon(horizon: Any) -> int:
    return _whole(_HORIZON, horizon, _MOST_DAYS)


def _whole(name: Part, value: Any, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        value = 0
    if not 1 <= value <= most:
        raise InvalidParameterError(name, f" must be a whole number from 1 to {most:,}")
    return int(value)


def _held(source: RowSource) -> NDArray[Any]:
    """Return the rows of a day, which are read more than once."""
    return source.whole_units()[0] if source.units.protects.owns_many else source.whole()


def _plain(value: Any) -> Any:
    """Return a value as JSON gives it back."""
    if isinstance(value, Mapping):
        return {str(name): _plain(number) for name, number in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()  # one number, of an array without dimensions
    if isinstance(value, (list, tuple)):
        return [_plain(number) for number in value]
    return value.item() if isinstance(value, np.generic) else value
