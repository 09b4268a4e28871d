r"""Linear regression without bounds: a Gram matrix of weighed records, then residuals in stages.

New here; the stages follow the iterative schemes of Wang 2018 and Lev et al. 2026, which scale rows
by their largest norm. For records z = (gamma, (x - c)/s), weights w(|z|), u = w z and
v = w (y - m):

.. math:: \hat G = \sum u u' + E, \qquad
          g_t = \sum u \,\mathrm{clip}_{\tau_t}(v - u'b_t) + e_t, \qquad
          b_{t+1} = b_t + A_t g_t

with E Gaussian and isotropic, tau_t the private 90 % quantile of residuals, and A_t the inverse of
G as far as noise allows, with an empirical-Bayes penalty from released numbers (`ridge`).
Weights depend on x alone, so a linear model has the same coefficients with them. The sums have the
sensitivities of unit rows whatever x is, and noise on g_t falls with the residuals, not with y.

Without stated ranges, scales s come from differences of pairs of rows, and centres c and m are
found in two steps each. Where public numbers tell that nothing but a mean can be found, there are
no stages, and a private median of means is the model. Proof: docs/proofs/linear.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import LARGEST_NORM, SMALLEST_NORM, Clip
from eigenveil.exact.gram import total, trace
from eigenveil.exceptions import InvalidDataError, NothingFoundError
from eigenveil.mechanisms.additive import PrivateTrace, VectorNoise
from eigenveil.mechanisms.centre import CentreSteps
from eigenveil.mechanisms.column_scale import ColumnScale
from eigenveil.mechanisms.distances import NoisyDistances, PrivateDistances
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.gauss import GaussCov, NoisyMatrix
from eigenveil.mechanisms.linear_rows import (
    Design,
    Gradients,
    Records,
    Residuals,
)
from eigenveil.mechanisms.median_of_means import MedianOfMeans, blocks_of
from eigenveil.mechanisms.wishart import WishartCov
from eigenveil.messages import THOUSANDS, Part, option
from eigenveil.numerics.ridge import RidgeState
from eigenveil.privacy.accounting import compose, gaussian_epsilon
from eigenveil.privacy.cost import Cost
from eigenveil.rows.base import RowSource
from eigenveil.rows.maps import Divide, TakeColumns
from eigenveil.text import listed

_RESIDUAL_LEVEL = 0.9  # quantile of residuals that they are clipped at
_VARIANCE_REACH = 2.0  # times that quantile, for their variance
_LENGTH_LEVEL = 0.9  # quantile of lengths that records are pulled in to


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One improvement of the coefficients: a scale of residuals, then their sum with records."""

    search: PrivateDistances
    noise: VectorNoise


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSteps:
    """What is drawn for one target: its offset, stages, and the variance of residuals."""

    offset: CentreSteps | MedianOfMeans
    stages: tuple[Stage, ...]
    spread: PrivateDistances | None = None
    variance: PrivateTrace | None = None

    def cost(self) -> Cost:
        """Return the cost of all steps, composed."""
        costs = [self.offset.cost()]
        for stage in self.stages:
            costs += [stage.search.cost(), stage.noise.cost()]
        costs += [step.cost() for step in (self.spread, self.variance) if step is not None]
        return compose(*costs)


@dataclass(frozen=True, slots=True, eq=False)
class NoisyModel:
    """Released coefficients of one target on records z, and public facts about their noise.

    Attributes
    ----------
    offset : float
        What the target was taken about.
    offset_error : float
        Expected squared error of the offset, from noise; infinite where it is unknown.
    coefficients : array
        One for the constant, one for each feature that was kept.
    middle : array
        The same with hardly any penalty: what intervals are about.
    sampling, noise : arrays of shape (d, d)
        Covariances of ``middle``: what the rows and what the noise leave.

    """

    offset: float
    offset_error: float
    coefficients: NDArray[np.float64]
    middle: NDArray[np.float64]
    sampling: NDArray[np.float64]
    noise: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LinearModel:
    """Released models of all targets, and how rows became records.

    ``gram`` is None where only means were released. ``row_norm`` is the length that records were
    pulled in to; None where they were scaled to unit length.
    """

    targets: tuple[NoisyModel, ...]
    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    lift: float
    gram: NoisyMatrix | None
    row_norm: float | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearStages:
    """Scales, centres, a Gram matrix, and stages for every target. Fields are public, never data.

    Attributes
    ----------
    scale : ColumnScale or array
        How scales are found, or what they are.
    centre : CentreSteps or array
        How the centre of the features is found, or where it is.
    length : PrivateDistances or float, optional
        How the length that records are pulled in to is found, or what it is; by default all are
        scaled to unit length.
    gram : GaussCov or WishartCov, optional
        What is drawn on the Gram matrix; None where only means are released.
    targets : tuple of TargetSteps
        One for each target, the last columns of the table.
    target_boxes : tuple of pairs of float, optional
        Stated range of each target.
    lift : float
        The constant coordinate of a record.
    alpha : float, optional
        Stated penalty, a share of the mean squared length of records; by default found.

    """

    name: ClassVar[str] = "linear"
    scale: ColumnScale | NDArray[np.float64]
    centre: CentreSteps | NDArray[np.float64]
    gram: GaussCov | WishartCov | None
    targets: tuple[TargetSteps, ...]
    length: PrivateDistances | float | None = None
    target_boxes: tuple[tuple[float, float], ...] | None = None
    lift: float = 1.0
    alpha: float | None = None

    def cost(self) -> Cost:
        """Return the cost of all steps, composed."""
        steps = (self.scale, self.centre, self.length, self.gram, *self.targets)
        return compose(*(s.cost() for s in steps if not isinstance(s, (float, np.ndarray)) and s))

    def run(self, source: RowSource, start: Clip, gate: Gate) -> LinearModel:
        """Read the rows; ``start`` says which are valid and how empty cells are taken."""
        p = source.n_columns - len(self.targets)
        read = Clip(row_norm=LARGEST_NORM, on_invalid=start.on_invalid, on_missing=start.on_missing)
        check_rows(source, p, read)
        found = [self._offset(source, p, i, read, gate) for i in range(len(self.targets))]
        offsets = [each for each in found if each is not None]
        if len(offsets) < len(found):
            return self._medians(source, p, found, read, gate)
        features = source.map(TakeColumns(slice(0, p)))
        scale = self._scales(features, read, gate)
        centre = self._centre(features, scale, read, gate)
        records = Records(
            centre=centre,
            scale=scale,
            target=p,
            offset=0.0,
            lift=self.lift,
            on_invalid=start.on_invalid,
            on_missing=start.on_missing,
        )
        gram = None
        if self.gram is not None:
            records = replace(records, length=self._length(source, records, gate))
            design = source.map(Design(records))
            noisy = self.gram.run(design, records.clip, gate)
            gram = _per_length(noisy, records, gate)
        models = []
        for i, steps in enumerate(self.targets):
            offset, error = offsets[i]
            about = replace(records, target=p + i, offset=offset)
            models.append(self._model(source, about, steps, gram, error, gate))
        return LinearModel(tuple(models), centre, scale, self.lift, gram, records.length)

    def _offset(
        self, source: RowSource, p: int, i: int, read: Clip, gate: Gate
    ) -> tuple[float, float] | None:
        """Return what a target is taken about, and its squared error; None if none is found."""
        start = replace(read, on_missing="invalid")
        if self.target_boxes is not None:
            low, high = self.target_boxes[i]
            box = (np.array([low]), np.array([high]))
            centre = (box[0] + box[1]) / 2
            start = replace(start, row_norm=_norm((high - low) / 2), centre=centre, box=box)
        column = source.map(TakeColumns(slice(p + i, p + i + 1)))
        found = self.targets[i].offset.run(column, start, gate)
        if found is not None:
            return float(found[0][0]), found[1]
        if self.gram is None or not gate.adjacency.count_is_public:  # nothing buys a median
            raise NothingFoundError(
                "no distance of the target stood out, and the budget is spent: state ",
                option("target_bounds"),
                ", or give more rows or a larger budget; most values may be equal",
            )
        return None

    def _medians(
        self,
        source: RowSource,
        p: int,
        offsets: Sequence[tuple[float, float] | None],
        read: Clip,
        gate: Gate,
    ) -> LinearModel:
        """Return targets without coefficients, where no distance of one of them stood out.

        What the matrix would have cost buys medians of means of those.
        """
        missing, none, nothing = offsets.count(None), np.zeros(1), np.zeros((1, 1))
        pure = isinstance(self.gram, WishartCov)
        if isinstance(self.gram, WishartCov):
            epsilon = self.gram.epsilon / missing
        else:
            assert self.gram is not None  # or `_offset` would have raised
            epsilon = gaussian_epsilon(self.gram.mu / math.sqrt(missing))
        assert gate.rows is not None  # a search has read the rows
        block = blocks_of(gate.rows * epsilon, ranged=self.target_boxes is not None)
        models = []
        for i, offset in enumerate(offsets):
            if offset is None:
                step = MedianOfMeans(epsilon=epsilon, block=block, gaussian=not pure)
                column = source.map(TakeColumns(slice(p + i, p + i + 1)))
                value, error = step.run(column, replace(read, on_missing="invalid"), gate)
                offset = float(value[0]), error
            models.append(NoisyModel(*offset, none, none, nothing, nothing))
        return LinearModel(tuple(models), np.zeros(p), np.ones(p), self.lift, None, None)

    def _scales(self, features: RowSource, read: Clip, gate: Gate) -> NDArray[np.float64]:
        if isinstance(self.scale, np.ndarray):
            return self.scale
        return self.scale.run(features, read, gate).scale

    def _centre(
        self, features: RowSource, scale: NDArray[np.float64], read: Clip, gate: Gate
    ) -> NDArray[np.float64]:
        """Return the centre in the units of the data; the origin where none is found."""
        if isinstance(self.centre, np.ndarray):
            return self.centre
        kept, centre = np.isfinite(scale), np.zeros(scale.size)
        if kept.any():
            found = self.centre.run(features.map(Divide(scale)), read, gate)
            if found is not None:
                centre[kept] = found[0] * scale[kept]
        return centre

    def _length(self, source: RowSource, records: Records, gate: Gate) -> float | None:
        if not isinstance(self.length, PrivateDistances):
            return self.length
        about = Clip(row_norm=1.0, on_invalid=records.on_invalid)
        found = self.length.run(source.map(Design(records)), about, gate)
        return _norm(found.quantile(_LENGTH_LEVEL)) if found.found else None

    def _model(
        self,
        source: RowSource,
        records: Records,
        steps: TargetSteps,
        gram: NoisyMatrix | None,
        offset_error: float,
        gate: Gate,
    ) -> NoisyModel:
        """Improve the coefficients of one target, stage by stage."""
        d = records.width
        if gram is None:
            none, nothing = np.zeros(d), np.zeros((d, d))
            return NoisyModel(records.offset, offset_error, none, none, nothing, nothing)
        state, squares = RidgeState.start(gram.matrix, gram.noise_scale), 0.0
        for stage in steps.stages:
            b = state.coefficients()
            found = _residual_distances(source, records, b, stage.search, gate)
            if not found.found:
                break
            most = _norm(found.quantile(_RESIDUAL_LEVEL))
            rows = source.map(Gradients(records, b, most))
            bound = Clip(row_norm=most, on_invalid=records.on_invalid)
            noisy = gate.draw(stage.noise, total(rows, bound, gate.adjacency, counted=False))
            # The variance of a mean over rows, or of a sum over them.
            squares = found.mean_power(2.0)
            squares /= found.rows if gate.adjacency.count_is_public else 1.0
            state = state.updated(
                noisy.values,
                noise_variance=noisy.deviation**2,
                sampling_variance=squares,
                clipped=min(0.5, found.normal_share_beyond(most)),
                shrinks=self.alpha is None,
            )
        b = state.coefficients()
        if steps.variance is not None and steps.spread is not None:
            found = _residual_distances(source, records, b, steps.spread, gate)
            if found.found:
                reach = _norm(_VARIANCE_REACH * found.quantile(_RESIDUAL_LEVEL))
                bound = Clip(row_norm=reach, on_invalid=records.on_invalid)
                query = trace(source.map(Residuals(records, b)), bound, gate.adjacency)
                squares = gate.draw(steps.variance, query).value / found.rows
        return NoisyModel(
            offset=records.offset,
            offset_error=offset_error,
            coefficients=state.coefficients((self.alpha or 0.0) * float(np.trace(gram.matrix))),
            middle=state.middle(),
            sampling=state.sampling(squares),
            noise=state.noise(),
        )


def _residual_distances(
    source: RowSource,
    records: Records,
    b: NDArray[np.float64],
    search: PrivateDistances,
    gate: Gate,
) -> NoisyDistances:
    """Draw how large residuals are."""
    read = Clip(row_norm=1.0, on_invalid=records.on_invalid)
    return search.run(source.map(Residuals(records, b)), read, gate)


def check_rows(source: RowSource, p: int, read: Clip) -> None:
    """Stop at a row that stops a run, before anything is charged; targets must be there."""
    whole = replace(read, on_missing="invalid")
    for chunk, _ in source.unit_tables():
        try:
            read.check(chunk[:, :p])
            whole.check(chunk[:, p:])
        except InvalidDataError:
            raise _bad_row((source.schema.feature_names or ())[p:], read) from None


def _bad_row(targets: Sequence[str], read: Clip) -> InvalidDataError:
    """Return the refusal of a row; whether a feature or a target is bad, it does not tell."""
    target = f"target {listed(targets)}" if targets else "target"
    left_out: list[Part] = [option("on_invalid", "zero"), " to let such rows contribute nothing"]
    if read.on_missing == "centre":
        return InvalidDataError(
            f"a row has no {target}, or holds an infinite value or too few or too many cells, "
            "which ",
            option("on_missing", "centre"),
            " does not fill: clean the data, or add ",
            *left_out,
        )
    return InvalidDataError(
        "a row holds a missing or infinite value, or text, or has too many cells: clean the data, ",
        THOUSANDS,
        ", or pass ",
        *left_out,
        "; ",
        option("on_missing", "centre"),
        f" fills empty cells of other columns than the {target}",
    )


def _per_length(noisy: NoisyMatrix, records: Records, gate: Gate) -> NoisyMatrix:
    """Return the matrix of u, which has unit length at most."""
    factor = 1.0 if records.length is None else records.length**-2
    most = 1.0 if gate.adjacency.count_is_public else math.inf
    return noisy.scaled(factor).cleaned(trace_bound=most, spike=0.0)


def _norm(length: float) -> float:
    return min(LARGEST_NORM, max(SMALLEST_NORM, length))
