"""A federation in one process: mistakes are told before anybody is asked, and once."""

import logging
from typing import Any

import numpy as np
import pytest

from eigenveil.exceptions import InvalidParameterError, QuorumLostError
from eigenveil.federated import Agreement, Answering, Limits, Owner, OwnerSettings, simulate

D = 4
ROWS = np.random.default_rng(0).standard_normal((60, D)) * [6, 3, 1, 1]


def agreement(**changes: Any) -> Agreement:
    agreed = {"owners": dict.fromkeys(("north", "east"), Limits()), "simulated": True, **changes}
    return Agreement(federation="one", n_columns=D, n_components=1, **agreed)


def owner(name: str, rows: Any = ROWS) -> Owner:
    settings = OwnerSettings(owner=name, federation="one", epsilon=9, delta=1e-6, random_state=1)
    return Owner(settings, rows)


@pytest.mark.parametrize(
    ("owners", "changes", "said"),
    [
        ({"nort": owner("north"), "east": owner("east")}, {}, "knows no owner 'nort'"),
        ([owner("north"), owner("east")], {}, "give a dict"),
        ({"north": owner("east")}, {}, "'north' has the name 'east'"),
        ({"north": owner("north")}, {"simulated": False}, "simulated=True in the agreement"),
    ],
)
def test_owners_are_those_of_the_agreement(owners: Any, changes: Any, said: str) -> None:
    with pytest.raises(InvalidParameterError, match=said) as caught:
        simulate(agreement(quorum=1, **changes), owners)
    assert "\n" not in str(caught.value)


def test_who_is_not_there_stays_away() -> None:
    release = simulate(agreement(quorum=1), {"north": owner("north")})
    (left,) = release.settings["federation"]["left_out"]
    assert (left["owner"], left["code"]) == ("east", "no-answer")


def test_a_refusal_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    owners: dict[str, Answering] = {name: owner(name, ROWS[:, 1:]) for name in ("north", "east")}
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(QuorumLostError, match=r"north \(columns\)") as caught,
    ):
        simulate(agreement(), owners)
    assert caplog.text.count("refused (columns)") <= 2 * len(owners)
    assert "server" not in str(caught.value)
