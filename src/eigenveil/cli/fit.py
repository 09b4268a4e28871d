"""``eigenveil fit DATA -o FOLDER``."""

from typing import Any

import click

from eigenveil.cli.options import RELEASE, SHOW_SCORES, SHOW_SCORES_BY, VARIANCES, K, with_options

__all__ = ["command"]


@click.command("fit")
@click.argument("data")
@with_options(K, VARIANCES, SHOW_SCORES, SHOW_SCORES_BY, *RELEASE)
@click.pass_context
def command(ctx: click.Context, /, data: str, k: int | str | None, **options: Any) -> None:
    """Release principal components of DATA: a CSV, parquet or .npy file, or - for a CSV table
    on standard input (held in memory).

    Needs a budget and a new folder, and no bound on the records.
    """
    from eigenveil.cli.releasing import release
    from eigenveil.cli.rows import by_levels
    from eigenveil.estimators import PrivatePCA

    options = by_levels(options)
    release(PrivatePCA, ctx, data, n_components=k, **options)
