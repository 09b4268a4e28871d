"""``eigenveil inspect FOLDER``."""

import json
from pathlib import Path

import click

from eigenveil.cli.options import JSON, PATH

__all__ = ["command"]


@click.command("inspect")
@click.argument("folder", type=PATH)
@JSON
def command(folder: Path, as_json: bool) -> None:
    """Show what a release FOLDER holds and promises, after checking that it is intact."""
    from eigenveil.cli.summary import facts, headline
    from eigenveil.release import Release

    release = Release.load(folder)
    fingerprint = Release.fingerprint(folder)
    if as_json:
        stated = {"folder": str(folder), "fingerprint": fingerprint, **facts(release)}
        click.echo(json.dumps(stated, indent=2))
        return
    click.echo(f"released     {headline(release)}")
    click.echo(f"created      {release.created} by eigenveil {release.library}")
    click.echo(f"fingerprint  {fingerprint}")
    click.echo("settings")
    for name, value in release.settings.items():
        if value is not None:
            click.echo(f"  {name:<18} {json.dumps(value)}")
    click.echo("arrays")
    for name, array in release.arrays.items():
        click.echo(f"  {name:<26} {' x '.join(map(str, array.shape))}")
    click.echo(f"guarantee    {release.guarantee.sentence()}")
