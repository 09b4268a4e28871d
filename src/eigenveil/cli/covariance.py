"""``eigenveil covariance DATA -o FOLDER``."""

from typing import Any

import click

from eigenveil.cli.options import SCALE_OF_COVARIANCE, of_release, with_options

__all__ = ["command"]


@click.command("covariance")
@click.argument("data")
@with_options(*of_release(SCALE_OF_COVARIANCE))
@click.pass_context
def command(ctx: click.Context, /, data: str, **options: Any) -> None:
    """Release the covariance matrix of DATA.

    DATA is a CSV, parquet, .xlsx, .npy or .npz file, or a folder of parquet files. With - a CSV
    table is read from standard input, into memory. Give a budget and a new folder. No bounds are
    needed.
    """
    from eigenveil.cli.releasing import release
    from eigenveil.estimators.covariance import PrivateCovariance

    release(PrivateCovariance, ctx, data, **options)
