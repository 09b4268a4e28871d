"""``eigenveil verify FOLDER``."""

from pathlib import Path

import click

from eigenveil.release import Release

__all__ = ["command"]


@click.command("verify")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--fingerprint", help="Compare with a fingerprint you noted.")
def command(folder: Path, fingerprint: str | None) -> None:
    """Check that a release FOLDER is complete, unaltered and consistent."""
    release = Release.verify(folder, fingerprint=fingerprint)
    click.echo(f"{folder}: intact ({release.kind}, {release.mechanism})")
    click.echo(f"fingerprint {Release.fingerprint(folder)}")
    click.echo(release.guarantee.sentence())
