"""What private scales cost, and whether a fit would find them, from its plan."""

from dataclasses import replace

from eigenveil.exceptions import EigenveilError
from eigenveil.mechanisms.planning import plan
from eigenveil.mechanisms.registry import entry
from eigenveil.planner.choice import as_chosen, choose, plan_of
from eigenveil.planner.rehearsal import with_drawn_rows
from eigenveil.planner.situation import Situation

__all__ = ["default_scale_share", "private_scale_share"]


def private_scale_share(situation: Situation, mechanism: str) -> float:
    """Return the share of the budget that private scales of components take.

    ``"auto"`` takes the mechanism that is chosen for them.

    Raises
    ------
    EigenveilError
        Where public numbers rule private scales out: what a fit would raise.

    """
    found = replace(situation, private_scale=True, same_units=False)
    asked = None
    if mechanism == "auto":
        asked, choice = found, choose(found)
        mechanism, found = choice.mechanism, as_chosen(found, choice)
    planned = plan_of(found, entry(found.releases, mechanism), asked)
    if situation.n is not None:
        planned = with_drawn_rows(planned, situation.n)
    return planned.shares.get("scale", 0.0)


def default_scale_share(situation: Situation, mechanism: str) -> float | None:
    """Return the share of the budget that a covariance spends on scales unless told otherwise.

    None where it looks for none: columns are bounded, few rows are there, or no matrix is asked
    for.
    """
    found = replace(situation, same_units=False)
    choice = choose(found)
    try:
        if choice.mechanism == mechanism:
            found = as_chosen(found, choice)
        asked = found.request(entry(situation.releases, mechanism))
        sought = asked.any_units or (choice.private_scale and asked.private_scale)
        if asked.counted and situation.n is not None:
            return with_drawn_rows(plan(asked), situation.n).shares["scale"]
        return plan(asked).shares["scale"] if sought else None
    except EigenveilError:
        return None
