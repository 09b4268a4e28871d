"""``eigenveil covariance DATA -o FOLDER``."""

from typing import Any

import click

from eigenveil.cli.options import RELEASE, with_options

__all__ = ["command"]


@click.command("covariance")
@click.argument("data")
@with_options(*RELEASE)
@click.pass_context
def command(ctx: click.Context, /, data: str, **options: Any) -> None:
    """Release the covariance matrix of DATA: a CSV, parquet or .npy file, or - for a CSV table
    on standard input (held in memory).

    Needs a budget and a new folder, and no bound on the records.
    """
    from eigenveil.cli.releasing import release
    from eigenveil.estimators import PrivateCovariance

    release(PrivateCovariance, ctx, data, **options)
