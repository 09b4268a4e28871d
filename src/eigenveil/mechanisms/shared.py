"""An owner's share of a noisy sum: its query and its part of the noise, rounded together.

What one share alone costs is ``sqrt(t)`` times what the sum costs if t owners are honest: whoever
draws one hides it among the others (`eigenveil.federated.secure`). Proof:
docs/proofs/shared_noise.md.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded, Norm
from eigenveil.exact.lattice import GAUSSIAN, add_noise
from eigenveil.exact.symmetric import add_symmetric_gaussian
from eigenveil.exceptions import InvalidParameterError
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.cost import Cost, Gaussian
from eigenveil.privacy.shared_noise import SharedNoise

__all__ = ["NoiseShare", "packed", "unpacked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseShare:
    """Add one share of a noise to a query. Fields are public, never data."""

    name: ClassVar[str] = "noise-share"
    exact: ClassVar[bool] = True
    noise: SharedNoise

    def cost(self) -> Cost:
        """Cost of the sum if as many owners are honest as the noise counts on."""
        return Gaussian(self.noise.mu())

    def alone(self) -> Cost:
        """Cost of this share if nobody else keeps its own secret."""
        return Gaussian(self.noise.mu(1))

    def perturb(self, query: Bounded, noise: NoiseSource) -> NDArray[np.int64]:
        """Return whole multiples of the grid: a vector, or the upper triangle of a matrix."""
        shared = self.noise
        shape = (shared.columns,) * (2 if shared.symmetric else 1)
        norm: Norm = "frobenius" if shared.symmetric else "l2"
        if query.value.units.shape != shape or query.sensitivity(norm) > shared.sensitivity:
            raise InvalidParameterError("the share was calibrated for another query")
        value = query.value.refined(shared.grid)  # counts too: rounding is part of the proof
        if shared.symmetric:
            return packed(
                add_symmetric_gaussian(value, shared.scale, noise, grid=shared.grid).units
            )
        return add_noise(value, shared.scale, noise, law=GAUSSIAN, grid=shared.grid).units


def packed(matrix: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the upper triangle of a symmetric matrix, row by row."""
    return np.asarray(matrix[np.triu_indices(len(matrix))])


def unpacked(entries: NDArray[np.int64], d: int) -> NDArray[np.int64]:
    """Return the symmetric matrix of an upper triangle."""
    matrix = np.zeros((d, d), dtype=np.int64)
    upper = np.triu_indices(d)
    matrix[upper] = entries
    matrix.T[upper] = entries
    return matrix
