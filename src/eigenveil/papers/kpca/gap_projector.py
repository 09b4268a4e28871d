r"""GapProjectorPCA: noise on the spectral projector, by a private eigengap.

Private eigengap, and a bound below it that fails with known probability.

`PrivateGap`.

Source: Dwork, Talwar, Thakurta, Zhang 2014, Algorithm 2, line 2.

.. math:: \hat g = \lambda_k - \lambda_{k+1} + \text{noise}, \qquad
          g_{\text{low}} = \hat g - q_{1-\beta}, \qquad \Delta = 2 R^2/n

for replace-one; R^2 on sums under add/remove. The noise is Gaussian or Laplace and q its quantile,
so that the gap is at least g_low but with probability beta. Proof: docs/proofs/gap.md.

Differences from the source
---------------------------
1. The margin is the exact quantile of the noise, not a tail bound.
2. Under add/remove the sensitivity is R^2, where the source uses twice that.

GapProjector: noise on the spectral projector, as much as a private eigengap asks for.

Source: Dwork, Talwar, Thakurta, Zhang 2014, Algorithm 2; DP-Gauss-2 in Düngler, Sanyal [kPCA].
By propose-test-release (Dwork, Lei 2009), on sums over rows in the unit ball:

1. a private gap :math:`\hat g = \lambda_k - \lambda_{k+1} + \text{noise}`, and :math:`g = \hat g
   - q_{1-\delta'}` below the true one but with probability delta' (`papers/kpca/gap_projector.py`);
2. if g is too small: refuse;
3. the top-k eigenvectors V of :math:`P_k(S) + E`, E isotropic Gaussian for the sensitivity

   .. math:: \Delta(g) = \sqrt{1 - \sqrt{1 - (c/g)^2}} \approx c/(\sqrt2 g),
             \qquad c = 2 \text{ for replace-one}, 1 \text{ for add/remove};

4. :math:`V'SV` and what is left of the trace + isotropic Gaussian noise; the eigenvectors order
   the directions inside V.

The guarantee is (epsilon, delta): delta' is part of delta. Proof: docs/proofs/gap_projector.md.

Differences from the source
---------------------------
1. A gap that is too small ends the release with `GapTooSmallError`; [kPCA] resamples, which is
   not private. The budget is spent.
2. Too small is a gap within what one row can move, or one whose noise drowns the projector: every
   eigenvector of E + P is then noise.
3. The constant of the sensitivity is the best possible, by a sin 2-theta argument; the source's
   is at least :math:`1/(g - 2 - \dots)`.
4. Line 4 is new: a projector says nothing about single directions or their eigenvalues.
5. Isotropic noise, calibrated by the exact Gaussian curve.
"""

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import second_moment
from eigenveil.exact.lattice import grid_exponent
from eigenveil.exact.spectrum import (
    compressed_with_rest,
    eigengap,
    gap_sensitivity,
    projector,
    projector_sensitivity,
)
from eigenveil.exact.symmetric import GaussianLaw
from eigenveil.exceptions import GapTooSmallError, InvalidParameterError
from eigenveil.mechanisms.additive import GaussianNoise, VectorNoise
from eigenveil.mechanisms.components import NoisyComponents
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.gauss import GaussCov
from eigenveil.mechanisms.registry import NOT_AN_OPTION, BuildContext, ComponentMechanism
from eigenveil.messages import option
from eigenveil.numerics.random import NoiseSource
from eigenveil.numerics.spectral import top_eigenpairs
from eigenveil.privacy.accounting import compose, split
from eigenveil.privacy.calibrate import noise_scale
from eigenveil.privacy.cost import Allotment, Approx, Composed, Cost, Gaussian
from eigenveil.privacy.guarantee import Numerics
from eigenveil.rows.base import RowSource

if TYPE_CHECKING:
    from eigenveil.planning.request import Request


@dataclass(frozen=True, slots=True)
class NoisyGap:
    """A released gap, not below zero, and public facts about its noise."""

    value: float
    lower: float  # at most the gap, but with probability beta
    deviation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateGap:
    """Add noise to an eigengap. Fields are public, never data."""

    proof: ClassVar[str] = "gap"
    name: ClassVar[str] = "gap"
    exact: ClassVar[bool] = True
    noise: VectorNoise
    beta: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < self.beta < 0.5:
            raise InvalidParameterError("beta must lie between 0 and 1/2, both excluded")

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return self.noise.cost()

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyGap:
        """Return the noisy gap in the caller's units; ``query`` comes from `eigengap`."""
        noisy = self.noise.perturb(query, noise)
        value, deviation = float(noisy.values[0]), noisy.deviation
        # Half a grid step covers the rounding of the noise, the other half that of the floats.
        step = math.ldexp(1.0, grid_exponent(deviation / query.unit, query.value.exponent))
        lower = value - self.noise.quantile(self.beta) * deviation - step * query.unit
        return NoisyGap(max(0.0, value), max(0.0, lower), deviation)


_SHARES = (0.1, 0.8, 0.1)  # of mu^2, for the gap, the projector and the order of directions
_TEST_SHARE = 0.1  # of delta, for a gap below its bound


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectorStep:
    """Top eigenvectors of a noisy projector. Fields are public, never data.

    ``delta`` is the probability that the gap behind the query's sensitivity is wrong.
    """

    name: ClassVar[str] = "projector"
    exact: ClassVar[bool] = True
    mu: float
    delta: float
    n_components: int

    def cost(self) -> Cost:
        """Cost of one `perturb`, the failure of the gap's bound included."""
        return Composed((Gaussian(self.mu), Approx(0.0, self.delta)))

    def reliability(self, query: Bounded) -> float:
        """Return the squared cosine that the noise leaves to an eigenvalue of 1; zero where it is
        hidden.
        """
        scale = noise_scale(query.sensitivity("frobenius"), self.mu)
        return GaussianLaw(len(query.value.units), scale).overlap(1.0)

    def perturb(self, query: Bounded, noise: NoiseSource) -> NDArray[np.float64]:
        """Orthonormal rows; ``query`` comes from `projector`."""
        noisy = GaussCov(mu=self.mu).perturb(query, noise)
        return top_eigenpairs(noisy.matrix, self.n_components)[1]


@dataclass(frozen=True, kw_only=True)
class GapProjector(ComponentMechanism):
    """Noise on the spectral projector, as much as a private eigengap asks for."""

    name = "gap-projector"
    about = "noise on the projector if a gap is found"
    source = "Dwork et al. 2014, Algorithm 2 (DP-Gauss-2), by propose-test-release"
    numerics = Numerics.IDEALISED
    needs_delta = True
    pays_per_component = True
    needs_gap = True
    may_coincide = True
    delta: float = field(default=0.0, repr=False, metadata=NOT_AN_OPTION)

    def at(self, strength: Allotment, context: BuildContext) -> Self:
        """Return the mechanism that runs at a strength, which leaves a part of the delta."""
        delta = context.delta(self.name, "analyze-gauss")
        return replace(super().at(strength, context), delta=delta)

    def check(self, request: "Request") -> None:
        """Refuse as many components as columns, and columns that are not known beforehand."""
        if request.private_scale:
            raise InvalidParameterError(
                "'gap-projector' needs to know its columns beforehand: give the scales"
            )
        if request.wanted_components() == request.n_columns:
            raise InvalidParameterError(
                "a gap needs fewer components than columns: state ", option("n_components")
            )

    @property
    def gap(self) -> PrivateGap:
        """The gap, the bound on which a tenth of ``delta`` pays for."""
        noise = GaussianNoise(mu=split(self.mu, _SHARES)[0])
        return PrivateGap(noise=noise, beta=_TEST_SHARE * self.delta)

    @property
    def projector(self) -> ProjectorStep:
        """The directions, which may fail as often as the bound on the gap does."""
        mu, failure = split(self.mu, _SHARES)[1], _TEST_SHARE * self.delta
        return ProjectorStep(mu=mu, delta=failure, n_components=self.n_components)

    @property
    def values(self) -> GaussCov:
        """The order of directions."""
        return GaussCov(mu=split(self.mu, _SHARES)[2])

    def cost(self) -> Cost:
        """Return the cost of all three steps, composed."""
        return compose(self.gap.cost(), self.projector.cost(), self.values.cost())

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyComponents:
        """Return the leading components of the second moment, or a refusal."""
        k = self.n_components
        moment = second_moment(source, clip, gate.adjacency)
        gap = gate.draw(self.gap, eigengap(moment, k))
        lower = gap.lower / moment.unit * (1 - 2.0**-50)  # in units of the ball, rounded down
        if lower <= gap_sensitivity(gate.adjacency):
            raise _too_small()
        query = projector(moment, k, projector_sensitivity(lower, gate.adjacency))
        if self.projector.reliability(query) == 0:
            raise _too_small()
        directions = gate.draw(self.projector, query)
        inside = gate.draw(self.values, compressed_with_rest(moment, directions.T))
        values, rotation = top_eigenpairs(inside.matrix[:k, :k], k)
        rest = max(0.0, float(inside.matrix[k, k]))
        return NoisyComponents(
            components=rotation @ directions,
            eigenvalues=values,
            trace=min(moment.trace_bound, float(np.maximum(values, 0.0).sum()) + rest),
            noise_scale=inside.noise_scale,
            law=None,
            reliability=np.full(k, self.projector.reliability(query)),
        )


def _too_small() -> GapTooSmallError:
    return GapTooSmallError(
        "the private eigengap is too small for a noisy projector, and the budget is spent: try "
        "fewer components, more rows, a larger budget, or ",
        option("mechanism", "analyze-gauss"),
    )
