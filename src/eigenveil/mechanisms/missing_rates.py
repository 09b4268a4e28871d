r"""Missing cells: private shares of present ones, then a release that allows for the others.

.. math:: \tilde p_j = \tfrac1n |\{i : x_{ij} \text{ is there}\}| + \text{noise}, \qquad
          \tilde m_j = \frac{\text{noisy sum}_j}{n \tilde p_j}, \qquad
          \tilde S_{ij} = \frac{\text{noisy } S_{ij}}{\tilde P_{ij}}, \quad
          \tilde S_{ii} = \frac{\text{noisy } S_{ii}}{\tilde p_i}

A missing cell lies at the centre, where it adds nothing to a sum; what is left is a sum over
present cells, or over pairs of them. P holds the shares of rows with both cells. They come from a
noisy Gram matrix of rows of marks, 1/2 for a present cell and -1/2 for a missing one, where the
public number of rows is large enough. Otherwise P is the product of the shares of columns, as if
cells were missing independently. Proof: docs/proofs/present.md.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import second_moment, total
from eigenveil.exact.row_maps import CellPresence
from eigenveil.exact.symmetric import WishartLaw
from eigenveil.mechanisms.additive import NoisyMean, PrivateMean, vector_noise
from eigenveil.mechanisms.centre import CentredResult
from eigenveil.mechanisms.gate import Gate, Procedure
from eigenveil.mechanisms.gauss import GaussCov
from eigenveil.mechanisms.wishart import WishartCov
from eigenveil.numerics.pair_shares import MIN_SHARE, PairShares
from eigenveil.privacy.accounting import compose, part
from eigenveil.privacy.cost import Allotment, Cost, Pure
from eigenveil.rows.base import RowSource

PRESENT_SHARE = 0.05  # of mu^2, or of a pure epsilon
PAIRS_SHARE = 0.05
_MAX_PAIR_NOISE = 0.05  # standard deviation on the share of a pair that is worth its price
_CLEAR = 4.0  # deviations of the noise below which a share means nothing

Result = TypeVar("Result")


def missing_shares(
    whole: Allotment, rows: int | None, columns: int, *, corrects: bool
) -> dict[str, float]:
    """Return the shares of a budget that measure which cells are present.

    Pairs of cells are measured where ``rows``, a public number, keep the noise on their shares
    low, and where the release ``corrects`` products of columns.
    """
    shares = {"present": PRESENT_SHARE}
    if not corrects or rows is None or columns < 2:
        return shares
    unit = columns / 4 / max(1, rows)  # squared length of a row of marks
    step = part(whole, PAIRS_SHARE)
    if isinstance(step, Pure):
        deviation = WishartLaw(columns, step.epsilon / (2 * unit)).deviation
    else:
        deviation = math.sqrt(2) * unit / step.mu
    if deviation / math.sqrt(2) < _MAX_PAIR_NOISE:
        shares["pairs"] = PAIRS_SHARE
    return shares


@dataclass(frozen=True, slots=True, kw_only=True)
class Present(Generic[Result]):
    """First the shares of present cells, then ``inner``. Fields are public, never data.

    Attributes
    ----------
    shares : PrivateMean
        Measures the shares of columns.
    pairs : GaussCov or WishartCov, optional
        Measures the shares of pairs of columns, for replace-one neighbours.
    inner : Procedure
        The release that allows for missing cells.

    """

    proof: ClassVar[str] = "present"
    name: ClassVar[str] = "present"
    shares: PrivateMean
    pairs: GaussCov | WishartCov | None = None
    inner: Procedure[CentredResult[Result]]

    @classmethod
    def build(
        cls, whole: Allotment, shares: dict[str, float], inner: Procedure[CentredResult[Result]]
    ) -> Self:
        """Build it at the shares of a budget that `missing_shares` returns."""
        pairs: GaussCov | WishartCov | None = None
        if "pairs" in shares:
            step = part(whole, shares["pairs"])
            if isinstance(step, Pure):
                pairs = WishartCov(epsilon=step.epsilon, clean=False)
            else:
                pairs = GaussCov(mu=step.mu)
        mean = PrivateMean(noise=vector_noise(part(whole, shares["present"])))
        return cls(shares=mean, pairs=pairs, inner=inner)

    def cost(self) -> Cost:
        """Return the cost of all steps, composed."""
        pairs = () if self.pairs is None else (self.pairs.cost(),)
        return compose(self.shares.cost(), *pairs, self.inner.cost())

    def run(self, source: RowSource, start: Clip, gate: Gate) -> CentredResult[Result]:
        """Read the rows once or twice more than ``inner``."""
        marks = source.map(CellPresence(start))
        half = Clip(row_norm=CellPresence.reach(source.n_columns), on_invalid="zero")
        noisy = gate.draw(self.shares, total(marks, half, gate.adjacency))
        present = _shares(noisy, source.n_columns)
        found = PairShares(present, np.full(present.size, _deviation(noisy)))
        if self.pairs is not None:
            moment = second_moment(marks, half, gate.adjacency)
            assert moment.count is not None  # public, or pairs are not measured
            gram = gate.draw(self.pairs, moment)
            found = found.with_gram(
                gram.matrix,
                gram.noise_scale / math.sqrt(2),
                0.5 + noisy.offset,
                rows=moment.count,
                quantile=self.shares.noise.quantile,
            )
        about = replace(start, present=present, pairs_present=found)
        released = self.inner.run(source, about, gate)
        if released.present is not None:
            return released
        return replace(released, present=present, pairs_present=found)


def _deviation(noisy: NoisyMean) -> float:
    """Return the standard deviation of the noise on the share of one column."""
    return float((noisy.squared_error / noisy.offset.size) ** 0.5)


def _shares(noisy: NoisyMean, columns: int) -> NDArray[np.float64]:
    """Clip shares to what noise leaves open, drawn together by as much as noise sets them apart."""
    deviation = _deviation(noisy)
    found = 0.5 + noisy.offset
    common = float(found.mean())
    spread = float(np.mean((found - common) ** 2))
    own = max(0.0, 1 - deviation**2 / spread) if spread > 0 else 0.0
    least = min(1.0, max(MIN_SHARE, _CLEAR * deviation * max(own, columns**-0.5)))
    return np.clip(common + own * (found - common), least, 1.0)
