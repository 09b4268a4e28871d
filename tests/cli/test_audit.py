"""The attack as a command: silent on the truth, loud on a planted fault.

Seeded: the source of the operating system is replaced. Under another seed a correct mechanism would
be accused with probability 1e-3 an audit; the planted fault, of mu about 20, separates the tables.
"""

import json

import pytest

from eigenveil.mechanisms import Gauss, GaussCov
from eigenveil.numerics import SimulationSource
from eigenveil.privacy import Gaussian
from tests.cli.conftest import fails, invoke


@pytest.fixture(autouse=True)
def seeded(monkeypatch):
    source = SimulationSource(0)
    monkeypatch.setattr("eigenveil.estimators.base.SystemSource", lambda: source)


BUDGET = ["--epsilon", 1, "--delta", 1e-5]


class Quiet(GaussCov):
    """Noise a hundred times smaller than declared."""

    def cost(self):
        return Gaussian(self.mu / 100)


@pytest.mark.parametrize("words", [["gauss"], ["wishart", "--of", "components"]])
def test_no_violation_is_found(words):
    result = invoke("audit", *words, *BUDGET, "--trials", 60)
    assert result.exit_code == 0, result.output
    assert "no violation found" in result.stdout
    assert "1 claimed" in result.stdout


def test_a_planted_fault_is_caught(monkeypatch):
    monkeypatch.setattr(Gauss, "at", lambda self, strength, context: Quiet(mu=strength.mu))
    assert "VIOLATED" in fails(5, "audit", "gauss", *BUDGET, "--trials", 60)
    result = invoke("audit", "gauss", *BUDGET, "--trials", 60, "--json")
    assert result.exit_code == 5
    told = json.loads(result.stdout)
    assert told["violated"]
    assert told["epsilon_claimed"] == pytest.approx(1.0, rel=1e-6)
    assert told["epsilon_shown"] > 1


@pytest.mark.parametrize("name", ["separate", "gap-projector", "zero"])
def test_runs_that_agree_are_no_accusation(name):
    """Refusals, and matrices held at zero, repeat by right."""
    assert invoke("audit", name, *BUDGET, "--trials", 20).exit_code == 0


def test_mistakes():
    assert "see eigenveil mechanisms" in fails(2, "audit", "nonsense", *BUDGET)
    assert "add --of components or --of covariance" in fails(2, "audit", "laplace", *BUDGET)
    assert "leave --of out" in fails(2, "audit", "gauss", "--of", "components", *BUDGET)
    assert "audit another" in fails(2, "audit", "spiked", *BUDGET)
    assert "16 trials" in fails(2, "audit", "gauss", *BUDGET, "--trials", 3)
    assert "give a budget" in fails(2, "audit", "gauss")
    assert "give delta" in fails(2, "audit", "gauss", "--epsilon", 1)
