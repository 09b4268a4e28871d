"""Plan a stream, and process the records of one call in batches."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.estimators.base import noise_and_ledger
from eigenveil.estimators.persons import Arrival, StreamPersons
from eigenveil.estimators.state import Stream
from eigenveil.exact.clip import Clip
from eigenveil.exceptions import InvalidDataError, InvalidParameterError, LedgerError, StateError
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
from eigenveil.messages import COLUMNS, ENCODE, Part, Phrase, option
from eigenveil.planning.bounds import OnInvalid, OnMissing, RowNorm, StatedBounds
from eigenveil.planning.request import public_scale
from eigenveil.privacy.accounting import for_group, split
from eigenveil.privacy.adjacency import ROW, Unit
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import strength
from eigenveil.privacy.cost import Cost, Gaussian
from eigenveil.privacy.guarantee import MOST_ARRIVALS
from eigenveil.rows.base import RowSource
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


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPlan:
    """How a stream goes; public numbers."""

    d: int
    method: OnePass
    preparation: Preparation | None
    preparing_records: int  # of the batch that pays for it
    stated: StatedBounds
    scale: NDArray[np.float64] | None = None
    unit: Unit = ROW
    max_arrivals: int = 1  # records of one person at most

    @classmethod
    def of(
        cls,
        entry: OnePass,
        budget: Budget,
        *,
        n_columns: int,
        n_components: int,
        row_norm: RowNorm | None,
        centred: bool,
        on_invalid: OnInvalid,
        on_missing: OnMissing,
        scale: NDArray[np.float64] | None = None,
        private_scale: bool = False,
        unit: Unit = ROW,
        max_arrivals: int = 1,
    ) -> "StreamPlan":
        """Calibrate the method, and the preparation that its first batch pays for."""
        context = BuildContext(budget=budget, n_columns=n_columns, n_components=n_components)

        def build(mu: float) -> OnePass:
            method: OnePass = entry.at(Gaussian(mu), context)
            return method

        method = build(
            strength(budget, lambda mu: for_group(build(mu).cost(), max_arrivals), entry.name)
        )
        preparation: Preparation | None = None
        records = 0
        if private_scale:
            records = _front_records(method.mu, n_columns)
            preparation = FrontBounds.whole(method.mu, records, n_columns)
        elif not centred:
            records = _centre_records(method.mu, n_columns)
            preparation = LocatedBounds.whole(method.mu)
        elif row_norm == "private":
            records = _radius_records(method.mu)
            preparation = RadiusBounds.whole(method.mu)
        if row_norm is None and preparation is None:
            stated = _unit_rows(on_invalid, on_missing)
        else:
            stated = StatedBounds.resolve(
                "private" if row_norm is None else row_norm,
                None,
                scale=None,
                centred=centred,
                on_invalid=on_invalid,
                on_missing=on_missing,
                subject="clipping",
            )
        return cls(
            d=n_columns,
            method=method,
            preparation=preparation,
            preparing_records=records,
            stated=stated,
            scale=scale,
            unit=unit,
            max_arrivals=max_arrivals,
        )

    @property
    def total(self) -> Cost:
        """The cost of any batch: the preparation fits into it (docs/proofs/streaming.md)."""
        return self.method.cost()

    @property
    def charge(self) -> Cost:
        """What the whole stream costs a person, of whom it has so many records at most."""
        return for_group(self.total, self.max_arrivals)

    @property
    def centred(self) -> bool:
        """Whether the origin is the centre."""
        return self.preparation is None or isinstance(self.preparation, RadiusBounds)

    @property
    def needed(self) -> int:
        """Fewest records of a stream that can be finished."""
        method = self.method
        return self.preparing_records + (method.batch_size or method.stream_records(self.d))

    def prepares(self, stream: Stream) -> bool:
        """Return whether the next batch is the one that pays for the preparation."""
        return self.preparation is not None and stream.bounds is None

    def next_size(self, stream: Stream) -> int:
        """Return records of the next batch."""
        if self.prepares(stream):
            return self.preparing_records
        if stream.iterate is None:
            return self.method.first_batch(self.d)
        return self.method.next_batch(stream.iterate)

    def still_needed(self, stream: Stream) -> int:
        """Return how many records have to arrive before components are released anew."""
        size = self.next_size(stream)
        if self.prepares(stream):  # which releases no components
            size += self.method.first_batch(self.d)
        return max(0, size - stream.buffered)

    def _worth(self, stream: Stream, batch: Batch) -> float:
        """Return as many records as noise falls with, a batch included, where batches double.

        Noise on the mean of t batches of one size falls as 1/sqrt(t) alone.
        """
        if self.method.batch_size is None:
            return max(1, batch.records.stop - self.preparing_records)
        steps = 1 if stream.iterate is None else stream.iterate.steps + 1
        return math.sqrt(_DOUBLED * steps) * self.method.batch_size

    def bounded(self, stream: Stream) -> StatedBounds:
        """Return the bounds on rows of the last batch, and where they came from."""
        found, stated = stream.bounds, self.stated
        if found is None or (found.distances is None and not stated.private):
            return stated
        if found.distances is None:  # a stream that an earlier version began
            return _unit_rows(stated.start.on_invalid, stated.start.on_missing)
        return stated.chosen(found.clipped, stated.words_with(found.clipped))

    def step(self, stream: Stream, batch: Batch, gate: Gate) -> None:
        """Spend one batch: on the preparation, or on a correction of the components."""
        if self.preparation is not None and stream.bounds is None:
            stream.bounds = self.preparation.run(batch, self.stated.start, gate)
            return
        method, clip, bounds = self.method, self.bounded(stream).clip, stream.bounds
        lost, growth = 0.0, 1.0
        if bounds is not None:
            clip = replace(clip, centre=bounds.centre)
            if len(batch.records) >= self.next_size(stream):
                method, bounds = _with_newer_distances(method, bounds, batch, clip, gate)
                norm = bounds.radius(self.stated.start, method.mu, self._worth(stream, batch))
            else:  # a last one, too small to make up for what earlier ones would be missing
                norm = bounds.reach
            if norm is not None:
                clip = replace(clip, row_norm=norm)
                lost, growth = bounds.lost(norm), norm / (bounds.reach or norm)
                bounds = bounds.clipping_at(norm)
        whole = bounds is not None and bounds.columns is not None
        iterate = stream.iterate or method.start(self.d, clip, gate, whole=whole)
        iterate = iterate.reaching(growth, lost)
        if bounds is None or bounds.columns is None:
            stream.iterate = method.advance(iterate, batch, clip, gate)
        else:
            bounds = replace(bounds, columns=bounds.columns.doubted(lost / self.d))
            iterate, bounds = standardising_step(method, iterate, bounds, batch, clip, gate)
            stream.iterate = iterate
        stream.bounds = bounds


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


def _unit_rows(on_invalid: OnInvalid, on_missing: OnMissing) -> StatedBounds:
    stated = StatedBounds.unit_rows(on_invalid, on_missing)
    normalised = replace(stated.clip, normalise=True)
    return replace(stated, start=normalised, clip=normalised)


def planned(asked: Any, settings: Mapping[str, Any]) -> StreamPlan:
    """Return the plan of a begun stream, as an estimator's parameters ask for it."""
    d = settings["n_features"]
    k = _positive(option("n_components"), asked.n_components)
    if k > d:
        raise InvalidParameterError(
            option("n_components"), f" must be between 1 and the number of columns, {d}"
        )
    if asked.centring not in (None, "none", "located"):
        raise InvalidParameterError("centring must be 'none' or 'located'")
    private_scale = isinstance(asked.scale, str) and asked.scale == "private"
    if private_scale and asked.centring == "none":
        raise InvalidParameterError(
            "private scales come with a private centre: leave out ", option("centring", "none")
        )
    size = None if asked.batch_size is None else _positive(_BATCH_SIZE, asked.batch_size)
    names, encoding = getattr(asked, "feature_names_in_", None), settings["read"]["encoding"]
    return StreamPlan.of(
        streaming_entry(asked.mechanism, size),
        Budget(epsilon=asked.epsilon, delta=asked.delta, rho=asked.rho),
        n_columns=d,
        n_components=k,
        row_norm=asked.row_norm,
        centred=asked.centring == "none",
        scale=public_scale(asked.scale, d, names, encoding),
        private_scale=private_scale,
        on_invalid=asked.on_invalid,
        on_missing=asked.on_missing,
        unit=Unit(**settings["unit"]),
        max_arrivals=asked.max_arrivals or 1,
    )


def _positive(name: Part, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InvalidParameterError(name, " must be a positive integer")
    return int(value)


@dataclass(frozen=True, slots=True, eq=False)
class StreamRun:
    """A stream with its plan, its allotment, and a way to keep it.

    Attributes
    ----------
    stream : Stream
        Where it stands. Private.
    plan : StreamPlan
        How it goes; public numbers.
    gate : Gate
        The allotment of the whole stream.
    keep : callable
        Keeps the stream, durably where it has a state: ``keep(records)`` with those that wait.

    """

    stream: Stream
    plan: StreamPlan
    gate: Gate
    keep: Callable[[bool], None]

    def look(self, source: RowSource, *, whole: bool) -> None:
        """Read a table once before anything of it is taken."""
        records = 0
        for chunk in source.tables():
            self.plan.stated.start.check(chunk)
            records += len(chunk)
        if whole:
            self._require_enough(records)

    def take(self, source: RowSource, label: str | None) -> None:
        """Take rows in, and use every batch that they fill."""
        for chunk in source.tables():
            if not source.rereadable:
                self.plan.stated.start.check(chunk)
            self.stream.arrive(chunk, label)
            self.advance()

    def look_at_persons(self, source: RowSource, *, whole: bool) -> Arrival:
        """Read an arrival of persons before anything of it is taken."""
        stream = self.stream
        assert stream.persons is not None  # of a stream of persons
        rows, owners = source.whole_units()
        self.plan.stated.start.check(rows)
        spellings = None if stream.merged_ids else source.unit_spellings()
        persons = stream.persons.hashed(source.unit_ids(), spellings)
        if whole:
            self._require_enough(len(persons))
        return Arrival(rows, owners, persons)

    def take_persons(self, arrival: Arrival, label: str | None) -> None:
        """Take in a row of each person who may have one more, and use every batch they fill."""
        stream, most = self.stream, self.plan.max_arrivals
        assert stream.persons is not None  # of a stream of persons
        if not arrival.persons:
            return
        self.keep(True)  # its name, before an order is drawn and charged
        rows, persons = arrival.one_row_each(self.gate)
        admitted = stream.persons.admitted(persons, most)
        stream.persons.arrive([persons[place] for place in admitted])  # first: too many is safe
        stream.arrive(rows[admitted], label)
        self.advance()

    def advance(self) -> None:
        """Take as many steps as there are full batches."""
        stream, plan = self.stream, self.plan
        if stream.buffered >= plan.next_size(stream):
            self.keep(True)  # they have arrived, whatever happens next
        while stream.buffered >= (size := plan.next_size(stream)):
            self.step(size)

    def step(self, size: int) -> None:
        """Spend one batch."""
        stream, gate = self.stream, self.gate
        batch = stream.take(size)
        self.keep(False)  # spent, whatever happens next
        if stream.path is not None and stream.account is not None:
            unit = self.plan.unit
            stream.account.advance(stream.name, batch.records.start, stream.spent, unit)
        self.plan.step(stream, batch, gate)
        stream.used += size
        stream.entry = None if gate.entry is None else gate.entry.hash
        stream.exact = gate.exact

    def finish(self) -> None:
        """Use what waits as a last batch."""
        stream = self.stream
        self._require_enough(stream.used + stream.buffered)
        self.advance()
        if stream.buffered:
            self.step(stream.buffered)
        stream.finished = True
        self.keep(True)

    def _require_enough(self, records: int) -> None:
        plan = self.plan
        if records < plan.needed:
            raise InvalidDataError(
                f"{plan.method.name!r} needs {plan.needed} records at least for {plan.d} "
                f"{plural('column', plan.d)} at this budget, not n_samples = {records}: "
                "hand over more, or start a stream with a larger budget"
            )


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

_FIXED = (
    "n_components",
    "epsilon",
    "delta",
    "rho",
    "mechanism",
    "row_norm",
    "centring",
    "batch_size",
    "max_arrivals",
    "scale",
    "on_invalid",
    "on_missing",
    "random_state",
)


def continued(estimator: Any, stream: Stream | None, path: Path | None = None) -> Stream:
    """Return the stream of an estimator's parameters, new if there is none."""
    _, ledger = noise_and_ledger(estimator)
    payer = None if ledger is None else ledger.id
    given = {name: _plain(getattr(estimator, name)) for name in _FIXED}
    if stream is None:
        if hasattr(estimator, "n_samples_"):  # another stream would spend the budget again
            raise StateError(
                "this copy does not hold the stream: go on with the original or with the state, "
                "or begin a new stream with a new estimator"
            )
        persons = None if estimator.max_arrivals is None else StreamPersons()
        return Stream(settings=given, ledger=payer, persons=persons, path=path, account=ledger)
    for each, value in given.items():
        if stream.settings.get(each) != value:
            raise StateError(
                f"the stream began with another {each}: go on with that one, or start another "
                "stream"
            )
    if stream.ledger != payer:
        raise LedgerError(
            "the stream is paid from another ledger, or from none: pass the one it began with"
        )
    stream.account = ledger
    if path is not None and ledger is not None:
        ledger.require_unspent(stream.name, stream.spent)
    return stream


def require_like(source: RowSource, settings: dict[str, Any]) -> None:
    """Note the unit of a stream that begins, and how its cells are read; refuse others later.

    Persons come a stated number of times, and nobody else does.
    """
    if source.undecided:
        raise InvalidParameterError(
            "a stream finds no levels of categories: state them, ", ENCODE, " with a list"
        )
    unit, max_arrivals = source.protects, settings["max_arrivals"]
    if unit.owns_many and max_arrivals is None:
        raise InvalidParameterError(
            "a stream protects persons who come a stated number of times: give the most arrivals "
            "of which rows of one person are used, ",
            _FIVE_ARRIVALS,
        )
    if max_arrivals is not None:
        if type(max_arrivals) is not int or not 1 <= max_arrivals <= MOST_ARRIVALS:
            raise InvalidParameterError(
                _ARRIVALS, f" must be a positive integer, {MOST_ARRIVALS} at most"
            )
        if not unit.owns_many:
            raise InvalidParameterError(_ARRIVALS, " is a number for persons: ", _WHOSE)
    if settings.setdefault("unit", asdict(unit)) != asdict(unit):
        raise StateError(
            "the stream began with ids of another column, or given otherwise: give those"
        )
    names, found = settings.get("feature_names"), source.feature_names
    known = names is not None and found is not None
    if source.n_columns != settings.get("n_features", source.n_columns) or (
        known and list(found or ()) != names
    ):
        raise InvalidDataError(
            "these rows have other columns than the stream began with, or in another order: choose "
            "the same, ",
            COLUMNS,
        )
    read = {"encoding": source.encoding, "remarks": list(source.remarks)}
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
