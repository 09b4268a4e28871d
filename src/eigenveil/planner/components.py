"""Predicted error of a release of components, mechanism by mechanism."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.gram import moment_sensitivities
from eigenveil.data.spectrum import gap_sensitivity, projector_sensitivity
from eigenveil.exceptions import EigenveilError, NothingFoundError
from eigenveil.mechanisms.additive import Allowance
from eigenveil.mechanisms.covariance.gauss import NoisyMatrix
from eigenveil.mechanisms.located import SHARES
from eigenveil.mechanisms.pca.adaptive_oja import AdaptiveOjaPCA
from eigenveil.mechanisms.pca.analyze_gauss import AnalyzeGaussPCA, wide
from eigenveil.mechanisms.pca.components import NoisyComponents, leading, reliability
from eigenveil.mechanisms.pca.deflation import DeflationPCA
from eigenveil.mechanisms.pca.dp_pca import TruncatedMeanPCA
from eigenveil.mechanisms.pca.exponential import ExponentialPCA
from eigenveil.mechanisms.pca.gap_projector import GapProjectorPCA
from eigenveil.mechanisms.pca.laplace import LaplacePCA
from eigenveil.mechanisms.pca.oja import OjaPCA
from eigenveil.mechanisms.pca.one_pass import OnePass
from eigenveil.mechanisms.pca.power import PowerPCA
from eigenveil.mechanisms.pca.shuffled_oja import ShuffledOjaPCA
from eigenveil.mechanisms.pca.spherical import SphericalPCA
from eigenveil.mechanisms.pca.tangent import ROUGH_SHARE, NoisyProduct, TangentPCA, turn
from eigenveil.mechanisms.pca.tangent_oja import TangentOjaPCA
from eigenveil.mechanisms.pca.wishart import WishartPCA
from eigenveil.mechanisms.truncated_mean import ADVANCED_UP_TO, Composition
from eigenveil.numerics.bingham import draw_bingham
from eigenveil.numerics.metrics import subspace_distance
from eigenveil.numerics.random import NoiseSource
from eigenveil.numerics.spectral import top_eigenpairs
from eigenveil.numerics.symmetric import GaussianLaw
from eigenveil.numerics.variates import normals
from eigenveil.numerics.wishart import two_sided_wishart
from eigenveil.planner.assumed import AssumedTable, Rows, isotropic, unit_shares
from eigenveil.planner.noise import (
    WIDEST,
    Refused,
    Unpredicted,
    held,
    mean_deviation,
    symmetric_laplace,
    unpredicted,
)
from eigenveil.planner.rehearsal import Rehearsal
from eigenveil.planner.situation import Situation
from eigenveil.planner.stages import Plan, free_centring
from eigenveil.privacy.accounting import split
from eigenveil.privacy.calibrate import strength

__all__ = ["MECHANISMS", "ONE_PASS", "Components"]

# Directions that are simulated, where each is drawn by itself, and beside a basis of many columns.
_CAP, _SLOW_CAP, _PRODUCT_CAP = 80, 32, 200
_BRACKET = 2**0.25  # by how much a median distance, the upper end of a bracket, is too large
_FAR = math.sqrt(2)  # distance of rows from a start that lies as far from the centre as they do
_CLIP = 1 / math.sqrt(3)  # of the reach of stated ranges, where rows are clipped

Matrix = NDArray[np.float64]
Build = Callable[[Allowance, Situation], Any]


def _gap_projector(allowance: Allowance, situation: Situation) -> GapProjectorPCA:
    if situation.budget.delta is None:
        raise Refused("tests a gap and needs a delta: give epsilon and delta")
    if situation.k == situation.d:
        raise Refused("needs fewer components than columns")
    return GapProjectorPCA.build(allowance.strength, situation.budget.delta, _wanted(situation))


def _exponential(allowance: Allowance, situation: Situation) -> ExponentialPCA:
    build = ExponentialPCA.pure if allowance.pure else ExponentialPCA.concentrated
    return build(allowance.strength, _wanted(situation))


def _dp_pca(allowance: Allowance, situation: Situation) -> TruncatedMeanPCA:
    _alone(situation)
    epsilon = allowance.strength
    composition: Composition = "advanced" if epsilon <= ADVANCED_UP_TO else "basic"
    return TruncatedMeanPCA.build(epsilon, _delta(situation), composition=composition)


def _deflation(allowance: Allowance, situation: Situation) -> DeflationPCA:
    inner = _dp_pca(allowance, replace(situation, k=1))
    return DeflationPCA(inner=inner, n_components=_wanted(situation))


def _shuffled_oja(allowance: Allowance, situation: Situation) -> ShuffledOjaPCA:
    _alone(situation)
    if situation.n is None:
        raise Refused("adds noise that depends on the number of rows: give it")
    delta = _delta(situation)
    if not situation.assume_centered:
        delta /= 2  # the rest is for the centre
    return ShuffledOjaPCA(epsilon=allowance.strength, delta=delta, n_records=situation.n)


def _alone(situation: Situation) -> None:
    if situation.k != 1:
        raise Refused("finds one component: 'deflation' and 'oja' find more")


def _delta(situation: Situation) -> float:
    if situation.budget.delta is None:
        raise Refused("may fail with a small probability: give epsilon and delta")
    return situation.budget.delta


def _wanted(situation: Situation) -> int:
    assert situation.k is not None  # `Situation` has checked
    return situation.k


# What is built for an allowance, and which budgets it can serve.
_GAUSSIAN: dict[str, Build] = {
    "tangent": lambda a, s: TangentPCA(mu=a.strength, n_components=_wanted(s)),
    "spherical": lambda a, s: SphericalPCA(mu=a.strength, n_components=_wanted(s)),
    "analyze-gauss": lambda a, s: AnalyzeGaussPCA(mu=a.strength, n_components=_wanted(s)),
    "power": lambda a, s: PowerPCA(mu=a.strength, n_components=_wanted(s)),
    "oja": lambda a, s: OjaPCA(mu=a.strength, n_components=_wanted(s)),
    "adaptive-oja": lambda a, s: AdaptiveOjaPCA.build(a.strength, _wanted(s)),
    "tangent-oja": lambda a, s: TangentOjaPCA.build(a.strength, _wanted(s)),
    "deflation": _deflation,
    "dp-pca": _dp_pca,
    "shuffled-oja": _shuffled_oja,
    "gap-projector": _gap_projector,
    "exponential": _exponential,
}
_PURE: dict[str, Build] = {
    "wishart": lambda a, s: WishartPCA(epsilon=a.strength, n_components=_wanted(s)),
    "exponential": _exponential,
    "laplace": lambda a, s: LaplacePCA(epsilon=a.strength, n_components=_wanted(s)),
}
ONE_PASS = ("oja", "adaptive-oja", "tangent-oja")
# Unit rows, n = 300,000, d = 10, epsilon = 4, a strong direction: `oja` lost 3e-6 of the variance,
# `shuffled-oja` 4e-4, `dp-pca` 7e-4; n = 400,000, two of them: 2e-6 and `deflation` 8e-3.
_UNPREDICTED = {
    "power": "is not predicted: its error is about that of 'spherical', which reads rows once",
    "deflation": "is not predicted: 'oja' needs fewer rows and lost a thousandth as much",
    "dp-pca": "is not predicted: 'oja' needs fewer rows and lost a hundredth as much",
    "shuffled-oja": "is not predicted: 'oja' lost a hundredth as much wherever both were tried",
}
_BATCHES = (*ONE_PASS, "deflation", "dp-pca", "shuffled-oja")
_PRODUCTS = (*ONE_PASS, *_UNPREDICTED)  # with a basis; no square matrix is formed
_NORMALISING = ("tangent", "spherical", "wishart", *_PRODUCTS)
_DIRECTIONS = ("tangent", "spherical")
_LAZY = ("tangent", "spherical", "analyze-gauss")
MECHANISMS = (
    "tangent",
    "spherical",
    "analyze-gauss",
    *ONE_PASS,
    *_UNPREDICTED,
    "gap-projector",
    *_PURE,
)


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """One mechanism, calibrated for a situation.

    Raises
    ------
    Refused
        Where the mechanism cannot serve it.
    Unpredicted
        Where it can, but nothing is predicted.

    """

    name: str
    situation: Situation
    plan: Plan
    whole: Allowance
    inner: Any
    table: AssumedTable

    @classmethod
    def of(cls, name: str, situation: Situation) -> "Components":
        """Calibrate as `PrivatePCA` does."""
        pure = situation.budget.is_pure or name not in _GAUSSIAN
        if pure and name not in _PURE:
            raise Refused("adds Gaussian noise and cannot give a pure guarantee: give delta")
        clips = situation.row_norm is not None or situation.private_radius
        if clips and name in _DIRECTIONS:
            raise Refused("uses directions of rows and no length: leave row_norm out")
        if name in _BATCHES:
            _batches(situation)
        plan = _plan(name, situation, pure)
        if name not in _PRODUCTS and situation.d > WIDEST and not plan.lazy:
            fewer = "columns or components" if name in _LAZY else "columns"
            raise Refused(
                f"needs a matrix of {situation.d:,} x {situation.d:,} entries: ask for fewer "
                f"{fewer}"
            )
        build = (_PURE if pure else _GAUSSIAN)[name]
        # The cost is the same, however many directions share it.
        seen = replace(situation, n=plan.n_differences or situation.n)
        few = replace(seen, k=min(_wanted(situation), _SLOW_CAP))

        def procedure(parameter: float) -> Any:
            whole = Allowance(parameter, pure)
            return plan.build(whole, build(plan.components(whole), few))

        try:
            found = strength(situation.budget, lambda s: procedure(s).cost(), name)
        except EigenveilError as error:
            raise Refused(str(error)) from None
        whole = Allowance(found, pure)
        inner = build(plan.components(whole), seen)
        if name in _PRODUCTS:
            _narrow(inner, situation)
        _enough(inner, plan, situation)
        if (missing := unpredicted(situation)) is not None:
            raise missing
        if name in _UNPREDICTED:
            raise Unpredicted(_UNPREDICTED[name])
        table = AssumedTable.of(situation, _SLOW_CAP if name == "exponential" else _CAP)
        if name in ONE_PASS:
            table = AssumedTable.of(situation, _PRODUCT_CAP, leading=_CAP // 2)
        return cls(name, situation, plan, whole, inner, table)

    @property
    def rows(self) -> int:
        """Rows, or differences of them, that the matrix is a mean of."""
        assert self.situation.n is not None  # `of` has checked
        return max(1, self.plan.n_differences or self.situation.n)

    @property
    def shares(self) -> dict[str, float]:
        """Of the budget, by stage."""
        return {stage: round(share, 12) for stage, share in self.plan.shares.items()}

    def simulate(self, source: NoiseSource) -> tuple[float, float]:
        """One release: the share of variance lost, and the distance of the projectors."""
        table = self.table
        truth, found = (self._in_batches if self.name in ONE_PASS else self._at_once)(source)
        if self.plan.centring == "paired":
            # The table has the sums of its pairs beside their differences.
            other = table.sample(self.rows / table.stretch, source)
            truth = (truth + other.moment(np.diag(table.values))) / 2
        values, best = top_eigenpairs(truth, table.k)
        lost = 1 - float(np.einsum("ij,ij->", found @ truth, found)) / float(values.sum())
        return max(0.0, lost), subspace_distance(found, best)

    def _at_once(self, source: NoiseSource) -> tuple[Matrix, Matrix]:
        """Second moments of the rows, and components."""
        rows = self.table.sample(self.rows / self.table.stretch, source)
        truth = rows.moment(np.diag(self.table.values))
        error = self._centre_error(source)
        if self.name == "tangent":
            return truth, _tangent(self, rows, error, source)
        return truth, _RELEASES[self.name](self, self._moment(rows, error), source)

    def _in_batches(self, source: NoiseSource) -> tuple[Matrix, Matrix]:
        """The same of rows that are read once."""
        method = Rehearsal(
            self.inner,
            self.table,
            n=self.rows,
            d=self.situation.d,
            reach=None if self.plan.normalise else self._reach(),
        )
        try:
            return method.run(self._centre_error(source), source)
        except NothingFoundError:
            raise Refused("would find no range of the records: give more rows") from None

    def _centre_error(self, source: NoiseSource) -> Matrix:
        error = normals(source, (self.table.d,)) * self._centre_deviation()
        return held(error, self._farthest())

    def _moment(self, rows: Rows, error: Matrix) -> Matrix:
        """What noise is added to: second moments of rows in the unit ball about the centre."""
        table = self.table
        if self.plan.normalise:
            return rows.moment(np.diag(table.unit), 1 / rows.squares) + np.outer(error, error)
        reach = self._reach()
        mean, weights = table.clipped(rows, reach)
        return (rows.moment(np.diag(mean), weights) + np.outer(error, error)) / reach**2

    def _reach(self) -> float:
        """Where rows are clipped, in units of their root mean square distance."""
        stated = 1 / self.situation.assumed_spread
        return stated if self.situation.row_norm is not None else _CLIP * stated

    def _farthest(self) -> float:
        """A mean is kept within the stated bound."""
        if self.plan.centring != "mean":
            return math.inf
        return self.situation.start / self.situation.assumed_spread

    def _centre_deviation(self) -> float:
        """Of the centre in one simulated direction, in units of the distance of rows."""
        situation, centring = self.situation, self.plan.centring
        if centring in ("none", "paired"):
            return 0.0
        deviation = partial(mean_deviation, situation)
        stated = situation.start / situation.assumed_spread
        if centring == "mean":
            share = self.plan.shares["centre"]
            return deviation(self.whole.part(share), stated) * math.sqrt(self.table.stretch)
        first, second = (self.whole.part(share) for share in SHARES[self.whole.pure])
        start = stated if self.plan.bounded else _BRACKET * _FAR
        rough = deviation(first, start) * math.sqrt(situation.d)
        near = _BRACKET * math.sqrt(1 + rough**2)
        return deviation(second, near) * math.sqrt(self.table.stretch)

    def scale(self, mu: float) -> float:
        """Of Gaussian noise on a mean of rows in the unit ball, were all directions simulated."""
        bound = moment_sensitivities(self.situation.d, self.situation.adjacency)["frobenius"]
        return bound / mu / self.rows

    def noisy(self, moment: Matrix, mu: float, source: NoiseSource) -> Matrix:
        """With isotropic Gaussian noise."""
        scale = self.scale(mu) * math.sqrt(self.table.stretch)
        return np.asarray(moment + scale * isotropic(len(moment), source))


def _plan(name: str, situation: Situation, pure: bool) -> Plan:
    """The stages, as `PrivatePCA` has them."""
    public = situation.adjacency.count_is_public
    clips = situation.row_norm is not None or situation.private_radius
    normalise = not clips and (name in _NORMALISING or not situation.bounded)
    rows = situation.n if public else None
    if situation.assume_centered:
        centring: Any = "none"
    elif not normalise:
        free = situation.private_radius and not situation.bounded
        centring = "located" if free else "mean"
    else:
        centring = free_centring(
            situation.budget,
            pure=pure,
            n_rows=rows,
            n_columns=situation.d,
            private_scale=False,
        )
    return Plan(
        pure=pure,
        centring=centring,
        normalise=normalise,
        bounded=situation.bounded,
        row_norm=situation.row_norm or 1.0,
        n_rows=rows,
        n_columns=situation.d,
        max_rank=None,
        scale=False,
        variances=False,
        count=situation.assume_centered and not (public or normalise),
        lazy=name in _LAZY and wide(situation.d, _wanted(situation)),
        radius=situation.private_radius,
    )


def _batches(situation: Situation) -> None:
    """Refuse neighbours that differ in more than one batch."""
    if not situation.adjacency.count_is_public:
        raise Refused("takes batches by position: choose replace-one neighbours")
    if situation.unit != "row":
        raise Refused(f"takes batches of rows, and a {situation.unit} may have some in several")


def _narrow(method: Any, situation: Situation) -> None:
    """Refuse a basis that is too wide to hold."""
    wide = isinstance(method, (OnePass, PowerPCA))
    width = method.width(situation.d) if wide else _wanted(situation)
    if situation.d * width > WIDEST**2:
        raise Refused(
            f"needs matrices of {situation.d:,} x {width:,} entries: ask for fewer columns or "
            "components"
        )


def _enough(method: Any, plan: Plan, situation: Situation) -> None:
    """Refuse a table of which no batches can be formed."""
    parts = 1
    if isinstance(method, DeflationPCA):
        method, parts = method.inner, method.n_components
    if not isinstance(method, OnePass):
        return
    seen, needed = plan.n_differences, method.needed_records(situation.d) * parts
    if seen is not None and seen < needed:
        raise Refused(
            f"too few rows for batches at this budget: {needed * plan.rows_each:,} would be enough"
        )


def _gaussian(release: Components, moment: Matrix, source: NoiseSource) -> Matrix:
    noisy = release.noisy(moment, release.inner.mu, source)
    return top_eigenpairs(noisy, release.table.k)[1]


def _wishart(release: Components, moment: Matrix, source: NoiseSource) -> Matrix:
    situation, d = release.situation, len(moment)
    bound = moment_sensitivities(situation.d, situation.adjacency)["nuclear"] / release.rows
    c = release.inner.epsilon / bound / release.table.stretch  # the edge is at d/c
    return top_eigenpairs(moment + two_sided_wishart(d, c, source), release.table.k)[1]


def _laplace(release: Components, moment: Matrix, source: NoiseSource) -> Matrix:
    situation, stretch = release.situation, release.table.stretch
    bound = moment_sensitivities(situation.d, situation.adjacency)["l1"] / release.rows
    scale = bound / release.inner.epsilon * math.sqrt(stretch)
    noise = symmetric_laplace(len(moment), scale, source)
    return top_eigenpairs(moment + noise, release.table.k)[1]


def _directions(release: Components, moment: Matrix, source: NoiseSource) -> Matrix:
    """One after the other; what the other directions take grows with their number."""
    situation, table = release.situation, release.table
    bound = moment_sensitivities(situation.d, situation.adjacency)["nuclear"] / release.rows
    each = release.inner.direction.epsilon / bound / table.stretch
    basis = np.eye(len(moment))
    found = []
    for _ in range(min(table.k, len(moment) - 1)):
        chosen = draw_bingham(basis.T @ moment @ basis, each, source)
        found.append(basis @ chosen)
        basis = basis @ np.linalg.qr(chosen[:, None], mode="complete")[0][:, 1:]
    if table.k == len(moment):
        found.append(basis[:, 0])
    return np.array(found)


def _projected(release: Components, moment: Matrix, source: NoiseSource) -> Matrix:
    situation, table = release.situation, release.table
    step: GapProjectorPCA = release.inner
    values, vectors = top_eigenpairs(moment, table.k + 1)
    mu = step.gap.noise.mu  # type: ignore[union-attr]
    bound = gap_sensitivity(situation.adjacency)
    gap = release.rows * float(values[-2] - values[-1])
    gap += bound / mu * float(normals(source, (1,))[0])
    lower = gap - step.gap.noise.quantile(step.gap.beta) * bound / mu
    if lower <= bound:
        raise Refused("would refuse: the gap after the last component is too small")
    scale = projector_sensitivity(lower, situation.adjacency) / step.projector.mu
    if GaussianLaw(situation.d, scale).overlap(1.0) == 0:
        raise Refused("would refuse: the gap after the last component is too small")
    scale *= math.sqrt(table.stretch)
    kept = vectors[: table.k]
    return top_eigenpairs(kept.T @ kept + scale * isotropic(len(moment), source), table.k)[1]


_RELEASES: dict[str, Callable[[Components, Matrix, NoiseSource], Matrix]] = {
    "spherical": _gaussian,
    "analyze-gauss": _gaussian,
    "gap-projector": _projected,
    "wishart": _wishart,
    "exponential": _directions,
    "laplace": _laplace,
}


def _tangent(release: Components, rows: Rows, error: Matrix, source: NoiseSource) -> Matrix:
    """Both steps of the mechanism itself, on the matrices that it would see."""
    table, k, step = release.table, release.table.k, release.inner
    first, second = split(step.mu, (ROUGH_SHARE, 1 - ROUGH_SHARE))
    moment = release._moment(rows, error)
    one = release.noisy(moment, first, source)
    wide = math.sqrt(table.stretch)
    law = GaussianLaw(table.d, release.scale(first) * wide)
    rough = leading(NoisyMatrix(one, law.scale, law), k)
    factor = step.stretching(
        _as_wide(rough, one, release, first), first, release.situation.adjacency
    )
    if factor is None:
        other = release.noisy(moment, second, source)
        if not release.plan.lazy:  # else there are no matrices to average
            other = ROUGH_SHARE * one + (1 - ROUGH_SHARE) * other
        return top_eigenpairs(other, k)[1]
    basis = rough.components
    transform = np.eye(table.d) + (factor - 1) * basis.T @ basis
    # Of stretched normal rows the same law holds in a basis of their own.
    stretched = Rows(rows.rows @ transform, rows.rest, rows.shrink)
    mean = _unit_moment((transform * table.values) @ transform, table.rest)
    seen = stretched.moment(mean, 1 / stretched.squares)
    if error.any():
        moved = transform @ error
        shifted = (transform * table.values) @ transform + np.outer(moved, moved)
        seen = seen + _unit_moment(shifted, table.rest) - mean
    other = release.noisy(seen, second, source)
    scale = release.scale(second) * wide
    product = NoisyProduct(other @ basis.T, float(np.trace(other)), scale)
    return turn(rough, product, factor).components


def _unit_moment(covariance: Matrix, rest: float) -> Matrix:
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * unit_shares(np.maximum(values, 0.0), rest)) @ vectors.T)


def _as_wide(
    rough: NoisyComponents, one: Matrix, release: Components, mu: float
) -> NoisyComponents:
    """What the first release would say about itself, were all directions simulated."""
    table, d = release.table, release.situation.d
    if table.stretch == 1:
        return rough
    law = GaussianLaw(d, release.scale(mu))
    inside = float(np.trace(one))
    outside = (inside - float(rough.eigenvalues.sum())) / (table.d - table.k)
    trace = inside + outside * (d - table.d)
    beside = rough.energy - float(rough.eigenvalues @ rough.eigenvalues)
    energy = rough.energy + beside * (table.stretch - 1)
    return replace(
        rough,
        law=law,
        trace=trace,
        energy=energy,
        noise_scale=law.scale,
        reliability=reliability(rough.eigenvalues, trace, law, energy),
    )
