r"""Tangent: a rough basis, then rows rescaled so that a second release measures its error.

A share of the budget buys rough components U from normalised rows, as `spherical` does. If these
stand out clearly, the rest is spent on rows stretched by a factor t along U and normalised again,

.. math:: u_i \propto (x_i - c) + (t - 1)\, U U' (x_i - c), \qquad t^2 = (1 - p)/p,

p the share of variance inside U. A row then has as much inside as outside, so the cross block
:math:`U_\perp' M U`, which says how U has to turn, is as large as unit rows can make it while its
noise stays the same: a gain of :math:`1/(4p(1-p))` in variance. One Newton step,

.. math:: V = U + U_\perp K, \qquad K = U_\perp' M U\, (\Lambda - m)^{-1},

turns the basis; K is shrunk by the precision of the two releases, as U itself has an error that
the second one only knows with noise. If the rough components do not stand out, or stretching would
gain little, the second release is on the same rows as the first and the average of both is what
`spherical` would have released. The idea of a tangent step is that of Düngler, Sanyal [kPCA],
Algorithm 3; batches, bounds and range estimates are not needed. Proof: docs/proofs/tangent.md.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import moment_sensitivities, second_moment
from eigenveil.exact.products import MomentProducts, moment_products
from eigenveil.exact.symmetric import GaussianLaw, LazyGaussian
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.analyze_gauss import AnalyzeGauss, directions
from eigenveil.mechanisms.components import NoisyComponents, energy_beside, leading
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.gauss import GaussCov, NoisyMatrix
from eigenveil.mechanisms.registry import LazyMechanism
from eigenveil.numerics.component_law import inner_statement
from eigenveil.numerics.random import NoiseSource
from eigenveil.numerics.spectral import signed
from eigenveil.privacy.accounting import split
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.calibrate import noise_scale
from eigenveil.privacy.cost import Cost, Gaussian
from eigenveil.rows.base import RowSource

ROUGH_SHARE = 0.15  # of mu^2

_CLEAR = 0.5  # squared cosine with which every rough component must stand out
_GAIN = 1.2  # in variance, below which stretching is not worth its own losses
_STRUCTURE = 0.1  # of energy beside the rough basis that may be more than noise


@dataclass(frozen=True, slots=True, eq=False)
class NoisyProduct:
    """A noisy second moment times released columns, and its noisy trace."""

    columns: NDArray[np.float64]
    trace: float
    noise_scale: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProductNoise:
    """A noisy second moment times released orthonormal columns; the matrix is never formed."""

    name: ClassVar[str] = "product"
    exact: ClassVar[bool] = False
    mu: float
    columns: NDArray[np.float64]

    def __post_init__(self) -> None:
        # Noise is drawn for orthonormal columns: longer ones would have too little of it.
        gram = self.columns.T @ self.columns
        if not np.allclose(gram, np.eye(len(gram)), rtol=0.0, atol=1e-9):
            raise InvalidParameterError("columns of a product must be orthonormal")

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return Gaussian(self.mu)

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyProduct:
        """Return noisy products in the caller's units."""
        if not isinstance(query, MomentProducts):
            raise InvalidParameterError("lazy noise needs moment_products, not a matrix")
        d, k = self.columns.shape
        scale = noise_scale(query.sensitivity("frobenius"), self.mu)
        noise, place = noise.bound_to(query.fingerprint), query.place
        lazy = LazyGaussian(d, scale, noise, columns=k, place=place)
        asked = place.there(self.columns)
        columns = place.host(query.times(asked) + lazy.times(asked))
        trace = query.trace + lazy.trace()
        return NoisyProduct(columns * query.unit, trace * query.unit, scale * query.unit)


class Tangent(LazyMechanism):
    """Rough components of unit rows, then a step that turns them."""

    name = "tangent"
    about = "unit rows, then a tangent step"
    source = "unit rows, then a tangent step; new here"
    auto = "as a rule"
    reads_once = False
    unit_rows = True
    uses_lengths = False
    typical_length = 1.0

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyComponents:
        """Return the leading components about the centre of ``clip``, whose bound is not used."""
        clip = directions(clip)
        first, second = split(self.mu, (ROUGH_SHARE, 1 - ROUGH_SHARE))
        if self.lazy:
            return self._lazily(source, clip, gate, first, second)
        query = second_moment(source, clip, gate.adjacency)
        one = gate.draw(GaussCov(mu=first), query)
        rough = leading(one, self.n_components)
        factor = self.stretching(rough, first, gate.adjacency)
        if factor is None:
            other = gate.draw(GaussCov(mu=second), query)
            return leading(_average(one, other), self.n_components)
        other = GaussCov(mu=second).run(source, _stretched(clip, rough, factor), gate)
        product = NoisyProduct(
            other.matrix @ rough.components.T, float(np.trace(other.matrix)), other.noise_scale
        )
        return turn(rough, product, factor)

    def _lazily(
        self, source: RowSource, clip: Clip, gate: Gate, first: float, second: float
    ) -> NoisyComponents:
        """Lazy variant; there is no average, because the matrices are never formed."""
        step = AnalyzeGauss(strength=Gaussian(first), n_components=self.n_components, lazy=True)
        rough = step.run(source, clip, gate)
        factor = self.stretching(rough, first, gate.adjacency)
        if factor is None:
            return replace(step, strength=Gaussian(second)).run(source, clip, gate)
        query = moment_products(source, _stretched(clip, rough, factor), gate.adjacency)
        columns = np.ascontiguousarray(rough.components.T)
        return turn(rough, gate.draw(ProductNoise(mu=second, columns=columns), query), factor)

    def stretching(self, rough: NoisyComponents, mu: float, adjacency: Adjacency) -> float | None:
        """Return the factor t, from the first release and public numbers; None leaves rows as they
        are.
        """
        law, k = rough.law, self.n_components
        assert law is not None  # both ways to the rough components state it
        others = law.d - k
        if others < 2 or rough.trace <= 0:  # one direction has no level of its own
            return None
        if rough.reliability.min() < _CLEAR:
            return None
        level = law.level(rough.eigenvalues, rough.trace)
        signals = np.array([law.signal(value - level) for value in rough.eigenvalues])
        # A component of squared cosine o has the share o of its signal inside.
        share = (float(signals[:, 0] @ signals[:, 1]) + k * level) / rough.trace
        # The step divides by what is left of the signal along the rough components.
        if not 0 < share < 1 or 4 * share * (1 - share) * _GAIN > signals[:, 1].min() ** 2:
            return None
        entries = others * (others + 1) / 2 - 1  # of noise about its level
        beside = energy_beside(rough.eigenvalues, rough.energy, level, law.d)
        if beside <= 0:  # where it is estimated
            return None
        structure = 1 - law.deviation**2 * entries / beside
        if structure + 2 * math.sqrt(2 / entries) > _STRUCTURE:
            return None
        # Where the sample itself varies more than the noise, stretching only adds to that.
        row = law.deviation * mu / moment_sensitivities(law.d, adjacency)["frobenius"]
        sampling = row * rough.trace * share * (1 - share) / (k * others)
        if sampling > law.deviation**2 * ROUGH_SHARE / 2:
            return None
        return math.sqrt((1 - share) / share)


def _stretched(clip: Clip, rough: NoisyComponents, factor: float) -> Clip:
    """Return the clip of stretched rows, with the unit distance of rows of typical shape.

    The share inside U is 1/(1 + t^2), so stretching multiplies squared lengths by 2/(1 + t^-2).
    """
    longer = math.sqrt(2 / (1 + factor**-2))
    return replace(
        clip, stretch=(rough.components, factor), unit_distance=longer * clip.unit_distance
    )


def _average(one: NoisyMatrix, other: NoisyMatrix) -> NoisyMatrix:
    """Return the average of two releases of one matrix, weighted by their precision."""
    weights = np.array([one.noise_scale**-2, other.noise_scale**-2])
    scale = float(weights.sum()) ** -0.5
    weights *= scale**2
    matrix = weights[0] * one.matrix + weights[1] * other.matrix
    return NoisyMatrix(matrix, scale, GaussianLaw(len(matrix), scale))


def turn(rough: NoisyComponents, product: NoisyProduct, factor: float) -> NoisyComponents:
    """Take one Newton step from a rough basis, on the scale of rows before rescaling."""
    basis = rough.components.T
    d, k = basis.shape
    block = basis.T @ product.columns
    inside = (block + block.T) / 2
    cross = (product.columns - basis @ block) / factor
    level = max(0.0, (product.trace - float(np.trace(inside))) / (d - k))
    values, rotation = np.linalg.eigh(inside / factor**2)
    values, rotation = np.maximum(values[::-1], 0.0), rotation[:, ::-1]
    if product.trace <= 0:  # what seemed to stand out was noise
        return replace(rough, reliability=np.zeros(k), single=None)
    scale = product.noise_scale / factor**2  # of the noise on a value
    gap = np.maximum(values - level, scale)
    variance = (product.noise_scale / factor / gap) ** 2 / 2  # of an entry of the step
    # The rough basis is off by noise of its own, which the second release shares nothing with.
    before = (rotation.T**2) @ (1 / rough.reliability - 1) / (d - k)
    weight = before / (before + variance)
    turned, _ = np.linalg.qr(basis @ rotation + cross @ rotation / gap * weight)
    left = weight * variance
    components = signed(turned.T)
    reliability = np.where(values - level > scale, 1 / (1 + (d - k) * left), 0.0)
    # Shares of variance are those of rows as they were: normalising stretched ones changes them.
    return replace(
        rough,
        components=components,
        eigenvalues=_without_noise(rough),
        reliability=reliability,
        single=inner_statement(values, components, scale, reliability),
    )


def _without_noise(rough: NoisyComponents) -> NDArray[np.float64]:
    """Return eigenvalues less what noise adds to them."""
    assert rough.law is not None  # both ways to the rough components state it
    level = rough.law.level(rough.eigenvalues, rough.trace)
    return np.array([rough.law.signal(value - level)[0] + level for value in rough.eigenvalues])
