"""Predicted error of a release of a covariance, mechanism by mechanism.

Lengths are in units of the stated bound on rows, so that noise has the scale of rows in the unit
ball.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from eigenveil.data.gram import moment_sensitivities
from eigenveil.exceptions import EigenveilError
from eigenveil.mechanisms.additive import Allowance
from eigenveil.mechanisms.centred import CENTRE_SHARE, Centred, Uncentred
from eigenveil.mechanisms.covariance.adaptive import AdaptiveCov
from eigenveil.mechanisms.covariance.adaptive_cleaned import KAPPA, PATIENCE, AdaptiveCleanedCov
from eigenveil.mechanisms.covariance.cleaned import CleanedCov
from eigenveil.mechanisms.covariance.coinpress import BETA, CoinPressCov
from eigenveil.mechanisms.covariance.exponential import ExponentialCov
from eigenveil.mechanisms.covariance.gauss import GaussCov
from eigenveil.mechanisms.covariance.laplace import LapCov
from eigenveil.mechanisms.covariance.projection import ProjectedCov
from eigenveil.mechanisms.covariance.separate import SeparateCov
from eigenveil.mechanisms.covariance.wishart import WishartCov
from eigenveil.mechanisms.covariance.zero import ZeroCov
from eigenveil.mechanisms.lifted import LIFT
from eigenveil.mechanisms.mean import PrivateMean
from eigenveil.mechanisms.scalars.sparse_vector import SparseVector
from eigenveil.mechanisms.scalars.threshold import ClippingThreshold
from eigenveil.numerics.bingham import draw_bingham
from eigenveil.numerics.cleaning import clean_eigenvalues
from eigenveil.numerics.noise import NoiseLaw
from eigenveil.numerics.random import NoiseSource
from eigenveil.numerics.spectral import map_eigenvalues, project_to_simplex
from eigenveil.numerics.symmetric import GaussianLaw
from eigenveil.numerics.tails import GAUSSIAN_TAILS
from eigenveil.numerics.variates import normals
from eigenveil.numerics.wishart import WishartLaw, two_sided_wishart
from eigenveil.planner.assumed import AssumedTable, Rows, isotropic
from eigenveil.planner.noise import (
    WIDEST,
    Refused,
    held,
    laplaces,
    mean_deviation,
    symmetric_laplace,
    unpredicted,
)
from eigenveil.planner.situation import Situation
from eigenveil.privacy.calibrate import strength

__all__ = ["MECHANISMS", "Matrices"]

_CAP, _SLOW_CAP = 80, 24  # directions that are simulated, and where each is drawn by itself
_SEARCHED = 2000  # queries of a private radius, for its slack
_STEPS = 40
_SAMPLES = 4  # of rows, for the bias of clipping

Matrix = NDArray[np.float64]
Build = Callable[[float, int], Any]

_GAUSSIAN: dict[str, Build] = {
    "cleaned": lambda mu, d: CleanedCov(mu=mu),
    "adaptive-cleaned": lambda mu, d: AdaptiveCleanedCov.gaussian(mu),
    "gauss": lambda mu, d: GaussCov(mu=mu),
    "projection": lambda mu, d: ProjectedCov(mu=mu),
    "separate": lambda mu, d: SeparateCov.gaussian(mu),
    "adaptive": AdaptiveCov.gaussian,
    "exponential": ExponentialCov.concentrated,
    "coinpress": lambda mu, d: CoinPressCov.gaussian(mu),
    "zero": lambda mu, d: ZeroCov(),
}
_PURE: dict[str, Build] = {
    "wishart": lambda epsilon, d: WishartCov(epsilon=epsilon),
    "separate": lambda epsilon, d: SeparateCov.pure(epsilon),
    "adaptive": AdaptiveCov.pure,
    "exponential": ExponentialCov.pure,
    "laplace": lambda epsilon, d: LapCov(epsilon=epsilon),
    "zero": lambda epsilon, d: ZeroCov(),
}
MECHANISMS = tuple(dict.fromkeys((*_GAUSSIAN, *_PURE)))
_CLOSED = ("gauss", "laplace", "zero")


@dataclass(frozen=True, slots=True, eq=False)
class Matrices:
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
    lifted: bool
    centre: Allowance | None
    inner: Any
    table: AssumedTable

    @classmethod
    def of(cls, name: str, situation: Situation) -> "Matrices":
        """Calibrate as `PrivateCovariance` does."""
        pure = situation.budget.is_pure or name not in _GAUSSIAN
        if pure and name not in _PURE:
            raise Refused("adds Gaussian noise and cannot give a pure guarantee: give delta")
        if not (situation.row_norm or situation.private_radius or situation.bounded):
            raise Refused("needs a public bound on rows: state bounds or row_norm")
        if situation.d > WIDEST:
            raise Refused(
                f"needs a matrix of {situation.d:,} x {situation.d:,} entries: choose fewer columns"
            )
        d, centred = situation.d, situation.assume_centered
        build = (_PURE if pure else _GAUSSIAN)[name]
        lifted = name == "wishart" and not centred
        uncentred = centred and situation.adjacency.count_is_public

        def procedure(parameter: float, d: int) -> Any:
            whole = Allowance(parameter, pure)
            if lifted or uncentred:
                return Uncentred(inner=build(parameter, d), row_norm=1.0)
            mean = PrivateMean(noise=whole.part(CENTRE_SHARE).noise())
            inner = build(whole.part(1 - CENTRE_SHARE).strength, d)
            return Centred(mean=mean, inner=inner, row_norm=1.0, fixed_centre=centred)

        few = min(d, _SLOW_CAP)  # the cost is the same, however many directions share it
        try:
            found = strength(situation.budget, lambda s: procedure(s, few).cost(), name)
        except EigenveilError as error:
            raise Refused(str(error)) from None
        if (missing := unpredicted(situation)) is not None:
            raise missing
        built = procedure(found, d)
        centre = None
        if isinstance(built, Centred):
            centre = Allowance(found, pure).part(CENTRE_SHARE)
        cap = _SLOW_CAP if name == "exponential" else _CAP
        table = AssumedTable.of(situation, cap)
        return cls(name, situation, lifted, centre, built.inner, table)

    @property
    def shares(self) -> dict[str, float]:
        """Of the budget, by stage."""
        if self.centre is None:
            return {"covariance": 1.0}
        return {"centre": CENTRE_SHARE, "covariance": 1 - CENTRE_SHARE}

    @property
    def rows(self) -> int:
        """Number of rows."""
        assert self.situation.n is not None  # `of` has checked
        return self.situation.n

    @property
    def spread(self) -> float:
        """Root mean square length of a row."""
        return self.situation.assumed_spread

    @property
    def centre_deviation(self) -> float:
        """Of the centre in one of all directions."""
        if self.centre is None or self.situation.assume_centered:
            return 0.0
        return mean_deviation(self.situation, self.centre, self.situation.start)

    def bound(self, norm: Any) -> float:
        """By how much one row in the unit ball moves the mean."""
        return moment_sensitivities(self.situation.d, self.situation.adjacency)[norm] / self.rows

    def sample(self, source: NoiseSource) -> Rows:
        """Rows in units of their root mean square length."""
        return self.table.sample(self.rows / self.table.stretch, source)

    def truth(self, rows: Rows) -> Matrix:
        """The covariance of the table itself, which a sample is never without."""
        return rows.moment(np.diag(self.table.values)) * self.spread**2

    def clipped(self, rows: Rows, tau: float) -> Matrix:
        """The second moment of rows clipped at ``tau``."""
        mean, weights = self.table.clipped(rows, tau / self.spread)
        return rows.moment(np.diag(mean), weights) * self.spread**2

    def closed_form(self, source: NoiseSource) -> tuple[float, float] | None:
        """Root mean square error and its relative standard deviation, where both are known."""
        if self.name not in _CLOSED:
            return None
        if self.name == "zero":
            return 1.0, 0.0
        d, s = self.situation.d, self.centre_deviation
        samples = [self.sample(source) for _ in range(_SAMPLES)]
        bias = [self.table.error(self.clipped(one, 1.0) - self.truth(one)) for one in samples]
        if self.name == "gauss":
            energy = GaussianLaw(d, self.bound("frobenius") / self.inner.mu).energy
        else:
            energy = 2 * d * d * (self.bound("l1") / self.inner.epsilon) ** 2
        beside = min(d * (d + 2) * s**4, self.situation.start**4)  # e e', e the error of the centre
        total = energy + float(np.mean(bias)) ** 2 + beside
        spread = math.sqrt(energy / total) / math.sqrt(d * (d + 1))
        return math.sqrt(total) / self.norm, spread

    @property
    def norm(self) -> float:
        """Frobenius norm of what is wanted, root mean square over tables."""
        energy = float(self.table.whole @ self.table.whole)
        return self.spread**2 * math.sqrt(energy + (energy + 1) / self.rows)

    def simulate(self, source: NoiseSource) -> float:
        """The relative error of one release."""
        rows = self.sample(source)
        error = normals(source, (self.table.d,)) * self.centre_deviation
        error = held(error * math.sqrt(self.table.stretch), self.situation.start)
        estimate = _RELEASES[self.name](self, rows, error, source)
        if not self.situation.adjacency.count_is_public:
            estimate = estimate * self._count_error(source)
        return self.table.error(estimate - self.truth(rows)) / self.norm

    def _count_error(self, source: NoiseSource) -> float:
        """True over noisy count, which comes with the mean, or alone about a known centre."""
        if self.centre is None:
            return 1.0
        deviation = mean_deviation(self.situation, self.centre, 1.0)
        return 1 / max(0.1, 1 + deviation * float(normals(source, (1,))[0]))

    def gaussian_law(self, mu: float, tau: float) -> GaussianLaw:
        """Of the noise on simulated directions for rows clipped at ``tau``."""
        scale = self.bound("frobenius") / mu * tau**2 * math.sqrt(self.table.stretch)
        return GaussianLaw(self.table.d, scale)

    def trace_bound(self, tau: float) -> float:
        """What the simulated directions may have of the squared bound."""
        if not self.situation.adjacency.count_is_public:
            return math.inf
        return tau**2 * (1 - self.table.rest)

    def cleaned(self, noisy: Matrix, law: NoiseLaw, tau: float) -> Matrix:
        """With eigenvalues cleaned as mechanisms do it."""
        spike = self.situation.d * self.centre_deviation**2
        bound = self.trace_bound(tau)
        return map_eigenvalues(
            noisy, lambda values: clean_eigenvalues(values, law, trace_bound=bound, spike=spike)
        )[0]


Release = Callable[[Matrices, Rows, Matrix, NoiseSource], Matrix]


def _moment(release: Matrices, rows: Rows, error: Matrix, tau: float = 1.0) -> Matrix:
    return release.clipped(rows, tau) + np.outer(error, error)


def _cleaned(release: Matrices, rows: Rows, error: Matrix, source: NoiseSource) -> Matrix:
    return _cleaned_at(release, rows, error, source, 1.0, release.inner.mu)


def _cleaned_at(
    release: Matrices, rows: Rows, error: Matrix, source: NoiseSource, tau: float, mu: float
) -> Matrix:
    law = release.gaussian_law(mu, tau)
    noisy = _moment(release, rows, error, tau) + law.scale * isotropic(release.table.d, source)
    return release.cleaned(noisy, law, tau)


def _adaptive_cleaned(release: Matrices, rows: Rows, error: Matrix, source: NoiseSource) -> Matrix:
    """The search of the mechanism on the assumed law of lengths."""
    inner: AdaptiveCleanedCov = release.inner
    n, d = release.rows, release.situation.d
    law = GaussianLaw(d, release.bound("frobenius") * n / inner.matrix.mu)  # on the sum
    worth = KAPPA * min(math.sqrt(law.energy), 2 * math.sqrt(n * law.edge))
    limit = min(max(worth, PATIENCE / inner.search.epsilon), max(1, n // 2))
    steps = _first_above(release, rows, limit, inner.search.epsilon, source)
    spike = d * release.centre_deviation**2 * n
    tau = max(2.0 ** (-steps / 2), min(1.0, math.sqrt(spike / law.edge)))
    return _cleaned_at(release, rows, error, source, tau, inner.matrix.mu)


def _first_above(
    release: Matrices, rows: Rows, limit: float, epsilon: float, source: NoiseSource
) -> int:
    """The sparse vector search over rows beyond 2^(-j/2), j = 1, 2, ..."""
    lengths = release.spread * np.sqrt(rows.squares)
    reaches = 2.0 ** (-np.arange(1, _STEPS + 1) / 2)
    beyond = release.rows * np.mean(lengths >= reaches[:, None], axis=1)
    noise = laplaces(source, _STEPS + 1) * (4 / epsilon)
    above = np.flatnonzero(beyond - limit + noise[1:] >= noise[0] / 2)
    return int(above[0]) if above.size else _STEPS


def _projected(release: Matrices, rows: Rows, error: Matrix, source: NoiseSource) -> Matrix:
    law = release.gaussian_law(release.inner.mu, 1.0)
    noisy = _moment(release, rows, error) + law.scale * isotropic(release.table.d, source)
    bound = release.trace_bound(1.0)
    return map_eigenvalues(noisy, lambda values: project_to_simplex(values, bound))[0]


def _separate(release: Matrices, rows: Rows, error: Matrix, source: NoiseSource) -> Matrix:
    return _separate_at(release, rows, error, source, 1.0)


def _separate_at(
    release: Matrices, rows: Rows, error: Matrix, source: NoiseSource, tau: float
) -> Matrix:
    """Noisy eigenvalues on the eigenvectors of a noisy matrix."""
    inner = release.inner
    vectors, values = (
        (inner.matrix, inner.values)
        if release.name == "adaptive"
        else (inner.vectors, inner.values)
    )
    moment = _moment(release, rows, error, tau)
    basis = np.linalg.eigh(moment + _matrix_noise(release, vectors, tau, source))[1]
    noisy = np.linalg.eigvalsh(moment) + _value_noise(release, values, tau, source)
    return _on_basis(release, basis, noisy, tau)


def _on_basis(release: Matrices, basis: Matrix, values: Matrix, tau: float) -> Matrix:
    possible = project_to_simplex(isotonic_regression(values).x, release.trace_bound(tau))
    return np.asarray((basis * possible) @ basis.T)


def _matrix_noise(release: Matrices, step: Any, tau: float, source: NoiseSource) -> Matrix:
    """Of GaussCov or LapCov on simulated directions."""
    d = release.table.d
    if isinstance(step, GaussCov):
        return release.gaussian_law(step.mu, tau).scale * isotropic(d, source)
    scale = release.bound("l1") / step.epsilon * tau**2 * math.sqrt(release.table.stretch)
    return symmetric_laplace(d, scale, source)


def _value_noise(release: Matrices, step: Any, tau: float, source: NoiseSource) -> Matrix:
    d, public = release.table.d, release.situation.adjacency.count_is_public
    if hasattr(step, "mu"):
        scale = release.bound("frobenius") / step.mu * tau**2
        return np.asarray(normals(source, (d,)) * scale)
    scale = (2.0 if public else 1.0) / release.rows / step.epsilon * tau**2
    return np.asarray(laplaces(source, d) * scale)


def _adaptive(release: Matrices, rows: Rows, error: Matrix, source: NoiseSource) -> Matrix:
    """The private threshold by its expected course, then the better of two releases."""
    tau = _threshold(release, rows)
    if tau == 0:
        return np.zeros((release.table.d, release.table.d))
    separate = _separate_at(release, rows, error, source, tau)
    moment = _moment(release, rows, error, tau)
    twice = [_matrix_noise(release, release.inner.matrix, tau, source) for _ in range(2)]
    direct = moment + (twice[0] + twice[1]) / 2
    # The mechanism estimates which has less error; here it is known.
    return min(direct, separate, key=lambda m: release.table.error(m - moment))


def _threshold(release: Matrices, rows: Rows) -> float:
    search: ClippingThreshold = release.inner.threshold
    lengths = release.spread * np.sqrt(rows.squares)
    n = release.rows
    radius_search = SparseVector(epsilon=search.radius.epsilon)
    slack = radius_search.slack(_SEARCHED, search.radius.beta)
    if slack >= n:  # every radius seems to hold enough rows: the smallest is taken
        return 0.0
    within = np.quantile(lengths, 1 - slack / n)
    step = math.ceil(2 * math.log2(max(float(within), 1e-300)))  # in powers of sqrt(2)
    radius = min(1.0, math.pow(2.0, step / 2))
    squares = n * float(np.mean(np.minimum(lengths, radius) ** 2)) / radius**2
    tau = 1.0  # in units of the radius
    for _ in range(_STEPS):
        half = tau / 2
        beyond = (np.minimum(lengths, radius) / radius) ** 2 - half**2
        if n * float(np.mean(np.maximum(beyond, 0))) > search.noise.at(half, squares):
            break
        tau = half
    return radius * tau


def _exponential(release: Matrices, rows: Rows, error: Matrix, source: NoiseSource) -> Matrix:
    table, inner = release.table, release.inner
    moment = _moment(release, rows, error)
    values = np.linalg.eigvalsh(moment) + _value_noise(release, inner.values, 1.0, source)
    each = inner.direction.epsilon / release.bound("nuclear") / table.stretch
    basis, found = np.eye(table.d), []
    for _ in range(table.d - 1):
        chosen = draw_bingham(basis.T @ moment @ basis, each, source)
        rotation = np.linalg.qr(chosen[:, None], mode="complete")[0]
        found.append(basis @ chosen)
        basis = basis @ rotation[:, 1:]
    found.append(basis[:, 0])
    return _on_basis(release, np.array(found[::-1]).T, values, 1.0)


def _coinpress(release: Matrices, rows: Rows, error: Matrix, source: NoiseSource) -> Matrix:
    """Whitened rows are within their reach but for few: clipping is left out after the start."""
    d, table = release.situation.d, release.table
    whiten, moment, reach = np.eye(table.d), _moment(release, rows, error), 1.0
    noisy = moment
    for i, step in enumerate(release.inner.steps):
        if i:
            scale = release.bound("frobenius") / release.inner.steps[i - 1].mu * reach**2
            margin = GAUSSIAN_TAILS.operator(d, BETA) * scale
            whiten = _inverse_root(noisy, margin) @ whiten
            reach = min(GAUSSIAN_TAILS.vector(d, BETA), float(np.linalg.norm(whiten, 2)))
        law = release.gaussian_law(step.mu, reach)
        noisy = whiten @ moment @ whiten.T + law.scale * isotropic(table.d, source)
    back = np.linalg.inv(whiten)
    return np.asarray(back @ noisy @ back.T)


def _inverse_root(matrix: Matrix, margin: float) -> Matrix:
    return map_eigenvalues(matrix, lambda values: (np.maximum(values, 0.0) + margin) ** -0.5)[0]


def _wishart(release: Matrices, rows: Rows, error: Matrix, source: NoiseSource) -> Matrix:
    d = release.table.d
    c = release.inner.epsilon / release.bound("nuclear") / release.table.stretch
    moment = release.clipped(rows, 1.0)
    if not release.lifted:
        return release.cleaned(moment + two_sided_wishart(d, c, source), WishartLaw(d, c), 1.0)
    radius = 1 + LIFT**2  # squared
    lifted = np.zeros((d + 1, d + 1))
    lifted[:d, :d], lifted[d, d] = moment, LIFT**2
    noisy = lifted + two_sided_wishart(d + 1, c / radius, source)
    clean = release.cleaned(noisy, WishartLaw(d + 1, c / radius), math.sqrt(radius))
    side, corner = clean[:d, d], float(clean[d, d])
    return clean[:d, :d] - np.outer(side, side) / corner if corner > 0 else clean[:d, :d]


_RELEASES: dict[str, Release] = {
    "cleaned": _cleaned,
    "adaptive-cleaned": _adaptive_cleaned,
    "projection": _projected,
    "separate": _separate,
    "adaptive": _adaptive,
    "exponential": _exponential,
    "coinpress": _coinpress,
    "wishart": _wishart,
}
