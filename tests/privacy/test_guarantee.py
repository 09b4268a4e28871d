import json
import math
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigenveil.exceptions import InvalidParameterError
from eigenveil.privacy import (
    GROUP,
    Adjacency,
    Budget,
    Composed,
    Gaussian,
    Guarantee,
    Kind,
    Numerics,
    Pure,
    Unit,
    epsilon_of,
    guarantee_from_dict,
    guarantee_to_dict,
    stated,
)


def guarantee(**changes):
    fields = {
        "budget": Budget(epsilon=1.0, delta=1e-6),
        "cost": Gaussian(0.2),
        "adjacency": Adjacency.REPLACE_ONE,
        "bounds": ("entries clamped to [0, 16] (stated by the caller)",),
    }
    return Guarantee(**(fields | changes))


def test_the_sentence_says_everything_an_officer_asks():
    text = guarantee().sentence()
    for part in (
        "one row",  # unit
        "replacing it by any other row",  # neighbours
        "epsilon = 1, delta = 1e-06",
        "mu = 0.2",  # native parameter
        "worst-case",
        "exact numerics",
        "entries clamped to [0, 16] (stated by the caller)",  # bounds and their origin
        "Not protected:",
        "no ledger",
    ):
        assert part in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"budget": Budget(rho=0.1)}, "(rho = 0.1, zero-concentrated"),
        ({"budget": Budget(epsilon=2.0), "cost": Pure(2.0)}, "a factor of 7.39 (epsilon = 2)"),
        ({"budget": Budget(epsilon=30.0), "cost": Pure(1.0)}, "e^30"),
        ({"adjacency": Adjacency.ADD_REMOVE}, "number of rows is private"),
        (
            {"kind": Kind.MODEL_BASED, "assumption": "rows are Gaussian"},
            "Only if: rows are Gaussian; other tables are promised nothing. Protected: one row of "
            "such a table; replacing it by another row of the model",
        ),
        ({"numerics": Numerics.IDEALISED}, "rounding is not covered"),
        ({"ledger": "entry 3 of the ledger"}, "Recorded in: entry 3 of the ledger."),
    ],
)
def test_the_sentence_follows_the_fields(changes, expected):
    assert expected in guarantee(**changes).sentence()
    assert expected not in guarantee().sentence()


def test_the_clauses_are_the_sentence_word_for_word():
    promise = guarantee()
    assert promise.sentence() == " ".join(f"{k}: {v}." for k, v in promise.statements())


def test_a_rho_is_also_stated_as_a_factor():
    promise = guarantee(budget=Budget(rho=0.1))
    factor = math.exp(epsilon_of(Gaussian(0.2), 1e-6))
    found = re.search(r"a factor of ([\d.]+), up to a probability of 1e-06", promise.sentence())
    assert factor <= float(found.group(1)) < 1.01 * factor


@given(epsilon=st.floats(1e-6, 19.9))
def test_the_factor_is_never_rounded_down(epsilon):
    text = guarantee(budget=Budget(epsilon=epsilon), cost=Pure(epsilon)).sentence()
    factor = Fraction(re.search(r"a factor of ([\d.]+) ", text).group(1))
    assert math.exp(epsilon) * (1 - 1e-15) <= factor
    assert factor - 1 <= math.expm1(epsilon) * 1.02


def test_a_promise_below_the_cost_cannot_be_made():
    with pytest.raises(InvalidParameterError, match="less than what was spent"):
        guarantee(cost=Gaussian(0.25))


def test_a_simulation_says_so_first():
    assert guarantee(simulated=True).sentence().startswith("Simulation, not private")


@pytest.mark.parametrize(
    "changes", [{"kind": Kind.MODEL_BASED}, {"assumption": "rows are Gaussian"}]
)
def test_worst_case_and_model_based_are_never_confused(changes):
    with pytest.raises(InvalidParameterError, match="states its model"):
        guarantee(**changes)


PATIENTS = Unit("person", "patient")


def test_a_promise_to_persons_says_who_they_are():
    text = guarantee(protects=PATIENTS).sentence()
    for part in (
        "Protected: all rows of one person (rows that share a value of 'patient', where 7, 007 and "
        "7.0 are the same), whichever it is",
        "replacing them by any other rows of one person, at least one row, makes no outcome",
        "the number of persons is public, how many rows each has is not",
        "Not protected: a person whose rows have several values of 'patient', of which each is "
        "protected alone;",
    ):
        assert part in text
    assert "several rows of one person taken together" not in text
    assert "the number of rows" not in text


def test_a_promise_to_groups():
    text = guarantee(protects=GROUP, adjacency=Adjacency.ADD_REMOVE).sentence()
    for part in (
        "all rows of one group (rows that share an id, where 7, 007 and 7.0 are the same)",
        "adding or removing them all makes no outcome",
        "the number of groups is private, and so is how many rows each has",
        "a person whose rows have several ids, of which each is protected alone",
    ):
        assert part in text


def test_earlier_releases_promise_to_one_spelling():
    document = guarantee_to_dict(guarantee(protects=PATIENTS))
    assert document.pop("merged_ids") is True
    text = guarantee_from_dict(document).sentence()
    assert "all rows of one person (rows that share a value of 'patient'), whichever it is" in text
    assert guarantee_to_dict(guarantee_from_dict(document)) == document


@pytest.mark.parametrize(
    "fields", [("people",), ("person",), ("row", "patient"), ("group", "patient")]
)
def test_impossible_units(fields):
    with pytest.raises(InvalidParameterError):
        Unit(*fields)


@pytest.mark.parametrize(
    ("value", "words"),
    [(1.0, "1"), (1e-6, "1e-06"), (1.0000004, "1.00001"), (25.0000004, "25.0001"), (0.1, "0.1")],
)
def test_numbers_are_rounded_up(value, words):
    assert stated(value) == words
    assert float(stated(value)) >= value


def test_the_smallest_promises_are_not_said_to_be_nothing():
    for epsilon in (1e-16, 1e-90):
        said = guarantee(budget=Budget(epsilon=epsilon), cost=Pure(epsilon)).sentence()
        assert f"by more than e^{epsilon:g} (epsilon = {epsilon:g})" in said


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"budget": Budget(rho=0.1), "ledger": "entry 3", "simulated": True},
        {"budget": Budget(epsilon=2.0), "cost": Composed((Pure(1.0), Pure(0.5))), "bounds": ()},
        {"kind": Kind.MODEL_BASED, "assumption": "rows are Gaussian", "protects": GROUP},
        {"numerics": Numerics.IDEALISED, "protects": PATIENTS, "adjacency": Adjacency.ADD_REMOVE},
    ],
)
def test_a_guarantee_survives_json(changes):
    promise = guarantee(**changes)
    document = json.loads(json.dumps(guarantee_to_dict(promise)))
    assert guarantee_from_dict(document) == promise


@pytest.mark.parametrize(
    "change",
    [
        {"budget": {"epsilon": 0.1, "delta": 1e-6}},  # less than what was spent
        {"budget": {"epsilon": "1"}},
        {"budget": []},
        {"cost": {"kind": "gaussian", "mu": 10**400}},
        {"cost": {"kind": "gaussian", "mu": 0.2, "sigma": 1}},
        {"cost": {"kind": "composed", "parts": [], "also": 1}},
        {"cost": {"kind": ["gaussian"], "mu": 0.2}},
        {"adjacency": "neighbours"},
        {"bounds": "rows"},
        {"bounds": [1]},
        {"bounds": None},
        {"kind": "model-based"},
        {"simulated": 0},
        {"ledger": 0},
        {"ledger": ["entry"]},
        {"assumption": "rows are Gaussian"},
        {"unit": "one column"},
        {"unit": []},
        {"unit_column": "patient"},
        {"unit": "all rows of one person"},
        {"unit": "all rows of one person", "unit_column": 3},
        {"unit_column": None},
        {"merged_ids": True},
        {"sentence": "all is well"},
    ],
    ids=str,
)
def test_what_is_no_guarantee_is_refused(change):
    document = guarantee_to_dict(guarantee())
    guarantee_from_dict(document)
    with pytest.raises(InvalidParameterError, match="not a guarantee"):
        guarantee_from_dict(document | change)
    for name in change.keys() & document.keys():
        with pytest.raises(InvalidParameterError, match="not a guarantee"):
            guarantee_from_dict({k: v for k, v in document.items() if k != name})


@pytest.mark.parametrize("document", [None, [], "guarantee", 1, {}])
def test_what_is_no_object_is_no_guarantee(document):
    with pytest.raises(InvalidParameterError, match="not a guarantee"):
        guarantee_from_dict(document)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "A 50 % guess whether one row or another was used becomes at most 73.2 %"),
        ({"adjacency": Adjacency.ADD_REMOVE}, "one row was in the table becomes at most 73.2 %"),
        ({"protects": GROUP}, "the rows of one group or of another were used becomes"),
        ({"budget": Budget(epsilon=10.0, delta=1e-6)}, "at most 99.9955 %"),
        ({"budget": Budget(epsilon=1.0), "cost": Pure(1.0)}, "at most 73.2 %"),
        ({"budget": Budget(epsilon=60.0), "cost": Pure(1.0)}, "at most 100 %"),
        ({"cost": Composed(())}, "at most 50 %"),
    ],
    ids=str,
)
def test_the_promise_in_odds(changes, said):
    assert said in guarantee(**changes).odds()


@given(st.floats(0.01, 8), st.floats(1e-9, 0.1), st.integers(0, 1000))
def test_no_test_of_neighbours_is_right_more_often(epsilon, delta, step):
    """Over all pairs of error rates that (epsilon, delta) allows."""
    asked = Budget(epsilon=epsilon, delta=delta)
    found = guarantee(budget=asked, cost=Gaussian(1e-6))._best_guess()
    wrong = step / 1000  # how often the neighbour is taken for the table
    factor = math.exp(epsilon)
    right = min(1.0, factor * wrong + delta, 1 - (1 - wrong - delta) / factor)
    assert (right + 1 - wrong) / 2 <= found + 1e-12


def test_the_odds_are_attained():
    """By the pair of outcomes that randomised response has, and a failure that tells all."""
    epsilon, delta = 1.0, 0.01
    asked = Budget(epsilon=epsilon, delta=delta)
    found = guarantee(budget=asked, cost=Gaussian(1e-6))._best_guess()
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert found == pytest.approx(delta + (1 - delta) * p)
