r"""AdaptiveOja: one-pass Oja whose noise follows how far the records are from what is expected.

Source: Düngler, Sanyal [kPCA], Algorithm 2 (AdaDPO), with PrivRange and TruncatedMean.

.. math:: r = \text{private quantile of } |A_i Q - P|_F, \qquad
          D = \frac1m \sum_i \mathrm{clip}_r(A_i Q - P) + Z

with Z of independent N(0, (2r/(m mu))^2) and P, Q as in `one_pass`. P is what earlier batches have
released, so a centre costs nothing; where records vary little about their mean, r and the noise
fall from batch to batch as P comes near it. Proof: docs/proofs/adaptive_oja.md.

Differences from the source
---------------------------
1. The centre is the released image P: no histogram for each of d k coordinates, whose shares of the
   budget make the source's method need huge tables.
2. The range is a quantile of distances in Frobenius norm, on a public scale, which some hundred
   records find. Records are pulled in to a ball and not to a box, which has sqrt(d k) times its
   half-width in every corner.
3. Both steps see the whole batch and are composed; the source halves it. Where a batch is too small
   for the quantile, its records are pulled in to their stated bound.
4. The learning rate is that of `one_pass`.

The source as it is printed is `boxed-oja`.

TangentOja: `adaptive-oja` until the components settle, then only what turns them.

Source: Düngler, Sanyal [kPCA], Algorithm 3 (TAdaDPO), warm-started by Algorithm 2 on disjoint
records.

.. math:: D = \frac1m \sum_i \mathrm{clip}_r\bigl((I - QQ') A_i Q\bigr) + Z, \qquad
          r = \text{private quantile of } |(I - QQ') A_i Q|_F

What A Q has inside Q changes coordinates, not the subspace, and varies most: near the answer the
tangent part is as small as what joins signal and noise. For rows in the unit ball its noise is
smaller by sqrt(2) whatever they are. Values and gaps stay those of the warm start.
Proof: docs/proofs/tangent_oja.md.

Differences from the source: those of `adaptive-oja`; and the warm start ends when released
directions stay where they are, not after a number of records that the spectrum decides.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar

from eigenveil.exact.basis_products import BasisProduct
from eigenveil.exact.batches import Records
from eigenveil.exact.clip import NO_EXPONENT, Clip
from eigenveil.exact.updates import REACH, centre_rounding, update_counts, update_sum
from eigenveil.exceptions import NothingFoundError
from eigenveil.mechanisms.additive import GaussianNoise
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.median_of_means import PrivateQuantile
from eigenveil.mechanisms.one_pass import OnePass, OnePassState
from eigenveil.mechanisms.registry import NOT_AN_OPTION
from eigenveil.messages import option
from eigenveil.privacy.accounting import compose
from eigenveil.privacy.cost import Cost, Gaussian

_RANGE = 0.25  # epsilon of the quantile over mu: a sixteenth of mu^2
_SCALES = 16.0  # of the search's noise: what a bracket beyond all records should miss

_MOST_DOUBT = 3.0  # about the image, over the variance of its noise, with which its values stay


@dataclass(frozen=True, kw_only=True)
class AdaptiveOja(OnePass):
    """Private Oja whose noise follows how far records lie from what is expected.

    Its strength is that of the means, ``search`` the epsilon of the quantile.
    """

    name = "adaptive-oja"
    about = "oja, at ranges found privately"
    source = "Düngler, Sanyal, Algorithm 2 (AdaDPO), about the released image"
    streams = True
    level: ClassVar[float] = 0.75  # of the quantile; lower where records are few

    search: float = field(default=0.0, repr=False, metadata=NOT_AN_OPTION)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strength is not None and not self.search:  # it stays where a mean gets less
            object.__setattr__(self, "search", _RANGE * self.mu)

    def cost(self) -> Cost:
        """Return the cost of both steps on one batch, and so on all."""
        return compose(Gaussian(self.mu), self._quantile(1).cost())

    def first_batch(self, d: int) -> int:
        """Enough for the quantile, too."""
        return self.batch_size or max(OnePass.first_batch(self, d), self._enough)

    @property
    def _enough(self) -> int:
        """Records that a median needs."""
        return math.ceil(4 * _SCALES / self.search)

    def _quantile(self, records: int) -> PrivateQuantile:
        level = min(self.level, max(0.5, 1 - 2 * _SCALES / (records * self.search)))
        return PrivateQuantile(epsilon=self.search, level=level)

    def view(self, iterate: OnePassState) -> BasisProduct:
        """Return what a step looks at."""
        return BasisProduct(iterate.basis, iterate.expected, weighted=True)

    def step(self, iterate: OnePassState, batch: Records, clip: Clip, gate: Gate) -> OnePassState:
        """Correct the estimate by one batch."""
        view = self.view(iterate)
        radius = self._radius(batch, clip, view, gate)
        query = update_sum(batch, clip, view, gate.adjacency, radius)
        noisy = gate.draw(GaussianNoise(mu=self.mu), query)
        values = view.restored(noisy.values - centre_rounding(batch, clip, view))
        if view.centre is not None:  # which leaves out what may be noise
            values += view.centre - iterate.image
        return iterate.corrected(values, noisy.deviation, batch, self.schedule)

    def _radius(self, batch: Records, clip: Clip, view: BasisProduct, gate: Gate) -> float:
        size = len(batch.records)
        if size < self._enough:
            return REACH * clip.radius**2
        counts = update_counts(batch, clip, view, gate.adjacency)
        found = gate.draw(self._quantile(size), counts)
        if found == NO_EXPONENT:
            raise NothingFoundError(
                "no distance of records from their mean was found, and the budget is spent: "
                "choose ",
                option("mechanism", "oja"),
                " where most are equal, or state a bound nearer to their size",
            )
        return float(counts.unit * 2.0 ** (-found / 2))


class TangentOja(AdaptiveOja):
    """`adaptive-oja` until components settle, then only what turns them."""

    proof: ClassVar[str] = "tangent_oja"
    name = "tangent-oja"
    about = "adaptive-oja, then tangent steps"
    source = "Düngler, Sanyal, Algorithm 3 (TAdaDPO)"
    streams = True
    level: ClassVar[float] = 0.9

    def view(self, iterate: OnePassState) -> BasisProduct:
        """Tangent once the basis has been narrowed, unless the values are in doubt.

        They are where rows are clipped farther out than before.
        """
        d, columns = iterate.basis.shape
        settled = columns == self.n_components < self.width(d)
        if settled and not _MOST_DOUBT * iterate.noise_variance < iterate.doubt < math.inf:
            return BasisProduct(iterate.basis, tangent=True)
        return AdaptiveOja.view(self, iterate)
