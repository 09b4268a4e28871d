r"""Scores that may be shown: noisy counts of rows on a plane of released components.

.. math:: \tilde h_c = |\{i : (\langle x_i, v_1 \rangle, \langle x_i, v_2 \rangle) \in c\}|
          + \text{noise}, \qquad c \text{ a cell of } |s_1| < r_1, |s_2| < r_2

for components v and a frame that follows from released eigenvalues, :math:`r_i = 3
\sqrt{\tilde\lambda_i}`, and no farther than rows are clipped. All cells get noise, empty ones too,
and one more counts what lies outside. Of rows scaled to unit length, coordinates are those of unit
rows. Wasserman, Zhou 2010 study such histograms; frame and cells are public here before the rows
are read. Rows may be shown by the levels of a category: each level then has a grid of its own, and
all others share one more. Proof: docs/proofs/score_histogram.md.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import Clip
from eigenveil.exact.histograms import Frame, score_counts
from eigenveil.mechanisms.additive import NoisyVector, VectorNoise
from eigenveil.mechanisms.components import NoisyComponents
from eigenveil.mechanisms.gate import Gate
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.cost import Cost
from eigenveil.rows.base import RowSource

SCORE_SHARE = 0.1  # of mu^2, or of a pure epsilon
_FEWEST, _MOST = 5, 24  # cells along a side
_CLEAR = 8.0  # deviations of the noise that a cell of evenly spread rows should hold
_FRAME = 3.0  # standard deviations from the centre to the frame
_LEAST = 1e-3  # of the bound on rows: the narrowest frame


def score_bins(noise: VectorNoise, rows: int | None) -> int:
    """Return how many cells a side should have, by public numbers: the fewer rows, the fewer."""
    each = _CLEAR * math.sqrt(2) * noise.on_one_number
    return int(min(_MOST, max(_FEWEST, math.sqrt((rows or 0) / each))))


@dataclass(frozen=True, slots=True, eq=False)
class ScoreMap:
    """Noisy counts on a grid, and public facts about them.

    Attributes
    ----------
    counts : array of shape (bins, bins)
        By cell, along the first component and then the second; of all kinds of rows together.
    outside : float
        Noisy count of what lies outside the frame.
    reach : array of shape (2,)
        Half the width and half the height of the frame.
    deviation : float
        Standard deviation of the noise on a count.
    by_kind : array of shape (kinds, bins, bins) or None
        The same for each kind of rows; noise has the root of their number less.

    """

    counts: NDArray[np.float64]
    outside: float
    reach: NDArray[np.float64]
    deviation: float
    by_kind: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreHistogram:
    """Noisy counts of rows by cell. Fields are public, never data."""

    proof: ClassVar[str] = "score_histogram"
    name: ClassVar[str] = "score-histogram"
    exact: ClassVar[bool] = True
    noise: VectorNoise
    bins: int
    kinds: int = 1

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return self.noise.cost()

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyVector:
        """Return noisy counts of all cells; ``query`` holds counts of which a row moves two."""
        return self.noise.perturb(query, noise)

    def run(self, source: RowSource, clip: Clip, gate: Gate, released: NoisyComponents) -> ScoreMap:
        """Count rows about the centre of ``clip`` on the plane of the first two components."""
        frame = Frame(released.components[:2], self._reach(clip, released), self.bins, self.kinds)
        noisy = gate.draw(self, score_counts(source, clip, frame, gate.adjacency))
        counts = noisy.values[:-1].reshape(self.kinds, self.bins, self.bins)
        return ScoreMap(
            counts.sum(axis=0),
            float(noisy.values[-1]),
            frame.reach,
            noisy.deviation * math.sqrt(self.kinds),
            counts if self.kinds > 1 else None,
        )

    @staticmethod
    def _reach(clip: Clip, released: NoisyComponents) -> NDArray[np.float64]:
        """Return how far the frame reaches, from released numbers alone."""
        spread = np.sqrt(np.maximum(released.eigenvalues[:2], 0.0))
        return np.asarray(np.clip(_FRAME * spread, _LEAST * clip.row_norm, clip.row_norm))
