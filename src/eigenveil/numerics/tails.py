r"""How large noise can be: bounds that hold with probability 1 - beta.

Gaussian: Lemmas 6 and 7 of Dong, Liang, Yi 2022 [CovRev], for a vector of d standard normals and
for a symmetric matrix with standard normals on and above the diagonal. They bound isotropic
noise of scale 1 as well, whose entries off the diagonal are smaller. As in the paper, log means
max(log, 1).

Laplace: Lemmas 16 to 18 leave their constants open. The bounds here have the form
"root mean square norm plus a multiple of log(1/beta)" with multiples found by simulation, for d
from 1 to 400 and beta from 0.2 to 0.005: calibrated, not proven. Only accuracy rests on them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["GAUSSIAN_TAILS", "LAPLACE_TAILS", "Tails"]


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
