"""``eigenveil keygen FILE``."""

from pathlib import Path

import click

from eigenveil.cli.options import PATH
from eigenveil.cli.printing import say

__all__ = ["command"]


@click.command("keygen")
@click.argument("file", type=PATH)
def command(file: Path) -> None:
    """Write a new private key to FILE, and its public key to FILE.pub.

    Sign with the first and keep it secret: whoever has it can sign in your name. Hand out the
    second, and its fingerprint by another way.
    """
    from eigenveil.release.signature import generate_key

    fingerprint = generate_key(file)
    say(f"private key  {file} (keep it secret)")
    say(f"public key   {file}.pub (hand it out)")
    say(f"fingerprint  {fingerprint}")
