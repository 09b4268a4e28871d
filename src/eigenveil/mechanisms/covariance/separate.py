r"""SeparateCov: eigenvalues and eigenvectors released apart, half of the budget each.

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
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import second_moment
from eigenveil.exact.spectrum import eigenvalues
from eigenveil.exact.symmetric import GaussianLaw
from eigenveil.mechanisms.additive import (
    GaussianNoise,
    LaplaceNoise,
    NoisyVector,
    VectorNoise,
)
from eigenveil.mechanisms.base import Gate, Mechanism
from eigenveil.mechanisms.covariance.gauss import GaussCov, NoisyMatrix
from eigenveil.mechanisms.covariance.laplace import LapCov
from eigenveil.mechanisms.registry import CovarianceEntry, Terms
from eigenveil.numerics.spectral import project_to_simplex
from eigenveil.privacy.accounting import compose, split
from eigenveil.privacy.cost import Cost
from eigenveil.privacy.guarantee import Numerics
from eigenveil.rows.base import RowSource

__all__ = ["ENTRY", "Separate", "SeparateCov", "on_basis"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeparateCov:
    """Noisy eigenvalues on the eigenvectors of a noisy matrix. Fields are public, never data."""

    name: ClassVar[str] = "separate"
    values: VectorNoise
    vectors: Mechanism[NoisyMatrix]

    @classmethod
    def gaussian(cls, mu: float) -> Self:
        """Build it with Gaussian noise: half of mu^2 each."""
        values, vectors = split(mu, (0.5, 0.5))
        return cls(values=GaussianNoise(mu=values), vectors=GaussCov(mu=vectors))

    @classmethod
    def pure(cls, epsilon: float) -> Self:
        """Build it with Laplace noise: half of epsilon each."""
        return cls(values=LaplaceNoise(epsilon=epsilon / 2), vectors=LapCov(epsilon=epsilon / 2))

    def cost(self) -> Cost:
        """Return the cost of both steps, composed."""
        return compose(self.vectors.cost(), self.values.cost())

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyMatrix:
        """Return the second moment in the caller's units."""
        moment = second_moment(source, clip, gate.adjacency)
        spectrum = eigenvalues(moment)
        noisy = gate.draw(self.vectors, moment)
        values = gate.draw(self.values, spectrum)
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


class Separate(CovarianceEntry):
    """Noisy eigenvalues on the eigenvectors of a noisy matrix."""

    name = "separate"
    about = "eigenvalues and eigenvectors apart"
    source = "Dong, Liang, Yi 2022, SeparateCov"
    numerics = Numerics.IDEALISED
    may_coincide = True
    semidefinite = True

    def gaussian(self, mu: float, terms: Terms) -> SeparateCov:
        """Build the mechanism at a strength mu."""
        return SeparateCov.gaussian(mu)

    def pure(self, epsilon: float, terms: Terms) -> SeparateCov:
        """Build the mechanism at a strength epsilon."""
        return SeparateCov.pure(epsilon)


ENTRY = Separate()
