r"""Bounds of a stream's rows, from its first batch: centre, clipping radius and column scales.

.. math:: x \to \mathrm{clip}_R(x - c) \qquad\text{or}\qquad
          x_j \to \frac{x_j}{s_j} - c_j \to \mathrm{clip}_R

Later batches see their rows through numbers that the first one released: public for them. All steps
see the whole first batch and share its budget: half the records at the same cost would double the
noise of a step, half of mu^2 makes it sqrt(2) times as large.

- `LocatedBounds`: a centre from nothing in four steps (`located`), and distances about it.
- `RadiusBounds`: distances about the origin alone.
- `FrontBounds`: scales, a centre and finer scales (`front`), and distances.

The distances say where to clip the rows of each later batch: where noise and loss together are
least, as in whole tables (`ranged`), for the records that have arrived by then. A stream that goes
on clips less and less. Noise turns directions, while clipping rather shrinks what lies along them:
so noise weighs several times its Frobenius norm, and half as much where clipping would otherwise
take nearly half of the variance. Batches that show clearly fewer rows renew the distances.

Proof: docs/proofs/streaming.md.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import LARGEST_NORM, Clip
from eigenveil.exact.row_maps import Limit
from eigenveil.exceptions import NothingFoundError
from eigenveil.mechanisms.additive import vector_noise
from eigenveil.mechanisms.centre import LocatedCentre
from eigenveil.mechanisms.distances import NoisyDistances, PrivateDistances, clipping_radius
from eigenveil.mechanisms.front import Front
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.released_scales import ReleasedScales
from eigenveil.messages import Part, option
from eigenveil.numerics.column_limits import ColumnLimits
from eigenveil.privacy.accounting import part
from eigenveil.privacy.cost import Cost, Gaussian
from eigenveil.rows.base import RowSource
from eigenveil.rows.memory import Batch

# Shares of mu^2: each search on the way to a centre, each mean, and the distances about it.
_SEARCH_SHARE, _MEAN_SHARES, _LAST_SEARCH_SHARE = 0.05, (0.04, 0.08, 0.15, 0.28), 0.25
_NOISE_WEIGHT = 8.0  # rows that noise weighs when a radius is chosen, over d/mu
_MOST_RADIUS, _RADIUS_NOISE = 1.5, 0.002  # over sqrt(d), and over the noise of a variance as well
# Strengths of a front, over that of its first steps alone, which are a share of it; the last one
# does however few the rows are.
_FRONT_STRENGTHS = np.geomspace(8.0, 0.5, 193)
_LEAST_KEPT = 0.6  # of the variance found at half that weight, or else that one counts
_ROUNDING = 1 - 2.0**-30
_FINER = 2 / 3  # of the share of rows that a bracket may hide, from which on distances are renewed
# Ways to go on without a search.
_STATED_NORM: tuple[Part, ...] = ("state ", option("row_norm"))
_NO_CENTRE: tuple[Part, ...] = (
    "pass ",
    option("centring", "none"),
    " and state ",
    option("row_norm"),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowBounds:
    """Released numbers through which later batches see their rows.

    Attributes
    ----------
    centre : array of shape (d,)
        In units of the scales, where there are any.
    centre_error : float
        Its expected squared error; of unit rows, as a share.
    distances : NoisyDistances, optional
        Distances of rows from the centre; those of streams of earlier versions were not kept.
    columns : ReleasedScales, optional
        Scales of the columns, where they were looked for.
    stretch : float
        Factor from the distances to those in the present scales, about.
    clipped : float, optional
        Clipping radius of the last batch, in its scales; none before a batch was clipped privately.
    reach : float, optional
        The same in the present scales, about.

    """

    centre: NDArray[np.float64]
    centre_error: float
    distances: NoisyDistances | None = None
    columns: ReleasedScales | None = None
    stretch: float = 1.0
    clipped: float | None = None
    reach: float | None = None

    def radius(self, stated: Clip, mu: float, records: float) -> float | None:
        """Return the clipping radius for an estimate from so many records; None if unknown.

        ``stated`` has the largest one, ``mu`` is what a batch spends.
        """
        if self.distances is None:
            return None
        rows = self.centre.size * _NOISE_WEIGHT / mu
        radius = clipping_radius(self.distances, stated, rows, records)
        farther = clipping_radius(self.distances, stated, rows / 2, records)
        if self._mean_square(radius) < _LEAST_KEPT * self._mean_square(farther):
            radius = farther
        if self.columns is None:
            return radius
        noise = math.sqrt(2) * self.centre.size / (records * mu)  # of a variance
        most = max(_MOST_RADIUS, _RADIUS_NOISE / noise) * math.sqrt(self.centre.size)
        return min(stated.row_norm, most, self.stretch * radius)

    def clipping_at(self, radius: float) -> "RowBounds":
        """Return the bounds once a batch is clipped at ``radius``."""
        return replace(self, clipped=radius, reach=radius)

    def lost(self, radius: float) -> float:
        """Return how much more variance rows have at ``radius`` than where the last batch was
        clipped, as far as the distances show.
        """
        if self.distances is None or self.reach is None or radius <= self.reach:
            return 0.0
        more, less = (self._mean_square(end / self.stretch) for end in (radius, self.reach))
        return self.stretch**2 * (more - less)

    def _mean_square(self, radius: float) -> float:
        """Return the mean square of the distances of rows clipped at ``radius``."""
        assert self.distances is not None
        return self.distances.mean_square_within(radius)

    def sharpened(self, search: PrivateDistances, records: int) -> bool:
        """Return whether a search in so many records would show clearly fewer rows."""
        found = self.distances
        return found is not None and search.unseen / records < _FINER * found.unseen / found.rows

    def with_distances(self, found: NoisyDistances) -> "RowBounds":
        """Return the bounds with distances in the present scales, if any stand out."""
        return replace(self, distances=found, stretch=1.0) if found.found else self

    def moved(
        self, offset: NDArray[np.float64], squared_error: float, weight: float
    ) -> "RowBounds":
        """Return the bounds about a centre moved by a share of an offset with this error."""
        assert self.columns is not None  # whose centre is renewed
        columns = self.columns.moved(squared_error, weight)
        return replace(self, centre=self.centre + weight * offset)._with(columns)

    def divided(self, factor: NDArray[np.float64], longer: float = 1.0) -> "RowBounds":
        """Return the bounds in scales that are larger by a factor, for rows of another length."""
        assert self.columns is not None  # none are divided otherwise
        columns = self.columns.divided(factor)
        reach = None if self.reach is None else self.reach * longer
        bounds = replace(self, centre=self.centre / factor, reach=reach)
        return replace(bounds, stretch=self.stretch * longer)._with(columns)

    def _with(self, columns: ReleasedScales) -> "RowBounds":
        """Return the bounds with these scales, and with the error of the centre in them."""
        error = float(columns.centre_error.sum())
        return replace(self, columns=columns, centre_error=error)

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
        return Batch(Limit(limits)(batch.array), batch.records.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedBounds:
    """A centre, and distances about it. Fields are public, never data.

    Attributes
    ----------
    inner : LocatedCentre
        Finds the centre, then the distances.

    """

    name: ClassVar[str] = "row-bounds"
    proofs: ClassVar[tuple[str, ...]] = ("located", "distances")
    inner: LocatedCentre[NoisyDistances]

    @classmethod
    def whole(cls, mu: float) -> Self:
        """Build it with a whole ``mu``."""
        noises = [vector_noise(part(Gaussian(mu), s)) for s in (_SEARCH_SHARE, *_MEAN_SHARES)]
        last = PrivateDistances(noise=vector_noise(part(Gaussian(mu), _LAST_SEARCH_SHARE)))
        return cls(inner=LocatedCentre.build(noises, last, directions=False))

    def cost(self) -> Cost:
        """Return the cost of all steps, composed."""
        return self.inner.cost()

    def run(self, source: RowSource, start: Clip, gate: Gate) -> RowBounds:
        """Read the batch; ``start`` has the stated bound on rows, if any."""
        found = self.inner.run(source, start, gate)
        if np.isnan(found.centre).any():
            raise _nothing_found(*_NO_CENTRE)
        return RowBounds(
            centre=found.centre,
            centre_error=found.centre_error,
            distances=_clear(found.inner, start, *_NO_CENTRE),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RadiusBounds:
    """Distances from the origin. Fields are public, never data.

    Attributes
    ----------
    inner : PrivateDistances
        The search.

    """

    name: ClassVar[str] = "row-bounds"
    proofs: ClassVar[tuple[str, ...]] = ("distances",)
    inner: PrivateDistances

    @classmethod
    def whole(cls, mu: float) -> Self:
        """Build it with a whole ``mu``."""
        return cls(inner=PrivateDistances(noise=vector_noise(Gaussian(mu))))

    def cost(self) -> Cost:
        """Return the cost of the search."""
        return self.inner.cost()

    def run(self, source: RowSource, start: Clip, gate: Gate) -> RowBounds:
        """Read the batch; ``start`` has the stated bound on rows, if any."""
        found = self.inner.run(source, start, gate)
        origin = np.zeros(source.n_columns)
        distances = _clear(found, start, *_STATED_NORM)
        return RowBounds(centre=origin, centre_error=0.0, distances=distances)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontBounds:
    """Scales of columns, a centre, and distances. Fields are public, never data.

    Attributes
    ----------
    mu : float
        Of all steps together.
    front : Front
        Takes the first steps. It is stronger than ``mu``: the matrices that it would end with,
        which have most of its budget, are left out.
    inner : PrivateDistances
        The search about the centre that was found.

    """

    name: ClassVar[str] = "row-bounds"
    proofs: ClassVar[tuple[str, ...]] = ("front", "distances")
    mu: float
    front: Front
    inner: PrivateDistances

    @classmethod
    def whole(cls, mu: float, rows: int, columns: int) -> Self:
        """Build it with a whole ``mu`` for a batch of so many rows."""
        most = mu * math.sqrt(1 - _LAST_SEARCH_SHARE) * _ROUNDING
        fronts = (Front(mu=mu * f, rows=rows, columns=columns) for f in _FRONT_STRENGTHS)
        front = next(front for front in fronts if _spent(front) <= most)
        last = PrivateDistances(noise=vector_noise(part(Gaussian(mu), _LAST_SEARCH_SHARE)))
        return cls(mu=mu, front=front, inner=last)

    def cost(self) -> Cost:
        """Return the cost of all steps, composed."""
        return Gaussian(self.mu)

    def run(self, source: RowSource, start: Clip, gate: Gate) -> RowBounds:
        """Read the batch; ``start`` has the stated bound on rows in units of scales, if any."""
        ready = self.front.prepare(source, start, gate)
        if not ready.columns.known.any():
            raise NothingFoundError(
                "no column's scale stands out from the noise, and the first records are spent: "
                "start a new stream with a larger budget, or state ",
                option("scale"),
            )
        table = ready.table
        found = self.inner.run(table.source, table.about, gate)
        return RowBounds(
            centre=table.centre,
            centre_error=ready.clip.centre_error,
            distances=_clear(found, start, *_STATED_NORM),
            columns=ReleasedScales.of(ready),
        )


Preparation = LocatedBounds | RadiusBounds | FrontBounds


def _clear(found: NoisyDistances, start: Clip, *advice: Part) -> NoisyDistances:
    """Return distances that stand out, or that are not needed."""
    if not found.found and start.row_norm == LARGEST_NORM:
        raise _nothing_found(*advice)
    return found


def _spent(front: Front) -> float:
    """Return the mu of all steps before the matrices."""
    return front.mu * math.sqrt(sum(front.shares.values()))


def _nothing_found(*advice: Part) -> NothingFoundError:
    return NothingFoundError(
        "no distance of the first records stood out from the noise, and they are spent: start a "
        "new stream with a larger budget, or ",
        *advice,
    )
