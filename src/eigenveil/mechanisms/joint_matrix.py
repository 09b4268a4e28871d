"""JointMatrix: regressions from a released covariance of features and targets (for `joined`).

Which features it shows, first coefficients of a target, and the variance of their residuals.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import Clip
from eigenveil.mechanisms.elliptical import CLEAR_VARIANCE
from eigenveil.mechanisms.gauss import NoisyMatrix
from eigenveil.mechanisms.linear_rows import Records
from eigenveil.mechanisms.prepared import Prepared
from eigenveil.numerics.ridge import RidgeState

_MAX_UNSURE_VARIANCE = 2.5  # of a refined column, unless its scale was found beyond doubt
_MAX_UNSURE_SHARE = 0.6  # the same, of the squared radius
_MAX_GUESSED_VARIANCE = 1.6  # of a column that has the scale of the others
_HIDDEN_VARIANCE = 2.0  # deviations of the noise, of a column without a scale that is left out
_MIN_RESIDUAL_SHARE = 0.05  # of the variance of a target


@dataclass(frozen=True, kw_only=True, eq=False)
class JointMatrix:
    """A released matrix of features and targets, about a released centre.

    ``clipping_error`` is the relative error of a step along it, as intervals expect it.
    """

    ready: Prepared
    gram: NoisyMatrix
    features: int
    clipping_error: float

    @cached_property
    def kept(self) -> NDArray[np.intp]:
        """Features with a scale that the matrix does not contradict."""
        p, columns = self.features, self.ready.columns
        variances = self.gram.matrix.diagonal()[:p]
        sure, known = columns.sure[:p], columns.known[:p]
        bound = _MAX_UNSURE_SHARE * self.ready.clip.row_norm**2
        unsure = min(_MAX_UNSURE_VARIANCE, bound)
        most = np.where(known | columns.one_unit, unsure, _MAX_GUESSED_VARIANCE)
        wide = ~sure & (variances > most)
        hidden = ~known & (variances <= _HIDDEN_VARIANCE * self.gram.noise_scale)
        return np.flatnonzero(~(wide | hidden))

    @property
    def scale(self) -> NDArray[np.float64]:
        """Scales of the features; infinite for one that is left out."""
        scale = np.full(self.features, np.inf)
        scale[self.kept] = self.ready.table.scale[self.kept]
        return scale

    @property
    def centre(self) -> NDArray[np.float64]:
        """Centre of the features in the units of the data."""
        table = self.ready.table
        return np.asarray((table.centre * table.scale)[: self.features])

    def records(self, i: int, start: Clip) -> Records:
        """Return how rows about the centre, in units of their scales, become records."""
        scale = np.where(np.isfinite(self.scale), 1.0, np.inf)
        centre = self.ready.table.centre
        return Records(
            centre=centre[: self.features],
            scale=scale,
            target=self.features + i,
            offset=float(centre[self.features + i]),
            lift=1.0,
            length=self.ready.clip.row_norm,
            on_invalid=start.on_invalid,
        )

    def state(self, i: int, rows: int, *, shrinks: bool) -> tuple[RidgeState, float]:
        """Return first coefficients of a target, and the variance that they explain."""
        matrix, noise, kept = self.gram.matrix, self.gram.noise_scale, self.kept
        at = self.features + i
        shown = matrix[at, at] > CLEAR_VARIANCE * noise
        cross = matrix[kept, at] if shown else np.zeros(kept.size)
        values, vectors = np.linalg.eigh(matrix[np.ix_(kept, kept)])
        floor = noise * math.sqrt(max(1, kept.size))
        start = RidgeState.start((vectors * np.maximum(values, floor)) @ vectors.T, noise)
        state = start.updated(
            cross,
            noise_variance=noise**2 / 2,
            sampling_variance=max(float(matrix[at, at]), noise) / rows,
            shrinks=shrinks,
        )
        b = state.coefficients()
        squares = np.maximum(values, 0.0) @ (vectors.T @ b) ** 2
        return state, max(0.0, float(2 * b @ cross - squares))

    def target_variance(self, i: int) -> float:
        """Return the variance of a target, in squared scales."""
        at = self.features + i
        return float(self.gram.matrix[at, at])

    def residual_variance(self, i: int, explained: float) -> float:
        """Return the variance of residuals, in squared scales of the target."""
        variance, noise = self.target_variance(i), self.gram.noise_scale
        return max(variance - explained, _MIN_RESIDUAL_SHARE * variance, noise / 2)
