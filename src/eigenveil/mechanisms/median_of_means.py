r"""Private quantiles, and a median of means.

`PrivateQuantile`.

Source: report noisy max (Dwork, Roth 2014, section 3.3); utility after Smith 2011, of brackets.

.. math:: \arg\max_j \; -\max\bigl(0,\; b_{j+1} - qn,\; qn - b_j\bigr) + \mathrm{Lap}(2/\epsilon),
          \qquad b_j = |\{\|x_i\| < R\,2^{-j/2}\}|

The bracket that holds the quantile has utility zero, the others lose what separates them from it
in rows. A utility of bracket ends would not do: where all norms lie in one bracket, every end is
equally far off.

One row moves each utility by at most 1. The answer is the upper end of a bracket of width sqrt(2):
enough to choose a bound for clipping.
Proof: docs/proofs/quantile.md.

`MedianOfMeans`.

Source: the exponential mechanism for a median (Smith 2011) by report noisy max, on means of blocks
(Nemirovsky, Yudin 1983); blocks, brackets and their combination are new here.

.. math:: \arg\max_j \; -\bigl|\,|\{i : \bar y_i < e_j\}| - m/2\,\bigr| + \mathrm{Lap}(2/\epsilon)

over public brackets, with m means of b rows each on average: of blocks of 1 and 2 rows by turns
where b = 1.5. A row moves one mean and every utility by at most
1, however far away it is. So noise is counted in ranks, not in units of a range: the error falls
with the spread of the rows even where the range is a hundred times as wide. The median of means
differs from the mean by about skewness/(6 b) standard deviations of the rows, its noise grows with
sqrt(b): see `blocks_of`.

Within a stated range brackets are equally wide. Without one they are equally likely for a fair sign
and a binary logarithm that is Cauchy about 0 with scale 8: fine near 1, and coarse, but present, as
far as 1e50. Proof: docs/proofs/median_of_means.md.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import LARGEST_NORM, SMALLEST_NORM, Clip
from eigenveil.exact.column_histogram import value_counts
from eigenveil.exact.gram import public_rows
from eigenveil.exact.lattice import LAPLACE, add_noise, unit_grid
from eigenveil.exceptions import InvalidParameterError, UnsupportedNotionError
from eigenveil.mechanisms.gate import Gate
from eigenveil.messages import REPLACE_ONE
from eigenveil.numerics.integers import FixedPoint
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.accounting import gaussian_mu
from eigenveil.privacy.calibrate import noise_scale
from eigenveil.privacy.cost import Cost, Gaussian, Pure
from eigenveil.rows.base import RowSource

_LEVEL_BITS = 10  # the level is rounded to 2**-10, so that utilities are exact


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateQuantile:
    """Exponent of the norm that a share ``level`` of rows stays below. Fields are public.

    ``gaussian``: the cost is stated as the mu that covers it, for a total that is one mu.
    """

    proof: ClassVar[str] = "quantile"
    name: ClassVar[str] = "quantile"
    exact: ClassVar[bool] = True
    epsilon: float
    level: float
    gaussian: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise InvalidParameterError("the level of a quantile must lie between 0 and 1")
        unit_grid(2 / self.epsilon, -_LEVEL_BITS)  # refuses a budget too small, before any charge

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return Gaussian(gaussian_mu(self.epsilon)) if self.gaussian else Pure(self.epsilon)

    def perturb(self, query: Bounded, noise: NoiseSource) -> int:
        """Return the j for which R 2^(-j/2) is the quantile; ``query`` counts row norms."""
        counts = query.value.units
        below = np.cumsum(counts[::-1])[::-1] << _LEVEL_BITS  # the upper end of every bracket
        wanted = round(self.level * (1 << _LEVEL_BITS)) * int(counts.sum())
        beyond_lower = np.append(below[1:], 0) - wanted
        short_of_upper = wanted - below
        miss = np.maximum(0, np.maximum(beyond_lower, short_of_upper))
        utility = FixedPoint(-miss, -_LEVEL_BITS)
        scale = noise_scale(2 * query.sensitivity("linf"), self.epsilon)
        grid = unit_grid(scale, utility.exponent)
        noisy = add_noise(utility, scale, noise, law=LAPLACE, grid=grid).units
        return int(np.argmax(noisy))


_BRACKETS, _FREE_BRACKETS = 1 << 12, 1 << 18
_OCTAVES = 8.0  # scale of the Cauchy law of a logarithm
_PER_BLOCK, _FREE_PER_BLOCK = 55.0, 100.0  # least n epsilon for each row of a block
_LEAST_ROWS = 40.0  # n epsilon within a range, below which noise on the mean is no larger
_SKEWNESS = 0.0011  # b^3/(n epsilon)^2 that balances noise with the bias of skewness 1


def findable(rows: float, *, ranged: bool) -> bool:
    """Return whether a median stands out, for ``rows`` = n epsilon.

    Without a range all brackets within 1e50 together win with a probability of about e^(-25) times
    the number of standard deviations that the mean is away from zero, times 500.
    """
    return rows >= (_LEAST_ROWS if ranged else _FREE_PER_BLOCK)


def blocks_of(rows: float, *, ranged: bool) -> float:
    """Return the mean number of rows in a block, for ``rows`` = n epsilon.

    In squared standard deviations, noise brings about 50 b/rows^2 and skewness 1 brings 1/(36 b^2).
    """
    if math.isinf(rows):
        return 1.0
    most = rows / (_PER_BLOCK if ranged else _FREE_PER_BLOCK)
    return max(1.0, min(most, math.pow(_SKEWNESS * rows**2, 1 / 3)))


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianOfMeans:
    """A private median of block means. Fields are public, never data.

    ``block`` is the mean number of rows, or persons, in a block; more than 1 needs a public number
    of them. ``gaussian``: the cost is stated as the mu that covers it.
    """

    name: ClassVar[str] = "median-of-means"
    epsilon: float
    block: float = 1.0
    gaussian: bool = False

    @property
    def quantile(self) -> PrivateQuantile:
        """The one draw."""
        return PrivateQuantile(epsilon=self.epsilon, level=0.5, gaussian=self.gaussian)

    def cost(self) -> Cost:
        """Cost of one `run`."""
        return self.quantile.cost()

    def run(self, source: RowSource, start: Clip, gate: Gate) -> tuple[NDArray[np.float64], float]:
        """Return the median, and infinity: how far off it is, no released number tells.

        ``source`` has one column; the box of ``start`` is its stated range.
        """
        box = start.box
        ends = free_ends() if box is None else np.linspace(box[0][0], box[1][0], _BRACKETS + 1)
        blocks = None
        if self.block > 1:
            if not gate.adjacency.count_is_public:
                raise UnsupportedNotionError("blocks of rows need ", REPLACE_ONE)
            order = gate.order(public_rows(source))
            blocks = np.empty_like(order)
            blocks[order] = np.floor(np.arange(order.size) / self.block).astype(np.intp)
        query = value_counts(source, ends, gate.adjacency, blocks)
        j = ends.size - 2 - gate.draw(self.quantile, query)
        return (ends[j : j + 1] + ends[j + 1 : j + 2]) / 2, math.inf


@lru_cache(maxsize=1)
def free_ends() -> NDArray[np.float64]:
    """Return the ends of brackets where no range is stated."""
    half = _FREE_BRACKETS // 2
    octaves = _OCTAVES * np.tan(np.pi * (np.arange(1, half) / half - 0.5))
    inside = octaves[(octaves > np.log2(SMALLEST_NORM)) & (octaves < np.log2(LARGEST_NORM))]
    sizes = np.concatenate([[SMALLEST_NORM], 2.0**inside, [LARGEST_NORM]])
    ends = np.concatenate([-sizes[::-1], sizes])
    ends.setflags(write=False)
    return ends
