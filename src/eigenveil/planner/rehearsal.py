r"""One-pass methods as they run, on rows as assumed: a few in each batch, which stand for the rest.

The mechanism's own steps see a sample of every batch. A sum over s rows that stand for m is taken
m/s times, so that the noise on it is that of the whole batch, and the rows are moved until their
second moment varies from sample to sample as that of m rows does. Where d columns are simulated by
d' directions, noise reaches as far over fewer (`assumed`), a random start meets a direction that
stands for itself as seldom as among d, and the level of the rest is that of d columns.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from eigenveil.data.bounded import Bounded
from eigenveil.data.clip import Clip
from eigenveil.data.sources import Batch
from eigenveil.mechanisms.additive import NoisyVector
from eigenveil.mechanisms.base import Gate, Mechanism
from eigenveil.mechanisms.pca.one_pass import Iterate, OnePass
from eigenveil.numerics.fixedpoint import FixedPoint
from eigenveil.numerics.random import NoiseSource
from eigenveil.planner.assumed import AssumedTable, Rows
from eigenveil.privacy.adjacency import Adjacency

__all__ = ["Rehearsal"]

# Rounds in which rows find their places, of few and of many directions: what is left falls by
# about 2/d in each.
_ROUNDS, _FEWER_ROUNDS, _MANY = 4, 2, 50
_SOME = 1e-12  # of the variance of a row

Matrix = NDArray[np.float64]
Result = TypeVar("Result")


class _Sample(Batch):
    """Rows that stand for the records of a batch."""

    def __init__(self, rows: Matrix, records: range) -> None:
        super().__init__(rows, records.start)
        self.records = records

    def slice(self, start: int, stop: int) -> "_Sample":
        """Records ``start`` up to ``stop`` of the batch, and the rows that stand for them."""
        share = self.n_rows / len(self.records)
        first = min(self.n_rows - 1, round(start * share))
        last = max(first + 1, round(stop * share))
        return _Sample(self.array[first:last], self.records[start:stop])


class _Stage(Gate):
    """Draws on simulated rows, for which nothing is spent."""

    def __init__(self, batch: _Sample, noise: NoiseSource, groups: Matrix) -> None:
        super().__init__(
            None,  # type: ignore[arg-type]
            label="rehearsal",
            adjacency=Adjacency.REPLACE_ONE,
            ledger=None,
            noise=noise,
        )
        self._each = len(batch.records) / batch.n_rows
        self._groups = groups

    def draw(self, step: Mechanism[Result], query: Bounded) -> Result:
        """The sum is taken for the whole batch; noise is that of all columns."""
        assert query.records is not None  # of batches alone
        assert query.count is not None
        units = np.rint(query.value.units * self._each).astype(np.int64)
        whole = replace(
            query,
            value=FixedPoint(units, query.value.exponent),
            unit=query.unit * query.count / len(query.records),
        )
        released = super().draw(step, whole)
        if not isinstance(released, NoisyVector) or released.values.ndim == 1:
            return released
        more = np.sqrt(self._groups - 1)[:, None] * self.normals(*released.values.shape)
        return replace(
            released,
            values=released.values + released.deviation * more,
            deviation=released.deviation * math.sqrt(self._groups.mean()),
        )

    def _pay(self, step: Mechanism[Any], records: range | None) -> None:
        pass


class Rehearsal:
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
        Where rows are clipped, in units of their root mean square distance; of rows scaled to
        unit length there is none.

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

    def run(self, error: Matrix, source: NoiseSource) -> tuple[Matrix, Matrix]:
        """Second moments of the rows, and components about a centre that is off by ``error``."""
        table, method = self.table, self.method
        clip = Clip(row_norm=1.0)  # rows come as they are clipped or normalised
        truth = np.zeros((table.d, table.d))
        iterate: Iterate | None = None
        trace = math.nan
        for batch, moment, rest in self._batches(error, source):
            truth += moment * len(batch.records) / sum(self.sizes)
            stage = _Stage(batch, source, self.groups)
            if iterate is None:
                iterate = self._start(replace(clip, normalise=self.reach is None), stage)
                trace = iterate.trace
            known = not math.isnan(trace)
            iterate = replace(iterate, trace=self._fewer(iterate, trace))
            iterate = method.advance(iterate, batch, clip, stage)
            if not known and not math.isnan(iterate.trace):  # it has been bought
                trace = iterate.trace + rest
        assert iterate is not None  # there are batches
        return truth, iterate.components(table.k).components

    def _batches(
        self, error: Matrix, source: NoiseSource
    ) -> Iterator[tuple[_Sample, Matrix, float]]:
        """Rows that stand for a batch, its second moment, and the trace that is left out."""
        table, first = self.table, 0
        for size in self.sizes:
            sample = table.sample(size / table.stretch, source)
            rows = self._settled(sample) + error
            shares = self._shares(rows, sample.rest)
            batch = _Sample(rows * np.sqrt(shares)[:, None], range(first, first + size))
            moment = sample.moment(np.diag(table.values))
            yield batch, moment, sample.rest * float(shares.mean())
            first += size

    def _shares(self, rows: Matrix, rest: float) -> Matrix:
        """Of the second moment of each row, what is left of it in the unit ball."""
        shares = np.asarray(1 / (np.einsum("ij,ij->i", rows, rows) + rest))
        return shares if self.reach is None else np.minimum(1 / self.reach**2, shares)

    def _settled(self, sample: Rows) -> Matrix:
        """The rows moved until their second moment in the unit ball is that of the batch."""
        rows, table = sample.rows, self.table
        if len(rows) < 2 * table.d:  # as many as the batch has
            return rows
        if self.reach is None:
            wanted = sample.moment(np.diag(table.unit), 1 / sample.squares)
        else:
            mean, weights = table.clipped(sample, self.reach)
            wanted = sample.moment(np.diag(mean), weights) / self.reach**2
        some = _SOME * np.eye(table.d)  # directions may have no variance at all
        goal = np.linalg.cholesky(wanted + some)
        for _ in range(_ROUNDS if table.d <= _MANY else _FEWER_ROUNDS):
            inside = rows * np.sqrt(self._shares(rows, sample.rest))[:, None]
            seen = np.linalg.cholesky(inside.T @ inside / len(rows) + some)
            rows = np.asarray(rows @ solve_triangular(seen, goal.T, trans="T", lower=True))
        return rows

    def _start(self, clip: Clip, stage: Gate) -> Iterate:
        """A random basis of all columns, as far as it is seen."""
        start = self.method.start(self.table.d, clip, stage)
        wide = np.sqrt(self.groups)[:, None] * start.basis
        return replace(start, basis=np.linalg.qr(wide)[0])

    def _fewer(self, iterate: Iterate, trace: float) -> float:
        """A trace that leaves as much to each direction outside the basis as among all columns."""
        p = int(iterate.basis.shape[1])
        if self.d == self.table.d or p == self.table.d:
            return trace
        inside = float(np.einsum("ij,ij->", iterate.basis, iterate.image))
        return inside + (trace - inside) * (self.table.d - p) / (self.d - p)
