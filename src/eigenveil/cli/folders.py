"""Commands on release folders: inspect, verify, sign, keygen, report and export."""

import json
from pathlib import Path

import click

from eigenveil.cli.options import JSON, KEY, PATH
from eigenveil.cli.printing import say, say_json
from eigenveil.exceptions import InvalidParameterError


@click.command("inspect")
@click.argument("folder", type=PATH)
@KEY
@JSON
def inspect(folder: Path, key: Path | None, as_json: bool) -> None:
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
def verify(
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
    from eigenveil.release.content import require_paid

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
        from eigenveil.federated.secure.script import recompute
        from eigenveil.storage.paths import JOURNAL

        uploads = recompute(journal / JOURNAL if journal.is_dir() else journal, release)
        say(f"totals       checked: {uploads} signed uploads make this release")
    say(*release.guarantee.lines(), *owners(release))


@click.command("sign")
@click.argument("folder", type=PATH)
@click.option(
    "--key", type=PATH, metavar="KEY.pem", required=True, help="Private key to sign with."
)
def sign(folder: Path, key: Path) -> None:
    """Sign a release FOLDER that is intact and has no signature yet."""
    from eigenveil.release.artefact import Release

    say(f"{folder}: signed by {Release.sign(folder, key)}")


@click.command("keygen")
@click.argument("file", type=PATH)
def keygen(file: Path) -> None:
    """Write a new private key to FILE, and its public key to FILE.pub.

    Sign with the first and keep it secret: whoever has it can sign in your name. Hand out the
    second, and its fingerprint by another way.
    """
    from eigenveil.release.signature import generate_key

    fingerprint = generate_key(file)
    say(f"private key  {file} (keep it secret)")
    say(f"public key   {file}.pub (hand it out)")
    say(f"fingerprint  {fingerprint}")


@click.command("report")
@click.argument("folder", type=PATH)
@click.option("-o", "--output", type=PATH, metavar="PAGE.html", help="New file for the page.")
@click.option(
    "--ledger",
    type=PATH,
    metavar="FILE",
    help="With -o: ledger whose present state the page shows.",
)
@click.option("--figures", type=PATH, metavar="FOLDER", help="Folder to write figures to.")
def report(folder: Path, output: Path | None, ledger: Path | None, figures: Path | None) -> None:
    """Write a page for people, and figures, from a release FOLDER.

    No record is read. Prints the paths of what there is to look at. Without -o that is the page
    inside the folder, if it could be checked.
    """
    from eigenveil import report
    from eigenveil.privacy.ledger import Ledger
    from eigenveil.release.artefact import Release

    verdict = Release.examine(folder)
    release = verdict.release
    inside = ledger is None and folder.is_dir() and verdict.page_checked
    if output is None and not inside:
        why = "this" if verdict.page_checked else "a page that was not checked"
        raise InvalidParameterError(f"{why} needs a new page: name it with -o PAGE.html")
    page = folder / "report.html"
    if output is not None:
        page = report.write(release, output, None if ledger is None else Ledger(ledger))
    drawn = [] if figures is None else report.figures(release, figures)
    for path in (page, *drawn):
        say(path)


FORMATS = ("csv", "parquet", "plink")


@click.command("export")
@click.argument("folder", type=PATH)
@click.argument("file", type=PATH)
@click.option(
    "--format",
    type=click.Choice(FORMATS),
    help="Format of FILE. By default the ending of its name decides.",
)
def export(folder: Path, file: Path, format: str | None) -> None:
    """Write a release FOLDER to a new FILE for other tools.

    Prints what was written. Tables (csv, parquet) hold mean, scale and loadings of each column, or
    the covariance; plink holds the weights for plink2 --score. The promise goes with each: inside,
    or in FILE.statement.txt. An export cannot be verified: hand out the release too.
    """
    from eigenveil.release.artefact import Release
    from eigenveil.release.export import export

    for path in export(Release.load(folder), file, format):
        say(path)
