r"""Simple covariances of the paper: LapCov, SeparateCov, ProjectedCov and ZeroCov; and LaplacePCA.

LapCov: Laplace noise on the upper triangle of a second-moment matrix.

Source: Dong, Liang, Yi 2022 [CovRev], Appendix I, mechanism LapCov.

.. math:: \hat S_{ij} = S_{ij} + \mathrm{Lap}(\Delta_1/\epsilon), \; i \le j, \qquad
          \Delta_1 = \min\bigl(d + 1, \sqrt{(d^2 + 3d)/2}\bigr) R^2/n

for replace-one; under add/remove S is the unnormalised sum and :math:`\Delta_1 = (d+1)R^2/2`.

Differences from the source
---------------------------
1. Lemma 12 prints sqrt(2d)/n for the l1 sensitivity, which is too small: at d = 2 there are unit
   rows whose upper triangles differ by sqrt(5). The bound used is that of the upper triangle.
   Proof: docs/proofs/laplace.md.
2. S is an exact sum of rounded rows and the noise an exactly rounded ideal Laplace.

SeparateCov: eigenvalues and eigenvectors released apart, half of the budget each.

Source: Dong, Liang, Yi 2022 [CovRev], Algorithm 1; Appendix I for pure epsilon.

.. math:: \hat S = \hat P \hat\Lambda \hat P', \quad \hat\Lambda = \Lambda(S) + \text{noise},
          \quad \hat P = \text{eigenvectors of } S + E

The eigenvalues move by at most sqrt(2)/n in l2 and 2/n in l1 norm, whatever d is, so they get far
less noise than the matrix. Gaussian noise throughout for mu, Laplace noise (LapCov) for a pure
epsilon. Proof: docs/proofs/separate.md.

Differences from the source
---------------------------
1. E is the noise of our GaussCov or LapCov: isotropic, or with a correct l1 sensitivity.
2. The noisy eigenvalues are made monotone again, non-negative and bounded in sum by R^2, as
   eigenvalues of S are: post-processing.

Projection: GaussCov, projected on the matrices a second moment can be.

Source: Dong, Liang, Yi 2022 [CovRev], Appendix E: the projection mechanism of Nikolov, Talwar,
Zhang 2013, applied to covariances.

.. math:: \hat S = \arg\min \{ \|M - (S + E)\|_F : M \succeq 0,\; \operatorname{tr} M \le R^2 \}

One eigendecomposition; the eigenvalues are projected on {>= 0, sum <= R^2}. Where the number of
rows is private there is no bound on the trace, and only the sign is projected.

Differences from the source
---------------------------
1. The noise is that of our GaussCov: isotropic, exactly calibrated, exactly sampled.

The zero matrix: what any covariance mechanism must beat.

.. math:: \hat S = 0

It releases nothing and costs nothing; its error is the Frobenius norm of S. Where noise drowns the
data it is the best there is. Source: the baseline of Dong, Liang, Yi 2022 [CovRev], section 6.

LaplaceComponents: the leading eigenvectors of LapCov, a baseline at pure epsilon.

.. math:: \hat V = \text{top-}k\,(S + E), \quad E \text{ as in LapCov}

The noise is not isotropic and has the norm of d^2/(n epsilon) where that of `WishartComponents` has
d^{3/2}/(n epsilon). Proof: docs/proofs/laplace.md.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import second_moment
from eigenveil.exact.lattice import LAPLACE
from eigenveil.exact.spectrum import eigenvalues
from eigenveil.exact.symmetric import GaussianLaw, add_symmetric
from eigenveil.mechanisms.additive import GaussianNoise, LaplaceNoise, NoisyVector, VectorNoise
from eigenveil.mechanisms.components import NoisyComponents, leading
from eigenveil.mechanisms.gate import Gate, MomentMechanism, Step
from eigenveil.mechanisms.gauss import GaussCov, NoisyMatrix
from eigenveil.mechanisms.registry import ComponentMechanism, CovarianceMechanism
from eigenveil.numerics.random import NoiseSource
from eigenveil.numerics.spectral import project_to_simplex
from eigenveil.privacy.accounting import compose, split
from eigenveil.privacy.calibrate import noise_scale
from eigenveil.privacy.cost import Composed, Cost, Pure
from eigenveil.privacy.guarantee import Numerics
from eigenveil.rows.base import RowSource


@dataclass(frozen=True, slots=True, kw_only=True)
class LapCov(MomentMechanism[NoisyMatrix]):
    """Add Laplace noise to the upper triangle. Fields are public, never data."""

    proof: ClassVar[str] = "laplace"
    name: ClassVar[str] = "laplace"
    exact: ClassVar[bool] = True
    epsilon: float

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return Pure(self.epsilon)

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyMatrix:
        """Return the noisy second moment in the caller's units."""
        scale = noise_scale(query.sensitivity("l1"), self.epsilon)
        noisy = add_symmetric(query.value, scale, scale, noise, law=LAPLACE)
        deviation = math.sqrt(2) * scale * query.unit
        # Off the diagonal it is as large as on it: isotropic noise would be sqrt(2) smaller there.
        law = GaussianLaw(len(noisy.units), math.sqrt(2) * deviation)
        return NoisyMatrix(noisy.to_float() * query.unit, deviation, law)


class Laplace(CovarianceMechanism):
    """A second moment with Laplace noise; a baseline."""

    proof: ClassVar[str] = "laplace"
    name = "laplace"
    about = "a baseline with Laplace noise"
    source = "Dong, Liang, Yi 2022, LapCov"
    has_gaussian = False
    has_pure = True

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyMatrix:
        """Draw once on the second moment of the rows."""
        return LapCov(epsilon=self.epsilon).run(source, clip, gate)


class Separate(CovarianceMechanism):
    """Noisy eigenvalues on the eigenvectors of a noisy matrix."""

    proof: ClassVar[str] = "separate"
    name = "separate"
    about = "eigenvalues and eigenvectors apart"
    source = "Dong, Liang, Yi 2022, SeparateCov"
    numerics = Numerics.IDEALISED
    may_coincide = True
    semidefinite = True
    has_pure = True

    @property
    def steps(self) -> tuple[Step[NoisyMatrix], VectorNoise]:
        """The matrix of the eigenvectors and the eigenvalues: half of mu^2, or of epsilon, each."""
        if isinstance(self.strength, Pure):
            half = self.epsilon / 2
            return LapCov(epsilon=half), LaplaceNoise(epsilon=half)
        values, vectors = split(self.mu, (0.5, 0.5))
        return GaussCov(mu=vectors), GaussianNoise(mu=values)

    def cost(self) -> Cost:
        """Return the cost of both steps, composed."""
        return compose(*(step.cost() for step in self.steps))

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyMatrix:
        """Return the second moment in the caller's units."""
        moment = second_moment(source, clip, gate.adjacency)
        spectrum = eigenvalues(moment)
        matrix, noise = self.steps
        noisy = gate.draw(matrix, moment)
        values = gate.draw(noise, spectrum)
        _, basis = np.linalg.eigh(noisy.matrix)
        return on_basis(basis, values, moment.trace_bound)


def on_basis(basis: NDArray[np.float64], values: NoisyVector, trace_bound: float) -> NoisyMatrix:
    """Released ascending eigenvalues, made possible ones, on released eigenvectors (columns)."""
    d = values.values.size
    possible = project_to_simplex(isotonic_regression(values.values).x, trace_bound)
    matrix = (basis * possible) @ basis.T
    # Not the law of the noise, but one with the same floor: the largest of d noisy zeros.
    law = GaussianLaw(d, values.largest / GaussianLaw(d, 1.0).floor())
    return NoisyMatrix((matrix + matrix.T) / 2, values.deviation, law)


class Projection(MomentMechanism[NoisyMatrix], CovarianceMechanism):
    """A noisy second moment, projected to what rows within the bound allow."""

    proof: ClassVar[str] = "projection"
    name = "projection"
    about = "projected to what rows within the bound allow"
    source = "Dong, Liang, Yi 2022, Appendix E"
    semidefinite = True
    exact: ClassVar[bool] = True

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyMatrix:
        """Return the projected second moment in the caller's units."""
        noisy = GaussCov(mu=self.mu).perturb(query, noise)
        return noisy.with_eigenvalues(lambda values: project_to_simplex(values, query.trace_bound))


class Zero(MomentMechanism[NoisyMatrix], CovarianceMechanism):
    """The zero matrix, which any other must beat."""

    proof: ClassVar[str] = "zero"
    name = "zero"
    about = "the zero matrix: the baseline to beat"
    source = "the baseline to beat"
    has_pure = True
    may_coincide = True
    semidefinite = True
    exact: ClassVar[bool] = True

    def cost(self) -> Cost:
        """Return no cost."""
        return Composed(())

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyMatrix:
        """Zeros of the right shape."""
        return NoisyMatrix(np.zeros(query.value.units.shape), 0.0, None)


class LaplaceComponents(MomentMechanism[NoisyComponents], ComponentMechanism):
    """Leading directions of a second moment with Laplace noise; a baseline."""

    proof: ClassVar[str] = "laplace"
    name = "laplace"
    about = "a baseline with Laplace noise"
    source = "top of LapCov"
    has_gaussian = False
    has_pure = True
    exact: ClassVar[bool] = True

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyComponents:
        """Return the leading components of the noisy second moment."""
        return leading(LapCov(epsilon=self.epsilon).perturb(query, noise), self.n_components)
