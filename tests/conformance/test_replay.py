"""Given the same draws, every table gives the same release.

A run on one table is recorded at the gate and replayed on a neighbour and on an unrelated table.
Whatever a procedure does between its draws must then agree to the last bit: it may read draws and
public numbers only. On the way, the query of every step, not only of the first, is held to its
declared sensitivities.
"""

import numpy as np
import pytest

from eigenveil.mechanisms import Gate
from eigenveil.numerics.random import SimulationSource
from tests.conformance.table import REPLACE, TABLE, dense_counts
from tests.conformance.test_conformance import ADJACENCIES, neighbours, table

D = 4
PAIRS = [
    (np.full(D, 5.0), np.full(D, 1e-9)),
    (np.eye(D)[0], np.eye(D)[1]),
    (np.full(D, 0.5), np.full(D, -0.5)),
    (np.full(D, np.nan), np.full(D, 0.5)),
]


class Tape(Gate):
    """A gate that records its draws, or answers from a record."""

    def __init__(self, *args, record=None, **options):
        super().__init__(*args, **options)
        self.tape = []
        self.record = None if record is None else iter(record)
        self.excess = 0.0  # largest distance of a query, over the sensitivity it declares

    def order(self, n):
        return np.random.default_rng(n).permutation(n)

    def normals(self, *shape):
        if self.record is None:
            self.tape.append(("normals", shape, super().normals(*shape)))
            return self.tape[-1][2]
        name, recorded, answer = next(self.record)
        assert (name, recorded) == ("normals", shape)
        return answer

    def draw(self, step, query):
        if self.record is None:
            answer = super().draw(step, query)
            self.tape.append((step.name, query, answer))
            return answer
        name, recorded, answer = next(self.record)
        assert step.name == name
        self._pay(step, query.records)
        units = [each.value.units for each in (query, recorded)]
        if query.bins is not None:
            filled = np.union1d(query.bins, recorded.bins)
            units = [dense_counts(each, filled) for each in (query, recorded)]
        gap = (units[0] - units[1]) * 2.0**query.value.exponent
        for norm, bound in query.sensitivities.items():
            self.excess = max(self.excess, size(gap, norm) / bound)
        return answer


def size(gap, norm):
    if norm == "nuclear":
        return np.abs(np.linalg.eigvalsh(gap if gap.ndim == 2 else np.diag(gap))).sum()
    if norm == "linf":
        return np.abs(gap).max(initial=0.0)
    if norm == "l1":
        symmetric = gap.shape == (len(gap), len(gap))
        return np.abs(gap[np.triu_indices(len(gap))] if symmetric else gap).sum()
    return np.sqrt((gap**2).sum())


@ADJACENCIES
@pytest.mark.parametrize("case", TABLE, ids=str)
@pytest.mark.parametrize(("n", "scale"), [(200, 0.3), (3, 0.01), (40, 1e-6)])
def test_given_the_draws_nothing_else_is_read(case, adjacency, n, scale):
    if adjacency not in case.adjacencies:
        pytest.skip("not for these neighbours")
    mechanism = case.build(3.0, D, 1)
    for seed, (row, other) in enumerate(PAIRS):
        first, second = neighbours(table(n, D, seed) * scale, row, adjacency, other)
        elsewhere = table(len(first), D, seed + 100) * 100 * scale
        record, released = None, []
        for rows in (first, second, elsewhere):
            gate = Tape(
                mechanism.cost(),
                label="x",
                adjacency=adjacency,
                ledger=None,
                noise=SimulationSource(seed),
                record=record,
            )
            result = case.run(mechanism, rows, adjacency, gate)
            chosen = getattr(result, "row_norm", None)
            released.append(np.append(case.read(result), [] if chosen is None else chosen))
            if rows is second:
                assert gate.excess <= 1 + 1e-9
            record = record or gate.tape
        assert np.array_equal(released[0], released[1])
        assert np.array_equal(released[0], released[2])


def test_a_peek_at_the_rows_would_be_seen():
    """A procedure that looks at its query again after the draw."""
    (case,) = (case for case in TABLE if case.name == "gauss")
    mechanism = case.build(1.0, D, 1)
    released, record = [], None
    for rows in (table(20, D), table(20, D, seed=1)):
        gate = Tape(
            mechanism.cost(),
            label="x",
            adjacency=REPLACE,
            ledger=None,
            noise=SimulationSource(0),
            record=record,
        )
        peeked = case.query(rows, REPLACE).value.to_float()[0, 0]
        released.append(case.read(case.run(mechanism, rows, REPLACE, gate))[0] + 1e-9 * peeked)
        record = record or gate.tape
    assert released[0] != released[1]
