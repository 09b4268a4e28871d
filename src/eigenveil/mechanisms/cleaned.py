r"""A Gaussian covariance with cleaned eigenvalues, at a stated or a private radius.

`CleanedCov`.

Source: the release is GaussCov (Dong, Liang, Yi 2022); the cleaning is the rotation-invariant
estimator of Bun, Allez, Bouchaud, Potters 2016 for additive Gaussian noise.

.. math:: \hat S = \sum_i \xi_i v_i v_i', \quad (l_i, v_i) \text{ eigenpairs of } S + E,
          \quad \xi_i = l_i - d s^2 \operatorname{Re} g(l_i)

The law of E is public, so the cleaning is post-processing: it costs nothing. The result is
positive semi-definite, and where n is public its trace is at most R^2, as that of S is.

Differences from the source
---------------------------
1. GaussCov's noise is isotropic here, which the cleaning needs.
2. The Stieltjes transform is estimated with a kernel, and a spectrum that cannot be told from
   noise becomes a multiple of the identity: see `numerics/cleaning.py`.

`AdaptiveCleanedCov`, for tables whose stated bound is far above most rows: noise shrinks with the
square of the bound. The idea is that of AdaptiveCov (Dong, Liang, Yi 2022 [CovRev], Algorithm 2);
the search is not.

.. math:: \tau = R\,2^{(1-j)/2}, \quad \text{the first } j \text{ with }
          |\{i : \|x_i\| \ge R\,2^{-j/2}\}| \text{ noticeably above } m, \qquad
          m = \kappa \min\bigl(F, 2\sqrt{nO}\bigr)

F and O are the expected Frobenius and operator norm of the noise for rows in a unit ball. Clipping
at tau changes the second moment by at most |x|^2 for each row beyond it; the noise weighs as much
as m rows of norm tau. The search lowers the bound as long as fewer than m rows mind, and while the
noise still hides what the error of a private centre adds.
Proof: docs/proofs/adaptive_cleaned.md.

Differences from the source
---------------------------
1. Rows are counted, not weighted with their squares, so the search needs no scale of its own: no
   private radius and no private trace.
2. Its steps are sqrt(2); noise stops it early, at a bound that is only too large.
3. The search takes an eighth of rho, not half: its errors are a few rows.
"""

import math
from dataclasses import replace
from typing import ClassVar

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import SMALLEST_NORM, Clip
from eigenveil.exact.gram import count, moment_sensitivities
from eigenveil.exact.histograms import norm_counts, rows_beyond
from eigenveil.exact.symmetric import GaussianLaw
from eigenveil.mechanisms.additive import GaussianNoise
from eigenveil.mechanisms.gate import Gate, MomentMechanism
from eigenveil.mechanisms.gauss import GaussCov, NoisyMatrix
from eigenveil.mechanisms.registry import CovarianceMechanism
from eigenveil.mechanisms.sparse_vector import SparseVector
from eigenveil.numerics.integers import FixedPoint
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.accounting import compose, rho_of
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.cost import Cost, Gaussian
from eigenveil.rows.base import RowSource


class Cleaned(MomentMechanism[NoisyMatrix], CovarianceMechanism):
    """A noisy second moment with cleaned eigenvalues."""

    name = "cleaned"
    about = "Gaussian noise, eigenvalues cleaned"
    source = "GaussCov, then Bun, Allez, Bouchaud, Potters 2016"
    tightens = True
    auto = "where rows are read once"
    semidefinite = True
    gaussian_noise = True
    exact: ClassVar[bool] = True

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyMatrix:
        """Return the cleaned second moment in the caller's units."""
        noisy = GaussCov(mu=self.mu).perturb(query, noise)
        return noisy.cleaned(trace_bound=query.trace_bound, spike=query.centre_error)


SHARES = (1 / 64, 7 / 64, 7 / 8)  # of rho: the number of rows where it is private, search, matrix
KAPPA = 0.4  # `cleaned` has far less error than its noise, and clipped rows point everywhere
PATIENCE = 24  # in units of 1/epsilon: how many rows the search takes for noise

assert sum(SHARES) == 1


class AdaptiveCleaned(CovarianceMechanism):
    """`cleaned`, at a row norm that is lowered privately."""

    proof: ClassVar[str] = "adaptive_cleaned"
    name = "adaptive-cleaned"
    about = "cleaned, at a row norm lowered privately"
    source = "`cleaned` at a privately lowered row norm"
    auto = "for few rows within bounds"
    reads_once = False
    semidefinite = True
    gaussian_noise = True

    def cost(self) -> Cost:
        """Return the cost of all steps, composed."""
        found = compose(self.rows.cost(), self.search.cost(), self.matrix.cost())
        assert rho_of(found) <= self.mu**2 / 2 * (1 + 1e-12)
        return found

    @property
    def rows(self) -> GaussianNoise:
        """The noise on the number of rows."""
        return GaussianNoise(mu=self._share(0))

    @property
    def search(self) -> SparseVector:
        """The search for a row norm: of rho = mu^2/2 a pure step takes epsilon^2/2."""
        return SparseVector(epsilon=self._share(1))

    @property
    def matrix(self) -> Cleaned:
        """The last step."""
        return Cleaned(strength=Gaussian(self._share(2)))

    def _share(self, step: int) -> float:
        return self.mu * math.sqrt(SHARES[step])

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyMatrix:
        """Return the second moment in the caller's units; reads the rows two or three times."""
        norms = norm_counts(source, clip, gate.adjacency)
        rows = norms.count
        if rows is None:
            noisy = gate.draw(self.rows, count(source, clip))
            rows = max(1, round(float(noisy.values[0]) / clip.row_norm))
        steps = gate.draw(self.search, self._too_many(norms, rows, source.n_columns))
        tau = self._lowest(clip, rows, source.n_columns, gate.adjacency)
        tau = max(clip.row_norm * 2.0 ** (-steps / 2), tau, SMALLEST_NORM)
        released = self.matrix.run(source, replace(clip, row_norm=tau), gate)
        return replace(released, row_norm=tau)

    def _law(self, d: int, adjacency: Adjacency) -> GaussianLaw:
        """Return the law of the noise on the sum over rows in a unit ball."""
        return GaussianLaw(d, moment_sensitivities(d, adjacency)["frobenius"] / self.matrix.mu)

    def _lowest(self, clip: Clip, rows: int, d: int, adjacency: Adjacency) -> float:
        """Below it the error of the centre would stand out from the noise."""
        in_sum = clip.centre_error * (rows if adjacency.count_is_public else 1)
        return min(clip.row_norm, math.sqrt(in_sum / self._law(d, adjacency).edge))

    def _too_many(self, norms: Bounded, rows: int, d: int) -> Bounded:
        """Return rows beyond each candidate less those that the noise is worth."""
        beyond = rows_beyond(norms)
        law = self._law(d, norms.adjacency)
        worth = KAPPA * min(math.sqrt(law.energy), 2 * math.sqrt(rows * law.edge))
        limit = math.ceil(max(worth, PATIENCE / self.search.epsilon))
        limit = min(limit, max(1, rows // 2))  # beyond it nothing but noise would end the search
        return replace(beyond, value=FixedPoint(beyond.value.units - limit, 0))
