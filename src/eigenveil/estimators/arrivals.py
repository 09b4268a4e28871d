"""What streams and running releases share: they are kept between calls and paid for once."""

import os
import threading
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from eigenveil.estimators.base import (
    TableEstimator,
    check_table,
    noise_and_ledger,
    open_table,
    renewed,
)
from eigenveil.estimators.persons import Persons
from eigenveil.estimators.state import Progress, State, kept_state
from eigenveil.exceptions import (
    BudgetExceededError,
    InvalidDataError,
    InvalidParameterError,
    LedgerError,
    StateError,
)
from eigenveil.mechanisms.continual import ContinualCov
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.one_pass import OnePass
from eigenveil.mechanisms.registry import ComponentMechanism
from eigenveil.messages import Part
from eigenveil.planning.bounds import OnInvalid, OnMissing, RowNorm, StatedBounds
from eigenveil.privacy.adjacency import ROW, Adjacency, Unit
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.cost import Cost
from eigenveil.privacy.ledger import Ledger
from eigenveil.rows.base import RowSource
from eigenveil.rows.memory import ArraySource
from eigenveil.rows.open import is_streamed, open_rows

M = TypeVar("M", OnePass, ContinualCov)
G = TypeVar("G", bound=Gate)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArrivalPlan(Generic[M]):
    """How a stream or a running release goes; public numbers.

    Attributes
    ----------
    mechanism : OnePass or ContinualCov
        The mechanism, calibrated.
    d : int
        Number of columns.
    stated : StatedBounds
        The bounds on rows as the caller stated them.
    unit : Unit
        What neighbours differ in.

    """

    mechanism: M
    d: int
    stated: StatedBounds
    unit: Unit

    @property
    def adjacency(self) -> Adjacency:
        """Rows arrive one in place of another."""
        return Adjacency.REPLACE_ONE

    @property
    def charge(self) -> Cost:
        """What all arrivals together cost a unit."""
        return self.mechanism.cost()


PlanT = TypeVar("PlanT", bound=ArrivalPlan[Any])
P = TypeVar("P", bound=Progress)


@dataclass(frozen=True, slots=True, eq=False)
class Run(Generic[P, PlanT]):
    """A state with its plan and its allotment, for one call.

    Attributes
    ----------
    state : State
        How far it has come. Private.
    plan : ArrivalPlan
        How it goes; public numbers.
    gate : Gate
        The allotment of all arrivals together.

    """

    state: State[P]
    plan: PlanT
    gate: Gate


class ArrivalEstimator(TableEstimator, BaseEstimator):  # type: ignore[misc]
    """An estimator that rows are handed to as they arrive."""

    _progress: ClassVar[type[Progress]]
    _fixed: ClassVar[tuple[str, ...]] = (  # parameters that stay as they were at the first arrival
        "epsilon",
        "delta",
        "rho",
        "row_norm",
        "scale",
        "on_invalid",
        "on_missing",
        "random_state",
    )

    epsilon: float | None
    delta: float | None
    rho: float | None
    ledger: Ledger | str | Path | None
    state: str | Path | None
    random_state: int | None

    @contextmanager
    def _opened(self, *, afresh: bool = False) -> Iterator[State[Any]]:
        """Yield the state so far, for this call alone."""
        if self.state is None:
            busy = self.__dict__.setdefault("_busy", threading.Lock())
            if not busy.acquire(blocking=False):
                raise StateError(
                    f"this {self._progress.what} is in use by another thread: call again when it "
                    "ends"
                )
            try:
                with renewed(self) if afresh else nullcontext():
                    yield self._continued(None if afresh else vars(self).get("_state"), None)
            finally:
                busy.release()
            return
        kept = kept_state(self.state, self._progress, afresh=afresh)
        with kept as (path, found), renewed(self) if afresh else nullcontext():
            state = self._continued(found, path)
            state.sweep()  # not before: an older copy names older rows
            yield state

    def _continued(self, state: State[Any] | None, path: Path | None) -> State[Any]:
        """Return the state of these parameters, new if there is none."""
        _, ledger = noise_and_ledger(self)
        payer = None if ledger is None else ledger.id
        given, what = self._given(), self._progress.what
        if state is None:
            if hasattr(self, "n_samples_"):  # another one would spend the budget again
                raise StateError(
                    f"this copy does not hold the {what}: go on with the original or with the "
                    f"state, or begin a new {what} with a new estimator"
                )
            state = State(
                settings=given,
                ledger=payer,
                progress=self._progress(),
                persons=self._persons(),
                path=path,
            )
        if path is None and state.process != os.getpid():
            raise BudgetExceededError(
                "an allotment cannot be spent by a forked process: go on in the one that began"
            )
        for each, value in given.items():
            if state.settings.get(each) != value:
                raise StateError(
                    f"the {what} began with another {each}: go on with that one, or start another "
                    f"{what}"
                )
        if state.ledger != payer:
            raise LedgerError(
                f"the {what} is paid from another ledger, or from none: pass the one it began with"
            )
        state.account = ledger
        if path is not None and ledger is not None:
            ledger.require_unspent(state.name, state.progress.position)
        return state

    def _given(self) -> dict[str, Any]:
        """Return the parameters that stay as they were."""
        return {name: _plain(getattr(self, name)) for name in self._fixed}

    @abstractmethod
    def _persons(self) -> Persons | None:
        """Return what a new state counts persons with."""

    def _keep(self, state: State[Any], *, records: bool = True) -> None:
        if state.path is None:
            self._state = state
        else:  # where it was found: a link or the present folder may lead elsewhere by now
            state.save(records=records)

    def __getstate__(self) -> dict[str, Any]:
        # Copies have what was released; neither what came nor the allotment.
        return {k: v for k, v in super().__getstate__().items() if k not in ("_state", "_busy")}

    def _allotment(
        self,
        kind: type[G],
        state: State[Any],
        plan: ArrivalPlan[Any],
        label: str,
        *,
        protects: Unit = ROW,
        position: int = 0,
    ) -> G:
        """Return the allotment, charged once for all processes."""
        noise, ledger = noise_and_ledger(self)
        entry = state.paid_by(label)
        if ledger is not None and entry is None:
            ledger.check(plan.charge, adjacency=plan.adjacency, unit=plan.unit)
        return kind.resume(
            plan.mechanism.cost(),
            label=label,
            adjacency=plan.adjacency,
            ledger=ledger,
            noise=noise,
            entry=entry,
            position=position,
            protects=protects,
            charge=plan.charge,
            charged_unit=plan.unit,
        )

    def _table(self, state: State[Any], X: Any, adjacency: Adjacency) -> RowSource:
        """Return rows with the columns that the first ones had."""
        if not state.begun:
            return open_table(self, X, adjacency)
        self._recall(state)
        return open_rows(X) if is_streamed(X) else ArraySource(check_table(self, X, reset=False))

    def _columns(self) -> dict[str, Any]:
        """Return the columns as settings note them."""
        names = getattr(self, "feature_names_in_", None)
        return {
            "n_features": int(self.n_features_in_),
            "feature_names": None if names is None else [str(name) for name in names],
        }

    def _recall(self, state: State[Any]) -> None:
        """Set the columns, where another process was told them."""
        if not state.begun:
            raise InvalidDataError("no records came yet: call partial_fit first")
        self.n_features_in_ = state.settings["n_features"]
        names = state.settings["feature_names"]
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)

    @property
    def _budget(self) -> Budget:
        return Budget(epsilon=self.epsilon, delta=self.delta, rho=self.rho)


def positive(name: Part, value: Any, most: int | None = None) -> int:
    """Return a positive integer, ``most`` at most."""
    limit = "" if most is None else f", {most:,} at most"
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        value = 0
    if value < 1 or (most is not None and value > most):
        raise InvalidParameterError(name, f" must be a positive integer{limit}")
    return int(value)


def stated_bounds(asked: Any, row_norm: RowNorm | None, *, centred: bool) -> StatedBounds:
    """Return the bounds on rows; without a norm rows are scaled to unit length."""
    if row_norm is None:
        return unit_rows(asked.on_invalid, asked.on_missing)
    return StatedBounds.resolve(
        row_norm,
        None,
        scale=None,
        centred=centred,
        on_invalid=asked.on_invalid,
        on_missing=asked.on_missing,
        subject="clipping",
    )


def unit_rows(on_invalid: OnInvalid, on_missing: OnMissing) -> StatedBounds:
    """Return the bounds of rows that are scaled to unit length."""
    stated = StatedBounds.unit_rows(on_invalid, on_missing)
    normalised = replace(stated.clip, normalise=True)
    return replace(stated, start=normalised, clip=normalised)


def _plain(value: Any) -> Any:
    """Return a value as JSON gives it back."""
    if isinstance(value, ComponentMechanism):
        return repr(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(number) for name, number in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()  # one number, of an array without dimensions
    if isinstance(value, (list, tuple)):
        return [_plain(number) for number in value]
    return value.item() if isinstance(value, np.generic) else value
