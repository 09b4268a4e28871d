"""``eigenveil stream`` and ``watch``: release rows that arrive over days."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from eigenveil.cli.options import (
    ABOUT,
    AS_WRITTEN,
    BUDGET,
    CELLS,
    CONFIG,
    DROP,
    INVALID,
    JSON,
    LEDGER,
    LOCATED,
    NAMES,
    PATH,
    ROW_NORM,
    SCALE_OF_STREAM,
    UNIT,
    Option,
    beware,
    bewaring,
    numbers,
    with_options,
)
from eigenveil.cli.printing import say
from eigenveil.cli.values import single_numbers
from eigenveil.exceptions import InvalidParameterError
from eigenveil.text import plural

_OUTPUT = click.option(
    "-o", "--output", type=PATH, metavar="FOLDER", help="New folder for the release."
)


def _state(what: str) -> Option:
    """Return the option for the file that is continued."""
    return click.option(
        "--state",
        type=PATH,
        metavar="FILE",
        required=True,
        help=f"File that keeps {what} between calls. It is PRIVATE.",
    )


@click.command("stream")
@click.argument("data", required=False)
@with_options(
    _state("the stream"),
    click.option("--k", type=click.IntRange(min=1), required=True, help="Number of components."),
    NAMES,
    *CELLS,
    *BUDGET,
    click.option(
        "--mechanism",
        default="oja",
        show_default=True,
        help="How a batch corrects the components: oja, adaptive-oja or tangent-oja.",
    ),
    ROW_NORM,
    LOCATED,
    SCALE_OF_STREAM,
    *INVALID,
    UNIT,
    click.option(
        "--max-arrivals",
        type=click.IntRange(min=1),
        metavar="N",
        help="With --unit: the largest number of calls in which a person is used.",
    ),
    click.option("--batch-size", type=click.IntRange(min=1), help="Number of rows in every batch."),
    click.option(
        "--batch",
        metavar="NAME",
        help="Name of what arrives; by default that of its file. A second arrival of this name is "
        "refused.",
    ),
    click.option("--finish", is_flag=True, help="Use the rows that wait, then close the stream."),
    LEDGER,
    *ABOUT,
    _OUTPUT,
    CONFIG,
    JSON,
)
@click.pass_context
def stream(
    ctx: click.Context,
    /,
    data: str | None,
    state: Path,
    batch: str | None,
    finish: bool,
    ledger: Path | None,
    output: Path | None,
    as_json: bool,
    k: int,
    **options: Any,
) -> None:
    """Add the rows of DATA, which arrived since the last call, and release components of all.

    One budget covers the whole stream; it is charged at the first batch. Every row is used once.
    Without DATA the newest release is made again from the state.
    Give the same options every time, or keep them in a file: --config FILE.
    """
    from eigenveil.cli.progress import watched
    from eigenveil.cli.releasing import accounted, expected_size, keep, place_for, put_budget, tell
    from eigenveil.cli.rows import ROW_OPTIONS, arrival_label, open_table
    from eigenveil.estimators.results import warn_of_components
    from eigenveil.estimators.streaming import StreamingPCA
    from eigenveil.privacy.account import Account
    from eigenveil.release.content import ABOUT as WORDS
    from eigenveil.release.content import about_settings

    reading = {name: options.pop(name) for name in ROW_OPTIONS}
    about = {name: options.pop(name) for name in WORDS}
    about_settings({}, **about)  # refused before anything is charged
    if data is None and not finish and output is None:
        raise InvalidParameterError(
            "nothing to do: give a file of rows, --finish, or -o for the newest release"
        )
    with nullcontext() if output is None else place_for(output) as place:
        account = None if ledger is None else Account(ledger)
        budget = put_budget(ctx, options)
        if options["scale"] is not None:
            options["scale"] = single_numbers(options["scale"])
        for name in ("on_invalid", "on_missing"):
            if options[name] is None:  # the estimator's own
                del options[name]
        pca = StreamingPCA(k, **options, state=state, ledger=account)
        source = None if data is None else open_table(data, **reading)
        if place is not None:
            width = pca.restore().n_features_in_ if source is None else source.n_columns
            place.make_room(expected_size("pca", width, k))
        beware(budget)
        with bewaring(), accounted(account, place, goes_on=True):
            if source is not None and data is not None:
                with watched(source, count_is_public=reading["unit"] is None) as rows:
                    pca.partial_fit(rows, batch=arrival_label(data, batch))
            if finish:
                pca.finish()
            elif source is None:
                pca.restore()
            lost = f", {pca.n_lost_} lost with a call that was cut off" if pca.n_lost_ else ""
            used = f"{pca.n_samples_} {plural('row', pca.n_samples_)} used"
            waits = "waits" if pca.n_buffered_ == 1 else "wait"
            more = f", {pca.n_needed_} more until the next release" if pca.n_needed_ else ""
            standing = f"{used}, {pca.n_buffered_} {waits}{lost}{more}"
            if place is not None:
                if not hasattr(pca, "release_"):
                    raise InvalidParameterError(
                        f"no batch is full yet, so there is nothing to release: {standing}"
                    )
                keep(pca.release_.described(**about), place)
                if not finish:
                    warn_of_components(pca)
            say(f"stream       {standing}", err=as_json)
            if place is not None:
                tell(pca.release_, place.path, account, None, as_json=as_json)


@click.command("watch")
@click.argument("data", required=False)
@with_options(
    _state("the days"),
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
    numbers("--centre", "Public centre of the rows; the origin by default."),
    numbers("--scale", "Divide columns by these numbers."),
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
    _OUTPUT,
    CONFIG,
    JSON,
)
@click.pass_context
def watch(
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
    from eigenveil.cli.releasing import accounted, expected_size, keep, place_for, put_budget, tell
    from eigenveil.cli.rows import arrival_label, open_table
    from eigenveil.estimators.continual import ContinualCovariance, ContinualPCA
    from eigenveil.privacy.account import Account

    written = {name: options.pop(name) for name in ("censored", "as_number", "decimal", "encoding")}
    with nullcontext() if output is None else place_for(output) as place:
        account = None if ledger is None else Account(ledger)
        budget = put_budget(ctx, options)
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
