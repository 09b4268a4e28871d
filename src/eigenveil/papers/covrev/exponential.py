r"""ExponentialCov (EMCov) and ExponentialPCA, by draws from the Bingham law.

Random directions from the Bingham law.

With eigenvalues :math:`a_i = \text{strength}\,(\lambda_{\max} - \lambda_i)` the density on the
sphere is proportional to :math:`\exp(-x)`, :math:`x = \sum_i a_i u_i^2`. Proposals come from the
angular central Gaussian law, the direction of a normal vector with precisions
:math:`1 + 2a_i/b`, whose density is proportional to :math:`(1 + 2x/b)^{-d/2}`. The ratio of the
two is largest at :math:`x = (d - b)/2`, so a proposal is accepted with probability

.. math:: \exp(-x)\,(1 + 2x/b)^{d/2} / M, \qquad \log M = -\tfrac{d-b}2 + \tfrac d2 \log\tfrac db,
          \qquad \sum_i \frac1{b + 2a_i} = 1

(Kent, Ganeiban, Mardia 2018). The lowest rates measured, for d from 2 to 1000 and strength times
spread up to 1e8, belong to one dominant eigenvalue and follow its limit :math:`\sqrt{2/(ed)}`:
27 % at d = 10, 12 % at 50, 6 % at 200. Weak laws accept nearly always.

EMCov: noisy eigenvalues, and one eigenvector after the other by the exponential mechanism.

Source: Amin, Dick, Kulesza, Medina, Vassilvitskii 2019, Algorithm 1; EMCov in Dong, Liang, Yi
2022 [CovRev], Appendix C for its zCDP version. Sampling: Kent, Ganeiban, Mardia 2018.

.. math:: u \sim \exp\bigl(\tfrac{\epsilon_i}{\Delta}\, u' C_i u\bigr) \text{ on the sphere},
          \qquad C_{i+1} = C_i \text{ compressed to the complement of } u

C is the unnormalised sum over rows in the unit ball; Delta = 2 for replace-one and 1 for
add/remove. Proof: docs/proofs/exponential.md.

Differences from the source
---------------------------
1. The exponent is epsilon/2 (epsilon under add/remove), not epsilon/4: the difference of two
   tables' scores varies over an interval of length Delta only.
2. Under zCDP a direction costs epsilon^2/8, not epsilon^2/2: the exponential mechanism has bounded
   range (Dong, Durfee, Rogers 2020).
3. Half of the budget buys the eigenvalues, the rest is shared equally by the directions.
   The last direction is what remains, and free.
4. The eigenvalues are made monotone, non-negative and bounded in sum by R^2: post-processing.

ExponentialComponents: one direction after the other by the exponential mechanism on the sphere.

Source: Chaudhuri, Sarwate, Sinha 2013 (PPCA, k directions at once) and Kapralov, Talwar 2013 (one
after the other); the sampler and its strength are those of EMCov (`papers/covrev/exponential.py`).

.. math:: u_j \sim \exp\bigl(\tfrac{\epsilon_j}{\Delta}\, u' C_j u\bigr) \text{ on the sphere},
          \qquad C_{j+1} = C_j \text{ compressed to the complement of } u_j, \qquad j \le k

C is the unnormalised sum over rows in the unit ball; Delta = 2 for replace-one and 1 for
add/remove. Proof: docs/proofs/exponential.md.

Differences from the source
---------------------------
1. Each direction is drawn from its law by rejection. Chaudhuri et al. draw all k at once, which is
   k times as strong, by a Gibbs sampler whose distance from the law, and so from privacy, is not
   bounded.
2. Kapralov and Talwar deflate by subtraction. Here rows are projected on the complement: the later
   directions are orthogonal to the earlier ones, and no sensitivity grows.
3. The exponent is epsilon/2 (epsilon under add/remove) and a direction costs epsilon^2/8 in zCDP,
   as in EMCov.
4. A tenth of the budget buys the second moments along the released directions, made
   non-increasing, non-negative and bounded in sum by R^2: post-processing.
5. Where all directions are asked for, the last is what remains: it is not drawn, and its share,
   declared before the number of columns is known, is not spent.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, qr
from scipy.optimize import brentq

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import second_moment
from eigenveil.exact.spectrum import along_with_rest, compressed, eigenvalues
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.additive import GaussianNoise, LaplaceNoise, VectorNoise
from eigenveil.mechanisms.components import NoisyComponents
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.gauss import NoisyMatrix
from eigenveil.mechanisms.rank import possible_eigenvalues
from eigenveil.mechanisms.registry import (
    NOT_AN_OPTION,
    ComponentMechanism,
    CovarianceMechanism,
)
from eigenveil.messages import option
from eigenveil.numerics.random import NoiseSource, normals, uniforms
from eigenveil.papers.covrev.baselines import on_basis
from eigenveil.privacy.cost import ZCDP, Composed, Cost, Pure
from eigenveil.privacy.guarantee import Numerics
from eigenveil.rows.base import RowSource

_BATCH = 32  # proposals at a time


def draw_bingham(
    matrix: NDArray[np.float64], strength: float, source: NoiseSource
) -> NDArray[np.float64]:
    """Draw a unit vector u with density proportional to exp(strength * u' matrix u)."""
    values, vectors = eigh(matrix, driver="evd")
    direction = _draw_in_eigenbasis(strength * (values[-1] - values), source)
    return np.asarray(vectors @ direction)


def _draw_in_eigenbasis(decay: NDArray[np.float64], source: NoiseSource) -> NDArray[np.float64]:
    d = decay.size
    b = _envelope(decay)
    spread = 1 / np.sqrt(1 + 2 * decay / b)
    # The number of rounds depends on the eigenvalues: the running time is not private.
    while True:
        proposals = normals(source, (_BATCH, d)) * spread
        proposals /= np.linalg.norm(proposals, axis=1, keepdims=True)
        log_acceptance = _log_acceptance(proposals**2 @ decay, d, b)
        accepted = np.flatnonzero(np.log(uniforms(source, _BATCH)) < log_acceptance)
        if accepted.size:
            return np.asarray(proposals[accepted[0]])


def _envelope(decay: NDArray[np.float64]) -> float:
    """Return the b with the most acceptances; any b in (0, d] gives the right law."""
    d = decay.size

    def excess(b: float) -> float:
        return float(np.sum(1 / (b + 2 * decay))) - 1

    # The smallest decay is 0: the sum is at least 1 at b = 1, and below 1 at b = d + 1.
    return min(float(d), float(brentq(excess, 1.0, d + 1.0)))


def _log_acceptance(x: NDArray[np.float64], d: int, b: float) -> NDArray[np.float64]:
    """-x + d/2 log(1 + 2x/b) - log M, written about its maximum 0."""
    beyond = x - (d - b) / 2
    return np.asarray(d / 2 * np.log1p(2 * beyond / d) - beyond)


@dataclass(frozen=True, slots=True, kw_only=True)
class BinghamDirection:
    """A direction of large second moment. Fields are public, never data."""

    name: ClassVar[str] = "direction"
    exact: ClassVar[bool] = False
    epsilon: float
    concentrated: bool  # accounted in zCDP

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return ZCDP(self.epsilon**2 / 8) if self.concentrated else Pure(self.epsilon)

    def perturb(self, query: Bounded, noise: NoiseSource) -> NDArray[np.float64]:
        """Draw a unit vector."""
        strength = self.epsilon / query.sensitivity("nuclear")
        return draw_bingham(query.value.to_float(), strength, noise)


def draw_directions(
    moment: Bounded, step: BinghamDirection, count: int, gate: Gate
) -> NDArray[np.float64]:
    """Orthonormal columns, each drawn in the complement of those before it.

    Where they are all of a basis, the last is what remains, and free.
    """
    d = len(moment.value.units)
    basis = np.eye(d)
    directions = np.empty((d, count))
    for i in range(min(count, d - 1)):
        chosen = gate.draw(step, compressed(moment, basis))
        # The first column of a full QR is the direction, up to sign; the others complete it.
        rotation, _ = qr(chosen[:, None])
        directions[:, i] = basis @ rotation[:, 0]
        basis = basis @ rotation[:, 1:]
    if count == d:
        directions[:, -1] = basis[:, 0]
    return directions


@dataclass(frozen=True, kw_only=True)
class Exponential(CovarianceMechanism):
    """Noisy eigenvalues on eigenvectors drawn from the sphere."""

    name = "exponential"
    about = "eigenvectors drawn from the sphere"
    source = "Amin et al. 2019, EMCov"
    numerics = Numerics.IDEALISED
    may_coincide = True
    slow = True
    semidefinite = True
    has_pure = True
    n_columns: int = field(default=0, repr=False, metadata=NOT_AN_OPTION)

    @property
    def steps(self) -> tuple[VectorNoise, BinghamDirection]:
        """The eigenvalues, which half of rho or epsilon buys, and a direction."""
        d = self.n_columns
        if isinstance(self.strength, Pure):
            epsilon, each = self.epsilon, self.epsilon / (2 * max(1, d - 1))
            values = LaplaceNoise(epsilon=epsilon / 2 if d > 1 else epsilon)
            return values, BinghamDirection(epsilon=each, concentrated=False)
        mu = self.mu
        each = mu * math.sqrt(2 / max(1, d - 1))  # (d - 1) epsilon^2/8 = rho/2
        noise = GaussianNoise(mu=mu * math.sqrt(0.5) if d > 1 else mu)
        return noise, BinghamDirection(epsilon=each, concentrated=True)

    def cost(self) -> Cost:
        """Return the eigenvalues and all directions but the last."""
        values, direction = self.steps
        return Composed((values.cost(), *(direction.cost(),) * (self.n_columns - 1)))

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyMatrix:
        """Return the second moment in the caller's units."""
        moment = second_moment(source, clip, gate.adjacency)
        noise, direction = self.steps
        values = gate.draw(noise, eigenvalues(moment))
        count = min(self.n_columns, source.n_columns)  # some may have been left out
        directions = draw_directions(moment, direction, count, gate)
        return on_basis(directions[:, ::-1], values, moment.trace_bound)


VALUE_SHARE = 0.1  # of a pure epsilon, or of rho


class ExponentialComponents(ComponentMechanism):
    """Directions drawn one after the other from the sphere."""

    name = "exponential"
    about = "one direction after the other, on the sphere"
    source = "Chaudhuri et al. 2013; Kapralov, Talwar 2013"
    numerics = Numerics.IDEALISED
    pays_per_component = True
    may_coincide = True
    slow = True
    has_pure = True

    @property
    def steps(self) -> tuple[BinghamDirection, VectorNoise]:
        """A direction, and the second moments along all of them."""
        k, share = self.n_components, VALUE_SHARE
        if isinstance(self.strength, Pure):
            direction = BinghamDirection(epsilon=(1 - share) * self.epsilon / k, concentrated=False)
            return direction, LaplaceNoise(epsilon=share * self.epsilon)
        epsilon = 2 * self.mu * math.sqrt((1 - share) / k)  # k epsilon^2/8 = 0.9 rho
        direction = BinghamDirection(epsilon=epsilon, concentrated=True)
        return direction, GaussianNoise(mu=self.mu * math.sqrt(share))

    def cost(self) -> Cost:
        """Return all directions and their second moments."""
        direction, values = self.steps
        return Composed((*(direction.cost(),) * self.n_components, values.cost()))

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyComponents:
        """Return components in the order they were drawn, second moments in the caller's units."""
        if not 1 <= self.n_components <= clip.width(source.n_columns):
            raise InvalidParameterError(
                option("n_components"), " must be between 1 and the number of columns"
            )
        moment = second_moment(source, clip, gate.adjacency)
        direction, noise = self.steps
        directions = draw_directions(moment, direction, self.n_components, gate)
        noisy = gate.draw(noise, along_with_rest(moment, directions.T))
        values = possible_eigenvalues(noisy.values[:-1], moment.trace_bound)
        trace = min(moment.trace_bound, float(values.sum()) + max(0.0, float(noisy.values[-1])))
        return NoisyComponents(
            components=np.ascontiguousarray(directions.T),
            eigenvalues=values,
            trace=trace,
            noise_scale=noisy.deviation,
            law=None,
            reliability=self._reliability(moment, values, trace),
        )

    def _reliability(
        self, moment: Bounded, values: NDArray[np.float64], trace: float
    ) -> NDArray[np.float64]:
        """Return the expected squared cosines: each other direction takes 1/(2 c gap) of a draw."""
        others = len(moment.value.units) - values.size
        if others == 0:
            return np.ones(values.size)
        level = max(0.0, (trace - float(values.sum())) / others)
        gap = np.maximum(values - level, 0.0) / moment.unit
        strength = self.steps[0].epsilon / moment.sensitivity("nuclear")
        with np.errstate(divide="ignore"):
            return np.asarray(np.maximum(0.0, 1 - others / (2 * strength * gap)))
