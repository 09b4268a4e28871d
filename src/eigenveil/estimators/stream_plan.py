"""How a stream of records goes: the centre first, then batches of a one-pass method."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.clip import Clip
from eigenveil.data.sources import Batch, RowSource
from eigenveil.estimators.stream_state import Stream
from eigenveil.exceptions import InvalidParameterError, NothingFoundError
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.bounds import OnInvalid, OnMissing, StatedBounds
from eigenveil.mechanisms.located import LocatedCentre
from eigenveil.mechanisms.pca.one_pass import OnePass, OnePassEntry
from eigenveil.mechanisms.registry import ComponentEntry, Terms, entries, entry, unknown_mechanism
from eigenveil.mechanisms.request import public_scale
from eigenveil.privacy.accounting import for_group
from eigenveil.privacy.adjacency import ROW, Unit
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import strength
from eigenveil.privacy.cost import NOTHING, Cost
from eigenveil.wording import Part, Phrase, option

__all__ = ["StreamPlan", "planned", "streaming_entry"]

# Records of the batch that buys the centre, in units of 1/mu: enough for distances to stand out
# (`distances`), and for an error of about a twentieth of the spread.
_CENTRE_SEARCH, _CENTRE_NOISE, _CENTRE_FEWEST = 360.0, 80.0, 32


_BATCH_SIZE = Phrase(python="batch_size", shell="--batch-size", file="the size of a batch")


def streaming_entry(mechanism: Any, batch_size: int | None) -> OnePassEntry:
    """Return the method for a stream, by name or as it is configured."""
    known = [one.name for one in entries("components") if _streams(one)]
    found = None
    if not isinstance(mechanism, str) or mechanism in known:
        found = entry("components", mechanism)
    if not (isinstance(found, OnePassEntry) and _streams(found)):
        raise unknown_mechanism(mechanism, known)
    return found if batch_size is None else replace(found, batch_size=batch_size)


def _streams(one: Any) -> bool:
    return isinstance(one, ComponentEntry) and one.streams


@dataclass(frozen=True, slots=True)
class _Nothing:
    """What is released about the centre on its own records: later ones are for that."""

    name: ClassVar[str] = "nothing"

    def cost(self) -> Cost:
        return NOTHING

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPlan:
    """How a stream goes; public numbers."""

    d: int
    method: OnePass
    centre: LocatedCentre[None] | None
    stated: StatedBounds
    scale: NDArray[np.float64] | None = None
    unit: Unit = ROW
    max_arrivals: int = 1  # records of one person at most

    @classmethod
    def of(
        cls,
        entry: OnePassEntry,
        budget: Budget,
        *,
        n_columns: int,
        n_components: int,
        row_norm: float | None,
        centred: bool,
        on_invalid: OnInvalid,
        on_missing: OnMissing,
        scale: NDArray[np.float64] | None = None,
        unit: Unit = ROW,
        max_arrivals: int = 1,
    ) -> "StreamPlan":
        """Calibrate the method, and the search for a centre that its first batch pays for."""
        terms = Terms(budget=budget, n_columns=n_columns, n_components=n_components)

        def build(mu: float) -> OnePass:
            method = entry.gaussian(mu, terms)
            assert isinstance(method, OnePass)  # of such an entry
            return method

        method = build(
            strength(budget, lambda mu: for_group(build(mu).cost(), max_arrivals), entry.name)
        )
        centre = None
        if not centred:
            centre = replace(
                LocatedCentre.whole(method.mu, _Nothing()), directions=row_norm is None
            )
        if row_norm is None:
            stated = StatedBounds.unit_rows(on_invalid, on_missing)
            normalised = replace(stated.clip, normalise=True)
            stated = replace(stated, start=normalised, clip=normalised)
        else:
            stated = StatedBounds.resolve(
                row_norm,
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
            centre=centre,
            stated=stated,
            scale=scale,
            unit=unit,
            max_arrivals=max_arrivals,
        )

    @property
    def total(self) -> Cost:
        """The cost of any batch: that of the centre fits into it (docs/proofs/streaming.md)."""
        return self.method.cost()

    @property
    def charge(self) -> Cost:
        """What the whole stream costs a person, of whom it has so many records at most."""
        return for_group(self.total, self.max_arrivals)

    @property
    def centre_records(self) -> int:
        """Records of the batch that buys the centre."""
        if self.centre is None:
            return 0
        noise = max(_CENTRE_SEARCH, _CENTRE_NOISE * math.sqrt(self.d))
        return max(_CENTRE_FEWEST, math.ceil(noise / self.method.mu))

    @property
    def needed(self) -> int:
        """Fewest records of a stream that can be finished."""
        method = self.method
        return self.centre_records + (method.batch_size or method.stream_records(self.d))

    def next_size(self, stream: Stream) -> int:
        """Return records of the next batch."""
        if self.centre is not None and stream.centre is None:
            return self.centre_records
        if stream.iterate is None:
            return self.method.first_batch(self.d)
        return self.method.next_batch(stream.iterate)

    def still_needed(self, stream: Stream) -> int:
        """Return how many records have to arrive before components are released anew."""
        size = self.next_size(stream)
        if self.centre is not None and stream.centre is None:  # which releases no components
            size += self.method.first_batch(self.d)
        return max(0, size - stream.buffered)

    def step(self, stream: Stream, batch: Batch, gate: Gate) -> None:
        """Spend one batch: on the centre, or on a correction of the components."""
        if self.centre is not None and stream.centre is None:
            found = self.centre.run(batch, self.stated.start, gate)
            if np.isnan(found.centre).any():
                raise NothingFoundError(
                    "no distance of the first records stood out from the noise, and they are "
                    "spent: start a new stream with a larger budget, or pass ",
                    option("centring", "none"),
                )
            stream.centre, stream.centre_error = found.centre, found.centre_error
            stream.unit_distance = found.unit_distance
            return
        clip = replace(self.stated.clip, centre=stream.centre, unit_distance=stream.unit_distance)
        iterate = stream.iterate or self.method.start(self.d, clip, gate)
        stream.iterate = self.method.advance(iterate, batch, clip, gate)


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
    if isinstance(asked.row_norm, str):
        raise InvalidParameterError(option("row_norm"), " must be a positive number, or left out")
    if isinstance(asked.scale, str):
        raise InvalidParameterError(
            "a stream takes scales that are stated: one number per column, or by name"
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
        on_invalid=asked.on_invalid,
        on_missing=asked.on_missing,
        unit=Unit(**settings["unit"]),
        max_arrivals=asked.max_arrivals or 1,
    )


def _positive(name: Part, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InvalidParameterError(name, " must be a positive integer")
    return int(value)
