r"""WishartCov: two-sided Wishart noise on a second-moment matrix, pure epsilon.

The matrix form of "a Laplace variable is the difference of two exponential ones"; new here. The
one-sided Wishart mechanism of the literature adds W alone and is not private: its support moves
with the data.

.. math:: \hat S = S + W_1 - W_2, \quad W_i \text{ independent with density} \propto
          e^{-c \operatorname{tr} W} \text{ on } W \succeq 0, \quad c = \epsilon / \Delta_*

Delta is the nuclear-norm sensitivity, 2 R^2/n for replace-one; under add/remove S is the
unnormalised sum and Delta = R^2. The Frobenius error is about sqrt(2) d^{3/2}/(n epsilon), where
LapCov has d^2/(n epsilon). The noise is rotation-invariant with a known law, so its eigenvalues are
cleaned as in `cleaned`, with the R-transform of this law: post-processing. The result is positive
semi-definite. Proof: docs/proofs/wishart.md.

The noise is sampled in floating point: idealised numerics.
"""

from dataclasses import dataclass
from typing import ClassVar

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import Clip
from eigenveil.exact.symmetric import WishartLaw, two_sided_wishart
from eigenveil.mechanisms.gate import Gate, MomentMechanism
from eigenveil.mechanisms.gauss import NoisyMatrix
from eigenveil.mechanisms.registry import CovarianceMechanism
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.calibrate import noise_scale
from eigenveil.privacy.cost import Cost, Pure
from eigenveil.privacy.guarantee import Numerics
from eigenveil.rows.base import RowSource


@dataclass(frozen=True, slots=True, kw_only=True)
class WishartCov(MomentMechanism[NoisyMatrix]):
    """Add two-sided Wishart noise, then clean. Fields are public, never data."""

    name: ClassVar[str] = "wishart"
    exact: ClassVar[bool] = False
    epsilon: float
    clean: bool = True

    def cost(self) -> Cost:
        """Cost of one `perturb`: the cleaning is post-processing."""
        return Pure(self.epsilon)

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyMatrix:
        """Return the second moment in the caller's units."""
        d = len(query.value.units)
        c = 1 / noise_scale(query.sensitivity("nuclear"), self.epsilon)
        matrix = query.value.to_float() + two_sided_wishart(d, c, noise)
        law = WishartLaw(d, c / query.unit)
        noisy = NoisyMatrix(matrix * query.unit, law.deviation, law)
        if not self.clean:
            return noisy
        return noisy.cleaned(trace_bound=query.trace_bound, spike=query.centre_error)


class Wishart(CovarianceMechanism):
    """Two-sided Wishart noise, cleaned, for a pure epsilon."""

    name = "wishart"
    about = "two-sided Wishart noise"
    source = "two-sided Wishart noise, cleaned; new here"
    has_gaussian = False
    has_pure = True
    tightens = True
    auto = "for epsilon alone and few rows within bounds"
    numerics = Numerics.IDEALISED
    semidefinite = True
    lifts = True

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyMatrix:
        """Draw once on the second moment of the rows."""
        return WishartCov(epsilon=self.epsilon).run(source, clip, gate)
