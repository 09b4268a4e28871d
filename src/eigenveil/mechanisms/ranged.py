r"""A private bound on rows, and what is released of rows clipped at it.

.. math:: R = f \times \text{private quantile of } |x_i - c|

about the centre c in use, public or released: for mechanisms that clip, where no bound is known.
Rows beyond R are pulled in to it. The quantile is found on a public scale of powers of sqrt(2) from
1e50 down; a bound stated beforehand holds as well. Its level and f follow from public numbers.
Proof: docs/proofs/ranged.md.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from eigenveil.data.clip import LARGEST_NORM, SMALLEST_NORM, Clip
from eigenveil.data.sources import RowSource
from eigenveil.exceptions import NothingFoundError
from eigenveil.mechanisms.additive import Allotment, part
from eigenveil.mechanisms.base import Gate, Procedure
from eigenveil.mechanisms.centred import clip_at_private_quantile
from eigenveil.mechanisms.scalars.quantile import PrivateQuantile
from eigenveil.privacy.accounting import compose
from eigenveil.privacy.cost import Cost, Pure
from eigenveil.wording import option

__all__ = ["RADIUS_SHARE", "PrivateRadiusClip"]

RADIUS_SHARE = 0.1  # of mu^2, or of a pure epsilon
_LEVEL = 0.75  # of the quantile; lower where rows are few
_SCALES = 16.0  # of the search's noise: what a bracket beyond all rows should miss
_NOISE = 0.05  # what rows far beyond the others may add to the noise, as a share of the covariance
_MOST = 8.0  # times the quantile


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateRadiusClip:
    """First a bound, then ``inner`` on rows clipped at it. Fields are public, never data.

    ``inner`` releases something with a field ``row_norm``, which is set where it is None.
    """

    name: ClassVar[str] = "ranged"
    distance: PrivateQuantile
    inner: Procedure[Any]
    factor: float = 1.0

    @classmethod
    def build(
        cls,
        whole: Allotment,
        rows: int | None,
        inner: Procedure[Any],
        *,
        columns: int | None = None,
    ) -> Self:
        """At its share of ``whole``; ``rows`` where their number is public.

        The level is the highest, up to 0.75, that the share finds reliably. ``columns`` is given
        where variances count, which may rest on a few far rows: R then reaches farther, as far as
        noise allows. That of the matrix is about R^2 d/(n mu), or R^2 d^1.5/(n epsilon), beside a
        covariance of R^2/sqrt(d) at least.
        """
        radius = part(whole, RADIUS_SHARE)
        epsilon = radius.epsilon if isinstance(radius, Pure) else radius.mu
        if rows is None:
            return cls(distance=PrivateQuantile(epsilon=epsilon, level=_LEVEL), inner=inner)
        level = min(_LEVEL, max(0.5, 1 - 2 * _SCALES / (rows * epsilon)))
        epsilon = min(epsilon, 2 * _SCALES / (rows * (1 - level)))
        distance = PrivateQuantile(epsilon=epsilon, level=level)
        if columns is None:
            return cls(distance=distance, inner=inner)
        strength, power = (whole.epsilon, 2.0) if isinstance(whole, Pure) else (whole.mu, 1.5)
        room = _NOISE * rows * strength / columns**power
        factor = min(_MOST, math.sqrt(max(1.0, room)))
        return cls(distance=distance, inner=inner, factor=factor)

    def cost(self) -> Cost:
        """Both steps, composed."""
        return compose(self.distance.cost(), self.inner.cost())

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> Any:
        """Read the rows about the centre of ``clip``, once more than ``inner`` does."""
        found = clip_at_private_quantile(source, clip, self.distance, gate).row_norm
        if found in (SMALLEST_NORM, LARGEST_NORM):
            raise NothingFoundError(
                "no distance of rows from their centre was found, and the budget is spent: state ",
                option("row_norm"),
                " or ",
                option("bounds"),
                ", or give more rows or a larger budget; most rows may be equal",
            )
        radius = min(clip.row_norm, self.factor * found)
        released = self.inner.run(source, replace(clip, row_norm=radius), gate)
        return replace(released, row_norm=radius) if released.row_norm is None else released
