"""One call on a stream: records that arrive fill batches, and each batch is used once."""

from collections.abc import Callable
from dataclasses import dataclass

from eigenveil.estimators.stream_persons import Arrival
from eigenveil.estimators.stream_plan import StreamPlan
from eigenveil.estimators.stream_state import Stream
from eigenveil.exceptions import InvalidDataError
from eigenveil.mechanisms.gate import Gate
from eigenveil.rows.base import RowSource
from eigenveil.text import plural

__all__ = ["StreamRun"]


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
