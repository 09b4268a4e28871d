r"""A step of a stream whose scales and centre are renewed by every batch.

.. math:: v_j = \frac1m \sum_i z_{ij}^2 + \text{noise}, \qquad
          \delta = \frac1m \sum_i z_i + \text{noise}, \qquad
          M \to D^{-1} (M - \delta\delta') D^{-1}, \quad D_{jj}^2 = v_j - \delta_j^2

with z the clipped rows in the present scales, about the present centre. Scales of a first batch are
off by up to a few times, and components of such columns are not those of standardised ones. So each
batch brings the variances of the columns and their mean beside its step, for a small part of its
budget; the estimate, the scales and the centre follow: post-processing. What earlier batches have
brought is carried over. Columns whose variance is hidden are enlarged (`released_scales`), and
their noise with them: the estimate states the noise of each column (`image_noise`).
Proof: docs/proofs/streaming.md.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import column_squares, total
from eigenveil.mechanisms.additive import GaussianNoise, PrivateMean
from eigenveil.mechanisms.component_stages import PrivateVariances
from eigenveil.mechanisms.components import NoisyComponents
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.one_pass import OnePass, OnePassState
from eigenveil.mechanisms.released_scales import ReleasedScales
from eigenveil.mechanisms.row_bounds import RowBounds
from eigenveil.privacy.accounting import split
from eigenveil.privacy.cost import Gaussian
from eigenveil.rows.memory import Batch

_VARIANCE_SHARE, _MEAN_SHARE = 0.2, 0.05  # of mu^2


def standardising_step(
    method: OnePass, iterate: OnePassState, bounds: RowBounds, batch: Batch, clip: Clip, gate: Gate
) -> tuple[OnePassState, RowBounds]:
    """Correct the estimate by one batch, then renew scales and centre.

    ``bounds`` divide and limit the records of ``batch``, ``clip`` pulls them in.
    """
    rest = 1 - _VARIANCE_SHARE - _MEAN_SHARE
    assert bounds.columns is not None  # whose scales are renewed
    shares = split(method.mu, (_VARIANCE_SHARE, _MEAN_SHARE, rest))
    variance, mean, step = (GaussianNoise(mu=mu) for mu in shares)
    seen = bounds.seen(batch, clip)
    # An estimate of the whole matrix has the variances in the present scales as well.
    whole = iterate.diagonal is not None
    enlarged = bounds.columns.enlarged if whole else np.ones(bounds.centre.size)
    first = bounds.divided(enlarged)
    first_clip = replace(clip, centre=first.centre)
    squares = gate.draw(
        PrivateVariances(noise=variance),
        column_squares(first.seen(batch, clip), first_clip, gate.adjacency),
    )
    moved = gate.draw(PrivateMean(noise=mean), total(seen, clip, gate.adjacency))
    noise_of_trace = math.sqrt(squares.values.size) * squares.deviation
    before = replace(iterate, trace=float(squares.values.sum()), trace_noise=noise_of_trace)
    after = replace(method, strength=Gaussian(step.mu)).weighed_step(
        before, seen, clip, gate, narrows=False
    )
    # The centre moves by what this mean is worth beside it, which takes as much from each moment.
    weight = bounds.centre_error / (bounds.centre_error + moved.squared_error)
    taken = weight * (2 - weight)
    noise = moved.squared_error / moved.offset.size
    less = taken * (moved.offset**2 - noise)
    bounds = bounds.moved(moved.offset, moved.squared_error, weight)
    assert bounds.columns is not None
    units = enlarged**2
    columns = bounds.columns.pooled(squares.values * units - less, squares.deviation * units)
    near = known = columns
    if after.diagonal is not None:
        estimate = columns.with_variances(after.diagonal - less, after.noise().on_diagonal)
        near = columns.with_enlarged(estimate)
        known = columns.with_whole(near)
    factor = known.renewal()
    bounds = replace(bounds, columns=replace(columns, least=known.least_after(factor)))
    trace, renewed = _trace(near), _trace(near.divided(factor))
    longer = math.sqrt(renewed / trace) if trace > 0 else 1.0
    offset = math.sqrt(taken) * moved.offset
    after = after.standardised(offset, factor, near.variances, near.noise, method.n_components)
    return after, bounds.divided(factor, longer)


def standardised_by_itself(
    iterate: OnePassState, bounds: RowBounds, k: int
) -> tuple[NoisyComponents, RowBounds, NDArray[np.bool_]]:
    """Return components of correlations, bounds in released scales, and which columns are hidden.

    An estimate that holds the whole matrix is divided by its own diagonal, so that no column
    outweighs the others by what its variance and the matrix disagree about; any other one by the
    variances. The released scale of an enlarged column allows for entries that are cut off.
    """
    columns, diagonal = bounds.columns, iterate.diagonal
    assert columns is not None  # whose scales are looked for
    first = near = columns
    if diagonal is None:  # nothing was bought in the first scale
        first = columns.with_variances(columns.variances, np.full_like(columns.noise, np.inf))
    else:
        near = columns.with_variances(diagonal, iterate.noise().on_diagonal)
    released = first.with_whole(near, sure=True).deviations()
    factor = near.deviations()
    nowhere = np.zeros(factor.size)
    iterate = iterate.standardised(nowhere, factor, near.variances, near.noise, k)
    # The error of the centre is compared with eigenvalues: in the units of the matrix.
    error = bounds.divided(factor).centre_error
    bounds = replace(bounds.divided(released), centre_error=error)
    return iterate.components(k), bounds, near.hidden


def _trace(columns: ReleasedScales) -> float:
    """Return the sum of the variances of the columns."""
    return float(np.maximum(columns.variances, 0.0).sum())
