"""``eigenveil report FOLDER``."""

import shutil
from pathlib import Path

import click

from eigenveil.cli.options import PATH
from eigenveil.exceptions import InvalidParameterError

__all__ = ["command"]


@click.command("report")
@click.argument("folder", type=PATH)
@click.option("-o", "--output", type=PATH, metavar="PAGE.html", help="A new file for the page.")
def command(folder: Path, output: Path | None) -> None:
    """The page for people of a release FOLDER, after checking that it is intact."""
    from eigenveil.release import Release

    Release.load(folder)
    page = folder / "report.html"
    if output is not None:
        if output.exists():
            raise InvalidParameterError(f"{output} exists already: choose a new file with -o")
        try:
            page = Path(shutil.copyfile(page, output))
        except OSError:
            raise InvalidParameterError(f"cannot write {output}: choose a writable place") from None
    click.echo(page)
