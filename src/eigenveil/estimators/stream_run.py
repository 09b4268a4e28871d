"""Plan a stream, and process the records of one call in batches."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.estimators.arrivals import ArrivalPlan, Run, positive, stated_bounds, unit_rows
from eigenveil.estimators.persons import Arrival
from eigenveil.estimators.state import StreamProgress
from eigenveil.exact.clip import Clip
from eigenveil.exceptions import InvalidDataError, InvalidParameterError, StateError
from eigenveil.mechanisms.additive import GaussianNoise
from eigenveil.mechanisms.distances import PrivateDistances
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.one_pass import OnePass
from eigenveil.mechanisms.registry import (
    BuildContext,
    ComponentMechanism,
    entries,
    entry,
    unknown_mechanism,
)
from eigenveil.mechanisms.row_bounds import (
    FrontBounds,
    LocatedBounds,
    Preparation,
    RadiusBounds,
    RowBounds,
)
from eigenveil.mechanisms.standardising import standardising_step
from eigenveil.messages import COLUMNS, ENCODE, Phrase, option
from eigenveil.planning.bounds import StatedBounds
from eigenveil.planning.request import public_scale
from eigenveil.privacy.accounting import for_group, split
from eigenveil.privacy.adjacency import Unit
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import strength
from eigenveil.privacy.cost import Cost, Gaussian
from eigenveil.privacy.guarantee import MOST_ARRIVALS
from eigenveil.rows.base import RowSource, tables
from eigenveil.rows.memory import Batch
from eigenveil.text import plural, printable

# Records of the first batch, in units of 1/mu: enough for distances to stand out (`distances`), and
# for an error of the centre of about a twentieth of the spread.
_CENTRE_SEARCH, _CENTRE_NOISE, _CENTRE_FEWEST = 240.0, 60.0, 32
_RADIUS_SEARCH = 100.0

# The same for private scales, over sqrt(d), d and sqrt(d): enough for scales to stand out and for
# circles of a thousand scales; and for a first matrix to refine them, where columns are not many.
_SCALES_SEARCH, _FIRST_MATRIX_NOISE, _WIDE_NOISE = 140.0, 20.0, 320.0

_DOUBLED = 3.0  # times the squared sizes of batches that double: the square of all records
_DISTANCE_SHARE = 0.05  # of mu^2, in batches that are large enough to renew the distances of rows

_BATCH_SIZE = Phrase(python="batch_size", shell="--batch-size", file="the size of a batch")


def streaming_entry(mechanism: Any, batch_size: int | None) -> OnePass:
    """Return the method for a stream, by name or as it is configured."""
    known = [one.name for one in entries("components") if _streams(one)]
    found = None
    if not isinstance(mechanism, str) or mechanism in known:
        found = entry("components", mechanism)
    if not (isinstance(found, OnePass) and _streams(found)):
        raise unknown_mechanism(mechanism, known)
    return found if batch_size is None else replace(found, batch_size=batch_size)


def _streams(one: Any) -> bool:
    return isinstance(one, ComponentMechanism) and one.streams


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamPlan(ArrivalPlan[OnePass]):
    """How a stream goes; public numbers."""

    preparation: Preparation | None
    preparing_records: int  # of the batch that pays for it
    scale: NDArray[np.float64] | None
    max_arrivals: int  # records of one person at most

    @property
    def charge(self) -> Cost:
        """What the whole stream costs a person, of whom it has so many records at most.

        Every batch may spend the cost of the mechanism: the preparation fits into it
        (docs/proofs/streaming.md).
        """
        return for_group(self.mechanism.cost(), self.max_arrivals)

    @property
    def centred(self) -> bool:
        """Whether the origin is the centre."""
        return self.preparation is None or isinstance(self.preparation, RadiusBounds)

    @property
    def needed(self) -> int:
        """Fewest records of a stream that can be finished."""
        mechanism = self.mechanism
        return self.preparing_records + (mechanism.batch_size or mechanism.stream_records(self.d))


def _with_newer_distances(
    method: OnePass, bounds: RowBounds, batch: Batch, clip: Clip, gate: Gate
) -> tuple[OnePass, RowBounds]:
    """Return the method with what is left of a batch that may show distances more finely."""
    small, rest = split(method.mu, (_DISTANCE_SHARE, 1 - _DISTANCE_SHARE))
    search = PrivateDistances(noise=GaussianNoise(mu=small))
    if not bounds.sharpened(search, len(batch.records)):
        return method, bounds
    found = search.run(bounds.seen(batch, clip), clip, gate)
    return replace(method, strength=Gaussian(rest)), bounds.with_distances(found)


def _centre_records(mu: float, d: int) -> int:
    """Return records of a batch that buys a centre and a radius."""
    return max(_CENTRE_FEWEST, math.ceil(max(_CENTRE_SEARCH, _CENTRE_NOISE * math.sqrt(d)) / mu))


def _radius_records(mu: float) -> int:
    """Return records of a batch that buys a radius alone."""
    return max(_CENTRE_FEWEST, math.ceil(_RADIUS_SEARCH / mu))


def _front_records(mu: float, d: int) -> int:
    """Return records of a batch that buys scales, a centre and a radius."""
    root = math.sqrt(d)
    noise = max(_SCALES_SEARCH * root, min(_FIRST_MATRIX_NOISE * d, _WIDE_NOISE * root))
    return max(_CENTRE_FEWEST, math.ceil(noise / mu))


def planned(asked: Any, settings: Mapping[str, Any]) -> StreamPlan:
    """Return the plan of a begun stream, as an estimator's parameters ask for it.

    Calibrate the mechanism, and the preparation that its first batch pays for.
    """
    d = settings["n_features"]
    k = positive(option("n_components"), asked.n_components)
    if k > d:
        raise InvalidParameterError(
            option("n_components"), f" must be between 1 and the number of columns, {d}"
        )
    if asked.centring not in (None, "none", "located"):
        raise InvalidParameterError("centring must be 'none' or 'located'")
    private_scale = isinstance(asked.scale, str) and asked.scale == "private"
    centred, row_norm = asked.centring == "none", asked.row_norm
    if private_scale and centred:
        raise InvalidParameterError(
            "private scales come with a private centre: leave out ", option("centring", "none")
        )
    size = None if asked.batch_size is None else positive(_BATCH_SIZE, asked.batch_size)
    entry = streaming_entry(asked.mechanism, size)
    budget = Budget(epsilon=asked.epsilon, delta=asked.delta, rho=asked.rho)
    context = BuildContext(budget=budget, n_columns=d, n_components=k)
    names, encoding = getattr(asked, "feature_names_in_", None), settings["read"]["encoding"]
    scale, max_arrivals = public_scale(asked.scale, d, names, encoding), asked.max_arrivals or 1

    def build(mu: float) -> OnePass:
        method: OnePass = entry.at(Gaussian(mu), context)
        return method

    method = build(
        strength(budget, lambda mu: for_group(build(mu).cost(), max_arrivals), entry.name)
    )
    preparation: Preparation | None = None
    records = 0
    if private_scale:
        records = _front_records(method.mu, d)
        preparation = FrontBounds.whole(method.mu, records, d)
    elif not centred:
        records, preparation = _centre_records(method.mu, d), LocatedBounds.whole(method.mu)
    elif row_norm == "private":
        records, preparation = _radius_records(method.mu), RadiusBounds.whole(method.mu)
    if row_norm is None and preparation is not None:
        row_norm = "private"
    return StreamPlan(
        d=d,
        mechanism=method,
        preparation=preparation,
        preparing_records=records,
        stated=stated_bounds(asked, row_norm, centred=centred),
        scale=scale,
        unit=Unit(**settings["unit"]),
        max_arrivals=max_arrivals,
    )


@dataclass(frozen=True, slots=True, eq=False)
class StreamRun(Run[StreamProgress, StreamPlan]):
    """A stream with its plan, its allotment, and a way to keep it.

    Attributes
    ----------
    keep : callable
        Keeps the state, durably where it has a file: ``keep(records)`` with those that wait.

    """

    keep: Callable[[bool], None]

    # From rows to batches.

    def look(self, source: RowSource, *, whole: bool) -> None:
        """Read a table once before anything of it is taken."""
        records = 0
        for chunk in tables(source):
            self.plan.stated.start.check(chunk)
            records += len(chunk)
        if whole:
            self._require_enough(records)

    def take(self, source: RowSource, label: str | None) -> None:
        """Take rows in, and use every batch that they fill."""
        for chunk in tables(source):
            if not source.rereadable:
                self.plan.stated.start.check(chunk)
            self._arrive(chunk, label)

    def look_at_persons(self, source: RowSource, *, whole: bool) -> Arrival:
        """Read an arrival of persons before anything of it is taken."""
        arrival = self.state.arrival(source)
        self.plan.stated.start.check(arrival.rows)
        if whole:
            self._require_enough(len(arrival.persons))
        return arrival

    def take_persons(self, arrival: Arrival, label: str | None) -> None:
        """Take in a row of each person who may have one more, and use every batch they fill."""
        counts, most = self.state.persons, self.plan.max_arrivals
        assert counts is not None  # of a stream of persons
        if not arrival.persons:
            return
        self.keep(True)  # its name, before an order is drawn and charged
        rows, persons = arrival.one_row_each(self.gate)
        admitted = counts.admitted(persons, most)
        counts.arrive([persons[place] for place in admitted])  # first: too many is safe
        self._arrive(rows[admitted], label)

    def _arrive(self, rows: NDArray[Any], label: str | None) -> None:
        if label is not None and label not in self.state.labels:
            self.state.labels.append(label)
        self.state.progress.arrive(rows)
        self.advance()

    def advance(self) -> None:
        """Take as many steps as there are full batches."""
        progress = self.state.progress
        if progress.buffered >= self.next_size:
            self.keep(True)  # they have arrived, whatever happens next
        while progress.buffered >= (size := self.next_size):
            self.step(size)

    def step(self, size: int) -> None:
        """Spend one batch."""
        state, gate = self.state, self.gate
        batch = state.progress.take(size)
        self.keep(False)  # spent, whatever happens next
        state.note(batch.records.start, state.progress.spent, self.plan.unit, "records")
        self.use(batch)
        state.progress.used += size
        state.entry = None if gate.entry is None else gate.entry.hash
        state.exact = gate.exact

    def finish(self) -> None:
        """Use what waits as a last batch."""
        progress = self.state.progress
        self._require_enough(progress.used + progress.buffered)
        self.advance()
        if progress.buffered:
            self.step(progress.buffered)
        progress.finished = True
        self.keep(True)

    def _require_enough(self, records: int) -> None:
        plan = self.plan
        if records < plan.needed:
            raise InvalidDataError(
                f"{plan.mechanism.name!r} needs {plan.needed} records at least for {plan.d} "
                f"{plural('column', plan.d)} at this budget, not n_samples = {records}: "
                "hand over more, or start a stream with a larger budget"
            )

    # One batch.

    @property
    def _prepares(self) -> bool:
        """Whether the next batch is the one that pays for the preparation."""
        return self.plan.preparation is not None and self.state.progress.bounds is None

    @property
    def next_size(self) -> int:
        """Records of the next batch."""
        plan, iterate = self.plan, self.state.progress.iterate
        if self._prepares:
            return plan.preparing_records
        if iterate is None:
            return plan.mechanism.first_batch(plan.d)
        return plan.mechanism.next_batch(iterate)

    @property
    def still_needed(self) -> int:
        """How many records have to arrive before components are released anew."""
        progress, size = self.state.progress, self.next_size
        if progress.finished:
            return 0
        if self._prepares:  # which releases no components
            size += self.plan.mechanism.first_batch(self.plan.d)
        return max(0, size - progress.buffered)

    def _worth(self, batch: Batch) -> float:
        """Return as many records as noise falls with, a batch included, where batches double.

        Noise on the mean of t batches of one size falls as 1/sqrt(t) alone.
        """
        size, iterate = self.plan.mechanism.batch_size, self.state.progress.iterate
        if size is None:
            return max(1, batch.records.stop - self.plan.preparing_records)
        steps = 1 if iterate is None else iterate.steps + 1
        return math.sqrt(_DOUBLED * steps) * size

    @property
    def stated(self) -> StatedBounds:
        """The bounds on rows of the last batch, and where they came from."""
        found, stated = self.state.progress.bounds, self.plan.stated
        if found is None or (found.distances is None and not stated.private):
            return stated
        if found.distances is None:  # a stream that an earlier version began
            return unit_rows(stated.start.on_invalid, stated.start.on_missing)
        return stated.chosen(found.clipped, stated.words_with(found.clipped))

    def use(self, batch: Batch) -> None:
        """Use one batch for the preparation, or for a correction of the components."""
        plan, progress, gate = self.plan, self.state.progress, self.gate
        start, bounds = plan.stated.start, progress.bounds
        if plan.preparation is not None and bounds is None:
            progress.bounds = plan.preparation.run(batch, start, gate)
            return
        method, clip = plan.mechanism, self.stated.clip
        lost, growth = 0.0, 1.0
        if bounds is not None:
            clip = replace(clip, centre=bounds.centre)
            if len(batch.records) >= self.next_size:
                method, bounds = _with_newer_distances(method, bounds, batch, clip, gate)
                norm = bounds.radius(start, method.mu, self._worth(batch))
            else:  # a last one, too small to make up for what earlier ones would be missing
                norm = bounds.reach
            if norm is not None:
                clip = replace(clip, row_norm=norm)
                lost, growth = bounds.lost(norm), norm / (bounds.reach or norm)
                bounds = bounds.clipping_at(norm)
        whole = bounds is not None and bounds.columns is not None
        iterate = progress.iterate or method.start(plan.d, clip, gate, whole=whole)
        iterate = iterate.reaching(growth, lost)
        if bounds is None or bounds.columns is None:
            progress.iterate = method.advance(iterate, batch, clip, gate)
        else:
            bounds = replace(bounds, columns=bounds.columns.doubted(lost / plan.d))
            iterate, bounds = standardising_step(method, iterate, bounds, batch, clip, gate)
            progress.iterate = iterate
        progress.bounds = bounds


_ARRIVALS = Phrase(
    python="max_arrivals", shell="--max-arrivals", file="the most arrivals of a person"
)

_FIVE_ARRIVALS = Phrase(
    python="max_arrivals=5", shell="--max-arrivals 5", file="the most arrivals of a person"
)

_WHOSE = Phrase(
    python="say whose rows they are, groups=ids",
    shell="say whose rows they are, --unit COLUMN",
    file="say whose rows they are",
)


def require_like(source: RowSource, settings: dict[str, Any]) -> None:
    """Note the unit of a stream that begins, and how its cells are read; refuse others later.

    Persons come a stated number of times, and nobody else does.
    """
    if source.schema.undecided:
        raise InvalidParameterError(
            "a stream finds no levels of categories: state them, ", ENCODE, " with a list"
        )
    unit, max_arrivals = source.units.protects, settings["max_arrivals"]
    if unit.owns_many and max_arrivals is None:
        raise InvalidParameterError(
            "a stream protects persons who come a stated number of times: give the most arrivals "
            "of which rows of one person are used, ",
            _FIVE_ARRIVALS,
        )
    if max_arrivals is not None:
        positive(_ARRIVALS, max_arrivals, MOST_ARRIVALS)
        if not unit.owns_many:
            raise InvalidParameterError(_ARRIVALS, " is a number for persons: ", _WHOSE)
    if settings.setdefault("unit", asdict(unit)) != asdict(unit):
        raise StateError(
            "the stream began with ids of another column, or given otherwise: give those"
        )
    names, found = settings.get("feature_names"), source.schema.feature_names
    known = names is not None and found is not None
    if source.n_columns != settings.get("n_features", source.n_columns) or (
        known and list(found or ()) != names
    ):
        raise InvalidDataError(
            "these rows have other columns than the stream began with, or in another order: choose "
            "the same, ",
            COLUMNS,
        )
    read = {"encoding": source.schema.encoding, "remarks": list(source.schema.remarks)}
    if _readings(settings.setdefault("read", read)) != _readings(read):
        raise StateError(
            "the stream began with cells that became numbers in another way: read them as then"
        )


def _readings(read: Mapping[str, Any]) -> tuple[Any, list[str]]:
    """Return how columns are encoded, and the remarks about others.

    The words about an encoded column follow from its encoding, and differ between versions.
    """
    encoded = tuple(f"{printable(column)!r} " for column in read["encoding"])
    return read["encoding"], [each for each in read["remarks"] if not each.startswith(encoded)]
