"""All scenarios, by area."""

from typing import Any

from tests.kill.artefacts import Commands, Regressions, Saves
from tests.kill.continual import Watched
from tests.kill.federations import Federation, Owned, Served
from tests.kill.ledgers import Charges, Rivals
from tests.kill.secure_sums import Summed
from tests.kill.streams import Days, DaysByCommand, DaysOfPersons

__all__ = ["SCENARIOS"]

SCENARIOS: list[Any] = [
    Charges(),
    Rivals(),
    Saves("out"),
    Saves("out.zip"),
    Commands("out"),
    Commands("out.zip"),
    Regressions("out", 20.0),
    Regressions("out.zip", 2.0),
    Days(),
    DaysByCommand(),
    DaysOfPersons(),
    Watched(),
    Owned("shares"),
    Owned("variances"),
    Served(),
    Federation(),
    Summed(),
]
