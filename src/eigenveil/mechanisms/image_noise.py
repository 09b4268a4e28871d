r"""The noise of a basis and its noisy image, and what it leaves of components.

.. math:: \mathrm{Var}(E_{il}) \le \sigma^2 s_i s_l, \qquad
          |v'Ev| \le \Bigl(\sum_i s_i v_i^2\Bigr) |G|

for every unit vector v, with G noise of the same variance everywhere: E = S^{1/2} G S^{1/2} with
S = diag(s). The noise of a column grows where it is divided by a small scale, so that one number
for all columns would understate it there or overstate it everywhere else.
Proof: docs/proofs/streaming.md.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigenveil.mechanisms.components import beyond_bulk

_CHASED = 1.4  # how far above its largest singular value steps raise noise that they follow
_APART = 2.0  # times what noise raises a component by, from which on the next one is another
_ONE_COLUMN = 3.0  # noise standard deviations of one variance, which no other column adds to


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImageNoise:
    """Noise of a basis and its noisy image, as an estimate of a symmetric matrix.

    Attributes
    ----------
    variance : float
        Of an entry off the diagonal, of columns with the noise share 1.
    spread : array of shape (d,)
        Noise shares s of the columns.

    """

    variance: float
    spread: NDArray[np.float64]

    @classmethod
    def even(cls, variance: float, d: int) -> "ImageNoise":
        """Return the same noise for all columns."""
        return cls(variance=variance, spread=np.ones(d))

    @property
    def largest(self) -> float:
        """Largest mean variance of the entries of a row."""
        return self.variance * float(self.spread.max() * self.spread.mean())

    @property
    def on_diagonal(self) -> NDArray[np.float64]:
        """Noise standard deviations of the diagonal, whose variance is twice that of others."""
        return math.sqrt(2 * self.variance) * self.spread

    def floor(self, columns: int) -> float:
        """Return the eigenvalue that noise alone rarely exceeds, for a basis of so many columns."""
        of_all = _CHASED * self._norm(self.largest, columns)
        return max(of_all, _ONE_COLUMN * float(self.on_diagonal.max()))

    def reliability(
        self, basis: NDArray[np.float64], values: NDArray[np.float64], k: int, trace: float
    ) -> NDArray[np.float64]:
        """Return the squared cosines that the noise leaves to k components.

        ``values`` are along the columns of the basis. Zero for a component that is not above the
        mean of itself and all smaller ones by as much as noise alone would raise it. Zero too
        inside the bulk of the others, where all are known, unless it stands as far from the next
        one. Otherwise each other direction turns it by noise over their gap. Where the last column
        of the basis stands out as well, more such directions may lie outside: all are then taken to
        be where it is, and a component has to stand out from there.
        """
        d, p = basis.shape
        leading = values[:k]
        along = self.spread @ basis**2
        raised = np.minimum(_CHASED * self._norm(self.variance, p) * along, self.floor(p))
        before = np.append(0.0, np.cumsum(values)[: k - 1])
        clear = leading > (trace - before) / (d - np.arange(k)) + raised[:k]
        outside = max(0.0, trace - float(values.sum())) / max(1, d - p)
        if k < p == d:
            apart = leading - values[k] > _APART * raised[:k]
            clear &= apart | beyond_bulk(leading, trace, float(values @ values), d)
        elif k < p and values[-1] > outside + raised[-1] / _CHASED:
            outside = float(values[-1])
            clear &= leading > outside + raised[:k]
        beside = (self.spread.sum() - along.sum()) / max(1, d - p)
        others = np.append(values[k:], np.full(d - p, outside))
        noise = np.append(along[k:], np.full(d - p, beside))
        variances = self.variance * np.outer(along[:k], noise)
        gaps = np.maximum(leading[:, None] - others, np.sqrt(variances))
        turned = np.sum(variances / gaps**2, axis=1)
        return np.where(np.logical_and.accumulate(clear), 1 / (1 + turned), 0.0)

    def _norm(self, variance: float, columns: int) -> float:
        """Return the largest singular value of the image of even noise."""
        return math.sqrt(variance) * (math.sqrt(self.spread.size) + math.sqrt(columns))
