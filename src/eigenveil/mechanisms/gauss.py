r"""GaussCov: isotropic Gaussian noise on a second-moment matrix.

Source: Dong, Liang, Yi 2022 [CovRev], mechanism GaussCov; the noise is that of Dwork, Talwar,
Thakurta, Zhang 2014.

.. math:: \hat S = S + E, \quad E_{ii} \sim N(0, s^2), \; E_{ij} \sim N(0, s^2/2),
          \quad s = \Delta / \mu, \quad \Delta = \sqrt2 R^2 / n

for replace-one; under add/remove S is the unnormalised sum and :math:`\Delta = R^2`.
With rho-zCDP, :math:`\mu = \sqrt{2\rho}`, so s = R^2/(n sqrt(rho)).

Differences from the source
---------------------------
1. Off-diagonal variance is s^2/2, not s^2. The sensitivity is a Frobenius norm and
   (E_ii, sqrt(2) E_ij) is an isometry, so the cost is the same and the error smaller by
   nearly sqrt(2). Proof: docs/proofs/gauss.md.
2. The noise is calibrated by the exact Gaussian curve for (epsilon, delta).
3. S is an exact sum of rounded rows and the noise an exactly rounded ideal Gaussian.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import Clip
from eigenveil.exact.symmetric import GaussianLaw, add_symmetric_gaussian
from eigenveil.mechanisms.gate import Gate, MomentMechanism
from eigenveil.mechanisms.registry import CovarianceMechanism
from eigenveil.numerics.cleaning import clean_eigenvalues
from eigenveil.numerics.noise_law import NoiseLaw
from eigenveil.numerics.random import NoiseSource
from eigenveil.numerics.spectral import map_eigenvalues
from eigenveil.privacy.calibrate import noise_scale
from eigenveil.privacy.cost import Cost, Gaussian
from eigenveil.rows.base import RowSource

if TYPE_CHECKING:
    from eigenveil.mechanisms.fourth_moments import RowSpread
    from eigenveil.numerics.pair_shares import PairShares


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMatrix:
    """A released symmetric matrix, and public facts about its noise.

    Attributes
    ----------
    matrix : array
        What the mechanism made of the noisy matrix.
    noise_scale : float
        Standard deviation of the noise on a diagonal entry, before any post-processing.
    law : NoiseLaw or None
        A law whose eigenvalues end where those of the noise do, in the caller's units; None where
        there is no noise.
    noisy_eigenvalues : array, optional
        The ascending eigenvalues, where the mechanism changed them.
    row_norm : float, optional
        The bound on rows, where the mechanism chose it privately.
    clearness : array, optional
        By how many deviations of the noise each variance stands out, where the mechanism says so.
    unbiased : array, optional
        The matrix before post-processing, where that changed it: its noise has the stated law.
    spread : RowSpread, optional
        Fourth moments of the rows behind the matrix, and the share of rows that limits changed.
    entry_noise : array, optional
        Standard deviation of the noise on every entry, where missing cells make them differ.
    pairs : array, optional
        Share of the rows with both cells of an entry, where it was divided by that.
    variances : array, optional
        What to divide columns by to standardise them, where noise hides some of the diagonal.

    """

    matrix: NDArray[np.float64]
    noise_scale: float
    law: NoiseLaw | None
    noisy_eigenvalues: NDArray[np.float64] | None = None
    row_norm: float | None = None
    clearness: NDArray[np.float64] | None = None
    unbiased: NDArray[np.float64] | None = None
    spread: "RowSpread | None" = None
    entry_noise: NDArray[np.float64] | None = None
    pairs: NDArray[np.float64] | None = None
    variances: NDArray[np.float64] | None = None

    def scaled(self, factor: float) -> "NoisyMatrix":
        """Return the same in other units: entries are multiplied."""
        values, spread = self.noisy_eigenvalues, self.spread
        return replace(
            self,
            matrix=self.matrix * factor,
            noise_scale=self.noise_scale * factor,
            law=None if self.law is None else self.law.scaled(factor),
            noisy_eigenvalues=None if values is None else values * factor,
            unbiased=None if self.unbiased is None else self.unbiased * factor,
            spread=None if spread is None else replace(spread, fourth=spread.fourth * factor**2),
        )

    def pooled(self, other: "NoisyMatrix") -> "NoisyMatrix":
        """Return the average of two draws on one matrix, weighted by their precisions."""
        first, second = self.noise_scale**-2, other.noise_scale**-2
        scale = (first + second) ** -0.5
        matrix = (first * self.matrix + second * other.matrix) * scale**2
        return NoisyMatrix(matrix, scale, GaussianLaw(len(matrix), scale))

    def with_eigenvalues(
        self, change: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    ) -> "NoisyMatrix":
        """Return the same eigenvectors with changed (ascending) eigenvalues: post-processing."""
        matrix, values = map_eigenvalues(self.matrix, change)
        unbiased = self.matrix if self.unbiased is None else self.unbiased
        return replace(self, matrix=matrix, noisy_eigenvalues=values, unbiased=unbiased)

    def allowing_for(self, present: "PairShares | None") -> "NoisyMatrix":
        """Return the same for rows without missing cells, from shares of present ones.

        Each entry is a sum over rows that hold both cells: see `present`. Noise grows with what is
        missing, and the errors of the shares add to it.
        """
        if present is None:
            return self
        shares = present.shares
        matrix = self.matrix / shares
        noise = np.full(matrix.shape, self.noise_scale / math.sqrt(2))
        np.fill_diagonal(noise, self.noise_scale)
        noise = np.hypot(noise, matrix * present.noise) / shares
        unbiased = None if self.unbiased is None else self.unbiased / shares
        values, spread = self.noisy_eigenvalues, self.spread
        if values is not None:
            values = np.asarray(np.linalg.eigvalsh(matrix if unbiased is None else unbiased))
        # Its spectrum ends no farther out than that of noise with the largest row everywhere.
        more = math.sqrt(float(np.max(np.mean(shares**-2.0, axis=0))))
        return replace(
            self,
            matrix=matrix,
            noise_scale=self.noise_scale * more,
            law=None if self.law is None else self.law.scaled(more),
            noisy_eigenvalues=values,
            unbiased=unbiased,
            spread=None if spread is None else replace(spread, fourth=spread.fourth / shares**2),
            entry_noise=noise,
            pairs=shares,
            variances=None if self.variances is None else self.variances / shares.diagonal(),
        )

    def cleaned(self, *, trace_bound: float, spike: float) -> "NoisyMatrix":
        """Return what remains once the known law of the noise is taken off: post-processing."""
        law = self.law
        assert law is not None  # only a noisy matrix is cleaned
        return self.with_eigenvalues(
            lambda values: clean_eigenvalues(values, law, trace_bound=trace_bound, spike=spike)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussCov(MomentMechanism["NoisyMatrix"]):
    """Add Frobenius-isotropic Gaussian noise. Fields are public, never data."""

    name: ClassVar[str] = "gauss"
    exact: ClassVar[bool] = True
    mu: float

    def cost(self) -> Cost:
        """Cost of one `perturb`."""
        return Gaussian(self.mu)

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyMatrix:
        """Return the noisy second moment in the caller's units."""
        scale = noise_scale(query.sensitivity("frobenius"), self.mu)
        noisy = add_symmetric_gaussian(query.value, scale, noise)
        law = GaussianLaw(len(noisy.units), scale * query.unit)
        return NoisyMatrix(noisy.to_float() * query.unit, law.scale, law)


class Gauss(CovarianceMechanism):
    """A second moment with Gaussian noise as it is."""

    name = "gauss"
    about = "Gaussian noise as it is; unbiased"
    source = "Dong, Liang, Yi 2022, GaussCov"
    gaussian_noise = True

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyMatrix:
        """Draw once on the second moment of the rows."""
        return GaussCov(mu=self.mu).run(source, clip, gate)
