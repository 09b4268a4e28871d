"""``eigenveil watch [DATA] --state FILE --horizon DAYS``."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from eigenveil.cli.options import (
    AS_WRITTEN,
    BUDGET,
    CONFIG,
    DROP,
    INVALID,
    JSON,
    LEDGER,
    NAMES,
    PATH,
    UNIT,
    beware,
    bewaring,
    stated_budget,
    with_options,
)
from eigenveil.cli.printing import say
from eigenveil.cli.values import PerColumn, single_numbers

__all__ = ["command"]


@click.command("watch")
@click.argument("data", required=False)
@with_options(
    click.option(
        "--state",
        type=PATH,
        metavar="FILE",
        required=True,
        help="File that keeps the days between calls. It is PRIVATE.",
    ),
    click.option(
        "--horizon",
        type=click.IntRange(1, 10_000),
        required=True,
        help="Largest number of days that may come.",
    ),
    click.option(
        "--k",
        type=click.IntRange(min=1),
        help="Number of components. Without it the covariance is released.",
    ),
    NAMES,
    DROP,
    *AS_WRITTEN,
    *BUDGET,
    click.option(
        "--row-norm",
        type=float,
        help="Clip rows at this distance from the centre. A covariance needs it.",
    ),
    click.option(
        "--centre",
        type=PerColumn(1, "numbers or name=number,name=number"),
        metavar="NUMBERS|name=number,...",
        help="Public centre of the rows; the origin by default.",
    ),
    click.option(
        "--scale",
        type=PerColumn(1, "numbers or name=number,name=number"),
        metavar="NUMBERS|name=number,...",
        help="Divide columns by these numbers.",
    ),
    UNIT,
    click.option(
        "--days-per-group",
        type=click.IntRange(min=1),
        help="With --unit: the largest number of days on which a person counts.",
    ),
    *INVALID,
    click.option(
        "--batch",
        metavar="NAME",
        help="Name of the day; by default that of its file. A second day of this name is refused.",
    ),
    LEDGER,
    click.option("-o", "--output", type=PATH, metavar="FOLDER", help="New folder for the release."),
    CONFIG,
    JSON,
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    data: str | None,
    columns: list[str] | None,
    drop: tuple[str, ...] | None,
    unit: str | None,
    batch: str | None,
    ledger: Path | None,
    output: Path | None,
    as_json: bool,
    k: int | None,
    **options: Any,
) -> None:
    """Add the rows of one day, DATA, and release a fresh answer about all rows so far.

    One budget covers all days of the horizon; it is charged on the first. Without DATA the newest
    release is made again from the state. Give the same options every time, or keep them in a file:
    --config FILE.
    """
    from eigenveil.cli.progress import watched
    from eigenveil.cli.releasing import accounted, tell
    from eigenveil.cli.rows import arrival_label, open_table
    from eigenveil.cli.saving import expected_size, keep, place_for
    from eigenveil.estimators.continual import ContinualCovariance, ContinualPCA
    from eigenveil.privacy.account import Account
    from eigenveil.privacy.budget import Budget

    written = {name: options.pop(name) for name in ("censored", "as_number", "decimal", "encoding")}
    with nullcontext() if output is None else place_for(output) as place:
        account = None if ledger is None else Account(ledger)
        budget = Budget(**stated_budget(ctx)).as_dict()
        options.update(dict.fromkeys(("epsilon", "delta", "rho")), **budget)
        for name in ("scale", "centre"):
            if options[name] is not None:
                options[name] = single_numbers(options[name])
        given = {name: value for name, value in options.items() if value is not None}
        days: Any
        if k is None:
            days = ContinualCovariance(**given, ledger=account)
        else:
            days = ContinualPCA(k, **given, ledger=account)
        source = None
        if data is not None:
            source = open_table(data, columns=columns, drop=drop, unit=unit, **written)
        if place is not None:
            width = days.restore().n_features_in_ if source is None else source.n_columns
            kind = "covariance" if k is None else "pca"
            place.make_room(expected_size(kind, width, k or width))
        beware(budget)
        with bewaring(), accounted(account, place, goes_on=True):
            if source is None or data is None:
                days.restore()
            else:
                with watched(source, count_is_public=unit is None) as rows:
                    days.partial_fit(rows, batch=arrival_label(data, batch))
            if place is not None:
                keep(days.release_, place)
            say(f"day          {days.day_} of {days.horizon}", err=as_json)
            if place is not None:
                tell(days.release_, place.path, account, None, as_json=as_json)
