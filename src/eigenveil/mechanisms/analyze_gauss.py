r"""Components of a noisy second moment: of clipped rows, of unit rows, and at a pure epsilon.

`AnalyzeGauss`.

Source: Dwork, Talwar, Thakurta, Zhang 2014, Algorithm 1 ("Analyze Gauss"); DP-Gauss-1 in
Düngler, Sanyal [kPCA].

.. math:: \hat V = \text{top-}k\,(S + E), \quad E \text{ as in GaussCov}

Differences from the source
---------------------------
1. The noise is that of GaussCov: isotropic, exactly calibrated, exactly sampled.
2. Rows are clipped to a public bound; the source assumes unit rows.
3. The source releases the subspace of a sum over rows. Here the eigenvalues and the trace of the
   noisy matrix leave too (post-processing), divided by n where n is public.
4. On wide tables the noise is drawn lazily: products with blocks of columns have the law of
   products with one noisy matrix that is never formed. Floating point: idealised numerics.
5. The source does not centre. `PrivatePCA` runs this about a private mean (`centred.py`) unless
   told otherwise.

`Spherical`, of unit rows:

.. math:: \hat V = \text{top-}k\Bigl(\frac1n \sum_i u_i u_i' + E\Bigr), \qquad
          u_i = \frac{x_i - c}{|x_i - c|}

The matrix is the spatial-sign covariance (Locantore et al. 1999). One row moves it by at most
sqrt(2)/n whatever the data are, so the noise is that of rows in the unit ball, and the clipping
that other mechanisms fear is a gain here: a row keeps its direction, and noise is measured against
a typical row instead of the longest.

It shares eigenvectors, and their order, with the covariance where the data are elliptical;
elsewhere it is a target of its own. Its eigenvalues are shares of variance of normalised rows, not
variances. Proof: docs/proofs/spherical.md.

`Wishart`, at a pure epsilon:

.. math:: \hat V = \text{top-}k\,(S + W_1 - W_2), \quad W_1, W_2 \text{ as in WishartCov}

New here, like the noise. Any clip that bounds rows will do; directions gain where it normalises
them. The eigenvalues are those of the noisy matrix, not cleaned.
Proof: docs/proofs/wishart.md.

The noise is sampled in floating point: idealised numerics.
"""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import second_moment
from eigenveil.exact.products import MomentProducts, moment_products
from eigenveil.exact.symmetric import GaussianLaw, LazyGaussian
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.components import NoisyComponents, leading, negligible, reliability
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.gauss import GaussCov
from eigenveil.mechanisms.registry import ComponentMechanism, LazyMechanism
from eigenveil.mechanisms.wishart import WishartCov
from eigenveil.numerics.array_backend import Place
from eigenveil.numerics.component_law import leading_statement
from eigenveil.numerics.random import NoiseSource
from eigenveil.numerics.spectral import block_krylov, max_krylov_columns
from eigenveil.privacy.calibrate import noise_scale
from eigenveil.privacy.guarantee import Numerics
from eigenveil.rows.base import RowSource


class AnalyzeGauss(LazyMechanism):
    """Leading directions of a noisy second moment of clipped rows."""

    name = "analyze-gauss"
    about = "the noisy covariance"
    source = "Dwork, Talwar, Thakurta, Zhang 2014, Algorithm 1 (DP-Gauss-1)"
    allows_for_missing = True
    tightens = True
    auto = "with `row_norm` or a generous budget"
    typical_length = 0.7**2  # rows a little inside a length that is stated as such

    @property
    def exact(self) -> bool:
        """The dense noise is on a lattice, the lazy one is not."""
        return not self.lazy

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyComponents:
        """Draw once on the second moment of the rows."""
        if self.lazy:
            return gate.draw(self, moment_products(source, clip, gate.adjacency))
        noisy = gate.draw(GaussCov(mu=self.mu), second_moment(source, clip, gate.adjacency))
        return leading(noisy.allowing_for(clip.pairs_present), self.n_components)

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyComponents:
        """Return the leading components of the noisy second moment."""
        if self.lazy:
            return self._from_products(query, noise)
        return leading(GaussCov(mu=self.mu).perturb(query, noise), self.n_components)

    def _from_products(self, query: Bounded, noise: NoiseSource) -> NoisyComponents:
        if not isinstance(query, MomentProducts):
            raise InvalidParameterError("lazy noise needs moment_products, not a matrix")
        d = query.value.units.size
        scale = noise_scale(query.sensitivity("frobenius"), self.mu)
        noise = noise.bound_to(query.fingerprint)  # the diagonal does not tell all tables apart
        columns = min(max_krylov_columns(self.n_components), d)
        place = query.place
        lazy = LazyGaussian(d, scale, noise, columns=columns, place=place)
        law = GaussianLaw(d, scale)
        asked: list[Any] = []

        def product(block: Any) -> Any:
            image = query.times(block) + lazy.times(block)
            if not asked:
                asked.extend((block, image))
            return image

        values, vectors, _ = block_krylov(
            product,
            place.normals(noise, (d, min(self.n_components // 2 + 2, d))),
            self.n_components,
            negligible(law),
            columns=columns,
            drowned=law.edge,
            place=place,
        )
        energy = float(values @ values) + _energy_beside(place, vectors, *asked)
        law = law.scaled(query.unit)
        values *= query.unit
        energy *= query.unit**2
        trace = (query.trace + lazy.trace()) * query.unit
        return NoisyComponents(
            components=vectors,
            eigenvalues=values,
            trace=trace,
            noise_scale=law.scale,
            law=law,
            reliability=reliability(values, trace, law, energy),
            energy=energy,
            single=leading_statement(
                values, vectors, law.scale, len(values), trace=trace, energy=energy
            ),
        )


def _energy_beside(place: Place, components: NDArray[np.float64], block: Any, image: Any) -> float:
    """Return the squared Frobenius norm of a matrix off its eigenvectors, from its image of random
    columns.
    """
    others = components.shape[1] - len(components)
    vectors = place.there(components)
    block = block - vectors.T @ (vectors @ block)
    image = image - vectors.T @ (vectors @ image)
    seen = place.inner(block, block)
    return place.inner(image, image) * others / seen if others and seen else 0.0


def directions(clip: Clip) -> Clip:
    """Return rows about the same centre, scaled to unit length."""
    return replace(clip, row_norm=1.0, normalise=True)


class Spherical(AnalyzeGauss):
    """Leading directions of a noisy second moment of unit rows."""

    proof: ClassVar[str] = "spherical"
    name = "spherical"
    about = "the noisy second moment of unit rows"
    source = "`analyze-gauss` on unit rows; Kim, Jung 2025 have unit pairs of rows"
    tightens = False
    auto = "for wide tables"
    unit_rows = True
    uses_lengths = False
    typical_length = 1.0

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyComponents:
        """Return the leading components about the centre of ``clip``, whose bound is not used."""
        return super().run(source, directions(clip), gate)


class WishartComponents(ComponentMechanism):
    """Leading directions under two-sided Wishart noise, for a pure epsilon."""

    proof: ClassVar[str] = "wishart"
    name = "wishart"
    about = "two-sided Wishart noise"
    source = "two-sided Wishart noise on unit or clipped rows; new here"
    allows_for_missing = True
    tightens = True
    auto = "for epsilon alone"
    has_gaussian = False
    has_pure = True
    numerics = Numerics.IDEALISED
    unit_rows = True
    exact: ClassVar[bool] = False

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyComponents:
        """Draw once on the second moment of the rows."""
        matrix = WishartCov(epsilon=self.epsilon, clean=False)
        noisy = gate.draw(matrix, second_moment(source, clip, gate.adjacency))
        return leading(noisy.allowing_for(clip.pairs_present), self.n_components)

    def perturb(self, query: Bounded, noise: NoiseSource) -> NoisyComponents:
        """Return the leading components of the noisy second moment."""
        noisy = WishartCov(epsilon=self.epsilon, clean=False).perturb(query, noise)
        return leading(noisy, self.n_components)
