r"""AdaptiveCov: GaussCov or SeparateCov on rows clipped at a private threshold, and its searches.

Private radius: a ball that holds nearly all rows.

Source: Dong, Yi 2021, as used by Dong, Liang, Yi 2022 [CovRev], Lemma 9 (PrivRadius).

.. math:: \tilde r = R\,2^{-j/2}, \quad \text{the first } j = J, J-1, \ldots, 0 \text{ with }
          |\{i : \|x_i\| \ge R\,2^{-j/2}\}| \text{ not noticeably above a slack}

by the sparse vector technique. With probability 1 - beta the radius is at most sqrt(2) times the
largest norm and at most twice the slack (6/epsilon) log(2J/beta) of rows lie beyond it.
Proof: docs/proofs/radius.md.

Differences from the source
---------------------------
1. Rows beyond a radius are counted, not rows within: the same where n is public, and private
   where it is not.
2. The search begins at the smallest normal float, not at 2^{-2dn}, and its steps are sqrt(2).

Clipping threshold: where the bias of clipping rows meets the noise it saves.

Source: Dong, Liang, Yi 2022 [CovRev], Algorithm 2, lines 1 to 6, and section 5.2.

1. a private radius r bounds the rows;
2. a private trace of the rows clipped at r bounds the noise of SeparateCov;
3. a sparse vector search over tau = r, r/2, r/4, ... stops where a bound on the bias,

   .. math:: \sum_{s} \mathrm{Count}_s\,(2^{s+1} - \tau^2)_+, \quad
             \mathrm{Count}_s = |\{i : 2^s \le \|x_i\|^2 < 2^{s+1}\}|,

   exceeds the noise :math:`\min(\tau^2 F, 2\tau\sqrt{T\,O} + \tau^2 V)`: F and O bound the
   Frobenius and operator norm of the noise on the matrix, V the noise on the eigenvalues, and T the
   sum of squared norms. One step back is the answer. Proof: docs/proofs/threshold.md.

Differences from the source
---------------------------
1. The search ends after 64 halvings or at the smallest normal float, not at 2^{-dn}: by then the
   noise is below 2^-128 of what it was.
2. Rows are counted in brackets of width sqrt(2), not 2, which bounds the bias more closely.
3. Everything is written for sums, so that nothing is divided by a private number of rows.

AdaptiveCov: GaussCov or SeparateCov on rows clipped at a private threshold.

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
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import NO_EXPONENT, SMALLEST_NORM, Clip
from eigenveil.exact.gram import moment_sensitivities, second_moment, trace
from eigenveil.exact.histograms import norm_counts, rows_beyond, weighted_counts
from eigenveil.exact.spectrum import eigenvalues
from eigenveil.exact.symmetric import GaussianLaw
from eigenveil.mechanisms.additive import GaussianNoise, LaplaceNoise, PrivateTrace, VectorNoise
from eigenveil.mechanisms.gate import Gate, Step
from eigenveil.mechanisms.gauss import GaussCov, NoisyMatrix
from eigenveil.mechanisms.registry import NOT_AN_OPTION, CovarianceMechanism
from eigenveil.mechanisms.sparse_vector import SparseVector
from eigenveil.numerics.cleaning import clean_eigenvalues
from eigenveil.numerics.integers import FixedPoint, add, whole
from eigenveil.numerics.noise_law import NoiseLaw
from eigenveil.numerics.random import NoiseSource
from eigenveil.papers.covrev.baselines import LapCov, on_basis
from eigenveil.papers.covrev.coinpress import GAUSSIAN_TAILS, LAPLACE_TAILS
from eigenveil.privacy.accounting import compose, rho_of
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.cost import Cost, Pure
from eigenveil.privacy.guarantee import Numerics
from eigenveil.rows.base import RowSource


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateRadius:
    """Exponent of a radius, from counts of row norms. Fields are public, never data."""

    proof: ClassVar[str] = "radius"
    name: ClassVar[str] = "radius"
    exact: ClassVar[bool] = True
    epsilon: float
    beta: float = 0.05

    def cost(self) -> Cost:
        """Cost of one `perturb`: that of the search."""
        return self._search().cost()

    def _search(self) -> SparseVector:
        return SparseVector(epsilon=self.epsilon)

    def perturb(self, query: Bounded, noise: NoiseSource) -> int:
        """Return the j for which R 2^(-j/2) is the radius; ``query`` holds counts of row norms."""
        beyond = rows_beyond(query)
        queries = beyond.value.units.size
        slack = math.ceil(self._search().slack(queries, self.beta))
        ascending = FixedPoint(slack - beyond.value.units[::-1], 0)  # from small to large radii
        first = self._search().perturb(replace(beyond, value=ascending), noise)
        return int(np.clip(queries - first, 0, queries))


_HALVINGS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseBound:
    """Public bounds on the noise of what is released at the threshold, for rows in a unit ball."""

    frobenius: float
    operator: float
    values: float

    def at(self, tau: float, squares: float) -> float:
        """Return noise of the better of GaussCov and SeparateCov for rows clipped at ``tau``."""
        separate = 2 * tau * math.sqrt(squares * self.operator) + tau**2 * self.values
        return min(tau**2 * self.frobenius, separate)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippingThreshold:
    """A bound on row norms, chosen privately. Fields are public, never data."""

    proof: ClassVar[str] = "threshold"
    name: ClassVar[str] = "threshold"
    radius: PrivateRadius
    trace: PrivateTrace
    search: SparseVector
    noise: NoiseBound

    def cost(self) -> Cost:
        """Return the cost of all three steps, composed."""
        return compose(self.trace.cost(), self.radius.cost(), self.search.cost())

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> float:
        """Return the threshold in the caller's units; reads the rows twice."""
        counts = norm_counts(source, clip, gate.adjacency)
        start = gate.draw(self.radius, counts)
        radius = max(clip.row_norm * 2.0 ** (-start / 2), SMALLEST_NORM)
        squares = trace(source, replace(clip, row_norm=radius), gate.adjacency)
        upper = gate.draw(self.trace, squares).upper / squares.unit
        halvings = gate.draw(self.search, self._balance(counts, start, upper))
        # The first threshold with too much bias; the one before it is the answer.
        return max(math.ldexp(radius, -max(halvings - 1, 0)), SMALLEST_NORM)

    def _balance(self, counts: Bounded, start: int, squares: float) -> Bounded:
        """Bias minus noise at r, r/2, ..., in units of r^2: one row moves each by at most 1."""
        steps = min((NO_EXPONENT - start) // 2, _HALVINGS)
        taus = 2.0 ** -np.arange(steps)
        # Rows beyond the radius are clipped to it; those at the centre have no bias.
        sizes = 2.0 ** (-np.maximum(np.arange(NO_EXPONENT + 1) - start, 0.0) / 2)
        sizes[-1] = 0.0
        weights = np.maximum(sizes**2 - taus[:, None] ** 2, 0.0)
        bias = weighted_counts(counts, weights)
        noise = [self.noise.at(float(tau), squares) for tau in taus]
        most = max(2.0**28, 2.0 * (counts.count or 0))  # more rows than there are
        units = whole(np.ceil(np.ldexp(np.minimum(noise, most), -bias.value.exponent)))
        return replace(bias, value=FixedPoint(add(bias.value.units, -units), bias.value.exponent))


SHARES = (1 / 8, 1 / 8, 1 / 4, 1 / 2)  # of rho, or of a pure epsilon
BETA = 0.1  # failure probability of the accuracy bounds behind the threshold

assert sum(SHARES) == 1


@dataclass(frozen=True, kw_only=True)
class Adaptive(CovarianceMechanism):
    """`gauss` or `separate`, at a threshold found privately."""

    name = "adaptive"
    about = "gauss or separate, at a threshold found privately"
    source = "Dong, Liang, Yi 2022, AdaptiveCov"
    numerics = Numerics.IDEALISED  # in one branch
    reads_once = False
    may_coincide = True
    has_pure = True
    n_columns: int = field(default=0, repr=False, metadata=NOT_AN_OPTION)

    @cached_property
    def steps(self) -> tuple[ClippingThreshold, Step[NoisyMatrix], VectorNoise]:
        """The threshold, the matrix, which is drawn once or twice, and the eigenvalues."""
        if isinstance(self.strength, Pure):
            return self._pure(self.epsilon, self.n_columns)
        return self._gaussian(self.mu, self.n_columns)

    @staticmethod
    def _gaussian(mu: float, d: int) -> tuple[ClippingThreshold, GaussCov, GaussianNoise]:
        """Return the steps in zCDP: rho = mu^2/2, of which a pure step takes epsilon^2/2."""
        radius, trace, search, final = (mu * math.sqrt(share) for share in SHARES)
        half = final * math.sqrt(0.5) * (1 - 2**-40)
        bounds, tails = moment_sensitivities(d, Adjacency.REPLACE_ONE), GAUSSIAN_TAILS
        scale = bounds["frobenius"] / half  # add/remove has less, so its threshold is cautious
        noise = NoiseBound(
            frobenius=scale * math.sqrt(0.5) * tails.frobenius(d, BETA / 2),
            operator=GaussianLaw(d, scale).ceiling,
            values=scale * tails.vector(d, BETA / 4),
        )
        threshold = _threshold(radius, GaussianNoise(mu=trace), search, noise)
        matrix, values = GaussCov(mu=half), GaussianNoise(mu=half)
        whole = compose(threshold.cost(), matrix.cost(), values.cost())
        assert rho_of(whole) <= mu**2 / 2 * (1 + 1e-12)
        return threshold, matrix, values

    @staticmethod
    def _pure(epsilon: float, d: int) -> tuple[ClippingThreshold, LapCov, LaplaceNoise]:
        """Return the steps for a pure epsilon, with Laplace noise throughout."""
        radius, trace, search, final = (epsilon * share for share in SHARES)
        half, tails = final / 2, LAPLACE_TAILS
        scale = moment_sensitivities(d, Adjacency.REPLACE_ONE)["l1"] / half
        noise = NoiseBound(
            frobenius=scale * math.sqrt(0.5) * tails.frobenius(d, BETA / 2),
            operator=scale * tails.operator(d, BETA / 4),
            values=2 / half * tails.vector(d, BETA / 4),
        )
        threshold = _threshold(radius, LaplaceNoise(epsilon=trace), search, noise)
        return threshold, LapCov(epsilon=half), LaplaceNoise(epsilon=half)

    def cost(self) -> Cost:
        """Return the cost of all steps; either way to spend the second half costs the same."""
        return compose(*(step.cost() for step in self.steps))

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyMatrix:
        """Return the second moment in the caller's units; reads the rows three times."""
        threshold, matrix, noise = self.steps
        tau = threshold.run(source, clip, gate)
        moment = second_moment(source, replace(clip, row_norm=tau), gate.adjacency)
        first = gate.draw(matrix, moment)
        noisy, basis = np.linalg.eigh(first.matrix)
        assert first.law is not None  # GaussCov and LapCov have one
        averaged = first.law.scaled(math.sqrt(0.5))
        if _separate_error(noisy, first.law, moment.trace_bound) < math.sqrt(averaged.energy):
            values = gate.draw(noise, eigenvalues(moment))
            released = on_basis(basis, values, moment.trace_bound)
        else:
            second = gate.draw(matrix, moment)
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
