r"""Mean, covariance and count from one release: rows with a constant coordinate.

For rows z = (x, gamma R), bounded by R sqrt(1 + gamma^2), the second moment is

.. math:: \frac1n \sum z z' = \begin{pmatrix} S & \gamma R\, m \\ \gamma R\, m' & \gamma^2 R^2
          \end{pmatrix}

and its Schur complement is the covariance S - m m'. A pure epsilon adds up linearly, so buying
the mean apart is dear: with two-sided Wishart noise it has a fraction of the error here, for
1 + gamma^2 times the noise on the matrix. Proof: docs/proofs/lifted.md.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import Clip
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.centre import CentredResult, project_to_bounds
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.gauss import NoisyMatrix
from eigenveil.mechanisms.wishart import WishartCov
from eigenveil.numerics.noise_law import NoiseLaw
from eigenveil.numerics.spectral import map_eigenvalues, project_to_simplex
from eigenveil.privacy.cost import Cost
from eigenveil.rows.base import RowSource

LIFT = 0.5  # gamma


@dataclass(frozen=True, slots=True, kw_only=True)
class HomogeneousRows:
    """``inner`` on lifted rows, cleaned, then the Schur complement. Fields are public."""

    proof: ClassVar[str] = "lifted"
    name: ClassVar[str] = "lifted"
    inner: WishartCov
    row_norm: float

    def __post_init__(self) -> None:
        if self.inner.clean:
            raise InvalidParameterError("a lifted release cleans for itself: pass clean=False")

    def cost(self) -> Cost:
        """Return the cost of the inner release: the rest is post-processing."""
        return self.inner.cost()

    def run(self, source: RowSource, start: Clip, gate: Gate) -> CentredResult[NoisyMatrix]:
        """Read the rows about the public start of ``start``."""
        clip = replace(start, row_norm=self.row_norm, lift=LIFT)
        noisy = self.inner.run(source, clip, gate)
        found = unlifted(noisy, clip, public=gate.adjacency.count_is_public)
        return replace(found, centre=project_to_bounds(found.centre, start))


def unlifted(noisy: NoisyMatrix, clip: Clip, *, public: bool) -> CentredResult[NoisyMatrix]:
    """Return mean, covariance and count from the noisy second moment of lifted rows.

    ``clip`` is that of the rows; ``public``: whether the matrix was divided by their number.
    """
    trace_bound = clip.radius**2 if public else math.inf
    lifted = noisy.cleaned(trace_bound=trace_bound, spike=0.0).matrix
    constant = (clip.lift * clip.row_norm) ** 2
    # The corner is known, but the cleaned one suits the cleaned side: where the mean is all
    # that stands out, the matrix has rank one and its complement is zero.
    corner = float(lifted[-1, -1])
    count = None if public else max(1.0, corner / constant)
    side = lifted[:-1, -1]
    centre = np.zeros(side.size) if clip.centre is None else clip.centre
    mean = side * (clip.lift * clip.row_norm / max(corner, constant))
    unbiased, law = _before_cleaning(noisy, constant * (count or 1.0))
    values = np.asarray(np.linalg.eigvalsh(unbiased), dtype=np.float64)
    complement = schur_complement(lifted, corner)
    # With a corner that came out small the complement has more than rows of this length do; a
    # count that is private is divided by later, and the trace held then.
    if public and np.trace(complement) > clip.row_norm**2:
        most = clip.row_norm**2
        complement, _ = map_eigenvalues(complement, lambda v: project_to_simplex(v, most))
    # Rounding must not leave a negative variance.
    np.fill_diagonal(complement, np.maximum(complement.diagonal(), 0.0))
    released = NoisyMatrix(complement, noisy.noise_scale, law, values, unbiased=unbiased)
    # An entry beside the diagonal has less noise than one on it.
    spread = noisy.noise_scale / (math.sqrt(2) * clip.lift * clip.row_norm * (count or 1.0))
    return CentredResult(centre + mean, 0.0, count, released, distance_error=side.size * spread**2)


def schur_complement(lifted: NDArray[np.float64], corner: float) -> NDArray[np.float64]:
    """Return the Schur complement of a corner; a corner of zero comes with a side of zeros."""
    side = lifted[:-1, -1]
    rest = lifted[:-1, :-1]
    return rest - np.outer(side, side) / corner if corner > 0 else rest.copy()


def _before_cleaning(
    noisy: NoisyMatrix, corner: float
) -> tuple[NDArray[np.float64], NoiseLaw | None]:
    """Return the complement before it is cleaned, and a law that ends where its noise does.

    The complement stretches the noise along the mean; the error of the mean subtracts.
    """
    side = noisy.matrix[:-1, -1]
    stretch = 1 + float(side @ side) / corner**2
    return schur_complement(noisy.matrix, corner), noisy.law and noisy.law.scaled(stretch)
