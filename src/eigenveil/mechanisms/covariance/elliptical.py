r"""Elliptical covariance: the shape from unit rows, the size from one number; no bound needed.

.. math:: \hat\Sigma = \hat T\, V \operatorname{diag}(\lambda) V', \qquad
          m(\lambda) = \text{cleaned eigenvalues of } \frac1n \sum_i u_i u_i' + E, \quad
          u_i = \frac{x_i - c}{|x_i - c|}

The second moment of rows scaled to unit length has noise measured against a typical row instead of
the longest, and where rows are elliptical (normal, or normal with lengths of any law) the
eigenvectors of the covariance; its eigenvalues m are inverted (`numerics/unit_rows.py`). T is the
mean squared distance from the centre, of rows clipped where noise and loss are least
(`distances`). Rows need not be elliptical: a third release, the second moment of clipped rows, is
drawn towards that estimate by as much as it cannot be told from it (`numerics/shrinkage.py`), so
that at a generous budget the covariance is that of the rows, whatever they are.
Proof: docs/proofs/elliptical.md.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from eigenveil.data.clip import LARGEST_NORM, Clip
from eigenveil.data.gram import second_moment, trace
from eigenveil.data.sources import RowSource
from eigenveil.exceptions import NothingFoundError
from eigenveil.mechanisms.additive import vector_noise
from eigenveil.mechanisms.base import Gate, Mechanism
from eigenveil.mechanisms.covariance.gauss import GaussCov, NoisyMatrix
from eigenveil.mechanisms.covariance.wishart import WishartCov
from eigenveil.mechanisms.ranged import clipping_radius, noise_rows
from eigenveil.mechanisms.registry import CovarianceEntry, Terms
from eigenveil.mechanisms.scalars.distances import (
    PrivateDistances,
    distance_share,
)
from eigenveil.mechanisms.scalars.trace import NoisyTrace, PrivateTrace
from eigenveil.numerics.shrinkage import drawn_towards, weight_of_noisy
from eigenveil.numerics.spectral import map_eigenvalues
from eigenveil.numerics.unit_rows import variance_shares
from eigenveil.privacy.accounting import compose, part
from eigenveil.privacy.cost import Allotment, Cost, Gaussian, Pure
from eigenveil.privacy.guarantee import Numerics
from eigenveil.wording import option

__all__ = ["ENTRY", "Elliptical", "EllipticalCov", "assembled"]

_TRACE_SHARE = 0.05
_CLIPPED_SHARE = 0.2  # of what distances and trace leave; unit rows have the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class EllipticalCov:
    """Distances, a size, unit rows, clipped rows. Fields are public, never data."""

    name: ClassVar[str] = "elliptical"
    distances: PrivateDistances
    size: PrivateTrace
    unit: Mechanism[NoisyMatrix]
    clipped: Mechanism[NoisyMatrix]
    allotment: Allotment  # of clipped rows

    @classmethod
    def build(cls, whole: Allotment, rows: int | None) -> Self:
        """Build it at a whole mu or epsilon; ``rows`` where their number is public."""
        search = distance_share(whole, rows)
        left = 1 - search - _TRACE_SHARE
        clipped = part(whole, left * _CLIPPED_SHARE)
        return cls(
            distances=PrivateDistances(noise=vector_noise(part(whole, search))),
            size=PrivateTrace(noise=vector_noise(part(whole, _TRACE_SHARE))),
            unit=_on_matrix(part(whole, left * (1 - _CLIPPED_SHARE))),
            clipped=_on_matrix(clipped),
            allotment=clipped,
        )

    @property
    def exact(self) -> bool:
        """Whether every draw has the ideal law; sums and distances always have."""
        return self.unit.exact and self.clipped.exact

    def cost(self) -> Cost:
        """Return the cost of all steps, composed."""
        steps: tuple[Any, ...] = (self.distances, self.size, self.unit, self.clipped)
        return compose(*(step.cost() for step in steps))

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyMatrix:
        """Read the rows about the centre of ``clip`` four times."""
        found = self.distances.run(source, clip, gate)
        if not found.found and clip.row_norm == LARGEST_NORM:
            raise NothingFoundError(
                "no distance of rows from their centre stood out, and the budget is spent: give "
                "more rows or a larger budget, or state ",
                option("row_norm"),
                " or ",
                option("bounds"),
                "; most rows may be equal",
            )
        d, adjacency = source.n_columns, gate.adjacency
        reach = clipping_radius(found, clip, self.size.rows)
        far = replace(clip, row_norm=reach)
        size = gate.draw(self.size, trace(source, far, adjacency))
        radius = clipping_radius(found, clip, noise_rows(self.allotment, d, adjacency))
        directions = replace(clip, row_norm=1.0, normalise=True)
        rows = gate.draw(self.unit, second_moment(source, directions, adjacency))
        bounded = replace(clip, row_norm=radius)
        noisy = gate.draw(self.clipped, second_moment(source, bounded, adjacency))
        inverse = found.mean_power(-2) if found.found else radius**-2
        return assembled(rows, noisy, size, clip.centre_error, inverse, radius)


def assembled(
    rows: NoisyMatrix,
    noisy: NoisyMatrix,
    size: NoisyTrace,
    centre_error: float,
    inverse: float,
    radius: float,
) -> NoisyMatrix:
    """Return the covariance that released numbers make: post-processing.

    Parameters
    ----------
    rows, noisy : NoisyMatrix
        Second moments of unit rows and of clipped rows.
    size : NoisyTrace
        The mean squared distance from the centre.
    centre_error : float
        What the error of the centre adds to it.
    inverse : float
        Mean of one over the squared distance.
    radius : float
        What rows were clipped at.

    """
    # Squared distances from a centre that is off are larger by what it is off by; a size that
    # cannot be told from noise is none.
    own = size.value - centre_error
    total = own if own > size.margin else 0.0
    assert rows.law is not None  # both are noisy
    assert noisy.law is not None
    # Under add/remove all are sums: of unit rows, that of their number.
    whole = max(float(np.trace(rows.matrix)), float(rows.law.deviation)) or 1.0
    cleaned = rows.cleaned(trace_bound=whole, spike=centre_error * inverse)
    target, _ = map_eigenvalues(cleaned.matrix, lambda values: total * _elliptical(values))
    matrix = drawn_towards(target, noisy.matrix, noisy.law.energy)
    positive, _ = map_eigenvalues(matrix, lambda values: np.maximum(values, 0.0))
    unit = max(own, size.margin) / whole
    weight = weight_of_noisy(target, noisy.matrix, noisy.law.energy)
    noise = math.hypot((1 - weight) * rows.noise_scale * unit, weight * noisy.noise_scale)
    values = cleaned.noisy_eigenvalues
    return NoisyMatrix(
        matrix=positive,
        noise_scale=noise,
        law=rows.law.scaled(unit),
        noisy_eigenvalues=None if values is None else values * unit,
        row_norm=radius,
    )


def _elliptical(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return eigenvalues of sum 1 for cleaned ones of unit rows; all alike where nothing stands
    out.
    """
    positive = np.maximum(values, 0.0)
    if not positive.any():
        return np.full_like(values, 1 / values.size)
    return variance_shares(positive / positive.sum())


def _on_matrix(allotment: Allotment) -> Mechanism[NoisyMatrix]:
    """Return the noise on a second moment, which is cleaned later."""
    if isinstance(allotment, Pure):
        return WishartCov(epsilon=allotment.epsilon, clean=False)
    return GaussCov(mu=allotment.mu)


class Elliptical(CovarianceEntry):
    """Unit rows give the shape, one number the size, clipped rows what is not elliptical."""

    name = "elliptical"
    about = "shape of unit rows, size from one number; no bounds"
    source = "unit rows inverted, clipped rows drawn towards them; new here"
    auto = "as a rule"
    pure_numerics = Numerics.IDEALISED  # noise on matrices is that of `wishart`
    reads_once = False
    unit_rows = True
    semidefinite = True

    def gaussian(self, mu: float, terms: Terms) -> EllipticalCov:
        """Build the mechanism at a strength mu."""
        return EllipticalCov.build(Gaussian(mu), terms.n_rows)

    def pure(self, epsilon: float, terms: Terms) -> EllipticalCov:
        """Build the mechanism at a strength epsilon."""
        return EllipticalCov.build(Pure(epsilon), terms.n_rows)


ENTRY = Elliptical()
