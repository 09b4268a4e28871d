r"""A centre found without any bound, and what is released about it.

.. math:: h_t = \text{private distances } |x_i - c_{t-1}|, \qquad
          c_t = c_{t-1} + \frac1n \sum_i \mathrm{clip}_{r_t}(x_i - c_{t-1}) + \text{noise}

in two or three steps from a public c_0, the origin or the point of stated ranges nearest to it.
Distances are counted on a public scale from 1e50 down (`distances`), so no bound is asked for, and
r_t is where noise and loss together are least: at a generous budget beyond all rows. Early steps
come near, with an error that grows with the distance of the data from the start; the last pays for
their spread only. Lengths of rows, unlike their directions, suffer from a centre that is still far
off, so a covariance takes three steps. Where the first distances do not stand out, there is no
centre: differences of pairs of rows need none. Where directions are wanted, distances are looked
at once more, about the centre that was found: only they tell data that lie too far away for two
steps from data of one direction. Of a large table some of the rows are enough (`enough_rows`),
which saves up to five reads of it.
Proof: docs/proofs/located.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Self, TypeVar

import numpy as np

from eigenveil.exact.clip import LARGEST_NORM, Clip
from eigenveil.exact.gram import total
from eigenveil.exceptions import NothingFoundError
from eigenveil.mechanisms.additive import VectorNoise
from eigenveil.mechanisms.base import Gate, Procedure
from eigenveil.mechanisms.centred import CentredResult
from eigenveil.mechanisms.mean import PrivateMean
from eigenveil.mechanisms.paired import Paired
from eigenveil.mechanisms.scalars.distances import PrivateDistances
from eigenveil.privacy.accounting import compose
from eigenveil.privacy.cost import Allotment, Cost, Gaussian, Pure
from eigenveil.rows.base import RowSource
from eigenveil.rows.derived import sampled
from eigenveil.wording import BOUNDS, option

__all__ = ["LocatedCentre", "enough_rows", "mean_shares"]

# Of mu^2 for the two means, or of a pure epsilon, at most; and the second at least.
_MEANS = (0.04, 0.15)
_LEAST_MEAN = 0.05
_SAMPLE_ROWS, _SAMPLE_BYTES = 1 << 15, 1 << 27
_UNIT_DISTANCE = 0.25  # quantile of the distances that end up as length one
_SAVING = 1 / 3  # a larger share: checking and gathering it takes as long as the passes it saves

Result = TypeVar("Result")


def mean_shares(whole: Allotment, rows: int | None, columns: int) -> tuple[float, float]:
    """Return the shares of a budget for a rough mean and for the mean.

    The squared error of the second mean, 4 d/(s (n mu)^2) of a squared distance, need not fall
    below a fifth of the noise of a matrix, 2 sqrt(d)/(n mu): a share of 10 sqrt(d)/(n mu) is
    enough, and half of it for the rough one.
    """
    rough, fine = _MEANS
    if rows and isinstance(whole, Gaussian):
        enough = max(_LEAST_MEAN, 10 * math.sqrt(columns) / (rows * whole.mu))
        rough, fine = min(rough, enough / 2), min(fine, enough)
    return rough, fine


def enough_rows(whole: Allotment, rows: int | None, columns: int) -> float:
    """Return the share of the rows that a centre is found from, where their number is public.

    The error of a mean at a hundredth of mu^2 or more then stays below the noise of the matrix,
    4 d/(0.01 (s mu)^2) < 2 sqrt(d)/(n mu), and what sampling adds is half a hundredth of the
    spread. All rows where that is not a saving, or a sample would fill more than 128 MiB.
    """
    if rows is None or isinstance(whole, Pure):
        return 1.0
    mu = whole.mu
    root = math.sqrt(columns)
    sample = max(_SAMPLE_ROWS, math.sqrt(200 * rows * root / mu), 1000 * root / mu)
    share = sample / rows
    return 1.0 if share > _SAVING or 8 * sample * columns > _SAMPLE_BYTES else share


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedCentre(Generic[Result]):
    """First the centre, then ``inner`` about it. Fields are public, never data.

    Attributes
    ----------
    distances : tuple of `PrivateDistances`
        One for each step, and with ``directions`` one more about the centre that was found.
    means : tuple of `PrivateMean`
        One for each step.
    inner : Procedure
        What is released about the centre; or about pairs of rows where no centre was found.
    sample : float
        Share of the rows that the centre is found from.
    directions : bool
        Whether ``inner`` sees directions of rows, of which the error of the centre is a share;
        otherwise it is in their squared units.

    """

    name: ClassVar[str] = "located"
    distances: tuple[PrivateDistances, ...]
    means: tuple[PrivateMean, ...]
    inner: Procedure[Result]
    sample: float = 1.0
    directions: bool = True

    @classmethod
    def build(
        cls,
        noises: Sequence[VectorNoise],
        inner: Procedure[Result],
        *,
        sample: float = 1.0,
        directions: bool = True,
    ) -> Self:
        """Build it from the noise of one search and of the mean of each step."""
        search, *means = noises
        return cls(
            distances=(PrivateDistances(noise=search),) * (len(means) + directions),
            means=tuple(PrivateMean(noise=mean) for mean in means),
            inner=inner,
            sample=sample,
            directions=directions,
        )

    def cost(self) -> Cost:
        """Return the cost of all steps, composed."""
        searches = (search.cost() for search in self.distances)
        means = (mean.cost() for mean in self.means)
        return compose(*searches, *means, self.inner.cost())

    def run(self, source: RowSource, start: Clip, gate: Gate) -> CentredResult[Result]:
        """Read the rows twice for each step; ``start`` says how they are read about the centre."""
        some = sampled(source, self.sample, gate.adjacency, gate.sample, start.check)
        centre = np.zeros(source.n_columns) if start.centre is None else start.centre
        about = Clip(  # rows as they are, however they are read about the centre
            row_norm=LARGEST_NORM,
            centre=centre,
            box=start.box,
            on_invalid=start.on_invalid,
            on_missing=start.on_missing,
        )
        present = 1.0 if start.present is None else start.present
        error, loss, count, reach = 0.0, 0.0, None, None
        for search, mean in zip(self.distances, self.means, strict=False):
            found = search.run(some, about, gate)
            if not found.found:
                return self._without_centre(source, start, gate)
            noise = mean.deviation(source.n_columns, gate.adjacency) * math.sqrt(source.n_columns)
            radius = found.clipping(noise / max(1.0, found.rows), 1)
            clip = replace(about, row_norm=radius)
            rough = gate.draw(mean, total(some, clip, gate.adjacency, valid=start.leaves_out))
            centre = centre + rough.offset / present
            if start.box is not None:
                centre = np.clip(centre, *start.box)
            about = replace(about, centre=centre)
            error, loss, count = rough.squared_error, found.loss(radius), rough.count
            reach = radius
        distance, nearest = error, 0.0
        if self.directions:
            error = 1.0
            found = self.distances[-1].run(some, about, gate)
            if found.found:
                nearest = found.lower_quantile(_UNIT_DISTANCE)
                error = min(1.0, (distance + loss**2) * found.inverse_square_share(nearest))
        added = error * (count or 1.0)
        clip = replace(
            start,
            centre=centre,
            centre_error=added,
            unit_distance=nearest,
            found_norm=None if self.directions else reach,
        )
        inner = self.inner.run(source, clip, gate)
        return CentredResult(
            centre, error, count, inner, distance_error=distance, unit_distance=nearest
        )

    def _without_centre(self, source: RowSource, start: Clip, gate: Gate) -> CentredResult[Result]:
        if not gate.adjacency.count_is_public:
            raise NothingFoundError(
                "no distance of rows stood out, so there is no centre, and the budget is spent: "
                "state ",
                BOUNDS,
                " and ",
                option("centring", "mean"),
                ", or give more rows or a larger budget",
            )
        return Paired(inner=self.inner).run(source, start, gate)
