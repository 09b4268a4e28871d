import pytest

from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.cost import Gaussian
from eigenveil.privacy.guarantee import Guarantee, Kind, Numerics


def guarantee(**changes):
    fields = {
        "budget": Budget(epsilon=1.0, delta=1e-6),
        "cost": Gaussian(0.25),
        "adjacency": Adjacency.REPLACE_ONE,
        "bounds": ("entries within [0, 16] (stated by the caller)",),
    }
    return Guarantee(**(fields | changes))


def test_the_sentence_says_everything_an_officer_asks():
    text = guarantee().sentence()
    for part in (
        "one row",  # unit
        "replaced by any other row",  # neighbours
        "epsilon = 1, delta = 1e-06",
        "mu = 0.25",  # native parameter
        "worst-case",
        "exact",
        "entries within [0, 16] (stated by the caller)",  # bounds and their origin
        "Not protected:",
        "no ledger",
    ):
        assert part in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"budget": Budget(rho=0.1)}, "rho = 0.1 (zero-concentrated"),
        ({"budget": Budget(epsilon=2.0)}, "epsilon = 2: no outcome"),
        ({"budget": Budget(epsilon=30.0)}, "e^epsilon"),
        ({"adjacency": Adjacency.ADD_REMOVE}, "number of rows is private"),
        ({"kind": Kind.MODEL_BASED}, "only if the records follow the assumed model"),
        ({"numerics": Numerics.IDEALISED}, "floating-point effects are not covered"),
        ({"ledger": "entry 3 of the ledger"}, "Charged to entry 3 of the ledger."),
    ],
)
def test_the_sentence_follows_the_fields(changes, expected):
    assert expected in guarantee(**changes).sentence()
    assert expected not in guarantee().sentence()


def test_a_simulation_says_so_first():
    assert guarantee(simulated=True).sentence().startswith("Simulation, not private")
