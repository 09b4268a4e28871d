r"""Private scales of columns, and a release of columns divided by them.

`ColumnScale`:

.. math:: \tilde h_{je} = |\{i : 2^e \le |z_{ij}| < 2^{e+1}\}| + \text{noise}, \qquad
          s_j^2 = \frac2m \sum_e \tilde h_{je} \cdot \frac{3}{2 \ln 2} 4^e

for half differences z of m disjoint pairs of rows, over the octaves of column j that stand out from
the noise; 3/(2 ln 2) 4^e is the mean square of numbers spread evenly over an octave on a log scale.
Equal pairs are not counted and weigh as zeros, so that a column that is mostly constant has the
scale of its variance. Runs of one to six octaves are looked at. A column in which none stands out
has no scale: infinite, so that dividing by it leaves it out.

The counts may be drawn twice, and pooled. The second draw is left out where the first shows that
all columns share one unit. Proof: docs/proofs/column_scale.md.

`Scaled`:

.. math:: x_{ij} \mapsto x_{ij} / s_j, \qquad s_j \text{ from } `column-scale`

The scales are released first, from differences of pairs of rows, so that neither a centre nor a
bound is needed; what follows sees scaled columns only. A column without a scale is left out, and in
a covariance one whose variance cannot be told from noise is zero: post-processing.
Proof: docs/proofs/scaled.md.
"""

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import LARGEST_NORM, Clip
from eigenveil.exact.histograms import BRACKETS, column_counts
from eigenveil.exceptions import NothingFoundError
from eigenveil.mechanisms.additive import LaplaceNoise, NoisyVector, VectorNoise
from eigenveil.mechanisms.centre import CentredResult, drawn_pairs
from eigenveil.mechanisms.distances import laplace_sum
from eigenveil.mechanisms.elliptical import CENTRE_DEVIATIONS, CLEAR_VARIANCE
from eigenveil.mechanisms.gate import Gate, Procedure
from eigenveil.mechanisms.gauss import NoisyMatrix
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.accounting import compose
from eigenveil.privacy.cost import Allotment, Cost, Pure
from eigenveil.rows.base import RowSource
from eigenveil.rows.maps import Divide

_OCTAVES = len(BRACKETS) - 1  # the last bracket has no upper end

# Half the squared difference of two rows, for half differences in each octave.
_HALF_SQUARES = 4.0 ** np.array(BRACKETS[:-1]) * (3 / math.log(2))
_RUN_WIDTHS = (1, 2, 3, 4, 6)  # in octaves
_FALSE_ALARM = 0.01  # of any run near the clearest one of its column, over all columns
_SURE_FALSE_ALARM = 1e-4  # of any run farther away, and of a column that is called sure
_NEAR_OCTAVES = 8
_TOP_FALSE_ALARM = 0.01  # of keeping empty octaves at the top of a column
_BEYOND_OCTAVES = 6  # above the top in which single octaves are looked at
_FINER_BITS = 20

# One unit for all columns: the window that holds most pairs, in octaves; the deviations by which
# it stands out over all columns and in one, and the share of the columns in which it has to.
_WINDOW_OCTAVES, _WINDOW_DEVIATIONS = 3, 6.0
_WINDOW_COLUMN_DEVIATIONS, _WINDOW_COLUMNS = 1.5, 0.6
_WINDOW_SURE_DEVIATIONS = 3.0  # of a column that is called sure
_OUTSIDE_FALSE_ALARM = 0.01  # of pairs of a column far from the window

# Shares of mu^2, or of a pure epsilon.
_LEAST_SHARE, _MOST_SHARE, _PURE_MOST_SHARE = 0.02, 0.4, 0.6
_SKEWED_SHARE, _PURE_SKEWED_SHARE = 0.1, 0.3  # the most that is spent to see runs of few pairs
_MISSED = 0.2  # probability that one column or more has no scale

# Pairs of rows in the run that stands out most, as a share of all over the root of its width:
# .43 or more of a normal column. Long tails and missing cells leave less.
_TYPICAL_RUN, _SPARSE_RUN = 0.45, 0.05


def scale_share(whole: Allotment, rows: int | None, columns: int) -> float:
    """Return the share of a budget that scales of so many columns need.

    It is two fifths at most, of a pure budget three.
    """
    most, skewed = _MOST_SHARE, _SKEWED_SHARE
    if isinstance(whole, Pure):
        most, skewed = _PURE_MOST_SHARE, _PURE_SKEWED_SHARE
    alarm = _FALSE_ALARM, _RUN_WIDTHS, _OCTAVES
    typical = _needed(whole, rows, columns, _TYPICAL_RUN, _MISSED, alarm)
    sparse = _needed(whole, rows, columns, _SPARSE_RUN, _MISSED, alarm)
    least = min(most, max(_LEAST_SHARE, typical))
    return max(least, min(skewed, sparse))


def enough_for_scales(whole: Allotment, rows: int | None, columns: int) -> bool:
    """Return whether normal columns have enough rows for a search of their scales."""
    alarm = _SURE_FALSE_ALARM, (1, 2, 3), _OCTAVES // 2
    most = _PURE_MOST_SHARE if isinstance(whole, Pure) else _MOST_SHARE
    return _needed(whole, rows, columns, 0.56, 0.05, alarm) <= most


def _needed(
    whole: Allotment,
    rows: int | None,
    columns: int,
    held: float,
    missed: float,
    alarm: tuple[float, tuple[int, ...], int],
) -> float:
    """Return the share of a budget at which columns that hold so much in a run stand out."""
    pairs, missed = max(1, (rows or 0) // 2), missed / columns
    false_alarm, widths, brackets = alarm
    beta = false_alarm / (columns * len(widths) * brackets)
    if isinstance(whole, Pure):
        limit = (laplace_sum(1, beta) - math.log(2 * missed)) * 2 * columns
        return limit / (whole.epsilon * held * pairs)
    limit = -float(ndtri(beta) + ndtri(missed)) * math.sqrt(2 * columns)
    return (limit / (whole.mu * held * pairs)) ** 2


@dataclass(frozen=True, slots=True, eq=False)
class FoundScales:
    """Released scales of columns, and how far they can be relied on.

    Attributes
    ----------
    scale : array
        About the standard deviation of each column; infinite where no octave stands out.
    sure : array of bool
        Whether a run stands out that noise alone would show in one of 10,000 tables.
    shown : array of bool
        Whether its own counts show the scale of a column.
    bulk : array
        The same scale from sure octaves only, so that no false alarm in a tail has enlarged it.
    one_unit : bool
        Whether the second draw was not needed: all columns then have the same scale, and are sure
        where their pairs stand out by three deviations of the noise.

    """

    scale: NDArray[np.float64]
    sure: NDArray[np.bool_]
    shown: NDArray[np.bool_]
    bulk: NDArray[np.float64]
    one_unit: bool = False

    def of_present_cells(self, present: NDArray[np.float64]) -> "FoundScales":
        """Return the scales of columns whose missing cells left pairs of rows equal.

        A share p of present cells leaves a share of p^2 of the pairs.
        """
        if self.one_unit:
            present = np.sqrt(np.mean(present**2))
        return replace(self, scale=self.scale / present, bulk=self.bulk / present)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NoisyCounts:
    """One draw of the counts by column and octave."""

    name: ClassVar[str] = "column-scale"
    exact: ClassVar[bool] = True
    noise: VectorNoise

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return self.noise.cost()

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyVector:
        """Return noisy counts; ``query`` comes from `column_counts`."""
        # Noise far below one row must not be rounded to whole rows.
        finer = replace(query, value=query.value.refined(-_FINER_BITS))
        return self.noise.perturb(finer, noise)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnScale:
    """Noisy counts by column and octave, and the scales they show. Fields are public, never data.

    Attributes
    ----------
    first : VectorNoise
        On every count.
    more : VectorNoise, optional
        On every count of a second draw, which is pooled with the first; left out where the first
        shows one unit for all columns.
    known : array, optional
        Scales of all columns that are public, and NaN for those that are looked for.

    """

    name: ClassVar[str] = "column-scale"
    first: VectorNoise
    more: VectorNoise | None = None
    known: NDArray[np.float64] | None = field(default=None, compare=False)

    def cost(self) -> Cost:
        """Cost of all draws: what is read off the counts is post-processing."""
        if self.more is None:
            return self.first.cost()
        return compose(self.first.cost(), self.more.cost())

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> FoundScales:
        """Return the scales of all columns; the rows are paired at random."""
        pairs, _ = drawn_pairs(source, clip, gate)
        present = np.ones(source.n_columns) if clip.present is None else clip.present
        if self.known is None:
            found = self.find(column_counts(pairs, clip, gate.adjacency), gate)
            return found.of_present_cells(present)
        sought = np.isnan(self.known)
        unknown = pairs.map(Divide(np.where(sought, 1.0, np.inf)))
        found = self.find(column_counts(unknown, clip, gate.adjacency), gate)
        found = found.of_present_cells(present[sought])
        scale, bulk = np.stack([self.known, self.known])
        sure, shown = np.ones((2, sought.size), dtype=bool)
        scale[sought], bulk[sought] = found.scale, found.bulk
        sure[sought], shown[sought] = found.sure, found.shown
        return replace(found, scale=scale, sure=sure, shown=shown, bulk=bulk)

    def find(self, counts: Bounded, gate: Gate) -> FoundScales:
        """Return the scales of columns with these counts of half differences."""
        first = self._draw(self.first, counts, gate)
        if self.more is None:
            return first.scales()
        if (same := first.one_unit()) is not None:
            return same
        return first.pooled(self._draw(self.more, counts, gate)).scales()

    def _draw(self, noise: VectorNoise, counts: Bounded, gate: Gate) -> "_SeenCounts":
        noisy = gate.draw(_NoisyCounts(noise=noise), counts)
        # Whatever lies beyond the last bracket is counted in it, and has no scale.
        heavy = isinstance(noise, LaplaceNoise)
        return _SeenCounts(noisy.values[:, :-1], noisy.deviation, counts.count, heavy)


@dataclass(frozen=True, slots=True, eq=False)
class _SeenCounts:
    """Noisy counts by column and octave, with the deviation of their noise and its law."""

    counts: NDArray[np.float64]
    deviation: float
    pairs: int | None  # None where private
    heavy: bool  # Laplace noise, or a sum of two: bounded by one of the same deviation

    def pooled(self, other: "_SeenCounts") -> "_SeenCounts":
        """Return the mean of two draws of the same counts, weighted by their precisions."""
        weight = other.deviation**2 / (self.deviation**2 + other.deviation**2)
        counts = weight * self.counts + (1 - weight) * other.counts
        deviation = math.sqrt(weight) * self.deviation
        return _SeenCounts(counts, deviation, self.pairs, self.heavy or other.heavy)

    def scales(self) -> FoundScales:
        """Return the scales of all columns, each from its own counts."""
        runs = len(self.counts) * len(_RUN_WIDTHS) * _OCTAVES
        octaves = self._kept(_FALSE_ALARM / runs, _SURE_FALSE_ALARM / runs)
        found = [self._column(*column) for column in zip(self.counts, *octaves, strict=True)]
        scale, bulk, sure = (np.array(part) for part in zip(*found, strict=True))
        return FoundScales(scale, sure.astype(bool), np.isfinite(scale), bulk)

    def one_unit(self) -> FoundScales | None:
        """Return one scale for all columns where most have their pairs in one window of octaves.

        None where too few show there, or one shows clearly elsewhere.
        """
        d, width = len(self.counts), _WINDOW_OCTAVES
        together = self.counts.sum(axis=0)
        sums = _run_sums(together, (width,))[width]
        at = int(np.argmax(sums))
        if sums[at] < _WINDOW_DEVIATIONS * self.deviation * math.sqrt(d * width):
            return None
        runs = _run_sums(self.counts, (width,))[width] / (self.deviation * math.sqrt(width))
        inside = runs[:, at]
        limit = self._limit(width, _OUTSIDE_FALSE_ALARM / (d * _OCTAVES)) / self.deviation
        limit /= math.sqrt(width)
        above, below = runs[:, at + width + 2 :], runs[:, : max(0, at - width - 1)]
        shown = inside > _WINDOW_COLUMN_DEVIATIONS
        if shown.mean() < _WINDOW_COLUMNS or (above > limit).any():
            return None
        if (below > np.maximum(limit, inside[:, None])).any():
            return None
        held = np.maximum(together[at : at + width], 0.0)
        squares = _HALF_SQUARES[at : at + width]
        scale = np.full(d, math.sqrt(float(held @ squares) / float(held.sum())))
        sure = inside > _WINDOW_SURE_DEVIATIONS
        return FoundScales(scale, sure, shown, scale, one_unit=True)

    def _column(
        self,
        counts: NDArray[np.float64],
        kept: NDArray[np.bool_],
        certain: NDArray[np.bool_],
    ) -> tuple[float, float, bool]:
        """Return the scale of a column, infinite where nothing stands out, and if it is sure."""
        if not kept.any():
            return math.inf, math.inf, False
        scale = self._root(self._held(counts, kept, _TOP_FALSE_ALARM))
        if not certain.any():
            return scale, scale, False
        bulk = self._root(self._held(counts, certain, _SURE_FALSE_ALARM))
        return scale, min(scale, bulk), True

    def _kept(self, alarm: float, sure_alarm: float) -> NDArray[np.bool_]:
        """Return by column the octaves of runs that stand out, and of those that surely do.

        Far from the clearest run of a column only sure ones are kept.
        """
        kept, sure = found = np.zeros((2, *self.counts.shape), dtype=bool)
        runs = _run_sums(self.counts, _RUN_WIDTHS)
        clearest = _clearest_run(runs)
        for width, sums in runs.items():
            least, sure_least = self._limit(width, alarm), self._limit(width, sure_alarm)
            column, start = np.nonzero(sums > min(least, sure_least))  # few of all
            run = sums[column, start]
            certain = run > sure_least
            near = np.abs(start - clearest[column]) < _NEAR_OCTAVES
            clear = certain | (near & (run > least))
            for octave in range(width):
                kept[column[clear], start[clear] + octave] = True
                sure[column[certain], start[certain] + octave] = True
        return found

    def _held(
        self, counts: NDArray[np.float64], kept: NDArray[np.bool_], alarm: float
    ) -> NDArray[np.float64]:
        """Return the pairs in each octave that is kept, without empty octaves at the top.

        The top is the first octave, from above, at which the sum is more than noise. What was kept
        above it is added to it; above it single octaves still show.
        """
        alarm = alarm / (3 * len(self.counts))
        places = np.flatnonzero(kept)[::-1]
        sums = np.cumsum(counts[places])
        clear = np.flatnonzero(sums > self.deviation * _sum_limits(sums.size, alarm, self.heavy))
        top = int(places[clear[0] if clear.size else np.argmax(sums)])
        beyond = counts[top + 1 : top + 1 + _BEYOND_OCTAVES]
        over = np.flatnonzero(beyond > self._limit(1, alarm / 2)) + top + 1
        if over.size:
            kept[over] = True
            top = int(over[-1])
        held = np.where(kept, counts, 0.0)
        held[top] += max(0.0, float(held[top + 1 :].sum()))
        held[top + 1 :] = 0.0
        return held

    def _root(self, held: NDArray[np.float64], columns: int = 1) -> float:
        """Return the root of the mean of these squares over all pairs, of so many columns."""
        most = int(np.argmax(held))
        total = max(float(held @ _HALF_SQUARES), float(held[most] * _HALF_SQUARES[most]))
        pairs = max(1.0, float(held.sum())) if self.pairs is None else self.pairs * columns
        return math.sqrt(max(0.0, total) / pairs)

    def _limit(self, count: int, beta: float) -> float:
        """Return what the noise on a sum of so many counts exceeds with probability ``beta``."""
        return self.deviation * _sum_limit(count, beta, self.heavy)


@lru_cache(maxsize=4096)
def _sum_limit(count: int, beta: float, heavy: bool) -> float:
    """Return the limit of a sum of noise in deviations of one number."""
    if heavy:
        return laplace_sum(count, beta) / math.sqrt(2)
    return math.sqrt(count) * -float(ndtri(beta))


@lru_cache(maxsize=1024)
def _sum_limits(count: int, beta: float, heavy: bool) -> NDArray[np.float64]:
    """Return the limits of sums of one up to so many numbers."""
    return np.array([_sum_limit(k, beta, heavy) for k in range(1, count + 1)])


def _run_sums(
    counts: NDArray[np.float64], widths: tuple[int, ...]
) -> dict[int, NDArray[np.float64]]:
    """Return the sums of all runs of each width, along the last axis."""
    sums = np.zeros((*counts.shape[:-1], counts.shape[-1] + 1))
    np.cumsum(counts, axis=-1, out=sums[..., 1:])
    return {width: sums[..., width:] - sums[..., :-width] for width in widths}


def _clearest_run(runs: dict[int, NDArray[np.float64]]) -> NDArray[np.intp]:
    """Return for each column the start of the run with the largest sum for its noise."""
    clear = [sums / math.sqrt(width) for width, sums in runs.items()]
    starts = np.array([run.argmax(axis=1) for run in clear])
    columns = np.arange(starts.shape[1])
    best = np.argmax([run.max(axis=1) for run in clear], axis=0)
    return np.asarray(starts[best, columns])


Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled(Generic[Result]):
    """First the scales, then ``inner`` on scaled columns. Fields are public, never data.

    Attributes
    ----------
    scale : ColumnScale
        The scales.
    inner : Procedure
        What is released of scaled columns.
    hides : bool
        Whether that is a noisy matrix, and variances that its noise hides become zero.

    """

    proof: ClassVar[str] = "scaled"
    name: ClassVar[str] = "scaled"
    scale: ColumnScale
    inner: Procedure[CentredResult[Result]]
    hides: bool = False

    def cost(self) -> Cost:
        """Return the cost of both steps, composed."""
        return compose(self.scale.cost(), self.inner.cost())

    def run(self, source: RowSource, start: Clip, gate: Gate) -> CentredResult[Result]:
        """Read the rows once more than ``inner``; its centre is in scaled units."""
        raw = Clip(
            row_norm=LARGEST_NORM,
            on_invalid=start.on_invalid,
            on_missing=start.on_missing,
            present=start.present,
        )
        scale = self.scale.run(source, raw, gate).scale
        if not np.isfinite(scale).any():
            raise NothingFoundError(
                "no column's scale stands out from the noise, and the budget is spent: give the "
                "scales, more rows or a larger budget"
            )
        about = start
        if start.present is not None and start.pairs_present is not None:
            kept = np.isfinite(scale)
            pairs = start.pairs_present.of_columns(kept)
            about = replace(start, present=start.present[kept], pairs_present=pairs)
        released = self.inner.run(source.map(Divide(scale)), about, gate)
        if released.present is None:
            released = replace(released, present=about.present, pairs_present=about.pairs_present)
        if self.hides:
            shown: Any = without_hidden(cast(NoisyMatrix, released.inner), released.centre_error)
            released = replace(released, inner=shown)
        return replace(released, scale=scale)


def without_hidden(noisy: NoisyMatrix, centre_error: float) -> NoisyMatrix:
    """Return the matrix with zeros for columns whose variance cannot be told from noise.

    An error of the centre adds to every variance: the largest plausible one is taken off first.
    """
    seen = noisy.matrix if noisy.unbiased is None else noisy.unbiased
    error = CENTRE_DEVIATIONS**2 * centre_error / len(seen)
    shown = seen.diagonal() - error > CLEAR_VARIANCE * noisy.noise_scale
    return replace(noisy, matrix=np.where(np.outer(shown, shown), noisy.matrix, 0.0))
