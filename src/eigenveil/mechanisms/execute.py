"""Carry out a plan: charge, read the rows, add noise, and say what is promised.

Everything before `execute` is public; nothing after it is in reach of raw data.
"""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from eigenveil.data.sources import RowSource, ScaledSource
from eigenveil.mechanisms.base import Gate
from eigenveil.mechanisms.bounds import StatedBounds
from eigenveil.mechanisms.centred import CentredResult
from eigenveil.mechanisms.stages import Plan
from eigenveil.numerics.random import NoiseSource
from eigenveil.privacy.cost import Cost
from eigenveil.privacy.guarantee import Guarantee, Numerics
from eigenveil.privacy.ledger import Balance, Ledger

__all__ = ["FitResult", "execute", "invalid_words", "scale_words"]

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

    """

    plan: Plan
    result: CentredResult[Result]
    n_rows: int | None
    stated: StatedBounds
    guarantee: Guarantee
    balance: Balance | None

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
    request, cost = plan.request, plan.cost
    if request.column_scale is not None:
        source = ScaledSource(source, request.column_scale)
    if ledger is not None:
        charged = cost if charge is None else charge
        ledger.check(charged, adjacency=request.adjacency, unit=request.unit)
    gate = Gate(
        cost,
        label=label or plan.entry.name,
        adjacency=request.adjacency,
        ledger=ledger,
        noise=noise,
        protects=request.unit,
        once=label is not None,
        charge=charge,
    )
    result = plan.procedure.run(source, plan.stated.start, gate)
    del source  # post-processing only from here
    stated = plan.stated.chosen(getattr(result.inner, "row_norm", None), _words(plan, result))
    guarantee = Guarantee(
        budget=request.budget,
        cost=gate.total,
        adjacency=request.adjacency,
        bounds=stated.words,
        kind=plan.entry.kind,
        numerics=Numerics.EXACT if gate.exact else Numerics.IDEALISED,
        simulated=noise.simulated,
        ledger=gate.receipt,
        assumption=plan.entry.assumption,
        protects=request.unit,
        arrival=plan.entry.batches and not request.rereadable,
    )
    return FitResult(
        plan=plan,
        result=result,
        n_rows=gate.rows,
        stated=stated,
        guarantee=guarantee,
        balance=gate.balance,
    )


def _words(plan: Plan, result: CentredResult[Any]) -> tuple[str, ...]:
    """Return what bounds rows, and where that comes from."""
    request = plan.request
    words = [*_bound_words(plan, result), *scale_words(plan, result)]
    chosen = result.inner.row_norm if plan.components and not plan.stated.private else None
    if chosen is not None:
        words.append(
            f"rows pulled in to {chosen * pair_factor(plan):.6g} for the variances (chosen "
            "privately)"
        )
    words += invalid_words(request.on_invalid, request.on_missing)
    if request.unit.owns_many:
        words.append(f"all rows of one {request.unit.name} together weigh as one row")
    if plan.entry.batches and not request.rereadable:
        words.append("rows used in the order in which they came: a sorted table misleads")
    return tuple(words)


def _bound_words(plan: Plan, result: CentredResult[Any]) -> tuple[str, ...]:
    stated = plan.stated
    if not plan.components:
        words = stated.words_with(result.inner.row_norm)
        located = ("the centre is private, found without a bound",)
        return (*words, *(located if plan.centring == "located" else ()))
    words = stated.words_with(result.inner.row_norm) if stated.private else stated.words
    bounded = plan.request.box is not None
    match plan.centring:
        case "none":
            return (*words, "the origin is taken as the centre")
        case "mean":
            return (*words, "the centre is a private mean")
        case "located":
            within = "within the stated range" if bounded else "without a bound"
            return (*words, f"the centre is private, found {within}")
    unused = ("the stated range is not used",) if bounded else ()
    return ("none needed: differences of pairs of rows, each scaled to unit length", *unused)


def pair_factor(plan: Plan) -> float:
    """Return what turns half differences of two rows into something with the covariance of one."""
    return float(np.sqrt(plan.rows_each))


def scale_words(plan: Plan, result: CentredResult[Any]) -> tuple[str, ...]:
    """Return what columns were divided by, in words."""
    if result.scale is not None:
        left = int(np.sum(np.isinf(result.scale)))
        out = f"; {left} left out, as theirs did not stand out" if left else ""
        return (f"columns divided by private scales{out}",)
    if plan.request.divides_by_ranges:
        return ("columns divided by half their stated ranges",)
    stated = ("columns divided by scales stated by the caller",)
    return stated if plan.request.scale is not None else ()


def invalid_words(on_invalid: str, on_missing: str) -> tuple[str, ...]:
    """Return what happens to rows and cells that hold no numbers."""
    filled = ("empty cells taken as the centre's",) if on_missing == "centre" else ()
    invalid = ("rows that hold other things than numbers contribute nothing",)
    return (*filled, *(invalid if on_invalid == "zero" else ()))
