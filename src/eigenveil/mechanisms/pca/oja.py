r"""PrivateOja: one pass over the rows in batches, each of which corrects all components at once.

Source: Düngler, Sanyal [kPCA], Algorithm 1.

.. math:: D = \frac1m \sum_i \mathrm{clip}_R(A_i Q) + Z - P

with Z of independent N(0, (Delta/(m mu))^2) outside Q and P, Q as in `one_pass`.
Proof: docs/proofs/oja.md.

Differences from the source
---------------------------
1. Noise is added to all entries and then projected onto the matrices Y with Q'Y symmetric, which
   is post-processing. That is the isotropic noise of the source's Lemma 8; its Algorithm 1 has
   sqrt(2) times as much in Q'Y.
2. Rows, A = xx', move the mean by R^2/m and not by 2 R^2/m: two matrices of rank one are sqrt(2)
   R^2 apart at most, and of several columns the part inside Q is weighed by sqrt(1/2) before the
   noise, since a symmetric matrix holds the part outside twice (`data/updates.py`).
3. The learning rate is that of `one_pass`, which needs no spectrum; ``schedule`` is the source's.
4. Noise is calibrated by the exact Gaussian curve. Unit rows need no R.
"""

from dataclasses import dataclass
from typing import ClassVar

from eigenveil.data.batches import Records
from eigenveil.data.clip import Clip
from eigenveil.data.updates import View, update_sum
from eigenveil.mechanisms.additive import GaussianNoise
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.pca.one_pass import Iterate, OnePass
from eigenveil.privacy.cost import Cost, Gaussian

__all__ = ["PrivateOja"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateOja(OnePass):
    """Noisy products with the current basis. Fields are public, never data."""

    name: ClassVar[str] = "oja"

    def cost(self) -> Cost:
        """Of one batch, and so of all."""
        return Gaussian(self.mu)

    def step(self, iterate: Iterate, batch: Records, clip: Clip, gate: Gate) -> Iterate:
        """Correct the estimate by one batch."""
        view = View(iterate.basis, weighted=True)
        query = update_sum(batch, clip, view, gate.adjacency)
        noisy = gate.draw(GaussianNoise(mu=self.mu), query)
        correction = view.restored(noisy.values) - iterate.image
        return iterate.corrected(correction, noisy.deviation, batch, self.schedule)
