"""``eigenveil inspect FOLDER``."""

import json
from pathlib import Path

import click

from eigenveil.cli.options import JSON, KEY, PATH

__all__ = ["command"]


@click.command("inspect")
@click.argument("folder", type=PATH)
@KEY
@JSON
def command(folder: Path, key: Path | None, as_json: bool) -> None:
    """Show what a release FOLDER holds and promises, after checking that it is intact."""
    from eigenveil.cli.summary import headline, owners, standing_out
    from eigenveil.release import Release

    facts = Release.inspect(folder, key=key)
    release = Release.load(folder)
    if as_json:
        click.echo(json.dumps({**facts, "stand_out": standing_out(release)}, indent=2))
        return
    click.echo(f"released     {headline(release)}")
    click.echo(f"created      {facts['created']} by eigenveil {facts['library']}")
    click.echo(f"fingerprint  {facts['fingerprint']}")
    click.echo(f"signature    {facts['signature']}")
    click.echo("settings")
    for name, value in facts["settings"].items():
        if value is not None:
            click.echo(f"  {name:<18} {json.dumps(value)}")
    click.echo("arrays")
    part = facts["settings"].get("centring") == "inside"
    for name, array in facts["arrays"].items():
        known = "  (inside the common directions only)" * (part and name in ("mean", "location"))
        click.echo(f"  {name:<26} {' x '.join(map(str, array['shape']))}{known}")
    for line in owners(release):
        click.echo(line)
    click.echo(f"guarantee    {facts['guarantee']['sentence']}")
