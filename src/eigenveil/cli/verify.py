"""``eigenveil verify FOLDER``."""

from pathlib import Path
from typing import Any

import click

from eigenveil.cli.options import PATH

__all__ = ["command"]


@click.command("verify")
@click.argument("folder", type=PATH)
@click.option("--fingerprint", help="Compare with a fingerprint you noted.")
@click.option(
    "--key", type=PATH, metavar="PUB.pem", help="Check the signature with this public key."
)
def command(folder: Path, fingerprint: str | None, key: Path | None) -> None:
    """Check that a release FOLDER is complete, unaltered and consistent."""
    from eigenveil.release import Release

    signed: dict[str, Any] = {} if key is None else {"key": key}
    release = Release.verify(folder, fingerprint=fingerprint, **signed)
    click.echo(f"{folder}: intact ({release.kind}, {release.mechanism})")
    click.echo(f"fingerprint {Release.fingerprint(folder)}")
    click.echo(release.guarantee.sentence())
