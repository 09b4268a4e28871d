r"""Mean, covariance and count from one release: rows with a constant coordinate.

For rows z = (x, gamma R), bounded by R sqrt(1 + gamma^2), the second moment is

.. math:: \frac1n \sum z z' = \begin{pmatrix} S & \gamma R\, m \\ \gamma R\, m' & \gamma^2 R^2
          \end{pmatrix}

and its Schur complement is the covariance S - m m'. A pure epsilon adds up linearly, so buying
the mean apart is dear: at a tenth of epsilon it has more than four times the error it has here,
where the matrix pays 1 + gamma^2 in noise for everything. Proof: docs/proofs/lifted.md.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.clip import Clip
from eigenveil.data.source import RowSource
from eigenveil.mechanisms.base import Gate, Procedure
from eigenveil.mechanisms.centred import CentredResult, within
from eigenveil.mechanisms.covariance.gauss import NoisyMatrix
from eigenveil.numerics.spectral import map_eigenvalues, project_to_simplex
from eigenveil.privacy.cost import Cost

__all__ = ["LIFT", "Lifted"]

LIFT = 0.5  # gamma


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifted:
    """``inner`` on lifted rows, then the Schur complement. Fields are public, never data."""

    name: ClassVar[str] = "lifted"
    inner: Procedure[NoisyMatrix]
    row_norm: float

    def cost(self) -> Cost:
        """That of the inner release: the complement is post-processing."""
        return self.inner.cost()

    def run(self, source: RowSource, start: Clip, gate: Gate) -> CentredResult[NoisyMatrix]:
        """Read the rows about the public start of ``start``."""
        clip = replace(start, row_norm=self.row_norm, lift=LIFT)
        released = self.inner.run(source, clip, gate)
        side = released.matrix[:-1, -1]
        constant = (LIFT * self.row_norm) ** 2
        public = gate.adjacency.count_is_public
        # The corner is known, but the cleaned one suits the cleaned side: a matrix of rank one, the
        # mean and nothing else, then has the complement zero. A tiny corner would explode.
        corner = max(float(released.matrix[-1, -1]), constant / 4 if public else constant)
        bound = start.mean_square if public else math.inf
        centre = np.zeros(side.size) if start.centre is None else start.centre
        # The complement stretches the noise along the mean; the error of the mean subtracts, so it
        # shows no eigenvalue of its own. Eigenvalues from before stay those of the lifted matrix.
        law = released.law
        if law is not None and released.noisy_eigenvalues is None:
            law = law.scaled(1 + float(side @ side) / corner**2)
        return CentredResult(
            within(centre + side * (LIFT * self.row_norm / corner), start),
            0.0,
            None if public else corner / constant,
            replace(released, matrix=self._complement(released.matrix, corner, bound), law=law),
        )

    @staticmethod
    def _complement(
        lifted: NDArray[np.float64], corner: float, trace_bound: float
    ) -> NDArray[np.float64]:
        side = lifted[:-1, -1]
        complement = lifted[:-1, :-1] - np.outer(side, side) / corner
        if trace_bound == math.inf:
            return np.asarray(complement)
        bounded, _ = map_eigenvalues(complement, lambda v: project_to_simplex(v, trace_bound))
        return bounded
