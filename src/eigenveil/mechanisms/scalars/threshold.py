r"""Clipping threshold: where the bias of clipping rows meets the noise it saves.

Source: Dong, Liang, Yi 2022 [CovRev], Algorithm 2, lines 1 to 6, and section 5.2.

1. a private radius r bounds the rows;
2. a private trace of the rows clipped at r bounds the noise of SeparateCov;
3. a sparse vector search over tau = r, r/2, r/4, ... stops where a bound on the bias,

   .. math:: \sum_{s} \mathrm{Count}_s\,(2^{s+1} - \tau^2)_+, \quad
             \mathrm{Count}_s = |\{i : 2^s \le \|x_i\|^2 < 2^{s+1}\}|,

   exceeds the noise :math:`\min(\tau^2 F, 2\tau\sqrt{T\,O} + \tau^2 V)`: F and O bound the
   Frobenius and operator norm of the noise on the matrix, V the noise on the eigenvalues, and T the
   sum of squared norms. One step back is the answer. Proof: docs/proofs/threshold.md.

Differences from the source
---------------------------
1. The search ends after 64 halvings or at the smallest normal float, not at 2^{-dn}: by then the
   noise is below 2^-128 of what it was.
2. Rows are counted in brackets of width sqrt(2), not 2, which bounds the bias more closely.
3. Everything is written for sums, so that nothing is divided by a private number of rows.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import NO_EXPONENT, SMALLEST_NORM, Clip
from eigenveil.exact.gram import trace
from eigenveil.exact.histograms import norm_counts, weighted_counts
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.scalars.radius import PrivateRadius
from eigenveil.mechanisms.scalars.sparse_vector import SparseVector
from eigenveil.mechanisms.scalars.trace import PrivateTrace
from eigenveil.numerics.integers import FixedPoint, add, whole
from eigenveil.privacy.accounting import compose
from eigenveil.privacy.cost import Cost
from eigenveil.rows.base import RowSource

__all__ = ["ClippingThreshold", "NoiseBound"]

_HALVINGS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseBound:
    """Public bounds on the noise of what is released at the threshold, for rows in a unit ball."""

    frobenius: float
    operator: float
    values: float

    def at(self, tau: float, squares: float) -> float:
        """Return noise of the better of GaussCov and SeparateCov for rows clipped at ``tau``."""
        separate = 2 * tau * math.sqrt(squares * self.operator) + tau**2 * self.values
        return min(tau**2 * self.frobenius, separate)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippingThreshold:
    """A bound on row norms, chosen privately. Fields are public, never data."""

    name: ClassVar[str] = "threshold"
    radius: PrivateRadius
    trace: PrivateTrace
    search: SparseVector
    noise: NoiseBound

    def cost(self) -> Cost:
        """Return the cost of all three steps, composed."""
        return compose(self.trace.cost(), self.radius.cost(), self.search.cost())

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> float:
        """Return the threshold in the caller's units; reads the rows twice."""
        counts = norm_counts(source, clip, gate.adjacency)
        start = gate.draw(self.radius, counts)
        radius = max(clip.row_norm * 2.0 ** (-start / 2), SMALLEST_NORM)
        squares = trace(source, replace(clip, row_norm=radius), gate.adjacency)
        upper = gate.draw(self.trace, squares).upper / squares.unit
        halvings = gate.draw(self.search, self._balance(counts, start, upper))
        # The first threshold with too much bias; the one before it is the answer.
        return max(math.ldexp(radius, -max(halvings - 1, 0)), SMALLEST_NORM)

    def _balance(self, counts: Bounded, start: int, squares: float) -> Bounded:
        """Bias minus noise at r, r/2, ..., in units of r^2: one row moves each by at most 1."""
        steps = min((NO_EXPONENT - start) // 2, _HALVINGS)
        taus = 2.0 ** -np.arange(steps)
        # Rows beyond the radius are clipped to it; those at the centre have no bias.
        sizes = 2.0 ** (-np.maximum(np.arange(NO_EXPONENT + 1) - start, 0.0) / 2)
        sizes[-1] = 0.0
        weights = np.maximum(sizes**2 - taus[:, None] ** 2, 0.0)
        bias = weighted_counts(counts, weights)
        noise = [self.noise.at(float(tau), squares) for tau in taus]
        most = max(2.0**28, 2.0 * (counts.count or 0))  # more rows than there are
        units = whole(np.ceil(np.ldexp(np.minimum(noise, most), -bias.value.exponent)))
        return replace(bias, value=FixedPoint(add(bias.value.units, -units), bias.value.exponent))
