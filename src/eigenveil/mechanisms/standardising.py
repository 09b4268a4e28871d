r"""A step of a stream whose scales and centre are renewed by every batch.

.. math:: v_j = \frac1m \sum_i z_{ij}^2 + \text{noise}, \qquad
          \delta = \frac1m \sum_i z_i + \text{noise}, \qquad
          M \to D^{-1} (M - \delta\delta') D^{-1}, \quad D_{jj}^2 = v_j - \delta_j^2

with z the clipped rows in the present scales, about the present centre. Scales of a first batch are
off by up to a few times, and components of such columns are not those of standardised ones. So each
batch brings the variances of the columns and their mean beside its step, for a small part of its
budget; the estimate, the scales and the centre follow: post-processing. What earlier batches have
brought is carried over. Proof: docs/proofs/streaming.md.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.clip import Clip
from eigenveil.data.gram import column_squares, total
from eigenveil.data.sources import Batch
from eigenveil.mechanisms.additive import GaussianNoise
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.covariance.elliptical import CLEAR_VARIANCE
from eigenveil.mechanisms.mean import PrivateMean
from eigenveil.mechanisms.pca.one_pass import OnePass, OnePassState
from eigenveil.mechanisms.row_bounds import RowBounds
from eigenveil.mechanisms.scalars.variances import PrivateVariances
from eigenveil.privacy.accounting import split

__all__ = ["standardising_step"]

_VARIANCE_SHARE, _MEAN_SHARE = 0.1, 0.05  # of mu^2


def standardising_step(
    method: OnePass, iterate: OnePassState, bounds: RowBounds, batch: Batch, clip: Clip, gate: Gate
) -> tuple[OnePassState, RowBounds]:
    """Correct the estimate by one batch, then renew scales and centre.

    ``batch`` and ``clip`` are those that ``bounds`` give.
    """
    rest = 1 - _VARIANCE_SHARE - _MEAN_SHARE
    shares = split(method.mu, (_VARIANCE_SHARE, _MEAN_SHARE, rest))
    variance, mean, step = (GaussianNoise(mu=mu) for mu in shares)
    squares = gate.draw(
        PrivateVariances(noise=variance), column_squares(batch, clip, gate.adjacency)
    )
    moved = gate.draw(PrivateMean(noise=mean), total(batch, clip, gate.adjacency))
    before = replace(iterate, trace=float(squares.values.sum()))
    after = replace(method, mu=step.mu).weighed_step(before, batch, clip, gate, narrows=False)
    error = moved.squared_error / moved.offset.size
    variances = squares.values - moved.offset**2 + error
    factor = _factor(variances, squares.deviation)
    kept = np.maximum(variances, 0.0)
    trace = float((kept / factor**2).sum())
    stretch = math.sqrt(trace / float(kept.sum())) if kept.any() else 1.0
    return (
        after.standardised(moved.offset, factor, trace),
        bounds.renewed(moved.offset, factor, moved.squared_error, stretch),
    )


def _factor(variances: NDArray[np.float64], noise: float) -> NDArray[np.float64]:
    """Return what columns are divided by further.

    A clear variance is taken at its word. A column that shows none is divided by what the noise
    leaves to it at most: it grows from batch to batch until it shows.
    """
    clear = variances > CLEAR_VARIANCE * noise
    most = np.clip(variances, min(noise, 1.0), 1.0)
    return np.sqrt(np.where(clear, variances, most))
