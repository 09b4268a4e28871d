"""What a stream has released so far: components, the promise for all of them, the artefact."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from eigenveil.estimators.results import ComponentResult, component_result, public_settings
from eigenveil.estimators.stream_plan import StreamPlan
from eigenveil.estimators.stream_state import ADJACENCY, Stream
from eigenveil.mechanisms.gate import Gate, proofs_of
from eigenveil.mechanisms.row_bounds import RowBounds
from eigenveil.mechanisms.standardising import standardised_by_itself
from eigenveil.planning.bounds import StatedBounds
from eigenveil.planning.execution import invalid_words
from eigenveil.privacy.budget import Budget
from eigenveil.privacy.clauses import CENTRE_CLAUSES, limits_clause
from eigenveil.privacy.guarantee import Guarantee, Numerics
from eigenveil.release.artefact import Release
from eigenveil.text import plural

__all__ = ["published"]


def published(
    stream: Stream,
    plan: StreamPlan,
    gate: Gate,
    *,
    budget: Budget,
    simulated: bool,
    feature_names: NDArray[np.object_] | None,
) -> tuple[ComponentResult, Guarantee, Release] | None:
    """Return the newest components with their promise and artefact; None before there are any.

    No record is in reach of it.
    """
    iterate = stream.iterate
    if iterate is None or math.isinf(iterate.noise_variance):  # a centre or a trace at most
        return None
    bounds, k, hidden = stream.bounds, plan.method.n_components, None
    if bounds is None or bounds.columns is None:
        noisy = iterate.components(k)
    else:
        noisy, bounds, hidden = standardised_by_itself(iterate, bounds, k)
    if stream.used < plan.needed:  # a random start may still show
        noisy = replace(noisy, reliability=np.zeros(len(noisy.components)))
    stated = plan.bounded(stream)
    columns = None if bounds is None else bounds.columns
    scale = plan.scale if columns is None else columns.scale
    found = component_result(
        noisy,
        centre=np.zeros(plan.d) if bounds is None else bounds.centre,
        centre_error=0.0 if bounds is None else bounds.centre_error,
        scale=np.ones(plan.d) if scale is None else scale,
        shares=stated.clip.normalise,
    )
    promise = _promise(stream, plan, bounds, gate, stated, budget, simulated=simulated)
    settings = public_settings(
        n_features=plan.d,
        n_rows=stream.used,
        stated=stated,
        centred=plan.centred,
        on_invalid=stated.start.on_invalid,
        on_missing=stated.start.on_missing,
        noise_scale=found.noise_scale,
        noise_floor=found.noise_floor,
        reason="",
        feature_names=feature_names,
        balance=gate.balance,
        encoding=stream.settings["read"]["encoding"],
    )
    settings["centring"] = "none" if plan.centred else "located"
    if hidden is not None:
        settings["hidden_columns"] = np.flatnonzero(hidden).tolist()
    if bounds is not None and bounds.clipped is not None:
        settings["chosen_row_norm"] = bounds.clipped
    first = () if plan.preparation is None else plan.preparation.proofs
    proofs = ("streaming", *first, *proofs_of(plan.method))
    released = found.release(plan.method.name, promise, settings, proofs=proofs)
    return found, promise, released


def _promise(
    stream: Stream,
    plan: StreamPlan,
    bounds: RowBounds | None,
    gate: Gate,
    stated: StatedBounds,
    budget: Budget,
    *,
    simulated: bool,
) -> Guarantee:
    """Return the promise for all releases of a stream together."""
    return Guarantee(
        budget=budget,
        cost=plan.charge,
        adjacency=ADJACENCY,
        protects=plan.unit,
        bounds=(
            *stated.words,
            *_prepared_words(stream, bounds, plan),
            *stream.settings["read"]["remarks"],
            *invalid_words(stated.start.on_invalid, stated.start.on_missing, corrects=False),
            *_used_once(plan),
        ),
        numerics=Numerics.EXACT if stream.exact else Numerics.IDEALISED,
        simulated=simulated,
        ledger=gate.receipt,
        arrival=stream.arrival,
        merged_ids=stream.merged_ids,
        arrivals=plan.max_arrivals if stream.arrival and plan.unit.owns_many else None,
    )


def _prepared_words(stream: Stream, bounds: RowBounds | None, plan: StreamPlan) -> Iterator[str]:
    """Describe what the first batch released, as far as it was asked for."""
    if plan.centred:
        yield CENTRE_CLAUSES["none"]
    else:
        apart = bounds is None or bounds.columns is None
        only = " from records used for nothing else" if apart else ""
        yield f"{CENTRE_CLAUSES['located']} without a bound{only}"
    if plan.scale is not None:
        yield "columns divided by scales stated by the caller"
    if bounds is None or bounds.clipped is None:
        return
    if bounds.columns is None:
        yield "rows of earlier batches pulled in to a distance that suits fewer records"
        return
    yield "columns divided by private scales, which every batch makes finer"
    yield (
        "each batch pulled in within its own scales, earlier ones to a distance that suits fewer "
        "records"
    )
    columns = bounds.columns
    assert stream.bounds is not None
    assert stream.bounds.columns is not None  # of which these came
    reach = columns.limit * stream.bounds.columns.scale / columns.scale
    yield limits_clause(float(reach.min()), float(reach.max()), float(columns.turn.min()))


def _used_once(plan: StreamPlan) -> tuple[str, ...]:
    """Say why a stream costs the budget once."""
    together = "so all releases of this stream together cost the budget once"
    if not plan.unit.owns_many:
        return (f"every record is used in one batch only, {together}",)
    name, most = plan.unit.name, plan.max_arrivals
    return (
        f"of each arrival one row of a {name} is used at most, chosen at random and in secret, and "
        f"of the whole stream {most} {plural('row', most)}; every row is used in one batch only, "
        f"{together}",
    )
