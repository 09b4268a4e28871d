r"""A private scale for every column: its typical difference between two rows.

.. math:: \tilde h_{je} = |\{i : 4^{e-1} \le |z_{ij}| < 4^e\}| + \text{noise}, \qquad
          s_j = 2 \times \text{centre of the run that stands out in } \tilde h_j

for half differences z of disjoint pairs of rows, on a public scale of powers of four: about the
standard deviation of a Gaussian column. Rare extremes do not move the peak, nor zeros, which are
not counted. Runs of one to three brackets are looked at; noise alone passes once in ten thousand
times. A column of which none stands out has no scale: infinite, so that dividing by it leaves it
out. Proof: docs/proofs/column_scale.md.
"""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from eigenveil.data.bounded import Bounded
from eigenveil.data.clip import Clip
from eigenveil.data.norms import BRACKETS, column_counts
from eigenveil.data.sources import RowSource, ScaledSource
from eigenveil.mechanisms.additive import LaplaceNoise, VectorNoise
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.paired import drawn_pairs
from eigenveil.mechanisms.scalars.distances import laplace_sum
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.cost import Allotment, Cost, Pure

__all__ = ["ColumnScale", "enough_for_scales", "scale_share"]

_MIDDLES = 2 * np.array(BRACKETS[:-1]) - 1.0  # binary exponents
_WIDTHS = (1, 2, 3)  # brackets of a run
_AROUND = 1  # brackets on either side of the peak that its centre is taken over
_FALSE_ALARM = 1e-4  # of a scale for a column that shows noise alone, over all columns
_MISSED = 0.05  # of one column or more without a scale
_FINER_BITS = 20
_LEAST_SHARE, _MOST_SHARE = 0.02, 0.4
# Pairs of rows in the run that stands out most, as a share of all, over the root of its width:
# 0.57 or more of a normal column. A share of the budget allows for long tails and empty cells.
_NORMAL, _LONG_TAILED = 0.56, 0.45


def scale_share(whole: Allotment, rows: int | None, columns: int) -> float:
    """Return the share of a budget that scales of so many columns need, up to two fifths."""
    return min(_MOST_SHARE, max(_LEAST_SHARE, _needed(whole, rows, columns, _LONG_TAILED)))


def enough_for_scales(whole: Allotment, rows: int | None, columns: int) -> bool:
    """Return whether all scales would be found in 95 of 100 tables of normal columns."""
    return _needed(whole, rows, columns, _NORMAL) <= _MOST_SHARE


def _needed(whole: Allotment, rows: int | None, columns: int, held: float) -> float:
    """Return the share of a budget at which columns that hold so much in a run stand out."""
    pairs, missed = max(1, (rows or 0) // 2), _MISSED / columns
    if isinstance(whole, Pure):
        limit = (laplace_sum(1, _beta(columns)) - math.log(2 * missed)) * 2 * columns
        return limit / (whole.epsilon * held * pairs)
    limit = -float(ndtri(_beta(columns)) + ndtri(missed)) * math.sqrt(2 * columns)
    return (limit / (whole.mu * held * pairs)) ** 2


def _beta(columns: int) -> float:
    """Return how rarely noise alone may pass in one of all runs."""
    return _FALSE_ALARM / (columns * len(_WIDTHS) * _MIDDLES.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnScale:
    """Noisy counts by column and bracket, and where they peak. Fields are public, never data.

    Attributes
    ----------
    noise : VectorNoise
        On every count.
    known : array, optional
        Scales of all columns that are public, and NaN for those that are looked for.

    """

    name: ClassVar[str] = "column-scale"
    exact: ClassVar[bool] = True
    noise: VectorNoise
    known: NDArray[np.float64] | None = field(default=None, compare=False)

    def cost(self) -> Cost:
        """Cost of one `perturb`: the peak is post-processing."""
        return self.noise.cost()

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NDArray[np.float64]:
        """Return the scales of all columns; the rows are paired at random."""
        pairs, _ = drawn_pairs(source, clip, gate)
        if self.known is None:
            return gate.draw(self, column_counts(pairs, clip, gate.adjacency))
        sought = np.isnan(self.known)
        unknown = ScaledSource(pairs, np.where(sought, 1.0, np.inf))
        scale = self.known.copy()
        scale[sought] = gate.draw(self, column_counts(unknown, clip, gate.adjacency))
        return scale

    def perturb(self, query: Bounded, noise: NoiseSource) -> NDArray[np.float64]:
        """Return a scale for each column; ``query`` holds counts by column and bracket."""
        # Noise far below one row must not be rounded to whole rows.
        finer = replace(query, value=query.value.refined(-_FINER_BITS))
        noisy = self.noise.perturb(finer, noise)
        # Whatever lies beyond the last bracket is counted in it, and has no scale.
        counts, beta = noisy.values[:, :-1], _beta(len(noisy.values))
        limits = [noisy.deviation * self._limit(width, beta) for width in _WIDTHS]
        return np.array([_peak(column, limits) for column in counts])

    def _limit(self, counts: int, beta: float) -> float:
        """Return what the noise on so many counts exceeds with probability beta, in deviations of
        one.
        """
        if isinstance(self.noise, LaplaceNoise):
            return laplace_sum(counts, beta) / math.sqrt(2)
        return math.sqrt(counts) * self.noise.quantile(beta)


def _peak(counts: NDArray[np.float64], limits: list[float]) -> float:
    """Return the scale of the run that stands out most; infinite where none does."""
    best, place = 1.0, None
    sums = np.append(0.0, np.cumsum(counts))
    for width, limit in zip(_WIDTHS, limits, strict=True):
        runs = (sums[width:] - sums[:-width]) / limit
        run = int(np.argmax(runs))
        if runs[run] > best:
            best, place = float(runs[run]), run + int(np.argmax(counts[run : run + width]))
    if place is None:
        return math.inf
    near = slice(max(0, place - _AROUND), place + _AROUND + 1)
    weights = np.maximum(counts[near], 0.0)
    return float(2.0 ** (1.0 + float(weights @ _MIDDLES[near] / weights.sum())))
