r"""The client's two steps of federated PCA under a spiked model. Model-based.

Source: Li, Cai, Xia, Zhang 2024 [Fed], Algorithm 1.

.. math:: U_j = \text{top-}k\,(\tilde U_j \tilde U_j' + Z_j), \qquad
          \hat\Lambda_j = \hat U'(S_j - \sigma^2 I)\hat U + E_j

Z and E have variance 2 alpha^2 and 2 beta^2 on the diagonal, half of it beside: the noise of
GaussCov with s^2 = 2 alpha^2. Since alpha is sqrt(8 ln(2.5/delta))/epsilon times Delta_1, and beta
as many times Delta_2, both steps have mu = epsilon/(4 sqrt(ln(2.5/delta))), whatever n is.

The promise holds for tables of the model and no others, and for a model whose Delta_1 they do not
exceed: that of the source is up to four times too small. Its own calibration has enough slack to
cover that where delta is as large as 0.1, an exact one has none. Proof: docs/proofs/federated.md.

Differences from the source
---------------------------
1. ``calibration="exact"`` spends the whole (epsilon, delta): half of the mu^2 that it buys for each
   step, with s = Delta/mu instead of sqrt(2) times that.
2. Rows beyond the ball that holds all rows of the model, but for the model's failure probability,
   are clipped to it: exact sums need a bound.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import Clip
from eigenveil.exceptions import InvalidBudgetError, InvalidParameterError
from eigenveil.mechanisms.gate import Gate
from eigenveil.numerics.spectral import top_eigenpairs
from eigenveil.papers.spiked.mechanism import SpikedProjector, SpikedValues
from eigenveil.papers.spiked.model import SpikedModel
from eigenveil.privacy.accounting import compose, fits, split
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.calibrate import strength
from eigenveil.privacy.cost import Cost, Gaussian
from eigenveil.privacy.guarantee import Kind
from eigenveil.rows.base import RowSource


@dataclass(frozen=True, slots=True, kw_only=True)
class SpikedClient:
    """One owner's steps. Fields are public, never data.

    Attributes
    ----------
    epsilon, delta : float
        For both steps together.
    model : SpikedModel
        The assumed law of rows; that of the source has ``form="federated"``, for comparisons.
    calibration : {"exact", "printed"}
        "printed" is the source's, which leaves most of the budget unspent.

    """

    kind: ClassVar[Kind] = Kind.MODEL_BASED
    epsilon: float
    delta: float
    model: SpikedModel
    calibration: Literal["exact", "printed"] = "exact"

    def __post_init__(self) -> None:
        if self.calibration not in ("exact", "printed"):
            raise InvalidParameterError("calibration must be 'exact' or 'printed'")
        if not fits(self.cost(), self._budget):
            raise InvalidBudgetError(
                "the printed calibration does not hold for so large an epsilon: use 'exact'"
            )

    @property
    def _budget(self) -> Budget:
        return Budget(epsilon=self.epsilon, delta=self.delta)

    @property
    def strengths(self) -> tuple[float, ...]:
        """Mu of the first step and of the second."""
        if self.calibration == "printed":
            return (self.epsilon / (4 * math.sqrt(math.log(2.5 / self.delta))),) * 2
        return split(strength(self._budget, Gaussian, "gauss"), (0.5, 0.5))

    def cost(self) -> Cost:
        """Return the cost of both steps, composed; each charges its own gate."""
        return compose(*map(Gaussian, self.strengths))

    def projector(self) -> SpikedProjector:
        """Return the release of the first step."""
        return SpikedProjector(mu=self.strengths[0], model=self.model)

    def second(self, basis: NDArray[np.float64]) -> SpikedValues:
        """Return the release of the second step along the aggregate basis."""
        return SpikedValues(mu=self.strengths[1], model=self.model, basis=basis)

    def basis(self, source: RowSource, clip: Clip, gate: Gate) -> NDArray[np.float64]:
        """First step: orthonormal columns, the leading eigenvectors of the noisy projector."""
        noisy = self.projector().run(source, clip, gate)
        _, rows = top_eigenpairs(noisy.matrix, self.model.rank)
        return np.ascontiguousarray(rows.T)

    def values(
        self, source: RowSource, clip: Clip, gate: Gate, basis: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Second step: the noisy second moment along the aggregate basis, above the noise."""
        noisy = self.second(basis).run(source, clip, gate)
        return np.asarray(noisy.matrix - self.model.noise_variance * np.eye(basis.shape[1]))
