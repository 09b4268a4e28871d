r"""PrivRange: how far products of records with a few columns spread about their mean.

Source: Düngler, Sanyal [kPCA], Algorithm 4; Liu, Kong, Jain, Oh [DPPCA], Algorithm 4.

Each of m blocks of differences of records votes for the quarter octave of its largest second
moment (`data/spreads.py`); a stability histogram shows the bins with votes enough, and the answer
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
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.spreads import ZERO_SPREAD, spread_counts
from eigenveil.exact.basis_products import BasisProduct
from eigenveil.exact.batches import Records
from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import Clip
from eigenveil.exceptions import InvalidDataError, InvalidParameterError, NothingFoundError
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.scalars.histogram import StabilityHistogram
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.cost import Approx, Cost
from eigenveil.wording import option

__all__ = ["PrivateSpread"]

_BLOCKS = 16.0  # C_1
_FEWEST_PAIRS = 8  # of a block: fewer would scatter further


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateSpread:
    """Largest variance of products along any direction. Fields are public, never data.

    ``zeta`` is the probability that votes enough do not show.
    """

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
