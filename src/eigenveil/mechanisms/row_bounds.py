r"""The first batch of a stream: a centre and a clipping radius, and scales of columns if asked for.

.. math:: x \to \mathrm{clip}_R(x - c) \qquad\text{or}\qquad
          x_j \to \frac{x_j}{s_j} - c_j \to \mathrm{clip}_R

Later batches see their rows through numbers that the first one released: public for them. All steps
see the whole first batch and share its budget: half the records at the same cost would double the
noise of a step, half of mu^2 makes it sqrt(2) times as large.

- `LocatedBounds`: distances, a mean, distances, a mean, and distances about that (`located`). The
  last ones say where rows are clipped, by the rule of whole tables (`ranged`).
- `RadiusBounds`: distances about the origin alone.
- `FrontBounds`: scales, a centre, finer scales and a radius (`front`).

Proof: docs/proofs/streaming.md.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.clip import LARGEST_NORM, Clip
from eigenveil.data.column_limits import ColumnLimits
from eigenveil.data.sources import Batch, LimitedSource, RowSource
from eigenveil.exceptions import NothingFoundError
from eigenveil.mechanisms.additive import vector_noise
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.front import Front
from eigenveil.mechanisms.located import LocatedCentre
from eigenveil.mechanisms.ranged import clipping_radius, noise_rows
from eigenveil.mechanisms.scalars.distances import NoisyDistances, PrivateDistances
from eigenveil.privacy.accounting import part
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.cost import Cost, Gaussian
from eigenveil.wording import option

__all__ = ["FrontBounds", "LocatedBounds", "RadiusBounds", "ReleasedScales", "RowBounds"]

_SEARCH_SHARE = 0.05  # of mu^2, for the last distances beside a centre
# Strengths of a front, over that of its first steps alone: those are a share of it.
_FRONT_STRENGTHS = np.geomspace(4.0, 1.0, 97)
_ROUNDING = 1 - 2.0**-30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReleasedScales:
    """Released scales of columns, and how far from the centre entries count, in these units.

    Attributes
    ----------
    scale : array of shape (d,)
        Columns are divided by it.
    turn : array of shape (d,)
        Whole multiples of it are dropped from entries about the centre.
    limit : float
        Largest distance of an entry from the centre.

    """

    scale: NDArray[np.float64]
    turn: NDArray[np.float64]
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowBounds:
    """Released numbers through which later batches see their rows.

    Attributes
    ----------
    centre : array of shape (d,)
        In units of the scales, where there are any.
    centre_error : float
        Its expected squared error; of unit rows, as a share.
    row_norm : float or None
        Distance from the centre at which rows are clipped; None where a stated one holds, or rows
        have unit length.
    columns : ReleasedScales, optional
        Scales of the columns, where they were looked for.

    """

    centre: NDArray[np.float64]
    centre_error: float
    row_norm: float | None = None
    columns: ReleasedScales | None = None

    def clip(self, stated: Clip) -> Clip:
        """Return the clip of later batches, from the one that holds without these numbers."""
        norm = stated.row_norm if self.row_norm is None else self.row_norm
        return replace(stated, centre=self.centre, row_norm=norm)

    def seen(self, batch: Batch, clip: Clip) -> Batch:
        """Return the records of a batch divided by the scales and within the limits."""
        if self.columns is None:
            return batch
        limits = ColumnLimits(
            scale=self.columns.scale,
            centre=self.centre,
            turn=self.columns.turn,
            limit=self.columns.limit,
            fills=clip.on_missing == "centre",
        )
        return Batch(LimitedSource(batch, limits).of_rows(batch.array), batch.records.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedBounds:
    """A centre and a clipping radius about it. Fields are public, never data.

    Attributes
    ----------
    inner : LocatedCentre
        Finds the centre, then distances about it.
    rows : float
        The noise of a step, in rows: see `noise_rows`.

    """

    name: ClassVar[str] = "located"
    inner: LocatedCentre[NoisyDistances]
    rows: float

    @classmethod
    def whole(cls, mu: float, columns: int) -> Self:
        """Build it with a whole ``mu``."""
        search = PrivateDistances(noise=vector_noise(part(Gaussian(mu), _SEARCH_SHARE)))
        located = LocatedCentre.whole(mu, search, directions=False)
        return cls(inner=located, rows=_noise_rows(mu, columns))

    def cost(self) -> Cost:
        """Return the cost of all steps, composed."""
        return self.inner.cost()

    def run(self, source: RowSource, start: Clip, gate: Gate) -> RowBounds:
        """Read the batch; within the norm of ``start``."""
        found = self.inner.run(source, start, gate)
        if np.isnan(found.centre).any():
            raise _nothing_found()
        return RowBounds(
            centre=found.centre,
            centre_error=found.centre_error,
            row_norm=_radius(found.inner, start, self.rows),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RadiusBounds:
    """A clipping radius about the origin. Fields are public, never data.

    Attributes
    ----------
    inner : PrivateDistances
        The search.
    rows : float
        The noise of a step, in rows: see `noise_rows`.

    """

    name: ClassVar[str] = "radius"
    inner: PrivateDistances
    rows: float

    @classmethod
    def whole(cls, mu: float, columns: int) -> Self:
        """Build it with a whole ``mu``."""
        search = PrivateDistances(noise=vector_noise(Gaussian(mu)))
        return cls(inner=search, rows=_noise_rows(mu, columns))

    def cost(self) -> Cost:
        """Return the cost of the search."""
        return self.inner.cost()

    def run(self, source: RowSource, start: Clip, gate: Gate) -> RowBounds:
        """Read the batch."""
        found = self.inner.run(source, start, gate)
        origin = np.zeros(source.n_columns)
        norm = _radius(found, start, self.rows)
        return RowBounds(centre=origin, centre_error=0.0, row_norm=norm)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontBounds:
    """Scales of columns, a centre and a clipping radius. Fields are public, never data.

    Attributes
    ----------
    mu : float
        Of all steps together.
    inner : Front
        Takes the steps. It is stronger than ``mu``, as the matrices that it would end with, which
        have most of its budget, are left out.

    """

    name: ClassVar[str] = "front"
    mu: float
    inner: Front

    @classmethod
    def whole(cls, mu: float, rows: int, columns: int) -> Self:
        """Build it with a whole ``mu`` for a batch of so many rows."""
        fronts = (Front(mu=mu * f, rows=rows, columns=columns) for f in _FRONT_STRENGTHS)
        front = next(front for front in fronts if _spent(front) <= mu * _ROUNDING)
        return cls(mu=mu, inner=front)

    def cost(self) -> Cost:
        """Return the cost of all steps, composed."""
        return Gaussian(self.mu)

    def run(self, source: RowSource, start: Clip, gate: Gate) -> RowBounds:
        """Read the batch; within the norm of ``start``, in units of the scales."""
        ready = self.inner.prepare(source, start, gate)
        if not ready.columns.known.any():
            raise NothingFoundError(
                "no column's scale stands out from the noise, and the first records are spent: "
                "start a new stream with a larger budget, or state ",
                option("scale"),
            )
        table = ready.table
        return RowBounds(
            centre=table.centre,
            centre_error=ready.clip.centre_error,
            row_norm=min(start.row_norm, ready.clip.row_norm),
            columns=ReleasedScales(scale=table.scale, turn=table.turn, limit=ready.limit),
        )


def _spent(front: Front) -> float:
    """Return the mu of all steps before the matrices."""
    return front.mu * math.sqrt(sum(front.shares.values()))


def _noise_rows(mu: float, columns: int) -> float:
    return noise_rows(Gaussian(mu), columns, Adjacency.REPLACE_ONE)


def _radius(found: NoisyDistances, start: Clip, rows: float) -> float:
    if not found.found and start.row_norm == LARGEST_NORM:
        raise _nothing_found()
    return clipping_radius(found, start, rows)


def _nothing_found() -> NothingFoundError:
    return NothingFoundError(
        "no distance of the first records stood out from the noise, and they are spent: start a "
        "new stream with a larger budget, or pass ",
        option("centring", "none"),
    )
