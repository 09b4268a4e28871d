import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigenveil.exceptions import InvalidParameterError
from eigenveil.privacy import (
    ZCDP,
    Adjacency,
    Approx,
    Composed,
    Gaussian,
    Pure,
    cost_from_dict,
    cost_to_dict,
)

numbers = st.floats(0, 1e6)
leaves = st.one_of(
    numbers.map(Gaussian),
    numbers.map(Pure),
    numbers.map(ZCDP),
    st.builds(Approx, numbers, st.floats(0, 0.999)),
)
costs = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3).map(tuple).map(Composed))


@given(costs)
def test_costs_survive_json_to_the_last_bit(cost):
    assert cost_from_dict(json.loads(json.dumps(cost_to_dict(cost)))) == cost


@pytest.mark.parametrize(
    "document", [{}, {"kind": "gaussian"}, {"kind": "magic", "mu": 1}, {"kind": "pure", "mu": 1}]
)
def test_unknown_costs_are_refused(document):
    with pytest.raises(InvalidParameterError):
        cost_from_dict(document)


@pytest.mark.parametrize("build", [Gaussian, Pure, ZCDP, lambda x: Approx(x, 0.1)])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_impossible_costs_are_refused(build, value):
    with pytest.raises(InvalidParameterError):
        build(value)


def test_adjacency_reads_what_users_type():
    assert Adjacency.parse("add_remove") is Adjacency.ADD_REMOVE
    assert Adjacency.parse(Adjacency.REPLACE_ONE) is Adjacency.REPLACE_ONE
    with pytest.raises(InvalidParameterError, match="'replace-one' or 'add-remove'"):
        Adjacency.parse("nearby")
