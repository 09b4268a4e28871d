r"""SphericalPCA: leading directions of rows scaled to unit length about a centre; no bound needed.

.. math:: \hat V = \text{top-}k\Bigl(\frac1n \sum_i u_i u_i' + E\Bigr), \qquad
          u_i = \frac{x_i - c}{|x_i - c|}

The matrix is the spatial-sign covariance (Locantore et al. 1999). One row moves it by at most
sqrt(2)/n whatever the data are, so the noise is that of rows in the unit ball, and the clipping
that other mechanisms fear is a gain here: a row keeps its direction, and noise is measured against
a typical row instead of the longest.

It shares eigenvectors, and their order, with the covariance where the data are elliptical;
elsewhere it is a target of its own. Its eigenvalues are shares of variance of normalised rows, not
variances. Proof: docs/proofs/spherical.md.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from eigenveil.exact.clip import Clip
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.pca.analyze_gauss import AnalyzeGaussPCA
from eigenveil.mechanisms.pca.components import NoisyComponents
from eigenveil.mechanisms.registry import LazyEntry, Terms
from eigenveil.privacy.cost import Cost, Gaussian
from eigenveil.rows.base import RowSource

__all__ = ["ENTRY", "Spherical", "SphericalPCA", "directions"]


def directions(clip: Clip) -> Clip:
    """Return rows about the same centre, scaled to unit length."""
    return replace(clip, row_norm=1.0, normalise=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SphericalPCA:
    """`analyze-gauss` on directions of rows. Fields are public, never data."""

    name: ClassVar[str] = "spherical"
    mu: float
    n_components: int
    lazy: bool = False

    def cost(self) -> Cost:
        """Return the cost of the inner release."""
        return Gaussian(self.mu)

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyComponents:
        """Return the leading components about the centre of ``clip``, whose bound is not used."""
        inner = AnalyzeGaussPCA(mu=self.mu, n_components=self.n_components, lazy=self.lazy)
        return inner.run(source, directions(clip), gate)


class Spherical(LazyEntry):
    """Leading directions of a noisy second moment of unit rows."""

    name = "spherical"
    about = "the noisy second moment of unit rows"
    source = "`analyze-gauss` on unit rows; Kim, Jung 2025 have unit pairs of rows"
    allows_for_missing = True
    auto = "for wide tables"
    unit_rows = True
    uses_lengths = False
    typical_length = 1.0

    def gaussian(self, mu: float, terms: Terms) -> SphericalPCA:
        """Build the mechanism at a strength mu."""
        return SphericalPCA(mu=mu, n_components=terms.n_components, lazy=self.lazily(terms))


ENTRY = Spherical()
