"""Given the same draws, every table gives the same release.

A run on one table is recorded at the gate and replayed on a neighbour and on an unrelated table.
Whatever a procedure does between its draws must then agree to the last bit: it may read draws and
public numbers only. On the way, the query of every step, not only of the first, is held to its
declared sensitivities.

Neighbours are tables as multisets. So the neighbour comes as it is, and once more sorted, where a
record that is replaced moves all rows between its old and its new place. Secret draws of places are
coupled: what the one table draws for a row, the sorted one draws for the same row. That leaves the
law of both as it is, since secret places are uniform.
"""

from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

import eigenveil.data
from eigenveil.data.sources import IterableSource
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms import Gate, LocatedCentre, ZeroCov
from eigenveil.numerics.random import SimulationSource
from eigenveil.privacy.adjacency import GROUP
from eigenveil.privacy.cost import Gaussian
from tests.conformance.table import (
    ADD,
    CLIP,
    DIRECTIONS,
    MANY,
    REPLACE,
    TABLE,
    Arranged,
    dense_counts,
    open_rows,
)
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
        return Arranged.order(n)

    def sample(self, n, size):
        return np.sort(self.order(n)[:size])

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


@contextmanager
def arranged(by_first_column, persons=False):
    Arranged.by_first_column, Arranged.persons = by_first_column, persons
    try:
        yield
    finally:
        Arranged.by_first_column = Arranged.persons = False


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
        for rows, by_column in ((first, 0), (second, 0), (second, 1), (elsewhere, 0)):
            gate = Tape(
                mechanism.cost(),
                label="x",
                adjacency=adjacency,
                ledger=None,
                noise=SimulationSource(seed),
                record=record,
            )
            with arranged(by_column):
                result = case.run(mechanism, rows, adjacency, gate)
            chosen = getattr(result, "row_norm", None)
            released.append(np.append(case.read(result), [] if chosen is None else chosen))
            if rows is not elsewhere:
                assert gate.excess <= 1 + 1e-9
            record = record or gate.tape
        assert all(np.array_equal(released[0], other) for other in released[1:])


def tape(mechanism, adjacency, seed, record, **options):
    return Tape(
        mechanism.cost(),
        label="x",
        adjacency=adjacency,
        ledger=None,
        noise=SimulationSource(seed),
        record=record,
        **options,
    )


@ADJACENCIES
@pytest.mark.parametrize("case", TABLE, ids=str)
def test_of_persons_the_order_of_their_rows_is_not_read_either(case, adjacency):
    """Persons come in any order, and so do the rows of each among those of others."""
    if adjacency not in case.adjacencies:
        pytest.skip("not for these neighbours")
    mechanism = case.build(3.0, D, 1)
    for seed, (row, other) in enumerate(PAIRS):
        first, second = neighbours(table(60, D, seed) * 0.3, row, adjacency, other)
        if adjacency is ADD:  # a whole person more
            first = np.vstack([second, table(2, D, seed + 50)])
        record, released = None, []
        for rows, by_column in ((first, 0), (second, 0), (second, 1)):
            gate = tape(mechanism, adjacency, seed, record, protects=GROUP)
            try:
                with arranged(by_column, persons=True):
                    result = case.run(mechanism, rows, adjacency, gate)
            except InvalidParameterError:
                pytest.skip("not for persons")
            released.append(case.read(result))
            assert gate.excess <= 1 + 1e-9
            record = record or gate.tape
        assert all(np.array_equal(released[0], other) for other in released[1:])


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


def test_a_sample_by_a_public_rule_of_places_would_be_seen():
    """The fault this guards against: every third row, whichever it is."""

    class Careless(Tape):
        def sample(self, n, size):
            return np.arange(n)[::3][:size]

    allowance = Gaussian(3.0)
    mechanism = LocatedCentre.build(allowance, 300, ZeroCov(), sample=1 / 3)
    rows = np.sort(table(300, D, 5), axis=0)
    moved = rows.copy()
    moved[0] = 5.0  # from the smallest to the largest
    excess = {}
    for kind in (Tape, Careless):
        record = None
        for each in (rows, moved):
            gate = kind(
                mechanism.cost(),
                label="x",
                adjacency=REPLACE,
                ledger=None,
                noise=SimulationSource(0),
                record=record,
            )
            with arranged(each is moved):
                mechanism.run(open_rows(each), DIRECTIONS, gate)
            record = record or gate.tape
        excess[kind] = gate.excess
    assert excess[Tape] <= 1 + 1e-9
    assert excess[Careless] > 3


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy", "chunks"])
@pytest.mark.parametrize("method", ["oja", "adaptive-oja", "deflation", "shuffled-oja"])
def test_batches_of_a_file_are_secret_too(tmp_path, kind, method):
    (case,) = (case for case in TABLE if case.name == method)
    mechanism = case.build(3.0, D, 1)
    n = 1500 if method == "deflation" else MANY
    first, second = neighbours(table(n - 1, D), 3 * np.eye(D)[0], REPLACE, -3 * np.eye(D)[1])
    record = None
    for rows in (first, second):
        gate = Tape(
            mechanism.cost(),
            label="x",
            adjacency=REPLACE,
            ledger=None,
            noise=SimulationSource(0),
            record=record,
        )
        with arranged(rows is second):
            table_of = open_rows(rows).array  # sorted
            mechanism.run(stored(table_of, tmp_path / f"{rows is second}.{kind}"), CLIP, gate)
        record = record or gate.tape
    assert gate.excess <= 1 + 1e-9


def stored(rows, path):
    match path.suffix:
        case ".chunks":
            return IterableSource(np.array_split(rows, 7))
        case ".npy":
            np.save(path, rows)
        case _:
            frame = pd.DataFrame(rows, columns=list("abcd"))
            frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return eigenveil.data.open_rows(path)
