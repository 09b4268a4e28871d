r"""Products of records with a few columns, coordinate by coordinate: bins and boxes.

Source: Düngler, Sanyal [kPCA], Algorithm 5; Liu, Kong, Jain, Oh [DPPCA], Algorithm 5.

Entries of AQ are counted in bins of one public width, each coordinate on its own: a replaced record
moves two counts of every coordinate by one. For the mean, entries are cut off at a box about a
released centre and rounded to 2^-30 of its half-width; inside the box two records are at most
2 sqrt(dk) half-widths apart, and rounding does not lead out of it.
Proof: docs/proofs/truncated_mean.md.
"""

import math

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.spreads import FINEST, outside_blocks
from eigenveil.exact.basis_products import BasisProduct
from eigenveil.exact.batches import Records
from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import Clip
from eigenveil.exceptions import InvalidParameterError
from eigenveil.numerics.integers import ExactSum, FixedPoint
from eigenveil.privacy.adjacency import Adjacency

__all__ = ["box_sum", "coordinate_counts", "split_bins"]

_BIN_BITS = 32  # of the number of a bin; those of the coordinate come before
_ENTRY_BITS = 30  # of an entry, relative to the half-width of the box


def coordinate_counts(
    records: Records,
    clip: Clip,
    view: BasisProduct,
    adjacency: Adjacency,
    width: float,
    away: NDArray[np.float64],
) -> Bounded:
    """Return records by the bin of every entry, [j w, (j+1) w); of bins that are not empty."""
    relative = width / clip.radius**2
    if not relative >= FINEST:
        raise InvalidParameterError("bins are too narrow for the squared row norm")
    coordinates = np.arange(view.basis.size, dtype=np.int64) << _BIN_BITS
    coordinates += 1 << (_BIN_BITS - 1)
    found, counts = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    for block in outside_blocks(records, clip, view, away):
        bins = np.floor(block.reshape(len(block), -1) / relative).astype(np.int64)
        some, each = np.unique(bins + coordinates, return_counts=True)
        found, places = np.unique(np.concatenate([found, some]), return_inverse=True)
        counts = np.bincount(places, weights=np.concatenate([counts, each])).astype(np.int64)
    return Bounded(
        value=FixedPoint(counts, 0),
        sensitivities={"l1": 2.0 * view.basis.size, "linf": 1.0},
        adjacency=adjacency,
        unit=width,
        count=len(records.records),
        exact=clip.transform is None,
        records=records.records,
        bins=found,
    )


def split_bins(bins: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Coordinates, and numbers of bins in them."""
    coordinates = bins >> _BIN_BITS
    return coordinates, bins - (coordinates << _BIN_BITS) - (1 << (_BIN_BITS - 1))


def box_sum(
    records: Records,
    clip: Clip,
    view: BasisProduct,
    adjacency: Adjacency,
    half_width: float,
    away: NDArray[np.float64],
) -> Bounded:
    """Sum of AQ - C, entries cut off at the half-width; its `unit` makes it the mean."""
    bound = clip.radius**2
    centre = np.zeros(view.basis.shape) if view.centre is None else view.centre / bound
    scale = 2.0**_ENTRY_BITS / (half_width / bound)
    sums = ExactSum(*view.basis.shape)
    for block in outside_blocks(records, clip, view, away):
        entries = np.clip((block - centre) * scale, -(2.0**_ENTRY_BITS), 2.0**_ENTRY_BITS)
        here = sums.holding(len(entries) << _ENTRY_BITS)
        here += np.rint(entries).astype(np.int64).sum(axis=0)
    return Bounded(
        value=FixedPoint(sums.total(), -_ENTRY_BITS),
        sensitivities={"l2": 2 * math.nextafter(math.sqrt(view.basis.size), math.inf)},
        adjacency=adjacency,
        unit=half_width / len(records.records),
        count=len(records.records),
        exact=clip.transform is None,
        records=records.records,
    )
