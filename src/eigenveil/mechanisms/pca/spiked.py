r"""Spiked: noise on the spectral projector, calibrated to an assumed law of rows. Model-based.

Source: Cai, Xia, Zha 2024 [Spiked], Algorithm 1; sections 5.1 (condition number) and 5.2
(sub-Gaussian rows).

.. math:: \tilde U = \text{top-}k\,(\hat U \hat U' + Z), \quad
          \tilde L = \tilde U'(S - \sigma^2 I)\tilde U + E, \quad
          \tilde\Sigma = \tilde U \tilde L \tilde U' + \sigma^2 I

:math:`\hat U` are the leading eigenvectors of S; Z and E are isotropic symmetric Gaussian noise at
the sensitivities Delta_1 of the projector and Delta_2 = sqrt(2) R^2/n of S.

The first release is private for tables that follow `SpikedModel`, with the stated probability, and
for no others: an unlikely row can turn the eigenvectors further than Delta_1. The second one is on
rows clipped at a public R and worst-case. The numbers of the model are public, or released before.
Replace-one only: Delta_1 needs the number of rows. Proof: docs/proofs/spiked.md.

Differences from the source
---------------------------
1. Delta_1 has explicit constants at a stated failure probability (`SpikedModel`); the source's
   formula with the constant of its experiments is ``form="printed"``.
2. Rows are clipped where the model has none, so that the second release is worst-case.
3. The noise is that of GaussCov: isotropic, exactly calibrated. Each release has half of mu^2,
   where the source halves epsilon and delta.
4. The components are turned to the eigenvectors of :math:`\tilde L`: post-processing.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.clip import Clip
from eigenveil.data.gram import public_rows, second_moment
from eigenveil.data.source import RowSource, protected
from eigenveil.data.spectrum import compressed, projector
from eigenveil.exceptions import InvalidParameterError, UnsupportedNotionError
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.covariance.gauss import GaussCov
from eigenveil.mechanisms.pca.components import NoisyComponents
from eigenveil.numerics.spectral import top_eigenpairs
from eigenveil.numerics.spiked_model import SpikedModel
from eigenveil.privacy.accounting import compose, split
from eigenveil.privacy.cost import Cost
from eigenveil.privacy.guarantee import Kind

__all__ = ["Spiked"]

_MARGIN = 1 + 2.0**-10  # rows are clipped a little inside their ball; none of the model's may be


@dataclass(frozen=True, slots=True, kw_only=True)
class Spiked:
    """The projector, then the eigenvalues inside it. Fields are public, never data.

    ``share`` of mu^2 buys the projector.
    """

    name: ClassVar[str] = "spiked"
    kind: ClassVar[Kind] = Kind.MODEL_BASED
    mu: float
    model: SpikedModel
    share: float = 0.5

    @property
    def n_components(self) -> int:
        """One for each spike."""
        return self.model.rank

    @property
    def assumption(self) -> str:
        """What the tables must follow for the promise to hold, in words."""
        return self.model.assumption

    def cost(self) -> Cost:
        """Both releases, composed."""
        return compose(*(step.cost() for step in self._steps()))

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyComponents:
        """Read the rows twice, about the centre of ``clip``; its ``row_norm`` is the model's."""
        if not gate.adjacency.count_is_public:
            raise UnsupportedNotionError(
                f"{self.name!r} needs a public number of rows: use adjacency='replace-one'"
            )
        if protected(source).owns_many:
            raise UnsupportedNotionError(
                f"{self.name!r} assumes rows that are independent, not several of one person: "
                "leave groups and unit out, or choose another mechanism"
            )
        if clip.box is not None or clip.lift or clip.transform is not None:
            raise InvalidParameterError(
                f"{self.name!r} assumes rows of unbounded entries: leave the bounds out"
            )
        k, n, d = self.n_components, public_rows(source), source.n_columns
        if k > d:
            raise InvalidParameterError(f"a spiked model of rank {k} needs at least {k} columns")
        reach = _MARGIN * self.model.row_norm(n, d)
        moment = second_moment(source, replace(clip, row_norm=reach), gate.adjacency)
        directions, values = self._steps()
        sensitivity = self.model.projector_sensitivity(n, d)
        noisy = gate.draw(directions, projector(moment, k, sensitivity))
        _, basis = top_eigenpairs(noisy.matrix, k)
        inside = gate.draw(values, compressed(moment, basis.T))
        eigenvalues, rotation = top_eigenpairs(inside.matrix, k)
        trace = float(eigenvalues.sum()) + (d - k) * self.model.noise_variance
        assert noisy.law is not None  # GaussCov always states it
        return NoisyComponents(
            components=rotation @ basis,
            eigenvalues=eigenvalues,
            trace=trace,
            noise_scale=inside.noise_scale,
            law=None,
            reliability=np.full(k, noisy.law.overlap(1.0)),
        )

    def covariance(self, released: NoisyComponents) -> NDArray[np.float64]:
        """The spiked covariance of a release: post-processing."""
        noise, components = self.model.noise_variance, released.components
        spiked = (components.T * (released.eigenvalues - noise)) @ components
        return spiked + noise * np.eye(components.shape[1])

    def _steps(self) -> tuple[GaussCov, GaussCov]:
        directions, values = split(self.mu, (self.share, 1 - self.share))
        return GaussCov(mu=directions), GaussCov(mu=values)
