"""A gate that records its draws on one table and answers from the record on another."""

from contextlib import contextmanager

import numpy as np

from eigenveil.mechanisms import Gate
from eigenveil.numerics import SimulationSource
from tests.conformance.case import Arranged, dense_counts


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


def taped(mechanism, adjacency, *, seed=0, record=None, **options):
    """Return a tape for one run of ``mechanism``; with a record, one that answers from it."""
    return Tape(
        mechanism.cost(),
        label="x",
        adjacency=adjacency,
        ledger=None,
        noise=SimulationSource(seed),
        record=record,
        **options,
    )


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
    """Tables of all cases are sorted like this within."""
    Arranged.by_first_column, Arranged.persons = by_first_column, persons
    try:
        yield
    finally:
        Arranged.by_first_column = Arranged.persons = False
