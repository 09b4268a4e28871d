r"""How far products of records with a few columns spread, block of records by block.

Source: Düngler, Sanyal [kPCA], Algorithm 4, lines 1 to 14.

Consecutive records are paired; the difference of a pair has mean zero and twice the covariance. A
block of b pairs has for every column q the second moment

.. math:: \frac{1}{2b} \sum_i g_i g_i', \qquad g_i = (A_{2i} - A_{2i-1})\, q,

and its value is the largest eigenvalue over all columns, at most 2 R^4 for records of norm R^2.
Values are counted in quarter octaves from there down. A record is in one pair of one block, so
replacing it moves one value. Proof: docs/proofs/spread.md.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.basis_products import BasisProduct
from eigenveil.exact.batches import Records
from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import Clip
from eigenveil.exact.updates import update_blocks
from eigenveil.exceptions import InvalidDataError
from eigenveil.numerics.integers import FixedPoint
from eigenveil.privacy.adjacency import Adjacency

__all__ = ["FINEST", "ZERO_SPREAD", "outside_blocks", "quarter_octave", "spread_counts"]

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
    return Bounded(
        value=FixedPoint(counts, 0),
        sensitivities={"l1": 2.0, "linf": 1.0},
        adjacency=adjacency,
        unit=2 * clip.radius**4,
        count=len(records.records),
        exact=clip.transform is None,
        records=records.records,
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
