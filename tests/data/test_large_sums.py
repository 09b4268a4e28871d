"""What is made of sums of tables beyond 2^27 rows, before the noise.

A source says what so many rows would add up to, or one row is shown again and again. Expected are
the numbers of Python's own integers, and that neighbours stay within the declared sensitivity.
"""

import numpy as np
import pytest

from eigenveil.exact import (
    FRACTION_BITS,
    SHARE_BITS,
    BasisProduct,
    Bounded,
    Clip,
    MomentProducts,
    VectorSum,
    compressed_with_rest,
    moment_sensitivities,
)
from eigenveil.exact import basis_products as columns
from eigenveil.numerics import FixedPoint, fitted
from eigenveil.privacy import Adjacency
from eigenveil.rows import IterableSource, Schema, Units

D = 256
ROW_INTEGERS = np.full(D, 2**14 - 4)  # inside the ball, along (1, ..., 1)


class Copies:
    """So many copies of one row, and rows at the centre for the rest."""

    n_columns, units, schema = D, Units(), Schema()

    def __init__(self, copies, rows, view):
        inside = round(float(ROW_INTEGERS @ view.rounded[:, 0]))
        self.sums = fitted((copies * inside * ROW_INTEGERS.astype(object))[:, None])
        self.rows = rows

    def summed(self, what):
        return self.sums.copy(), np.zeros((D, 1), dtype=np.int64), np.array([self.rows, 0])


@pytest.mark.parametrize("copies", [2**20, 393_034_926, 2**29])
def test_columns_outside_a_basis_have_room(copies):
    """Projected on a column near to the rows, one entry grows sixteen times."""
    column = np.eye(D)[:, 0] + np.full(D, 1 / 16)
    view = BasisProduct((column / np.linalg.norm(column))[:, None])
    clip, values = Clip(row_norm=1.0), []
    for here in (copies, copies - 1):
        query = columns.moment_columns(
            Copies(here, copies, view), clip, view, Adjacency.REPLACE_ONE
        )
        values.append(query.value.units.astype(object))
    moved = (values[0] - values[1]).astype(np.float64) * 2.0**query.value.exponent
    assert 0.5 < np.linalg.norm(moved) <= query.sensitivity("l2")


def _axes(n, d):
    """Return the moment of n rows that lie along d axes in turn."""
    units = np.diag([(n // d + (i < n % d)) << 36 for i in range(d)]).astype(object)
    return Bounded(
        value=FixedPoint(fitted(units), -36),
        sensitivities=moment_sensitivities(d, Adjacency.ADD_REMOVE),
        adjacency=Adjacency.ADD_REMOVE,
        unit=1.0,
        count=None,
        exact=True,
    )


@pytest.mark.parametrize("n", [2**20, 2_863_311_530, 2**35])
def test_what_is_left_of_a_trace(n):
    rests = []
    for rows in (n, n + 1):
        query = compressed_with_rest(_axes(rows, 4), np.eye(4)[:, :3])
        rests.append(int(query.value.units[3, 3]) * 2.0**query.value.exponent)
    assert rests[0] == pytest.approx(n / 4, abs=1)
    assert abs(rests[1] - rests[0]) <= query.sensitivity("nuclear")


def test_the_trace_of_products():
    n = (1 << 27) + 4096
    query = object.__new__(MomentProducts)
    diagonal = FixedPoint(np.full(4096, (n << 36) // 4096, dtype=np.int64), -36)
    object.__setattr__(query, "value", diagonal)
    assert query.trace == n


def _shown_again(rows):
    """Return a chunk of so many rows, all of them one in memory."""
    return np.lib.stride_tricks.as_strided(np.ones((1, 1)), (rows, 1), (0, 8), writeable=False)


def _added_up(chunks):
    (total,), (rows, _) = VectorSum(Clip(row_norm=1.0)).of(
        IterableSource(iter(chunks), n_columns=1)
    )
    return int(total), int(rows)


@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize("rows", [2**29 - 1, 2**29, 2**29 + 2**14])
def test_chunks_of_any_size_add_up_exactly(rows, chunks, monkeypatch):
    """A sum of 2^29 rows, shifted by 16 bits, is what int64 cannot hold."""
    one = 1 << FRACTION_BITS
    monkeypatch.setattr(Clip, "sum_of_integers", lambda _, rows: np.array([1.0 * len(rows) * one]))
    expected = chunks * rows * one << SHARE_BITS
    assert _added_up([_shown_again(rows)] * chunks) == (expected, chunks * rows)


@pytest.mark.audit
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "numpy"])
def test_a_chunk_beyond_int64_is_read_and_added_up(compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr("eigenveil.numerics.kernels.library", lambda: None)
    rows = 2**29 + 2**14
    one, _ = _added_up([np.ones((1, 1))])
    assert _added_up([_shown_again(rows)]) == (rows * one, rows)
