"""A noisy count of rows, then `front` on as many drawn at random."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from eigenveil.exact import Clip, count, total
from eigenveil.exceptions import BudgetExceededError, InvalidParameterError
from eigenveil.mechanisms import COUNT_SHARE, Counted, DrawnRowsGate, Gate, PrivateMean, counted
from eigenveil.numerics import SimulationSource, SystemSource
from eigenveil.privacy import Gaussian, covers
from eigenveil.rows import Divide, drawn_rows, open_rows
from tests.conformance import case, tape

ADD, REPLACE = case.ADD, case.REPLACE
CLIP = Clip(row_norm=1.0)
MOST_ROWS = 2000
COMPANY = 600


@cache
def places(n):
    """Return the place of each of n rows in a random order.

    Orders of n + 1 and n rows are coupled as in the proof: where the last row was, the table
    without it has the row that came last. Each of the two orders is uniformly random.
    """
    order = np.random.default_rng(8).permutation(MOST_ROWS)
    for row in range(MOST_ROWS - 1, n - 1, -1):
        order[order == row] = order[-1]
        order = order[:-1]
    return np.argsort(order)


def coupled(rows):
    """The rows in fixed company, arranged, with places by `places`."""
    units = 10.0 ** (np.arange(rows.shape[1]) % 4)
    company = np.random.default_rng(3).standard_normal((COMPANY, rows.shape[1])) * units
    return with_places(np.vstack([company, rows]))  # a further row comes last


def with_places(crowd):
    source = case.open_rows(crowd)
    by_column = case.Arranged.by_first_column
    order = np.argsort(crowd[:, 0], kind="stable") if by_column else np.arange(len(crowd))
    case.Arranged.row_keys = places(len(crowd))[order]
    return source


def in_company(clip=case.ANYWHERE):
    def run(mechanism, rows, adjacency, gate):
        return mechanism.run(coupled(rows), clip, gate)

    return run


def read(found):
    """Return what is released: rows drawn, scales, the matrix and where rows were clipped."""
    if found.drawn_rows == 0:
        return case.upper(found.inner.matrix)
    bounds = [found.drawn_rows, found.inner.row_norm, found.column_limit]
    return np.concatenate([found.scale, case.upper(found.inner.matrix), bounds])


def gate_of(mu, adjacency=ADD, seed=None):
    noise = SystemSource() if seed is None else SimulationSource(seed)
    return Gate(Gaussian(mu), label="x", adjacency=adjacency, ledger=None, noise=noise)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("rows", [2, 100, 1000, 100_000])
def test_both_steps_cost_the_whole_at_most(rows, missing):
    for mu in (0.1, 0.837, 3.0):
        mechanism = Counted(mu=mu, columns=5, missing=missing)
        following = mechanism.following(rows).cost()
        whole = mechanism._noise.mu**2 + following.mu**2
        assert whole <= mu**2
        assert whole == pytest.approx(mu**2, rel=1e-6)
        shares = mechanism.shares(rows)
        assert sum(shares.values()) == pytest.approx(1)
        assert shares["count"] == COUNT_SHARE
        assert min(shares.values()) > 0


def test_the_gate_pays_for_both_steps():
    gate = gate_of(1.0, seed=0)
    Counted(mu=1.0, columns=3).run(coupled(np.zeros((9, 3))), case.ANYWHERE, gate)
    assert gate.rows is None
    assert not covers(gate.total, Gaussian(1.001))
    with pytest.raises(BudgetExceededError):
        gate.draw(Counted(mu=0.5, columns=3)._noise, count(open_rows(np.zeros((9, 3))), CLIP))


def test_fewer_rows_are_drawn_than_there_are():
    mechanism = Counted(mu=1.0, columns=3)
    drawn = [
        mechanism.run(coupled(np.zeros((9, 3))), case.ANYWHERE, gate_of(1.0, seed=seed)).drawn_rows
        for seed in range(20)
    ]
    assert max(drawn) <= COMPANY + 9
    assert np.mean(drawn) == pytest.approx(mechanism.expected(COMPANY + 9), abs=6)


@pytest.mark.parametrize("rows", [0, 1, 3, 80])
def test_too_few_rows_release_zeros(rows):
    found = Counted(mu=0.5, columns=3).run(
        open_rows(np.ones((rows, 3))), case.ANYWHERE, gate_of(0.5, seed=rows)
    )
    assert found.drawn_rows == 0
    assert not found.inner.matrix.any()
    assert np.isnan(found.centre).all()


def test_more_columns_than_drawn_rows_release_zeros():
    assert not Counted(mu=9.0, columns=101).enough(100)
    assert Counted(mu=9.0, columns=100).enough(100)


def sequence(n, size, scale=None):
    """Return which rows of n are drawn, numbered from 1; 0 for a row of zeros."""
    source = open_rows(np.arange(1.0, n + 1)[:, None])
    source = source if scale is None else source.map(Divide(np.array([scale])))
    drawn = drawn_rows(source, size, gate_of(1.0).order, lambda rows: None)
    return tuple(np.rint(drawn.whole()[:, 0] * (scale or 1)).astype(int).tolist())


@pytest.mark.parametrize(("n", "size", "number"), [(4, 2, 12), (2, 3, 6), (3, 3, 6)])
def test_every_sequence_is_as_likely(n, size, number):
    trials = 600 * number
    seen, counts = np.unique([sequence(n, size) for _ in range(trials)], axis=0, return_counts=True)
    assert len(seen) == number
    assert np.abs(counts - 600).max() < 5 * np.sqrt(600)
    filled = (seen == 0).sum(axis=1)
    assert (filled == max(0, size - n)).all()


def test_a_short_table_is_filled_up_with_zeros():
    assert sorted(sequence(3, 6)) == [0, 0, 0, 1, 2, 3]
    assert sorted(sequence(3, 6, scale=2.0)) == [0, 0, 0, 1, 2, 3]
    assert sequence(0, 2) == (0, 0)


def test_a_view_draws_statistics_of_its_own_rows_alone():
    rows = open_rows(np.ones((50, 2)))
    gate = gate_of(1.0)
    first, second = (drawn_rows(rows, 40, gate.order, lambda rows: None) for _ in range(2))
    view = DrawnRowsGate(gate, first)
    step = PrivateMean(noise=Counted(mu=1.0, columns=2)._noise)
    assert view.draw(step, total(first, CLIP, REPLACE)).count is None
    for source, adjacency in ((rows, REPLACE), (second, REPLACE), (first, ADD), (rows, ADD)):
        with pytest.raises(InvalidParameterError, match="not one of the drawn rows"):
            view.draw(step, total(source, CLIP, adjacency))
    for source in (first, rows):
        with pytest.raises(InvalidParameterError, match="bounded for other neighbours"):
            gate.draw(step, total(source, CLIP, REPLACE))


def test_a_view_spends_what_the_gate_behind_has():
    gate = gate_of(0.09)
    drawn = drawn_rows(open_rows(np.ones((50, 2))), 40, gate.order, lambda rows: None)
    step = PrivateMean(noise=Counted(mu=0.5, columns=2)._noise)
    view = DrawnRowsGate(gate, drawn)
    view.draw(step, total(drawn, CLIP, REPLACE))
    with pytest.raises(BudgetExceededError):
        view.draw(step, total(drawn, CLIP, REPLACE))


def test_a_view_is_for_single_rows_and_a_private_count():
    drawn = drawn_rows(open_rows(np.ones((5, 2))), 4, gate_of(1.0).order, lambda rows: None)
    with pytest.raises(InvalidParameterError, match="add/remove alone"):
        DrawnRowsGate(gate_of(1.0, REPLACE), drawn)
    with pytest.raises(InvalidParameterError, match="rows that were drawn"):
        DrawnRowsGate(gate_of(1.0), open_rows(np.ones((5, 2))))


def compared(one, other, *, by_column=False, arrange=with_places):
    """Return the largest distance of a query over its sensitivity, and both releases."""
    mechanism = Counted(mu=3.0, columns=one.shape[1])
    record, released = None, []
    for rows in (one, other):
        gate = tape.taped(mechanism, ADD, record=record)
        with tape.arranged(by_column):
            released.append(read(mechanism.run(arrange(rows), case.ANYWHERE, gate)))
        record = record or gate.tape
    return gate.excess, released


def neighbours(n=400):
    rows = np.random.default_rng(1).standard_normal((n, 3))
    return np.vstack([rows, [-9.0, 40.0, 1e9]]), rows


def test_one_row_less_replaces_one_drawn_row():
    drawn = [with_places(rows) for rows in neighbours()]
    sequences = []
    for source, rows in zip(drawn, neighbours(), strict=True):
        case.Arranged.row_keys = places(len(rows))
        sequences.append(drawn_rows(source, 390, case.Arranged.order, lambda rows: None).whole())
    differ = (sequences[0] != sequences[1]).any(axis=1)
    assert differ.sum() == 1


@pytest.mark.parametrize("n", [1, 20, 40, 60, 100])
def test_few_rows_are_private_too(n):
    for by_column in (False, True):
        excess, released = compared(*neighbours(n), by_column=by_column)
        assert excess <= 1 + 1e-9
        assert np.array_equal(*released)


def test_a_table_that_is_filled_up_is_private_too(monkeypatch):
    monkeypatch.setattr(counted, "COUNT_MARGIN", -5.0)
    excess, released = compared(*neighbours(), arrange=case.open_rows)
    assert released[0][3 + 6] > 401
    assert excess <= 1 + 1e-9
    assert np.array_equal(*released)


def test_rows_in_the_order_of_the_table_would_be_seen(monkeypatch):
    """The fault this guards against: the first rows of a sorted table."""
    assert compared(*neighbours(), by_column=True)[0] <= 1 + 1e-9

    def order(self, n):  # pairs of drawn rows are random nevertheless
        return np.arange(n) if n >= 400 else case.Arranged.order(n)

    monkeypatch.setattr(tape.Tape, "order", order)
    assert compared(*neighbours(), by_column=True)[0] > 3


def test_a_number_of_rows_from_the_true_count_would_be_seen(monkeypatch):
    assert np.array_equal(*compared(*neighbours())[1])
    true = iter((401, 400))
    monkeypatch.setattr(Counted, "_drawn", lambda self, noisy: next(true) - 10)
    assert not np.array_equal(*compared(*neighbours())[1])


def _count(rows, adjacency):
    return count(case.open_rows(rows), case.CLIP)


def _one_row(d, adjacency):
    return np.eye(d)[0], None


COUNTED = {
    "query": _count,
    "read": read,
    "norm": "l2",
    "sensitivity": {ADD: lambda d: 1.0},
    "worst_pair": _one_row,
    "may_coincide": True,
    "adjacencies": (ADD,),
    "persons": False,
    "trials": 300,
    "shows": False,
}


def _built(**options):
    return lambda mu, d, k: Counted(mu=mu, columns=d, **options)


CASES = [
    case.Case("counted", _built(), run=in_company(), **COUNTED),
    case.Case(
        "counted of filled rows",
        _built(missing=True),
        run=in_company(replace(case.ANYWHERE, on_missing="centre")),
        **COUNTED,
    ),
]
