r"""ProjectedMoment: a noisy second moment of unit rows inside a given basis.

.. math:: \frac1n \sum_i y_i y_i' + E, \qquad y_i = U' \frac{x_i - c}{|x_i - c|}

U is any orthonormal basis that is public: k of d columns, the aggregate of a federation. One row
moves the matrix by at most sqrt(2)/n whatever the data and whatever U, so no bound is needed; the
noise on k x k numbers is far smaller than that which found U. The trace is the share of variance
inside U. ``paired`` takes differences of pairs of rows, which have no centre.
Proof: docs/proofs/inside.md.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import second_moment
from eigenveil.exact.row_maps import Project
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.analyze_gauss import directions
from eigenveil.mechanisms.centre import drawn_pairs
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.gauss import GaussCov, NoisyMatrix
from eigenveil.privacy.cost import Cost, Gaussian
from eigenveil.rows.base import RowSource

_SKEW = 1e-6  # of the columns: how far U'U may be from the identity


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProjectedMoment:
    """`gauss` on unit rows in the coordinates of ``basis``. Fields are public, never data."""

    name: ClassVar[str] = "inside"
    mu: float
    basis: NDArray[np.float64]  # d x k
    paired: bool = False

    def __post_init__(self) -> None:
        # Products with longer columns would pass 2^53, and not be exact.
        finite = bool(np.isfinite(self.basis).all())
        error = self.basis.T @ self.basis - np.eye(self.basis.shape[1]) if finite else np.inf
        if np.abs(error).max(initial=0.0) > _SKEW:
            raise InvalidParameterError("columns of a basis must be orthonormal")

    def cost(self) -> Cost:
        """Return the cost of one release of a matrix."""
        return Gaussian(self.mu)

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyMatrix:
        """Return the k x k matrix about the centre of ``clip``, whose bound is not used."""
        rows, about, n = source, directions(clip), None
        if self.paired:
            rows, n = drawn_pairs(source, clip, gate)
            about = replace(about, centre=None, box=None)
        inside = rows.map(Project(about, self.basis))
        ball = Clip(row_norm=1.0, on_invalid=clip.on_invalid)
        noisy = gate.draw(GaussCov(mu=self.mu), second_moment(inside, ball, gate.adjacency))
        gate.rows = gate.rows if n is None else n  # and not the number of pairs
        return noisy
