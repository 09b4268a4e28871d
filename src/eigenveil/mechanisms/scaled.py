r"""Columns of different units: a private scale for each, then a release on scaled columns.

.. math:: x_{ij} \mapsto x_{ij} / s_j, \qquad s_j \text{ from } `column-scale`

The scales are released first, from differences of pairs of rows, so that neither a centre nor a
bound is needed; what follows sees scaled columns only. A column without a scale is left out, and in
a covariance one whose variance cannot be told from noise is zero: post-processing.
Proof: docs/proofs/scaled.md.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np

from eigenveil.exact.clip import LARGEST_NORM, Clip
from eigenveil.exceptions import NothingFoundError
from eigenveil.mechanisms.base import Gate, Procedure
from eigenveil.mechanisms.centred import CentredResult
from eigenveil.mechanisms.columns import without_hidden
from eigenveil.mechanisms.covariance.gauss import NoisyMatrix
from eigenveil.mechanisms.scalars.column_scale import ColumnScale
from eigenveil.privacy.accounting import compose
from eigenveil.privacy.cost import Cost
from eigenveil.rows.base import RowSource
from eigenveil.rows.maps import ScaledSource

__all__ = ["Scaled"]

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled(Generic[Result]):
    """First the scales, then ``inner`` on scaled columns. Fields are public, never data.

    Attributes
    ----------
    scale : ColumnScale
        The scales.
    inner : Procedure
        What is released of scaled columns.
    hides : bool
        Whether that is a noisy matrix, and variances that its noise hides become zero.

    """

    name: ClassVar[str] = "scaled"
    scale: ColumnScale
    inner: Procedure[CentredResult[Result]]
    hides: bool = False

    def cost(self) -> Cost:
        """Return the cost of both steps, composed."""
        return compose(self.scale.cost(), self.inner.cost())

    def run(self, source: RowSource, start: Clip, gate: Gate) -> CentredResult[Result]:
        """Read the rows once more than ``inner``; its centre is in scaled units."""
        raw = Clip(
            row_norm=LARGEST_NORM,
            on_invalid=start.on_invalid,
            on_missing=start.on_missing,
            present=start.present,
        )
        scale = self.scale.run(source, raw, gate).scale
        if not np.isfinite(scale).any():
            raise NothingFoundError(
                "no column's scale stands out from the noise, and the budget is spent: give the "
                "scales, more rows or a larger budget"
            )
        about = start
        if start.present is not None and start.pairs_present is not None:
            kept = np.isfinite(scale)
            pairs = start.pairs_present.of_columns(kept)
            about = replace(start, present=start.present[kept], pairs_present=pairs)
        released = self.inner.run(ScaledSource(source, scale), about, gate)
        if released.present is None:
            released = replace(released, present=about.present, pairs_present=about.pairs_present)
        if self.hides:
            shown: Any = without_hidden(cast(NoisyMatrix, released.inner), released.centre_error)
            released = replace(released, inner=shown)
        return replace(released, scale=scale)
