"""``eigenveil inspect FOLDER``."""

import json
from pathlib import Path

import click

from eigenveil.cli.options import JSON, KEY, PATH
from eigenveil.cli.printing import say, say_json

__all__ = ["command"]


@click.command("inspect")
@click.argument("folder", type=PATH)
@KEY
@JSON
def command(folder: Path, key: Path | None, as_json: bool) -> None:
    """Show what a release FOLDER holds and promises, after checking that it is intact."""
    from eigenveil.cli.summary import (
        coefficients,
        components,
        distinguishable_components,
        headline,
        owners,
        target,
    )
    from eigenveil.release.artefact import Release
    from eigenveil.report.views import left_out

    verdict = Release.examine(folder, key=key)
    release, facts = verdict.release, verdict.as_dict()
    if as_json:
        out = list(left_out(release.settings, release.arrays))
        say_json({**facts, "stand_out": distinguishable_components(release), "left_out": out})
        return
    say(f"released     {headline(release)}", *target(release))
    if table := components(release) or coefficients(release):
        say("", *table, "")
    say(f"created      {facts['created']} by eigenveil {facts['library']}")
    say(f"fingerprint  {facts['fingerprint']}")
    say(f"signature    {facts['signature']}")
    say(f"page         {facts['page']}")
    say("settings")
    for name, value in facts["settings"].items():
        if value is not None:
            say(f"  {name:<18} {json.dumps(value)}")
    say("arrays")
    part = facts["settings"].get("centring") == "inside"
    for name, array in facts["arrays"].items():
        known = "  (inside the common directions only)" * (part and name in ("mean", "location"))
        say(f"  {name:<26} {' x '.join(map(str, array['shape']))}{known}")
    for line in owners(release):
        say(line)
    say(f"guarantee    {facts['guarantee']['sentence']}")
