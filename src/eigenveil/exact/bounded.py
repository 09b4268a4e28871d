"""A statistic whose sensitivity travels with it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eigenveil.exceptions import InvalidParameterError
from eigenveil.numerics.integers import FixedPoint
from eigenveil.privacy.adjacency import ROW, Adjacency, Unit
from eigenveil.rows.base import Schema, Units

Norm: TypeAlias = Literal["frobenius", "nuclear", "l1", "l2", "linf"]


class Whose(Protocol):
    """Rows, or other records, that know their owners and their positions."""

    units: Units
    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bounded:
    """A sum over rows scaled to the unit ball, and how far one row can move it.

    Statistics of rows are made by `over`.

    Attributes
    ----------
    value : FixedPoint
        The exact sum. Private.
    sensitivities : mapping from norm to float
        Largest distance between the values of neighbouring tables, rounded up, in each norm
        that has a bound. For a symmetric matrix "l1" is that of the upper triangle.
    adjacency : Adjacency
        The neighbours it refers to.
    protects : Unit
        What they differ in: one row, or all rows of one person.
    unit : float
        Public factor from the sum to what the caller asked for, applied after the noise.
    count : int or None
        Number of rows, or of persons who may own several, where it is public.
    exact : bool
        Whether the sum is free of rounding error.
    centre_error : float
        Size of the rank-one term that the error of a released centre is expected to add, in the
        units of what the caller asked for. Public.
    trace_bound : float
        Public bound on the trace of a second moment, in the same units; infinite where the
        number of rows is private. Used after the noise only.
    records : range or None
        Positions of the records that it is a sum over; None for the whole table.
    counts_valid : bool
        Whether the last entry counts the rows that hold numbers.
    bins : array or None
        Which of very many bins the counts in ``value`` are of; empty ones are left out. Private.

    """

    value: FixedPoint
    sensitivities: Mapping[Norm, float]
    adjacency: Adjacency
    unit: float
    count: int | None
    exact: bool
    centre_error: float = 0.0
    trace_bound: float = math.inf
    protects: Unit = ROW
    records: range | None = None
    counts_valid: bool = False
    bins: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        for bound in self.sensitivities.values():
            if not (math.isfinite(bound) and bound > 0):
                raise InvalidParameterError("a sensitivity must be positive and finite")

    @classmethod
    def over(cls, rows: Whose, **fields: Any) -> Self:
        """Return a statistic of these rows, which say themselves whose they are, and which."""
        schema = rows.schema
        statistic = cls(protects=rows.units.protects, records=schema.records, **fields)
        table = schema.stands_for
        return statistic if table is None else table.whole(statistic)

    def sensitivity(self, norm: Norm) -> float:
        """Return how far one row can move the value in ``norm``."""
        try:
            return self.sensitivities[norm]
        except KeyError:
            raise InvalidParameterError(
                f"this statistic has no bound in the {norm} norm, which the mechanism needs"
            ) from None

    def __repr__(self) -> str:  # the value is private: it must not reach a log or a traceback
        return (
            f"Bounded(shape={self.value.units.shape}, sensitivities={dict(self.sensitivities)!r}, "
            f"adjacency={self.adjacency.value!r})"
        )
