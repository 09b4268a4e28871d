"""Fits of one table at every budget, and the claims that fail there."""

import math
import warnings
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from eigenveil import PrivateCovariance, intervals
from eigenveil.exceptions import (
    ColumnsLeftOutWarning,
    EigenveilError,
    EmptyCellsWarning,
    NothingFoundError,
)
from tests.truth.judge import RELEASED, error_in_deviations, failures, growth, judged

EPSILONS, DELTA = (1.0, 5.0), 1e-6


class Cell(NamedTuple):
    """A table and a budget."""

    table: str
    epsilon: float


def sweep(name: str, rows: np.ndarray, *, seeds: int) -> tuple[dict[Cell, dict[str, float]], int]:
    """Return the claims of the default that fail in each cell of a table, and how many it makes."""
    failing, count = {}, 0
    errors: dict[float, list[float]] = defaultdict(list)
    for epsilon in EPSILONS:
        shares = []
        for seed in range(1, seeds + 1):
            one, error = _fit(rows, epsilon, seed)
            shares.append(one)
            errors[epsilon] += [error] if math.isfinite(error) else []
        if epsilon > EPSILONS[0] and errors[EPSILONS[0]] and errors[epsilon]:
            shares.append(growth(errors[EPSILONS[0]], errors[epsilon]))
        count += len({claim for each in shares for claim in each})
        found = failures(shares)
        if found:
            failing[Cell(name, epsilon)] = found
    return failing, count


def _fit(rows: np.ndarray, epsilon: float, seed: int) -> tuple[dict[str, float], float]:
    """Judge one fit; nothing is claimed by one that was refused before its charge."""
    missing = {"on_missing": "centre"} if np.isnan(rows).any() else {}
    private = PrivateCovariance(epsilon=epsilon, delta=DELTA, random_state=seed, **missing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnsLeftOutWarning)
        warnings.simplefilter("ignore", EmptyCellsWarning)
        try:
            private.fit(rows)
        except NothingFoundError:
            return {RELEASED: 0.0}, math.nan
        except EigenveilError:
            return {}, math.nan
        try:
            ends = intervals(private.release_)
        except EigenveilError:  # none are stated
            ends = None
    error = error_in_deviations(private.covariance_, rows)
    return judged(private, rows, ends), error
