"""Noise and sensitivities that several predictions share, and what a prediction may refuse."""

import math

import numpy as np
from numpy.typing import NDArray

from eigenveil.mechanisms.additive import Allowance
from eigenveil.numerics.random import NoiseSource
from eigenveil.numerics.variates import uniforms
from eigenveil.planner.situation import Situation

__all__ = [
    "WIDEST",
    "Refused",
    "Unpredicted",
    "held",
    "laplaces",
    "mean_deviation",
    "symmetric_laplace",
    "unpredicted",
]

WIDEST = 20_000  # columns whose square matrices fit an ordinary machine: 3.2 GB each


class Refused(Exception):  # noqa: N818 - an answer, not an error
    """A mechanism does not serve a situation; the message says why, in public numbers."""


class Unpredicted(Exception):  # noqa: N818 - an answer, not an error
    """A mechanism serves a situation, but too little is known to predict its error."""


def unpredicted(situation: Situation) -> Unpredicted | None:
    """What stands in the way of any prediction."""
    if situation.n is None:
        return Unpredicted("the number of rows is private: assume one to predict an error")
    if situation.private_radius:
        return Unpredicted("a private radius is not predicted yet: state row_norm to compare")
    return None


def mean_deviation(situation: Situation, allowance: Allowance, reach: float) -> float:
    """Standard deviation of an entry of a private mean of rows within ``reach``."""
    public = situation.adjacency.count_is_public
    assert situation.n is not None  # nothing is predicted without it
    if allowance.pure:
        length = math.sqrt(situation.d)
        bound = math.sqrt(2) * (2 * length if public else length + 1)
    else:
        bound = 2.0 if public else math.sqrt(2)
    return bound * reach / allowance.strength / situation.n


def held(error: NDArray[np.float64], farthest: float) -> NDArray[np.float64]:
    """An error of the centre that is at most so long."""
    length = float(np.linalg.norm(error))
    return error * (farthest / length) if length > farthest else error


def laplaces(source: NoiseSource, count: int) -> NDArray[np.float64]:
    """Independent Laplace draws of scale 1."""
    u = uniforms(source, count) - 0.5
    return np.asarray(-np.sign(u) * np.log1p(-2 * np.abs(u)))


def symmetric_laplace(d: int, scale: float, source: NoiseSource) -> NDArray[np.float64]:
    """Laplace noise on the upper triangle, mirrored."""
    upper = np.triu(laplaces(source, d * d).reshape(d, d))
    return np.asarray(scale * (upper + np.triu(upper, 1).T))
