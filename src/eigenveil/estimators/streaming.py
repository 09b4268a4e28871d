"""Principal components of records that arrive over days, each of which is used once."""

from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from eigenveil.estimators.arrivals import ArrivalEstimator
from eigenveil.estimators.base import require_label, warn_of_guessed_deviations
from eigenveil.estimators.persons import Persons
from eigenveil.estimators.results import warn_of_components
from eigenveil.estimators.running_results import published
from eigenveil.estimators.scores import ComponentEstimator
from eigenveil.estimators.state import State, StreamProgress
from eigenveil.estimators.stream_run import StreamPlan, StreamRun, planned, require_like
from eigenveil.exceptions import InvalidParameterError, StateError
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.registry import ComponentMechanism
from eigenveil.planning.bounds import RowNorm
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.cost import cost_to_dict
from eigenveil.privacy.ledger import Ledger
from eigenveil.rows.base import RowSource
from eigenveil.rows.derived import shuffled
from eigenveil.rows.maps import Divide
from eigenveil.rows.units import grouped


class StreamingPCA(ArrivalEstimator, ComponentEstimator):
    """Leading principal components of a stream, under one budget for the whole of it.

    Records come by `partial_fit`, as many at a time and as often as they arrive. They wait until
    the next batch of the method is full; then the batch is used once and the components are
    released anew. All these releases together cost the budget once, since each record is in one
    batch only.

    Parameters
    ----------
    n_components : int
        How many components to release.
    epsilon, delta, rho : float, optional
        The budget of the whole stream: ``epsilon`` and ``delta``, or ``rho`` alone.
    mechanism : {"oja", "adaptive-oja", "tangent-oja"} or ComponentMechanism
        How a batch corrects the components. The noise of ``"adaptive-oja"`` falls with the distance
        of records from what earlier batches released. ``"tangent-oja"`` measures only what turns
        the components, once they have settled.
    row_norm : float or "private", optional
        Clip rows at this public distance from the centre. ``"private"``, the default, finds one:
        the first records buy the distances of rows, large later batches buy them anew, and each
        batch is clipped where noise and loss together are least for the records so far. A generous
        number is lowered in the same way.
        With ``centring="none"`` the default is to scale rows to unit length.
    centring : {"none", "located"}, optional
        ``"none"`` takes the origin as the centre. By default the first max(240, 60 sqrt(d))/mu
        records buy a private centre and the distances from it.
    batch_size : int, optional
        Records in every batch. By default batches double, so that the last one has half of the
        records; as many wait in memory, and in the state.
    max_arrivals : int, optional
        Protect persons: the largest number of arrivals, such as days, in which a person is used.
        Say whose rows they are: ``partial_fit(rows, groups=ids)``, or rows of a table with a
        ``unit``. Noise, and the records that a batch needs, grow in proportion.
    scale : array of shape (n_features,), {name: number} or "private", optional
        Public scales that columns are divided by, for columns in different units. ``"private"``
        finds them: components are then those of standardised columns. The first
        max(140 sqrt(d), min(20 d, 320 sqrt(d)))/mu records buy scales, a centre and distances;
        every later batch makes scales and centre finer, with a quarter of its budget.
    on_invalid : {"raise", "zero"}
        Whether a row with a missing or infinite value is refused, with all rows of its table, or
        contributes nothing.
    on_missing : {"invalid", "centre"}
        Whether an empty cell (NaN) makes its row invalid or is taken as the centre's.
    ledger : Ledger or path, optional
        Charged once for the whole stream, before any noise is drawn. With a state it also notes, at
        no cost, how far the stream has come, so that an older copy of the state is noticed.
    state : path, optional
        Where the stream is kept between calls, so that it survives the process. The file is
        PRIVATE, and so is the one beside it with the records that wait, written by each call.
    random_state : int, optional
        Seed of a simulation. A seeded stream is marked as not private.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Directions of largest variance, as rows; from the first update on.
    reliability_ : array of shape (n_components,)
        Agreement of the span: expected squared cosine between each component and the span of those
        without noise, about the same centre; 0 where it cannot be told from noise, and until the
        stream has the records a method needs. How far the method is from where it settles is not
        counted, nor are the error of the centre and what a renewed scale or radius changes about
        earlier batches.
    reproducibility_, loading_errors_, component_groups_ : arrays and a tuple
        As in `PrivatePCA`; NaN and empty, as nothing is known about single components of a stream.
    distinguishable_ : array of shape (n_components,)
        Whether each component stands out from the noise. The error of the centre may add one
        component: where it could, the likeliest is taken for it.
    explained_variance_, explained_variance_ratio_ : arrays of shape (n_components,)
        Noisy eigenvalues (never below zero) of clipped rows, in squared units of the scales, and
        their share of the trace. Both are shares where rows are scaled to unit length.
    mean_, scale_ : arrays of shape (n_features,)
        The released centre, and what columns are divided by; ones by default. With
        ``scale="private"`` the released standard deviations.
    hidden_ : list of int
        With ``scale="private"``: columns of which noise hides the variance, so that their
        ``scale_`` is a guess and their loadings are rough.
    row_norm_ : float
        Clipping radius of the last batch, if that was chosen privately; released variances are
        those of rows clipped there.
    n_needed_ : int
        Fewest records that have to arrive before components are released anew; public.
    n_samples_, n_buffered_ : int
        Records that were used, and records that wait; both are public.
    n_lost_ : int
        Records of batches that an error or a crash cut off: spent, and nothing learnt from them.
    n_components_ : int
        Number of components.
    noise_scale_, noise_floor_ : float
        Standard deviation of the noise on an entry of the image (of the noisiest column, where
        they differ), and the eigenvalue that noise and the error of the centre rarely exceed.
    release_ : Release
        The newest artefact: save it, publish it. Nothing that waits is part of it.
    privacy_ : Guarantee
        The promise, for all releases of the stream together.

    Notes
    -----
    Privacy: protects one row, under replace-one, against another that arrives in its place; the
    number of records and when they arrive are public. With ``max_arrivals`` it protects all rows of
    one person, against those of another who comes in the same arrivals. A record that is handed
    over twice is protected half as well: label what arrives,
    ``partial_fit(rows, batch="2026-11-15")``, and a label is refused the second time. With a state
    or a ledger every arrival needs one. Rows are never compared with earlier ones. `transform`
    output is not private with respect to its input.

    """

    _progress = StreamProgress
    _fixed = (
        *ArrivalEstimator._fixed,
        "n_components",
        "mechanism",
        "centring",
        "batch_size",
        "max_arrivals",
    )

    def __init__(
        self,
        n_components: int,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        mechanism: str | ComponentMechanism = "oja",
        row_norm: RowNorm | None = None,
        centring: Literal["none", "located"] | None = None,
        batch_size: int | None = None,
        max_arrivals: int | None = None,
        scale: Any = None,
        on_invalid: Literal["raise", "zero"] = "raise",
        on_missing: Literal["invalid", "centre"] = "invalid",
        ledger: Ledger | str | Path | None = None,
        state: str | Path | None = None,
        random_state: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.mechanism = mechanism
        self.row_norm = row_norm
        self.centring = centring
        self.batch_size = batch_size
        self.max_arrivals = max_arrivals
        self.scale = scale
        self.on_invalid = on_invalid
        self.on_missing = on_missing
        self.ledger = ledger
        self.state = state
        self.random_state = random_state

    # What a caller does.

    def partial_fit(
        self, X: Any, y: Any = None, *, batch: str | None = None, groups: Any = None
    ) -> Self:
        """Take in records: an array, a data frame, a path, or chunks; use those that fill a batch.

        ``batch`` names the arrival, a day for instance, and is refused the second time; with a
        state or a ledger every arrival needs one. Where a row is refused, nothing of its table is
        taken; of chunks that can be read once only, those before it are.

        ``groups`` holds the id of the person of each row, with ``max_arrivals``. Of each person one
        row of the arrival is taken, chosen at random, and none once ``max_arrivals`` were: hand
        over a whole day at a time.
        """
        require_label(self, batch)
        with self._opened() as state:
            self._feed(state, X, batch, groups)
        return self

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Start afresh, take in all of ``X`` and finish; the budget is spent anew.

        A table is taken in a secret random order, so that it does not matter how it is sorted;
        chunks that can be read once only as they come, which ``privacy_`` says.
        """
        with self._opened(afresh=True) as state:
            self._feed(state, X, None, groups, whole=True)
            self._finish(state)
        warn_of_guessed_deviations(self)
        warn_of_components(self)
        return self

    def finish(self) -> Self:
        """Use what waits as a last batch, and take in no more."""
        with self._opened() as state:
            self._finish(state)
        warn_of_guessed_deviations(self)
        warn_of_components(self)
        return self

    def restore(self) -> Self:
        """Return what was released so far, from the state; nothing is taken in or spent."""
        with self._opened() as state:
            self._recall(state)
            self._publish(self._run(state, planned(self, state.settings)))
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return scores of the rows of ``X``. They are NOT private with respect to ``X``."""
        self._require_components()
        return super().transform(X)

    def inverse_transform(self, X: Any) -> NDArray[np.float64]:
        """Return rows with the given scores; as private as the scores are."""
        self._require_components()
        return super().inverse_transform(X)

    def _require_components(self) -> None:
        if not hasattr(self, "components_"):
            waiting = getattr(self, "n_buffered_", 0)
            records = "record waits" if waiting == 1 else "records wait"
            needed = f", {self.n_needed_} more are needed" if hasattr(self, "n_needed_") else ""
            raise NotFittedError(
                f"no components yet, {waiting} {records}{needed}: hand over more with partial_fit, "
                "or restore what a state holds"
            )

    def _persons(self) -> Persons | None:
        return None if self.max_arrivals is None else Persons()

    # From rows to batches.

    def _feed(
        self,
        state: State[StreamProgress],
        X: Any,
        label: str | None,
        groups: Any,
        *,
        whole: bool = False,
    ) -> None:
        """Check everything that can be checked, then take the rows in and use what is full."""
        progress = state.progress
        if progress.finished:
            raise InvalidParameterError(
                "the stream is finished: start another, with another state if it has one"
            )
        if state.settings.get("whole") or not progress.arrival:
            raise StateError(
                "this stream was begun by fit, which was cut off: finish it as it is, or start "
                "another with records that were not in it"
            )
        earlier = dict(vars(self))
        try:
            source = self._arriving(state, X, groups)
            del X, groups
            plan = planned(self, state.settings)
            if plan.scale is not None:
                source = source.map(Divide(plan.scale))
            run = self._run(state, plan)
            state.require_new(label)
            arrival = None
            if state.persons is not None:
                arrival = run.look_at_persons(source, whole=whole)
            elif source.rereadable:
                run.look(source, whole=whole)
        except BaseException:
            self.__dict__ = earlier
            raise
        if whole:
            state.settings["whole"] = True  # so that nothing arrives after it, finished or not
            progress.arrival = not source.rereadable and arrival is None
            self._keep(state)  # its name, before an order is drawn and charged
            if arrival is None:
                source = shuffled(source, run.gate.order, plan.stated.start.check)
        taken = False
        try:
            if arrival is not None:
                run.take_persons(arrival, label)
            else:
                run.take(source, label)
            taken = True
        finally:
            if taken or progress.spent or progress.waiting:
                self._keep(state)
                self._publish(run)

    def _arriving(self, state: State[StreamProgress], X: Any, groups: Any) -> RowSource:
        """Return rows with the columns, and of the unit, that the stream began with."""
        source = self._table(state, X, Adjacency.REPLACE_ONE)
        if groups is not None:
            source = grouped(source, groups)
        require_like(source, state.settings)
        for name, value in self._columns().items():
            state.settings.setdefault(name, value)
        return source

    def _finish(self, state: State[StreamProgress]) -> None:
        self._recall(state)
        run = self._run(state, planned(self, state.settings))
        if not state.progress.finished:
            run.finish()
        self._publish(run)

    # Public numbers, and what is charged for.

    def _run(self, state: State[StreamProgress], plan: StreamPlan) -> StreamRun:
        """Return the stream with its plan and its allotment, for this call."""
        gate = self._gate(state, plan)
        return StreamRun(state, plan, gate, lambda records: self._keep(state, records=records))

    def _gate(self, state: State[StreamProgress], plan: StreamPlan) -> Gate:
        """Return the allotment of the stream, charged once for all processes."""
        total = cost_to_dict(plan.charge)
        if state.settings.setdefault("total", total) != total:
            raise StateError(
                "the stream began with another version of eigenveil, which spent the budget "
                "otherwise: go on with that one"
            )
        if state.gate is None:
            label = f"{plan.mechanism.name} stream {state.name}"
            spent = state.progress.spent
            state.gate = self._allotment(Gate, state, plan, label, position=spent)
            state.gate.exact = state.exact
        return state.gate

    # After the noise.

    def _publish(self, run: StreamRun) -> None:
        """Set what was released so far."""
        progress = run.state.progress
        self.n_samples_, self.n_buffered_ = progress.used, progress.buffered
        self.n_lost_ = progress.spent - progress.used
        self.n_needed_ = run.still_needed
        found = published(
            run,
            budget=self._budget,
            simulated=self.random_state is not None,
            feature_names=getattr(self, "feature_names_in_", None),
        )
        if found is not None:
            result, self.privacy_, self.release_ = found
            self.__dict__.update(result.attributes())
            self.mechanism_, self.choice_ = run.plan.mechanism.name, ""
            settings = self.release_.settings
            if (chosen := settings.get("chosen_row_norm")) is not None:
                self.row_norm_ = chosen
            if "hidden_columns" in settings:
                self.hidden_ = settings["hidden_columns"]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "components_")
