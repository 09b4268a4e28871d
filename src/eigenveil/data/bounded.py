"""A statistic whose sensitivity travels with it."""

import math
from dataclasses import dataclass
from typing import Literal

from eigenveil.exceptions import InvalidParameterError
from eigenveil.numerics.fixedpoint import FixedPoint
from eigenveil.privacy.adjacency import Adjacency

__all__ = ["Bounded"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bounded:
    """A sum over rows scaled to the unit ball, and how far one row can move it.

    Attributes
    ----------
    value : FixedPoint
        The exact sum. Private.
    sensitivity : float
        Largest distance between the values of neighbouring tables, rounded up.
    norm : {"frobenius", "l2"}
        The norm of that distance.
    adjacency : Adjacency
        The neighbours it refers to.
    unit : float
        Public factor from the sum to what the caller asked for, applied after the noise.
    count : int or None
        Number of rows, where it is public.
    exact : bool
        Whether the sum is free of rounding error.
    spike : float
        Size of the rank-one term that the error of a released centre is expected to add, in the
        units of what the caller asked for. Public.

    """

    value: FixedPoint
    sensitivity: float
    norm: Literal["frobenius", "l2"]
    adjacency: Adjacency
    unit: float
    count: int | None
    exact: bool
    spike: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.sensitivity) and self.sensitivity > 0):
            raise InvalidParameterError("a sensitivity must be positive and finite")

    @property
    def trace_bound(self) -> float:
        """Public bound on the trace of a second moment: tr S <= R^2 for the mean of n rows.

        The sum over an unknown number of rows has none.
        """
        return math.inf if self.count is None else self.unit * self.count

    def __repr__(self) -> str:  # the value is private: it must not reach a log or a traceback
        return (
            f"Bounded(shape={self.value.units.shape}, sensitivity={self.sensitivity!r}, "
            f"norm={self.norm!r}, adjacency={self.adjacency.value!r})"
        )
