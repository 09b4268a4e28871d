r"""A centre found without any bound, and what is released about it.

.. math:: r_t = \text{private median of } |x_i - c_{t-1}|, \qquad
          c_t = c_{t-1} + \frac1n \sum_i \mathrm{clip}_{r_t}(x_i - c_{t-1}) + \text{noise}

in two steps from a public c_0, the origin unless stated. The median is found on a public scale of
powers of sqrt(2) from 1e50 down, so no bound is asked for; noise on the mean is proportional to the
distance of the rows. The first step comes near, with an error that grows with how far the data are
from the start; the second pays for their spread only. Of a large table some of the rows are enough
(`enough_rows`), which saves five reads of it. Proof: docs/proofs/located.md.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Self, TypeVar

import numpy as np

from eigenveil.data.clip import LARGEST_NORM, SMALLEST_NORM, Clip
from eigenveil.data.gram import total
from eigenveil.data.sources import RowSource, sampled
from eigenveil.mechanisms.additive import Allotment, GaussianNoise, part, vector_noise
from eigenveil.mechanisms.base import Gate, Procedure
from eigenveil.mechanisms.centred import CentredResult, clip_at_private_quantile
from eigenveil.mechanisms.mean import PrivateMean
from eigenveil.mechanisms.scalars.quantile import PrivateQuantile
from eigenveil.privacy.accounting import compose, gaussian_epsilon, split
from eigenveil.privacy.cost import Cost, Pure

__all__ = ["DISTANCE_ROWS", "SHARES", "LocatedCentre", "distance_epsilon", "enough_rows"]

SHARES = {False: (0.05, 0.1), True: (0.05, 0.2)}  # of mu^2 for two means; of a pure epsilon

# A median at epsilon = 64/n answers a bracket beyond all rows about once in 1700 times (each of up
# to 2044 misses n/2 rows, 16 noise scales); a larger epsilon would buy little.
DISTANCE_ROWS = 64.0
# Of a whole mu^2: a search for a distance, of which there are three, and two means.
_WHOLE = (0.05, 0.25, 0.6)
_SAMPLE_ROWS, _SAMPLE_BYTES = 1 << 15, 1 << 27

Result = TypeVar("Result")


def distance_epsilon(whole: Allotment, rows: int | None) -> float:
    """Return what a private quantile of distances needs, up to a bearable share."""
    most = whole.epsilon / 10 if isinstance(whole, Pure) else whole.mu / 3
    return most / 3 if rows is None else min(most, DISTANCE_ROWS / rows)


def enough_rows(whole: Allotment, rows: int | None, columns: int) -> float:
    """Return the share of the rows that a centre is found from, where their number is public.

    The error of a mean at a tenth of mu^2 then stays below half the noise of the matrix,
    4 d/(0.1 (s mu)^2) < sqrt(d)/(n mu), data may lie some 8,000 spreads away, and what sampling
    adds is half a hundredth of the spread. All rows where that is not a saving, or a sample would
    fill more than 128 MiB.
    """
    if rows is None or isinstance(whole, Pure):
        return 1.0
    mu = whole.mu
    root = math.sqrt(columns)
    sample = max(_SAMPLE_ROWS, math.sqrt(40 * rows * root / mu), 1000 * root / mu)
    return 1.0 if sample > rows / 2 or 8 * sample * columns > _SAMPLE_BYTES else sample / rows


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedCentre(Generic[Result]):
    """First the centre, then ``inner`` about it. Fields are public, never data.

    ``bounded``: the row norm of the start is a bound on rows about it, so that the first step need
    not search for a distance. ``sample``: share of the rows that the centre is found from.
    ``directions``: ``inner`` sees directions of rows, of which the error of the centre is a share;
    otherwise it is in their squared units.
    """

    name: ClassVar[str] = "located"
    distance: PrivateQuantile
    means: tuple[PrivateMean, ...]
    inner: Procedure[Result]
    bounded: bool = False
    sample: float = 1.0
    directions: bool = True

    @classmethod
    def build(
        cls,
        whole: Allotment,
        rows: int | None,
        inner: Procedure[Result],
        *,
        bounded: bool = False,
        sample: float = 1.0,
        directions: bool = True,
    ) -> Self:
        """Means at their shares; ``rows`` where their number is public."""
        seen = None if rows is None else math.ceil(sample * rows)
        return cls(
            distance=PrivateQuantile(epsilon=distance_epsilon(whole, seen), level=0.5),
            means=tuple(
                PrivateMean(noise=vector_noise(part(whole, share)))
                for share in SHARES[isinstance(whole, Pure)]
            ),
            inner=inner,
            bounded=bounded,
            sample=sample,
            directions=directions,
        )

    @classmethod
    def whole(cls, mu: float, inner: Procedure[Result]) -> Self:
        """A whole ``mu`` for the centre, searches paid from it too; ``inner`` comes on top."""
        search, *means = split(mu, _WHOLE)
        return cls(
            distance=PrivateQuantile(epsilon=gaussian_epsilon(search), level=0.5, gaussian=True),
            means=tuple(PrivateMean(noise=GaussianNoise(mu=mean)) for mean in means),
            inner=inner,
        )

    def cost(self) -> Cost:
        """All steps, composed."""
        searches = (self.distance.cost(),) * (len(self.means) + (not self.bounded))
        means = (mean.cost() for mean in self.means)
        return compose(*searches, *means, self.inner.cost())

    def run(self, source: RowSource, start: Clip, gate: Gate) -> CentredResult[Result]:
        """Read the rows four or five times; ``start`` says how they are read about the centre."""
        some = sampled(source, self.sample, gate.adjacency, gate.sample, start.check)
        centre = np.zeros(source.n_columns) if start.centre is None else start.centre
        about = Clip(
            row_norm=start.row_norm,
            centre=centre,
            box=start.box,
            on_invalid=start.on_invalid,
            on_missing=start.on_missing,
        )
        if not self.bounded:
            about = clip_at_private_quantile(some, about, self.distance, gate)
        rough = None
        for mean in self.means:
            rough = gate.draw(mean, total(some, about, gate.adjacency))
            centre = centre + rough.offset
            if start.box is not None:
                centre = np.clip(centre, *start.box)
            about = clip_at_private_quantile(
                some, replace(about, centre=centre), self.distance, gate
            )
        assert rough is not None  # there are two steps
        # What the centre is off by, as a share of the squared distance from it: only this tells
        # data that lie too far away for two steps from data that have one direction. The median
        # may lie at the lower end of its bracket, and the outermost brackets have no ends.
        error = min(1.0, 2 * rough.squared_error / about.row_norm**2)
        if about.row_norm in (SMALLEST_NORM, LARGEST_NORM):
            error = 1.0
        if not self.directions:
            error = rough.squared_error
        added = error * (rough.count or 1.0)
        inner = self.inner.run(source, replace(start, centre=centre, centre_error=added), gate)
        return CentredResult(centre, error, rough.count, inner)
