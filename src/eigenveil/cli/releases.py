"""``eigenveil fit``, ``covariance`` and ``regress``: release a table once."""

from pathlib import Path
from typing import Any, Literal

import click

from eigenveil.cli.options import (
    ABOUT,
    ADJACENCY,
    AS_WRITTEN,
    BOUNDS,
    BUDGET,
    CONFIG,
    DROP,
    INVALID,
    JSON,
    LEDGER,
    LOCATED,
    NAMES,
    OUTPUT,
    SCALE_OF_COMPONENTS,
    SCALE_OF_COVARIANCE,
    SHOW_SCORES,
    SHOW_SCORES_BY,
    SIGN,
    STATED_LEVELS,
    UNIT,
    VARIANCES,
    K,
    numbers,
    of_release,
    with_options,
)
from eigenveil.cli.values import Names, PerColumn


@click.command("fit")
@click.argument("data")
@with_options(K, VARIANCES, SHOW_SCORES, SHOW_SCORES_BY, *of_release(SCALE_OF_COMPONENTS))
@click.pass_context
def fit(ctx: click.Context, /, data: str, k: int | str | None, **options: Any) -> None:
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


@click.command("covariance")
@click.argument("data")
@with_options(*of_release(SCALE_OF_COVARIANCE))
@click.pass_context
def covariance(ctx: click.Context, /, data: str, **options: Any) -> None:
    """Release the covariance matrix of DATA.

    DATA is a CSV, parquet, .xlsx, .npy or .npz file, or a folder of parquet files. With - a CSV
    table is read from standard input, into memory. Give a budget and a new folder. No bounds are
    needed.
    """
    from eigenveil.cli.releasing import release
    from eigenveil.estimators.covariance import PrivateCovariance

    release(PrivateCovariance, ctx, data, **options)


@click.command("regress")
@click.argument("data")
@with_options(
    click.option(
        "--target",
        type=Names(),
        metavar="Y[,Y...]",
        required=True,
        help="Column to predict, or several.",
    ),
    NAMES,
    DROP,
    STATED_LEVELS,
    *AS_WRITTEN,
    *BUDGET,
    BOUNDS,
    click.option(
        "--target-bounds",
        type=PerColumn(2, "LOW,HIGH or name=low:high,name=low:high"),
        metavar="LOW,HIGH",
        help="Public range of the target; needed for small tables only.",
    ),
    numbers("--scale", "Divide columns by these numbers; private finds them.", "private"),
    click.option("--row-norm", type=float, metavar="R", help="Clip scaled rows at this length."),
    click.option(
        "--alpha",
        type=float,
        metavar="A",
        help="Ridge penalty, as a share of the mean squared length of rows. Found by default.",
    ),
    ADJACENCY,
    LOCATED,
    click.option(
        "--means-alone",
        is_flag=True,
        help="Release the mean of the target where no coefficients are possible.",
    ),
    UNIT,
    *INVALID,
    LEDGER,
    SIGN,
    *ABOUT,
    OUTPUT,
    CONFIG,
    JSON,
)
@click.pass_context
def regress(
    ctx: click.Context,
    /,
    data: str,
    target: tuple[str, ...],
    columns: tuple[str, ...] | None,
    unit: str | None,
    output: Path,
    ledger: Path | None,
    sign: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Release a linear regression of a column of DATA on the others.

    DATA is a CSV or parquet file, or - for a CSV table on standard input (held in memory). Give a
    budget, a target and a new folder. No bounds are needed.
    """
    from eigenveil.cli.progress import watched
    from eigenveil.cli.releasing import accounted, expected_size, keep, place_for, put_budget, tell
    from eigenveil.cli.rows import ROW_OPTIONS, open_table
    from eigenveil.cli.values import per_column
    from eigenveil.estimators.regression import PrivateRegression
    from eigenveil.mechanisms.linear_rows import reordered
    from eigenveil.privacy.account import Account
    from eigenveil.privacy.adjacency import Adjacency
    from eigenveil.release.content import ABOUT as SAID
    from eigenveil.release.content import about_settings
    from eigenveil.release.signature import private_key
    from eigenveil.rows.column_names import asking_for_regression

    with place_for(output) as place:
        key = None if sign is None else private_key(sign)
        account = None if ledger is None else Account(ledger)
        put_budget(ctx, options)
        given = {name: value for name, value in options.items() if value is not None}
        wanted = None if columns is None else (*dict.fromkeys((*columns, *target)),)
        zero = given.get("on_invalid") == "zero"
        text: Literal["refused", "invalid"] = "invalid" if zero else "refused"
        rows = {name: given.pop(name, None) for name in ROW_OPTIONS if name in given}
        with asking_for_regression(target):
            source = open_table(data, text=text, columns=wanted, unit=unit, **rows)
        names = reordered(source, target).schema.feature_names or ()
        features = names[: -len(target)]
        for name, among in (("bounds", features), ("scale", features), ("target_bounds", target)):
            if name in given:
                given[name] = per_column(f"--{name.replace('_', '-')}", given[name], among)
        about = {name: given.pop(name, None) for name in SAID}
        about_settings({}, **about)  # refused before anything is charged
        private = PrivateRegression(**given, ledger=account)
        place.make_room(expected_size("regression", len(features), len(target), names))
        with accounted(account, place):
            neighbours = Adjacency.parse(private.adjacency)
            public = neighbours.count_is_public and unit is None
            with watched(source, count_is_public=public) as watched_rows:
                private.fit(watched_rows, list(target) if len(target) > 1 else target[0])
            released = private.release_.described(**about)
            keep(released, place, key)
            tell(released, output, account, sign, as_json=as_json)
