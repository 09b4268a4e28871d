"""Mechanisms of this library in a simulation: seeded noise, no ledger."""

from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import Clip
from eigenveil.mechanisms.analyze_gauss import directions
from eigenveil.mechanisms.gate import Gate, Procedure
from eigenveil.numerics.random import SimulationSource
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import strength
from eigenveil.privacy.cost import Gaussian
from eigenveil.rows.base import RowSource
from eigenveil.rows.open import open_rows

Released = TypeVar("Released")
UNIT_ROWS = directions(Clip(row_norm=1.0))


@cache
def gaussian_strength(epsilon: float, delta: float) -> float:
    """Return the mu that a budget buys, by the exact Gaussian curve."""
    return strength(Budget(epsilon=epsilon, delta=delta), Gaussian, "gauss")


def gate(step: Any, seed: int) -> Gate:
    """Return a gate for one procedure that charges nobody."""
    return Gate(
        step.cost(),
        label=step.name,
        adjacency=Adjacency.REPLACE_ONE,
        ledger=None,
        noise=SimulationSource(seed),
    )


def simulate(
    procedure: Procedure[Released],
    rows: NDArray[np.float64] | RowSource,
    seed: int,
    clip: Clip = UNIT_ROWS,
) -> Released:
    """Run a procedure on rows, which are scaled to unit length unless ``clip`` says otherwise."""
    source = open_rows(rows)
    return procedure.run(source, clip, gate(procedure, seed))
