r"""BoxedTangentOjaPCA: `boxed-oja` for a warm start, then tangent updates in a box.

Source: Düngler, Sanyal [kPCA], Algorithm 3 (TAdaDPO), warm-started by Algorithm 2 (AdaDPO) on
disjoint records.

.. math:: Y_i = (I - QQ') A_i Q, \qquad
          Q \leftarrow \mathrm{QR}\Bigl(Q + \eta\, (I - QQ')\bigl(\bar Y + Z\bigr)\Bigr)

PrivRange and TruncatedMean see Y instead of AQ: what lies along the released columns of Q is taken
off every record before anything of it is bounded, as deflation takes off earlier directions.

Unlike the other modules of this package it is private: it draws through a gate, at the cost of
`boxed-oja`, for which docs/proofs/boxed_oja.md has the argument. It stands here because it exists
to show the algorithm as printed: `tangent-oja` needs far fewer records.

Differences from the source: those of `boxed-oja`. After the warm start no trace is bought, and
eigenvalues stay those of the warm start.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.basis_products import BasisProduct
from eigenveil.exact.batches import Records
from eigenveil.exact.clip import Clip
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.pca.boxed_oja import BoxedOja, BoxedOjaPCA, Centre
from eigenveil.mechanisms.pca.one_pass import OnePassState, Schedule
from eigenveil.mechanisms.registry import Terms

__all__ = ["BoxedTangentOja", "BoxedTangentOjaPCA"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxedTangentOjaPCA(BoxedOjaPCA):
    """Tangent means in a box after ``warm_batches`` of `boxed-oja`. Fields are public."""

    name: ClassVar[str] = "boxed-tangent-oja"
    warm_batches: int = 3

    @classmethod
    def build(
        cls,
        epsilon: float,
        delta: float,
        k: int,
        *,
        centre: Centre = "histograms",
        batch_size: int | None = None,
        schedule: Schedule | None = None,
        warm_batches: int = 3,
    ) -> Self:
        """Build the method for k components and an allotment of `printed_cost`."""
        if centre != "histograms":
            raise InvalidParameterError("'boxed-tangent-oja' has the centre 'histograms' only")
        parent = BoxedOjaPCA.build(epsilon, delta, k, centre=centre)
        return cls(
            mu=parent.mu,
            n_components=k,
            batch_size=batch_size,
            schedule=schedule,
            mean=parent.mean,
            centre=centre,
            warm_batches=warm_batches,
        )

    def step(
        self,
        iterate: OnePassState,
        batch: Records,
        clip: Clip,
        gate: Gate,
        away: NDArray[np.float64] | None = None,
    ) -> OnePassState:
        """Correct the estimate by one batch: whole products first, tangent parts later."""
        if iterate.steps < self.warm_batches:
            return BoxedOjaPCA.step(self, iterate, batch, clip, gate, away)
        basis, k = iterate.basis, self.n_components
        noisy = self.estimate(batch, clip, BasisProduct(basis), gate, basis.T)
        values = iterate.values(k)
        if self.schedule is None:  # the image keeps what it has inside the basis
            outside = iterate.image - basis @ (basis.T @ iterate.image)
            return iterate.corrected(noisy.values - outside, noisy.deviation, batch)
        after = iterate.corrected(
            noisy.values - iterate.image, noisy.deviation, batch, self.schedule
        )
        return replace(after, image=after.basis * values)


@dataclass(frozen=True, kw_only=True)
class BoxedTangentOja(BoxedOja):
    """TAdaDPO as it is printed.

    Attributes
    ----------
    warm_batches : int
        Batches of AdaDPO before the tangent updates.

    """

    name = "boxed-tangent-oja"
    about = "a paper's tangent means in a box; many rows"
    source = "Düngler, Sanyal, Algorithm 3 (TAdaDPO), as printed"
    centre: Centre = "histograms"
    warm_batches: int = 3

    def gaussian(self, mu: float, terms: Terms) -> BoxedTangentOjaPCA:
        """Build the mechanism; its strength is an epsilon."""
        return BoxedTangentOjaPCA.build(
            mu,
            terms.delta(self.name, "tangent-oja"),
            terms.n_components,
            centre=self.centre,
            batch_size=self.batch_size,
            schedule=self.schedule,
            warm_batches=self.warm_batches,
        )
