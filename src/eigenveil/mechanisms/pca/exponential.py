r"""ExponentialPCA: one direction after the other by the exponential mechanism on the sphere.

Source: Chaudhuri, Sarwate, Sinha 2013 (PPCA, k directions at once) and Kapralov, Talwar 2013 (one
after the other); the sampler and its strength are those of EMCov (`covariance/exponential.py`).

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
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import second_moment
from eigenveil.exact.spectrum import along_with_rest
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.additive import GaussianNoise, LaplaceNoise, VectorNoise
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.covariance.exponential import BinghamDirection, draw_directions
from eigenveil.mechanisms.pca.components import NoisyComponents
from eigenveil.mechanisms.registry import ComponentEntry, Terms
from eigenveil.mechanisms.scalars.leading import possible_eigenvalues
from eigenveil.privacy.cost import Composed, Cost
from eigenveil.privacy.guarantee import Numerics
from eigenveil.rows.base import RowSource
from eigenveil.wording import option

__all__ = ["ENTRY", "VALUE_SHARE", "Exponential", "ExponentialPCA"]

VALUE_SHARE = 0.1  # of a pure epsilon, or of rho


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialPCA:
    """Directions drawn one by one, then their second moments. Fields are public, never data."""

    name: ClassVar[str] = "exponential"
    direction: BinghamDirection
    values: VectorNoise
    n_components: int

    @classmethod
    def pure(cls, epsilon: float, k: int) -> Self:
        """Build the mechanism for a pure epsilon."""
        return cls(
            direction=BinghamDirection(epsilon=(1 - VALUE_SHARE) * epsilon / k, concentrated=False),
            values=LaplaceNoise(epsilon=VALUE_SHARE * epsilon),
            n_components=k,
        )

    @classmethod
    def concentrated(cls, mu: float, k: int) -> Self:
        """Build the mechanism for zCDP, rho = mu^2/2."""
        epsilon = 2 * mu * math.sqrt((1 - VALUE_SHARE) / k)  # k epsilon^2/8 = 0.9 rho
        return cls(
            direction=BinghamDirection(epsilon=epsilon, concentrated=True),
            values=GaussianNoise(mu=mu * math.sqrt(VALUE_SHARE)),
            n_components=k,
        )

    def cost(self) -> Cost:
        """Return all directions and their second moments."""
        directions = (self.direction.cost(),) * self.n_components
        return Composed((*directions, self.values.cost()))

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyComponents:
        """Return components in the order they were drawn, second moments in the caller's units."""
        if not 1 <= self.n_components <= clip.width(source.n_columns):
            raise InvalidParameterError(
                option("n_components"), " must be between 1 and the number of columns"
            )
        moment = second_moment(source, clip, gate.adjacency)
        directions = draw_directions(moment, self.direction, self.n_components, gate)
        noisy = gate.draw(self.values, along_with_rest(moment, directions.T))
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
        strength = self.direction.epsilon / moment.sensitivity("nuclear")
        with np.errstate(divide="ignore"):
            return np.asarray(np.maximum(0.0, 1 - others / (2 * strength * gap)))


class Exponential(ComponentEntry):
    """Directions drawn one after the other from the sphere."""

    name = "exponential"
    about = "one direction after the other, on the sphere"
    source = "Chaudhuri et al. 2013; Kapralov, Talwar 2013"
    numerics = Numerics.IDEALISED
    pays_per_component = True
    may_coincide = True
    slow = True

    def gaussian(self, mu: float, terms: Terms) -> ExponentialPCA:
        """Build the version for zCDP, rho = mu^2/2."""
        return ExponentialPCA.concentrated(mu, terms.n_components)

    def pure(self, epsilon: float, terms: Terms) -> ExponentialPCA:
        """Build the mechanism at a strength epsilon."""
        return ExponentialPCA.pure(epsilon, terms.n_components)


ENTRY = Exponential()
