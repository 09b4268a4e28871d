r"""CoinPress: a covariance refined in a few whitened steps, and bounds on its noise.

How large noise can be: bounds that hold with probability 1 - beta.

Gaussian: Lemmas 6 and 7 of Dong, Liang, Yi 2022 [CovRev], for a vector of d standard normals and
for a symmetric matrix with standard normals on and above the diagonal. They bound isotropic
noise of scale 1 as well, whose entries off the diagonal are smaller. As in the paper, log means
max(log, 1).

Laplace: Lemmas 16 to 18 leave their constants open. The bounds here have the form
"root mean square norm plus a multiple of log(1/beta)" with multiples found by simulation, for d
from 1 to 400 and beta from 0.2 to 0.005: calibrated, not proven. Only accuracy rests on them.

CoinPress: a covariance refined in a few whitened steps.

Source: Biswas, Dong, Kamath, Ullman 2020, Algorithms 3 and 4 (MVCRec, MVC).

.. math:: Z_t = \overline{W W'} + E_t, \quad W = A_t X \text{ clipped at } \gamma, \quad
          A_{t+1} = (Z_t + \eta I)^{-1/2} A_t, \qquad \hat S = A_T^{-1} Z_T A_T^{-1\prime}

eta bounds the noise, so the whitened covariance stays below I, and rows from a normal law within
:math:`\gamma^2 = d + 2\sqrt{dL} + 2L`. Privacy rests on the clipping alone and holds for every
table; accuracy is meant for normal rows, in Mahalanobis distance. Proof: docs/proofs/coinpress.md.

Differences from the source
---------------------------
1. It starts from rows in a ball of radius R, not from bounds on the covariance.
2. The noise is that of our GaussCov.
3. L = log(1/beta) without the source's factor n, which may be private. Where it is, a hundredth of
   the budget counts the rows.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import count
from eigenveil.exact.symmetric import GaussianLaw
from eigenveil.mechanisms.additive import GaussianNoise
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.gauss import GaussCov, NoisyMatrix
from eigenveil.mechanisms.registry import CovarianceMechanism
from eigenveil.numerics.spectral import map_eigenvalues
from eigenveil.privacy.accounting import compose, split
from eigenveil.privacy.cost import Cost
from eigenveil.privacy.guarantee import Numerics
from eigenveil.rows.base import RowSource


@dataclass(frozen=True, slots=True)
class Tails:
    """Bounds, as functions of d and beta, on norms of noise of unit scale."""

    vector: Callable[[int, float], float]  # Euclidean norm of d entries
    operator: Callable[[int, float], float]  # of a symmetric d x d matrix
    frobenius: Callable[[int, float], float]


def _log(x: float) -> float:
    return max(1.0, math.log(x))


def _eta(d: int, beta: float) -> float:
    """Lemma 6."""
    tail = _log(1 / beta)
    return math.sqrt(d + 2 * math.sqrt(d * tail) + 2 * tail)


def _nu(d: int, beta: float) -> float:
    """Lemma 7, operator norm."""
    ratio = (_log(d) / d) ** (1 / 3)
    return float(
        2 * math.sqrt(d)
        + 2 * d ** (1 / 6) * _log(d) ** (1 / 3)
        + 6 * (1 + ratio) * math.sqrt(_log(d)) / math.sqrt(math.log1p(ratio))
        + 2 * math.sqrt(2 * _log(1 / beta))
    )


def _omega(d: int, beta: float) -> float:
    """Lemma 7, Frobenius norm."""
    tail = _log(2 / beta)
    return math.sqrt(d * d + 2 * math.sqrt(d * tail) * (1 + math.sqrt(2 * (d - 1))) + 6 * tail)


GAUSSIAN_TAILS = Tails(_eta, _nu, _omega)

LAPLACE_TAILS = Tails(
    vector=lambda d, beta: math.sqrt(2 * d) + _log(1 / beta),
    operator=lambda d, beta: 2 * math.sqrt(2 * d) + _log(1 / beta),
    frobenius=lambda d, beta: math.sqrt(2) * d + 1.3 * _log(1 / beta),
)


SHARES = (0.01, 0.12, 0.12, 0.75)  # of mu^2: the number of rows, two rough steps, the last one
BETA = 0.01  # failure probability of the accuracy bounds


class CoinPress(CovarianceMechanism):
    """Whitened steps, each with a tighter bound."""

    name = "coinpress"
    about = "bounds tightened step by step"
    source = "Biswas, Dong, Kamath, Ullman 2020"
    numerics = Numerics.IDEALISED
    reads_once = False

    @property
    def rows(self) -> GaussianNoise:
        """The noise on the number of rows."""
        return GaussianNoise(mu=split(self.mu, SHARES)[0])

    @property
    def steps(self) -> tuple[GaussCov, ...]:
        """Two rough steps, then one with most of the budget."""
        return tuple(GaussCov(mu=mu) for mu in split(self.mu, SHARES)[1:])

    def cost(self) -> Cost:
        """Return the cost of all steps, composed."""
        return compose(self.rows.cost(), *(step.cost() for step in self.steps))

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyMatrix:
        """Return the second moment in the caller's units; reads the rows once for each step."""
        d = source.n_columns
        rows = 1.0  # where their number is public the moment is a mean already
        if not gate.adjacency.count_is_public:
            noisy = gate.draw(self.rows, count(source, clip))
            rows = max(1.0, float(noisy.values[0]) / clip.row_norm)
        whiten = np.eye(d)
        first, *others = self.steps
        released = first.run(source, clip, gate)
        for step in others:
            margin = GAUSSIAN_TAILS.operator(d, BETA) * released.noise_scale
            whiten = _inverse_root(released.matrix / rows, margin / rows) @ whiten
            reach = min(GAUSSIAN_TAILS.vector(d, BETA), clip.row_norm * _norm(whiten))
            released = step.run(source, replace(clip, transform=whiten.T, row_norm=reach), gate)
        back = np.linalg.inv(whiten)
        matrix = back @ released.matrix @ back.T
        # Noise in the whitened space is stretched on the way back, by this much at most.
        scale = released.noise_scale * _norm(back) ** 2
        return NoisyMatrix((matrix + matrix.T) / 2, scale, GaussianLaw(d, scale))


def _inverse_root(matrix: NDArray[np.float64], margin: float) -> NDArray[np.float64]:
    """(M + margin I)^(-1/2), with negative eigenvalues of M taken as zero."""
    root, _ = map_eigenvalues(matrix, lambda values: (np.maximum(values, 0.0) + margin) ** -0.5)
    return root


def _norm(matrix: NDArray[Any]) -> float:
    return float(np.linalg.norm(matrix, 2))
