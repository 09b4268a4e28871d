"""One row per mechanism. A new mechanism adds a row here and inherits every check.

Rows are clipped to the unit ball about the origin unless the mechanism says otherwise, so the
declared sensitivities are those of the unit ball.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from eigenveil.data import Bounded, Clip, open_rows, second_moment, total
from eigenveil.mechanisms import (
    AnalyzeGauss,
    Centred,
    CleanedCov,
    Gate,
    GaussCov,
    GaussianMean,
    ProjectedCov,
)
from eigenveil.privacy.accounting import split
from eigenveil.privacy.adjacency import Adjacency

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
CLIP = Clip(row_norm=1.0, on_invalid="zero")


@dataclass(frozen=True)
class Case:
    """How to build, feed and read one mechanism."""

    name: str
    module: str  # under eigenveil.mechanisms; its proof page has the same stem
    build: Callable[[float, int, int], Any]  # (mu, columns, components) -> mechanism
    query: Callable[[np.ndarray, Adjacency], Bounded]  # of its first step
    run: Callable[[Any, np.ndarray, Adjacency, Gate], Any]
    read: Callable[[Any], np.ndarray]  # a flat array of independent entries
    sensitivity: dict[Adjacency, float]
    worst_pair: Callable[[int, Adjacency], tuple[np.ndarray, np.ndarray | None]]
    noise_sigma: Callable[[float, int, Adjacency], np.ndarray] | None  # None: not additive
    may_coincide: bool = False  # honest releases, cleaned or projected to the same matrix

    def __str__(self):
        return self.name


def _moment(rows, adjacency):
    return second_moment(open_rows(rows), CLIP, adjacency)


def _total(rows, adjacency):
    return total(open_rows(rows), CLIP, adjacency)


def _one_step(query):
    def run(mechanism, rows, adjacency, gate):
        return gate.draw(mechanism, query(rows, adjacency))

    return run


def _upper(matrix):
    return matrix[np.triu_indices(len(matrix))]


def _projector(released):
    return _upper(released.components.T @ released.components)


def _orthogonal(d, adjacency):
    """xx' and yy' of orthogonal unit rows are sqrt(2) apart; d = 1 has none."""
    first = np.eye(d)[0]
    return first, None if adjacency is ADD else np.eye(d)[-1]


def _antipodal(d, adjacency):
    first = np.full(d, 1 / math.sqrt(d))
    return first, None if adjacency is ADD else -first


def _symmetric_sigma(mu, d, adjacency):
    """s = sensitivity/mu on the diagonal, s/sqrt(2) off it, written out independently."""
    s = (math.sqrt(2) if adjacency is REPLACE else 1.0) / mu
    full = np.full((d, d), s / math.sqrt(2))
    np.fill_diagonal(full, s)
    return _upper(full)


def _vector_sigma(mu, d, adjacency):
    return np.full(d, 2.0 / mu) if adjacency is REPLACE else np.full(d + 1, math.sqrt(2) / mu)


def _centred(mu, d, k):
    mean_mu, inner_mu = split(mu, (0.1, 0.9))
    return Centred(mean=GaussianMean(mu=mean_mu), inner=GaussCov(mu=inner_mu), row_norm=1.0)


MOMENT = {REPLACE: math.sqrt(2), ADD: 1.0}
MEAN = {REPLACE: 2.0, ADD: math.sqrt(2)}


def _matrix_case(module, mechanism, **differences):
    """A mechanism on the second moment that releases a matrix."""
    fields = {
        "name": mechanism.name,
        "module": module,
        "build": lambda mu, d, k: mechanism(mu=mu),
        "query": _moment,
        "run": _one_step(_moment),
        "read": lambda released: _upper(released.matrix),
        "sensitivity": MOMENT,
        "worst_pair": _orthogonal,
        "noise_sigma": None,
    }
    return Case(**(fields | differences))


TABLE = [
    _matrix_case("covariance.gauss", GaussCov, noise_sigma=_symmetric_sigma),
    _matrix_case("covariance.cleaned", CleanedCov, may_coincide=True),
    _matrix_case("covariance.projection", ProjectedCov, may_coincide=True),
    Case(
        name="analyze-gauss",
        module="pca.analyze_gauss",
        build=lambda mu, d, k: AnalyzeGauss(mu=mu, n_components=k),
        query=_moment,
        run=_one_step(_moment),
        read=_projector,
        sensitivity=MOMENT,
        worst_pair=_orthogonal,
        noise_sigma=None,
    ),
    Case(
        name="mean",
        module="mean",
        build=lambda mu, d, k: GaussianMean(mu=mu),
        query=_total,
        run=_one_step(_total),
        read=lambda released: np.append(
            released.offset, [] if released.count is None else released.count
        ),
        sensitivity=MEAN,
        worst_pair=_antipodal,
        noise_sigma=_vector_sigma,
    ),
    Case(
        name="centred",
        module="centred",
        build=_centred,
        query=_total,
        run=lambda mechanism, rows, adjacency, gate: mechanism.run(open_rows(rows), CLIP, gate),
        read=lambda released: np.concatenate(
            [
                released.centre,
                [] if released.noisy_count is None else [released.noisy_count],
                _upper(released.inner.matrix),
            ]
        ),
        sensitivity=MEAN,
        worst_pair=_antipodal,
        noise_sigma=None,
    ),
]
