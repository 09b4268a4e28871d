"""The gate: charge first, pay every step, refuse the rest."""

import copy
import pickle
import threading

import numpy as np
import pytest

from eigenveil.data import Clip, open_rows, second_moment, total
from eigenveil.data.groups import GroupedSource
from eigenveil.exceptions import BudgetExceededError, InvalidParameterError
from eigenveil.mechanisms import (
    AnalyzeGauss,
    Gate,
    GaussCov,
    GaussianNoise,
    PrivateMean,
    release,
)
from eigenveil.numerics.random import SimulationSource, SystemSource
from eigenveil.privacy.adjacency import GROUP, Adjacency
from eigenveil.privacy.cost import Composed, Gaussian
from eigenveil.privacy.ledger import Ledger

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
        AnalyzeGauss(mu=1.0, n_components=2), MOMENT, ledger=None, noise=SimulationSource(1)
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
