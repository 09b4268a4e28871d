r"""EMCov: noisy eigenvalues, and one eigenvector after the other by the exponential mechanism.

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
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import second_moment
from eigenveil.exact.spectrum import compressed, eigenvalues
from eigenveil.mechanisms.additive import GaussianNoise, LaplaceNoise, VectorNoise
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.covariance.gauss import NoisyMatrix
from eigenveil.mechanisms.covariance.separate import on_basis
from eigenveil.mechanisms.registry import CovarianceEntry, Terms
from eigenveil.numerics.bingham import draw_bingham
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.cost import ZCDP, Composed, Cost, Pure
from eigenveil.privacy.guarantee import Numerics
from eigenveil.rows.base import RowSource

__all__ = ["ENTRY", "BinghamDirection", "Exponential", "ExponentialCov", "draw_directions"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialCov:
    """Noisy eigenvalues on directions drawn one by one. Fields are public, never data."""

    name: ClassVar[str] = "exponential"
    values: VectorNoise
    direction: BinghamDirection
    n_columns: int

    @classmethod
    def concentrated(cls, mu: float, d: int) -> Self:
        """Build it for zCDP: rho = mu^2/2, half of it for the eigenvalues."""
        epsilon = mu * math.sqrt(2 / max(1, d - 1))  # (d - 1) epsilon^2/8 = rho/2
        return cls(
            values=GaussianNoise(mu=mu * math.sqrt(0.5) if d > 1 else mu),
            direction=BinghamDirection(epsilon=epsilon, concentrated=True),
            n_columns=d,
        )

    @classmethod
    def pure(cls, epsilon: float, d: int) -> Self:
        """Build it for a pure epsilon, half of it for the eigenvalues."""
        each = epsilon / (2 * max(1, d - 1))
        return cls(
            values=LaplaceNoise(epsilon=epsilon / 2 if d > 1 else epsilon),
            direction=BinghamDirection(epsilon=each, concentrated=False),
            n_columns=d,
        )

    def cost(self) -> Cost:
        """Return the eigenvalues and all directions but the last."""
        directions = (self.direction.cost(),) * (self.n_columns - 1)
        return Composed((self.values.cost(), *directions))

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyMatrix:
        """Return the second moment in the caller's units."""
        moment = second_moment(source, clip, gate.adjacency)
        values = gate.draw(self.values, eigenvalues(moment))
        count = min(self.n_columns, source.n_columns)  # some may have been left out
        directions = draw_directions(moment, self.direction, count, gate)
        return on_basis(directions[:, ::-1], values, moment.trace_bound)


class Exponential(CovarianceEntry):
    """Noisy eigenvalues on eigenvectors drawn from the sphere."""

    name = "exponential"
    about = "eigenvectors drawn from the sphere"
    source = "Amin et al. 2019, EMCov"
    numerics = Numerics.IDEALISED
    may_coincide = True
    slow = True
    semidefinite = True

    def gaussian(self, mu: float, terms: Terms) -> ExponentialCov:
        """Build the mechanism at a strength mu."""
        return ExponentialCov.concentrated(mu, terms.n_columns)

    def pure(self, epsilon: float, terms: Terms) -> ExponentialCov:
        """Build the mechanism at a strength epsilon."""
        return ExponentialCov.pure(epsilon, terms.n_columns)


ENTRY = Exponential()
