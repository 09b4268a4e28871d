"""One promise for the records of all owners: implied by each of theirs, clause by clause."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigenveil.exceptions import InvalidParameterError
from eigenveil.privacy import (
    GROUP,
    ROW,
    ZCDP,
    Adjacency,
    Approx,
    Budget,
    FederatedGuarantee,
    Gaussian,
    Guarantee,
    Kind,
    Numerics,
    Pure,
    Unit,
    epsilon_of,
    fits,
    guarantee_from_dict,
    guarantee_to_dict,
)

PATIENTS, CLIENTS = Unit("person", "patient"), Unit("person", "client")


def guarantee(**changes):
    fields = {
        "budget": Budget(epsilon=1.0, delta=1e-6),
        "cost": Gaussian(0.2),
        "adjacency": Adjacency.REPLACE_ONE,
        "bounds": ("rows of unit length",),
    }
    return Guarantee(**(fields | changes))


def of(*changes):
    return FederatedGuarantee.of(guarantee(**one) for one in changes)


def test_the_largest_epsilon_and_the_largest_delta():
    joint = of(
        {"budget": Budget(epsilon=3.0, delta=1e-8)},
        {"budget": Budget(epsilon=1.0, delta=1e-5)},
        {"budget": Budget(epsilon=0.5), "cost": Pure(0.5)},
    )
    assert joint.budget == Budget(epsilon=3.0, delta=1e-5)
    assert joint.cost == Approx(3.0, 1e-5)
    assert "at each of the 3 owners, one row" in joint.sentence()
    assert "(epsilon = 3, delta = 1e-05)" in joint.sentence()


@pytest.mark.parametrize(
    ("budgets", "expected"),
    [
        ([Budget(rho=0.1), Budget(rho=0.4)], Budget(rho=0.4)),
        ([Budget(epsilon=1.0), Budget(epsilon=2.0)], Budget(epsilon=2.0)),
        (
            [Budget(rho=0.4), Budget(epsilon=0.1, delta=1e-5)],
            Budget(epsilon=epsilon_of(ZCDP(0.4), 1e-5), delta=1e-5),
        ),
        (
            [Budget(rho=0.4), Budget(epsilon=0.1)],
            Budget(epsilon=epsilon_of(ZCDP(0.4), 1e-6), delta=1e-6),
        ),
        (
            [Budget(rho=0.4), Budget(epsilon=90.0, delta=1e-3)],
            Budget(epsilon=90.0, delta=1e-3),
        ),
    ],
)
def test_notions(budgets, expected):
    def spent(budget):
        if budget.rho is not None:
            return ZCDP(budget.rho)
        return Pure(budget.epsilon) if budget.is_pure else Approx(budget.epsilon, budget.delta)

    joint = of(*({"budget": budget, "cost": spent(budget)} for budget in budgets))
    assert joint.budget == expected


amounts = st.floats(0.01, 10.0)
promises = st.one_of(
    st.builds(
        lambda e, d: {"budget": Budget(epsilon=e, delta=d), "cost": Approx(e, d)},
        amounts,
        st.floats(1e-9, 0.1),
    ),
    st.builds(lambda e: {"budget": Budget(epsilon=e), "cost": Pure(e)}, amounts),
    st.builds(lambda r: {"budget": Budget(rho=r), "cost": ZCDP(r)}, amounts),
    st.builds(lambda m: {"budget": Budget(rho=m * m), "cost": Gaussian(m)}, amounts),
)


@given(st.lists(promises, min_size=1, max_size=4))
@settings(max_examples=50, deadline=None)
def test_it_holds_for_the_records_of_every_owner(owners):
    joint = of(*owners)
    assert all(fits(one["cost"], joint.budget) for one in owners)


def test_one_owner_weakens_the_rest():
    plain = of({}, {}, {})
    assert plain.kind is Kind.WORST_CASE
    assert plain.numerics is Numerics.EXACT
    assert not plain.simulated
    modelled = of({}, {"kind": Kind.MODEL_BASED, "assumption": "rows are Gaussian"})
    assert modelled.kind is Kind.MODEL_BASED
    assert modelled.sentence().startswith("Only if: the tables of 1 of 2 owners follow the models")
    assert of({}, {"numerics": Numerics.IDEALISED}).numerics is Numerics.IDEALISED
    assert of({}, {"simulated": True}).sentence().startswith("Simulation, not private")


def test_what_is_said_of_owners_in_all():
    text = of({}, {}).sentence()
    assert "these statements hold one by one" in text
    assert "a person with rows at several owners, who is protected only by the sum" in text
    assert "of each owner the number of rows is public" in text
    assert "at the one owner, one row" in of({}).sentence()


@pytest.mark.parametrize(
    ("units", "expected"),
    [
        ((ROW, ROW), ROW),
        ((PATIENTS, PATIENTS), PATIENTS),
        ((PATIENTS, CLIENTS), GROUP),
        ((PATIENTS, GROUP), GROUP),
        ((PATIENTS, ROW), ROW),
        ((ROW, GROUP, PATIENTS), ROW),
    ],
)
def test_the_weakest_unit(units, expected):
    joint = of(*({"protects": unit} for unit in units))
    assert joint.protects == expected
    differ = len(set(units)) > 1
    assert ("the owners protect different units" in joint.sentence()) == differ
    # A row of a group is protected as long as it stays in its group.
    assert ("(of the same id where" in joint.sentence()) == (differ and expected == ROW)


def test_different_units_are_counted():
    text = of({}, {"protects": PATIENTS}, {}).sentence()
    assert "(one row with 2, all rows of one person with 1)" in text
    assert "'patient'" not in text


def test_no_owner_puts_words_into_the_mouths_of_the_others():
    lie = "everything, forever"
    odd = {
        "bounds": ("rows of unit length", lie),
        "ledger": lie,
        "assumption": lie,
        "kind": Kind.MODEL_BASED,
        "protects": Unit("person", lie),
    }
    text = of({}, odd).sentence()
    assert lie not in text
    assert "Bounds, enforced: rows of unit length; more at single owners" in text
    assert "each owner's own, in its statement" in of({}, {"bounds": (lie,)}).sentence()
    assert "the ledgers of 1 of 2 owners" in text
    assert of({"ledger": "a"}, {"ledger": "b"}).ledger.startswith("the ledger of each owner")
    assert of({}, {}).ledger is None


@pytest.mark.parametrize("owners", [[], [{}, {"adjacency": Adjacency.ADD_REMOVE}]])
def test_what_cannot_be_joined(owners):
    with pytest.raises(InvalidParameterError):
        of(*owners)


def test_the_fields_are_those_of_any_guarantee():
    document = guarantee_to_dict(of({}, {"budget": Budget(rho=0.3), "protects": PATIENTS}))
    assert guarantee_to_dict(guarantee_from_dict(document)) == document
