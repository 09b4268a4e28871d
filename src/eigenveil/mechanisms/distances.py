r"""Private distances of rows from a centre, and a clipping radius chosen from them.

Source: section 8.3 of the contract; a histogram with noise, of which well-filled bins are kept.

.. math:: \tilde h_j = |\{i : R\,2^{-(j+1)/K} \le |x_i - c| < R\,2^{-j/K}\}| + \text{noise},
          \qquad R = 10^{50}

with K = 2 brackets per octave, or 8 where there are rows enough.

One row moves the counts by sqrt(2) in l2 norm (replace-one), so a whole distribution of distances
costs as much as one number. Runs of 1, 2, 4, ... brackets, up to four octaves, are kept where their
counts together exceed what noise alone reaches: over all runs noise alone passes once in a million
times. So are brackets just beyond them that hold more than noise; all others are taken as empty.
Where nothing is kept, nothing is said. Quantiles, the best length to clip at and mean squares are
read off the kept counts: post-processing.
Proof: docs/proofs/distances.md.

.. math:: R = \arg\min_r \; \nu r^2 + \frac1n \sum_i (|x_i - c|^2 - r^2)_+

about the centre c in use, public or released: for mechanisms that clip, where no bound is known or
a stated one may be generous. The distances come from one noisy histogram (`distances`); the first
term is the noise that a mechanism adds, the second what clipping takes, and both follow from public
numbers and released counts. At a generous budget R lies beyond all rows. A bound that was stated
holds as well. Proof: docs/proofs/ranged.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtr, ndtri

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import LARGEST_NORM, NO_EXPONENT, SMALLEST_NORM, Clip
from eigenveil.exact.gram import moment_sensitivities
from eigenveil.exact.histograms import distance_counts
from eigenveil.exact.symmetric import GaussianLaw
from eigenveil.exceptions import NothingFoundError
from eigenveil.mechanisms.additive import LaplaceNoise, VectorNoise
from eigenveil.mechanisms.gate import Gate, Procedure
from eigenveil.messages import option
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.accounting import compose
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.cost import Allotment, Cost, Pure
from eigenveil.rows.base import RowSource

FALSE_ALARM = 1e-6  # of keeping a run of empty brackets, over all runs
_LONGEST_RUN_OCTAVES = 4

# Rows for each standard deviation of the noise on a count. At 24 nothing is found in 8 % of runs of
# one normal column, 0.1 % of two and none of ten; at 16 in 87, 47 and 0.1 %.
_WANTED, _ENOUGH = 24.0, 16.0
LONG_TAILS = 2.2  # deviations of Laplace noise that are exceeded as rarely as one of Gaussian noise
_FINE_SHARE = 0.008  # of a search, below which rows fill fine brackets
_LEAST_SHARE, _PURE_LEAST_SHARE, _MOST_SHARE = 0.005, 0.02, 0.1  # of mu^2, and of epsilon
_TAIL_DEVIATIONS = 4.0

# Product of rows and mu from which on a search with its largest share finds rows.
SEARCHABLE_STRENGTH = _ENOUGH * math.sqrt(2 / _MOST_SHARE) * (1 + 1e-9)
_UNKNOWN_SHARE, _PURE_UNKNOWN_SHARE = 0.01, 0.05  # where the number of rows is private

# Where rows are taken to lie in their bracket when a clipping length is chosen, as shares of its
# width from the upper end.
_MIDDLE, _EVENLY_SPREAD = (0.5,), (0.125, 0.375, 0.625, 0.875)


@lru_cache(maxsize=4)
def _upper_ends(per_octave: int) -> NDArray[np.float64]:
    """Return the upper ends of all brackets, from the largest down."""
    return np.asarray(LARGEST_NORM * 2.0 ** (-np.arange(_brackets(per_octave)) / per_octave))


def _brackets(per_octave: int) -> int:
    return NO_EXPONENT // 2 * per_octave


def _widths(per_octave: int) -> list[int]:
    """Return the widths of runs in brackets: powers of two."""
    return [1 << k for k in range((_LONGEST_RUN_OCTAVES * per_octave).bit_length())]


def _run_false_alarm(per_octave: int) -> float:
    """Return the probability with which noise alone may pass in one run."""
    return FALSE_ALARM / (len(_widths(per_octave)) * _brackets(per_octave))


def distance_share(whole: Allotment, rows: int | None) -> float:
    """Return the share of a budget that one search for distances needs, up to a tenth."""
    if rows is None:
        return _PURE_UNKNOWN_SHARE if isinstance(whole, Pure) else _UNKNOWN_SHARE
    if rows == 0:
        return _MOST_SHARE
    needed = _deviation(whole) * _WANTED / rows
    if isinstance(whole, Pure):
        return min(_MOST_SHARE, max(_PURE_LEAST_SHARE, needed))
    return min(_MOST_SHARE, max(_LEAST_SHARE, needed**2))


def searchable(whole: Allotment, rows: int | None) -> bool:
    """Return whether a search would find rows, as far as public numbers tell."""
    if rows is None:
        return True
    share = distance_share(whole, rows)
    found = rows * (share if isinstance(whole, Pure) else math.sqrt(share))
    return found >= _ENOUGH * _deviation(whole)


def _deviation(whole: Allotment) -> float:
    """Return the standard deviation of the noise on a count, were the whole budget spent on it.

    Of Laplace noise: that of Gaussian noise which a count stands out from as rarely.
    """
    if isinstance(whole, Pure):
        return LONG_TAILS * 2 * math.sqrt(2) / whole.epsilon
    return math.sqrt(2) / whole.mu


@dataclass(frozen=True, slots=True, eq=False)
class NoisyDistances:
    """Released counts of rows by distance; brackets that do not stand out are zero.

    Attributes
    ----------
    counts : array
        By bracket, from the largest distance down; not below zero.
    rows : float
        Number of rows: public, or else the released number in kept brackets.
    unseen : float
        Rows that a bracket may hold without being kept.
    per_octave : int
        Brackets in a factor of two.

    """

    counts: NDArray[np.float64]
    rows: float
    unseen: float
    per_octave: int = 2

    @classmethod
    def of(
        cls,
        noisy: NDArray[np.float64],
        deviation: float,
        rows: int | None,
        limit: Callable[[int], float],
        per_octave: int = 2,
    ) -> Self:
        """Keep noisy counts that stand out.

        ``limit`` says what a run of so many empty brackets exceeds too rarely to matter, in
        deviations of the noise on one count.
        """
        # Beyond the first bracket there is no end, and rows at the point itself have no distance,
        # nor have those within 1e-50 of it.
        upper = _upper_ends(per_octave)
        counts = noisy[: upper.size].copy()
        counts[0] = 0.0
        counts[upper < 2 * SMALLEST_NORM] = 0.0  # too near for rows to be clipped anywhere there
        kept = np.zeros(counts.size, dtype=bool)
        for width in _widths(per_octave):
            left = np.append(0.0, np.cumsum(np.where(kept, 0.0, counts)))
            runs = np.flatnonzero(left[width:] - left[:-width] > deviation * limit(width))
            for run in range(width):
                kept[runs + run] = True
        _keep_tail(kept, counts, deviation, per_octave)
        shown = np.where(kept, np.maximum(counts, 0.0), 0.0)
        known = float(shown.sum()) if rows is None else float(rows)
        return cls(shown, known, deviation * limit(1), per_octave)

    @property
    def found(self) -> bool:
        """Whether any bracket stands out."""
        return bool(self.counts.any())

    @property
    def largest(self) -> float:
        """Upper end of the outermost bracket that is kept."""
        return float(self._upper[np.flatnonzero(self.counts)[0]])

    @property
    def _upper(self) -> NDArray[np.float64]:
        return _upper_ends(self.per_octave)

    def _inside(self, share: float) -> NDArray[np.float64]:
        """Return the distance a share of its width below the upper end of each bracket."""
        return np.asarray(self._upper * 2.0 ** (-share / self.per_octave))

    def quantile(self, level: float) -> float:
        """Upper end of the bracket that a share ``level`` of the rows found stays below."""
        below = np.cumsum(self.counts[::-1])[::-1]  # rows below the upper end of each bracket
        return float(self._upper[np.flatnonzero(below >= level * below[0])[-1]])

    def lower_quantile(self, level: float) -> float:
        """Lower end of the bracket of `quantile`."""
        return float(self.quantile(level) * 2.0 ** (-1 / self.per_octave))

    def clipping(self, price: float, power: int) -> float:
        """Return the length R to clip at that has the least of noise and loss together.

        Noise is ``price * R**power``. Clipping takes from the mean of |x|^power, and with it at
        most that from a mean (power 1) or from a second moment (power 2). Rows lie in the middle of
        a bracket, in fine ones at four points: else R would follow the middle of one bracket.
        """
        kept = np.flatnonzero(self.counts)
        upper, places = self._upper, _MIDDLE if self.per_octave == 2 else _EVENLY_SPREAD
        weights = np.tile(self.counts[kept] / max(1.0, self.rows) / len(places), len(places))
        lengths = np.concatenate([self._inside(share)[kept] for share in places]) ** power

        def error(log_radius: float) -> float:
            most = math.exp(power * log_radius)
            return price * most + float(weights @ np.maximum(lengths - most, 0.0))

        candidates = np.log(upper[kept[0] : kept[-1] + 2])
        errors = [error(c) for c in candidates]
        best = int(np.argmin(errors))
        if best == 0 or len(candidates) < 3:  # beyond all that was found
            return float((upper[kept] ** power)[0] ** (1 / power))
        low, high = candidates[min(best + 1, len(candidates) - 1)], candidates[best - 1]
        return math.exp(float(minimize_scalar(error, bounds=(low, high), method="bounded").x))

    def loss(self, radius: float) -> float:
        """Return how far clipping at ``radius`` may move the mean of the rows found, at most."""
        lost = np.maximum(self._inside(0.5) - radius, 0.0)
        return float(self.counts @ lost) / max(1.0, self.rows)

    def inverse_square_share(self, nearest: float) -> float:
        """Return E[min(r^-2, a^-2)]/E[min(1, r^2/a^2)] of distances r, a the ``nearest`` counted.

        The factor that turns the squared error of a centre into its share of the trace of rows
        divided by max(r, a). Rows in brackets that do not stand out count as if at the centre.
        """
        kept = np.flatnonzero(self.counts)
        counts, squares = self.counts[kept], (self._inside(0.5)[kept] / nearest) ** 2
        unseen = max(0.0, self.rows - float(counts.sum()))
        inverse = float(counts @ np.minimum(1.0, 1 / squares)) + unseen
        return inverse / nearest**2 / float(counts @ np.minimum(1.0, squares))

    def beyond(self, radius: float) -> float:
        """Return the number of rows farther away than ``radius``, as far as brackets tell."""
        return float(self.counts[radius < self._inside(0.5)].sum())

    def normal_share_beyond(self, radius: float) -> float:
        """Return the share of rows farther away than ``radius``, for numbers that are about normal.

        Noise hides brackets of few rows, so that counts alone would say that there are none. The
        share is that of a normal law with the mean square found, as far as the counts allow.
        """
        rows = max(1.0, self.rows)
        least = self.beyond(radius) / rows
        expected = 2 * float(ndtr(-radius / math.sqrt(self.mean_power(2.0))))
        return max(least, min(expected, least + self.per_octave * self.unseen / rows))

    def mean_square_within(self, radius: float) -> float:
        """Return the mean of the squared distances of all rows once they are clipped."""
        squares = np.minimum(self._inside(0.5), radius) ** 2
        return float(self.counts @ squares) / max(1.0, self.rows)

    def mean_power(self, power: float) -> float:
        """Return the mean of a power of the distances found."""
        kept = np.flatnonzero(self.counts)
        weights = self.counts[kept]
        return float(weights @ self._inside(0.5)[kept] ** power / weights.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateDistances:
    """Noisy counts by distance, and which of them stand out. Fields are public, never data.

    Attributes
    ----------
    noise : VectorNoise
        On every count.
    per_octave : int
        Brackets in a factor of two: 2, or 8 for a finer view of many rows. The cost is the same.

    """

    name: ClassVar[str] = "distances"
    exact: ClassVar[bool] = True
    noise: VectorNoise
    per_octave: int = 2

    @classmethod
    def fine(cls, noise: VectorNoise, whole: Allotment, rows: int | None) -> Self:
        """Build it with fine brackets where a small share of the whole budget would find rows."""
        return cls(noise=noise, per_octave=8 if distance_share(whole, rows) < _FINE_SHARE else 2)

    @property
    def unseen(self) -> float:
        """Rows that a bracket may hold without being kept, where the number of rows is public."""
        noise = math.sqrt(2) * self.noise.on_one_number
        return noise * self._limit(1)

    def cost(self) -> Cost:
        """Cost of one `perturb`: what is read off the counts is post-processing."""
        return self.noise.cost()

    def run(self, source: RowSource, about: Clip, gate: Gate) -> NoisyDistances:
        """Draw the distances of rows, as they are, from the centre of ``about``."""
        raw = Clip(
            row_norm=LARGEST_NORM,
            centre=about.centre,
            box=about.box,
            on_invalid=about.on_invalid,
            on_missing=about.on_missing,
        )
        return gate.draw(self, distance_counts(source, raw, gate.adjacency, self.per_octave))

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyDistances:
        """Return counts of brackets that stand out; ``query`` comes from `distance_counts`."""
        noisy = self.noise.perturb(query, noise)
        counts, deviation = noisy.values / query.unit, noisy.deviation / query.unit
        return NoisyDistances.of(counts, deviation, query.count, self._limit, self.per_octave)

    def _limit(self, width: int) -> float:
        """Return what a run of empty brackets exceeds too rarely to matter, in deviations of one
        count.
        """
        if isinstance(self.noise, LaplaceNoise):
            return laplace_sum(width, _run_false_alarm(self.per_octave)) / math.sqrt(2)
        return gaussian_sum(width, self.per_octave)


def _keep_tail(
    kept: NDArray[np.bool_], counts: NDArray[np.float64], deviation: float, per_octave: int
) -> None:
    """Keep brackets just beyond the outermost one that is kept, where they hold more than noise.

    Next to rows there are likely to be others: four deviations are enough, of one bracket or of
    several together, up to an octave. Noise alone adds some once in 10,000 times (once in 4,000 of
    fine ones), and never far away.
    """
    edge = int(np.argmax(kept)) if kept.any() else 0
    widths = np.arange(1, min(per_octave, edge - 1) + 1)
    if widths.size == 0:
        return
    sums = np.cumsum(counts[edge - widths])
    clearest = int(np.argmax(sums / np.sqrt(widths)))
    if sums[clearest] > _TAIL_DEVIATIONS * math.sqrt(clearest + 1) * deviation:
        kept[edge - clearest - 1 : edge] = True


def gaussian_sum(count: int, per_octave: int = 2) -> float:
    """Return what the sum of so many standard normal numbers exceeds too rarely to matter here."""
    return math.sqrt(count) * float(-ndtri(_run_false_alarm(per_octave)))


def laplace_sum(count: int, beta: float) -> float:
    """Return what the sum of so many standard Laplace numbers exceeds with probability beta at
    most.

    Chernoff: P(S > t) <= e^(-rt) (1 - r^2)^-count for every r below 1.
    """

    def bound(r: float) -> float:
        return (-math.log(beta) - count * math.log1p(-r * r)) / r

    def slope(r: float) -> float:
        return 2 * count * r * r / (1 - r * r) + math.log(beta) + count * math.log1p(-r * r)

    return bound(float(brentq(slope, 1e-9, 1 - 1e-12)))


CLEANED = 0.25  # what cleaning, and shrinking towards a target, leave of the noise, about


def noise_rows(whole: Allotment, columns: int, adjacency: Adjacency) -> float:
    """Return the noise on a matrix as a number of rows on the sphere that would move it as much."""
    if isinstance(whole, Pure):  # two-sided Wishart noise
        nuclear = moment_sensitivities(columns, adjacency)["nuclear"]
        return CLEANED * nuclear * math.sqrt(columns**3 / 2) / whole.epsilon
    frobenius = moment_sensitivities(columns, adjacency)["frobenius"]
    law = GaussianLaw(columns, frobenius / whole.mu)
    energy: float = law.energy
    return CLEANED * math.sqrt(energy)


def clipping_radius(
    found: NoisyDistances, clip: Clip, rows: float, records: float | None = None
) -> float:
    """Return where rows are best clipped, within a stated bound; ``rows``: what noise weighs.

    It is weighed against ``records``, by default those whose distances were found. Where none was
    found, the stated bound is used.
    """
    if not found.found:
        return clip.row_norm
    radius = found.clipping(rows / max(1.0, found.rows if records is None else records), 2)
    return min(clip.row_norm, LARGEST_NORM, radius)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateRadiusClip:
    """First a bound, then ``inner`` on rows clipped at it. Fields are public, never data.

    Attributes
    ----------
    distances : PrivateDistances
        The search.
    inner : Procedure
        It releases something with a field ``row_norm``, which is set where it is None.
    rows : float
        What the noise of ``inner`` weighs, in rows: see `noise_rows`.

    """

    proof: ClassVar[str] = "ranged"
    name: ClassVar[str] = "ranged"
    distances: PrivateDistances
    inner: Procedure[Any]
    rows: float

    def cost(self) -> Cost:
        """Return the cost of both steps, composed."""
        return compose(self.distances.cost(), self.inner.cost())

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> Any:
        """Read the rows about the centre of ``clip``, once more than ``inner`` does."""
        found = self.distances.run(source, clip, gate)
        if not found.found and clip.found_norm is not None:
            clip = replace(clip, row_norm=min(clip.row_norm, clip.found_norm))
        if not found.found and clip.row_norm == LARGEST_NORM:
            raise NothingFoundError(
                "no distance of rows from their centre stood out, and the budget is spent: state ",
                option("row_norm"),
                " or ",
                option("bounds"),
                ", or give more rows or a larger budget; most rows may be equal",
            )
        radius = clipping_radius(found, clip, self.rows)
        released = self.inner.run(source, replace(clip, row_norm=radius), gate)
        return replace(released, row_norm=radius) if released.row_norm is None else released
