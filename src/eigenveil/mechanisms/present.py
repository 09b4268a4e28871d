r"""Empty cells: a private share of present ones by column, then a release that allows for them.

.. math:: \tilde p_j = \tfrac1n |\{i : x_{ij} \text{ is there}\}| + \text{noise}, \qquad
          \tilde m_j = \frac{\text{noisy sum}_j}{n \tilde p_j}, \qquad
          \tilde S_{ij} = \frac{\text{noisy } S_{ij}}{\tilde p_i \tilde p_j}, \quad
          \tilde S_{ii} = \frac{\text{noisy } S_{ii}}{\tilde p_i}

An empty cell lies at the centre, where it adds nothing to a sum; what is left is a sum over present
cells, or over pairs of them. Where cells are missing at random, column by column, the corrected
moments are those of the whole table. Proof: docs/proofs/present.md.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.clip import Clip
from eigenveil.data.gram import total
from eigenveil.data.sources import PresentSource, RowSource
from eigenveil.mechanisms.base import Gate, Procedure
from eigenveil.mechanisms.centred import CentredResult
from eigenveil.mechanisms.mean import NoisyMean, PrivateMean
from eigenveil.privacy.accounting import compose
from eigenveil.privacy.cost import Cost

__all__ = ["PRESENT_SHARE", "Present"]

PRESENT_SHARE = 0.05  # of mu^2, or of a pure epsilon
_LEAST = 0.05  # no column counts as emptier than this
_CLEAR = 4.0  # deviations of the noise below which a share means nothing

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Present(Generic[Result]):
    """First the shares of present cells, then ``inner``. Fields are public, never data."""

    name: ClassVar[str] = "present"
    shares: PrivateMean
    inner: Procedure[CentredResult[Result]]

    def cost(self) -> Cost:
        """Return the cost of both steps, composed."""
        return compose(self.shares.cost(), self.inner.cost())

    def run(self, source: RowSource, start: Clip, gate: Gate) -> CentredResult[Result]:
        """Read the rows once more than ``inner``."""
        cells = PresentSource(source, start)
        half = Clip(row_norm=cells.reach, on_invalid="zero")
        noisy = gate.draw(self.shares, total(cells, half, gate.adjacency))
        present = _shares(noisy, source.n_columns)
        released = self.inner.run(source, replace(start, present=present), gate)
        return released if released.present is not None else replace(released, present=present)


def _shares(noisy: NoisyMean, columns: int) -> NDArray[np.float64]:
    """Clip shares to what noise leaves open, drawn together by as much as noise sets them apart."""
    deviation = (noisy.squared_error / columns) ** 0.5
    found = 0.5 + noisy.offset
    common = float(found.mean())
    spread = float(np.mean((found - common) ** 2))
    own = max(0.0, 1 - deviation**2 / spread) if spread > 0 else 0.0
    least = min(1.0, max(_LEAST, _CLEAR * deviation * max(own, columns**-0.5)))
    return np.clip(common + own * (found - common), least, 1.0)
