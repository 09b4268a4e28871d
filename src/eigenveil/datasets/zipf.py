"""Rows whose norms follow Zipf's law.

Source: Dong, Liang, Yi 2022 [CovRev], section 6.1: X = Z U with Z standard normal and U uniform
on [0, 1], centred, scaled to unit norm, then divided into N bins: the k-th holds a share of rows
proportional to 1/k^s and gives them norm 2^(k - N). N = 1 is the case of unit norms.
"""

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidParameterError

__all__ = ["zipf_norms"]


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
