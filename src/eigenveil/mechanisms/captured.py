r"""Private captured variance: the share that released components hold, and of the best as many.

One query of three numbers, the second moment S of rows clipped at R inside the released components
U, outside them, and inside the best k directions:

.. math:: \bigl(\mathrm{tr}\, U S U',\; \mathrm{tr}\, S - \mathrm{tr}\, U S U',\;
          \textstyle\sum_{j \le k} \lambda_j(S)\bigr) + \text{noise}, \qquad
          \Delta_2 = \sqrt3 R^2/n, \quad \Delta_1 = 3 R^2/n

for replace-one, :math:`\sqrt2 R^2` and :math:`2 R^2` on sums under add/remove, where ratios need no
count. Shares and their standard errors are post-processing. Proof: docs/proofs/captured.md.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import second_moment
from eigenveil.exact.spectrum import captured
from eigenveil.mechanisms.additive import LaplaceNoise, VectorNoise
from eigenveil.mechanisms.gate import Gate
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.cost import Cost
from eigenveil.rows.base import RowSource

CAPTURED_SHARE = 0.02  # of mu^2, or of a pure epsilon
_LARGEST_NOISE = 0.1  # of R^2, beyond which the shares are not worth their budget
_CLEAR = 5.0  # standard deviations of noise that a divisor must exceed


class Captured(NamedTuple):
    """Share of variance that components hold, and of what the best as many hold.

    Attributes
    ----------
    share : float
        Share of the variance of rows as they were clipped.
    share_noise : float
        Its standard error by noise.
    of_best : float
        Share of the variance inside the best as many directions.
    of_best_noise : float
        Its standard error by noise.

    """

    share: float
    share_noise: float
    of_best: float
    of_best_noise: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedVariance:
    """Add noise to the variance inside, outside and at best. Fields are public, never data.

    ``released`` is the variance along the components as an earlier step released it. It decides
    whether anything is stated: what this noise raised beyond its threshold would mostly be false.
    """

    name: ClassVar[str] = "captured"
    exact: ClassVar[bool] = True
    noise: VectorNoise
    released: float = math.inf

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return self.noise.cost()

    def run(
        self,
        source: RowSource,
        clip: Clip,
        gate: Gate,
        components: NDArray[np.float64],
        released: float = math.inf,
    ) -> Captured | None:
        """Return what released components hold of rows bounded by ``clip``; None if unclear.

        Nothing is drawn where components are as many as columns, which hold everything.
        """
        if len(components) >= source.n_columns:
            return None
        query = captured(second_moment(source, clip, gate.adjacency), components)
        return gate.draw(replace(self, released=released), query)

    def perturb(self, query: Bounded, noise: NoiseSource) -> Captured | None:
        """Return shares, or None where noise hides them; ``query`` is from `captured`."""
        noisy = self.noise.perturb(query, noise)
        within, outside, best = noisy.values.tolist()
        level = noisy.deviation
        whole, clear = within + outside, _CLEAR * level
        if not (whole > math.sqrt(2) * clear and min(best, self.released) > clear):
            return None
        if query.count is None and best > query.trace_bound - clear:
            return None  # the best k may end there
        share, of_best = min(1.0, max(0.0, within / whole)), min(1.0, max(0.0, within / best))
        return Captured(
            share=share,
            share_noise=level * math.hypot(share, 1 - share) / whole,
            of_best=of_best,
            of_best_noise=level * math.hypot(1, of_best) / best,
        )


def captured_pays(noise: VectorNoise, rows: int | None) -> bool:
    """Return whether the shares are worth their budget, from public numbers.

    A private number of rows decides nothing: then they are bought.
    """
    moves = 3.0 if isinstance(noise, LaplaceNoise) else math.sqrt(3)
    return rows is None or moves * noise.on_one_number <= _LARGEST_NOISE * rows
