"""``eigenveil verify FOLDER``."""

from pathlib import Path

import click

from eigenveil.cli.options import KEY, PATH
from eigenveil.cli.printing import say

__all__ = ["command"]


@click.command("verify")
@click.argument("folder", type=PATH)
@click.option("--fingerprint", help="Fingerprint that you noted, to compare with.")
@click.option(
    "--ledger",
    type=PATH,
    metavar="FILE",
    help="Check that this ledger holds the charge that the release names.",
)
@click.option(
    "--journal",
    type=PATH,
    metavar="FOLDER",
    help="Recompute the release from the signed uploads in this server's folder (secure sums).",
)
@KEY
def command(
    folder: Path,
    fingerprint: str | None,
    ledger: Path | None,
    journal: Path | None,
    key: Path | None,
) -> None:
    """Check that a release FOLDER is complete, unaltered and consistent.

    Says first whether anybody could have made it, then what was checked and what was not. A page
    that another version of eigenveil wrote is accepted with --fingerprint or --key only; without
    them the exit code is 7.
    """
    from eigenveil.cli.summary import owners
    from eigenveil.privacy.ledger import Ledger
    from eigenveil.release.artefact import Release
    from eigenveil.release.receipts import require_paid

    verdict = Release.examine(folder, fingerprint=fingerprint, key=key)
    verdict.require_page()
    release = verdict.release
    paid = () if ledger is None else require_paid(release, Ledger(ledger))
    if verdict.about_origin is not None:
        say(verdict.about_origin)
    say(f"{folder}: intact ({release.kind}, {release.mechanism})")
    say("files        checked: they match SHA256SUMS, statement and arrays agree")
    say(f"page         {verdict.about_page}")
    say(f"signature    {verdict.about_signature}")
    say(f"fingerprint  {verdict.fingerprint}, {verdict.about_fingerprint}")
    for entry in paid:
        say(f"ledger       checked: holds entry {entry.number}, {entry.label}, {entry.time}")
    if journal is not None:
        from eigenveil.federated.configuration import JOURNAL
        from eigenveil.federated.secure.recompute import recompute

        uploads = recompute(journal / JOURNAL if journal.is_dir() else journal, release)
        say(f"totals       checked: {uploads} signed uploads make this release")
    say(*release.guarantee.lines(), *owners(release))
