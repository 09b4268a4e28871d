"""``eigenveil mechanisms``."""

from typing import Any

import click

from eigenveil.cli.options import JSON
from eigenveil.cli.printing import say, say_json

__all__ = ["command", "rows"]

_SHOWN = ("releases", "name", "guarantee", "needs_bounds", "numerics", "about")


def rows() -> list[dict[str, Any]]:
    """Return a row for each mechanism of the two estimators, from the registry."""
    from eigenveil.mechanisms.registry import entries

    return [
        {
            "releases": one.releases,
            "name": one.name,
            "guarantee": ", ".join(one.notions),
            "needs_bounds": "no" if one.releases == "components" or one.unit_rows else "yes",
            "numerics": one.numerics.value,
            "pure_numerics": (one.pure_numerics or one.numerics).value if one.has_pure else None,
            "about": one.about,
            "auto": bool(one.auto),
        }
        for one in entries()
    ]


@click.command("mechanisms")
@JSON
def command(as_json: bool) -> None:
    """List all mechanisms of fit (components) and covariance.

    The default, auto, chooses among those "in auto" by public numbers: eigenveil plan says which.
    Exact numerics cover the computer's rounding; idealised ones are proved for real numbers. A
    mechanism that is idealised for a pure epsilon only is listed as "exact +".
    """
    found = rows()
    if as_json:
        say_json(found)
        return
    form = "{:<11} {:<18} {:<36} {:<7} {:<10} {}"
    say(form.format("releases", "name", "guarantee", "bounds", "numerics", "about"))
    for row in found:
        marked = row | {"name": f"{row['name']} *" if row["auto"] else row["name"]}
        if row["numerics"] == "exact" and row["pure_numerics"] == "idealised":
            marked["numerics"] = "exact +"
        say(form.format(*(marked[name] for name in _SHOWN)))
    say("* may be chosen by auto, the default: eigenveil plan says which and why", err=True)
    say("+ idealised for a pure epsilon", err=True)
