r"""A private bound on rows, and what is released of rows clipped at it.

.. math:: R = \arg\min_r \; \nu r^2 + \frac1n \sum_i (|x_i - c|^2 - r^2)_+

about the centre c in use, public or released: for mechanisms that clip, where no bound is known or
a stated one may be generous. The distances come from one noisy histogram (`distances`); the first
term is the noise that a mechanism adds, the second what clipping takes, and both follow from public
numbers and released counts. At a generous budget R lies beyond all rows. A bound that was stated
holds as well. Proof: docs/proofs/ranged.md.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from eigenveil.exact.clip import LARGEST_NORM, Clip
from eigenveil.exact.gram import moment_sensitivities
from eigenveil.exact.symmetric import GaussianLaw
from eigenveil.exceptions import NothingFoundError
from eigenveil.mechanisms.base import Gate, Procedure
from eigenveil.mechanisms.scalars.distances import (
    NoisyDistances,
    PrivateDistances,
)
from eigenveil.privacy.accounting import compose
from eigenveil.privacy.adjacency import Adjacency
from eigenveil.privacy.cost import Allotment, Cost, Pure
from eigenveil.rows.base import RowSource
from eigenveil.wording import option

__all__ = ["CLEANED", "PrivateRadiusClip", "clipping_radius", "noise_rows"]

CLEANED = 0.25  # what cleaning, and shrinking towards a target, leave of the noise, about


def noise_rows(whole: Allotment, columns: int, adjacency: Adjacency) -> float:
    """Return the noise on a matrix as a number of rows on the sphere that would move it as much."""
    if isinstance(whole, Pure):  # two-sided Wishart noise
        nuclear = moment_sensitivities(columns, adjacency)["nuclear"]
        return CLEANED * nuclear * math.sqrt(columns**3 / 2) / whole.epsilon
    frobenius = moment_sensitivities(columns, adjacency)["frobenius"]
    law = GaussianLaw(columns, frobenius / whole.mu)
    energy: float = law.energy
    return CLEANED * math.sqrt(energy)


def clipping_radius(
    found: NoisyDistances, clip: Clip, rows: float, records: float | None = None
) -> float:
    """Return where rows are best clipped, within a stated bound; ``rows``: what noise weighs.

    It is weighed against ``records``, by default those whose distances were found. Where none was
    found, the stated bound is used.
    """
    if not found.found:
        return clip.row_norm
    radius = found.clipping(rows / max(1.0, found.rows if records is None else records), 2)
    return min(clip.row_norm, LARGEST_NORM, radius)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateRadiusClip:
    """First a bound, then ``inner`` on rows clipped at it. Fields are public, never data.

    Attributes
    ----------
    distances : PrivateDistances
        The search.
    inner : Procedure
        It releases something with a field ``row_norm``, which is set where it is None.
    rows : float
        What the noise of ``inner`` weighs, in rows: see `noise_rows`.

    """

    name: ClassVar[str] = "ranged"
    distances: PrivateDistances
    inner: Procedure[Any]
    rows: float

    def cost(self) -> Cost:
        """Return the cost of both steps, composed."""
        return compose(self.distances.cost(), self.inner.cost())

    def run(self, source: RowSource, clip: Clip, gate: Gate) -> Any:
        """Read the rows about the centre of ``clip``, once more than ``inner`` does."""
        found = self.distances.run(source, clip, gate)
        if not found.found and clip.found_norm is not None:
            clip = replace(clip, row_norm=min(clip.row_norm, clip.found_norm))
        if not found.found and clip.row_norm == LARGEST_NORM:
            raise NothingFoundError(
                "no distance of rows from their centre stood out, and the budget is spent: state ",
                option("row_norm"),
                " or ",
                option("bounds"),
                ", or give more rows or a larger budget; most rows may be equal",
            )
        radius = clipping_radius(found, clip, self.rows)
        released = self.inner.run(source, replace(clip, row_norm=radius), gate)
        return replace(released, row_norm=radius) if released.row_norm is None else released
