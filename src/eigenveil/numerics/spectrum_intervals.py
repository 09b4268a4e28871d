r"""Intervals of the eigenvalues of a covariance that was released with additive noise.

.. math:: Y^* = \Lambda^{1/2} W \Lambda^{1/2} + N

is a simulated release of a table with eigenvalues :math:`\Lambda`, in the basis of its
eigenvectors: W is a Wishart matrix of mean I, N the noise. Noise pushes eigenvalues apart, the more
the closer they are. How far one is off depends on its neighbours, which are not known, so a
bootstrap of one spectrum misses. A test is inverted instead (Carpenter 1999): an end of the
interval of the i-th eigenvalue is the t for which the observed one is a quantile of the simulated
ones, with :math:`\lambda_i = t` and neighbours whose simulated means are the observed ones, as far
as their order allows.

Fixed-point steps find all ends together, on the same draws. Each end sees a window of neighbours;
what eigenvalues outside it add is taken from the whole matrix of each draw.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["SimulatedSpectra"]

_WINDOW = 7  # eigenvalues that are moved together
_STEPS = 8

Matrix = NDArray[np.float64]


class SimulatedSpectra:
    """Collect draws of a release, and find the ends of intervals from them.

    Parameters
    ----------
    observed, described : arrays of shape (d,)
        Ascending eigenvalues of the release, and of the covariance that draws are made from.

    """

    def __init__(self, observed: Matrix, described: Matrix) -> None:
        d = observed.size
        first = np.clip(np.arange(d) - _WINDOW // 2, 0, max(0, d - _WINDOW))
        self._members = first[:, None] + np.arange(min(d, _WINDOW))
        self._observed, self._described = observed, described
        self._values: list[Matrix] = []
        self._blocks: tuple[list[Matrix], list[Matrix]] = ([], [])

    def add(self, values: Matrix, wishart: Matrix, noise: Matrix) -> None:
        """Add a draw: its ascending eigenvalues, W and N in the basis of what is described."""
        self._values.append(values)
        rows, columns = self._members[:, :, None], self._members[:, None, :]
        for blocks, matrix in zip(self._blocks, (wishart, noise), strict=True):
            blocks.append(matrix[rows, columns])

    def ends(self, tails: Sequence[float]) -> Matrix:
        """Return the ends of the intervals that leave out these tails, of shape (d, 2)."""
        members, observed = self._members, self._observed
        each = np.arange(observed.size)
        own = each - members[:, 0]
        target, start = observed[members], self._described[members]
        wishart, noise = (np.array(blocks) for blocks in self._blocks)
        simulated = np.array(self._values)

        def values(spectra: Matrix) -> Matrix:
            roots = np.sqrt(spectra)
            inside = wishart * (roots[:, :, None] * roots[:, None, :]) + noise
            return np.asarray(np.linalg.eigvalsh(inside))

        outside = simulated[:, members] - values(start)
        ends = []
        for tail in (1 - tails[0], 1 - tails[1]):
            off = np.quantile(simulated - self._described, tail, axis=0, method="weibull")
            end, spectra = np.maximum(observed - off, 0.0), start
            for _ in range(_STEPS):
                spectra = _ordered(spectra, own, end)
                found = values(spectra) + outside
                level = np.quantile(found[:, each, own], tail, axis=0, method="weibull")
                end = np.maximum(end + observed - level, 0.0)
                spectra = spectra + target - found.mean(axis=0)
            ends.append(end)
        return np.stack(ends, axis=-1)


def _ordered(spectra: Matrix, own: NDArray[np.intp], end: Matrix) -> Matrix:
    """Return ascending spectra that have ``end`` at their own places."""
    ascending = np.maximum.accumulate(np.maximum(spectra, 0.0), axis=1)
    place = np.arange(spectra.shape[1]) - own[:, None]
    low, high = np.where(place < 0, 0.0, end[:, None]), np.where(place > 0, np.inf, end[:, None])
    return np.clip(ascending, low, high)
