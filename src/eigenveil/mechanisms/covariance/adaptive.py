r"""AdaptiveCov: GaussCov or SeparateCov on rows clipped at a private threshold.

Source: Dong, Liang, Yi 2022 [CovRev], Algorithm 2; Theorem 4 for pure epsilon.

.. math:: \rho/8 \text{ radius} + \rho/8 \text{ trace} + \rho/4 \text{ threshold} +
          \rho/2 \text{ matrix}

and the same shares of a pure epsilon. Proof: docs/proofs/adaptive.md.

Differences from the source
---------------------------
1. The source picks the branch by comparing bounds that are loose by unlike factors, and often
   picks the worse one. Here the matrix budget is spent in two halves. The first buys a noisy
   matrix, as both branches need one. From it both errors are estimated (post-processing), and the
   second half buys either the eigenvalues or the matrix once more, averaged with the first: with
   Gaussian noise exactly GaussCov at the whole.
2. Lemma 7 bounds the operator norm of the noise 2.7 times too high at d = 200, which makes the
   threshold too small; the edge of the spectrum of isotropic noise is used instead.
3. Threshold search, GaussCov, LapCov and SeparateCov differ from the source as their files say.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import moment_sensitivities, second_moment
from eigenveil.exact.spectrum import eigenvalues
from eigenveil.exact.symmetric import GaussianLaw
from eigenveil.mechanisms.additive import GaussianNoise, LaplaceNoise, VectorNoise
from eigenveil.mechanisms.base import Gate, Mechanism
from eigenveil.mechanisms.covariance.gauss import GaussCov, NoisyMatrix
from eigenveil.mechanisms.covariance.laplace import LapCov
from eigenveil.mechanisms.covariance.separate import on_basis
from eigenveil.mechanisms.registry import CovarianceEntry, Terms
from eigenveil.mechanisms.scalars.radius import PrivateRadius
from eigenveil.mechanisms.scalars.sparse_vector import SparseVector
from eigenveil.mechanisms.scalars.threshold import ClippingThreshold, NoiseBound
from eigenveil.mechanisms.scalars.trace import PrivateTrace
from eigenveil.numerics.cleaning import clean_eigenvalues
from eigenveil.numerics.noise_law import NoiseLaw
from eigenveil.numerics.tails import GAUSSIAN_TAILS, LAPLACE_TAILS
from eigenveil.privacy.accounting import compose, rho_of
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.cost import Cost
from eigenveil.privacy.guarantee import Numerics
from eigenveil.rows.base import RowSource

__all__ = ["ENTRY", "Adaptive", "AdaptiveCov"]

SHARES = (1 / 8, 1 / 8, 1 / 4, 1 / 2)  # of rho, or of a pure epsilon
BETA = 0.1  # failure probability of the accuracy bounds behind the threshold
assert sum(SHARES) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveCov:
    """The better of two mechanisms at a private threshold. Fields are public, never data."""

    name: ClassVar[str] = "adaptive"
    threshold: ClippingThreshold
    matrix: Mechanism[NoisyMatrix]  # drawn once or twice
    values: VectorNoise

    @classmethod
    def gaussian(cls, mu: float, d: int) -> Self:
        """Build it for zCDP: rho = mu^2/2, of which a pure step takes epsilon^2/2."""
        radius, trace, search, final = (mu * math.sqrt(share) for share in SHARES)
        half = final * math.sqrt(0.5) * (1 - 2**-40)
        bounds, tails = moment_sensitivities(d, Adjacency.REPLACE_ONE), GAUSSIAN_TAILS
        scale = bounds["frobenius"] / half  # add/remove has less, so its threshold is cautious
        noise = NoiseBound(
            frobenius=scale * math.sqrt(0.5) * tails.frobenius(d, BETA / 2),
            operator=GaussianLaw(d, scale).ceiling,
            values=scale * tails.vector(d, BETA / 4),
        )
        built = cls(
            threshold=_threshold(radius, GaussianNoise(mu=trace), search, noise),
            matrix=GaussCov(mu=half),
            values=GaussianNoise(mu=half),
        )
        assert rho_of(built.cost()) <= mu**2 / 2 * (1 + 1e-12)
        return built

    @classmethod
    def pure(cls, epsilon: float, d: int) -> Self:
        """Build it for a pure epsilon, with Laplace noise throughout."""
        radius, trace, search, final = (epsilon * share for share in SHARES)
        half, tails = final / 2, LAPLACE_TAILS
        scale = moment_sensitivities(d, Adjacency.REPLACE_ONE)["l1"] / half
        noise = NoiseBound(
            frobenius=scale * math.sqrt(0.5) * tails.frobenius(d, BETA / 2),
            operator=scale * tails.operator(d, BETA / 4),
            values=2 / half * tails.vector(d, BETA / 4),
        )
        return cls(
            threshold=_threshold(radius, LaplaceNoise(epsilon=trace), search, noise),
            matrix=LapCov(epsilon=half),
            values=LaplaceNoise(epsilon=half),
        )

    def cost(self) -> Cost:
        """Return the cost of all steps; either way to spend the second half costs the same."""
        return compose(self.threshold.cost(), self.matrix.cost(), self.values.cost())

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyMatrix:
        """Return the second moment in the caller's units; reads the rows three times."""
        tau = self.threshold.run(source, clip, gate)
        moment = second_moment(source, replace(clip, row_norm=tau), gate.adjacency)
        first = gate.draw(self.matrix, moment)
        noisy, basis = np.linalg.eigh(first.matrix)
        assert first.law is not None  # GaussCov and LapCov have one
        averaged = first.law.scaled(math.sqrt(0.5))
        if _separate_error(noisy, first.law, moment.trace_bound) < math.sqrt(averaged.energy):
            values = gate.draw(self.values, eigenvalues(moment))
            released = on_basis(basis, values, moment.trace_bound)
        else:
            second = gate.draw(self.matrix, moment)
            released = replace(
                first,
                matrix=(first.matrix + second.matrix) / 2,
                noise_scale=first.noise_scale * math.sqrt(0.5),
                law=averaged,
            )
        return replace(released, row_norm=tau)


def _threshold(
    radius: float, trace: VectorNoise, search: float, noise: NoiseBound
) -> ClippingThreshold:
    return ClippingThreshold(
        radius=PrivateRadius(epsilon=radius, beta=BETA / 8),
        trace=PrivateTrace(noise=trace, beta=BETA / 8),
        search=SparseVector(epsilon=search),
        noise=noise,
    )


def _separate_error(noisy: NDArray[np.float64], law: NoiseLaw, trace_bound: float) -> float:
    r"""Return the expected error of exact eigenvalues :math:`\lambda` on eigenvectors of the noisy
    matrix.

    Its square is :math:`2\sum \lambda_j(\lambda_j - \xi_j)`, where :math:`\xi_j = v_j' S v_j` is
    what cleaning estimates. Two estimates bracket it: Cauchy-Schwarz with the energy that the noise
    leaves over is low, second-order perturbation, :math:`\lambda = (l + \xi)/2`, is high where the
    noise is large. Their mean is used. Noise on the eigenvalues adds that of a few free values, as
    most become equal again.
    """
    d = noisy.size
    cleaned = clean_eigenvalues(noisy, law, trace_bound=trace_bound)
    energy = math.sqrt(max(0.0, float(noisy @ noisy) - law.energy))
    low = 2 * energy * max(0.0, energy - float(np.linalg.norm(cleaned)))
    kept = cleaned > 0
    high = max(0.0, float(np.sum((noisy[kept] ** 2 - cleaned[kept] ** 2) / 2)))
    free = min(d, 3 * d ** (1 / 3)) * law.deviation**2
    return (math.sqrt(low + free) + math.sqrt(high + free)) / 2


class Adaptive(CovarianceEntry):
    """`gauss` or `separate`, at a threshold found privately."""

    name = "adaptive"
    about = "gauss or separate, at a threshold found privately"
    source = "Dong, Liang, Yi 2022, AdaptiveCov"
    numerics = Numerics.IDEALISED  # in one branch
    reads_once = False
    may_coincide = True

    def gaussian(self, mu: float, terms: Terms) -> AdaptiveCov:
        """Build the mechanism at a strength mu."""
        return AdaptiveCov.gaussian(mu, terms.n_columns)

    def pure(self, epsilon: float, terms: Terms) -> AdaptiveCov:
        """Build the mechanism at a strength epsilon."""
        return AdaptiveCov.pure(epsilon, terms.n_columns)


ENTRY = Adaptive()
