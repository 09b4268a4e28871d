r"""Made-up rows of the papers: Zipf norms, and records about a few leading directions.

Source: Dong, Liang, Yi 2022 [CovRev], section 6.1: X = Z U with Z standard normal and U uniform
on [0, 1], centred, scaled to unit norm, then divided into N bins: the k-th holds a share of rows
proportional to 1/k^s and gives them norm 2^(k - N). N = 1 is the case of unit norms.

Sources: Düngler, Sanyal [kPCA], Appendix F.1 (`SpikedSigns` for k = 1, `SpikedMatrices` for k > 1),
and the Gaussian model of section 4 there and of Cai, Xia, Zha 2024 (`SpikedGaussian`):

* signs: x = +-lambda v + z, so that the leading eigenvalue of E[xx'] is lambda^2 + sigma^2;
* matrices: A = V L V' + zz', whose leading part is the same in all records;
* Gaussian: x = V L^(1/2) g + z, with g standard normal;

z of independent N(0, sigma^2), V a random basis. All are drawn chunk by chunk, and drawn again, the
same, every time they are read.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidParameterError


def zipf_norms(
    n: int, d: int, bins: int = 1, *, seed: int, skewness: float = 3.0
) -> NDArray[np.float64]:
    """Return a table of ``n`` rows and ``d`` columns, rows at most of norm one."""
    if min(n, d, bins) < 1:
        raise InvalidParameterError("n, d and bins must be positive")
    generator = np.random.default_rng(seed)
    mixing = generator.uniform(size=(d, d))
    rows = generator.standard_normal((n, d)) @ mixing
    rows -= rows.mean(axis=0)
    norms = np.linalg.norm(rows, axis=1)
    rows /= np.where(norms > 0, norms, 1.0)[:, None]
    shares = np.arange(1, bins + 1) ** -skewness
    last = np.ceil(n * np.cumsum(shares) / shares.sum())  # rows up to and including each bin
    bin_of_row = 1 + np.searchsorted(last, np.arange(n), side="right").clip(max=bins - 1)
    return np.asarray(rows * 2.0 ** (bin_of_row - bins)[:, None])


_CHUNK_RECORDS = 4096  # records
_OWN = 6  # first word of all seeds: a start drawn from the same seed must not be the basis


@dataclass(frozen=True, eq=False)
class SpikedChunk:
    """Some matrices V L V' + zz', none of which is formed."""

    basis: NDArray[np.float64]
    spikes: NDArray[np.float64]
    noise: NDArray[np.float64]  # z, one row for each record

    def __len__(self) -> int:
        return len(self.noise)

    def __getitem__(self, which: slice) -> "SpikedChunk":
        return SpikedChunk(self.basis, self.spikes, self.noise[which])

    def times(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Products with the columns of a (d, p) array: (len, d, p)."""
        products = self.noise[:, :, None] * (self.noise @ columns)[:, None, :]
        products += (self.basis * self.spikes) @ (self.basis.T @ columns)
        return products

    def diagonals(self) -> NDArray[np.float64]:
        """Return the diagonals of the matrices, one row for each."""
        return np.asarray(self.basis**2 @ self.spikes + self.noise**2)

    def total(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum of the matrices with the weights."""
        leading = (self.basis * self.spikes) @ self.basis.T
        return np.asarray(weights.sum() * leading + (self.noise.T * weights) @ self.noise)


@dataclass(frozen=True)
class _Spiked(ABC):
    """``n`` records in ``d`` dimensions; ``spikes`` are lambda_1 and so on, ``noise`` is sigma."""

    n: int
    d: int
    spikes: tuple[float, ...]
    noise: float
    seed: int

    def __post_init__(self) -> None:
        if min(self.n, self.d) < 1 or not 1 <= len(self.spikes) <= self.d:
            raise InvalidParameterError("n and d must be positive, with 1 to d spikes")
        if min(self.spikes) <= 0 or self.noise < 0:
            raise InvalidParameterError("spikes must be positive and noise must not be negative")

    @cached_property
    def basis(self) -> NDArray[np.float64]:
        """V, the true subspace: an array of shape (d, k)."""
        generator = np.random.default_rng([_OWN, self.seed])
        return np.linalg.qr(generator.standard_normal((self.d, len(self.spikes))))[0]

    def __iter__(self) -> Iterator[Any]:
        for index, start in enumerate(range(0, self.n, _CHUNK_RECORDS)):
            generator = np.random.default_rng([_OWN, self.seed, 1 + index])
            yield self._chunk(min(_CHUNK_RECORDS, self.n - start), generator)

    @abstractmethod
    def _chunk(self, size: int, generator: np.random.Generator) -> Any:
        """Return a chunk of records."""

    def _noise(self, size: int, generator: np.random.Generator) -> NDArray[np.float64]:
        return self.noise * generator.standard_normal((size, self.d))


class SpikedMatrices(_Spiked):
    """Chunks of matrices V L V' + zz', for `MatrixSource`."""

    def _chunk(self, size: int, generator: np.random.Generator) -> SpikedChunk:
        return SpikedChunk(self.basis, np.array(self.spikes), self._noise(size, generator))


class SpikedSigns(_Spiked):
    """Chunks of rows at random signs of one vector of length lambda, and noise."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.spikes) != 1:
            raise InvalidParameterError("signs have one spike: take SpikedMatrices for more")

    def _chunk(self, size: int, generator: np.random.Generator) -> NDArray[np.float64]:
        signs = generator.choice([-1.0, 1.0], size)
        rows = np.outer(signs * self.spikes[0], self.basis[:, 0])
        return rows + self._noise(size, generator)


class SpikedGaussian(_Spiked):
    """Chunks of normal rows with covariance V L V' + sigma^2 I."""

    def _chunk(self, size: int, generator: np.random.Generator) -> NDArray[np.float64]:
        scores = generator.standard_normal((size, len(self.spikes))) * np.sqrt(self.spikes)
        return np.asarray(scores @ self.basis.T + self._noise(size, generator))
