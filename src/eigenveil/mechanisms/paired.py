r"""Directions without a centre: differences of pairs of rows.

.. math:: z_i = (x_{\pi(2i-1)} - x_{\pi(2i)})/2

The mean cancels, whatever it is, so no budget is spent on it and data far from the origin do no
harm. There are half as many differences as rows, and one replaced row replaces one of them: the
same sensitivity, half the signal, so in effect twice the noise. For few rows that is cheaper than a
centre. The pairing is random, secret and independent of the rows. Proof: docs/proofs/paired.md.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Generic, TypeVar

import numpy as np

from eigenveil.exact.clip import Clip
from eigenveil.mechanisms.base import Gate, Procedure
from eigenveil.mechanisms.centred import CentredResult
from eigenveil.privacy.cost import Cost
from eigenveil.rows.base import RowSource
from eigenveil.rows.derived import count_checked, paired

__all__ = ["Paired", "drawn_pairs"]

Result = TypeVar("Result")


def drawn_pairs(source: RowSource, clip: Clip, gate: Gate) -> tuple[RowSource, int]:
    """Return random pairs, and the number of rows or of persons that they are pairs of.

    Every row is first known to be one that ``clip`` accepts: drawing charges.
    """
    rows = count_checked(source, clip.check)
    sizes = source.unit_sizes
    pairs = paired(source, gate.adjacency, gate.order)
    return pairs, rows if sizes is None else len(sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired(Generic[Result]):
    """``inner`` on differences of rows. Fields are public, never data."""

    name: ClassVar[str] = "paired"
    inner: Procedure[Result]

    def cost(self) -> Cost:
        """Return the cost of the inner release."""
        return self.inner.cost()

    def run(self, source: RowSource, start: Clip, gate: Gate) -> CentredResult[Result]:
        """Read the differences as ``start`` says, about zero: centre and box are those of rows."""
        pairs, n = drawn_pairs(source, start, gate)
        present = None if start.present is None else start.present**2  # a cell of both rows
        pairs_present = None if start.pairs_present is None else start.pairs_present.squared()
        about = replace(start, centre=None, box=None, present=present, pairs_present=pairs_present)
        inner = self.inner.run(pairs, about, gate)
        gate.rows = n  # the inner release has counted pairs
        nowhere = np.full(source.n_columns, np.nan)
        return CentredResult(
            nowhere,
            0.0,
            None,
            inner,
            differences=True,
            present=present,
            pairs_present=pairs_present,
        )
