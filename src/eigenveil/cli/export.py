"""``eigenveil export FOLDER FILE``."""

from pathlib import Path

import click

from eigenveil.cli.options import PATH
from eigenveil.cli.printing import say

__all__ = ["FORMATS", "command"]

FORMATS = ("csv", "parquet", "onnx", "plink")


@click.command("export")
@click.argument("folder", type=PATH)
@click.argument("file", type=PATH)
@click.option(
    "--format",
    type=click.Choice(FORMATS),
    help="Format of FILE. By default the ending of its name decides.",
)
def command(folder: Path, file: Path, format: str | None) -> None:
    """Write a release FOLDER to a new FILE for other tools.

    Prints what was written. Tables (csv, parquet) hold mean, scale and loadings of each column, or
    the covariance. onnx holds the map from rows to scores, plink the weights for plink2 --score.
    The promise goes with each: inside, or in FILE.statement.txt. An export cannot be verified: hand
    out the release too.
    """
    from eigenveil.release.artefact import Release
    from eigenveil.release.export import export

    for path in export(Release.load(folder), file, format):
        say(path)
