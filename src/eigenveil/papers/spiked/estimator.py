r"""The numbers of a spiked model, released: rank, spikes and noise variance.

Source: Cai, Xia, Zha 2024 [Spiked], sections 5.3 (sigma^2), 7.1 (rank) and 7.2 (lambda).

.. math:: \Sigma = U \Lambda U' + \sigma^2 I

Two draws on the second moment of clipped rows, about the origin: all eigenvalues, whose ratios give
the rank (`rank`), then the variance of the bulk beyond that many spikes (`noise-variance`). Spikes
are the leading noisy eigenvalues above it: post-processing. Proofs: docs/proofs/rank.md,
docs/proofs/noise_variance.md.
"""

from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from eigenveil.estimators.base import fitting, open_table
from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import second_moment
from eigenveil.exact.spectrum import eigenvalues, weighted_eigenvalues
from eigenveil.exceptions import (
    BoundsRequiredError,
    InvalidDataError,
    InvalidParameterError,
    NothingFoundError,
)
from eigenveil.mechanisms.additive import GaussianNoise
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.rank import PrivateNoiseVariance, PrivateRank, bulk_weights
from eigenveil.messages import option
from eigenveil.papers.spiked.model import SpikedModel
from eigenveil.privacy.accounting import compose, split
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import strength
from eigenveil.privacy.cost import Gaussian
from eigenveil.privacy.guarantee import Guarantee, Numerics
from eigenveil.privacy.ledger import Ledger

_RANK_SHARE = 0.8  # of mu^2


class PrivateSpikedModel(BaseEstimator):  # type: ignore[misc]
    """Rank, spikes and noise variance of rows about the origin, released once.

    What `Spiked(model=...)` takes as public may be released by this first, with a budget of its
    own. The guarantee is worst-case: rows are clipped at a public norm.

    Parameters
    ----------
    row_norm : float
        Public clipping norm of a row.
    max_rank : int
        Largest rank considered; below the number of columns.
    epsilon, delta, rho : float, optional
        The budget of one fit: ``epsilon`` and ``delta``, or ``rho`` alone.
    ledger : Ledger or path, optional
        Charged before any noise is drawn.
    random_state : int, optional
        Seed of a simulation. A seeded fit is marked as not private.

    Attributes
    ----------
    rank_ : int
        How many directions stand out.
    spikes_ : array of shape (rank_,)
        What they have above the noise, descending; ``spike_`` is their mean, the paper's lambda.
    noise_variance_ : float
        sigma^2, of clipped rows.
    eigenvalues_ : array of shape (n_features,)
        All noisy eigenvalues.
    deviation_ : float
        Standard deviation of the noise on each of them; public.
    privacy_ : Guarantee
        The promise.

    Notes
    -----
    Privacy: protects one row under replace-one neighbours; the number of rows is public. Never
    released: row norms, how many rows were clipped.

    """

    def __init__(
        self,
        row_norm: float | None = None,
        *,
        max_rank: int = 10,
        epsilon: float | None = None,
        delta: float | None = None,
        rho: float | None = None,
        ledger: Ledger | str | Path | None = None,
        random_state: int | None = None,
    ) -> None:
        self.row_norm = row_norm
        self.max_rank = max_rank
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Release the numbers of ``X``: an array, a data frame, a path, or chunks."""
        if self.row_norm is None:
            raise BoundsRequiredError(
                "eigenvalues need a public bound on rows: pass ", option("row_norm")
            )
        with fitting(self) as (noise, ledger):
            budget = Budget(epsilon=self.epsilon, delta=self.delta, rho=self.rho)
            mu = strength(budget, Gaussian, "rank")
            first, second = (
                GaussianNoise(mu=part) for part in split(mu, (_RANK_SHARE, 1 - _RANK_SHARE))
            )
            adjacency = Adjacency.REPLACE_ONE
            clip = Clip(row_norm=self.row_norm)
            source = open_table(self, X, adjacency)
            max_rank = _checked_rank(self.max_rank, self.n_features_in_)
            gate = Gate(
                compose(first.cost(), second.cost()),
                label="spiked model",
                adjacency=adjacency,
                ledger=ledger,
                noise=noise,
            )
            moment = second_moment(source, clip, adjacency)
            del X, source
            ranked = gate.draw(
                PrivateRank(noise=first, max_rank=max_rank),
                eigenvalues(moment),
            )
            rank = ranked.rank or 0
            assert moment.count is not None  # replace-one
            weights = bulk_weights(self.n_features_in_, moment.count, rank)
            bulk = gate.draw(
                PrivateNoiseVariance(noise=second), weighted_eigenvalues(moment, weights)
            )
            del moment  # post-processing only from here
            self.rank_, self.noise_variance_ = rank, bulk.value
            self.eigenvalues_, self.deviation_ = ranked.eigenvalues, ranked.deviation
            self.spikes_ = np.maximum(ranked.eigenvalues[:rank] - bulk.value, 0.0)
            self.spike_ = float(self.spikes_.mean()) if rank else 0.0
            self.n_samples_ = gate.rows
            self.privacy_ = Guarantee(
                budget=budget,
                cost=gate.total,
                adjacency=adjacency,
                bounds=(f"rows clipped at norm {self.row_norm:g}",),
                numerics=Numerics.EXACT if gate.exact else Numerics.IDEALISED,
                simulated=noise.simulated,
                ledger=gate.receipt,
            )
        return self

    def model(self, *, failure: float = 1e-6) -> SpikedModel:
        """Return the model for `Spiked`, from the released numbers."""
        if not self.rank_ or not self.spikes_.min() > 0 or not self.noise_variance_ > 0:
            raise NothingFoundError(
                "no spike stands out above the noise: give more rows, a larger budget or a smaller "
                "row norm"
            )
        return SpikedModel(
            rank=self.rank_,
            smallest_spike=float(self.spikes_.min()),
            largest_spike=float(self.spikes_.max()),
            noise_variance=self.noise_variance_,
            failure=failure,
        )


def _checked_rank(max_rank: Any, columns: int) -> int:
    """Return the largest rank to consider; refuse what no table with so many columns has."""
    if isinstance(max_rank, bool) or not isinstance(max_rank, Integral) or max_rank < 1:
        raise InvalidParameterError("max_rank must be a whole number from 1 on")
    if columns < 2:
        raise InvalidDataError("a spiked model needs two columns at least: give more of them")
    return min(int(max_rank), columns - 1)
