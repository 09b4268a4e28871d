r"""A covariance of columns in any units where the number of rows is private: a count, then `front`.

.. math:: m = \lfloor n + N(0, 1/(.02\,\mu^2)) - 3\,\text{deviations} \rfloor, \qquad
          (x_{\pi(1)}, \dots, x_{\pi(m)}) \to \text{front}

The noisy count is released first. Then m rows are drawn at random, in secret and in random order,
and `front` reads them as a table with a public number of rows. One row more in the table replaces
one of the drawn rows at most. A table with fewer than m rows is filled up with zeros. Where m is
too small for the searches of `front`, the zero matrix is released.

New here. Proof: docs/proofs/counted.md.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.exact.bounded import Bounded
from eigenveil.exact.clip import Clip
from eigenveil.exact.gram import count
from eigenveil.exceptions import InvalidParameterError
from eigenveil.mechanisms.additive import GaussianNoise
from eigenveil.mechanisms.centre import CentredResult
from eigenveil.mechanisms.distances import searchable
from eigenveil.mechanisms.front import CORRELATION, COVARIANCE, Aim, Front
from eigenveil.mechanisms.gate import Gate, Procedure, Step
from eigenveil.mechanisms.gauss import NoisyMatrix
from eigenveil.mechanisms.missing_rates import Present, missing_shares
from eigenveil.numerics.random import SystemSource
from eigenveil.privacy.accounting import part
from eigenveil.privacy.adjacency import ROW, Adjacency
from eigenveil.privacy.cost import Allotment, Composed, Cost, Gaussian
from eigenveil.rows.base import RowSource
from eigenveil.rows.derived import DrawnRow, drawn_rows

if TYPE_CHECKING:
    from eigenveil.planning.request import Request

COUNT_SHARE = 0.02  # of mu^2
COUNT_MARGIN = 3.0  # deviations of the count's noise by which fewer rows are drawn

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Counted:
    """A noisy count, then `Front` on that many random rows. Fields are public, never data.

    Attributes
    ----------
    mu : float
        Of both together.
    columns : int
        Of the table.
    known_scale : array, optional
        Scales of all columns that are public, and NaN for the others.
    missing : bool
        Whether missing cells are taken as the centre's, so that their shares are measured.
    aim : Aim
        What the matrix is for.

    """

    name: ClassVar[str] = "counted"
    mu: float
    columns: int
    known_scale: NDArray[np.float64] | None = None
    missing: bool = False
    aim: Aim = COVARIANCE

    @classmethod
    def build(cls, whole: Allotment, request: "Request") -> Self:
        """Build it for a request at a whole mu."""
        assert isinstance(whole, Gaussian)  # `Request.counted` says so
        return cls(
            mu=whole.mu,
            columns=request.n_columns,
            known_scale=request.known_scale,
            missing=request.on_missing == "centre",
            aim=CORRELATION if request.mechanism.standardises else COVARIANCE,
        )

    def cost(self) -> Cost:
        """Return the cost of both steps: the second never costs more than the rest."""
        return Gaussian(self.mu)

    @property
    def inner(self) -> Procedure[CentredResult[NoisyMatrix]]:
        """The steps after the count, for a table of one row."""
        return self.following(1)

    def following(self, rows: int) -> Procedure[CentredResult[NoisyMatrix]]:
        """Return the steps after the count, for a number of drawn rows."""
        asked, front = self._missing_shares(rows), self._front(rows)
        return Present.build(self._rest, asked, front) if asked else front

    def shares(self, rows: int | None) -> dict[str, float]:
        """Return the shares of mu^2 by stage; None before a number of rows is released."""
        if rows is None:
            return {"count": COUNT_SHARE, "matrix": 1 - COUNT_SHARE}
        rows = max(1, rows)
        asked = self._missing_shares(rows)
        left = 1 - sum(asked.values())
        stages = {stage: left * share for stage, share in self._front(rows).shares.items()}
        stages = {stage: (1 - COUNT_SHARE) * share for stage, share in (stages | asked).items()}
        stages = {"count": COUNT_SHARE, **stages}
        return {**stages, "matrix": 1 - sum(stages.values())}

    def enough(self, rows: int) -> bool:
        """Return whether the searches would find so many drawn rows."""
        wide = self.columns > rows
        return rows >= 2 and not wide and searchable(self._rest, rows)

    def expected(self, rows: int) -> int:
        """Return the number of rows that would be drawn if the count had no noise."""
        return max(0, self._drawn(rows))

    def run(self, source: RowSource, start: Clip, gate: Gate) -> CentredResult[NoisyMatrix]:
        """Release the count, draw as many rows, and release their covariance."""
        if source.units.protects.owns_many:
            raise InvalidParameterError("rows are drawn one by one: persons own several")
        unit = replace(start, row_norm=1.0)
        noisy = gate.draw(self._noise, count(source, unit))
        rows = self._drawn(float(noisy.values[0]))
        if not self.enough(rows):
            gate.rows = None
            return self._nothing()
        drawn = drawn_rows(source, rows, gate.order, start.check)
        found = self.following(rows).run(drawn, start, DrawnRowsGate(gate, drawn))
        gate.rows = None  # that of the table stays private
        return replace(found, drawn_rows=rows)

    @property
    def _noise(self) -> GaussianNoise:
        return GaussianNoise(mu=self._part(COUNT_SHARE).mu)

    def _drawn(self, counted: float) -> int:
        """Return the number of rows to draw after a released count: rarely more than there are."""
        return math.floor(counted - COUNT_MARGIN * self._noise.on_one_number)

    @property
    def _rest(self) -> Gaussian:
        return self._part(1 - COUNT_SHARE)

    def _missing_shares(self, rows: int) -> dict[str, float]:
        """Return the shares of the rest that measure which cells are present."""
        if not self.missing:
            return {}
        return missing_shares(self._rest, rows, self.columns, corrects=True)

    def _front(self, rows: int) -> Front:
        left = part(self._rest, 1 - sum(self._missing_shares(rows).values()))
        assert isinstance(left, Gaussian)  # a part of a Gaussian budget
        return Front(
            mu=left.mu,
            rows=rows,
            columns=self.columns,
            known_scale=self.known_scale,
            aim=self.aim,
        )

    def _part(self, share: float) -> Gaussian:
        step = part(Gaussian(self.mu), share)
        assert isinstance(step, Gaussian)  # a part of a Gaussian budget
        return step

    def _nothing(self) -> CentredResult[NoisyMatrix]:
        """Return the zero matrix, about no centre."""
        nowhere = np.full(self.columns, np.nan)
        zeros = NoisyMatrix(np.zeros((self.columns, self.columns)), 0.0, None)
        return CentredResult(nowhere, 0.0, None, zeros, drawn_rows=0)


class DrawnRowsGate(Gate):
    """A view of a gate for statistics of one sequence of drawn rows.

    A statistic of these rows whose sensitivity is for a replaced row moves no further where the
    whole table has one row more or less. So the gate behind the view draws it for add/remove
    neighbours, and pays for it. All other statistics are refused. The view itself has no budget
    and no ledger.
    """

    def __init__(self, gate: Gate, rows: RowSource) -> None:
        if gate.adjacency is not Adjacency.ADD_REMOVE or gate.protects != ROW:
            raise InvalidParameterError("rows are drawn for single rows and add/remove alone")
        if not isinstance(rows.units.protects, DrawnRow):
            raise InvalidParameterError("a view of a gate is for rows that were drawn")
        super().__init__(
            Composed(()),
            label="drawn rows",
            adjacency=Adjacency.REPLACE_ONE,
            ledger=None,
            noise=SystemSource(),
            protects=rows.units.protects,
        )
        self._gate = gate

    def draw(self, step: Step[Result], query: Bounded) -> Result:
        """Draw at the gate behind, if the statistic is one of the drawn rows."""
        same = query.adjacency is self.adjacency and query.protects is self.protects
        if not same or query.records is not None:
            raise InvalidParameterError("the statistic is not one of the drawn rows")
        gate = self._gate
        return gate.draw(step, replace(query, adjacency=gate.adjacency, protects=gate.protects))

    def order(self, n: int) -> NDArray[np.intp]:
        """Return a secret random order from the gate behind."""
        return self._gate.order(n)

    def sample(self, n: int, size: int) -> NDArray[np.intp]:
        """Return secret random places from the gate behind."""
        return self._gate.sample(n, size)

    def normals(self, *shape: int) -> NDArray[np.float64]:
        """Return data-independent normal draws from the gate behind."""
        return self._gate.normals(*shape)

    def require_comparison(self, name: str) -> None:
        """Refuse what the gate behind refuses."""
        self._gate.require_comparison(name)
