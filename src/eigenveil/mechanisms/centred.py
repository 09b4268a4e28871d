r"""A covariance about a privately released centre.

A share of the budget buys a rough mean, started at a public point and kept inside the public
bounds; the rest goes to the inner procedure on rows about that mean. The cost is the
composition of the two, charged once before the first draw. What remains of the mean,
(m - c)(m - c)', stays in the second moment: it has rank one.

A tenth of mu^2 is enough: on the digits at epsilon = 1, shares from .1 to .2 capture .93 of the
variance, .05 and .3 less. Proof: docs/proofs/centred.md.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import count, total
from eigenveil.mechanisms.base import Gate, Procedure
from eigenveil.mechanisms.mean import PrivateMean
from eigenveil.numerics.pair_shares import PairShares
from eigenveil.privacy.accounting import compose
from eigenveil.privacy.cost import Cost
from eigenveil.rows.base import RowSource
from eigenveil.rows.derived import sampled

__all__ = [
    "CENTRE_SHARE",
    "Centred",
    "CentredResult",
    "Uncentred",
    "project_to_bounds",
]

CENTRE_SHARE = 0.1  # of mu^2, or of a pure epsilon

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, eq=False)
class CentredResult(Generic[Result]):
    """A released centre, and what was released about it.

    Attributes
    ----------
    centre : array
        NaN where there is none: differences of rows need none.
    centre_error : float
        Expected squared distance of the centre from the mean, in the units of what ``inner`` sees.
    noisy_count : float or None
        Number of rows, where that is private.
    inner
        What was released about the centre.
    scale : array, optional
        Of columns, where released.
    differences : bool
        Whether ``inner`` is about half differences of pairs of rows.
    present : array, optional
        Share of the cells of each column that ``inner`` saw, where released.
    pairs_present : PairShares, optional
        Shares of rows whose cells of two columns ``inner`` saw, where ``present`` is released.
    distance_error : float, optional
        ``centre_error`` in the units of scaled rows, where ``inner`` sees their directions.
    column_limit : float, optional
        How far from the centre ``inner`` saw entries, in the units of scaled rows.
    turn : array, optional
        Numbers of which any multiple may have to be added to the centre, where it is known up to
        them only; ``inner`` saw each entry moved by such a multiple to within half of it.
    drawn_rows : int, optional
        Number of rows drawn at random that ``inner`` saw, where that of the table is private; 0
        where a noisy count was too small for anything but zeros.
    unit_distance : float
        Distance from the centre, in the units of scaled rows, from which on ``inner`` saw rows at
        unit length; nearer ones were divided by it. Zero where it saw no directions, or all so.

    """

    centre: NDArray[np.float64]
    centre_error: float
    noisy_count: float | None
    inner: Result
    scale: NDArray[np.float64] | None = None
    differences: bool = False
    present: NDArray[np.float64] | None = None
    pairs_present: PairShares | None = None
    distance_error: float | None = None
    column_limit: float | None = None
    turn: NDArray[np.float64] | None = None
    drawn_rows: int | None = None
    unit_distance: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Centred(Generic[Result]):
    """First the mean, then ``inner`` about it. Fields are public, never data.

    ``fixed_centre`` keeps the public start as the centre: the first step then releases the
    count alone, which add/remove needs (sensitivity 1). ``sample``: share of the rows that
    the mean is taken of.
    """

    name: ClassVar[str] = "centred"
    mean: PrivateMean
    inner: Procedure[Result]
    row_norm: float
    fixed_centre: bool = False
    sample: float = 1.0

    def cost(self) -> Cost:
        """Return the cost of both steps, composed."""
        return compose(self.mean.cost(), self.inner.cost())

    def run(self, source: RowSource, start: Clip, gate: Gate) -> CentredResult[Result]:
        """Read the rows twice; ``start`` bounds them for the mean."""
        centre = np.zeros(source.n_columns) if start.centre is None else start.centre
        if self.fixed_centre:
            rough = gate.draw(self.mean, count(source, start))
        else:
            some = sampled(source, self.sample, gate.adjacency, gate.sample, start.check)
            query = total(some, start, gate.adjacency, valid=start.leaves_out)
            rough = gate.draw(self.mean, query)
            present = 1.0 if start.present is None else start.present
            centre = project_to_bounds(centre + rough.offset / present, start)
        added = rough.squared_error * (rough.count or 1.0)
        about = replace(start, row_norm=self.row_norm, centre=centre, centre_error=added)
        inner = self.inner.run(source, about, gate)
        return CentredResult(centre, rough.squared_error, rough.count, inner)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncentred(Generic[Result]):
    """``inner`` about the origin, for rows assumed centred. Fields are public, never data."""

    name: ClassVar[str] = "uncentred"
    inner: Procedure[Result]
    row_norm: float

    def cost(self) -> Cost:
        """Return the cost of the inner release."""
        return self.inner.cost()

    def run(self, source: RowSource, start: Clip, gate: Gate) -> CentredResult[Result]:
        """Read the rows about the origin."""
        inner = self.inner.run(source, replace(start, row_norm=self.row_norm), gate)
        return CentredResult(np.zeros(source.n_columns), 0.0, None, inner)


def project_to_bounds(point: NDArray[np.float64], start: Clip) -> NDArray[np.float64]:
    """Return the point of the public box, or else of the public ball, nearest to ``point``."""
    if start.box is not None:
        return np.clip(point, *start.box)
    length = float(np.linalg.norm(point))
    return point * (start.row_norm / length) if length > start.row_norm else point
