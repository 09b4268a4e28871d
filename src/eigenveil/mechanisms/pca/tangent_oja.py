r"""TangentOjaPCA: `adaptive-oja` until the components settle, then only what turns them.

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
from dataclasses import dataclass
from typing import ClassVar

from eigenveil.data.basis_product import BasisProduct
from eigenveil.mechanisms.pca.adaptive_oja import AdaptiveOjaPCA
from eigenveil.mechanisms.pca.one_pass import OnePassEntry, OnePassState
from eigenveil.mechanisms.registry import Terms

__all__ = ["ENTRY", "TangentOja", "TangentOjaPCA"]

_MOST_DOUBT = 3.0  # about the image, over the variance of its noise, with which its values stay


@dataclass(frozen=True, slots=True, kw_only=True)
class TangentOjaPCA(AdaptiveOjaPCA):
    """Tangent updates after a warm start. Fields are public, never data."""

    name: ClassVar[str] = "tangent-oja"
    # Values of the warm start decide how long later steps are: records are pulled in less.
    level: ClassVar[float] = 0.9

    def view(self, iterate: OnePassState) -> BasisProduct:
        """Tangent once the basis has been narrowed, unless the values are in doubt.

        They are where rows are clipped farther out than before.
        """
        d, columns = iterate.basis.shape
        settled = columns == self.n_components < self.width(d)
        if settled and not _MOST_DOUBT * iterate.noise_variance < iterate.doubt < math.inf:
            return BasisProduct(iterate.basis, tangent=True)
        return AdaptiveOjaPCA.view(self, iterate)


class TangentOja(OnePassEntry):
    """`adaptive-oja` until components settle, then only what turns them."""

    name = "tangent-oja"
    about = "adaptive-oja, then tangent steps"
    source = "Düngler, Sanyal, Algorithm 3 (TAdaDPO)"
    streams = True

    def gaussian(self, mu: float, terms: Terms) -> TangentOjaPCA:
        """Build the mechanism at a strength mu."""
        return TangentOjaPCA.build(
            mu, terms.n_components, batch_size=self.batch_size, schedule=self.schedule
        )


ENTRY = TangentOja()
