"""The one charged release of a regression, and descriptions of its bounds."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from eigenveil.exact.clip import Clip
from eigenveil.exceptions import TooFewRowsError
from eigenveil.mechanisms.gate import Gate
from eigenveil.mechanisms.joined import JoinedRegression
from eigenveil.mechanisms.linear import LinearModel
from eigenveil.messages import Part, Phrase, option
from eigenveil.numerics.memory import require_memory
from eigenveil.numerics.random import NoiseSource
from eigenveil.planning.bounds import regression_bounds
from eigenveil.planning.linear_plan import RegressionPlan
from eigenveil.planning.request import Request
from eigenveil.planning.sufficient import what_would_do
from eigenveil.privacy.balance import Balance
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.guarantee import Guarantee, Numerics
from eigenveil.privacy.ledger import Ledger
from eigenveil.rows.base import RowSource

_MATRICES = 6  # of columns by columns, held at once

_MEANS_ALONE = Phrase(
    python="means_alone=True", shell="--means-alone", file="a request for the mean"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegressionResult:
    """Everything a fit may look at after the noise; no raw data is in it."""

    plan: RegressionPlan
    model: LinearModel
    n_rows: int | None
    guarantee: Guarantee
    balance: Balance | None

    @property
    def means_alone(self) -> bool:
        """Whether no coefficients were released, by public numbers or as no target showed."""
        return self.model.gram is None

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the budget by what they bought; they sum to 1."""
        procedure = self.plan.procedure
        if self.means_alone and isinstance(procedure, JoinedRegression):
            return procedure.shares_of_means
        return {"offset": 1.0} if self.means_alone else self.plan.shares_by_name


def release_regression(
    request: Request, source: RowSource, *, ledger: Ledger | None, noise: NoiseSource
) -> RegressionResult:
    """Charge the ledger, read the rows, add noise; refuse what public numbers rule out."""
    plan = RegressionPlan(request=request)
    if not plan.findable:
        raise TooFewRowsError(
            "too few rows for the range of the target at this budget: ",
            _enough(request, lambda other: other.findable) or "give a larger budget",
            "; or state ",
            option("target_bounds"),
        )
    if plan.means_alone and not plan.targets.accepts_means:
        raise _no_coefficients(request)
    cost = plan.cost
    if ledger is not None:
        ledger.check(cost, adjacency=request.adjacency, unit=request.unit)
    require_memory(8 * _MATRICES * (request.n_columns + plan.targets.count) ** 2)
    gate = Gate(
        cost,
        label=plan.procedure.name,
        adjacency=request.adjacency,
        ledger=ledger,
        noise=noise,
        protects=request.unit,
        groups=request.n_rows if request.unit.owns_many else None,
    )
    start = Clip(row_norm=1.0, on_invalid=request.on_invalid, on_missing=request.on_missing)
    model = plan.procedure.run(source, start, gate)
    names = source.schema.feature_names
    del source  # post-processing only from here
    guarantee = Guarantee(
        budget=request.budget,
        cost=gate.total,
        adjacency=request.adjacency,
        bounds=regression_bounds(plan, model, names),
        numerics=Numerics.EXACT if gate.exact else Numerics.IDEALISED,
        simulated=noise.simulated,
        ledger=gate.receipt,
        protects=request.unit,
    )
    return RegressionResult(
        plan=plan, model=model, n_rows=gate.rows, guarantee=guarantee, balance=gate.balance
    )


def _no_coefficients(request: Request) -> TooFewRowsError:
    """Return the refusal of a release of means alone, with what would allow coefficients."""
    assert request.targets is not None  # it is a regression
    ones = np.ones(request.n_columns)
    scaled, bounded = replace(request, scale=ones), replace(request, box=(-ones, ones))
    boxes = ((-1.0, 1.0),) * request.targets.count
    ranges = replace(request.targets, boxes=boxes)
    ranged, both = (replace(each, targets=ranges) for each in (request, bounded))
    single: list[tuple[Request, list[Part]]] = [
        (scaled, [option("scale")]),
        (bounded, [option("bounds")]),
        (ranged, [option("target_bounds")]),
    ]
    together: list[Part] = [option("bounds"), " and ", option("target_bounds")]
    told: list[Part] = []
    for asked, words in (*single, (both, together)):
        if RegressionPlan(request=asked).means_alone or (told and asked is both):
            continue
        told += [" or " if told else "state ", *words]
    enough = _enough(request, lambda other: other.findable and not other.means_alone)
    return TooFewRowsError(
        "at this budget public numbers allow no coefficients, only the mean of the target: ",
        enough or "give fewer columns or a larger budget",
        *(["; or ", *told] if told else []),
        "; ",
        _MEANS_ALONE,
        " releases the mean alone",
    )


def _enough(request: Request, accepts: Callable[[RegressionPlan], bool]) -> str:
    """Return the number of rows and the budget that would do, in words."""
    if request.n_rows is None:
        return ""

    def would_do(rows: int, budget: Budget) -> bool:
        return accepts(RegressionPlan(request=replace(request, n_rows=rows, budget=budget)))

    return what_would_do(would_do, request.n_rows, request.budget, request.unit.name)
