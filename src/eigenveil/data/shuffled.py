r"""Records in a secret random order, one product after the other.

A record is a symmetric matrix A in the unit ball, of rows A = xx'. For a unit vector w, chosen from
earlier releases, a step sees Aw, or its part beside released directions.

For rows, Aw = x (x'w) lies in the ball of diameter 1 about w/2, whatever x is: replacing one row
moves it by at most 1. A general matrix has its product pulled in to the unit ball: 2.
Proof: docs/proofs/shuffled_oja.md.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.basis_products import BasisProduct
from eigenveil.exact.batches import Records
from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import BLOCK_BYTES, FRACTION_BITS, Clip
from eigenveil.exact.updates import update_blocks, update_sum
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.rows.matrices import MatrixBatch
from eigenveil.rows.memory import Batch

__all__ = ["Product", "ShuffledRecords", "beside", "shuffled_records"]

Product = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def beside(away: NDArray[np.float64], vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Vectors, or rows of them, less their part along the orthonormal rows of ``away``."""
    return np.asarray(vectors - (vectors @ away.T) @ away)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ShuffledRecords(Bounded):
    """Records whose products are seen one at a time; ``sensitivities`` are those of one product.

    ``value`` is the exact sum of Aw over all records at w = ``start``, and names the table.

    Attributes
    ----------
    start : array of shape (d,)
        A unit vector beside ``away``. Public.
    away : array of shape (j, d)
        Orthonormal rows that were released before.
    in_order : callable
        For one record after the other, the function from unit vectors w beside ``away`` to Aw
        beside it, in units of the ball. Private.

    """

    start: NDArray[np.float64]
    away: NDArray[np.float64]
    in_order: Callable[[], Iterator[Product]]


def shuffled_records(
    records: Records,
    clip: Clip,
    start: NDArray[np.float64],
    away: NDArray[np.float64],
    order: NDArray[np.intp],
    adjacency: Adjacency,
) -> ShuffledRecords:
    """Return the records in a random order, secret and independent of them."""
    view = BasisProduct(start[:, None])
    first = update_sum(records, clip, view, adjacency)
    sensitivity = first.sensitivity("l2")  # of products of matrices, which are pulled in
    if records.holds_matrices:
        in_order = partial(_matrices, records, clip, away, order)
    else:
        # With what rounding x'w to 2^-b adds to the first sum.
        sensitivity = 1 + view.skew + 2.0**-FRACTION_BITS
        in_order = partial(_rows, records, clip, away, order)
    return ShuffledRecords(
        value=first.value,
        sensitivities={"l2": sensitivity},
        adjacency=adjacency,
        unit=clip.radius**2,
        count=len(order),
        exact=False,  # products are floats
        records=records.records,
        start=start,
        away=away,
        in_order=in_order,
    )


def _rows(
    batch: Batch, clip: Clip, away: NDArray[np.float64], order: NDArray[np.intp]
) -> Iterator[Product]:
    size = max(1, BLOCK_BYTES // (8 * batch.n_columns))
    for first in range(0, len(order), size):
        rows = batch.array[order[first : first + size]]
        integers = np.empty(rows.shape)
        clip.to_integers(rows, integers)
        # Beside what is released already: PAPw = (Px)(Px)'w for w = Pw.
        for row in beside(away, integers * 2.0**-FRACTION_BITS):
            yield partial(_rank_one, row)


def _rank_one(row: NDArray[np.float64], w: NDArray[np.float64]) -> NDArray[np.float64]:
    return row * (row @ w)


def _matrices(
    batch: MatrixBatch, clip: Clip, away: NDArray[np.float64], order: NDArray[np.intp]
) -> Iterator[Product]:
    def product(i: int, w: NDArray[np.float64]) -> NDArray[np.float64]:
        (block,) = update_blocks(batch.slice(i, i + 1), clip, BasisProduct(w[:, None]))
        return beside(away, block[0, :, 0]) / clip.radius**2

    for i in order.tolist():
        yield partial(product, i)
