r"""Stability histogram, and private spreads of coordinates found with it.

Stability histogram: which bins are well filled, out of bins nobody needs to list.

Source: Korolova, Kenthapadi, Mishra, Ntoulas 2009; Bun, Nissim, Stemmer 2016.

.. math:: \{(j, \tilde c_j) : c_j > 0,\; \tilde c_j = c_j + \mathrm{Lap}(\Delta_1/\epsilon)
          > 1 + (\Delta_1/\epsilon) \ln(1/2\delta)\}

Empty bins stay out, so their number costs nothing; a bin that a single row fills passes with
probability at most delta. The guarantee is approximate: (epsilon, delta).
Proof: docs/proofs/histogram.md.

How far products of records with a few columns spread, block of records by block.

Source: Düngler, Sanyal [kPCA], Algorithm 4, lines 1 to 14.

Consecutive records are paired; the difference of a pair has mean zero and twice the covariance. A
block of b pairs has for every column q the second moment

.. math:: \frac{1}{2b} \sum_i g_i g_i', \qquad g_i = (A_{2i} - A_{2i-1})\, q,

and its value is the largest eigenvalue over all columns, at most 2 R^4 for records of norm R^2.
Values are counted in quarter octaves from there down. A record is in one pair of one block, so
replacing it moves one value. Proof: docs/proofs/spread.md.

PrivRange: how far products of records with a few columns spread about their mean.

Source: Düngler, Sanyal [kPCA], Algorithm 4; Liu, Kong, Jain, Oh [DPPCA], Algorithm 4.

Each of m blocks of differences of records votes for the quarter octave of its largest second
moment; a stability histogram shows the bins with votes enough, and the answer
is 2 l, l the lower end of the fullest bin. The number of blocks is

.. math:: m = 1 + \lceil C_1 \ln(1/(\delta\zeta)) / \epsilon \rceil, \qquad C_1 = 16.

A bin shows above :math:`1 + (2/\epsilon) \ln(1/(2\delta))`, and noise takes off more than
:math:`(2/\epsilon) \ln(1/(2\zeta))` with probability zeta. So C_1 = 2 would do where all blocks
agree, and 16 do where an eighth of them does: blocks of few pairs scatter over two octaves, eight
bins. With C_1 = 4 a block of 64 pairs of normal rows is too small at epsilon = 0.5, delta = 5e-7;
with 16, one of 4 pairs is enough. Proof: docs/proofs/spread.md.

Differences from the source
---------------------------
1. Bins start at the largest value that records of the public norm allow. The source's start at 1,
   in units that nobody chose.
2. [DPPCA] divides by b instead of 2b and answers l instead of 2 l: the same number.
3. Differences below 2^-30 of the squared row norm count as zero.

Products of records with a few columns, coordinate by coordinate: bins and boxes.

Source: Düngler, Sanyal [kPCA], Algorithm 5; Liu, Kong, Jain, Oh [DPPCA], Algorithm 5.

Entries of AQ are counted in bins of one public width, each coordinate on its own: a replaced record
moves two counts of every coordinate by one. For the mean, entries are cut off at a box about a
released centre and rounded to 2^-30 of its half-width; inside the box two records are at most
2 sqrt(dk) half-widths apart, and rounding does not lead out of it.
Proof: docs/proofs/truncated_mean.md.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.basis_products import BasisProduct
from eigenveil.exact.batches import Records
from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import Clip
from eigenveil.exact.lattice import LAPLACE, add_noise, unit_grid
from eigenveil.exact.updates import update_blocks
from eigenveil.exceptions import InvalidDataError, InvalidParameterError, NothingFoundError
from eigenveil.mechanisms.gate import Gate
from eigenveil.messages import option
from eigenveil.numerics.integers import ExactSum, FixedPoint
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.calibrate import noise_scale
from eigenveil.privacy.cost import Approx, Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class StabilityHistogram:
    """Noisy counts of the bins that clear a threshold. Fields are public, never data."""

    proof: ClassVar[str] = "histogram"
    name: ClassVar[str] = "histogram"
    exact: ClassVar[bool] = True
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise InvalidParameterError("a stability histogram needs a delta between 0 and 1")

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return Approx(self.epsilon, self.delta)

    def perturb(self, query: Bounded, noise: NoiseSource) -> dict[int, float]:
        """Noisy counts by bin; ``query`` holds counts that add up over rows."""
        if query.sensitivity("linf") != 1.0:
            raise InvalidParameterError("a stability histogram needs counts that move by 1 at most")
        counts = query.value.units
        filled = np.flatnonzero(counts)
        scale = noise_scale(query.sensitivity("l1"), self.epsilon)
        kept = FixedPoint(counts[filled], query.value.exponent)
        noisy, limit = self.noisy(kept, scale, noise), self.limit(scale)
        return {
            int(j): float(count) for j, count in zip(filled, noisy, strict=True) if count > limit
        }

    @staticmethod
    def noisy(filled: FixedPoint, scale: float, noise: NoiseSource) -> NDArray[np.float64]:
        """Return counts of bins that are not empty, with Laplace noise of this scale."""
        grid = unit_grid(scale, -30)
        return add_noise(filled.refined(-30), scale, noise, law=LAPLACE, grid=grid).to_float()

    def limit(self, scale: float) -> float:
        """Return what a noisy count must exceed; a grid step covers the rounding of the noise."""
        step = math.ldexp(1.0, unit_grid(scale, -30))
        return 1 + scale * max(0.0, math.log(0.5 / self.delta)) + step


FINEST = 2.0**-30  # of the squared row norm: finer differences of records are zero
ZERO_SPREAD = 4 * 61  # the bin of zero, after all quarter octaves down to FINEST squared


def outside_blocks(
    records: Records, clip: Clip, view: BasisProduct, away: NDArray[np.float64]
) -> Iterator[NDArray[np.float64]]:
    """AQ of some records at a time, without its part along the orthonormal rows of ``away``.

    In units of the squared row norm; a function of one record and of what was released.
    """
    for block in update_blocks(records, clip, view):
        block = block / clip.radius**2
        if len(away):
            block = block - away.T @ (away @ block)
        yield block


def spread_counts(
    records: Records,
    clip: Clip,
    view: BasisProduct,
    adjacency: Adjacency,
    blocks: int,
    away: NDArray[np.float64],
) -> Bounded:
    """Blocks of the batch by the quarter octave of their spread; the last count is of zero."""
    size = len(records.records) // (2 * blocks) * 2  # records of a block
    if size == 0:
        raise InvalidDataError(f"{blocks} blocks of pairs need {2 * blocks} records at least")
    counts = np.zeros(ZERO_SPREAD + 1, dtype=np.int64)
    for j in range(blocks):
        part = records.slice(j * size, (j + 1) * size)
        products = np.concatenate(list(outside_blocks(part, clip, view, away)))
        counts[quarter_octave(_spread(products[1::2] - products[::2]) / 2)] += 1
    return Bounded.over(
        records,
        value=FixedPoint(counts, 0),
        sensitivities={"l1": 2.0, "linf": 1.0},
        adjacency=adjacency,
        unit=2 * clip.radius**4,
        count=len(records.records),
        exact=clip.transform is None,
    )


def quarter_octave(value: float) -> int:
    """Return the j with 2^(-(j+1)/4) <= value < 2^(-j/4), the last one for zero."""
    if value <= 0:
        return ZERO_SPREAD
    return min(ZERO_SPREAD, max(0, math.ceil(-4 * math.log2(value)) - 1))


def _spread(differences: NDArray[np.float64]) -> float:
    """Return the largest eigenvalue over the columns of (b, d, k) differences."""
    pairs, d, _ = differences.shape
    columns = differences.transpose(2, 1, 0) if pairs > d else differences.transpose(2, 0, 1)
    gram = columns @ columns.transpose(0, 2, 1)  # the smaller of the two with these eigenvalues
    return float(np.linalg.eigvalsh(gram)[:, -1].max() / (2 * pairs))


_BLOCKS = 16.0  # C_1
_FEWEST_PAIRS = 8  # of a block: fewer would scatter further


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateSpread:
    """Largest variance of products along any direction. Fields are public, never data.

    ``zeta`` is the probability that votes enough do not show.
    """

    proof: ClassVar[str] = "spread"
    name: ClassVar[str] = "spread"
    exact: ClassVar[bool] = True
    epsilon: float
    delta: float
    zeta: float = 0.01

    def __post_init__(self) -> None:
        if not 0 < self.zeta < 1:
            raise InvalidParameterError("zeta must lie between 0 and 1")
        if not 0 < self.delta < 1:
            raise InvalidParameterError("a private spread needs a delta between 0 and 1")

    @property
    def blocks(self) -> int:
        """Number m of blocks."""
        return 1 + math.ceil(_BLOCKS * math.log(1 / (self.delta * self.zeta)) / self.epsilon)

    @property
    def needed_records(self) -> int:
        """Fewest records that can be used."""
        return 2 * _FEWEST_PAIRS * self.blocks

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return Approx(self.epsilon, self.delta)

    def perturb(self, query: Bounded, noise: NoiseSource) -> float | None:
        """Return the spread, or None; ``query`` comes from `spread_counts`."""
        shown = StabilityHistogram(epsilon=self.epsilon, delta=self.delta).perturb(query, noise)
        if not shown:
            return None
        fullest = max(shown, key=lambda j: shown[j])
        return 0.0 if fullest == ZERO_SPREAD else 2 * query.unit * 2.0 ** (-(fullest + 1) / 4)

    def estimate(
        self,
        records: Records,
        clip: Clip,
        view: BasisProduct,
        gate: Gate,
        away: NDArray[np.float64],
    ) -> float:
        """Return spread of A Q over the records, without what lies along the rows of ``away``."""
        if len(records.records) < self.needed_records:
            raise InvalidDataError(
                f"a private spread needs {self.needed_records} records at least at this budget: "
                "give larger batches or a larger budget"
            )
        query = spread_counts(records, clip, view, gate.adjacency, self.blocks, away)
        found = gate.draw(self, query)
        if found is None:
            raise NothingFoundError(
                "no spread stood out, and the budget is spent: give larger batches, more records, "
                "a larger budget, or choose ",
                option("mechanism", "spherical"),
            )
        return found


_BIN_BITS = 32  # of the number of a bin; those of the coordinate come before
_ENTRY_BITS = 30  # of an entry, relative to the half-width of the box


def coordinate_counts(
    records: Records,
    clip: Clip,
    view: BasisProduct,
    adjacency: Adjacency,
    width: float,
    away: NDArray[np.float64],
) -> Bounded:
    """Return records by the bin of every entry, [j w, (j+1) w); of bins that are not empty."""
    relative = width / clip.radius**2
    if not relative >= FINEST:
        raise InvalidParameterError("bins are too narrow for the squared row norm")
    coordinates = np.arange(view.basis.size, dtype=np.int64) << _BIN_BITS
    coordinates += 1 << (_BIN_BITS - 1)
    found, counts = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    for block in outside_blocks(records, clip, view, away):
        bins = np.floor(block.reshape(len(block), -1) / relative).astype(np.int64)
        some, each = np.unique(bins + coordinates, return_counts=True)
        found, places = np.unique(np.concatenate([found, some]), return_inverse=True)
        counts = np.bincount(places, weights=np.concatenate([counts, each])).astype(np.int64)
    return Bounded.over(
        records,
        value=FixedPoint(counts, 0),
        sensitivities={"l1": 2.0 * view.basis.size, "linf": 1.0},
        adjacency=adjacency,
        unit=width,
        count=len(records.records),
        exact=clip.transform is None,
        bins=found,
    )


def split_bins(bins: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Coordinates, and numbers of bins in them."""
    coordinates = bins >> _BIN_BITS
    return coordinates, bins - (coordinates << _BIN_BITS) - (1 << (_BIN_BITS - 1))


def box_sum(
    records: Records,
    clip: Clip,
    view: BasisProduct,
    adjacency: Adjacency,
    half_width: float,
    away: NDArray[np.float64],
) -> Bounded:
    """Sum of AQ - C, entries cut off at the half-width; its `unit` makes it the mean."""
    bound = clip.radius**2
    centre = np.zeros(view.basis.shape) if view.centre is None else view.centre / bound
    scale = 2.0**_ENTRY_BITS / (half_width / bound)
    sums = ExactSum(*view.basis.shape)
    for block in outside_blocks(records, clip, view, away):
        entries = np.clip((block - centre) * scale, -(2.0**_ENTRY_BITS), 2.0**_ENTRY_BITS)
        here = sums.holding(len(entries) << _ENTRY_BITS)
        here += np.rint(entries).astype(np.int64).sum(axis=0)
    return Bounded.over(
        records,
        value=FixedPoint(sums.total(), -_ENTRY_BITS),
        sensitivities={"l2": 2 * math.nextafter(math.sqrt(view.basis.size), math.inf)},
        adjacency=adjacency,
        unit=half_width / len(records.records),
        count=len(records.records),
        exact=clip.transform is None,
    )
