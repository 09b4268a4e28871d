"""``eigenveil verify FOLDER``."""

from pathlib import Path

import click

from eigenveil.cli.options import KEY, PATH

__all__ = ["command"]


@click.command("verify")
@click.argument("folder", type=PATH)
@click.option("--fingerprint", help="Compare with a fingerprint you noted.")
@KEY
def command(folder: Path, fingerprint: str | None, key: Path | None) -> None:
    """Check that a release FOLDER is complete, unaltered and consistent."""
    from eigenveil.cli.summary import owners
    from eigenveil.release import Release

    release = Release.verify(folder, fingerprint=fingerprint, key=key)
    facts = Release.inspect(folder, key=key)
    click.echo(f"{folder}: intact ({release.kind}, {release.mechanism}), {facts['signature']}")
    click.echo(f"fingerprint {facts['fingerprint']}")
    click.echo("\n".join([*release.guarantee.lines(), *owners(release)]))
