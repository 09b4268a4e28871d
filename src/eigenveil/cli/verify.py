"""``eigenveil verify FOLDER``."""

from pathlib import Path

import click

from eigenveil.cli.options import KEY, PATH
from eigenveil.cli.printing import say

__all__ = ["command"]


@click.command("verify")
@click.argument("folder", type=PATH)
@click.option("--fingerprint", help="Fingerprint that you noted, to compare with.")
@click.option("--old-page", is_flag=True, help="Accept a page of an older format, unchecked.")
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
    old_page: bool,
    journal: Path | None,
    key: Path | None,
) -> None:
    """Check that a release FOLDER is complete, unaltered and consistent.

    Says what was checked and what was not.
    """
    from eigenveil.cli.summary import owners
    from eigenveil.exceptions import VerificationError
    from eigenveil.release import Release

    verdict = Release.examine(folder, fingerprint=fingerprint, key=key)
    if not (verdict.page_checked or old_page):
        raise VerificationError(
            "report.html has an older format and could say anything: check the rest with "
            "--old-page, and make a new page with eigenveil report -o"
        )
    release = verdict.release
    missing = "" if verdict.page_checked else ", page not checked"
    say(f"{folder}: intact ({release.kind}, {release.mechanism}){missing}")
    say("files        checked: they match SHA256SUMS, statement and arrays agree")
    say(f"page         {verdict.about_page}")
    say(f"signature    {verdict.about_signature}")
    say(f"fingerprint  {verdict.fingerprint}, {verdict.about_fingerprint}")
    if journal is not None:
        from eigenveil.federated.configuration import JOURNAL
        from eigenveil.federated.secure.recompute import recompute

        uploads = recompute(journal / JOURNAL if journal.is_dir() else journal, release)
        say(f"totals       checked: {uploads} signed uploads make this release")
    say(*release.guarantee.lines(), *owners(release))
