"""``eigenveil mechanisms``."""

from typing import Any

import click

from eigenveil.cli.options import JSON
from eigenveil.cli.printing import say, say_json

__all__ = ["command", "rows"]


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
    Exact numerics cover the computer's rounding; idealised ones are proved for real numbers.
    """
    found = rows()
    if as_json:
        say_json(found)
        return
    form = "{:<11} {:<18} {:<36} {:<7} {:<10} {}"
    say(form.format("releases", "name", "guarantee", "bounds", "numerics", "about"))
    for row in found:
        marked = row | {"name": f"{row['name']} *" if row["auto"] else row["name"]}
        say(form.format(*list(marked.values())[:-1]))
    say("* may be chosen by auto, the default: eigenveil plan says which and why", err=True)
