"""``eigenveil sample FILE``."""

from pathlib import Path

import click

from eigenveil.cli.options import PATH
from eigenveil.cli.printing import say
from eigenveil.exceptions import InvalidParameterError

__all__ = ["command", "write_sample"]


@click.command("sample")
@click.argument("file", type=PATH)
@click.option(
    "--rows",
    type=click.IntRange(1, 1_000_000),
    default=20_000,
    show_default=True,
    help="Number of admissions.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=1,
    show_default=True,
    help="Seed. Another one makes another table of the same kind.",
)
def command(file: Path, rows: int, seed: int) -> None:
    """Write a made-up hospital table to try things on: FILE is a new CSV file.

    Fifteen columns with an id, a date, categories, missing cells and values such as <0.5. The same
    rows and seed give the same file. Nobody in it exists.
    """
    columns = write_sample(file, rows, seed)
    say(f"{file}: {rows:,} made-up admissions in {columns} columns; nobody in it exists")


def write_sample(file: Path, rows: int, seed: int) -> int:
    """Write the made-up table to a new CSV file; return its number of columns."""
    import csv
    import io

    from eigenveil.datasets.patients import Patients
    from eigenveil.storage.paths import require_new, write_new

    if file.suffix.lower() != ".csv":
        raise InvalidParameterError(f"{file.name}: give a name in .csv")
    require_new(file)
    table = Patients(rows, seed)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.names)
    writer.writerows(table.records())
    write_new({file: text.getvalue().encode("utf-8")})
    return len(table.names)
