r"""Oja: one pass over the rows in batches, each of which corrects all components at once.

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
   R^2 apart at most, and the part outside Q, which a symmetric matrix holds twice, is scaled by
   nearly sqrt(2) before the noise and back after it (`exact/basis_products.py`).
3. The learning rate is that of `one_pass`, which needs no spectrum; ``schedule`` is the source's.
4. Noise is calibrated by the exact Gaussian curve. Unit rows need no R.
"""

from eigenveil.exact.basis_products import OUTSIDE_SCALE, BasisProduct, moment_columns, unscaled
from eigenveil.exact.batches import Records
from eigenveil.exact.clip import Clip
from eigenveil.exact.updates import update_sum
from eigenveil.mechanisms.additive import GaussianNoise
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.one_pass import OnePass, OnePassState


class Oja(OnePass):
    """Private Oja: batches of rows, of which each corrects all components at once."""

    name = "oja"
    about = "one pass in batches, no matrix; single rows"
    source = "Düngler, Sanyal, Algorithm 1"
    auto = "for wide rows that can be read once only"
    streams = True

    def step(self, iterate: OnePassState, batch: Records, clip: Clip, gate: Gate) -> OnePassState:
        """Correct the estimate by one batch."""
        noise = GaussianNoise(mu=self.mu)
        view = BasisProduct(iterate.basis, weighted=batch.holds_matrices)
        if batch.holds_matrices:
            noisy = gate.draw(noise, update_sum(batch, clip, view, gate.adjacency))
            image, deviation = view.restored(noisy.values), noisy.deviation
        else:
            noisy = gate.draw(noise, moment_columns(batch, clip, view, gate.adjacency))
            image, deviation = unscaled(view, noisy.values), noisy.deviation / OUTSIDE_SCALE
        return iterate.corrected(image - iterate.image, deviation, batch, self.schedule)
