r"""BoxedOja: one-pass Oja by means in a box, as AdaDPO is printed.

Source: Düngler, Sanyal [kPCA], Algorithm 2 (AdaDPO), with PrivRange and TruncatedMean.

.. math:: D = \frac1m \sum_i \mathrm{box}_{C, R}(A_i Q) + Z - P

The first half of a batch gives the spread S of AQ, the second, of m records, the mean in the box
C +- R about a private centre C. Z has N(0, (2 R sqrt(dk)/(m mu))^2) in every entry; P, Q as in
`one_pass`.

==============  ==================================================================================
centre          what it is
==============  ==================================================================================
histograms      the fullest bin of every coordinate: the source (`truncated_mean`)
mean            a rough Gaussian mean on the records of the box, composed with the last one in mu;
                the box is as much wider as that centre may be off
==============  ==================================================================================

Histograms share the budget among dk coordinates, so that they need huge tables; a mean does not.
Proof: docs/proofs/boxed_oja.md.

Differences from the source
---------------------------
1. The learning rate is that of `one_pass`, which needs no spectrum; ``schedule`` is the source's.
2. Those of `truncated_mean`.
3. Batches grow as in `one_pass`, from the smallest in which the histograms show anything.
4. The trace of rows, which the learning rate looks at, is bought on the half of the first batch
   that pays for no mean.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.basis_products import BasisProduct
from eigenveil.exact.batches import Records
from eigenveil.exact.clip import Clip
from eigenveil.exact.updates import update_sum
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.additive import GaussianNoise, NoisyVector
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.one_pass import OnePass, OnePassState
from eigenveil.mechanisms.registry import NOT_AN_OPTION, BuildContext
from eigenveil.papers.kpca.truncated_mean import TruncatedMean, boxed_mean, halves, root_spread
from eigenveil.privacy.accounting import split
from eigenveil.privacy.cost import Allotment, Cost, Gaussian, Pure
from eigenveil.text import plural

Centre = Literal["mean", "histograms"]
_ROUGH = 0.1  # of mu^2 for a centre that is a mean


@dataclass(frozen=True, kw_only=True)
class Boxed(OnePass):
    """Means of AQ in a box. Fields are public, never data.

    Directions ``away``, which are orthonormal rows and released, are left out of the records.
    """

    needs_delta = True
    otherwise: ClassVar[str]  # to choose without a delta
    delta: float = field(default=0.0, repr=False, metadata=NOT_AN_OPTION)

    def at(self, strength: Allotment, context: BuildContext) -> Self:
        """Return the method that runs at a strength, the mu of which is an epsilon."""
        delta = context.delta(self.name, self.otherwise)
        found = super().at(strength, context)
        assert isinstance(strength, Gaussian)  # or it has refused
        return replace(found, strength=Pure(strength.mu), delta=delta)

    @cached_property
    def mean(self) -> TruncatedMean:
        """The mean of a batch."""
        return TruncatedMean.build(self.epsilon, self.delta, "basic")

    @property
    def mu(self) -> float:
        """The strength of the noise on a mean."""
        return self.mean.noise.mu

    def cost(self) -> Cost:
        """Return the cost of one batch, and so of all."""
        return self.mean.cost()

    def width(self, d: int) -> int:
        """No more columns than asked for: the noise of a box grows with them."""
        return min(d, self.n_components)

    def fewest(self, d: int) -> int:
        """Return records of a batch that show anything."""
        return self.mean.needed_records(d * self.width(d))

    def first_batch(self, d: int) -> int:
        """Return the size of the first batch, which the histograms need as well."""
        return self.batch_size or max(OnePass.first_batch(self, d), self.fewest(d))

    def needed_records(self, d: int) -> int:
        """Fewest records that can be used."""
        return self.batch_size or self.table_records(d)

    def check_records(self, d: int, n: int | None, rows_each: int = 1) -> None:
        """Refuse batches too small, before anything is charged; a message counts rows."""
        if self.batch_size is not None and self.batch_size < self.fewest(d):
            raise InvalidParameterError(
                f"{self.name!r} needs batches of {self.fewest(d)} records at least for {d} "
                f"{plural('column', d)} at this budget: give a larger batch_size or a larger budget"
            )
        OnePass.check_records(self, d, n, rows_each)

    def advance(
        self,
        iterate: OnePassState,
        batch: Records,
        clip: Clip,
        gate: Gate,
        away: NDArray[np.float64] | None = None,
    ) -> OnePassState:
        """Use one batch, the trace on the way; what is left at the end of a stream is left out."""
        if iterate.steps and len(batch.records) < self.fewest(len(iterate.basis)):
            return iterate
        first, _ = halves(batch)
        if math.isnan(iterate.trace) and not first.holds_matrices and away is None:
            iterate = iterate.traced(self.mu, first, clip, gate)
        return self.step(iterate, batch, clip, gate, away)

    def step(
        self,
        iterate: OnePassState,
        batch: Records,
        clip: Clip,
        gate: Gate,
        away: NDArray[np.float64] | None = None,
    ) -> OnePassState:
        """Correct the estimate by one batch."""
        if away is None:
            away = np.empty((0, len(iterate.basis)))
        noisy = self.estimate(batch, clip, BasisProduct(iterate.basis), gate, away)
        correction = noisy.values - iterate.image
        return iterate.corrected(correction, noisy.deviation, batch, self.schedule)

    def estimate(
        self, batch: Records, clip: Clip, view: BasisProduct, gate: Gate, away: NDArray[np.float64]
    ) -> NoisyVector:
        """Noisy mean of AQ over a batch."""
        return self.mean.estimate(batch, clip, view, gate, away)


@dataclass(frozen=True, kw_only=True)
class BoxedOja(Boxed):
    """AdaDPO as it is printed, or with a Gaussian centre.

    Attributes
    ----------
    centre : {"mean", "histograms"}
        How the middle of the box is found; the paper has histograms.

    """

    name = "boxed-oja"
    about = "a paper's means in a box; many rows"
    source = "Düngler, Sanyal, Algorithm 2 (AdaDPO), as printed or with a Gaussian centre"
    otherwise = "adaptive-oja"
    unpredicted = "is not predicted: 'adaptive-oja' needs fewer rows"
    centre: Centre = "mean"

    def fewest(self, d: int) -> int:
        """Return records of a batch that show anything."""
        if self.centre == "mean":
            return 2 * self.mean.spread.needed_records
        return Boxed.fewest(self, d)

    def estimate(
        self, batch: Records, clip: Clip, view: BasisProduct, gate: Gate, away: NDArray[np.float64]
    ) -> NoisyVector:
        """Noisy mean of AQ over a batch."""
        if self.centre == "histograms":
            return Boxed.estimate(self, batch, clip, view, gate, away)
        first, second = halves(batch)
        width = root_spread(self.mean.spread.estimate(first, clip, view, gate, away), clip)
        rough, rest = (GaussianNoise(mu=mu) for mu in split(self.mu, (_ROUGH, 1 - _ROUGH)))
        centre = gate.draw(rough, update_sum(second, clip, view, gate.adjacency))
        about = replace(view, centre=centre.values - away.T @ (away @ centre.values))
        zeta = self.mean.spread.zeta
        return boxed_mean(rest, second, clip, about, gate, width, zeta, away, margin=centre.largest)
