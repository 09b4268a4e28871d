"""``eigenveil report FOLDER``."""

from pathlib import Path

import click

from eigenveil.cli.options import PATH
from eigenveil.cli.printing import say
from eigenveil.exceptions import InvalidParameterError

__all__ = ["command"]


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
def command(folder: Path, output: Path | None, ledger: Path | None, figures: Path | None) -> None:
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
