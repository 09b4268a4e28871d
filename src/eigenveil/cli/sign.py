"""``eigenveil sign FOLDER --key FILE``."""

from pathlib import Path

import click

from eigenveil.cli.options import PATH
from eigenveil.cli.printing import say

__all__ = ["command"]


@click.command("sign")
@click.argument("folder", type=PATH)
@click.option(
    "--key", type=PATH, metavar="KEY.pem", required=True, help="Private key to sign with."
)
def command(folder: Path, key: Path) -> None:
    """Sign a release FOLDER that is intact and has no signature yet."""
    from eigenveil.release.artefact import Release

    say(f"{folder}: signed by {Release.sign(folder, key)}")
