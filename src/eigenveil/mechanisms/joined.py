r"""Linear regression from one covariance of features and targets, without any bound.

The front of the default covariance (`front`) takes features and targets as one table. It finds
their scales and a centre, and the noisy matrix C of the rows about it gives first coefficients:

.. math:: C_{xx} \to V \max(\Lambda, s \sqrt p)\, V', \qquad b_0 \approx C_{xx}^{-1} C_{xy}

with an empirical-Bayes penalty (`ridge`), so that coefficients are zero where noise hides the
covariance of features and target. If the noise of C is small one residual stage follows,

.. math:: g = \tfrac1n \sum u\,\mathrm{clip}_\tau(r) + e, \qquad b = b_0 + A g

for weighed records u and residuals r about b_0, whose noise falls with the residuals. Otherwise the
same share of the budget buys a second draw of C. The intercept is a mean of y - x'b, found on
circles, so that no bound is needed and no search can lose it.

The scale of a target is drawn by itself. Where none shows, a median of means is released in place
of coefficients: every charged fit has a result. The cost is fixed beforehand. New here.
Proof: docs/proofs/joined.md.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import LARGEST_NORM, Clip
from eigenveil.exact.gram import second_moment, total
from eigenveil.mechanisms.additive import vector_noise
from eigenveil.mechanisms.column_scale import ColumnScale, scale_share
from eigenveil.mechanisms.front import Front
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.gauss import GaussCov
from eigenveil.mechanisms.joint_matrix import JointMatrix
from eigenveil.mechanisms.linear import LinearModel, NoisyModel, check_rows
from eigenveil.mechanisms.linear_rows import Gradients, Residuals
from eigenveil.mechanisms.median_of_means import MedianOfMeans, blocks_of, findable
from eigenveil.mechanisms.prepared import Prepared, Table
from eigenveil.numerics.ridge import RidgeState
from eigenveil.privacy.accounting import gaussian_epsilon, part
from eigenveil.privacy.cost import Cost, Gaussian
from eigenveil.rows.base import RowSource
from eigenveil.rows.maps import TakeColumns

_MAX_NOISE = 0.065  # sqrt(2) d/(n mu), up to which coefficients are released

# Shares of mu^2 for all targets together.
_MAX_SCALE_SHARE = 0.08
_MAX_TAIL = 2.0  # factor by which octaves that are not sure may enlarge the scale of a target
_MEAN_SHARE = 0.12
_STAGE_SHARE = 0.28
_RADIUS_NOISE = 0.05  # of a variance in C, up to which the radius may be as large as was found
_MIN_SQUARED_RADIUS = 0.8  # over the number of columns
_MAX_STAGED_NOISE = 0.1  # of a variance in C, in deviations of the column, for a residual stage

# In standard deviations of the residuals.
_MIN_CLIP, _MAX_CLIP = 1.65, 8.0
_CLIP_NOISE = 0.02  # of the sum, where a larger clipping radius costs no more
_MIN_LIMIT, _LIMIT_NOISE = 3.0, 0.0015  # of the last mean; the second times n mu
_CLIPPED_SHARE = 0.1  # of the residuals, as the ridge expects it
_CLIPPING_ERROR = 0.3  # relative error of a step from clipped rows, at the radius that was found
_MIN_CONCENTRATION = 0.4  # of residuals on a circle of 16 deviations
_PRECISION = 1e9  # length, in scales, up to which rows enter prediction errors unchanged


@dataclass(frozen=True, kw_only=True, eq=False)
class JoinedRegression:
    """All steps to coefficients, for a public number of rows. Fields are public, never data.

    Attributes
    ----------
    mu : float
        Of all steps together.
    rows : int
        Of the table; the number of persons where they own several rows.
    features, targets : int
        Columns of the table: features first, then targets.
    known_scale : array, optional
        Scales of all features that are public, and NaN for the others.
    sample : float
        Share of the rows that a centre is located from.
    alpha : float, optional
        Stated penalty, a share of the mean squared length of records; by default found.

    """

    name: ClassVar[str] = "joined"
    mu: float
    rows: int
    features: int
    targets: int = 1
    known_scale: NDArray[np.float64] | None = None
    sample: float = 1.0
    alpha: float | None = None

    def cost(self) -> Cost:
        """Return the cost of all steps: their shares add to at most 1 on every route."""
        return Gaussian(self.mu)

    @property
    def possible(self) -> bool:
        """Whether public numbers allow coefficients, and a median where no target shows."""
        noise = math.sqrt(2) * (self.features + self.targets) / (max(1, self.rows) * self.mu)
        if noise > _MAX_NOISE or self._front_share <= 0:
            return False
        if self._single.locating_share >= _MEAN_SHARE:
            return False
        rows = self.rows * gaussian_epsilon(self._part(self._fallback_share(1)).mu)
        return findable(rows, ranged=False)

    @property
    def shares(self) -> dict[str, float]:
        """Shares of mu^2 by what they buy; they sum to 1."""
        whole, front = self._front_share, self._front(np.ones(self.targets)).shares
        return {
            "scale": self.targets * self._scale_share + whole * front["scale"],
            "centre": whole * front["centre"],
            "offset": self.targets * self._offset_share,
            "length": whole * front["radius"],
            "gram": whole * (1 - sum(front.values())),
            "stages": _STAGE_SHARE,
        }

    def run(self, source: RowSource, start: Clip, gate: Gate) -> LinearModel:
        """Read the rows; ``start`` says which are valid."""
        p = self.features
        read = Clip(row_norm=LARGEST_NORM, on_invalid=start.on_invalid, on_missing=start.on_missing)
        check_rows(source, p, read)
        scales = [self._target_scale(source, i, read, gate) for i in range(self.targets)]
        found = sum(scale is not None for scale in scales)
        if not found:
            none = tuple(self._median(source, i, read, found, gate) for i in range(self.targets))
            return LinearModel(none, np.zeros(p), np.ones(p), 1.0, None, None)
        known = np.array([np.nan if scale is None else scale for scale in scales])
        front = self._front(known)
        ready = front.prepare(source, start, gate)
        step = GaussCov(mu=front.part(ready.left).mu)
        found_norm = ready.clip.row_norm
        ready = self._bounded(ready, step)
        matrices = second_moment(ready.table.source, ready.clip, gate.adjacency)
        gram = gate.draw(step, matrices)
        staged = gram.noise_scale <= _MAX_STAGED_NOISE
        if not staged:
            more = gate.draw(
                GaussCov(mu=self._part(_STAGE_SHARE * found / self.targets).mu), matrices
            )
            gram = gram.pooled(more)
        joint = JointMatrix(
            ready=ready,
            gram=gram,
            features=p,
            clipping_error=min(1.0, _CLIPPING_ERROR * (found_norm / ready.clip.row_norm) ** 2),
        )
        models = tuple(
            self._median(source, i, read, found, gate)
            if scale is None
            else self._model(source, joint, i, scale, start, gate, staged=staged)
            for i, scale in enumerate(scales)
        )
        return LinearModel(models, joint.centre, joint.scale, 1.0, gram, None)

    def _bounded(self, ready: Prepared, step: GaussCov) -> Prepared:
        """Return the same with a smaller radius, where noise of the matrix would be too large.

        Bias from clipping is what the residual stage takes off; it cannot take off such noise.
        """
        columns = self.features + self.targets
        most = math.sqrt(_RADIUS_NOISE * self.rows * step.mu / math.sqrt(2))
        most = max(most, math.sqrt(_MIN_SQUARED_RADIUS * columns))
        return replace(ready, clip=replace(ready.clip, row_norm=min(ready.clip.row_norm, most)))

    @property
    def shares_of_means(self) -> dict[str, float]:
        """Shares of mu^2 by what they buy, where no target has coefficients."""
        scales = self.targets * self._scale_share
        return {"scale": scales, "offset": 1 - scales}

    @property
    def _scale_share(self) -> float:
        return min(_MAX_SCALE_SHARE / self.targets, scale_share(Gaussian(self.mu), self.rows, 1))

    @property
    def _offset_share(self) -> float:
        """Share that finds the intercept of one target."""
        return (self._single.locating_share + _MEAN_SHARE) / self.targets

    @property
    def _front_share(self) -> float:
        return 1 - _STAGE_SHARE - self.targets * (self._scale_share + self._offset_share)

    def _fallback_share(self, found: int) -> float:
        """Return what a target without a scale has for its median, where ``found`` have one."""
        front = 0.0 if found and self.targets > 1 else self._front_share
        return self._offset_share + (_STAGE_SHARE + front) / self.targets

    @cached_property
    def _single(self) -> Front:
        """The steps that locate one column, at the budget of one target."""
        mu = part(Gaussian(self.mu), 1 / self.targets)
        assert isinstance(mu, Gaussian)
        return Front(mu=mu.mu, rows=self.rows, columns=1, sample=self.sample)

    def _front(self, target_scale: NDArray[np.float64]) -> Front:
        known = self.known_scale
        features = np.full(self.features, np.nan) if known is None else known
        return Front(
            mu=self._part(self._front_share).mu,
            rows=self.rows,
            columns=self.features + self.targets,
            known_scale=np.append(features, target_scale),
            sample=self.sample,
            apart=self.targets,
        )

    def _part(self, share: float) -> Gaussian:
        step = part(Gaussian(self.mu), share)
        assert isinstance(step, Gaussian)  # a part of a Gaussian budget
        return step

    def _target_scale(self, source: RowSource, i: int, read: Clip, gate: Gate) -> float | None:
        """Return the scale of a target; None unless it shows beyond doubt."""
        step = ColumnScale(first=vector_noise(self._part(self._scale_share)))
        found = step.run(_target(source, self.features + i), read, gate)
        if not found.sure[0]:
            return None
        return min(float(found.scale[0]), _MAX_TAIL * float(found.bulk[0]))

    def _median(self, source: RowSource, i: int, read: Clip, found: int, gate: Gate) -> NoisyModel:
        """Return a median of means in place of coefficients."""
        epsilon = gaussian_epsilon(self._part(self._fallback_share(found)).mu)
        block = blocks_of(self.rows * epsilon, ranged=False)
        step = MedianOfMeans(epsilon=epsilon, block=block, gaussian=True)
        value, error = step.run(_target(source, self.features + i), read, gate)
        none, nothing = np.zeros(1), np.zeros((1, 1))
        return NoisyModel(float(value[0]), error, none, none, nothing, nothing)

    def _model(
        self,
        source: RowSource,
        joint: JointMatrix,
        i: int,
        scale: float,
        start: Clip,
        gate: Gate,
        *,
        staged: bool,
    ) -> NoisyModel:
        """Read coefficients off the matrix, improve them, and find the intercept."""
        if not joint.kept.size:
            return self._mean_alone(source, i, scale, start, gate)
        state, explained = joint.state(i, self.rows, shrinks=self.alpha is None)
        variance = joint.residual_variance(i, explained)
        before = state.wide
        if staged:
            state = self._stage(joint, i, state, variance, start, gate)
        # Clipping changes the length of a step, by a share that no released number shows.
        clipped = joint.clipping_error * state.vectors * (state.wide - before)
        doubt = state.noise() + clipped @ clipped.T
        penalty = (self.alpha or 0.0) * float(state.values.sum())
        b, middle = state.coefficients(penalty), state.middle()
        table = joint.ready.table
        unit = float(table.scale[joint.features + i])
        middle_of_target = float(table.centre[joint.features + i]) * unit
        records = replace(
            joint.records(i, start),
            centre=joint.centre,
            scale=joint.scale,
            offset=middle_of_target,
            length=_PRECISION,
        )
        errors = source.map(Residuals(records, np.append(0.0, unit * b)))
        # Clipped rows show less than the whole variance of a skewed target.
        share = variance / max(variance, joint.target_variance(i))
        deviation = max(unit * math.sqrt(variance), scale * math.sqrt(share)) / _PRECISION
        located = self._located(errors, deviation, start, gate)
        if located.concentration[0] < _MIN_CONCENTRATION:
            return self._mean_alone(source, i, scale, start, gate)
        offset, squared_error = self._mean(located, _MEAN_SHARE, gate)
        knows_turns = joint.ready.table.knows_turns.all() and located.knows_turns.all()
        error = squared_error * _PRECISION**2 if knows_turns else math.inf
        return NoisyModel(
            offset=middle_of_target + offset * _PRECISION,
            offset_error=error,
            coefficients=np.append(0.0, unit * b),
            middle=np.append(0.0, unit * middle),
            sampling=_with_mean(variance / self.rows, state.sampling(variance / self.rows), unit),
            noise=_with_mean(error / unit**2, doubt, unit),
        )

    def _mean_alone(
        self, source: RowSource, i: int, scale: float, start: Clip, gate: Gate
    ) -> NoisyModel:
        """Return the mean of a target, where it has no coefficients that hold."""
        located = self._located(_target(source, self.features + i), scale, start, gate)
        share = _MEAN_SHARE - self._single.locating_share
        offset, squared_error = self._mean(located, share, gate)
        if not located.knows_turns.all():
            squared_error = math.inf
        none, nothing = np.zeros(1), np.zeros((1, 1))
        return NoisyModel(offset, squared_error, none, none, nothing, nothing)

    def _stage(
        self,
        joint: JointMatrix,
        i: int,
        state: RidgeState,
        variance: float,
        start: Clip,
        gate: Gate,
    ) -> RidgeState:
        """Improve coefficients by a sum of clipped residuals with records, in one draw."""
        records = joint.records(i, start)
        length = records.length
        assert length is not None
        step = self._part(_STAGE_SHARE / self.targets)
        d = records.width
        noise = 2 * length * math.sqrt(d) / (self.rows * step.mu)
        most = max(_MIN_CLIP, min(_MAX_CLIP, _CLIP_NOISE * 2 / noise)) * math.sqrt(variance)
        rows = joint.ready.table.source.map(
            Gradients(records, np.append(0.0, state.coefficients()), most / length)
        )
        bound = Clip(row_norm=most / length, on_invalid=records.on_invalid)
        noisy = gate.draw(vector_noise(step), total(rows, bound, gate.adjacency, counted=False))
        return state.updated(
            noisy.values[1:] * length**2,
            noise_variance=(noisy.deviation * length**2) ** 2,
            sampling_variance=variance / self.rows,
            clipped=_CLIPPED_SHARE,
        )

    def _located(self, column: RowSource, scale: float, start: Clip, gate: Gate) -> Table:
        anywhere = Clip(row_norm=LARGEST_NORM, on_invalid=start.on_invalid)
        return self._single.centred(column, np.array([scale]), anywhere, gate)

    def _mean(self, table: Table, share: float, gate: Gate) -> tuple[float, float]:
        """Return the mean of a located column, and its squared error."""
        single = self._single
        limit = max(_MIN_LIMIT, _LIMIT_NOISE * self.rows * single.mu)
        clip = replace(table.about, row_norm=limit)
        mean = single.mean(share, table.source, clip, gate)
        scale = float(table.scale[0])
        return float(table.moved(mean).centre[0]) * scale, mean.squared_error * scale**2


def _target(source: RowSource, at: int) -> RowSource:
    return source.map(TakeColumns(slice(at, at + 1)))


def _with_mean(mean: float, slopes: NDArray[np.float64], unit: float) -> NDArray[np.float64]:
    """Return the covariance of a mean and of slopes, which have nothing to do with each other."""
    d = len(slopes) + 1
    both = np.zeros((d, d))
    both[0, 0], both[1:, 1:] = mean, slopes
    return unit**2 * both
