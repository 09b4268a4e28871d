"""Fits of one table at every budget, and the claims that fail there."""

import itertools
import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from eigenveil import PrivateCovariance, PrivatePCA, StreamingPCA, intervals
from eigenveil.exceptions import (
    ColumnsLeftOutWarning,
    EigenveilError,
    EmptyCellsWarning,
    NothingFoundError,
    WholeTurnsWarning,
)
from tests.truth.components import judged_components, judged_stream
from tests.truth.judge import RELEASED, error_in_deviations, failures, growth, judged

EPSILONS, DELTA = (1.0, 5.0), 1e-6
COMPONENTS = (1, 3, None)
COMPONENT_FITS: dict[str, dict[str, Any]] = {
    "default": {"delta": DELTA},
    "unit rows": {"delta": DELTA, "mechanism": "spherical"},
    "private radius": {"delta": DELTA, "row_norm": "private"},
    "standardised": {"delta": DELTA, "scale": "private"},
    "pure": {},
    "pure unit rows": {"mechanism": "wishart"},
}


STREAMS = ("oja", "adaptive-oja", "tangent-oja")


class Cell(NamedTuple):
    """A table, a budget, and how it was fitted."""

    table: str
    epsilon: float
    fit: str = "covariance"


Failing = dict[Cell, dict[str, float]]


def sweep(name: str, rows: np.ndarray, *, seeds: int) -> tuple[Failing, int]:
    """Return the claims of covariances that fail in each cell of a table, and how many are made."""
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
        count += _add(failing, Cell(name, epsilon), shares)
    return failing, count


def sweep_components(name: str, rows: np.ndarray, *, seeds: int) -> tuple[Failing, int]:
    """Return the same for components, of one to all columns."""
    failing: Failing = {}
    count = 0
    for fit, options in COMPONENT_FITS.items():
        for k in COMPONENTS:
            if k is not None and k >= rows.shape[1]:
                continue
            for epsilon in EPSILONS:
                shares = [
                    _fit_components(rows, k, epsilon, seed, options) for seed in range(1, seeds + 1)
                ]
                cell = Cell(name, epsilon, f"{fit}, {k or 'all'} components")
                count += _add(failing, cell, shares)
    return failing, count


def sweep_streams(name: str, rows: np.ndarray, *, seeds: int) -> tuple[Failing, int]:
    """Return the same for streams with private scales."""
    failing: Failing = {}
    count = 0
    for mechanism, k, epsilon in itertools.product(STREAMS, COMPONENTS[:2], EPSILONS):
        asked = {"n_components": k, "epsilon": epsilon, "mechanism": mechanism}
        shares = [_fit_stream(rows, seed, asked) for seed in range(1, seeds + 1)]
        cell = Cell(name, epsilon, f"{mechanism} stream, {k} components")
        count += _add(failing, cell, shares)
    return failing, count


def _add(failing: Failing, cell: Cell, shares: Sequence[dict[str, float]]) -> int:
    """Note the claims that fail in a cell, and return how many are made there."""
    found = failures(shares)
    if found:
        failing[cell] = found
    return len({claim for each in shares for claim in each})


def _fit(rows: np.ndarray, epsilon: float, seed: int) -> tuple[dict[str, float], float]:
    missing = {"on_missing": "centre"} if np.isnan(rows).any() else {}
    private = PrivateCovariance(epsilon=epsilon, delta=DELTA, random_state=seed, **missing)
    lost = _lost(lambda: private.fit(rows))
    if lost is not None:
        return lost, math.nan
    try:
        ends = intervals(private.release_)
    except EigenveilError:  # none are stated
        ends = None
    error = error_in_deviations(private.covariance_, rows)
    return judged(private, rows, ends), error


def _fit_components(
    rows: np.ndarray, k: int | None, epsilon: float, seed: int, options: dict[str, Any]
) -> dict[str, float]:
    private = PrivatePCA(k, epsilon=epsilon, random_state=seed, **options)
    lost = _lost(lambda: private.fit(rows))
    return judged_components(private, rows) if lost is None else lost


def _fit_stream(rows: np.ndarray, seed: int, asked: dict[str, Any]) -> dict[str, float]:
    stream = StreamingPCA(**asked, delta=DELTA, scale="private", random_state=seed)
    lost = _lost(lambda: stream.fit(rows))
    return judged_stream(stream, rows) if lost is None else lost


def _lost(fit: Callable[[], Any]) -> dict[str, float] | None:
    """Run a fit; where it ends without a release, return what it claims.

    Nothing is claimed by one that was refused before its charge.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnsLeftOutWarning)
        warnings.simplefilter("ignore", EmptyCellsWarning)
        warnings.simplefilter("ignore", WholeTurnsWarning)
        try:
            fit()
        except NothingFoundError:
            return {RELEASED: 0.0}
        except EigenveilError:
            return {}
    return None
