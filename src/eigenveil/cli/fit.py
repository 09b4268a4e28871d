"""``eigenveil fit DATA -o FOLDER``."""

from typing import Any

import click

from eigenveil.cli.options import (
    SCALE_OF_COMPONENTS,
    SHOW_SCORES,
    SHOW_SCORES_BY,
    VARIANCES,
    K,
    of_release,
    with_options,
)

__all__ = ["command"]


@click.command("fit")
@click.argument("data")
@with_options(K, VARIANCES, SHOW_SCORES, SHOW_SCORES_BY, *of_release(SCALE_OF_COMPONENTS))
@click.pass_context
def command(ctx: click.Context, /, data: str, k: int | str | None, **options: Any) -> None:
    """Release principal components of DATA.

    DATA is a CSV, parquet, .xlsx, .npy or .npz file, or a folder of parquet files. With - a CSV
    table is read from standard input, into memory. Give a budget and a new folder. No bounds are
    needed.
    """
    from eigenveil.cli.releasing import release
    from eigenveil.cli.rows import by_levels
    from eigenveil.estimators.pca import PrivatePCA

    options = by_levels(options)
    release(PrivatePCA, ctx, data, n_components=k, **options)
