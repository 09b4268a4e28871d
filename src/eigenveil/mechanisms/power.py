r"""Power: passes over the whole table, each a noisy product with the current basis.

Source: Hardt, Price 2014, *The Noisy Power Method*; record-level noise as in Nicolas et al. 2024.

.. math:: Y_l = M Q_{l-1} + Z_l, \qquad Q_l = \mathrm{qr}(Y_l), \qquad l = 1, \dots, L,
          \qquad \mu^2 = \sum_l \mu_l^2

Nothing of the size d x d is formed, and the numerics are exact. Where such a matrix can be formed,
or lazy noise is good enough, `spherical` has about the same error in one read.
Proof: docs/proofs/power.md.

Differences from the source
---------------------------
1. Noise is calibrated to records, sqrt(2)/n in Frobenius norm for rows in the unit ball, whatever
   the number of columns; the passes are composed in mu, exactly.
2. A symmetric matrix of Frobenius norm 1 has a part outside Q of at most 1/sqrt(2). That part is
   scaled up before the noise and down after it, which halves the variance of what turns the basis.
3. More columns than are asked for, as in `one_pass`; they cost no noise.
4. After two passes the images are averaged: P, a mean of what was seen of MQ, moves with the basis,
   the leading eigenvectors of the estimate of M in `one_pass`. Without it the passes before the
   last one are lost, and every further pass adds to the loss.
5. The number of passes is fixed, and each has a quarter more of mu^2 than the one before: no
   spectrum need be known. Measured against fixed numbers of plain passes on the proof page.
"""

import math
from dataclasses import dataclass

import numpy as np

from eigenveil.exact.basis_products import BasisProduct, moment_columns, unscaled
from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import trace
from eigenveil.exceptions import InvalidDataError
from eigenveil.mechanisms.additive import GaussianNoise, PrivateTrace
from eigenveil.mechanisms.components import NoisyComponents
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.image_noise import ImageNoise
from eigenveil.mechanisms.one_pass import OnePassState
from eigenveil.mechanisms.registry import ComponentMechanism
from eigenveil.messages import option
from eigenveil.numerics.component_law import leading_statement
from eigenveil.numerics.spectral import eigenpairs_of_image, signed
from eigenveil.privacy.accounting import split
from eigenveil.rows.base import RowSource
from eigenveil.rows.derived import count_checked

_GROWTH = 1.25  # of mu^2 from pass to pass
_WARM = 2  # passes that only turn the basis
_TRACE_SHARE = 0.02  # of mu^2, where the trace is not public


@dataclass(frozen=True, kw_only=True)
class Power(ComponentMechanism):
    """Noisy products with a basis, pass after pass.

    Attributes
    ----------
    passes : int
        How often the rows are read.

    """

    name = "power"
    about = "noisy products with a basis, pass after pass"
    source = "noisy power method at record level: Hardt, Price 2014; Nicolas et al. 2024"
    tightens = True
    reads_once = False
    unit_rows = True
    forms_matrix = False
    passes: int = 10

    def width(self, d: int) -> int:
        """Return the number of columns of the basis."""
        return min(d, 2 * self.n_components + 10)

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> NoisyComponents:
        """Return the leading components about the centre of ``clip``."""
        if not source.rereadable:
            raise InvalidDataError(
                "'power' reads the rows several times, and these can be read once only: pass an "
                "array or a file, or choose ",
                option("mechanism", "oja"),
            )
        count_checked(source, clip.check)  # before anything is charged
        d = clip.width(source.n_columns)
        width = self.width(d)
        passes = 1 if width == d else self.passes  # all of M is seen at once
        basis = np.linalg.qr(gate.normals(d, width))[0]
        whole = clip.known_trace if gate.adjacency.count_is_public else math.nan
        for_trace = 0.0
        if math.isnan(whole):
            for_trace = _TRACE_SHARE
            step = PrivateTrace(noise=GaussianNoise(mu=split(self.mu, [for_trace])[0]))
            whole = gate.draw(step, trace(source, clip, gate.adjacency)).value
        growing = _GROWTH ** np.arange(passes)
        shares = (1 - for_trace) * growing / growing.sum()
        image, values = np.zeros_like(basis), np.zeros(width)
        weight = variance = 0.0
        for number, mu in enumerate(split(self.mu, shares.tolist())):
            view = BasisProduct(basis)
            query = moment_columns(source, clip, view, gate.adjacency)
            noisy = gate.draw(GaussianNoise(mu=mu), query)
            fresh = unscaled(view, noisy.values)
            if number < min(_WARM, passes - 1):
                basis = np.linalg.qr(fresh)[0]
                continue
            weight += mu**2
            image += mu**2 / weight * (fresh - image)
            variance = (noisy.deviation * mu) ** 2 / weight
            level = OnePassState(basis, image, whole).level
            basis, values = eigenpairs_of_image(basis, image, level, width)
            image = basis * values
        left = ImageNoise.even(variance / 2, d)
        return NoisyComponents(
            components=signed(basis[:, : self.n_components].T),
            eigenvalues=values[: self.n_components],
            trace=whole,
            noise_scale=math.sqrt(variance),
            law=None,
            reliability=left.reliability(basis, values, self.n_components, whole),
            floor=left.floor(width),
            single=leading_statement(
                values, basis.T, math.sqrt(variance), self.n_components, trace=whole
            ),
        )
