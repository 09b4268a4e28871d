r"""A private scale for every column: its typical difference between two rows.

.. math:: \tilde h_{je} = |\{i : 2^{e-1} \le |z_{ij}| < 2^e\}| + \text{noise}, \qquad
          s_j = 2 \times \text{centre of the run that stands out in } \tilde h_j

for half differences z of disjoint pairs of rows, on a public scale of octaves: about the standard
deviation of a Gaussian column. Rare extremes do not move the peak, nor zeros, which are not
counted. Runs of one to three octaves are looked at; noise alone passes once in a million times.
Columns of which none stands out have their counts added up and share one coarser scale. Where that
does not stand out either, a column has no scale: infinite, so that dividing by it leaves it out.
Proof: docs/proofs/column_scale.md.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.bounded import Bounded
from eigenveil.data.norms import OCTAVES
from eigenveil.mechanisms.additive import LaplaceNoise, VectorNoise
from eigenveil.mechanisms.scalars.distances import FALSE_ALARM, LONG_TAILS, laplace_sum
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.cost import Allotment, Cost, Pure

__all__ = ["ColumnScale", "enough_for_each_scale", "enough_for_scales", "scale_share"]

_MIDDLES = np.array(OCTAVES) - 0.5
_WIDTHS = (1, 2, 3)  # octaves of a run
_AROUND = 2  # octaves on either side of the peak that its centre is taken over
_FINER_BITS = 20
_LEAST_SHARE, _MOST_SHARE = 0.02, 0.25
# Rows for each standard deviation of the noise on a count: three octaves hold four fifths of the
# pairs of a normal column, and have to exceed the noise of their run about six times.
_WANTED, _ENOUGH = 30.0, 24.0


def scale_share(whole: Allotment, rows: int | None, columns: int) -> float:
    """Return the share of a budget that scales of all columns need, up to a quarter."""
    needed = _deviation(whole, columns) * _WANTED / max(1, rows or 1)
    share = needed if isinstance(whole, Pure) else needed**2
    return min(_MOST_SHARE, max(_LEAST_SHARE, share))


def enough_for_scales(whole: Allotment, rows: int | None, columns: int) -> bool:
    """Return whether scales would stand out: of single columns, or all together."""
    # Counts of all columns add up, and their noise as its square.
    return _rows_for_noise(whole, rows, columns) * math.sqrt(columns) >= _ENOUGH


def enough_for_each_scale(whole: Allotment, rows: int | None, columns: int) -> bool:
    """Return whether the scale of every column would stand out by itself."""
    return _rows_for_noise(whole, rows, columns) >= _ENOUGH


def _rows_for_noise(whole: Allotment, rows: int | None, columns: int) -> float:
    """Return the number of rows for each standard deviation of the noise on a count."""
    share = scale_share(whole, rows, columns)
    found = (rows or 0) * (share if isinstance(whole, Pure) else math.sqrt(share))
    return found / _deviation(whole, columns)


def _deviation(whole: Allotment, columns: int) -> float:
    """Return the standard deviation of the noise on a count, were the whole budget spent on it."""
    if isinstance(whole, Pure):
        return LONG_TAILS * 2 * math.sqrt(2) * columns / whole.epsilon
    return math.sqrt(2 * columns) / whole.mu


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnScale:
    """Noisy counts by column and octave, and where they peak. Fields are public, never data."""

    name: ClassVar[str] = "column-scale"
    exact: ClassVar[bool] = True
    noise: VectorNoise

    def cost(self) -> Cost:
        """Cost of one `perturb`: the peak is post-processing."""
        return self.noise.cost()

    def perturb(self, query: Bounded, noise: NoiseSource) -> NDArray[np.float64]:
        """Return a scale for each column; ``query`` holds counts by column and octave."""
        # Noise far below one row must not be rounded to whole rows.
        finer = replace(query, value=query.value.refined(-_FINER_BITS))
        noisy = self.noise.perturb(finer, noise)
        d = len(noisy.values)
        # Whatever lies beyond the last octave is counted in it, and has no scale.
        counts = noisy.values[:, :-1]
        scales = np.array([self._peak(column, noisy.deviation, 1, d) for column in counts])
        without = np.flatnonzero(np.isinf(scales))
        if without.size:
            together = counts[without].sum(axis=0)
            scales[without] = self._peak(together, noisy.deviation, without.size, d)
        return scales

    def _peak(
        self, counts: NDArray[np.float64], deviation: float, columns: int, searches: int
    ) -> float:
        """Scale of the run that stands out most, infinite where none does.

        Counts are sums over so many ``columns``.
        """
        beta = FALSE_ALARM / ((searches + 1) * len(_WIDTHS) * counts.size)
        best, place = 1.0, None
        sums = np.append(0.0, np.cumsum(counts))
        for width in _WIDTHS:
            limit = deviation * self._limit(width * columns, beta)
            runs = (sums[width:] - sums[:-width]) / limit
            run = int(np.argmax(runs))
            if runs[run] > best:
                best, place = float(runs[run]), run + int(np.argmax(counts[run : run + width]))
        if place is None:
            return math.inf
        near = slice(max(0, place - _AROUND), place + _AROUND + 1)
        weights = np.maximum(counts[near], 0.0)
        return float(2.0 ** (1.0 + float(weights @ _MIDDLES[:-1][near] / weights.sum())))

    def _limit(self, counts: int, beta: float) -> float:
        """Return what the noise on so many counts exceeds with probability beta, in deviations of
        one.
        """
        if isinstance(self.noise, LaplaceNoise):
            return laplace_sum(counts, beta) / math.sqrt(2)
        return math.sqrt(counts) * self.noise.quantile(beta)
