"""The gate: charge first, pay every step, refuse the rest."""

import copy
import dataclasses
import math
import pickle
import threading

import numpy as np
import pytest

from eigenveil import PrivatePCA
from eigenveil.exact import Clip, second_moment, total
from eigenveil.exceptions import (
    BudgetExceededError,
    InvalidParameterError,
    UnsupportedNotionError,
)
from eigenveil.mechanisms import (
    AnalyzeGauss,
    BuildContext,
    Gate,
    GaussCov,
    GaussianNoise,
    LaplaceNoise,
    Power,
    PrivateMean,
    options,
    release,
)
from eigenveil.numerics import SimulationSource, SystemSource
from eigenveil.privacy import GROUP, Adjacency, Budget, Composed, Gaussian, Ledger, Pure
from eigenveil.rows import Batch, GroupedSource, open_rows

REPLACE = Adjacency.REPLACE_ONE
ROWS = open_rows(np.random.default_rng(0).standard_normal((30, 4)))
MOMENT = second_moment(ROWS, Clip(row_norm=1.0), REPLACE)
TOTAL = total(ROWS, Clip(row_norm=1.0), REPLACE)


def mean(mu):
    return PrivateMean(noise=GaussianNoise(mu=mu))


def gate(cost, ledger=None):
    return Gate(cost, label="test", adjacency=REPLACE, ledger=ledger, noise=SystemSource())


def test_the_charge_is_on_disk_before_the_first_draw(tmp_path):
    ledger = Ledger.create(tmp_path / "l", rho=1.0)
    seen = []

    class Watching(SystemSource):
        def words(self, count):
            seen.append(len(ledger.entries))
            return super().words(count)

    release(GaussCov(mu=0.5), MOMENT, ledger=ledger, noise=Watching())
    assert seen
    assert set(seen) == {1}


def test_a_random_order_comes_after_the_charge_and_never_twice(tmp_path):
    ledger = Ledger.create(tmp_path / "l", rho=1.0)
    opened = gate(Gaussian(0.3), ledger)
    first, second = opened.order(500), opened.order(500)
    assert len(ledger.entries) == 1
    assert sorted(first) == list(range(500))
    assert not np.array_equal(first, second)
    opened.draw(GaussCov(mu=0.3), MOMENT)
    assert len(ledger.entries) == 1
    with pytest.raises(BudgetExceededError):
        gate(Gaussian(10.0), ledger).order(5)


class Scripted(SystemSource):
    """Words that were written down, then those of the system."""

    def __init__(self, *words):
        self.script = list(words)

    def words(self, count):
        head = [self.script.pop(0) for _ in range(min(count, len(self.script)))]
        return np.append(np.array(head, dtype=np.uint64), super().words(count - len(head)))


def scripted(*words):
    source = Scripted(*words)
    return Gate(Gaussian(1.0), label="x", adjacency=REPLACE, ledger=None, noise=source)


def test_equal_words_would_favour_an_order_and_are_drawn_again():
    assert scripted(7, 7, 1, 30, 10, 20).order(3).tolist() == [1, 2, 0]


def test_a_sample_has_different_places_and_favours_none():
    last = 2**64 - 1  # beyond the last multiple of 3: its remainder would be too frequent
    assert scripted(last, 5, 8, 4).sample(3, 2).tolist() == [1, 2]
    opened = gate(Gaussian(1.0))
    for n, size in ((1, 1), (5, 5), (10**6, 1000)):
        places = opened.sample(n, size)
        assert len(set(places.tolist())) == size
        assert (places[:-1] < places[1:]).all()
        assert 0 <= places[0] <= places[-1] < n


def test_samples_are_uniform():
    """All 10 pairs of 5 places: chi-squared with 9 degrees of freedom above 35 once in 15,000."""
    opened = Gate(
        Gaussian(1.0), label="x", adjacency=REPLACE, ledger=None, noise=SimulationSource(3)
    )
    counts = {}
    for _ in range(4000):
        key = tuple(opened.sample(5, 2).tolist())
        counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 10
    assert sum((count - 400) ** 2 / 400 for count in counts.values()) < 35


def test_what_is_not_proven_runs_in_simulations_alone(tmp_path):
    simulated = Gate(
        Gaussian(1.0), label="x", adjacency=REPLACE, ledger=None, noise=SimulationSource(0)
    )
    simulated.require_comparison("x")
    for real in (gate(Gaussian(1.0)), gate(Gaussian(1.0), Ledger.create(tmp_path / "l", rho=1.0))):
        with pytest.raises(InvalidParameterError, match="not private"):
            real.require_comparison("x")


def test_a_gate_may_be_charged_for_later_ones(tmp_path):
    ledger = Ledger.create(tmp_path / "l", rho=1.0)
    terms = {"adjacency": REPLACE, "ledger": ledger, "noise": SystemSource(), "once": True}
    Gate(Gaussian(0.3), label="a", charge=Gaussian(0.5), **terms).draw(GaussCov(mu=0.3), MOMENT)
    later = Gate(Gaussian(0.4), label="b", charge=Composed(()), **terms)
    later.draw(GaussCov(mu=0.4), MOMENT)
    assert [entry.cost for entry in ledger.entries] == [Gaussian(0.5), Composed(())]
    with pytest.raises(BudgetExceededError, match="more than its share"):
        later.draw(GaussCov(mu=0.1), MOMENT)


def test_random_orders_are_uniform():
    """All 6 orders of 3 rows: chi-squared with 5 degrees of freedom above 25 once in 7000 times."""
    opened = Gate(
        Gaussian(1.0), label="x", adjacency=REPLACE, ledger=None, noise=SimulationSource(0)
    )
    seen = {}
    for _ in range(3000):
        key = tuple(opened.order(3))
        seen[key] = seen.get(key, 0) + 1
    assert len(seen) == 6
    assert sum((count - 500) ** 2 / 500 for count in seen.values()) < 25


def test_a_composite_is_charged_once_and_pays_its_steps(tmp_path):
    ledger = Ledger.create(tmp_path / "l", rho=1.0)
    opened = gate(Composed((Gaussian(0.3), Gaussian(0.4))), ledger)
    opened.draw(mean(mu=0.3), TOTAL)
    opened.draw(GaussCov(mu=0.4), MOMENT)
    assert len(ledger.entries) == 1
    assert ledger.spent.mu == pytest.approx(0.5)
    with pytest.raises(BudgetExceededError, match="'mean' asks for more than its share"):
        opened.draw(mean(mu=1e-6), TOTAL)
    assert len(ledger.entries) == 1


def test_a_step_larger_than_the_allotment_is_refused_before_the_charge(tmp_path):
    ledger = Ledger.create(tmp_path / "l", rho=1.0)
    with pytest.raises(BudgetExceededError):
        gate(Gaussian(0.3), ledger).draw(GaussCov(mu=0.31), MOMENT)
    assert ledger.entries == ()


def test_a_seed_gives_two_tables_different_noise():
    """Or the difference of two releases would be that of the tables."""
    other = second_moment(open_rows(np.zeros((30, 4))), Clip(row_norm=1.0), REPLACE)
    noise = [
        release(GaussCov(mu=1.0), query, ledger=None, noise=SimulationSource(3)).matrix
        - query.value.to_float() * query.unit
        for query in (MOMENT, other)
    ]
    assert np.abs(noise[0] - noise[1]).max() > 1e-3


def test_statistics_for_other_neighbours_are_refused():
    other = second_moment(ROWS, Clip(row_norm=1.0), Adjacency.ADD_REMOVE)
    with pytest.raises(InvalidParameterError, match="other neighbours"):
        gate(Gaussian(1.0)).draw(GaussCov(mu=1.0), other)


def test_a_mechanism_takes_only_the_norm_it_is_proved_for():
    with pytest.raises(InvalidParameterError, match="no bound in the frobenius norm"):
        release(GaussCov(mu=1.0), TOTAL, ledger=None, noise=SystemSource())
    with pytest.raises(InvalidParameterError, match="no bound in the l2 norm"):
        release(mean(mu=1.0), MOMENT, ledger=None, noise=SystemSource())


def test_components_are_those_of_the_noisy_matrix():
    """AnalyzeGauss is GaussCov and an eigendecomposition: the same seed gives the same noise."""
    matrix = release(GaussCov(mu=1.0), MOMENT, ledger=None, noise=SimulationSource(1)).matrix
    found = release(
        AnalyzeGauss(strength=Gaussian(1.0), n_components=2),
        MOMENT,
        ledger=None,
        noise=SimulationSource(1),
    )
    assert found.components @ found.components.T == pytest.approx(np.eye(2))
    assert matrix @ found.components.T == pytest.approx(found.components.T * found.eigenvalues)
    assert found.trace == pytest.approx(np.trace(matrix))


def test_noise_shrinks_with_rows_and_bound():
    for n, norm in ((30, 1.0), (300, 2.0)):
        rows = open_rows(np.ones((n, 4)))
        query = second_moment(rows, Clip(row_norm=norm), REPLACE)
        released = release(GaussCov(mu=0.5), query, ledger=None, noise=SystemSource())
        assert released.noise_scale == pytest.approx(2**0.5 * norm**2 / n / 0.5)


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, pickle.dumps])
def test_an_allotment_cannot_be_copied(copier):
    with pytest.raises(TypeError, match="spent twice"):
        copier(gate(Gaussian(1.0)))


def test_an_allotment_cannot_be_spent_by_a_fork(monkeypatch):
    opened = gate(Gaussian(1.0))
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(BudgetExceededError, match="forked process"):
        opened.draw(GaussCov(mu=1.0), MOMENT)


def test_an_allotment_is_not_overdrawn_by_threads():
    opened = gate(Gaussian(1.0))
    done = []

    def draw():
        try:
            opened.draw(GaussCov(mu=0.5), MOMENT)  # four of them make the total
            done.append(True)
        except BudgetExceededError:
            done.append(False)

    threads = [threading.Thread(target=draw) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(done) == 4


def test_a_statistic_of_rows_is_no_statistic_of_persons():
    """A gate that promises for persons draws nothing that was bounded for rows, and vice versa."""
    persons = GroupedSource(ROWS, np.arange(30) // 2)
    moment = second_moment(persons, Clip(row_norm=1.0), REPLACE)
    step = GaussCov(mu=1.0)
    with pytest.raises(InvalidParameterError, match="other neighbours"):
        gate(step.cost()).draw(step, moment)
    of_persons = Gate(
        step.cost(),
        label="test",
        adjacency=REPLACE,
        ledger=None,
        noise=SystemSource(),
        protects=GROUP,
    )
    with pytest.raises(InvalidParameterError, match="other neighbours"):
        of_persons.draw(step, MOMENT)
    assert np.isfinite(of_persons.draw(step, moment).matrix).all()
    assert of_persons.rows == 15


# Batches: parallel composition. docs/proofs/batches.md


def on(start, stop, adjacency=REPLACE):
    """The sum of the rows at these positions."""
    return total(Batch(ROWS.array[start:stop], start), Clip(row_norm=1.0), adjacency)


def test_batches_do_not_add_up(tmp_path):
    """Each may spend the whole allotment, charged once."""
    ledger = Ledger.create(tmp_path / "l", rho=1.0)
    opened = gate(Gaussian(1.0), ledger)
    for start in range(0, 30, 10):
        opened.draw(mean(mu=1.0), on(start, start + 10))
        assert opened.rows == start + 10
    assert len(ledger.entries) == 1
    assert ledger.spent.mu == pytest.approx(1.0)


def test_a_batch_is_not_spent_on_twice():
    opened = gate(Gaussian(1.0))
    opened.draw(mean(mu=1.0), on(0, 10))
    for start, stop in ((0, 10), (9, 20), (0, 1), (3, 4)):
        with pytest.raises(BudgetExceededError, match="'mean' asks for more than its share"):
            opened.draw(mean(mu=1e-3), on(start, stop))
    opened.draw(mean(mu=1.0), on(10, 11))  # a refused step has touched nothing


def test_an_earlier_batch_cannot_come_again():
    opened = gate(Gaussian(1.0))
    opened.draw(mean(mu=0.1), on(0, 10))
    opened.draw(mean(mu=0.1), on(10, 20))
    for start, stop in ((0, 10), (5, 15), (9, 30), (0, 1)):
        with pytest.raises(InvalidParameterError, match="in the order of their records"):
            opened.draw(mean(mu=0.1), on(start, stop))
    opened.draw(mean(mu=0.1), on(25, 30))  # some may be left out
    with pytest.raises(InvalidParameterError, match="in the order"):
        opened.draw(mean(mu=0.1), on(20, 25))


def test_overlapping_steps_are_one_batch():
    """A chain of overlaps adds up from one end to the other."""
    opened = gate(Gaussian(1.0))
    opened.draw(mean(mu=0.6), on(0, 10))
    opened.draw(mean(mu=0.6), on(5, 15))
    opened.draw(mean(mu=0.5), on(14, 20))
    with pytest.raises(BudgetExceededError):
        opened.draw(mean(mu=0.5), on(19, 25))
    with pytest.raises(BudgetExceededError):
        opened.draw(mean(mu=0.5), on(2, 3))
    opened.draw(mean(mu=1.0), on(20, 25))
    assert opened.rows == 25


def test_steps_within_a_batch_add_up():
    opened = gate(Gaussian(1.0))
    opened.draw(mean(mu=0.6), on(0, 10))
    opened.draw(mean(mu=0.8 * (1 - 2**-40)), on(0, 5))
    assert opened.rows == 10  # not those of the last step
    with pytest.raises(BudgetExceededError):
        opened.draw(mean(mu=0.01), on(5, 10))


def test_the_whole_table_adds_to_every_batch():
    opened = gate(Gaussian(1.0))
    opened.draw(mean(mu=0.6), TOTAL)  # before
    opened.draw(mean(mu=0.6), on(0, 10))
    with pytest.raises(BudgetExceededError):
        opened.draw(mean(mu=0.81), on(10, 20))
    opened.draw(mean(mu=0.3), on(10, 20))
    # Batch 0 has spent most, though it is not the last: .36 + .36 leave .28.
    with pytest.raises(BudgetExceededError):
        opened.draw(mean(mu=0.6), TOTAL)
    opened.draw(mean(mu=0.5), TOTAL)
    with pytest.raises(BudgetExceededError):
        opened.draw(mean(mu=0.65), on(20, 30))
    opened.draw(mean(mu=0.62), on(20, 30))


def test_batches_of_different_kinds_of_cost():
    """Each is covered part by part; no batch pays with what another left over."""
    pure = PrivateMean(noise=LaplaceNoise(epsilon=0.5))
    opened = gate(Composed((Gaussian(1.0), Pure(0.5))))
    opened.draw(pure, on(0, 10))
    opened.draw(mean(mu=1.0), on(10, 20))
    opened.draw(pure, on(10, 20))
    opened.draw(mean(mu=0.6), on(20, 30))
    opened.draw(pure, on(20, 30))
    with pytest.raises(BudgetExceededError):
        opened.draw(pure, on(20, 30))
    with pytest.raises(BudgetExceededError):
        opened.draw(mean(mu=0.1), TOTAL)  # batch 1 has nothing left


@pytest.mark.parametrize("records", [range(0), range(5, 5), range(0, 10, 2), range(9, -1, -1)])
def test_positions_must_be_consecutive(records):
    query = dataclasses.replace(on(0, 10), records=records)
    with pytest.raises(InvalidParameterError, match="order of their records"):
        gate(Gaussian(1.0)).draw(mean(mu=0.1), query)


def test_batches_need_single_rows_and_a_public_number():
    opened = Gate(
        Gaussian(1.0),
        label="x",
        adjacency=Adjacency.ADD_REMOVE,
        ledger=None,
        noise=SystemSource(),
    )
    with pytest.raises(InvalidParameterError, match="single rows and replace-one"):
        opened.draw(mean(mu=0.1), on(0, 10, Adjacency.ADD_REMOVE))
    persons = Gate(
        Gaussian(1.0),
        label="x",
        adjacency=REPLACE,
        ledger=None,
        noise=SystemSource(),
        protects=GROUP,
    )
    query = dataclasses.replace(on(0, 10), protects=GROUP)
    with pytest.raises(InvalidParameterError, match="single rows and replace-one"):
        persons.draw(mean(mu=0.1), query)


def test_a_refused_batch_is_not_charged(tmp_path):
    ledger = Ledger.create(tmp_path / "l", rho=1.0)
    with pytest.raises(BudgetExceededError):
        gate(Gaussian(0.5), ledger).draw(mean(mu=0.6), on(0, 10))
    with pytest.raises(InvalidParameterError):
        gate(Gaussian(0.5), ledger).draw(
            mean(mu=0.1), dataclasses.replace(on(0, 10), records=range(0))
        )
    assert ledger.entries == ()


def test_normal_numbers_come_after_the_charge_and_never_twice(tmp_path):
    ledger = Ledger.create(tmp_path / "l", rho=1.0)
    for noise in (SystemSource(), SimulationSource(0)):
        opened = Gate(Gaussian(0.3), label="x", adjacency=REPLACE, ledger=None, noise=noise)
        assert opened.normals(4, 5).shape == (4, 5)
        assert not np.array_equal(opened.normals(4, 5), opened.normals(4, 5))
    opened = gate(Gaussian(0.3), ledger)
    opened.normals(2)
    assert len(ledger.entries) == 1
    opened.draw(GaussCov(mu=0.3), MOMENT)  # they cost nothing
    assert len(ledger.entries) == 1
    with pytest.raises(BudgetExceededError):
        gate(Gaussian(10.0), ledger).normals(5)


def test_normal_numbers_are_normal():
    """Mean square of 40,000: 5 standard errors, once in 1.7e6 times; 5 % off is 7 of them."""
    opened = Gate(
        Gaussian(1.0), label="x", adjacency=REPLACE, ledger=None, noise=SimulationSource(1)
    )
    squares = opened.normals(200, 200) ** 2
    assert abs(squares.mean() - 1) < 5 * math.sqrt(2 / 40_000)
    assert abs(squares.mean() - 1.05) > 5 * math.sqrt(2 / 40_000)


@pytest.mark.parametrize(
    "ask", [lambda g: g.normals(3), lambda g: g.order(3), lambda g: g.sample(3, 2)]
)
def test_a_fork_gets_no_random_numbers(monkeypatch, ask):
    opened = gate(Gaussian(1.0))
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(BudgetExceededError, match="forked process"):
        ask(opened)
    with pytest.raises(BudgetExceededError, match="forked process"):
        opened.draw(mean(mu=0.1), on(0, 10))


def test_a_strength_is_no_option():
    """A copy at a strength has the same options and the same words, and no estimator takes it."""
    asked = Power(passes=4)
    context = BuildContext(budget=Budget(rho=1.0), n_columns=3, n_components=2)
    found = asked.at(Gaussian(1.0), context)
    assert found.cost() == Gaussian(1.0)
    assert found.n_components == 2
    assert options(found) == options(asked) == {"passes": 4}
    assert repr(found) == repr(asked) == "Power(passes=4)"
    with pytest.raises(UnsupportedNotionError, match="cannot give a pure epsilon"):
        asked.at(Pure(1.0), context)
    with pytest.raises(InvalidParameterError, match="must have no strength"):
        PrivatePCA(2, rho=1.0, mechanism=found).fit(np.eye(3))
