"""Whether a source gives the same rows whenever it is read.

Noise is calibrated to one table. Were the rows others in a second reading, one record could be in
it twice, or several times under the groups of others. So every full reading of what does not lie in
memory is summed up in integers, and compared with the first one.

A row's hash is a sum of its entries, each folded to 64 bits and times an odd number of its column,
mixed. Hashes are added up, modulo 2^64: alone, which does not depend on the order of rows, and
mixed with their places, which does. The hash has no key: it notices accidents, not a source made
to have two tables of the same sums.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.compiled import row_bits
from eigenveil.data.sources.stored import changed

__all__ = ["Fingerprint", "Readings", "row_hashes"]

_ENTRIES = 1 << 18  # hashed at a time: they stay in cache
_STEP = np.uint64(0x9E3779B97F4A7C15)  # from one place, column or unit to the next
_HALF = np.uint64(32)


class Fingerprint:
    """Sums over the rows of one reading. Private."""

    def __init__(self) -> None:
        self._rows = 0
        self._sums = np.zeros(2, dtype=np.uint64)  # whatever the order, and of places

    def add(self, table: NDArray[Any], owners: NDArray[np.intp] | None = None) -> None:
        """Add the next rows, and the numbers of their units where they have some."""
        size = max(1, _ENTRIES // table.shape[1])
        for start in range(0, len(table), size):
            part = slice(start, start + size)
            hashes = row_hashes(table[part])
            if owners is not None:
                hashes = _mixed(hashes + owners[part].astype(np.uint64) * _STEP)
            places = np.arange(self._rows, self._rows + len(hashes), dtype=np.uint64)
            self._rows += len(hashes)
            self._sums += np.array([hashes.sum(), _mixed(hashes + places * _STEP).sum()])

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Number of rows, sum in any order, sum in this order."""
        return np.array([self._rows, *self._sums.view(np.int64)])


class Readings:
    """Compares every full reading of a source with the first one.

    Attributes
    ----------
    first : array, optional
        Numbers of its fingerprint. Private.
    in_order : bool
        Whether rows must come in the same order: ids or kinds lie beside them.

    """

    def __init__(self, first: NDArray[np.int64] | None = None) -> None:
        self.first = first
        self.in_order = False

    def compared(self, tables: Iterator[NDArray[Any]]) -> Iterator[NDArray[Any]]:
        """Yield tables, which are compared after the last one."""
        found = Fingerprint()
        for table in tables:
            found.add(table)
            yield table
        self.compare(found.numbers)

    def compare(self, found: NDArray[np.int64]) -> None:
        """Refuse a reading that found other rows than the first one."""
        if self.first is None:
            self.first = found
        compared = None if self.in_order else -1
        if not np.array_equal(found[:compared], self.first[:compared]):
            raise changed()


def row_hashes(table: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a hash of each row as it is read: of float64, with one zero and one NaN."""
    weights = _weights(table.shape[1])
    known = row_bits(table, weights)
    if known is not None:
        return _mixed(known)
    with np.errstate(all="ignore"):  # a warning would depend on the records
        values = np.add(table, 0.0, dtype=np.float64)  # -0.0 becomes 0.0
    values[np.isnan(values)] = np.nan
    bits = values.view(np.uint64)
    bits ^= bits >> _HALF  # whole numbers are zero in their low bits, and products would stay so
    return _mixed(bits @ weights)


@lru_cache(maxsize=4)
def _weights(columns: int) -> NDArray[np.uint64]:
    """Return an odd number for each column."""
    return _mixed(np.arange(1, columns + 1, dtype=np.uint64) * _STEP) | np.uint64(1)


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return other numbers, each bit of which depends on all bits of one (splitmix64)."""
    mixed = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
