r"""The second moment of wide tables, as products with blocks of columns.

A d x d matrix of 200,000 columns would fill 320 GB. Its products with a few columns need the rows
only: :math:`(\sum x x') Q = \sum x (x'Q)`, one pass over them for each block Q.

The rows are the integers of `Clip`, so the sensitivities are those of the unit ball. Products are
sums in float64, whose rounding is far below any noise (at most about n d 2^-53, against noise of
at least about 1) but not nothing: they are not declared exact. In float32 it would not be: up to
n 2^-24 in units of the sensitivity.
"""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import BLOCK_BYTES, FRACTION_BITS, Clip
from eigenveil.exact.gram import (
    Tally,
    integer_blocks,
    limit_rows,
    moment_sensitivities,
    require_rows,
)
from eigenveil.exceptions import InvalidDataError, UnsupportedNotionError
from eigenveil.messages import REPLACE_ONE, option
from eigenveil.numerics.array_backend import HOST, Place
from eigenveil.numerics.integers import ExactSum, FixedPoint, in_all
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.rows.base import HeldRows, RowSource

_KEPT_BYTES = 1 << 32  # of rows as float32, which holds integers of up to 24 bits exactly
_ROWS = 32  # at a time at least: fewer make products slow, more leave the cache
_GROUPS = 8  # of columns, each multiplied by one thread
_TOGETHER = 64  # kept rows, of which some columns are multiplied at a time


def can_keep(n: int, d: int) -> bool:
    """Return whether so many rows are kept, so that they need be read once only."""
    return 4 * n * d <= _KEPT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MomentProducts(Bounded):
    """The sum of x x' over clipped rows, for `second_moment` where it is too large to hold.

    ``value`` is its diagonal alone, exact; the sensitivities are those of the whole matrix.

    Attributes
    ----------
    fingerprint : array
        Sum of the rows, each times a hash of itself: tells apart tables whose matrices have the
        same diagonal. Private; seeds of simulations are bound to it.
    blocks : callable
        Integer rows, a block at a time, each time anew. Private.
    place : Place
        Where they lie, and columns that they are multiplied with.

    """

    fingerprint: NDArray[np.int64]
    blocks: Callable[[], Iterator[Any]]
    place: Place = HOST

    @property
    def trace(self) -> float:
        """Trace of the matrix, exact up to its last rounding. Private."""
        return math.ldexp(in_all(self.value.units), self.value.exponent)

    def times(self, block: Any) -> Any:
        """Return the matrix times the columns of ``block``, in the units of `value`. Private."""
        across = np.ascontiguousarray(block.T) if self.place is HOST else block.T
        total = 0.0 * across
        if self.place is HOST:
            with _one_thread_each() as workers:
                for rows in self.blocks():
                    _add_product(rows, across, total, workers)
        else:
            for rows in self.blocks():
                total += (across @ rows.T) @ rows
        total *= math.ldexp(1.0, self.value.exponent)
        return total.T


def moment_products(source: RowSource, clip: Clip, adjacency: Adjacency) -> MomentProducts:
    """`second_moment`, of which nothing but products is ever computed.

    Rows that fill at most 4 GiB as float32 are kept; more are read again for every product. Where
    they cannot be, too many are refused, which only a public number of rows allows.
    """
    if not (source.rereadable or adjacency.count_is_public):
        raise UnsupportedNotionError(
            "wide rows that can be read only once need a public number of rows: pass an array or a "
            "file, or choose ",
            REPLACE_ONE,
        )
    d = clip.width(source.n_columns)
    held = source.held(clip)
    if held is not None:
        return _statistic(source, clip, adjacency, held)
    weights = fingerprint_weights(d)
    squares = ExactSum(d)
    fingerprint = np.zeros(d, dtype=np.int64)
    kept: _KeptRows | None = _KeptRows(d)
    tally = Tally(source)
    rows = 0
    for block in integer_blocks(source, clip, at_least=_ROWS):
        tally.add(block)
        integers = block.integers
        rows += len(integers)
        # Sums over one block are 2**53 at most: exact.
        here = squares.holding(len(integers) << 2 * FRACTION_BITS)
        here += np.einsum("ij,ij->j", integers, integers).astype(np.int64)
        fingerprint += (row_hashes(integers @ weights) @ integers).astype(np.int64)
        if kept is not None and not can_keep(rows, d):
            kept = None
            if not source.rereadable:
                raise InvalidDataError(
                    "these rows can be read only once and are too many to keep: pass an array or "
                    "a file, or choose ",
                    option("mechanism", "oja"),
                )
        if kept is not None:
            kept.add(integers)
    blocks = _reading(source, clip) if kept is None else kept.blocks
    held = HeldRows(squares.total(), fingerprint, tally.units, blocks)
    return _statistic(source, clip, adjacency, held)


def _statistic(
    source: RowSource, clip: Clip, adjacency: Adjacency, held: HeldRows
) -> MomentProducts:
    units = limit_rows(held.units, source.n_columns)
    replace = adjacency is Adjacency.REPLACE_ONE
    return MomentProducts.over(
        source,
        value=FixedPoint(held.squares, -2 * FRACTION_BITS),
        sensitivities=moment_sensitivities(held.squares.size, adjacency),
        adjacency=adjacency,
        unit=clip.radius**2 / (require_rows(units) if replace else 1),
        count=units if replace else None,
        exact=False,
        centre_error=clip.centre_error,
        trace_bound=clip.radius**2 if replace else math.inf,
        fingerprint=held.fingerprint,
        blocks=held.blocks,
        place=held.place,
    )


def fingerprint_weights(d: int) -> NDArray[np.float64]:
    """Return what entries of a row are multiplied with before its hash is taken."""
    return np.asarray(np.rint(np.cos(np.arange(d) ** 2.0) * 2.0**20))


def row_hashes(products: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sixteen bits of each whole number, and never zero."""
    mixed = products.astype(np.int64).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(48)).astype(np.float64) + 1.0


class _KeptRows:
    """Integer rows as float32, some in one piece: sources of long rows have few at a time."""

    def __init__(self, d: int) -> None:
        self._d = d
        self._pieces: list[NDArray[np.float32]] = []
        self._rows = 0

    def add(self, integers: NDArray[np.float64]) -> None:
        """Keep rows."""
        while len(integers):
            used = self._rows % _TOGETHER
            if used == 0:  # the operating system gives memory as it is filled
                self._pieces.append(np.empty((_TOGETHER, self._d), dtype=np.float32))
            taken = integers[: _TOGETHER - used]
            self._pieces[-1][used : used + len(taken)] = taken
            self._rows += len(taken)
            integers = integers[len(taken) :]

    def blocks(self) -> Iterator[NDArray[np.float32]]:
        """Yield the rows."""
        for first, piece in zip(range(0, self._rows, _TOGETHER), self._pieces, strict=True):
            yield piece[: self._rows - first]


@lru_cache(maxsize=1)
def _libraries() -> ThreadpoolController:
    """Return the libraries that may multiply in several threads; to look for them takes long."""
    return ThreadpoolController()


@contextmanager
def _one_thread_each() -> Iterator[ThreadPoolExecutor]:
    """Give as many workers as BLAS has threads, which multiplies in one of them for each.

    Its own threads wait for one another after every small product.
    """
    blas = _libraries().select(user_api="blas")
    threads = max((library["num_threads"] for library in blas.info()), default=1)
    with blas.limit(limits=1), ThreadPoolExecutor(min(threads, _GROUPS)) as workers:
        yield workers


def _add_product(
    rows: NDArray[Any],
    across: NDArray[np.float64],
    total: NDArray[np.float64],
    workers: ThreadPoolExecutor,
) -> None:
    """Add ``across @ rows.T @ rows`` to ``total``, for columns that stay in cache at a time.

    In float64, which rows that are kept in float32 become there. Columns are grouped in the same
    way for any number of workers, so that the sum does not depend on it.
    """
    n, d = rows.shape
    size = max(1, BLOCK_BYTES // (8 * max(1, n)))
    starts = range(0, d, size)
    groups = [
        starts[i * len(starts) // _GROUPS : (i + 1) * len(starts) // _GROUPS]
        for i in range(_GROUPS)
    ]

    def widened(group: range) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        wide = np.empty((n, min(size, d)))
        for start in group:
            part = slice(start, min(start + size, d))
            wider = wide[:, : part.stop - start]
            wider[...] = rows[:, part]
            yield part, wider

    def inside_of(group: range) -> NDArray[np.float64]:
        sums = np.zeros((len(across), n))
        for part, wider in widened(group):
            sums += across[:, part] @ wider.T
        return sums

    inside = sum(workers.map(inside_of, groups), np.zeros((len(across), n)))

    def add(group: range) -> None:
        for part, wider in widened(group):
            total[:, part] += inside @ wider

    list(workers.map(add, groups))  # whose errors show


def _reading(source: RowSource, clip: Clip) -> Callable[[], Iterator[NDArray[np.float64]]]:
    return lambda: (block.integers for block in integer_blocks(source, clip, at_least=_ROWS))
