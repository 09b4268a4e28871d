r"""Fourth moments of clipped rows, and the share of rows that a limit changed.

.. math:: \tilde F = \frac{1}{n} \sum_i (z_i \circ z_i)(z_i \circ z_i)' + E, \qquad
          \tilde b = \frac1n |\{i : z_i \ne x_i - c\}| + e

for rows z clipped at R. Squared entries in units of R^2 lie in the unit ball, so F/R^4 has the
Frobenius sensitivity of unit rows; one row moves the share by 1/n. Both serve statements about a
matrix that is released from the same rows: intervals, and how much of the table it describes.
New here; section 9.6 of the contract. Proof: docs/proofs/fourth_moments.md.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.clip import Clip
from eigenveil.data.gram import second_moment, total
from eigenveil.data.sources import LimitedSource, RowSource, SquaredSource
from eigenveil.mechanisms.additive import vector_noise
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.covariance.gauss import GaussCov
from eigenveil.mechanisms.mean import PrivateMean
from eigenveil.privacy.accounting import compose, part
from eigenveil.privacy.cost import Cost, Gaussian

__all__ = ["FOURTH_MOMENT_SHARE", "FourthMoments", "RowSpread"]

FOURTH_MOMENT_SHARE, _LIMITED_SHARE = 0.03, 0.01  # of mu^2


@dataclass(frozen=True, slots=True, eq=False)
class RowSpread:
    """Released facts about the rows behind a matrix.

    Attributes
    ----------
    fourth : array of shape (d, d)
        Noisy means of z_i^2 z_j^2 over clipped rows.
    fourth_noise : float
        Standard deviation of the noise on a diagonal entry of ``fourth``.
    limited : float
        Noisy share of rows that clipping or another limit changed.
    limited_noise : float
        Standard deviation of its noise.

    """

    fourth: NDArray[np.float64]
    fourth_noise: float
    limited: float
    limited_noise: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FourthMoments:
    """Draw both. Fields are public, never data."""

    name: ClassVar[str] = "fourth-moments"
    moments: GaussCov
    share: PrivateMean

    @classmethod
    def of(cls, whole: Gaussian) -> Self:
        """Build it at its shares of a whole mu."""
        moments = part(whole, FOURTH_MOMENT_SHARE)
        assert isinstance(moments, Gaussian)  # as the whole
        share = PrivateMean(noise=vector_noise(part(whole, _LIMITED_SHARE)))
        return cls(moments=GaussCov(mu=moments.mu), share=share)

    def cost(self) -> Cost:
        """Return the cost of both draws, composed."""
        return compose(self.moments.cost(), self.share.cost())

    def run(
        self,
        source: RowSource,
        clip: Clip,
        gate: Gate,
        *,
        unfolded: RowSource | None = None,
        turn: NDArray[np.float64] | None = None,
    ) -> RowSpread:
        """Read the rows twice; ``unfolded`` and ``turn`` say what folding did to them."""
        unit = Clip(row_norm=1.0, on_invalid=clip.on_invalid)
        squares = second_moment(SquaredSource(source, clip), unit, gate.adjacency)
        fourth = gate.draw(self.moments, squares)
        marks = LimitedSource(source if unfolded is None else unfolded, clip, turn)
        half = replace(unit, row_norm=0.5)
        share = gate.draw(self.share, total(marks, half, gate.adjacency, valid=clip.leaves_out))
        size = clip.row_norm**4
        return RowSpread(
            fourth.matrix * size,
            fourth.noise_scale * size,
            0.5 + float(share.offset[0]),
            share.squared_error**0.5,
        )
