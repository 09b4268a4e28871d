"""Runs of the figures of Dong, Liang, Yi 2022 [CovRev]: tables in the unit ball and errors on them.

The error is the Frobenius distance from the table's own second moment.
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.datasets.generators import zipf_norms
from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import second_moment
from eigenveil.mechanisms.cleaned import AdaptiveCleaned, Cleaned
from eigenveil.mechanisms.wishart import WishartCov
from eigenveil.papers.covrev.exponential import Exponential
from eigenveil.papers.covrev.printed import (
    adaptive_cov,
    gauss_cov,
    lap_cov,
    separate_cov,
    separate_cov_pure,
)
from eigenveil.papers.figure import Settings
from eigenveil.papers.runner import Stored
from eigenveil.papers.simulation import gate, simulate
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.cost import Gaussian, Pure
from eigenveil.rows.open import open_rows

Matrix = NDArray[np.float64]
_BALL = Clip(row_norm=1.0)


class _Table:
    """Rows in the unit ball, and what every run needs of them."""

    def __init__(self, rows: Matrix) -> None:
        self.rows = rows
        self.n, self.d = rows.shape
        self.norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        self._moments: dict[float, Bounded] = {}
        self.truth = self.moment(1.0)

    def clipped(self, tau: float) -> Bounded:
        """Return the second moment of rows clipped at a threshold."""
        if tau not in self._moments:
            source, clip = open_rows(self.rows), Clip(row_norm=tau)
            self._moments[tau] = second_moment(source, clip, Adjacency.REPLACE_ONE)
        return self._moments[tau]

    def moment(self, tau: float) -> Matrix:
        """Return the same as a matrix, in units of the squared threshold."""
        return np.asarray(self.clipped(tau).value.to_float() / self.n)

    def draw(self, mechanism: Any, seed: int) -> Matrix:
        """Return one release of the second moment."""
        return np.asarray(gate(mechanism, seed).draw(mechanism, self.clipped(1.0)).matrix)

    def run(self, procedure: Any, seed: int) -> Matrix:
        """Return one release of a procedure that reads the rows."""
        return np.asarray(simulate(procedure, self.rows, seed, _BALL).matrix)

    def errors(self, found: Mapping[str, Matrix]) -> dict[str, float]:
        """Return the Frobenius distances."""
        return {name: float(np.linalg.norm(one - self.truth)) for name, one in found.items()}


@lru_cache(maxsize=2)
def _zipf(n: int, d: int, bins: int) -> _Table:
    return _Table(zipf_norms(n, d, bins, seed=n + d + bins))


@lru_cache(maxsize=2)
def _images(data: Stored, n: int, digit: int | None) -> _Table:
    images, labels = data.mnist()
    chosen = images if digit is None else images[labels == digit]
    rows = chosen[:n].reshape(len(chosen[:n]), -1)
    return _Table(rows / (255 * math.sqrt(rows.shape[1])))


@lru_cache(maxsize=2)
def _texts(data: Stored, n: int, d: int) -> _Table:
    from sklearn.feature_extraction.text import HashingVectorizer

    return _Table(HashingVectorizer(n_features=d).transform(data.reuters()[:n]).toarray())


def _concentrated(table: _Table, at: Settings, seed: int) -> dict[str, float]:
    """Return errors of one run at rho."""
    rng = np.random.default_rng(seed)
    n, d, rho = table.n, table.d, at["rho"]
    mu = math.sqrt(2 * rho)
    found = {
        "GaussCov": gauss_cov(table.truth, n, rho, rng),
        "SeparateCov": separate_cov(table.truth, n, rho, rng),
        "AdaptiveCov": adaptive_cov(table.norms, table.moment, rho, rng),
        "AdaptiveCov, tuned": adaptive_cov(table.norms, table.moment, rho, rng, tuned=True),
        "zero": np.zeros_like(table.truth),
        "cleaned": table.draw(Cleaned(strength=Gaussian(mu)), seed),
        "adaptive-cleaned": table.run(AdaptiveCleaned(strength=Gaussian(mu)), seed),
    }
    if d <= at["emcov_up_to"]:
        found["EMCov"] = table.run(Exponential(strength=Gaussian(mu), n_columns=d), seed)
    return table.errors(found)


def _pure(table: _Table, at: Settings, seed: int) -> dict[str, float]:
    """Return errors of one run at a pure epsilon."""
    rng = np.random.default_rng(seed)
    n, d, epsilon = table.n, table.d, at["epsilon"]
    found = {
        "LapCov": lap_cov(table.truth, n, epsilon, rng),
        "SeparateCov": separate_cov_pure(table.truth, n, epsilon, rng),
        "zero": np.zeros_like(table.truth),
        "wishart": table.draw(WishartCov(epsilon=epsilon), seed),
    }
    if d <= at["emcov_up_to"]:
        found["EMCov"] = table.run(Exponential(strength=Pure(epsilon), n_columns=d), seed)
    return table.errors(found)


def synthetic(at: Settings, seed: int, data: Stored) -> dict[str, float]:
    """Return errors on rows with Zipf norms."""
    return _concentrated(_zipf(at["n"], at["d"], at["N"]), at, seed)


def synthetic_pure(at: Settings, seed: int, data: Stored) -> dict[str, float]:
    """Return the same at a pure epsilon."""
    return _pure(_zipf(at["n"], at["d"], at["N"]), at, seed)


def mnist(at: Settings, seed: int, data: Stored) -> dict[str, float]:
    """Return errors on images of MNIST, of one digit or all."""
    return _concentrated(_images(data, at["n"], at["digit"]), at, seed)


def news(at: Settings, seed: int, data: Stored) -> dict[str, float]:
    """Return errors on hashed words of Reuters."""
    return _concentrated(_texts(data, at["n"], at["d"]), at, seed)
