r"""Fourth moments of clipped rows, and the share of rows that a limit changed.

.. math:: \tilde F = \frac{1}{n} \sum_i (z_i \circ z_i)(z_i \circ z_i)' + E, \qquad
          \tilde b = \frac1n |\{i : z_i \ne x_i - c\}| + e

for rows z clipped at R. Squared entries in units of R^2 lie in the unit ball, so F/R^4 has the
Frobenius sensitivity of unit rows; one row moves the share by 1/n. Both serve statements about a
matrix that is released from the same rows: intervals, and how much of the table it describes.
New here; section 9.6 of the contract. Proof: docs/proofs/fourth_moments.md.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import second_moment, total
from eigenveil.exact.row_maps import MarkChanged, Square
from eigenveil.mechanisms.additive import PrivateMean, vector_noise
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.gauss import GaussCov
from eigenveil.privacy.accounting import compose, part
from eigenveil.privacy.cost import Cost, Gaussian
from eigenveil.rows.base import RowSource

_MOMENTS_SHARE, _CHANGED_SHARE = 0.03, 0.01  # of mu^2
SPREAD_SHARE = _MOMENTS_SHARE + _CHANGED_SHARE


@dataclass(frozen=True, slots=True, eq=False)
class RowSpread:
    """Released facts about the rows behind a matrix.

    Attributes
    ----------
    fourth : array of shape (d, d)
        Means of z_i^2 z_j^2 over clipped rows, each raised by one deviation of its noise.
    changed : float
        Noisy share of rows that a limit changed.
    changed_noise : float
        Standard deviation of its noise.

    """

    fourth: NDArray[np.float64]
    changed: float
    changed_noise: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FourthMoments:
    """Draw both. Fields are public, never data."""

    name: ClassVar[str] = "fourth-moments"
    moments: GaussCov
    share: PrivateMean

    @classmethod
    def of(cls, whole: Gaussian) -> Self:
        """Build it at its shares of a whole mu."""
        moments = part(whole, _MOMENTS_SHARE)
        assert isinstance(moments, Gaussian)  # as the whole
        share = PrivateMean(noise=vector_noise(part(whole, _CHANGED_SHARE)))
        return cls(moments=GaussCov(mu=moments.mu), share=share)

    def cost(self) -> Cost:
        """Return the cost of both draws, composed."""
        return compose(self.moments.cost(), self.share.cost())

    def run(
        self, source: RowSource, clip: Clip, gate: Gate, changed: RowSource | None = None
    ) -> RowSpread:
        """Read the rows twice; ``changed`` marks rows by all limits, by default those of a clip."""
        unit = Clip(row_norm=1.0, on_invalid=clip.on_invalid)
        squares = second_moment(source.map(Square(clip)), unit, gate.adjacency)
        noisy = gate.draw(self.moments, squares)
        noise = np.full(noisy.matrix.shape, noisy.noise_scale / math.sqrt(2))
        np.fill_diagonal(noise, noisy.noise_scale)
        marks = source.map(MarkChanged(clip)) if changed is None else changed
        half = replace(unit, row_norm=0.5)
        # An invalid row has no mark: the share is one of the others.
        valid = clip.on_invalid == "zero"
        share = gate.draw(self.share, total(marks, half, gate.adjacency, valid=valid))
        return RowSpread(
            np.maximum(noisy.matrix + noise, 0.0) * clip.row_norm**4,
            0.5 + float(share.offset[0]),
            math.sqrt(share.squared_error),
        )
