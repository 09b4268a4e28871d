r"""A covariance without any bound, from unit rows and clipped rows.

.. math:: M = \frac1n \sum_i \frac{(x_i - c)(x_i - c)'}{|x_i - c|^2} + E, \qquad
          Y = \frac1n \sum_i \mathrm{clip}_R(x_i - c)\, \mathrm{clip}_R(x_i - c)' + N, \qquad
          F = \sum_k a_k B_k, \; a \ge 0

about a private centre c. M has little noise and needs no bound; it gives the shape of the
covariance if rows are elliptical. Y is unbiased for the covariance of the clipped rows, whatever
their law, and has more noise. A first step draws both at small shares of the budget. Their released
values predict which route will have the smaller error, and the second step spends the rest on that
route. Neither the cost nor the bound on rows depends on the choice.

F is the non-negative mixture of the inverted shape and the plain one that fits Y best. The release
is F drawn towards Y (James, Stein), or Y with cleaned eigenvalues, whichever has the smaller
estimated risk. No entry of a column that stands out from the noise leaves Y by more than 2.5
standard deviations of its noise (limited translation, Efron and Morris 1972). The stated noise,
floor and eigenvalues are those of Y, by the law that its noise has on a fixed route. New here.

Proof: docs/proofs/elliptical.md.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.optimize import nnls

from eigenveil.exact.clip import LARGEST_NORM, Clip
from eigenveil.exact.gram import second_moments
from eigenveil.exact.symmetric import GaussianLaw
from eigenveil.mechanisms.additive import vector_noise
from eigenveil.mechanisms.distances import (
    CLEANED,
    PrivateDistances,
    clipping_radius,
    distance_share,
    noise_rows,
)
from eigenveil.mechanisms.fourth_moments import SPREAD_SHARE, FourthMoments
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.gauss import GaussCov, NoisyMatrix
from eigenveil.mechanisms.registry import NOT_AN_OPTION, CovarianceMechanism
from eigenveil.numerics.cleaning import clean_eigenvalues, variance_shares
from eigenveil.numerics.spectral import map_eigenvalues
from eigenveil.privacy.accounting import compose, part
from eigenveil.privacy.cost import Cost, Gaussian
from eigenveil.rows.base import RowSource

# Shares of mu^2. A radius is worth more where few columns make the matrix cheap.
_SEARCH_SHARE, _SEARCH_COLUMNS = 0.05, 160

# The share of the noise that the release will keep, as the search for a radius expects it: about
# that of a matrix of rank one, sqrt(2 d) of d sqrt(1/2), and half where columns are few.
_KEPT_NOISE, _KEPT_NOISE_OF_ONE = 0.5, 2.0

# Of what the search leaves: the first draws, and of the second step on the route of unit rows.
_UNIT_SHARE, _CLIPPED_SHARE, _UNIT_ROUTE_SHARE = 0.1, 0.15, 0.8

# A share of unit rows that stands out by so many deviations says less of the variance of rows.
_UNIT_CLEARNESS = 0.4
CENTRE_DEVIATIONS = 3.0  # of the noise of the centre in one column, rarely exceeded
_FEW_COLUMNS = 3  # so few columns leave little to tell the shapes by
_UNIT_WORTH = 10.0  # d^1.5/(n mu) times this is enough for the first draw of unit rows
_REMAINING_RISK = 0.35  # share of a route's estimated risk that its second step leaves
_MAX_TRANSLATION = 2.5  # standard deviations of the noise of an entry
SHOWN_VARIANCE = 5.0  # deviations of the noise in a mean variance, if single ones are to be clear
CLEAR_VARIANCE = 3.2  # standard deviations of the noise: one in a hundred over some columns
_ROUNDING = 1 - 1e-9  # two parts of a step cost no more than the step


class _Steps(NamedTuple):
    """What `elliptical` draws.

    Attributes
    ----------
    distances : PrivateDistances or None
        The search for a clipping radius; None where whoever calls has one.
    first_unit, first_clipped : GaussCov
        The first step.
    second : GaussCov
        The second step on the route of clipped rows; its cost is charged for either route.
    second_unit, second_clipped : GaussCov
        Its parts on the route of unit rows.
    spread : FourthMoments or None
        Facts about the clipped rows, for intervals; None where the number of rows is private.

    """

    distances: PrivateDistances | None
    first_unit: GaussCov
    first_clipped: GaussCov
    second: GaussCov
    second_unit: GaussCov
    second_clipped: GaussCov
    spread: FourthMoments | None


@dataclass(frozen=True, kw_only=True)
class Elliptical(CovarianceMechanism):
    """Unit rows give the shape and clipped rows what is not elliptical, without bounds.

    Within other procedures it may do without its search, and without fourth moments (``spreads``).
    """

    name = "elliptical"
    about = "unit rows and clipped rows; no bounds"
    source = "unit rows and clipped rows, most of the budget on the better; new here"
    auto = "as a rule"
    reads_once = False
    unit_rows = True
    semidefinite = True
    gaussian_noise = True
    n_columns: int = field(default=0, repr=False, metadata=NOT_AN_OPTION)
    n_rows: int | None = field(default=None, repr=False, metadata=NOT_AN_OPTION)
    searches: bool = field(default=True, repr=False, metadata=NOT_AN_OPTION)
    spreads: bool = field(default=True, repr=False, metadata=NOT_AN_OPTION)

    @cached_property
    def steps(self) -> "_Steps":
        """The steps, from the strength and public numbers."""
        whole, rows, columns = Gaussian(self.mu), self.n_rows, self.n_columns
        narrow = min(1.0, (_SEARCH_COLUMNS / columns) ** 2)
        search = max(distance_share(whole, rows), _SEARCH_SHARE * narrow) if self.searches else 0.0
        unit = _UNIT_SHARE
        if rows:
            unit = min(unit, _UNIT_WORTH * float(columns**1.5) / (rows * whole.mu))
        second = 1 - unit - _CLIPPED_SHARE
        spread = self.spreads and bool(rows)
        left = 1 - search - spread * SPREAD_SHARE

        def matrix(share: float) -> GaussCov:
            return GaussCov(mu=whole.mu * math.sqrt(left * share))

        return _Steps(
            distances=(
                PrivateDistances.fine(vector_noise(part(whole, search)), whole, rows)
                if self.searches
                else None
            ),
            first_unit=matrix(unit),
            first_clipped=matrix(_CLIPPED_SHARE),
            second=matrix(second),
            second_unit=matrix(second * _UNIT_ROUTE_SHARE * _ROUNDING),
            second_clipped=matrix(second * (1 - _UNIT_ROUTE_SHARE) * _ROUNDING),
            spread=FourthMoments.of(whole) if spread else None,
        )

    def cost(self) -> Cost:
        """Return the cost of all steps, composed; it is the same on both routes."""
        found = self.steps
        some = (found.distances, found.spread)
        steps = (found.first_unit, found.first_clipped, found.second)
        return compose(*(step.cost() for step in (*some, *steps) if step is not None))

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyMatrix:
        """Release the covariance of rows about the centre of ``clip``, at a private radius."""
        assert self.steps.distances is not None  # whoever has a radius calls `within`
        found = self.steps.distances.run(source, clip, gate)
        if not found.found and clip.row_norm == LARGEST_NORM:
            # No length is known, so no noise would be small enough: the zero matrix is better.
            return NoisyMatrix(np.zeros((source.n_columns, source.n_columns)), 0.0, None)
        second = Gaussian(self.steps.second.mu)
        noise = noise_rows(second, source.n_columns, gate.adjacency) / CLEANED
        kept = min(_KEPT_NOISE, _KEPT_NOISE_OF_ONE / math.sqrt(source.n_columns))
        radius = clipping_radius(found, clip, kept * noise)
        inverse = found.mean_power(-2) if found.found else radius**-2
        return self.within(source, replace(clip, row_norm=radius), inverse, gate)

    def within(
        self,
        source: RowSource,
        clip: Clip,
        inverse: float | None,
        gate: Gate,
        changed: RowSource | None = None,
    ) -> NoisyMatrix:
        """Draw the matrices of rows within the public or released bounds of ``clip``.

        ``inverse`` is the mean of one over the squared distance from its centre; None if unknown.
        ``changed`` marks the rows that a limit changed, where others than those of ``clip`` do.
        """
        adjacency, steps = gate.adjacency, self.steps
        normalised = replace(clip, row_norm=1.0, normalise=True)
        unit_rows, clipped_rows = second_moments(source, (normalised, clip), adjacency)
        about = _About(clip.centre_error, inverse, clipped_rows.trace_bound, clip.row_norm)
        unit = _Eigen.of(gate.draw(steps.first_unit, unit_rows))
        clipped = _Eigen.of(gate.draw(steps.first_clipped, clipped_rows))
        shapes = about.shapes(unit)
        unit_route = _prefers_unit_rows(shapes, clipped, about)
        if steps.distances is None:  # single variances matter, not the error of the whole alone
            unit_route = unit_route and self._shows(unit, clipped, about)
        if unit_route:
            shapes = about.shapes(unit.pooled(gate.draw(steps.second_unit, unit_rows)))
            clipped = clipped.pooled(gate.draw(steps.second_clipped, clipped_rows))
        else:
            clipped = clipped.pooled(gate.draw(steps.second, clipped_rows))
        released = _combined(shapes, clipped, about, unit_route=unit_route)
        spread = None if steps.spread is None else steps.spread.run(source, clip, gate, changed)
        return replace(released, row_norm=clip.row_norm, spread=spread)

    def _shows(self, unit: "_Eigen", clipped: "_Eigen", about: "_About") -> bool:
        """Return whether an average variance will be clear after the route of unit rows."""
        steps = self.steps
        unit_gain = math.hypot(1, steps.second_unit.mu / steps.first_unit.mu)
        clipped_gain = math.hypot(1, steps.second_clipped.mu / steps.first_clipped.mu)
        clearness = about.clearness(unit, clipped, unit_gain, clipped_gain)
        return float(clearness.mean()) > SHOWN_VARIANCE


def combined(
    unit: NoisyMatrix, clipped: NoisyMatrix, centre_error: float, inverse: float
) -> NoisyMatrix:
    """Return the covariance of the clipped rows that two releases imply: post-processing.

    Parameters
    ----------
    unit, clipped : NoisyMatrix
        Second moments of unit rows, which had most of the budget, and of clipped rows.
    centre_error : float
        Expected term that the error of the centre adds to the second moment of clipped rows.
    inverse : float
        Mean of one over the squared distance from the centre.

    """
    about = _About(centre_error, inverse, math.inf, math.inf)
    shapes = about.shapes(_Eigen.of(unit))
    return _combined(shapes, _Eigen.of(clipped), about, unit_route=True)


@dataclass(frozen=True, slots=True)
class _About:
    """Public or released numbers beside the two matrices."""

    centre_error: float
    inverse: float | None
    trace_bound: float
    row_norm: float

    def shapes(self, unit: "_Eigen") -> "_Shapes":
        """Return the shapes that a release of unit rows implies."""
        return _Shapes.of(unit, self.unit_error)

    @property
    def unit_error(self) -> float:
        """Expected term that the error of the centre adds to the second moment of unit rows."""
        inverse = self.row_norm**-2 if self.inverse is None else self.inverse
        return self.centre_error * inverse

    def clearness(
        self,
        unit: "_Eigen",
        clipped: "_Eigen",
        unit_gain: float = 1.0,
        clipped_gain: float = 1.0,
    ) -> NDArray[np.float64]:
        """Return how many noise deviations each variance stands out by, in the clearer matrix.

        Each diagonal entry is reduced by the largest plausible error of the centre. Gains multiply
        the result: they predict what later draws add. Without measured distances the centre's error
        in unit rows is unknown, so clipped rows alone count.
        """
        columns = unit.values.size
        error = CENTRE_DEVIATIONS**2 * self.centre_error / columns
        of_clipped = clipped_gain * (clipped.noisy.matrix.diagonal() - error) / clipped.scale
        if self.inverse is None:
            return np.asarray(of_clipped)
        of_unit = (unit.noisy.matrix.diagonal() - error * self.inverse) / unit.scale
        return np.maximum(of_clipped, unit_gain * _UNIT_CLEARNESS * of_unit)


@dataclass(frozen=True, slots=True, eq=False)
class _Eigen:
    """A noisy matrix with Gaussian noise, and its eigenpairs."""

    noisy: NoisyMatrix
    values: NDArray[np.float64]
    vectors: NDArray[np.float64]

    @classmethod
    def of(cls, noisy: NoisyMatrix) -> Self:
        return cls(noisy, *eigh(noisy.matrix, driver="evd"))

    @property
    def scale(self) -> float:
        """Standard deviation of the noise on a diagonal entry."""
        return self.noisy.noise_scale

    @property
    def law(self) -> GaussianLaw:
        return GaussianLaw(self.values.size, self.scale)

    @property
    def energy_deviation(self) -> float:
        """Standard deviation of the squared norm of the noise."""
        d = self.values.size
        return math.sqrt(d * (d + 1)) * self.scale**2

    def pooled(self, other: NoisyMatrix) -> "_Eigen":
        """Return the average of two releases of one matrix, weighted by their precisions."""
        return _Eigen.of(self.noisy.pooled(other))

    def cleaned(self, trace_bound: float, spike: float) -> tuple[NDArray[np.float64], float]:
        """Return cleaned eigenvalues and their estimated risk."""
        cleaned = clean_eigenvalues(self.values, self.law, trace_bound=trace_bound, spike=spike)
        risk = _square(self.values) - self.law.energy - _square(cleaned)
        return cleaned, max(0.0, risk)

    def matrix_of(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the matrix with the same eigenvectors and other eigenvalues."""
        matrix = (self.vectors * values) @ self.vectors.T
        return np.asarray((matrix + matrix.T) / 2)


@dataclass(frozen=True, slots=True, eq=False)
class _Shapes:
    """Shapes of trace 1 with the eigenvectors of unit rows, and what they were made from.

    One is the shape of elliptical rows, the other the plain one, which is right for rows of equal
    length.
    """

    unit: _Eigen
    shares: NDArray[np.float64]  # eigenvalues, a column for each shape
    whole: float
    risk: float

    @classmethod
    def of(cls, unit: _Eigen, error: float) -> Self:
        # Under add/remove the matrix is a sum, whose trace is about the number of rows.
        whole = max(float(unit.values.sum()), unit.scale)
        values, risk = unit.cleaned(whole, error)
        plain = _filled(values / whole)
        return cls(unit, np.stack([variance_shares(plain), plain], axis=1), whole, risk)

    def fitted(self, clipped: _Eigen) -> tuple[NDArray[np.float64], float]:
        """Return the mixture that fits the clipped matrix best, and its estimated risk."""
        vectors = self.unit.vectors
        seen = np.einsum("ij,ij->j", vectors, clipped.noisy.matrix @ vectors)
        # In units of the noise: the solver's tolerance is absolute.
        weights = clipped.scale * nnls(self.shares, seen / clipped.scale)[0]
        if not weights.any():  # no variance stands out
            weights = np.full(2, clipped.scale / 2)
        risk = self.risk * (float(weights.sum()) / self.whole) ** 2
        return self.unit.matrix_of(self.shares @ weights), risk


def _prefers_unit_rows(shapes: _Shapes, clipped: _Eigen, about: _About) -> bool:
    """Return whether unit rows promise the smaller error."""
    if clipped.values.size <= _FEW_COLUMNS:
        return False
    target, risk = shapes.fitted(clipped)
    misfit = _square(clipped.noisy.matrix - target) - clipped.law.energy
    _, clipped_risk = clipped.cleaned(math.inf, about.centre_error)
    unit_risk = max(0.0, misfit - risk) + _REMAINING_RISK * risk
    return unit_risk <= _REMAINING_RISK * clipped_risk + clipped.energy_deviation


def _combined(shapes: _Shapes, clipped: _Eigen, about: _About, *, unit_route: bool) -> NoisyMatrix:
    """Return the candidate of smaller estimated risk, near the clipped matrix, made positive."""
    clearness = about.clearness(shapes.unit, clipped)
    values, cleaned_risk = clipped.cleaned(about.trace_bound, about.centre_error)
    if unit_route:
        cleaned_risk += clipped.energy_deviation
    shrunk, shrunk_risk = _drawn_towards_shape(shapes, clipped)
    if clipped.law.floor() < clipped.values[-1] <= clipped.law.floor(about.centre_error):
        # What stands out from the noise may be the error of the centre.
        released = clipped.matrix_of(values)
    else:
        best = shrunk if shrunk_risk <= cleaned_risk else clipped.matrix_of(values)
        near = _translated(best, clipped, clearness)
        released, _ = map_eigenvalues(near, lambda values: np.maximum(values, 0.0))
    return NoisyMatrix(
        released,
        clipped.scale,
        clipped.law,
        clipped.values,
        clearness=clearness,
        unbiased=clipped.noisy.matrix,
    )


def _drawn_towards_shape(shapes: _Shapes, clipped: _Eigen) -> tuple[NDArray[np.float64], float]:
    """Return the target drawn towards the clipped matrix, and its estimated risk."""
    made, _ = shapes.fitted(clipped)
    residual = clipped.noisy.matrix - made
    square, noise = _square(residual), clipped.law.energy
    weight = max(0.0, 1 - noise / square) if square > 0 else 0.0
    return made + weight * residual, weight * noise


def _filled(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return shares of sum 1; what noise hides is spread over the smallest ones."""
    shares = np.maximum(shares, 0.0)
    missing = 1 - float(shares.sum())
    if missing <= 0:
        return np.asarray(shares / shares.sum())
    ascending = np.sort(shares)
    levels = (missing + np.cumsum(ascending)) / np.arange(1, shares.size + 1)
    above = np.append(ascending[1:], math.inf)
    return np.asarray(np.maximum(shares, levels[np.flatnonzero(levels <= above)[0]]))


def _translated(
    matrix: NDArray[np.float64], clipped: _Eigen, clearness: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the matrix with entries of clear columns held near those of the clipped matrix."""
    noisy, scale = clipped.noisy.matrix, clipped.scale
    noise = np.full(noisy.shape, scale / math.sqrt(2))
    np.fill_diagonal(noise, scale)
    most = _MAX_TRANSLATION * noise
    clear = clearness > CLEAR_VARIANCE
    near = noisy + np.clip(matrix - noisy, -most, most)
    return np.asarray(np.where(np.outer(clear, clear), near, matrix))


def _square(array: NDArray[np.float64]) -> float:
    """Return the squared Frobenius norm."""
    return float(np.vdot(array, array))
