"""What every mechanism owes: cost, sensitivity, corner cases, fresh noise, silence about data."""

import importlib
import math
import pkgutil
from pathlib import Path

import numpy as np
import pytest

import eigenveil.mechanisms
from eigenveil.audit import audit
from eigenveil.exceptions import BudgetExceededError, InvalidParameterError
from eigenveil.mechanisms import Gate
from eigenveil.numerics.random import SimulationSource, SystemSource
from eigenveil.privacy.cost import Composed
from eigenveil.privacy.ledger import Ledger
from tests.conformance.table import ADD, REPLACE, TABLE, mu_of

pytestmark = pytest.mark.parametrize("case", TABLE, ids=str)
ADJACENCIES = pytest.mark.parametrize("adjacency", [REPLACE, ADD], ids=lambda a: a.value)


@pytest.fixture(autouse=True)
def _offered(request):
    """A case that exists for one kind of neighbours is not asked about the other."""
    adjacency = request.node.callspec.params.get("adjacency")
    if adjacency not in (None, *request.node.callspec.params["case"].adjacencies):
        pytest.skip("not for these neighbours")


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


LIFTED = {"lifted": 1, "wishart components, lifted": 1}  # columns more than the table has


def table(n, d, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


@ADJACENCIES
def test_the_declared_cost_is_what_the_ledger_charges(case, adjacency, tmp_path):
    ledger = Ledger.create(tmp_path / "l", **case.ledger, adjacency=adjacency)
    run(case, table(20, 3), adjacency, strength=0.7, ledger=ledger)
    (entry,) = ledger.entries
    assert entry.cost == case.build(0.7, 3, 1).cost()
    if case.free:
        assert entry.cost == Composed(())
        return
    assert case.strength_of(entry.cost) <= 0.7 * (1 + 1e-12)
    assert case.strength_of(entry.cost) == pytest.approx(0.7, rel=1e-9)


@ADJACENCIES
def test_a_refusing_ledger_stops_every_draw(case, adjacency, tmp_path):
    if case.free:
        pytest.skip("spends nothing that could be refused")
    small = {name: amount / 1000 for name, amount in case.ledger.items()}
    ledger = Ledger.create(tmp_path / "l", **small, adjacency=adjacency)

    class Untouchable(SystemSource):
        def words(self, count):
            raise AssertionError("noise was drawn")

    with pytest.raises(BudgetExceededError):
        run(case, table(5, 3), adjacency, ledger=ledger, noise=Untouchable())
    assert ledger.entries == ()


@ADJACENCIES
def test_a_release_that_fails_after_the_charge_stays_charged(case, adjacency, tmp_path):
    if case.free:
        pytest.skip("draws no noise that could fail")
    ledger = Ledger.create(tmp_path / "l", **case.ledger, adjacency=adjacency)

    class Broken(SystemSource):
        def words(self, count):
            raise OSError("no entropy")

    with pytest.raises(OSError, match="no entropy"):
        run(case, table(5, 3), adjacency, ledger=ledger, noise=Broken())
    assert len(ledger.entries) == 1


def distance(case, first, second, adjacency):
    """Distance of two queries in units of the unit ball; sums of integers where it can be."""
    one, other = (case.query(rows, adjacency).value for rows in (first, second))
    gap = one.units - other.units
    if case.norm == "nuclear":
        return float(np.abs(np.linalg.eigvalsh(gap.astype(float))).sum()) * 2.0**one.exponent
    if case.norm == "l1" and gap.shape == (len(gap), len(gap)):
        gap = gap[np.triu_indices(len(gap))]
    if case.norm == "linf":
        return int(np.abs(gap).max()) * 2.0**one.exponent
    if case.norm == "l1":
        return int(np.abs(gap).sum()) * 2.0**one.exponent
    return math.sqrt(sum(int(g) ** 2 for g in gap.ravel().tolist())) * 2.0**one.exponent


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
        *rng.standard_normal((6, d)),
    ]


@ADJACENCIES
@pytest.mark.parametrize("d", [1, 2, 7])
def test_sensitivity_is_never_exceeded(case, adjacency, d):
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((4, d))
    bound = case.query(rows, adjacency).sensitivity(case.norm)
    assert bound == pytest.approx(case.sensitivity[adjacency](d + LIFTED.get(case.name, 0)))
    candidates = adversarial_rows(d, rng)
    for row in candidates:
        for other in candidates if adjacency is REPLACE else [None]:
            for company in (rows, np.vstack([row, row]), np.zeros((1, d))):
                first, second = neighbours(company, row, adjacency, other)
                # One part in 2**40 for the square root, or for eigenvalues in floating point.
                assert distance(case, first, second, adjacency) <= bound * (1 + 2.0**-40)


@ADJACENCIES
@pytest.mark.parametrize("d", [2, 7])
def test_sensitivity_is_attained(case, adjacency, d):
    row, other = case.worst_pair(d, adjacency)
    first, second = neighbours((case.company or table)(4, d), row, adjacency, other)
    attained = distance(case, first, second, adjacency)
    # Rounding to 2**-18 pulls rows inwards by sqrt(d) 2**-19; once more for l1 norms.
    share = (case.attained if adjacency is REPLACE else 1.0) * (1 - 2.0**-13)
    assert attained >= case.query(first, adjacency).sensitivity(case.norm) * share


@ADJACENCIES
@pytest.mark.parametrize(
    ("rows", "k"),
    [
        (np.zeros((10, 3)), 1),
        (np.zeros((1, 1)), 1),
        (np.ones((1, 4)), 2),
        (np.ones((6, 1)), 1),
        (np.tile([1.0, 2.0, 3.0], (8, 1)), 2),
        (np.random.default_rng(2).standard_normal((9, 4)), 4),
        (np.vstack([np.full(3, 1e300), np.full(3, 1e-300), np.full(3, np.nan)]), 3),
    ],
    ids=["zero", "1x1", "n=1", "d=1", "equal rows", "k=d", "wild norms"],
)
def test_corner_cases(case, adjacency, rows, k):
    released = case.read(run(case, rows, adjacency, k=k))
    assert np.isfinite(released).all()
    again = case.read(run(case, rows, adjacency, k=k))
    assert again.shape == released.shape
    all_directions = case.module.startswith("pca.") and k == rows.shape[1]  # leave no choice
    if not all_directions and not case.may_coincide:
        assert (released != again).any()


@ADJACENCIES
def test_seeds_never_give_duplicate_noise(case, adjacency):
    """Neither two draws of one seed, nor neighbouring tables under the same seed."""
    rows = table(6, 4)
    source = SimulationSource(3)
    rows = np.vstack([rows] * 50)  # enough of them to stand out from the noise
    first, second = (case.read(run(case, rows, adjacency, noise=source)) for _ in range(2))
    if not case.may_coincide:
        assert np.abs(first - second).max() > 1e-9
    # The noise of the seed, taken off a neighbour's release, would show the difference.
    neighbour = rows.copy()
    neighbour[0] = 0.0
    words = [
        SimulationSource(3).bound_to(case.query(r, adjacency).value.units).words(8).tobytes()
        for r in (rows, neighbour)
    ]
    assert words[0] != words[1]


@ADJACENCIES
@pytest.mark.slow
def test_the_audit_is_silent(case, adjacency):
    """Accuses a correct mechanism with probability at most 1e-3 over seeds."""
    if case.free:
        pytest.skip("releases nothing to attack")
    strength, d = (1.5 if case.strength_of is mu_of else 4.0), 4
    row, other = case.worst_pair(d, adjacency)
    company = table(3, d) / 3
    if case.may_coincide:  # rows enough that something is left to attack
        company = np.repeat(np.eye(d)[:2], 30, axis=0)
    first, second = neighbours(company, row, adjacency, other)
    source = SimulationSource(5)
    report = audit(
        lambda: case.read(run(case, first, adjacency, strength=strength, noise=source)),
        lambda: case.read(run(case, second, adjacency, strength=strength, noise=source)),
        cost=case.build(strength, d, 1).cost(),
        trials=case.trials,
        alpha=1e-3,
        continuous=not case.may_coincide,
    )
    assert not report.violated, str(report)
    assert report.epsilon_lower_bound < report.claimed_epsilon
    if case.shows:
        assert report.epsilon_lower_bound > 0


def test_no_step_draws_beyond_its_share(case):
    """The gate pays the declared total and nothing after it, and no batch comes twice."""
    if case.free:
        pytest.skip("there is no share to exceed")
    rows = table(5, 3)
    mechanism = case.build(1.0, 3, 1)
    kind = case.adjacencies[0]
    gate = Gate(mechanism.cost(), label="x", adjacency=kind, ledger=None, noise=SystemSource())
    case.run(mechanism, rows, kind, gate)
    refused = (BudgetExceededError, InvalidParameterError)
    with pytest.raises(refused, match=r"more than its share|order of their records"):
        case.run(mechanism, rows, kind, gate)


def test_the_proof_page_exists(case):
    module = importlib.import_module(f"eigenveil.mechanisms.{case.module}")
    page = Path(__file__).parents[2] / "docs" / "proofs" / f"{case.module.rsplit('.')[-1]}.md"
    assert page.is_file()
    assert case.name.split()[0] in page.read_text("utf-8")
    assert module.__doc__


@ADJACENCIES
def test_numerics_are_stated(case, adjacency):
    mechanism = case.build(1.0, 3, 1)
    gate = Gate(mechanism.cost(), label="x", adjacency=adjacency, ledger=None, noise=SystemSource())
    case.run(mechanism, table(5, 3), adjacency, gate)
    assert gate.exact or not case.exact
    if case.exact is False and case.name not in ("adaptive", "adaptive pure"):  # by its branch
        assert not gate.exact


def test_every_mechanism_has_a_row(case):
    """Modules under mechanisms/ and rows of the table are the same set."""
    prefix = eigenveil.mechanisms.__name__ + "."
    modules = {
        info.name.removeprefix(prefix)
        for info in pkgutil.walk_packages(eigenveil.mechanisms.__path__, prefix)
        if not info.ispkg
    }
    shared = {"base", "bounds", "execute", "options", "registry", "request", "stages"}
    shared |= {"pca.components", "pca.one_pass"}
    assert modules - shared == {row.module for row in TABLE}
    assert case.module in modules
