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
from eigenveil.mechanisms.mean import PrivateMean
from eigenveil.mechanisms.pca.one_pass import OnePass, OnePassState
from eigenveil.mechanisms.row_bounds import RowBounds
from eigenveil.mechanisms.scalars.variances import PrivateVariances
from eigenveil.privacy.accounting import split

__all__ = ["standardised_by_itself", "standardising_step"]

_VARIANCE_SHARE, _MEAN_SHARE = 0.2, 0.05  # of mu^2


def standardising_step(
    method: OnePass, iterate: OnePassState, bounds: RowBounds, batch: Batch, clip: Clip, gate: Gate
) -> tuple[OnePassState, RowBounds]:
    """Correct the estimate by one batch, then renew scales and centre.

    ``batch`` and ``clip`` are those that ``bounds`` give.
    """
    rest = 1 - _VARIANCE_SHARE - _MEAN_SHARE
    assert bounds.columns is not None  # whose scales are renewed
    shares = split(method.mu, (_VARIANCE_SHARE, _MEAN_SHARE, rest))
    variance, mean, step = (GaussianNoise(mu=mu) for mu in shares)
    squares = gate.draw(
        PrivateVariances(noise=variance), column_squares(batch, clip, gate.adjacency)
    )
    moved = gate.draw(PrivateMean(noise=mean), total(batch, clip, gate.adjacency))
    noise_of_trace = math.sqrt(squares.values.size) * squares.deviation
    before = replace(iterate, trace=float(squares.values.sum()), trace_noise=noise_of_trace)
    after = replace(method, mu=step.mu).weighed_step(before, batch, clip, gate, narrows=False)
    # The centre moves by what this mean is worth beside it, which takes as much from each moment.
    weight = bounds.centre_error / (bounds.centre_error + moved.squared_error)
    taken = weight * (2 - weight)
    noise = moved.squared_error / moved.offset.size
    variances = squares.values - taken * (moved.offset**2 - noise)
    columns = bounds.columns.with_variances(variances, squares.deviation)
    centred = replace(bounds, columns=columns).moved(
        weight * moved.offset, weight * moved.squared_error
    )
    offset, factor = math.sqrt(taken) * moved.offset, columns.renewal()
    return _standardised(after, offset, centred, factor, method.n_components)


def _standardised(
    iterate: OnePassState,
    offset: NDArray[np.float64],
    bounds: RowBounds,
    factor: NDArray[np.float64],
    k: int,
) -> tuple[OnePassState, RowBounds]:
    """Return the estimate about a centre moved by ``offset``, of columns divided by ``factor``.

    ``bounds`` have that centre and the scales before; those after come with the estimate.
    """
    bounds = bounds.divided(factor)
    assert bounds.columns is not None
    trace = float(np.maximum(bounds.columns.variances, 0.0).sum())
    noise = float(np.linalg.norm(bounds.columns.noise))
    return iterate.standardised(offset, factor, trace, noise, k), bounds


def standardised_by_itself(
    iterate: OnePassState, bounds: RowBounds, k: int
) -> tuple[OnePassState, RowBounds]:
    """Return an estimate of correlations, and bounds in their scales.

    An estimate that holds the whole matrix is divided by its own diagonal, so that no column
    outweighs the others by what its variance and the matrix disagree about; any other one by the
    variances.
    """
    columns, diagonal = bounds.columns, iterate.diagonal
    assert columns is not None  # whose scales are looked for
    if diagonal is not None:
        columns = columns.seen_variances(diagonal, math.sqrt(iterate.noise_variance))
    nowhere = np.zeros(columns.scale.size)
    bounds = replace(bounds, columns=columns)
    return _standardised(iterate, nowhere, bounds, columns.deviations(), k)
