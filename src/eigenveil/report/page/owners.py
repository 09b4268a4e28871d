"""Sections about promises: the release's own, and those of the owners behind it."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from eigenveil.privacy.budget import stated
from eigenveil.privacy.contribution import Contribution
from eigenveil.privacy.guarantee import SIMULATION, Guarantee
from eigenveil.report.page.tables import RIGHT, table

_MOST_COMPARED = 50  # owners, the farthest from the others
_MOST_UNFOLDED = 5  # owners whose words are shown without being asked for
UNITS = {
    "one row": "rows",
    "all rows of one group": "groups",
    "all rows of one person": "persons",
}


def promise(guarantee: Guarantee) -> str:
    """Return the guarantee's own words, clause by clause."""
    return f'<div class="promise">{table(guarantee.statements())}</div>'


def promises(owners: Sequence[Contribution]) -> str:
    """Return who took part, and the words of each, folded; nothing where there is no list."""
    if not owners:
        return ""
    notions = [
        notion
        for notion in ("epsilon", "delta", "rho")
        if any(notion in owner.guarantee.budget.as_dict() for owner in owners)
    ]
    header = ("owner", counted_as(owners), *notions, "weight: directions", "values")
    head = "".join(
        f'<th scope="col"{RIGHT if i else ""}>{title}</th>' for i, title in enumerate(header)
    )
    rows = "".join(_owner_row(owner, notions) for owner in owners)
    unfolded = " open" * (len(owners) <= _MOST_UNFOLDED)
    own = "".join(
        f"<details{unfolded}><summary>{escape(owner.name)}</summary>"
        f"{_simulation(owner.guarantee)}{promise(owner.guarantee)}</details>"
        for owner in owners
    )
    return (
        f"{_by_honesty(owners[0].guarantee)}"
        "<p>Each owner made its own promise to its own records, and these hold one by one. Weights "
        "are the parts of the owners in the common directions and in the values along them.</p>"
        f'<table class="owners"><thead class="small"><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table><h3>In their own words</h3>{own}"
    )


def _by_honesty(guarantee: Guarantee) -> str:
    """Return what holds with how many honest owners; nothing where that does not matter."""
    if guarantee.honest is None or guarantee.budget.delta is None:
        return ""
    told = guarantee.honest.table(guarantee.budget.delta)
    rows = "".join(
        f'<tr><th scope="row">{honest}</th><td{RIGHT}>{stated(epsilon)}</td></tr>'
        for honest, epsilon in told
    )
    return (
        "<p>The sums were masked, and all owners added their noise together. So the promise counts "
        "on honest owners, the record's own among them. Honest owners keep their keys and their "
        "part of the noise secret.</p>"
        '<table class="honest"><thead class="small"><tr><th scope="col">honest owners</th>'
        f'<th scope="col"{RIGHT}>epsilon at delta = {stated(guarantee.budget.delta)}</th></tr>'
        f"</thead><tbody>{rows}</tbody></table>"
    )


def comparison(federation: Mapping[str, Any] | None) -> str:
    """Return whose answers stand apart, whose weight was cut, and who is missing."""
    if federation is None:
        return ""
    told = federation["compared"]
    farthest = sorted(told, key=lambda name: -told[name]["distance"])[:_MOST_COMPARED]
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td{RIGHT}>{told[name]["distance"]:.3g}</td>'
        f"<td{RIGHT}>{_ratio(told[name].get('variance'))}</td></tr>"
        for name in farthest
    )
    rest = f" The {_MOST_COMPARED} farthest are shown." if len(told) > _MOST_COMPARED else ""
    if any(one.get("variance", 0.0) < 0 for one in told.values()):
        rest += " A negative one is noise: that owner's answer says nothing of its variance."
    missing = [f"{one['owner']} ({one['round']}: {one['code']})" for one in federation["left_out"]]
    bound = f"none above {federation['largest_weight']:g}"
    if federation["largest_weight"] < 1 and (vouched := federation.get("vouched")):
        bound += f" but of owners whose numbers all vouch for: {', '.join(vouched)}"
    notes = [
        ("weights", f"{federation['weights']}, {bound}"),
        ("cut to that weight", ", ".join(federation["cut"]) or "nobody"),
        ("left out", ", ".join(missing) or "nobody"),
    ]
    return (
        "<p>Distance says how far an owner's directions lie outside the common ones: 0 means the "
        "same, 1 none in common. Variance is the owner's variance along the common directions, as "
        f"a multiple of that of all. Noise and other rows make both differ.{rest}</p>"
        '<table class="owners"><thead class="small"><tr><th scope="col">owner</th>'
        f'<th scope="col"{RIGHT}>distance</th><th scope="col"{RIGHT}>variance</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>{table(notes)}"
    )


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _simulation(guarantee: Guarantee) -> str:
    return f'<p class="small warning">{SIMULATION}</p>' if guarantee.simulated else ""


def _owner_row(owner: Contribution, notions: Sequence[str]) -> str:
    budget = owner.guarantee.budget.as_dict()
    if owner.guarantee.budget.is_pure:
        budget["delta"] = 0.0
    numbers = (
        f"{owner.n_rows:,}",
        *(stated(budget[notion]) if notion in budget else "" for notion in notions),
        f"{owner.basis_weight:.3g}",
        f"{owner.values_weight:.3g}",
    )
    cells = "".join(f"<td{RIGHT}>{number}</td>" for number in numbers)
    return f'<tr><th scope="row">{escape(owner.name)}</th>{cells}</tr>'


def counted_as(owners: Sequence[Contribution]) -> str:
    """Return what the numbers of rows are numbers of."""
    return " or ".join(sorted({UNITS[owner.guarantee.unit] for owner in owners}))
