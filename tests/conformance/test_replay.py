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

from itertools import product

import numpy as np
import pandas as pd
import pytest

import eigenveil.exact
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms import GaussianNoise, LocatedCentre
from eigenveil.papers.covrev import Zero
from eigenveil.privacy import GROUP
from eigenveil.rows import IterableSource
from tests.conformance.case import ADD, CLIP, DIRECTIONS, MANY, REPLACE, open_rows
from tests.conformance.table import TABLE, named
from tests.conformance.tape import Tape, arranged, taped
from tests.conformance.test_conformance import neighbours, table

D = 4
PAIRS = [
    (np.full(D, 5.0), np.full(D, 1e-9)),
    (np.eye(D)[0], np.eye(D)[1]),
    (np.full(D, 0.5), np.full(D, -0.5)),
    (np.full(D, np.nan), np.full(D, 0.5)),
]
EACH = pytest.mark.parametrize("case", TABLE, ids=str)


def release(case, mechanism, rows, gate):
    """What a run releases, with the bound of rows that it chose, if any."""
    result = case.run(mechanism, rows, gate.adjacency, gate)
    chosen = getattr(result, "row_norm", None)
    return np.append(case.read(result), [] if chosen is None else chosen)


@EACH
def test_given_the_draws_nothing_else_is_read(case):
    mechanism = case.build(3.0, D, 1)
    tables = ((200, 0.3, PAIRS), (3, 0.01, PAIRS[:2]), (40, 1e-6, PAIRS[2:]))
    for adjacency, (n, scale, pairs) in product(case.adjacencies, tables):
        for seed, (row, other) in enumerate(pairs):
            first, second = neighbours(table(n, D, seed) * scale, row, adjacency, other)
            elsewhere = table(len(first), D, seed + 100) * 100 * scale
            record, released = None, []
            for rows, by_column in ((first, 0), (second, 0), (second, 1), (elsewhere, 0)):
                gate = taped(mechanism, adjacency, seed=seed, record=record)
                with arranged(by_column):
                    released.append(release(case, mechanism, rows, gate))
                if rows is not elsewhere:
                    assert gate.excess <= 1 + 1e-9
                record = record or gate.tape
            assert all(np.array_equal(released[0], other) for other in released[1:])


@EACH
def test_of_persons_the_order_of_their_rows_is_not_read_either(case):
    """Persons come in any order, and so do the rows of each among those of others."""
    mechanism = case.build(3.0, D, 1)
    for adjacency in case.adjacencies:
        for seed, (row, other) in enumerate(PAIRS):
            first, second = neighbours(table(60, D, seed) * 0.3, row, adjacency, other)
            if adjacency is ADD:  # a whole person more
                first = np.vstack([second, table(2, D, seed + 50)])
            record, released = None, []
            for rows, by_column in ((first, 0), (second, 0), (second, 1)):
                gate = taped(mechanism, adjacency, seed=seed, record=record, protects=GROUP)
                with arranged(by_column, persons=True):
                    if not case.persons:
                        with pytest.raises(InvalidParameterError):
                            release(case, mechanism, rows, gate)
                        return
                    released.append(release(case, mechanism, rows, gate))
                assert gate.excess <= 1 + 1e-9
                record = record or gate.tape
            assert all(np.array_equal(released[0], other) for other in released[1:])


def test_a_peek_at_the_rows_would_be_seen():
    """A procedure that looks at its query again after the draw."""
    case = named("gauss")
    mechanism = case.build(1.0, D, 1)
    released, record = [], None
    for rows in (table(20, D), table(20, D, seed=1)):
        gate = taped(mechanism, REPLACE, record=record)
        peeked = case.query(rows, REPLACE).value.to_float()[0, 0]
        released.append(case.read(case.run(mechanism, rows, REPLACE, gate))[0] + 1e-9 * peeked)
        record = record or gate.tape
    assert released[0] != released[1]


def test_a_sample_by_a_public_rule_of_places_would_be_seen(monkeypatch):
    """The fault this guards against: every third row, whichever it is."""
    noises = [GaussianNoise(mu=mu) for mu in (0.7, 1.5, 2.0)]
    mechanism = LocatedCentre.build(noises, Zero(), sample=1 / 3)
    rows = np.sort(table(300, D, 5), axis=0)
    moved = rows.copy()
    moved[0] = 5.0  # from the smallest to the largest

    def excess():
        record = None
        for each in (rows, moved):
            gate = taped(mechanism, REPLACE, record=record)
            with arranged(each is moved):
                mechanism.run(open_rows(each), DIRECTIONS, gate)
            record = record or gate.tape
        return gate.excess

    assert excess() <= 1 + 1e-9
    monkeypatch.setattr(Tape, "sample", lambda self, n, size: np.arange(n)[::3][:size])
    assert excess() > 3


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy", "chunks"])
@pytest.mark.parametrize("method", ["oja", "adaptive-oja", "deflation", "shuffled-oja"])
def test_batches_of_a_file_are_secret_too(tmp_path, kind, method):
    mechanism = named(method).build(3.0, D, 1)
    n = 1500 if method == "deflation" else MANY
    first, second = neighbours(table(n - 1, D), 3 * np.eye(D)[0], REPLACE, -3 * np.eye(D)[1])
    record = None
    for rows in (first, second):
        gate = taped(mechanism, REPLACE, record=record)
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
    return eigenveil.open_rows(path)
