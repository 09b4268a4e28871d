r"""One Gaussian noise that several owners add in shares to a sum of integers.

Each owner u rounds its query and its share of the noise together to one public grid g = 2^e,

.. math:: m_u = \operatorname{round}\bigl((q_u + s Z_u) / g\bigr),

and only the sum of the :math:`m_u` is seen. If t owners keep their shares secret, the sum is
:math:`\mu_t`-Gaussian differentially private for the records of each of them, with

.. math:: \mu_t^2 \le \frac{\Delta^2}{t s^2} + \sum_e \frac{t g^2}{4 s_e^2}

over the entries e, of which :math:`s_e` is the share's scale. A query moved by whole multiples of g
moves :math:`m_u` by whole numbers, which the sum cannot tell from the same numbers at another
owner. So one owner's change may be split evenly among t, whole numbers elsewhere and the
remainder at its own; the second term is what the whole numbers cost. Proof:
docs/proofs/shared_noise.md.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from eigenveil.exceptions import InvalidBudgetError, InvalidParameterError
from eigenveil.privacy.accounting import sqrt_up

_GRID_BITS = 24  # the grid is 2^-24 to 2^-23 of the smallest share


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedNoise:
    """The share of the noise that each owner adds; all of it public.

    Attributes
    ----------
    sensitivity : float
        How far one record moves the query: Euclidean, or Frobenius for a symmetric matrix.
    columns : int
        Length of a vector, or number of columns of a symmetric matrix.
    symmetric : bool
        Whether the query is a symmetric matrix: the share is then smaller by sqrt(2) off its
        diagonal.
    honest : int
        t, the number of owners that the promise counts on.
    scale : float
        Standard deviation of one owner's share, on the diagonal of a matrix.
    grid : int
        Exponent of the grid.

    """

    sensitivity: float
    columns: int
    symmetric: bool
    honest: int
    scale: float
    grid: int

    def __post_init__(self) -> None:
        whole = all(type(number) is int for number in (self.columns, self.honest, self.grid))
        if not (whole and self.columns >= 1 and self.honest >= 1):
            raise InvalidParameterError("noise is shared by a whole number of owners, at least 1")
        if not all(math.isfinite(x) and x > 0 for x in (self.sensitivity, self.scale)):
            raise InvalidParameterError("the scale of shared noise must be positive and finite")

    @classmethod
    def calibrated(
        cls, mu: float, *, sensitivity: float, columns: int, symmetric: bool, honest: int
    ) -> "SharedNoise":
        """Return the smallest shares with which ``honest`` owners together promise ``mu``."""
        scale = sensitivity / (mu * math.sqrt(honest))
        for _ in range(64):
            grid = math.frexp(scale / math.sqrt(2) if symmetric else scale)[1] - _GRID_BITS
            found = cls(
                sensitivity=sensitivity,
                columns=columns,
                symmetric=symmetric,
                honest=honest,
                scale=scale,
                grid=grid,
            )
            if found.mu() <= mu:
                return found
            if found._rounding(honest) > Fraction(mu) ** 2 / 2:
                break
            scale = max(math.nextafter(scale, math.inf), scale * (found.mu() / mu))
        raise InvalidBudgetError(
            "the budget is too small: so many numbers cannot be rounded for it, ask for fewer "
            "columns or a larger epsilon"
        )

    def mu(self, honest: int | None = None) -> float:
        """Return what the sum costs if so many owners are honest, rounded up; t by default.

        Of more than t any t are enough.
        """
        h = self.honest if honest is None else min(honest, self.honest)
        if h < 1:
            raise InvalidParameterError("a promise to a record needs its own owner to be honest")
        moved = Fraction(self.sensitivity) ** 2 / (h * Fraction(self.scale) ** 2)
        return sqrt_up(moved + self._rounding(h))

    def deviation(self, members: int) -> float:
        """Return the standard deviation of the noise in the sum of so many owners' shares."""
        return self.scale * math.sqrt(members)

    def _rounding(self, honest: int) -> Fraction:
        """Return the sum of t g^2/(4 s_e^2): d entries, or d of s and d (d - 1)/2 of s/sqrt(2)."""
        entries = self.columns**2 if self.symmetric else self.columns
        return honest * entries * Fraction(2) ** (2 * self.grid - 2) / Fraction(self.scale) ** 2
