"""What every mechanism owes: cost, sensitivity, corner cases, fresh noise, silence about data.

Each check asks one case about every kind of neighbours that it is for.
"""

import importlib
import inspect
import math
import pkgutil
from functools import cache, cached_property
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

import eigenveil.mechanisms
import eigenveil.papers
from eigenveil.exceptions import BudgetExceededError, InvalidParameterError
from eigenveil.mechanisms import Gate, entries, proofs_of
from eigenveil.numerics import SimulationSource, SystemSource
from eigenveil.privacy import Composed, Ledger
from tests.conformance.case import ADD, REPLACE, dense_counts
from tests.conformance.table import TABLE

EACH = pytest.mark.parametrize("case", TABLE, ids=str)
SPENDING = [case for case in TABLE if not case.free]
EACH_THAT_SPENDS = pytest.mark.parametrize("case", SPENDING, ids=str)

# Shared bases, and steps that are tested with what they are a step of.
STEPS = {"Boxed", "BoxedTangentOja", "DailyDraw", "_NoisyCounts"}


def run(case, rows, adjacency, *, strength=1.0, k=1, noise=None, ledger=None):
    mechanism = case.build(strength, rows.shape[1], k)
    gate = Gate(
        mechanism.cost(),
        label=case.name,
        adjacency=adjacency,
        ledger=ledger,
        noise=noise or SystemSource(),
    )
    return case.run(mechanism, rows, adjacency, gate)


def table(n, d, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


@EACH
def test_the_declared_cost_is_what_the_ledger_charges(case, tmp_path):
    for adjacency in case.adjacencies:
        ledger = Ledger.create(tmp_path / adjacency.value, **case.ledger, adjacency=adjacency)
        run(case, table(20, 3), adjacency, strength=0.7, ledger=ledger)
        (entry,) = ledger.entries
        assert entry.cost == case.build(0.7, 3, 1).cost()
        if case.free:
            assert entry.cost == Composed(())
            continue
        assert case.strength_of(entry.cost) <= 0.7 * (1 + 1e-12)
        assert case.strength_of(entry.cost) == pytest.approx(0.7, rel=1e-9)


@EACH_THAT_SPENDS
def test_a_refusing_ledger_stops_every_draw(case, tmp_path):
    class Untouchable(SystemSource):
        def words(self, count):
            raise AssertionError("noise was drawn")

    small = {name: amount / 1000 for name, amount in case.ledger.items()}
    for adjacency in case.adjacencies:
        ledger = Ledger.create(tmp_path / adjacency.value, **small, adjacency=adjacency)
        with pytest.raises(BudgetExceededError):
            run(case, table(5, 3), adjacency, ledger=ledger, noise=Untouchable())
        assert ledger.entries == ()


@EACH_THAT_SPENDS
def test_a_release_that_fails_after_the_charge_stays_charged(case, tmp_path):
    class Broken(SystemSource):
        def words(self, count):
            raise OSError("no entropy")

    for adjacency in case.adjacencies:
        ledger = Ledger.create(tmp_path / adjacency.value, **case.ledger, adjacency=adjacency)
        with pytest.raises(OSError, match="no entropy"):
            run(case, table(5, 3), adjacency, ledger=ledger, noise=Broken())
        assert len(ledger.entries) == 1


def distance(norm, one, other):
    """Distance of two queries in units of the unit ball; sums of integers where it can be."""
    units = [one.value.units, other.value.units]
    if one.bins is not None:
        filled = np.union1d(one.bins, other.bins)
        units = [dense_counts(each, filled) for each in (one, other)]
    gap = units[0] - units[1]
    unit = 2.0**one.value.exponent
    if norm == "nuclear":
        return float(np.abs(np.linalg.eigvalsh(gap.astype(float))).sum()) * unit
    if norm == "l1" and gap.shape == (len(gap), len(gap)):
        gap = gap[np.triu_indices(len(gap))]
    if norm == "linf":
        return int(np.abs(gap).max()) * unit
    if norm == "l1":
        return int(np.abs(gap).sum()) * unit
    return math.sqrt(sum(int(g) ** 2 for g in gap.ravel().tolist())) * unit


def neighbours(rows, row, adjacency, other=None):
    """A table with ``row``, and its neighbour with ``other`` or without it."""
    first = np.vstack([rows, row])
    second = rows if adjacency is ADD else np.vstack([rows, other])
    return first, second


def adversarial_rows(d, rng):
    unit = np.eye(d)[0]
    return [
        unit,
        np.eye(d)[-1],
        -unit,
        np.zeros(d),
        unit * 1e308,
        unit * 1e-308,
        np.full(d, 1e200),
        np.full(d, np.nan),
        np.full(d, -np.inf),
        np.full(d, np.longdouble(10) ** 400),
        unit * (1 - 2.0**-19),
        np.full(d, 1 / math.sqrt(d)),
        *rng.standard_normal((3, d)),
    ]


@cache
def farthest(query, norm, adjacency, d):
    """Return how far one row moves a query, and how far it says: many cases share a query.

    In fixed company, beside one row of zeros, and beside two rows of some kind.
    """
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((4, d))
    candidates = adversarial_rows(d, rng)
    found = []
    twice = (np.vstack([row, row]) for row in (candidates[0], *candidates[-3:]))
    for company in (rows, np.zeros((1, d)), *twice):
        asked = [query(np.vstack([company, row]), adjacency) for row in candidates]
        if adjacency is ADD:
            pairs = ((query(company, adjacency), one) for one in asked)
        else:
            pairs = combinations(asked, 2)
        found += [distance(norm, *pair) for pair in pairs]
    return max(found), query(rows, adjacency).sensitivity(norm)


@EACH
def test_sensitivity_is_never_exceeded(case):
    for adjacency, d in product(case.adjacencies, (1, 2, 7)):
        most, bound = farthest(case.query, case.norm, adjacency, d)
        assert bound == pytest.approx(case.sensitivity[adjacency](d))
        # One part in 2**40 for the square root, or for eigenvalues in floating point.
        assert most <= bound * (1 + 2.0**-40)


@EACH
def test_sensitivity_is_attained(case):
    for adjacency, d in product(case.adjacencies, (2, 7)):
        row, other = case.worst_pair(d, adjacency)
        pair = neighbours((case.company or table)(4, d), row, adjacency, other)
        asked = [case.query(rows, adjacency) for rows in pair]
        # Rounding to 2**-18 pulls rows inwards by sqrt(d) 2**-19; once more for l1 norms.
        share = (case.attained if adjacency is REPLACE else 1.0) * (1 - 2.0**-13)
        assert distance(case.norm, *asked) >= asked[0].sensitivity(case.norm) * share


CORNERS = [
    (np.zeros((10, 3)), 1),
    (np.zeros((1, 1)), 1),
    (np.ones((1, 4)), 2),
    (np.ones((6, 1)), 1),
    (np.tile([1.0, 2.0, 3.0], (8, 1)), 2),
    (np.random.default_rng(2).standard_normal((9, 4)), 4),
    (np.vstack([np.full(3, 1e300), np.full(3, 1e-300), np.full(3, np.nan)]), 3),
]


@EACH
def test_corner_cases(case):
    """Nothing but zeros, one cell, one row, one column, equal rows, all directions, wild norms."""
    for adjacency in case.adjacencies:
        for rows, k in CORNERS:
            released = case.read(run(case, rows, adjacency, k=k))
            assert np.isfinite(released).all()
            again = case.read(run(case, rows, adjacency, k=k))
            assert again.shape == released.shape
            built = case.build(1.0, rows.shape[1], k)
            all_directions = k == rows.shape[1] and any(
                "n_components" in getattr(kind, "__dataclass_fields__", ())
                for kind in inside(built)
            )  # no choice
            if not all_directions and not case.may_coincide:
                assert (released != again).any()


@EACH
def test_seeds_never_give_duplicate_noise(case):
    """Neither two draws of one seed, nor neighbouring tables under the same seed."""
    rows = np.vstack([table(6, 4)] * 50)  # enough of them to stand out from the noise
    replaced = rows.copy()
    replaced[0] = 0.0
    for adjacency in case.adjacencies:
        neighbour = rows[1:] if adjacency is ADD else replaced
        source = SimulationSource(3)
        first, second = (case.read(run(case, rows, adjacency, noise=source)) for _ in range(2))
        if not case.may_coincide:
            assert np.abs(first - second).max() > 1e-9
        # The noise of the seed, taken off a neighbour's release, would show the difference.
        words = [
            SimulationSource(3).bound_to(case.query(r, adjacency).value.units).words(8).tobytes()
            for r in (rows, neighbour)
        ]
        assert words[0] != words[1]


@EACH_THAT_SPENDS
def test_no_step_draws_beyond_its_share(case):
    """The gate pays the declared total and nothing after it, and no batch comes twice."""
    rows = table(5, 3)
    mechanism = case.build(1.0, 3, 1)
    kind = case.adjacencies[0]
    gate = Gate(mechanism.cost(), label="x", adjacency=kind, ledger=None, noise=SystemSource())
    case.run(mechanism, rows, kind, gate)
    refused = (BudgetExceededError, InvalidParameterError)
    with pytest.raises(refused, match=r"more than its share|order of their records"):
        case.run(mechanism, rows, kind, gate)


@EACH
def test_numerics_are_stated(case):
    for adjacency in case.adjacencies:
        mechanism = case.build(1.0, 3, 1)
        gate = Gate(
            mechanism.cost(), label="x", adjacency=adjacency, ledger=None, noise=SystemSource()
        )
        case.run(mechanism, table(5, 3), adjacency, gate)
        assert gate.exact or not case.exact
        if case.exact is False and case.name not in ("adaptive", "adaptive pure"):  # by its branch
            assert not gate.exact


def mechanisms():
    """Every class that states a cost and releases something, besides shared bases."""
    for package in (eigenveil.mechanisms, eigenveil.papers):
        for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            for kind in vars(importlib.import_module(info.name)).values():
                if not inspect.isclass(kind):
                    continue
                releases = hasattr(kind, "perturb") or hasattr(kind, "run")
                here = getattr(kind, "__module__", None) == info.name
                if here and releases and hasattr(kind, "cost") and _is_concrete(kind):
                    yield kind


def _is_concrete(kind):
    return not inspect.isabstract(kind) and not getattr(kind, "_is_protocol", False)


def inside(mechanism):
    """Yield the types of a mechanism and of those that it is made of."""
    yield type(mechanism)
    kinds = (property, cached_property)
    steps = [name for name, kind in inspect.getmembers(type(mechanism)) if isinstance(kind, kinds)]
    for name in (*getattr(mechanism, "__dataclass_fields__", ()), *steps):
        value = None if name in ("mu", "epsilon") else getattr(mechanism, name)
        for part in value if isinstance(value, tuple) else (value,):
            if hasattr(part, "cost"):
                yield from inside(part)


def test_every_mechanism_has_a_case_and_a_proof():
    """Alone, or inside one that has."""
    proofs = Path(__file__).parents[2] / "docs" / "proofs"
    cased = set()
    for case in TABLE:
        built = case.build(1.0, 3, 1)
        page = (proofs / f"{case.proof or proofs_of(built)[0]}.md").read_text("utf-8")
        assert case.name.split()[0] in page
        assert importlib.import_module(type(built).__module__).__doc__
        cased.update(inside(built))
    assert {kind for kind in mechanisms() if kind.__name__ not in STEPS} <= cased
    names = [case.name for case in TABLE]
    assert len(names) == len(set(names))


def test_every_entry_of_the_registry_has_a_case():
    cased = {kind.__module__ for case in TABLE for kind in inside(case.build(1.0, 3, 1))}
    assert {entry.module for entry in entries()} <= cased
