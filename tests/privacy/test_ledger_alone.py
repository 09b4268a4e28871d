"""What an entry costs if no other owner is honest, noted beside its cost."""

import math

import pytest
from click.testing import CliRunner

from eigenveil.cli import main
from eigenveil.exceptions import BudgetExceededError, InvalidParameterError, LedgerError
from eigenveil.privacy import Adjacency, Gaussian, Ledger, epsilon_of

ONE = Adjacency.REPLACE_ONE


def _charge(ledger, mu, alone=None, label="sum"):
    cost = None if alone is None else Gaussian(alone)
    return ledger.charge(Gaussian(mu), label=label, adjacency=ONE, alone=cost)


def test_both_costs_are_noted_and_read_back(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger", epsilon=1, delta=1e-6)
    _charge(ledger, 0.03, 0.08)
    _charge(ledger, 0.04)
    first, second = Ledger(tmp_path / "ledger").entries
    assert (first.cost, first.alone) == (Gaussian(0.03), Gaussian(0.08))
    assert second.alone is None
    assert ledger.spent.mu == pytest.approx(0.05)
    assert ledger.spent_alone.mu == pytest.approx(math.hypot(0.08, 0.04))


def test_the_cap_for_a_lone_owner_holds_whatever_else_is_left(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger", epsilon=1, delta=1e-6, alone_epsilon=2)
    most = 0.44  # mu of epsilon = 2 at this delta is a little above
    assert epsilon_of(Gaussian(most), 1e-6) < 2 < epsilon_of(Gaussian(1.1 * most), 1e-6)
    _charge(ledger, 0.05, most)
    for wrong in (lambda: _charge(ledger, 0.05, 0.3), lambda: _charge(ledger, 0.2)):
        with pytest.raises(BudgetExceededError, match="lone owner"):
            wrong()
    with pytest.raises(BudgetExceededError, match="lone owner"):
        ledger.check(Gaussian(0.01), adjacency=ONE, alone=Gaussian(0.3))
    assert len(ledger.entries) == 1


def test_a_cap_needs_a_delta(tmp_path):
    with pytest.raises(InvalidParameterError, match="delta"):
        Ledger.create(tmp_path / "ledger", epsilon=1, alone_epsilon=2)


def test_a_note_that_was_altered_is_found(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger", epsilon=1, delta=1e-6)
    _charge(ledger, 0.03, 0.08)
    text = (tmp_path / "ledger").read_text()
    (tmp_path / "ledger").write_text(text.replace("0.08", "0.07"))
    with pytest.raises(LedgerError, match="altered"):
        _ = ledger.entries


def test_the_command_line_shows_both(tmp_path):
    run, file = CliRunner().invoke, str(tmp_path / "ledger")
    made = run(main, f"ledger init {file} --epsilon 1 --delta 1e-6 --alone-epsilon 3".split())
    assert made.exit_code == 0, made.output
    _charge(Ledger(file), 0.03, 0.08)
    shown = run(main, ["ledger", "show", file])
    assert "if no other owner of its secure sums is honest: epsilon = " in shown.output
    assert "of 3 at delta = 1e-06" in shown.output
    listed = run(main, ["ledger", "history", file])
    assert "mu = 0.03 (Gaussian differential privacy); alone mu = 0.08" in listed.output
