"""Arguments of estimators, and options of mechanisms: every one may be anything."""

import inspect
import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from eigenveil import PrivateCovariance, PrivatePCA, StreamingPCA
from eigenveil.mechanisms import Releases, entries, options
from tests.fuzz.case import Call, Case
from tests.fuzz.stock import NAMES, rows
from tests.fuzz.values import BEYOND, any_json, odd_text

__all__ = ["any_bounds", "argument_case", "odd_argument"]

Random = random.Random
_ESTIMATORS: dict[type, tuple[Releases, dict[str, Any]]] = {
    PrivatePCA: ("components", {"n_components": 1}),
    PrivateCovariance: ("covariance", {"row_norm": 2.0}),
    StreamingPCA: ("components", {"n_components": 1, "centring": "none", "batch_size": 10}),
}
_WORDS = ("private", "auto", "mean", "located", "paired", "none", "zero", "centre", "add-remove")
_BUDGETS: tuple[dict[str, Any], ...] = ({"rho": 1.0}, {"epsilon": 1.0, "delta": 1e-6})
_RAGGED = ([[1], [2, 3]], [[[1], [2, 3]], 1], [1, 2, 3], (0, [1, 2]), np.array(3.0), [], ())


def any_bounds(rng: Random) -> Any:
    """Return what somebody may write for the ranges of three columns."""
    ends: tuple[Any, ...] = (0, 1, -1e50, 1e51, np.nan, np.inf, "0", None, True, *BEYOND)
    low, high = rng.choice(ends), rng.choice(ends)
    match rng.randrange(8):
        case 0:
            return (low, high)
        case 1:
            return [low, high]
        case 2:
            return ([low] * rng.choice((1, 2, 3)), [high] * rng.choice((1, 3)))
        case 3:
            return [(low, high)] * rng.choice((1, 2, 3))
        case 4:
            return dict.fromkeys(rng.sample(NAMES, rng.randint(0, 3)), (low, high))
        case 5:
            return {rng.choice((*NAMES, 1, None, (1,))): rng.choice((low, (low,), [low, high]))}
        case 6:
            return np.array([[0.0, 1.0], [1.0, 0.0]]) if rng.random() < 0.5 else low
    return rng.choice(_RAGGED)


def _odd(rng: Random, name: str, releases: Releases) -> Any:
    """Return an odd value for an argument of that name."""
    if name == "bounds" and rng.random() < 0.8:
        return any_bounds(rng)
    if name == "mechanism" and rng.random() < 0.8:
        return _mechanism(rng, releases)
    return odd_argument(rng)


def odd_argument(rng: Random) -> Any:
    """Return an odd value for any argument."""
    return rng.choice(
        (any_json(rng), rng.choice(BEYOND), rng.choice(_WORDS), odd_text(rng), rng.choice(_RAGGED))
    )


def _mechanism(rng: Random, releases: Releases) -> Any:
    """Return a mechanism, or how to make one with an odd option, which may fail."""
    one = rng.choice(entries() if rng.random() < 0.1 else entries(releases))
    names = list(options(one))
    if not names or rng.random() < 0.2:
        return rng.choice((one, one.name, type(one)))
    return partial(replace, one, **{rng.choice(names): _odd(rng, "", releases)})


def argument_case(rng: Random, place: Path) -> Case:
    """A good table, to an estimator of which one argument is odd, or two."""
    kind = rng.choice(list(_ESTIMATORS))
    releases, usual = _ESTIMATORS[kind]
    known = [name for name in inspect.signature(kind).parameters if name not in ("state", "ledger")]
    chosen = {**rng.choice(_BUDGETS), **usual}
    chosen |= {name: _odd(rng, name, releases) for name in rng.sample(known, rng.choice((1, 1, 2)))}
    table = rows(40)

    def fit() -> Any:
        mechanism = chosen.get("mechanism")
        made = {"mechanism": mechanism()} if isinstance(mechanism, partial) else {}
        return kind(**{**chosen, **made}).fit(table)

    return Case([Call(f"{kind.__name__}({chosen}).fit", fit)])
