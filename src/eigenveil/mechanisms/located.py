r"""A centre found without any bound, and what is released about it.

.. math:: r_t = \text{private median of } |x_i - c_{t-1}|, \qquad
          c_t = c_{t-1} + \frac1n \sum_i \mathrm{clip}_{r_t}(x_i - c_{t-1}) + \text{noise}

in two steps from a public c_0, the origin unless stated. The median is found on a public scale of
powers of sqrt(2) from 1e50 down, so no bound is asked for; noise on the mean is proportional to the
distance of the rows. The first step comes near, with an error that grows with how far the data are
from the start; the second pays for their spread only. Proof: docs/proofs/located.md.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.clip import LARGEST_NORM, SMALLEST_NORM, Clip
from eigenveil.data.gram import total
from eigenveil.data.norms import norm_counts
from eigenveil.data.source import RowSource
from eigenveil.mechanisms.additive import Allowance
from eigenveil.mechanisms.base import Gate, Procedure
from eigenveil.mechanisms.centred import CentredResult
from eigenveil.mechanisms.mean import PrivateMean
from eigenveil.mechanisms.scalars.quantile import PrivateQuantile
from eigenveil.privacy.accounting import compose
from eigenveil.privacy.cost import Cost

__all__ = ["DISTANCE_ROWS", "SHARES", "Located", "distance_epsilon"]

SHARES = (0.05, 0.1)  # of mu^2, or of a pure epsilon, for the two means

# A median at epsilon = 64/n answers a bracket beyond all rows about once in 1700 times (each of up
# to 2044 misses n/2 rows, 16 noise scales); a larger epsilon would buy little.
DISTANCE_ROWS = 64.0

Result = TypeVar("Result")


def distance_epsilon(allowance: Allowance, rows: int | None) -> float:
    """For a private quantile of distances: as much as it needs, up to a bearable share."""
    most = allowance.strength / (10 if allowance.pure else 3)
    return most / 3 if rows is None else min(most, DISTANCE_ROWS / rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Located(Generic[Result]):
    """First the centre, then ``inner`` about it. Fields are public, never data."""

    name: ClassVar[str] = "located"
    distance: PrivateQuantile
    means: tuple[PrivateMean, ...]
    inner: Procedure[Result]

    @classmethod
    def build(cls, allowance: Allowance, rows: int | None, inner: Procedure[Result]) -> Self:
        """Means at their shares; ``rows`` where their number is public."""
        return cls(
            distance=PrivateQuantile(epsilon=distance_epsilon(allowance, rows), level=0.5),
            means=tuple(PrivateMean(noise=allowance.part(share).noise()) for share in SHARES),
            inner=inner,
        )

    def cost(self) -> Cost:
        """All steps, composed."""
        steps = (cost for mean in self.means for cost in (self.distance.cost(), mean.cost()))
        return compose(*steps, self.distance.cost(), self.inner.cost())

    def run(self, source: RowSource, start: Clip, gate: Gate) -> CentredResult[Result]:
        """Read the rows five times for the centre; ``start`` says how they are read about it."""
        centre = np.zeros(source.n_columns) if start.centre is None else start.centre
        rough = None
        for mean in self.means:
            near = self._near(source, start, centre, gate)
            rough = gate.draw(mean, total(source, near, gate.adjacency))
            centre = centre + rough.offset
        assert rough is not None  # there are two steps
        # What the centre is off by, as a share of the typical squared distance from it: only this
        # tells data that lie too far away for two steps from data that have one direction.
        reached = self._near(source, start, centre, gate).row_norm
        error = min(1.0, rough.squared_error / reached**2)
        spike = error * (rough.count or 1.0)
        inner = self.inner.run(source, replace(start, centre=centre, spike=spike), gate)
        return CentredResult(centre, error, rough.count, inner)

    def _near(
        self, source: RowSource, start: Clip, centre: NDArray[np.float64], gate: Gate
    ) -> Clip:
        """Rows as they are, clipped at the private median of their distance from ``centre``."""
        raw = Clip(row_norm=LARGEST_NORM, centre=centre, box=start.box, on_invalid=start.on_invalid)
        j = gate.draw(self.distance, norm_counts(source, raw, gate.adjacency))
        return replace(raw, row_norm=max(SMALLEST_NORM, LARGEST_NORM * 2.0 ** (-j / 2)))
