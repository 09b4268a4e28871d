"""Carry out a plan: charge, read the rows, add noise, and say what is promised.

Everything before `execute` is public; nothing after it is in reach of raw data.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from eigenveil.mechanisms.centre import CentredResult
from eigenveil.mechanisms.column_scale import without_hidden
from eigenveil.mechanisms.gate import Gate, proofs_of
from eigenveil.numerics.memory import require_memory
from eigenveil.numerics.random import NoiseSource
from eigenveil.planning.bounds import StatedBounds, bounds_of, centre_words, further_words
from eigenveil.planning.plans import Plan
from eigenveil.privacy.balance import Balance
from eigenveil.privacy.clauses import (
    NEAR_ROWS_CLAUSE,
)
from eigenveil.privacy.cost import Cost
from eigenveil.privacy.guarantee import Guarantee, Numerics
from eigenveil.privacy.ledger import Ledger
from eigenveil.rows.base import RowSource
from eigenveil.rows.maps import Divide

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FitResult(Generic[Result]):
    """Everything a fit may look at after the noise; no raw data is in it.

    Attributes
    ----------
    plan : Plan
        What was carried out.
    result : CentredResult
        What was released.
    n_rows : int or None
        Number of rows, or of persons, where it is public.
    stated : StatedBounds
        How rows were bounded, with the length that was chosen privately.
    guarantee : Guarantee
        The promise.
    balance : Balance or None
        That of the ledger that was charged.
    levels_share : float
        Share of the budget that levels of categories were found with before.

    """

    plan: Plan
    result: CentredResult[Result]
    n_rows: int | None
    stated: StatedBounds
    guarantee: Guarantee
    balance: Balance | None
    levels_share: float = 0.0

    @property
    def drawn_rows(self) -> int | None:
        """Number of rows drawn at random after a noisy count; None where none were drawn."""
        return self.result.drawn_rows

    @property
    def has_centre(self) -> bool:
        """Whether a centre was released: pairs of rows have none, nor have no rows at all."""
        return not self.result.differences and self.drawn_rows != 0

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the budget, by stage."""
        left = 1 - self.levels_share
        shares = {stage: round(left * share, 12) for stage, share in self.plan.shares.items()}
        return shares if left == 1 else {"levels": self.levels_share, **shares}

    @property
    def proofs(self) -> tuple[str, ...]:
        """Names of the proof pages of every stage."""
        found = ("levels",) if self.levels_share else ()
        return (*found, *proofs_of(self.plan.procedure))

    @property
    def centre_noise(self) -> float:
        """Standard deviation of the noise on an entry of the centre, in scaled units.

        Where cells are empty it differs by column: this is the root of the mean square.
        """
        return math.sqrt(float(np.mean(self.centre_noises**2)))

    @property
    def centre_noises(self) -> NDArray[np.float64]:
        """`centre_noise` of every entry, larger by one over the share of cells that are present."""
        result = self.result
        error = result.centre_error if result.distance_error is None else result.distance_error
        level = math.sqrt(error / max(1, result.centre.size))
        present = np.ones(result.centre.size) if result.present is None else result.present
        return np.asarray(level / present)

    @property
    def per_row(self) -> float:
        """What turns a released sum into a mean where the number of rows is private."""
        count = self.result.noisy_count
        return 1.0 if count is None else 1.0 / count


def execute(
    plan: Plan,
    source: RowSource,
    *,
    ledger: Ledger | None,
    noise: NoiseSource,
    label: str | None = None,
    charge: Cost | None = None,
) -> FitResult[Any]:
    """Charge the ledger, read the rows, add noise.

    ``label`` is what the ledger calls the release, charged once only; by default it is called by
    its mechanism. ``charge`` is what the ledger is charged, where that is not the cost of this
    release alone.
    """
    request, cost, remarks = plan.request, plan.cost, source.schema.remarks
    names = source.schema.feature_names
    if request.column_scale is not None:
        source = source.map(Divide(request.column_scale))
    if ledger is not None:
        charged = cost if charge is None else charge
        ledger.check(charged, adjacency=request.adjacency, unit=request.unit)
    require_memory(plan.memory)
    gate = Gate(
        cost,
        label=label or plan.entry.name,
        adjacency=request.adjacency,
        ledger=ledger,
        noise=noise,
        protects=request.unit,
        once=label is not None,
        charge=charge,
        groups=request.n_rows if request.unit.owns_many else None,
    )
    result = plan.procedure.run(source, plan.start, gate)
    del source  # post-processing only from here
    if request.releases == "covariance" and request.divides_by_ranges and plan.entry.auto:
        # A range may be far wider than what varies: noise would pass for a variance.
        error = result.centre_error * (result.noisy_count or 1.0)
        result = replace(result, inner=without_hidden(result.inner, error))
    if result.drawn_rows is not None:
        plan = replace(plan, drawn_rows=result.drawn_rows)
    stated = plan.stated.chosen(
        getattr(result.inner, "row_norm", None), (*bounds_of(plan, result, names), *remarks)
    )
    guarantee = _guarantee(plan, gate.total, stated.words, exact=gate.exact)
    return FitResult(
        plan=plan,
        result=result,
        n_rows=gate.rows,
        stated=stated,
        guarantee=replace(guarantee, simulated=noise.simulated, ledger=gate.receipt),
        balance=gate.balance,
    )


def foreseen(plan: Plan, cost: Cost, ledger: str | None, remarks: tuple[str, ...]) -> Guarantee:
    """Return the promise that a plan will make, before anything is charged or read.

    That of the release adds what is chosen privately, and covers rounding where each step does.
    """
    request = plan.request
    words = [*plan.stated.words]
    if plan.tightens:
        words.append(
            "rows farther from the centre than a distance chosen privately pulled in to it"
        )
    if plan.components and plan.normalise and plan.centring == "located":
        words.append(NEAR_ROWS_CLAUSE)
    words.append(centre_words(plan, differences=plan.centring == "paired"))
    if plan.counted:
        words.append("as many rows used, drawn at random, as a noisy count allows")
    if plan.entry.standardises:
        words.append("columns divided by released standard deviations")
    elif plan.front or plan.counted:
        words.append("columns divided by private scales; variances that noise hides are zero")
    elif request.private_scale:
        zero = "; variances that noise hides are zero" * (not plan.components)
        without = "; those without one are left out by name"
        words.append(f"columns divided by private scales{without}{zero}")
    words += further_words(plan)
    exact = bool(getattr(plan.inner(plan.strength), "exact", False))
    exact = exact and not (plan.pure and "pairs" in plan.shares)  # whose noise is Wishart
    promised = _guarantee(plan, cost, (*words, *remarks), exact=exact)
    return replace(promised, ledger=ledger)


def _guarantee(plan: Plan, cost: Cost, bounds: tuple[str, ...], *, exact: bool) -> Guarantee:
    request, entry = plan.request, plan.entry
    return Guarantee(
        budget=request.budget,
        cost=cost,
        adjacency=request.adjacency,
        bounds=bounds,
        kind=entry.kind,
        numerics=Numerics.EXACT if exact else Numerics.IDEALISED,
        assumption=entry.assumption,
        protects=request.unit,
        arrival=entry.batches and not request.rereadable,
    )
