r"""Isotropic Gaussian, Laplace and two-sided Wishart noise on symmetric matrices.

:math:`(E_{ii}, \sqrt2 E_{ij})_{i<j}` is an isometry from symmetric matrices with the Frobenius
norm to Euclidean space. Noise of scale s in every direction therefore has standard deviation
s on the diagonal and s/sqrt(2) off it, and is invariant under rotation.

Two-sided Wishart noise is :math:`Z = W_1 - W_2`, independent, each with density proportional to
:math:`e^{-c \operatorname{tr} W}` on positive semi-definite matrices (the Wishart law of d + 1
degrees of freedom, the noise of Jiang, Xie, Zhang 2016 without its bias). The density f of Z
satisfies

.. math:: f(Z + D) \le e^{c \|D\|_*} f(Z), \qquad
          f(Z) \propto \int_{W \succeq 0,\; W + Z \succeq 0} e^{-c \operatorname{tr}(Z + 2W)} dW

for every symmetric D: added to a query of nuclear sensitivity Delta with c = epsilon/Delta it is
epsilon-private. For D >= 0 the domain at Z + D contains the one at Z, which gives
:math:`f(Z + D) \ge e^{-c \operatorname{tr} D} f(Z)`; shifted by D it lies within it, which gives
:math:`f(Z + D) \le e^{c \operatorname{tr} D} f(Z)`; any D is a difference of two such.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from eigenveil.exact.lattice import GAUSSIAN, Law, add_noise, grid_exponent
from eigenveil.exceptions import InvalidParameterError
from eigenveil.numerics.array_backend import HOST, Place
from eigenveil.numerics.integers import FixedPoint, Integers, fitted, widened
from eigenveil.numerics.noise_law import NoiseLaw
from eigenveil.numerics.random import NoiseSource, normals

_BAND_ENTRIES = 1 << 19  # entries in a band of rows


def add_symmetric_gaussian(
    query: FixedPoint, scale: float, source: NoiseSource, *, grid: int | None = None
) -> FixedPoint:
    """Add isotropic symmetric Gaussian noise of ``scale``, on one grid for all entries."""
    off_scale = _over_sqrt_two(scale)
    return add_symmetric(query, scale, off_scale, source, law=GAUSSIAN, grid=grid)


def add_symmetric(
    query: FixedPoint,
    scale: float,
    off_scale: float,
    source: NoiseSource,
    *,
    law: Law,
    grid: int | None = None,
) -> FixedPoint:
    """Add noise of ``scale`` on and of ``off_scale`` off the diagonal.

    ``grid``: exponent of a public grid; that of ``scale`` by default.
    """
    d = query.units.shape[0]
    if query.units.shape != (d, d):
        raise InvalidParameterError("symmetric noise needs a square matrix")
    if grid is None:
        grid = grid_exponent(scale, query.exponent)
    units = widened(query.units, 1)  # with room for the noise
    out: Integers = np.empty((d, d), dtype=units.dtype)
    diagonal = FixedPoint(units.diagonal(), query.exponent)
    np.fill_diagonal(out, add_noise(diagonal, scale, source, law=law, grid=grid).units)
    rows = max(1, _BAND_ENTRIES // d)
    for start in range(0, d, rows):  # a band of rows at a time: no index arrays of d x d entries
        stop = min(start + rows, d)
        above = np.arange(start, d) > np.arange(start, stop)[:, None]
        off = FixedPoint(units[start:stop, start:][above], query.exponent)
        noisy = add_noise(off, off_scale, source, law=law, grid=grid).units
        out[start:stop, start:][above] = noisy
        out[start:, start:stop].T[above] = noisy
    return FixedPoint(fitted(out), grid)


@lru_cache(maxsize=256)
def _large_square(freedom: float) -> float:
    """Return the squared length that noise exceeds once in ten thousand times."""
    return float(chi2.isf(1e-4, freedom))


def _over_sqrt_two(scale: float) -> float:
    """Scale / sqrt(2), rounded up."""
    root = scale * math.sqrt(0.5)
    while 2 * Fraction(root) ** 2 < Fraction(scale) ** 2:
        root = math.nextafter(root, math.inf)
    return root


@dataclass(frozen=True, slots=True)
class GaussianLaw(NoiseLaw):
    r"""Isotropic Gaussian noise: :math:`R(g) = r^2 g`, r = sqrt(d/2) scale, a semicircle up to 2r.

    Its 99 % limits are calibrated by simulation for d from 2 to 150; the energy has a normal limit.
    """

    scale: float

    @property
    def deviation(self) -> float:
        """Standard deviation of an entry of the diagonal."""
        return self.scale

    @property
    def critical(self) -> float:
        """g* = 1/r."""
        return 1 / self._radius

    @property
    def energy_excess(self) -> float:
        """The tail of chi-squared; a single entry has no energy about its mean."""
        freedom = self.d * (self.d + 1) / 2 - 1
        if freedom == 0:
            return 0.0
        return (_large_square(freedom) - freedom) * self.scale**2

    def r_transform(self, g: float) -> tuple[float, float, float]:
        """R, R', R''."""
        return self._radius**2 * g, self._radius**2, 0.0

    def correction(self, g: NDArray[np.complex128]) -> NDArray[np.float64]:
        """2 r^2 Re g."""
        return np.asarray(2 * self._radius**2 * g.real)

    def scaled(self, factor: float) -> "GaussianLaw":
        """Return the law of the noise times ``factor``."""
        return GaussianLaw(self.d, self.scale * factor)

    @property
    def _radius(self) -> float:
        return math.sqrt(self.d / 2) * self.scale


class LazyGaussian:
    r"""Products of one isotropic symmetric Gaussian matrix, drawn as they are asked for.

    The matrix Z is never formed. With V the directions asked about so far and W = ZV, a new
    orthonormal block Q with V'Q = 0 has

    .. math:: Z Q = V (W'Q) + Q N + (I - VV' - QQ') G

    with N isotropic symmetric of the same scale and G of independent N(0, scale^2/2): V'ZQ is
    known, and the rest of Z is independent of all answers. So the answers together have the law
    of products with one matrix, however later blocks depend on earlier answers. Proof:
    docs/proofs/analyze_gauss.md. Floating point: idealised numerics.

    Parameters
    ----------
    d : int
        Size of the matrix.
    scale : float
        Standard deviation of an entry of the diagonal.
    source : NoiseSource
        Where the random bits come from.
    columns : int
        Most columns that will be asked about: room for them and their images is set aside, which
        the operating system fills as it is used.
    place : Place
        Where the columns lie.

    """

    def __init__(
        self, d: int, scale: float, source: NoiseSource, *, columns: int, place: Place = HOST
    ) -> None:
        self._d = d
        self._scale = scale
        self._source = source
        self._place = place
        self._seen = place.columns(d, columns)  # V
        self._images = place.columns(d, columns)  # W
        self._asked = 0
        self._trace: float | None = None

    def times(self, block: Any) -> Any:
        """Z times orthonormal columns that are orthogonal to all columns asked about before."""
        if self._trace is not None:
            raise InvalidParameterError("ask for the trace after the last product")
        d, width = block.shape
        before, after = self._asked, self._asked + width
        if d != self._d or after > self._seen.shape[1]:
            raise InvalidParameterError("ask for no more columns than there is room for")
        seen, images = self._seen[:, :before], self._images[:, :before]
        square = normals(self._source, (width, width)) * self._scale
        answer = self._place.normals(self._source, (d, width))
        answer *= self._scale * math.sqrt(0.5)  # G
        within = block @ (self._place.there((square + square.T) / 2) - block.T @ answer)
        answer += ((block.T @ images - answer.T @ seen) @ seen.T).T
        answer += within
        self._seen[:, before:after] = block
        self._images[:, before:after] = answer
        self._asked = after
        return answer

    def trace(self) -> float:
        r"""Return the trace of Z, given all answers: the last question.

        With U a basis of what was not asked about, tr Z = tr(V'W) + tr(U'ZU), and U'ZU is
        isotropic of the same scale and independent of the answers: its d - m diagonal entries
        add up to N(0, scale^2 (d - m)).
        """
        if self._trace is None:
            m = self._asked
            known = self._place.inner(self._seen[:, :m], self._images[:, :m])
            rest = self._scale * math.sqrt(self._d - m) * float(normals(self._source, (1,))[0])
            self._trace = known + rest
        return self._trace


def two_sided_wishart(d: int, c: float, source: NoiseSource) -> NDArray[np.float64]:
    """W1 - W2 with W = G G', G of d x (d + 1) normal entries of variance 1/(2c)."""
    first, second = normals(source, (2, d, d + 1)) / math.sqrt(2 * c)
    # One product with its own transpose is exactly symmetric; so is the difference of two.
    return np.asarray(first @ first.T - second @ second.T)


@dataclass(frozen=True, slots=True)
class WishartLaw(NoiseLaw):
    r"""The law of `two_sided_wishart`: :math:`R(g) = 2 a a' g / (1 - a^2 g^2)`.

    a = d/(2c), a' = (d + 1)/(2c). Limits calibrated by simulation. Largest eigenvalues, 16,000 to
    80,000 at each d from 1 to 40: one in ten thousand lies 4.0 to 4.4 fluctuations beyond the edge
    (about the mean less, 1.9 to 3.4 at d = 2 to 5), one in a hundred 1.2 to 1.9. Fewer draws at 80
    to 400 show no other law: one in a thousand at 3.0 to 3.1. Energies, 100,000 to 670,000 at each
    d from 2 to 15, 20,000 to 60,000 at 25 and 60: the variance is 4 deviation^4 times the degrees
    of freedom (within 3 % from d = 4), and one in ten thousand lies 4 (1 + 4/d) standard
    deviations out (within 6 %).
    """

    c: float

    @property
    def deviation(self) -> float:
        """Standard deviation of an entry of the diagonal."""
        return math.sqrt(self.d + 1) / self.c

    @property
    def critical(self) -> float:
        """g*: (2r - 1) u^2 + 2(r + 1) u = 1 for u = (a g*)^2, r = a'/a."""
        r = 1 + 1 / self.d
        u = (math.sqrt(r * (r + 4)) - r - 1) / (2 * r - 1)
        return math.sqrt(u) / self._a

    @property
    def energy_excess(self) -> float:
        """Skew at small d, normal at large d."""
        freedom = self.d * (self.d + 1) / 2 - 1
        return 4 * (1 + 4 / self.d) * 2 * math.sqrt(freedom) * self.deviation**2

    def r_transform(self, g: float) -> tuple[float, float, float]:
        """R, R', R''."""
        u = (self._a * g) ** 2
        slope = 2 * self._a * (self._a + 0.5 / self.c)
        return (
            slope * g / (1 - u),
            slope * (1 + u) / (1 - u) ** 2,
            2 * slope * self._a**2 * g * (3 + u) / (1 - u) ** 3,
        )

    def correction(self, g: NDArray[np.complex128]) -> NDArray[np.float64]:
        """4 a a' Re g / |1 - a^2 g^2|^2.

        |Re g| is at most g* for the noise, hence for its sum with any matrix: so held here.
        """
        bounded = g.real.clip(-self.critical, self.critical) + 1j * g.imag
        slope = 2 * self._a * (self._a + 0.5 / self.c)
        return np.asarray(2 * slope * bounded.real / np.abs(1 - (self._a * bounded) ** 2) ** 2)

    def scaled(self, factor: float) -> "WishartLaw":
        """Return the law of the noise times ``factor``."""
        return WishartLaw(self.d, self.c / factor)

    @property
    def _a(self) -> float:
        return self.d / (2 * self.c)
