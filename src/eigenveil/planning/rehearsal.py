r"""Mechanisms as they run, on rows as assumed: a few hundred rows that stand for all.

A procedure sees a sample of s rows and draws through a stand-in of the gate. A sum over rows that
stand for n is taken n/s times, so that the noise on it is that of the whole table, and the rows are
moved until their second moment varies from sample to sample as that of n rows does. Where d columns
are simulated by d' directions, noise reaches as far over fewer (`assumed`): its scale grows by
:math:`\sqrt{d/d'}`. Rows are then lengthened by what the other directions would add to them, and
what is summed of their products is shortened by as much. Batches of a one-pass method have a sample
each; a random start meets a direction that stands for itself as seldom as among d, and the level of
the rest is that of d columns.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import FRACTION_BITS, Clip
from eigenveil.exact.products import MomentProducts
from eigenveil.mechanisms.additive import NoisyVector, PrivateMean
from eigenveil.mechanisms.centre import CentredResult, Paired, Uncentred
from eigenveil.mechanisms.column_scale import Scaled
from eigenveil.mechanisms.correlation import Correlation
from eigenveil.mechanisms.counted import Counted
from eigenveil.mechanisms.gate import Gate, Procedure, Step
from eigenveil.mechanisms.missing_rates import Present
from eigenveil.mechanisms.one_pass import OnePass, OnePassState
from eigenveil.numerics.integers import FixedPoint
from eigenveil.numerics.integers import whole as whole_numbers
from eigenveil.numerics.random import NoiseSource, normals
from eigenveil.planning.assumed import AssumedTable, Rows
from eigenveil.planning.plans import Plan
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.rows.base import RowSource, Schema, StandsFor
from eigenveil.rows.memory import ArraySource, Batch

# Rounds in which rows find their places, of few and of many directions: what is left falls by
# about 2/d in each.
_ROUNDS, _FEWER_ROUNDS, _MANY_DIRECTIONS = 4, 2, 50
_SMALLEST_VARIANCE = 1e-12  # of a direction, in units of that of a row

Matrix = NDArray[np.float64]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Many:
    """The table that rows of a rehearsal stand for.

    Attributes
    ----------
    each : float
        How many rows each of them stands for.
    kept : float
        Share of variance in the directions that are simulated, by which lengths are too long.

    """

    each: float
    kept: float

    def whole(self, statistic: Any) -> Any:
        """Return a sum over all rows of the table."""
        # Products of entries, not counts, rows or lengths.
        products = statistic.value.units.size > 1 and statistic.value.exponent < -FRACTION_BITS
        lazy = isinstance(statistic, MomentProducts)
        each = self.each * (self.kept if products or lazy else 1.0)
        units = whole_numbers(np.rint(statistic.value.units * each))
        whole = replace(statistic, value=FixedPoint(units, statistic.value.exponent))
        if statistic.count is not None:
            count = max(1, round(statistic.count * self.each))
            whole = replace(whole, unit=statistic.unit * statistic.count / count, count=count)
        if isinstance(whole, MomentProducts):
            blocks, root = whole.blocks, math.sqrt(each)
            return replace(whole, blocks=lambda: (root * rows for rows in blocks()))
        return whole

    def sample(self, rows: RowSource, share: float) -> RowSource:
        """Return the same rows, which stand for fewer."""
        return _assumed(rows.whole(), replace(self, each=self.each * share))

    def drawn(self, rows: RowSource, size: int) -> RowSource:
        """Return the same rows, which stand for as many as are drawn."""
        return _assumed(rows.whole(), replace(self, each=size / rows.count_rows()))


def _assumed(rows: Matrix, table: StandsFor | None) -> ArraySource:
    """Return rows that stand for a table."""
    source = ArraySource(rows)
    source.schema = Schema(stands_for=table)
    return source


def _rotated(source: ArraySource, axes: Matrix) -> ArraySource:
    """Return the rows in other coordinates."""
    return _assumed(source.array @ axes, source.schema.stands_for)


class StandInGate(Gate):
    """Draws for which nothing is spent, with the noise of all columns."""

    def __init__(
        self, adjacency: Adjacency, noise: NoiseSource, *, stretch: float = 1.0, kept: float = 1.0
    ) -> None:
        super().__init__(
            None,  # type: ignore[arg-type]
            label="rehearsal",
            adjacency=adjacency,
            ledger=None,
            noise=noise,
        )
        self._stretch = stretch  # directions that one stands for
        self._kept = kept  # share of variance in the directions that are simulated

    def draw(self, step: Step[Result], query: Bounded) -> Result:
        """Add noise to sensitivities that give that of all columns."""
        mean = isinstance(step, PrivateMean)
        wide = mean or query.value.units.ndim > 1 or isinstance(query, MomentProducts)
        if self._stretch > 1 and wide:
            root = math.sqrt(self._stretch)
            longer = 1 / math.sqrt(self._kept) if mean else 1.0
            # An l1 norm of d' columns is sqrt(d/d') short of that of d, or d/d' if a matrix's.
            factors = {
                "frobenius": root,
                "l2": root * longer,
                "nuclear": self._stretch,
                "l1": root * (root * longer if mean else self._stretch),
            }
            wider = {norm: bound * factors[norm] for norm, bound in query.sensitivities.items()}
            query = replace(query, sensitivities=wider)
        return super().draw(step, query)

    def _pay(self, step: Step[Any], records: range | None) -> None:
        pass


def with_drawn_rows(plan: Plan, n: int) -> Plan:
    """Return the plan as it would be after a count of ``n`` rows, where it counts them."""
    procedure = plan.procedure if plan.counted else None
    if isinstance(procedure, Correlation):
        procedure = procedure.inner
    if not isinstance(procedure, Counted):
        return plan
    return replace(plan, drawn_rows=procedure.expected(n))


def rehearse(
    plan: Plan,
    table: AssumedTable,
    *,
    n: int,
    length: float,
    offset: float,
    reach: float | None,
    noise: NoiseSource,
) -> tuple[Matrix, CentredResult[Any]]:
    """Carry a plan out on assumed rows; return their second moment, and what was released.

    Parameters
    ----------
    plan : Plan
        As it would be carried out on all columns.
    table : AssumedTable
        The directions that are simulated.
    n : int
        Number of rows.
    length, offset : float
        Root mean square distance of rows from their centre, and that of the centre from the start.
    reach : float, optional
        Where rows are clipped, in units of ``length``; None where they are scaled to unit length.
    noise : NoiseSource
        Where random bits come from.

    """
    if plan.centring == "paired":  # differences vary by half as much, and there are half as many
        n, length = n // 2, length / math.sqrt(2)
    sample = table.sample(n / table.stretch, noise)
    truth = sample.moment(np.diag(table.values)) * length**2
    kept = 1 - table.rest
    rows = settled(sample, table, reach) * (length / math.sqrt(kept))
    if offset:
        away = normals(noise, (table.d,))
        rows = rows + offset * away / np.linalg.norm(away)
    gate = StandInGate(plan.request.adjacency, noise, stretch=table.stretch, kept=kept)
    source = _assumed(rows, _Many(n / len(rows), kept))
    start = replace(plan.start, box=None, centre=None)
    few = _of_few(plan, table).build(plan.strength)
    if isinstance(few, Correlation):
        if plan.centring == "paired":  # the table has the sums of its pairs as well
            sums = table.sample(n / table.stretch, noise)
            truth += sums.moment(np.diag(table.values)) * length**2
        return _standardised(few, truth, source, start, gate)
    few = _without_scales(few)
    if isinstance(few, Paired):
        inner = few.inner.run(source, start, gate)
        return truth, CentredResult(np.zeros(table.d), 0.0, None, inner)
    if plan.front or plan.counted:
        return truth, _turned(few, source, start, gate)
    return truth, few.run(source, start, gate)


def _without_scales(few: Procedure[Any]) -> Procedure[Any]:
    """Return the steps after a search for scales: the table is as assumed once these are known."""
    if isinstance(few, Present):
        return replace(few, inner=_without_scales(few.inner))
    return few.inner if isinstance(few, Scaled) else few


def _of_few(plan: Plan, table: AssumedTable) -> Plan:
    """Return the plan for the directions that are simulated."""
    request = plan.request
    if table.d < request.n_columns:  # which of them have a public scale is not assumed
        request = replace(request, known_scale=None)
    return replace(plan, request=request, n_components=min(plan.n_components, table.k))


def _standardised(
    few: Correlation, truth: Matrix, source: ArraySource, start: Clip, gate: Gate
) -> tuple[Matrix, CentredResult[Any]]:
    """Return correlations of columns that are no eigenvectors, and components of these."""
    axes, _ = np.linalg.qr(gate.normals(source.n_columns, source.n_columns))
    truth = axes.T @ truth @ axes
    deviations = np.sqrt(truth.diagonal())
    assert few.inner is not None  # the plan has set it
    inner = _without_scales(few.inner)
    if isinstance(inner, Paired):
        inner = Uncentred(inner=inner.inner, row_norm=start.row_norm)
    found = replace(few, inner=inner).run(_rotated(source, axes), start, gate)
    staged = found.inner
    assert staged.deviations is not None  # of standardised columns
    kept = np.isfinite(staged.deviations)
    whole = np.zeros((len(staged.components.components), kept.size))
    whole[:, kept] = staged.components.components
    components = replace(staged.components, components=whole)
    found = replace(found, inner=replace(staged, components=components))
    return truth / np.outer(deviations, deviations), found


def _turned(
    few: Procedure[CentredResult[Any]], source: ArraySource, start: Clip, gate: Gate
) -> CentredResult[Any]:
    """Run steps that look at single columns on rows whose columns are no eigenvectors."""
    axes, _ = np.linalg.qr(gate.normals(source.n_columns, source.n_columns))
    found = few.run(_rotated(source, axes), start, gate)
    back = axes if found.scale is None else axes * found.scale
    matrix = back @ found.inner.matrix @ back.T
    return replace(found, inner=replace(found.inner, matrix=matrix), scale=None)


def settled(sample: Rows, table: AssumedTable, reach: float | None) -> Matrix:
    """Return rows moved until their second moment in the unit ball is that of the whole table."""
    rows = sample.rows
    if len(rows) < 2 * table.d:  # as many as the table has
        return rows
    if reach is None:
        wanted = sample.moment(np.diag(table.unit), 1 / sample.squares)
    else:
        mean, weights = table.clipped(sample, reach)
        wanted = sample.moment(np.diag(mean), weights) / reach**2
    some = _SMALLEST_VARIANCE * np.eye(table.d)  # directions may have no variance at all
    goal = np.linalg.cholesky(wanted + some)
    for _ in range(_ROUNDS if table.d <= _MANY_DIRECTIONS else _FEWER_ROUNDS):
        inside = rows * np.sqrt(_shares(rows, sample.rest, reach))[:, None]
        seen = np.linalg.cholesky(inside.T @ inside / len(rows) + some)
        rows = np.asarray(rows @ solve_triangular(seen, goal.T, trans="T", lower=True))
    return rows


def _shares(rows: Matrix, rest: float, reach: float | None) -> Matrix:
    """Return, of the second moment of each row, what is left of it in the unit ball."""
    shares = np.asarray(1 / (np.einsum("ij,ij->i", rows, rows) + rest))
    return shares if reach is None else np.minimum(1 / reach**2, shares)


class _Sample(Batch):
    """Rows that stand for the records of a batch."""

    def __init__(self, rows: Matrix, records: range) -> None:
        super().__init__(rows, records.start)
        self.schema = Schema(records=records)

    def slice(self, start: int, stop: int) -> "_Sample":
        """Return records ``start`` to ``stop`` of the batch, and the rows for them."""
        share = self.n_rows / len(self.records)
        first = min(self.n_rows - 1, round(start * share))
        last = max(first + 1, round(stop * share))
        return _Sample(self.array[first:last], self.records[start:stop])


class _BatchGate(StandInGate):
    """Draws on one batch; noise is larger in directions that stand for several."""

    def __init__(self, batch: _Sample, noise: NoiseSource, groups: Matrix) -> None:
        super().__init__(Adjacency.REPLACE_ONE, noise)
        self._each = len(batch.records) / batch.n_rows
        self._groups = groups

    def draw(self, step: Step[Result], query: Bounded) -> Result:
        """Take the sum for the whole batch; noise is that of all columns."""
        assert query.records is not None  # of batches alone
        assert query.count is not None
        units = whole_numbers(np.rint(query.value.units * self._each))
        whole = replace(
            query,
            value=FixedPoint(units, query.value.exponent),
            unit=query.unit * query.count / len(query.records),
        )
        released = Gate.draw(self, step, whole)
        if not isinstance(released, NoisyVector) or released.values.ndim == 1:
            return released
        more = np.sqrt(self._groups - 1)[:, None] * self.normals(*released.values.shape)
        return replace(
            released,
            values=released.values + released.deviation * more,
            deviation=released.deviation * math.sqrt(self._groups.mean()),
        )


class BatchRehearsal:
    """A one-pass method on batches of an assumed table.

    Parameters
    ----------
    method : OnePass
        As it would run on all columns.
    table : AssumedTable
        The directions that are simulated.
    n, d : int
        Numbers of records and of columns.
    reach : float, optional
        Where rows are clipped, in units of their root mean square distance; None where they are
        scaled to unit length.

    """

    def __init__(
        self, method: OnePass, table: AssumedTable, *, n: int, d: int, reach: float | None
    ) -> None:
        self.method = replace(method, n_components=table.k)
        self.table = table
        self.d = d
        self.sizes = tuple(method.sizes(n, d))
        self.reach = reach
        others = (d - table.leading) / max(1, table.d - table.leading)
        self.groups = np.where(np.arange(table.d) < table.leading, 1.0, others)

    def run(self, error: Matrix, noise: NoiseSource) -> tuple[Matrix, Matrix]:
        """Return second moments of the rows, and components about a centre off by ``error``."""
        table, method = self.table, self.method
        clip = Clip(row_norm=1.0)  # rows come as they are clipped or normalised
        truth = np.zeros((table.d, table.d))
        iterate: OnePassState | None = None
        trace = math.nan
        for batch, moment, rest in self._batches(error, noise):
            truth += moment * len(batch.records) / sum(self.sizes)
            gate = _BatchGate(batch, noise, self.groups)
            if iterate is None:
                iterate = self._start(replace(clip, normalise=self.reach is None), gate)
                trace = iterate.trace
            known = not math.isnan(trace)
            iterate = replace(iterate, trace=self._fewer(iterate, trace))
            iterate = method.advance(iterate, batch, clip, gate)
            if not known and not math.isnan(iterate.trace):  # it has been bought
                trace = iterate.trace + rest
        assert iterate is not None  # there are batches
        return truth, iterate.components(table.k).components

    def _batches(
        self, error: Matrix, noise: NoiseSource
    ) -> Iterator[tuple[_Sample, Matrix, float]]:
        """Yield rows that stand for a batch, its second moment, and the trace that is left out."""
        table, first = self.table, 0
        for size in self.sizes:
            sample = table.sample(size / table.stretch, noise)
            rows = settled(sample, table, self.reach) + error
            shares = _shares(rows, sample.rest, self.reach)
            batch = _Sample(rows * np.sqrt(shares)[:, None], range(first, first + size))
            moment = sample.moment(np.diag(table.values))
            yield batch, moment, sample.rest * float(shares.mean())
            first += size

    def _start(self, clip: Clip, gate: Gate) -> OnePassState:
        """Return a random basis of all columns, as far as it is seen."""
        start = self.method.start(self.table.d, clip, gate)
        wide = np.sqrt(self.groups)[:, None] * start.basis
        return replace(start, basis=np.linalg.qr(wide)[0])

    def _fewer(self, iterate: OnePassState, trace: float) -> float:
        """Return a trace that leaves as much to a direction outside the basis as among all."""
        p = int(iterate.basis.shape[1])
        if self.d == self.table.d or p == self.table.d:
            return trace
        inside = float(np.einsum("ij,ij->", iterate.basis, iterate.image))
        return inside + (trace - inside) * (self.table.d - p) / (self.d - p)
